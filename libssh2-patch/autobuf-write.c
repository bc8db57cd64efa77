/* SPDX-License-Identifier: MIT */
/* Writes to an SFTP file that do not wait for their answers. */
#ifdef HAVE_AUTOBUF

#include "libssh2_priv.h"
#include "libssh2_sftp.h"
#include "channel.h"
#include "session.h"
#include "sftp.h"

#include <autobuf/autobuf.h>

#include "autobuf-credit.h"
#include "autobuf-write.h"

#define LEAST(a, b) ((a) < (b) ? (a) : (b))

/* A request that was sent and not answered yet. Its data need not be kept. */
struct request {
    struct list_node node;
    uint64_t sent_ns;
    uint32_t id;
    uint32_t bytes;
};

struct autobuf_write {
    struct list_head requests;         /* in the order in which they were sent */
    struct request *next;              /* the one in packet; NULL: none */
    struct autobuf_rightsize *credit;
    libssh2_uint64_t told_offset;      /* what the caller knows to be written ends here */
    uint32_t unanswered_bytes;         /* of requests */
    uint32_t untold_bytes;             /* sent, or in packet, since told_offset */
    int finish_rc;                     /* why answers could not be waited for; 0: they could */
    uint32_t failed;                   /* status of the first write that failed and was not told */
    uint32_t packet_sent, packet_len;
    unsigned char packet[MAX_SFTP_OUTGOING_SIZE + SFTP_HANDLE_MAXLEN + 25];
};

int
autobuf_write_is_delayed(LIBSSH2_SFTP_HANDLE *handle)
{
    if(handle->write && handle->write->next) /* a packet that was begun has to be finished */
        return 1;
    /* Packets in the list are reads. What mixes these with writes gets what it got. */
    return handle->sftp->channel->session->sftp_delayed_writes &&
           !_libssh2_list_first(&handle->packet_list) && (handle->write || !autobuf_is_off());
}

/* Takes the answers that have come. Returns 0 when all have, or as autobuf_sftp_status(). */
static int
collect(LIBSSH2_SFTP_HANDLE *handle, struct autobuf_write *w)
{
    LIBSSH2_SESSION *session = handle->sftp->channel->session;
    struct request *request;

    while((request = _libssh2_list_first(&w->requests)) != NULL) {
        uint32_t code;
        int rc = autobuf_sftp_status(handle->sftp, request->id, &code);

        if(rc)
            return rc;
        if(code != LIBSSH2_FX_OK && !w->failed)
            w->failed = code;
        autobuf_credit_answered(w->credit, request->sent_ns, request->bytes);
        w->unanswered_bytes -= request->bytes;
        _libssh2_list_remove(&request->node);
        LIBSSH2_FREE(session, request);
    }
    return 0;
}

/* Sends the rest of the packet. */
static ssize_t
send_packet(LIBSSH2_SFTP_HANDLE *handle, struct autobuf_write *w)
{
    while(w->packet_sent < w->packet_len) {
        ssize_t rc = _libssh2_channel_write(handle->sftp->channel, 0, w->packet + w->packet_sent,
                                            w->packet_len - w->packet_sent);

        if(rc <= 0)
            return rc ? rc : LIBSSH2_ERROR_EAGAIN;
        w->packet_sent += (uint32_t)rc;
    }
    w->next->sent_ns = autobuf_now_ns();
    w->unanswered_bytes += w->next->bytes;
    _libssh2_list_add(&w->requests, &w->next->node);
    w->next = NULL;
    return 0;
}

/* Makes a packet of data for the end of what is untold. */
static int
make_packet(LIBSSH2_SFTP_HANDLE *handle, struct autobuf_write *w, const char *data, uint32_t bytes)
{
    LIBSSH2_SFTP *sftp = handle->sftp;
    LIBSSH2_SESSION *session = sftp->channel->session;
    libssh2_uint64_t at = w->told_offset + w->untold_bytes;
    unsigned char *s = w->packet;

    w->next = LIBSSH2_ALLOC(session, sizeof *w->next);
    if(!w->next)
        return _libssh2_error(session, LIBSSH2_ERROR_ALLOC, "malloc fail for FXP_WRITE");
    w->next->id = sftp->request_id++;
    w->next->bytes = bytes;
    /* length(4), type(1), id(4), handle(4 and its length), offset(8), data(4 and their length) */
    w->packet_len = 25 + (uint32_t)handle->handle_len + bytes;
    w->packet_sent = 0;
    _libssh2_store_u32(&s, w->packet_len - 4);
    *s++ = 6; /* SSH_FXP_WRITE */
    _libssh2_store_u32(&s, w->next->id);
    _libssh2_store_str(&s, handle->handle, handle->handle_len);
    _libssh2_store_u32(&s, (uint32_t)(at >> 32));
    _libssh2_store_u32(&s, (uint32_t)at);
    _libssh2_store_str(&s, data, bytes);
    w->untold_bytes += bytes;
    return 0;
}

