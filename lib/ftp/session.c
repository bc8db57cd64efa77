/* SPDX-License-Identifier: MIT */
/* autobuf_ftp_*(): the session. */
#include "ftp.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../base/address.h"
#include "../kernel/limits.h"
#include "../plan/plan.h"

#define SERVER_MAX_BYTES 16000000U /* largest buffer for a client: receives 1.3 Gbit/s over 100 ms */

static int read_control(struct autobuf_ftp *f)
{
    struct sockaddr_storage peer = {0};
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    socklen_t len = sizeof peer;
    int error = autobuf_socket_state(f->fd, &state);

    if (error < 0)
        return error;
    if (getpeername(f->fd, (struct sockaddr *)&peer, &len) < 0)
        return -errno;
    error = ab_address_copy((struct sockaddr *)&peer, len, &f->peer);
    return error < 0 ? error : ab_limits_read(&f->host);
}

int autobuf_ftp_open(struct autobuf_ftp **ftp, uint32_t role, int control_fd, const struct autobuf_ftp_options *theirs)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ftp *f;
    int error;

    if (!ftp)
        return -EINVAL;
    *ftp = NULL;
    if ((theirs && !ab_struct_in(&options, sizeof options, theirs)) ||
        (role != AUTOBUF_FTP_CLIENT && role != AUTOBUF_FTP_SERVER) ||
        !options.read != !options.write || options.intent & ~AB_INTENT_MODERATES || !ab_intent_known(options.intent))
        return -EINVAL;
    if (autobuf_is_off())
        return AUTOBUF_E_OFF;
    f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->role = role;
    f->options = options;
    if (role == AUTOBUF_FTP_SERVER && !options.most_bytes)
        f->options.most_bytes = SERVER_MAX_BYTES;
    f->log = (struct ab_log){options.log, options.log_user};
    f->owner = getpid();
    f->fd = control_fd;
    f->rtt_ns = AUTOBUF_NS_UNSET;
    error = read_control(f);
    if (error < 0) {
        free(f);
        return error;
    }
    *ftp = f;
    return 0;
}

void autobuf_ftp_close(struct autobuf_ftp *f)
{
    if (!f)
        return;
    autobuf_ftp_data_end(f);
    ab_ftp_close_inband(f);
    free(f);
}
