/* SPDX-License-Identifier: MIT */
#include "paced.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/sockios.h>
#include <linux/tcp.h>

#include "../lib/kernel/socket.h"
#include "../lib/kernel/tcpinfo.h"

/* What a chunk takes at its pace, so that timers keep up. sim: stretch_sim has the same. */
#define GAP_NS (AB_NS_PER_S / 2000)
#define SENDS_NS (AB_NS_PER_S / 2) /* at most, at a low pace */
#define LATE_NS AB_NS_PER_MS       /* between looks at what is not acknowledged yet */
#define READS_MOST 256U            /* of one step: a server has other clients */
#define LOST_RTT_PERCENT 125U      /* a loss is heard of a round trip later; stretch_sim has the same */

/* Reno starts slowly until a loss: cubic leaves slow start when the queue grows (hystart in net/ipv4/tcp_cubic.c). */
int paced_prepare(int fd)
{
    int error = autobuf_inband_prepare(fd);

    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    return error < 0 ? error : 0;
}

static uint64_t ip_bytes_of(const struct paced *p, uint64_t payload_bytes)
{
    return payload_bytes + (payload_bytes + p->segment_bytes - 1) / p->segment_bytes * AB_TCP_HEADER_BYTES;
}

uint64_t paced_sent_bit_per_s(const struct paced *p)
{
    uint64_t span_ns = p->newest_ns - ab_min(p->newest_ns, p->begin_ns);

    return span_ns ? ab_mul_div(p->ip_bytes - ip_bytes_of(p, p->chunk_bytes), 8 * AB_NS_PER_S, span_ns) : 0;
}

/* Whole segments, for as long as GAP_NS; more where the stretch would have too many chunks. */
static uint64_t chunk_of(const struct paced *p)
{
    uint64_t packet_bytes = p->segment_bytes + AB_TCP_HEADER_BYTES;
    uint64_t bytes = ab_max(ab_mul_div(p->how.pace_bit_per_s, GAP_NS, 8 * AB_NS_PER_S),
                            p->most_bytes / (PACED_CHUNKS / 2));

    return ab_min(ab_max(bytes / packet_bytes, 1), PACED_CHUNK_BYTES / p->segment_bytes) * p->segment_bytes;
}

int paced_begin(struct paced *p, int fd, bool sends, const struct ab_stretch *how)
{
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    struct ab_tcpinfo info;
    int error = ab_socket_read(fd, &state, &info);

    if (error < 0)
        return error;
    p->fd = fd;
    p->sends = sends;
    p->how = *how;
    p->most_bytes = ab_search_bytes(ab_max(how->capacity_low_bit_per_s, how->capacity_high_bit_per_s));
    p->segment_bytes = ab_min(ab_max(info.mss_bytes, PACED_HEADER_BYTES), PACED_CHUNK_BYTES);
    p->resent_packets = info.retrans_packets;
    p->chunk_bytes = sends ? chunk_of(p) : 0;
    p->begin_ns = p->until_ns = AUTOBUF_NS_UNSET;
    p->newest_ns = p->due_ns = p->moved_bytes = p->ip_bytes = 0;
    p->at = p->count = 0;
    p->ends = false;
    return 0;
}

bool paced_chunk(struct paced *p, uint64_t bytes)
{
    if (bytes <= PACED_HEADER_BYTES || bytes > PACED_CHUNK_BYTES)
        return false;
    p->chunk_bytes = bytes;
    return true;
}

int paced_events(const struct paced *p)
{
    return !p->sends ? POLLIN : p->at ? POLLOUT : 0;
}

uint64_t paced_deadline_ns(const struct paced *p)
{
    return p->sends && !p->at ? p->due_ns : AUTOBUF_NS_UNSET;
}

/* ------------------------------------------------------------------------------------ sending */

static void put_time(struct paced *p, uint64_t value)
{
    for (unsigned i = 0; i < PACED_HEADER_BYTES; i++)
        p->time[i] = (uint8_t)(value >> (56 - 8 * i));
}

