/* SPDX-License-Identifier: MIT */
/* autobuf_ftp_*(): the server, which answers. */
#include "ftp.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../plan/plan.h"

#define COMMAND "SITE AUTOBUF"

/* The windows that a client asks for are bounded by the measurements of this session and by this host's limits. */
static void set_wanted_windows(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes)
{
    struct autobuf_ftp *f = user;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    struct autobuf_limits limits;
    struct autobuf_plan plan;

    f->rcv_wanted_bytes = ab_min(*rcv_bytes, ab_inband_max_bdp(f->inband, false));
    f->snd_wanted_bytes = ab_min(*snd_bytes, ab_inband_max_bdp(f->inband, true));
    *rcv_bytes = *snd_bytes = 0;
    if (ab_ftp_limits(f, &limits) < 0)
        return;
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, &plan);
    ab_plan_windows(f->snd_wanted_bytes, f->rcv_wanted_bytes, &limits, &socket, 0, &plan);
    *rcv_bytes = plan.rcv_request_bytes;
    *snd_bytes = plan.snd_request_bytes;
    ab_log(&f->log, "the client wants windows: receive %llu, send %llu; buffers to be set: receive %llu, send %llu",
           (unsigned long long)f->rcv_wanted_bytes, (unsigned long long)f->snd_wanted_bytes,
           (unsigned long long)*rcv_bytes, (unsigned long long)*snd_bytes);
}

static int open_responder(struct autobuf_ftp *f)
{
    struct autobuf_limits limits;
    int error = ab_ftp_limits(f, &limits);

    if (error == 0)
        error = ab_ftp_open_inband(f);
    if (error < 0)
        return error;
    f->inband->responder = (struct ab_responder){.set = set_wanted_windows, .set_user = f,
                                                 .rcv_max_bytes = limits.rcv_settable_bytes,
                                                 .snd_max_bytes = limits.snd_settable_bytes};
    return 0;
}

/* Rewrites the command as the exchange reads it: in capitals, with CRLF. Returns its length; 0: another command. */
static size_t normalise(const char *line, size_t len, char *to, size_t cap)
{
    size_t head = strlen(COMMAND);

    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    if (len < head || len + 2 > cap || strncasecmp(line, COMMAND, head) != 0 ||
        (len > head && line[head] != ' '))
        return 0;
    for (size_t i = 0; i < len; i++)
        to[i] = line[i] >= 'a' && line[i] <= 'z' ? (char)(line[i] - 'a' + 'A') : line[i];
    memcpy(to + len, "\r\n", 2);
    return len + 2;
}

int autobuf_ftp_answer(struct autobuf_ftp *f, const char *line, size_t len)
{
    char command[AB_LINE_BYTES];
    size_t command_bytes;
    int64_t result;

    if (!f || !line || f->role != AUTOBUF_FTP_SERVER)
        return -EINVAL;
    if (f->owner != getpid())
        return AUTOBUF_E_FORKED;
    command_bytes = normalise(line, len, command, sizeof command);
    if (command_bytes == 0)
        return 0;
    if (f->inband)
        (void)ab_inband_refresh(f->inband);
    else if (open_responder(f) < 0)
        return 0; /* the program answers as to an unknown command */
    result = autobuf_inband_input(f->inband, autobuf_now_ns(), command, command_bytes);
    return result < 0 ? (int)result : ab_ftp_run(f);
}
