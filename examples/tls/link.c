/* SPDX-License-Identifier: MIT */
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include <autobuf/autobuf.h>

#define SEGMENT_BYTES 1448   /* until the socket is asked */
#define RECORD_MOST_BYTES 16384
#define OVERHEAD_BYTES 22    /* TLS 1.3's framing, until a record was made */

/* -------------------------------------------------------------------------------- the socket */

/*
 * Reads at most one segment, so that the record that it completes has its own time. Returns 1; 0: nothing came; or
 * a negative errno.
 */
static int read_segment(struct link *l)
{
    uint8_t buf[RECORD_MOST_BYTES];
    size_t most = l->segment_bytes < sizeof buf ? l->segment_bytes : sizeof buf;
    int64_t got = autobuf_inband_receive(l->fd, buf, most, &l->stamp_ns);

    if (got == -EAGAIN || got == -EWOULDBLOCK || got == -EINTR)
        return 0;
    if (got == 0)
        return -ECONNRESET;
    if (got < 0)
        return (int)got;
    return BIO_write(l->in, buf, (int)got) == got ? 1 : -ENOMEM;
}

/* Drops len bytes that were sent. */
static void drop_sent(struct link *l, size_t len)
{
    uint8_t buf[RECORD_MOST_BYTES];

    while (len > 0) {
        int got = BIO_read(l->out, buf, (int)(len < sizeof buf ? len : sizeof buf));

        if (got <= 0)
            return;
        len -= (size_t)got;
    }
}

int link_flush(struct link *l)
{
    char *data;
    long len;

    while ((len = BIO_get_mem_data(l->out, &data)) > 0) {
        ssize_t sent = send(l->fd, data, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
        drop_sent(l, (size_t)sent);
    }
    return 1;
}

int link_wait(const struct link *l, bool reads, uint64_t until_ns)
{
    bool writes = BIO_pending(l->out) > 0;
    struct pollfd p = {l->fd, (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0};
    uint64_t now_ns = autobuf_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec t = {(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
    int ready = ppoll(&p, 1, &t, NULL);

    if (ready < 0 && errno != EINTR)
        return -errno;
    return ready == 0 ? -ETIMEDOUT : 0;
}

/* ------------------------------------------------------------------------------------- TLS */

/* Interprets an OpenSSL call that did not succeed. 0: it needs more to read. */
static int failed(struct link *l, int result)
{
    switch (SSL_get_error(l->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return -ECONNRESET;
    default:
        l->broken = true;
        return -EPROTO;
    }
}

int link_write(struct link *l, const void *data, size_t len)
{
    const uint8_t *from = data;

    while (len > 0) {
        size_t record = len < l->record_bytes ? len : l->record_bytes;
        size_t before = BIO_ctrl_pending(l->out);
        int written;

        ERR_clear_error();
        written = SSL_write(l->ssl, from, (int)record);
        if (written <= 0)
            return failed(l, written) < 0 ? -EPROTO : -EAGAIN;
        l->overhead_bytes = BIO_ctrl_pending(l->out) - before - record;
        from += record;
        len -= record;
    }
    return 0;
}

int link_fill(struct link *l)
{
    int got, result;

    memmove(l->plain, l->plain + l->begin, l->end - l->begin);
    l->end -= l->begin;
    l->begin = 0;
    if (l->end == sizeof l->plain)
        return -ENOBUFS;
    do {
        ERR_clear_error();
        got = SSL_read(l->ssl, l->plain + l->end, (int)(sizeof l->plain - l->end));
        result = got > 0 ? 0 : failed(l, got);
    } while (got <= 0 && result == 0 && (result = read_segment(l)) > 0);
    if (got <= 0)
        return result;
    l->end += (size_t)got;
    return 1;
}

void link_take(struct link *l, size_t len)
{
    l->begin += len;
}

static int handshake(struct link *l)
{
    uint64_t until_ns = autobuf_now_ns() + IDLE_NS;

    for (;;) {
        int done, result, flushed;

        ERR_clear_error();
        done = SSL_do_handshake(l->ssl);
        result = done == 1 ? 1 : failed(l, done);
        flushed = link_flush(l); /* an alert, too */
        if (result < 0 || flushed < 0)
            return result < 0 ? result : flushed;
        if (result == 1 && flushed == 1)
            return 0;
        if (result == 0)
            result = read_segment(l);
        if (result == 0 || flushed == 0)
            result = link_wait(l, true, until_ns);
        if (result < 0)
            return result;
    }
}

int link_open(struct link *l, SSL_CTX *context, int fd, bool is_server)
{
    int result = -ENOMEM;

    *l = (struct link){.fd = fd,
                       .segment_bytes = SEGMENT_BYTES,
                       .record_bytes = SEGMENT_BYTES - OVERHEAD_BYTES,
                       .overhead_bytes = OVERHEAD_BYTES};
    l->prepared = autobuf_inband_prepare(fd);
    l->ssl = SSL_new(context);
    l->in = BIO_new(BIO_s_mem());
    l->out = BIO_new(BIO_s_mem());
    if (l->prepared < 0)
        result = l->prepared;
    if (l->prepared < 0 || !l->ssl || !l->in || !l->out) {
        BIO_free(l->in);
        BIO_free(l->out);
        SSL_free(l->ssl);
        close(fd);
        return result;
    }
    SSL_set_bio(l->ssl, l->in, l->out);
    if (is_server)
        SSL_set_accept_state(l->ssl);
    else
        SSL_set_connect_state(l->ssl);
    result = handshake(l);
    if (result < 0)
        link_close(l);
    return result;
}

void link_restore(struct link *l)
{
    autobuf_inband_restore(l->fd, l->prepared);
    l->prepared = -1;
}

void link_close(struct link *l)
{
    ERR_clear_error();
    if (!l->broken && SSL_is_init_finished(l->ssl))
        SSL_shutdown(l->ssl);
    link_flush(l);
    link_restore(l);
    SSL_free(l->ssl);
    close(l->fd);
}

/* ----------------------------------------------------------------------------------- lines */

int link_say(struct link *l, const char *text, size_t len)
{
    uint64_t until_ns = autobuf_now_ns() + IDLE_NS;
    int result = link_write(l, text, len);

    while (result == 0 && (result = link_flush(l)) == 0)
        result = link_wait(l, false, until_ns);
    return result < 0 ? result : 0;
}

int link_line(struct link *l)
{
    uint64_t until_ns = autobuf_now_ns() + IDLE_NS;

    for (;;) {
        const uint8_t *begin = l->plain + l->begin;
        const uint8_t *end = memchr(begin, '\n', l->end - l->begin);
        int result;

        if (end)
            return (int)(end - begin) + 1;
        result = link_fill(l);
        if (result == 0)
            result = link_wait(l, true, until_ns);
        if (result < 0)
            return result;
    }
}