static struct autobuf_write *
opened(LIBSSH2_SFTP_HANDLE *handle)
{
    LIBSSH2_SESSION *session = handle->sftp->channel->session;
    struct autobuf_write *w = handle->write;

    if(!w && (w = handle->write = LIBSSH2_CALLOC(session, sizeof *w)) != NULL)
        _libssh2_list_init(&w->requests);
    if(w && w->told_offset != handle->u.file.offset) { /* the caller has gone elsewhere in the file */
        w->told_offset = handle->u.file.offset;
        w->untold_bytes = 0;
    }
    return w;
}

ssize_t
autobuf_write(LIBSSH2_SFTP_HANDLE *handle, const char *buffer, size_t count)
{
    LIBSSH2_SESSION *session = handle->sftp->channel->session;
    struct autobuf_write *w = opened(handle);
    uint32_t window, most = count < UINT32_MAX / 8 ? (uint32_t)count : UINT32_MAX / 8, told;
    ssize_t rc;

    if(!w)
        return _libssh2_error(session, LIBSSH2_ERROR_ALLOC, "malloc fail for FXP_WRITE");
    if(w->next) { /* finished before anything is read: a key exchange would wait for it, and it for that */
        rc = send_packet(handle, w);
        if(rc)
            return rc;
    }
    rc = collect(handle, w);
    if(rc && rc != LIBSSH2_ERROR_EAGAIN)
        return rc;
    if(w->failed)
        return autobuf_write_error(handle, 0);
    /* At least what sftp_read() of libssh2 would ask for. */
    window = autobuf_credit_window(&w->credit, most * 4);
    for(;;) {
        if(w->next) {
            rc = send_packet(handle, w);
            if(rc)
                break;
        }
        if(w->untold_bytes >= most || (w->unanswered_bytes && w->unanswered_bytes >= window))
            break;
        rc = make_packet(handle, w, buffer + w->untold_bytes,
                         LEAST(MAX_SFTP_OUTGOING_SIZE, most - w->untold_bytes));
        if(rc)
            break;
    }
    if(rc && rc != LIBSSH2_ERROR_EAGAIN)
        return rc;
    /* Nothing else can be sent on the session until a packet that is sent in part is whole: the caller has to go on. */
    told = w->next ? 0 : LEAST(w->untold_bytes, most);
    if(!told && count)
        return _libssh2_error(session, LIBSSH2_ERROR_EAGAIN, "Would block in FXP_WRITE");
    w->untold_bytes -= told;
    w->told_offset += told;
    handle->u.file.offset += told;
    handle->u.file.offset_sent += told;
    return told;
}

int
autobuf_write_finish(LIBSSH2_SFTP_HANDLE *handle)
{
    struct autobuf_write *w = handle->write;
    int rc = 0;

    if(w && w->next)
        rc = (int)send_packet(handle, w);
    if(w && !rc)
        rc = collect(handle, w);
    if(rc && rc != LIBSSH2_ERROR_EAGAIN)
        w->finish_rc = rc;
    return rc;
}

/* Of what is still to come nobody is told. */
static void
forget(LIBSSH2_SFTP_HANDLE *handle, struct autobuf_write *w)
{
    LIBSSH2_SESSION *session = handle->sftp->channel->session;
    struct request *request;

    while((request = _libssh2_list_first(&w->requests)) != NULL) {
        autobuf_sftp_forget(handle->sftp, request->id);
        _libssh2_list_remove(&request->node);
        LIBSSH2_FREE(session, request);
    }
    w->unanswered_bytes = w->untold_bytes = 0;
}

int
autobuf_write_error(LIBSSH2_SFTP_HANDLE *handle, int rc)
{
    struct autobuf_write *w = handle->write;

    if(!w || !w->failed || (rc && rc != LIBSSH2_ERROR_SFTP_PROTOCOL)) /* the older error of the server's is the cause */
        return rc || !w ? rc : w->finish_rc;
    forget(handle, w);
    handle->sftp->last_errno = w->failed;
    w->failed = 0;
    return _libssh2_error(handle->sftp->channel->session, LIBSSH2_ERROR_SFTP_PROTOCOL, "FXP write failed");
}

void
autobuf_write_free(LIBSSH2_SFTP_HANDLE *handle)
{
    LIBSSH2_SESSION *session = handle->sftp->channel->session;
    struct autobuf_write *w = handle->write;

    if(!w)
        return;
    forget(handle, w);
    if(w->next)
        LIBSSH2_FREE(session, w->next);
    autobuf_rightsize_close(w->credit);
    LIBSSH2_FREE(session, w);
    handle->write = NULL;
}

#endif