/* Writes on: a chunk, or the end. Returns 1: all of it is written; 0: the socket is full; -errno. */
static int write_on(struct paced *p, const char *payload, size_t len)
{
    size_t head = ab_min_size(p->at, PACED_HEADER_BYTES);
    struct iovec parts[] = {{p->time + head, PACED_HEADER_BYTES - head},
                            {(char *)(uintptr_t)payload, len - ab_max(p->at, PACED_HEADER_BYTES)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent = sendmsg(p->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    p->moved_bytes += (uint64_t)sent;
    p->at += (size_t)sent;
    if (p->at < len)
        return 0;
    p->at = 0;
    return 1;
}

/* Stops at a loss: what was sent before the packet that was lost counts. */
static void see_loss(struct paced *p, const struct ab_tcpinfo *info, uint64_t now_ns)
{
    uint64_t heard_ns = ab_percent(info->rtt_ns, LOST_RTT_PERCENT), sent_ns;

    if (p->begin_ns == AUTOBUF_NS_UNSET || p->until_ns != AUTOBUF_NS_UNSET ||
        info->retrans_packets == p->resent_packets)
        return;
    sent_ns = ab_min(now_ns, p->newest_ns) - p->begin_ns;
    p->until_ns = sent_ns - ab_min(sent_ns, heard_ns);
    p->ends = true;
}

static int send_chunk(struct paced *p, const char *payload, uint64_t now_ns)
{
    uint64_t chunk_ns = ab_mul_div(ip_bytes_of(p, p->chunk_bytes), 8 * AB_NS_PER_S, p->how.pace_bit_per_s);
    int written;

    if (p->begin_ns == AUTOBUF_NS_UNSET)
        p->begin_ns = now_ns;
    put_time(p, now_ns - p->begin_ns);
    p->due_ns = ab_max(p->due_ns + chunk_ns, now_ns);
    written = write_on(p, payload, p->chunk_bytes);
    if (written == 0 && p->at == 0) /* nothing was: the time would be wrong later */
        return 0;
    p->newest_ns = now_ns;
    p->ip_bytes += ip_bytes_of(p, p->chunk_bytes);
    return written < 0 ? written : 0;
}

/* When all has arrived it is known whether something was lost. */
static int send_end(struct paced *p, const char *payload, uint64_t now_ns)
{
    int queued = 0, written;

    if (ioctl(p->fd, SIOCOUTQ, &queued) == 0 && queued > 0) {
        p->due_ns = now_ns + LATE_NS;
        return 0;
    }
    put_time(p, PACED_END | (p->until_ns & ~PACED_END));
    written = write_on(p, payload, PACED_HEADER_BYTES);
    p->due_ns = now_ns + LATE_NS;
    return written;
}

static int step_out(struct paced *p, const char *payload, bool not_now)
{
    uint64_t now_ns = autobuf_now_ns();
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    struct ab_tcpinfo info;
    int result;

    if (p->at) {
        result = write_on(p, payload, p->ends ? PACED_HEADER_BYTES : p->chunk_bytes);
        return result == 1 && !p->ends ? 0 : result;
    }
    if (now_ns < p->due_ns)
        return 0;
    result = ab_socket_read(p->fd, &state, &info);
    if (result < 0)
        return result;
    see_loss(p, &info, now_ns);
    if (p->begin_ns != AUTOBUF_NS_UNSET)
        p->ends |= now_ns - p->begin_ns >= SENDS_NS || p->ip_bytes + p->chunk_bytes > p->most_bytes;
    if (p->ends)
        return send_end(p, payload, now_ns);
    if (!not_now && info.notsent_bytes == 0)
        return send_chunk(p, payload, now_ns);
    p->due_ns = now_ns + GAP_NS;
    return 0;
}

/* ---------------------------------------------------------------------------------- receiving */

static uint64_t time_of(const struct paced *p)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < PACED_HEADER_BYTES; i++)
        value = value << 8 | p->time[i];
    return value;
}

/* So many more bytes of the present chunk are here. Returns 0, 1 at the end, or an error. */
static int take(struct paced *p, size_t got, uint64_t stamp_ns)
{
    struct ab_chunk *chunk = &p->chunks[p->count];

    p->moved_bytes += got;
    p->at += got;
    if (p->at == PACED_HEADER_BYTES && time_of(p) & PACED_END) {
        p->until_ns = time_of(p) == UINT64_MAX ? AUTOBUF_NS_UNSET : time_of(p) & ~PACED_END;
        p->ends = true;
        return 1;
    }
    if (p->at < p->chunk_bytes)
        return 0;
    if (p->count == PACED_CHUNKS - 1 || p->ip_bytes > p->most_bytes + PACED_CHUNK_BYTES)
        return AUTOBUF_E_PROTOCOL;
    *chunk = (struct ab_chunk){time_of(p), stamp_ns, ip_bytes_of(p, p->chunk_bytes)};
    if (p->count) /* a packet that was sent again may hold up those behind it */
        chunk->arrived_ns = ab_max(stamp_ns, chunk[-1].arrived_ns);
    p->ip_bytes += chunk->bytes;
    p->count++;
    p->at = 0;
    return 0;
}

static int step_in(struct paced *p)
{
    static char rest[PACED_CHUNK_BYTES]; /* what is in it is nobody's */

    for (unsigned i = 0; i < READS_MOST; i++) {
        bool header = p->at < PACED_HEADER_BYTES;
        size_t want = header ? PACED_HEADER_BYTES - p->at : ab_min_size(p->chunk_bytes - p->at, sizeof rest);
        uint64_t stamp_ns;
        int64_t got = autobuf_inband_receive(p->fd, header ? (void *)(p->time + p->at) : (void *)rest, want, &stamp_ns);
        int result;

        if (got <= 0)
            return got == -EAGAIN || got == -EINTR ? 0 : got == 0 ? -ECONNRESET : (int)got;
        result = take(p, (size_t)got, stamp_ns);
        if (result != 0)
            return result;
    }
    return 0;
}

int paced_step(struct paced *p, const char *payload, bool not_now)
{
    return p->sends ? step_out(p, payload, not_now) : step_in(p);
}
