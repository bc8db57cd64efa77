/* SPDX-License-Identifier: MIT */
#include "ftp.h"

#include "../kernel/limits.h"

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
