/* SPDX-License-Identifier: MIT */
/* The exchange over the control connection. */
#include "ftp.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../kernel/limits.h"

#define READ_BYTES 16384U /* largest TLS record (RFC 8446) */

void ab_ftp_close_inband(struct autobuf_ftp *f)
{
    if (f->inband && f->options.read && f->owner == getpid())
        ab_restore_prepared(f->fd, &f->prepared);
    autobuf_inband_close(f->inband);
    f->inband = NULL;
}

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
                                       ab_inband_segment_bytes(f->inband),
                                       autobuf_inband_deadline_ns(f->inband));

    if (written <= 0)
        return written < 0 ? (int)written : -ECONNRESET;
    autobuf_inband_sent(f->inband, now_ns, (size_t)ab_min((uint64_t)written, len));
    return 0;
}

static int read_lines(struct autobuf_ftp *f, char *buf)
{
    size_t wanted = ab_min_size(autobuf_inband_wanted(f->inband), READ_BYTES);
    uint64_t stamp_ns = autobuf_now_ns();
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

static int run_through(struct autobuf_ftp *f, char *buf)
{
    int result;

    while ((result = autobuf_inband_finished(f->inband)) == 0) {
        uint64_t now_ns = autobuf_now_ns();
        const void *data;
        size_t len = autobuf_inband_output(f->inband, now_ns, &data);

        if (len > 0)
            result = write_lines(f, now_ns, data, len);
        else if (autobuf_inband_finished(f->inband) == 0)
            result = read_lines(f, buf);
        if (result < 0)
            return result;
    }
    return result;
}

static int run_records(struct autobuf_ftp *f)
{
    char *buf = calloc(1, READ_BYTES);
    int result = buf ? run_through(f, buf) : -ENOMEM;

    free(buf);
    return result;
}

int ab_ftp_run(struct autobuf_ftp *f)
{
    int result = f->options.read ? run_records(f) : ab_inband_run(f->inband);

    if (result < 0)
        ab_ftp_close_inband(f);
    return result;
}

static int open_records(struct autobuf_ftp *f, uint32_t role,
                        const struct autobuf_inband_options *options)
{
    int error = autobuf_inband_open_pure(&f->inband, role, autobuf_now_ns(), options);

    if (error == 0)
        error = ab_ftp_tell(f);
    if (error == 0)
        error = ab_prepare(f->fd, &f->prepared);
    if (error == 0)
        ab_open_window(f->fd);
    if (error < 0) {
        autobuf_inband_close(f->inband);
        f->inband = NULL;
        return error;
    }
    return 0;
}

int ab_ftp_open_inband(struct autobuf_ftp *f)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    uint32_t role = f->role == AUTOBUF_FTP_CLIENT ? AUTOBUF_INBAND_INITIATOR
                                                  : AUTOBUF_INBAND_RESPONDER;

    options.dress = AUTOBUF_INBAND_FTP;
    options.log = f->options.log;
    options.log_user = f->options.log_user;
    return f->options.read ? open_records(f, role, &options)
                           : autobuf_inband_open(&f->inband, role, f->fd, &options);
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
