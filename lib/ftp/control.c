/* SPDX-License-Identifier: MIT */
/* The exchange over the control connection. */
#include "ftp.h"

#include "../kernel/limits.h"

void ab_ftp_close_inband(struct autobuf_ftp *f)
{
    autobuf_inband_close(f->inband);
    f->inband = NULL;
}

int ab_ftp_run(struct autobuf_ftp *f)
{
    int result = ab_inband_run(f->inband);

    if (result < 0)
        ab_ftp_close_inband(f);
    return result;
}

int ab_ftp_open_inband(struct autobuf_ftp *f)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    uint32_t role = f->role == AUTOBUF_FTP_CLIENT ? AUTOBUF_INBAND_INITIATOR
                                                  : AUTOBUF_INBAND_RESPONDER;
    struct ab_inband_io io = {f->options.read, f->options.write, f->options.io_user, f->options.record_bytes};

    options.dress = AUTOBUF_INBAND_FTP;
    options.log = f->options.log;
    options.log_user = f->options.log_user;
    return ab_inband_open_io(&f->inband, role, f->fd, &options, &io);
}

int ab_ftp_limits(const struct autobuf_ftp *f, struct autobuf_limits *limits)
{
    int error;

    *limits = f->host;
    error = ab_limits_refresh(limits);
    if (error < 0 || !f->options.most_bytes)
        return error;
    limits->request_most_bytes = f->options.most_bytes;
    limits->snd_settable_bytes = ab_min(limits->snd_settable_bytes, f->options.most_bytes);
    limits->rcv_settable_bytes = ab_min(limits->rcv_settable_bytes, f->options.most_bytes);
    return 0;
}
