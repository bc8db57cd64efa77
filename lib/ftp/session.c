/* SPDX-License-Identifier: MIT */
/* autobuf_ftp_*(): the session, and the exchange over its control connection. */
#include "ftp.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../measure/inband.h"
#include "../measure/limits.h"
#include "../measure/wait.h"

#define SERVER_MOST_BYTES 16000000U /* a client's word is worth: 1.6 Gbit/s over 100 ms */

int ab_ftp_limits(const struct autobuf_ftp *f, struct autobuf_limits *limits)
{
    int error;

    *limits = f->host;
    error = ab_limits_retry(limits);
    if (error < 0 || !f->options.most_bytes)
        return error;
    limits->request_most_bytes = f->options.most_bytes;
    limits->snd_settable_bytes = ab_min(limits->snd_settable_bytes, f->options.most_bytes);
    limits->rcv_settable_bytes = ab_min(limits->rcv_settable_bytes, f->options.most_bytes);
    return 0;
}

static int read_control(struct autobuf_ftp *f)
{
    struct sockaddr_storage peer = {0};
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    socklen_t len = sizeof peer;
    int error = autobuf_limits_socket(f->fd, &state);

    if (error < 0)
        return error;
    if (getpeername(f->fd, (struct sockaddr *)&peer, &len) < 0)
        return -errno;
    error = ab_address_copy((struct sockaddr *)&peer, len, &f->peer);
    return error < 0 ? error : autobuf_limits_host(&f->host);
}

int autobuf_ftp_open(struct autobuf_ftp **ftp, uint32_t role, int control_fd,
                     const struct autobuf_ftp_options *theirs)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ftp *f;
    int error;

    *ftp = NULL;
    if ((theirs && !ab_struct_in(&options, sizeof options, theirs)) ||
        (role != AUTOBUF_FTP_CLIENT && role != AUTOBUF_FTP_SERVER) ||
        !options.read != !options.write)
        return -EINVAL;
    if (ab_is_off())
        return AUTOBUF_E_OFF;
    f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->role = role;
    f->options = options;
    if (role == AUTOBUF_FTP_SERVER && !options.most_bytes)
        f->options.most_bytes = SERVER_MOST_BYTES;
    f->log = (struct ab_log){options.log, options.log_user};
    f->owner = getpid();
    f->fd = control_fd;
    f->rtt_ns = AUTOBUF_NS_UNSET;
    f->host.size = sizeof f->host;
    error = read_control(f);
    if (error < 0) {
        free(f);
        return error;
    }
    *ftp = f;
    return 0;
}

void ab_ftp_close_inband(struct autobuf_ftp *f)
{
    if (f->inband && f->options.read && f->owner == getpid())
        autobuf_inband_restore(f->fd, f->prepared);
    autobuf_inband_close(f->inband);
    f->inband = NULL;
}

void autobuf_ftp_close(struct autobuf_ftp *f)
{
    if (!f)
        return;
    autobuf_ftp_data_end(f);
    ab_ftp_close_inband(f);
    free(f);
}

/* ------------------------------------------------------------------------------ the exchange */

int ab_ftp_tell(struct autobuf_ftp *f)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    int error = ab_inband_read_facts(f->inband, f->fd, &facts);

    if (error == 0 && facts.segment_bytes > f->options.record_bytes)
        facts.segment_bytes -= f->options.record_bytes;
    return error < 0 ? error : autobuf_inband_tell(f->inband, &facts);
}

static int write_lines(struct autobuf_ftp *f, uint64_t now_ns, const void *data, size_t len)
{
    int64_t written = f->options.write(f->options.io_user, data, len,
                                       f->inband->facts.segment_bytes,
                                       autobuf_inband_deadline_ns(f->inband));

    if (written <= 0)
        return written < 0 ? (int)written : -ECONNRESET;
    autobuf_inband_sent(f->inband, now_ns, ab_min((uint64_t)written, len));
    return 0;
}

static int read_lines(struct autobuf_ftp *f)
{
    char buf[16384];
    size_t wanted = ab_min(autobuf_inband_wanted(f->inband), sizeof buf);
    uint64_t stamp_ns = ab_clock_monotonic_ns();
    int64_t got;

    got = f->options.read(f->options.io_user, buf, wanted, autobuf_inband_deadline_ns(f->inband),
                          &stamp_ns);
    if (got > (int64_t)wanted)
        return -EINVAL;
    if (got >= 0) {
        ab_ftp_tell(f);
        got = autobuf_inband_input(f->inband, stamp_ns, buf, (size_t)got);
    }
    return got < 0 ? (int)got : 0;
}

static int run_records(struct autobuf_ftp *f)
{
    int result;

    while ((result = autobuf_inband_state(f->inband)) == 0) {
        uint64_t now_ns = ab_clock_monotonic_ns();
        const void *data;
        size_t len = autobuf_inband_output(f->inband, now_ns, &data);

        if (len > 0)
            result = write_lines(f, now_ns, data, len);
        else if (autobuf_inband_state(f->inband) == 0)
            result = read_lines(f);
        if (result < 0)
            return result;
    }
    return result;
}

static int run_socket(struct autobuf_ftp *f)
{
    int result;

    while ((result = autobuf_inband_step(f->inband, ab_clock_monotonic_ns())) == 0) {
        result = ab_wait(f->fd, autobuf_inband_events(f->inband),
                         autobuf_inband_deadline_ns(f->inband));
        if (result < 0)
            return result;
    }
    return result;
}

int ab_ftp_run(struct autobuf_ftp *f)
{
    int result = f->options.read ? run_records(f) : run_socket(f);

    if (result < 0)
        ab_ftp_close_inband(f);
    return result;
}

static int open_records(struct autobuf_ftp *f, uint32_t role,
                        const struct autobuf_inband_options *options)
{
    int error = autobuf_inband_open_pure(&f->inband, role, ab_clock_monotonic_ns(), options);

    if (error == 0)
        error = ab_ftp_tell(f);
    if (error == 0)
        error = f->prepared = autobuf_inband_prepare(f->fd);
    if (error < 0) {
        autobuf_inband_close(f->inband);
        f->inband = NULL;
        return error;
    }
    return 0;
}

int ab_ftp_open_inband(struct autobuf_ftp *f, struct autobuf_inband_options *options)
{
    uint32_t role = f->role == AUTOBUF_FTP_CLIENT ? AUTOBUF_INBAND_INITIATOR
                                                  : AUTOBUF_INBAND_RESPONDER;

    options->dress = AUTOBUF_INBAND_FTP;
    options->log = f->options.log;
    options->log_user = f->options.log_user;
    return f->options.read ? open_records(f, role, options)
                           : autobuf_inband_open(&f->inband, role, f->fd, options);
}
