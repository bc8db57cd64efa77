/* SPDX-License-Identifier: MIT */
/* autobuf_inband_*(): the exchange on a TCP socket. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "../base/clock.h"
#include "../base/option.h"
#include "../kernel/rtnetlink.h"
#include "../kernel/socket.h"
#include "exchange.h"

#define IPV4_BYTES 20U
#define IPV6_BYTES 40U
#define TCP_BYTES 20U
#define TCP_STAMP_BYTES 12U
#define RECEIVE_BYTES 16384U /* largest TLS record (RFC 8446) */
#define READS_MAX 256U /* of one step, as the caller serves other connections, too */
#define HOST_KNOWN (AUTOBUF_INBAND_HOST_PACES | AUTOBUF_INBAND_HOST_FREE)

/* Whether congestion control paces (bbr), or SO_MAX_PACING_RATE is set. */
static bool paces_itself(int fd)
{
    char name[16] = "";
    socklen_t len = sizeof name;
    uint64_t pacing_byte_per_s = UINT64_MAX;

    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len);
    ab_get_pacing(fd, &pacing_byte_per_s);
    return strncmp(name, "bbr", 3) == 0 || pacing_byte_per_s != UINT64_MAX;
}

static uint32_t peer_header_bytes(int fd)
{
    struct sockaddr_in6 peer = {0};
    socklen_t len = sizeof peer;

    if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0 || peer.sin6_family != AF_INET6 ||
        IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr))
        return IPV4_BYTES;
    return IPV6_BYTES;
}

/* Whether the host has fq. The kernel lists every queueing discipline for that, which may take long. */
static uint32_t find_host_pacing(void)
{
    int paces = ab_qdisc_has_fq();

    if (paces < 0)
        return HOST_KNOWN; /* both flags: unknown, and stays so */
    return paces ? AUTOBUF_INBAND_HOST_PACES : AUTOBUF_INBAND_HOST_FREE;
}

/* The kernel computes a pacing rate for every connection, but applies it only with bbr, SO_MAX_PACING_RATE or fq. */
static void find_pace(int fd, bool may_query, uint64_t pacing_byte_per_s, struct autobuf_inband_facts *facts)
{
    bool kept;

    if (pacing_byte_per_s == 0 || pacing_byte_per_s > AB_PLAUSIBLE_BIT_PER_S / 8)
        return;
    kept = paces_itself(fd);
    if (!kept && !facts->flags && may_query)
        facts->flags = find_host_pacing();
    if (!kept && facts->flags == AUTOBUF_INBAND_HOST_FREE)
        return;
    facts->pace_bit_per_s = 8 * pacing_byte_per_s;
    if (kept || facts->flags == AUTOBUF_INBAND_HOST_PACES) /* else unknown */
        facts->flags |= AUTOBUF_INBAND_PACED;
}

/* may_query: find_host_pacing() is allowed. flags: HOST_KNOWN, of an earlier call. */
static int read_facts(int fd, bool may_query, uint32_t flags, struct autobuf_inband_facts *theirs)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    struct ab_tcpinfo info;
    uint64_t window_bytes;
    int error = ab_socket_read(fd, &state, &info);

    if (error < 0)
        return error;
    if (info.state != AB_TCP_ESTABLISHED && info.state != AB_TCP_CLOSE_WAIT)
        return -ENOTCONN;
    facts.segment_bytes = info.mss_bytes;
    facts.packet_bytes = info.mss_bytes + peer_header_bytes(fd) + TCP_BYTES + (info.stamped ? TCP_STAMP_BYTES : 0);
    window_bytes = (uint64_t)info.cwnd_packets * info.mss_bytes;
    if (info.peer_window_bytes)
        window_bytes = ab_min(window_bytes, info.peer_window_bytes);
    facts.train_bytes = window_bytes - ab_min(window_bytes, ab_tcpinfo_flight_bytes(&info));
    facts.train_bytes = ab_max(facts.train_bytes, 1); /* 0 would be "unknown" */
    facts.flags = flags & HOST_KNOWN;
    find_pace(fd, may_query, info.pacing_byte_per_s, &facts);
    facts.rtt_min_ns = ab_ns_or_unset(info.rtt_min_ns);
    facts.rtt_high_ns = info.rtt_ns + 4 * info.rtt_deviation_ns;
    return ab_struct_out(theirs, &facts, sizeof facts) ? 0 : -EINVAL;
}

int autobuf_inband_facts(int fd, struct autobuf_inband_facts *theirs)
{
    struct autobuf_inband_facts before = AUTOBUF_INBAND_FACTS_INIT;

    if (!ab_struct_in(&before, sizeof before, theirs))
        return -EINVAL;
    return read_facts(fd, true, before.flags, theirs);
}

/* Not on opening, and at a responder not before the peer has sent HELLO. */
static bool may_query_host(const struct autobuf_inband *ib)
{
    if (ib->role == AUTOBUF_INBAND_RESPONDER)
        return ib->greeted;
    return ib->phase != AB_PHASE_HELLO || ib->out.begin == ib->out.end;
}

static int refresh_facts(struct autobuf_inband *ib, int fd)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    int error = read_facts(fd, may_query_host(ib), ib->facts.flags, &facts);

    if (error < 0)
        return error;
    if (facts.segment_bytes > ib->socket.io.record_bytes)
        facts.segment_bytes -= ib->socket.io.record_bytes;
    return autobuf_inband_tell(ib, &facts);
}

int ab_inband_refresh(struct autobuf_inband *ib)
{
    return refresh_facts(ib, ib->socket.fd);
}

static int64_t receive_stamped(int fd, void *buf, size_t len, int flags, uint64_t *stamp_ns)
{
    _Alignas(struct cmsghdr) uint8_t control[256];
    struct iovec vector = {buf, len};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    uint64_t offset_ns = ab_clock_offset_ns();
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | flags);

    if (got < 0)
        return -errno;
    *stamp_ns = ab_stamp_ns(&message, SCM_TIMESTAMPING, &offset_ns);
    return got;
}

int64_t autobuf_inband_receive(int fd, void *buf, size_t len, uint64_t *stamp_ns)
{
    if (!stamp_ns || (!buf && len))
        return -EINVAL;
    return receive_stamped(fd, buf, len, 0, stamp_ns);
}

/*
 * A responder opens the window after HELLO, before its answer, which advertises the window that the peer's first train
 * needs.
 */
static void open_window(struct autobuf_inband *ib)
{
    if (ib->socket.window_open || (ib->role == AUTOBUF_INBAND_RESPONDER && !ib->greeted))
        return;
    ab_open_window(ib->socket.fd);
    ib->socket.window_open = true;
}

int ab_inband_open_io(struct autobuf_inband **inband, uint32_t role, int fd,
                      const struct autobuf_inband_options *options, const struct ab_inband_io *io)
{
    struct autobuf_inband *ib;
    int error;

    if (!inband)
        return -EINVAL;
    *inband = NULL;
    error = autobuf_inband_open_pure(&ib, role, autobuf_now_ns(), options);
    if (error < 0)
        return error;
    ib->socket.io = *io;
    error = refresh_facts(ib, fd);
    if (error == 0)
        error = ab_prepare(fd, &ib->socket.prepared);
    if (error < 0) {
        autobuf_inband_close(ib);
        return error;
    }
    ib->socket.fd = fd;
    open_window(ib);
    *inband = ib;
    return 0;
}

int autobuf_inband_open(struct autobuf_inband **inband, uint32_t role, int fd,
                        const struct autobuf_inband_options *options)
{
    return ab_inband_open_io(inband, role, fd, options, &(struct ab_inband_io){.read = NULL});
}

int autobuf_inband_fd(const struct autobuf_inband *inband)
{
    return inband ? inband->socket.fd : -EINVAL;
}

int autobuf_inband_events(const struct autobuf_inband *inband)
{
    bool sends;

    if (!inband)
        return -EINVAL;
    sends = inband->error == 0 && inband->out.begin < inband->out.end;
    return (autobuf_inband_wanted(inband) ? POLLIN : 0) | (sends ? POLLOUT : 0);
}

static bool is_busy(int64_t error)
{
    return error == -EAGAIN || error == -EWOULDBLOCK || error == -EINTR;
}

/* Returns how many bytes were sent, 0 if the socket is full, or an error. */
static int64_t send_some(const struct autobuf_inband *ib, const void *data, size_t len)
{
    const struct ab_inband_io *io = &ib->socket.io;
    int64_t sent;

    if (io->write) {
        sent = io->write(io->user, data, len, ib->facts.segment_bytes, autobuf_inband_deadline_ns(ib));
        return sent ? sent : -ECONNRESET;
    }
    sent = send(ib->socket.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0)
        return sent;
    return is_busy(-errno) ? 0 : -errno;
}

/* Returns 0 if all was sent, or if the socket is full; or an error. */
static int send_lines(struct autobuf_inband *ib, uint64_t now_ns)
{
    const void *data;
    size_t len;

    while ((len = autobuf_inband_output(ib, now_ns, &data)) > 0) {
        int64_t sent = send_some(ib, data, len);

        if (sent <= 0)
            return (int)sent;
        autobuf_inband_sent(ib, now_ns, ab_min_size((size_t)sent, len));
    }
    return 0;
}

/* Reads up to the end of a line: the bytes behind it may be the application's. */
static int64_t receive_line(struct autobuf_inband *ib, char *buf, size_t len, uint64_t *stamp_ns)
{
    int64_t got = receive_stamped(ib->socket.fd, buf, len, MSG_PEEK, stamp_ns);
    const char *end = got > 0 ? memchr(buf, '\n', (size_t)got) : NULL;

    if (got <= 0)
        return got;
    return receive_stamped(ib->socket.fd, buf, end ? (size_t)(end - buf) + 1 : (size_t)got, 0, stamp_ns);
}

static int64_t receive_some(struct autobuf_inband *ib, char *buf, size_t wanted, uint64_t *stamp_ns)
{
    const struct ab_inband_io *io = &ib->socket.io;
    int64_t got;

    if (!io->read)
        return ib->in.payload_left ? receive_stamped(ib->socket.fd, buf, wanted, 0, stamp_ns)
                                   : receive_line(ib, buf, wanted, stamp_ns);
    *stamp_ns = autobuf_now_ns();
    got = io->read(io->user, buf, wanted, autobuf_inband_deadline_ns(ib), stamp_ns);
    return got > (int64_t)wanted ? -EINVAL : got;
}

/* Returns 1 if bytes came, 0 if not, or an error. */
static int receive_into(struct autobuf_inband *ib, char *buf, size_t wanted)
{
    uint64_t stamp_ns;
    int64_t got = receive_some(ib, buf, wanted, &stamp_ns);

    if (is_busy(got))
        return 0;
    if (got == 0 && autobuf_inband_finished(ib) == 1)
        return -ENOTCONN; /* closed after the exchange */
    if (got < 0)
        return (int)got;
    if (ib->in.payload_left <= wanted)
        (void)ab_inband_refresh(ib); /* a train may begin */
    got = autobuf_inband_input(ib, stamp_ns, buf, (size_t)got);
    return got < 0 ? (int)got : 1;
}

static int receive_once(struct autobuf_inband *ib)
{
    size_t wanted = ab_min_size(autobuf_inband_wanted(ib), RECEIVE_BYTES);
    char *buf;
    int result;

    if (ib->framing->reply_end && autobuf_inband_finished(ib) == 1) {
        /* The application reads the next line and passes it in. It may ask for a train. */
        if (!(ib->facts.flags & (HOST_KNOWN | AUTOBUF_INBAND_PACED)))
            (void)ab_inband_refresh(ib);
        return 0;
    }
    if (wanted == 0)
        return 0;
    buf = calloc(1, wanted);
    result = buf ? receive_into(ib, buf, wanted) : -ENOMEM;
    free(buf);
    return result;
}

int autobuf_inband_step(struct autobuf_inband *ib, uint64_t now_ns)
{
    unsigned most = ib && ib->socket.io.read ? 1 : READS_MAX; /* the caller's read() waits */
    int result = 1;

    if (!ib)
        return -EINVAL;
    if (ib->socket.fd < 0)
        return -EBADF;
    if (ib->owner != getpid())
        return AUTOBUF_E_FORKED;
    for (unsigned reads = 0; result > 0 && reads < most; reads++) {
        open_window(ib);
        result = send_lines(ib, now_ns);
        if (result == 0)
            result = receive_once(ib);
    }
    if (result < 0 && ib->error == 0)
        ib->error = result;
    return autobuf_inband_finished(ib);
}

static int step_of_inband(void *handle, uint64_t now_ns, int *events, uint64_t *until_ns)
{
    int result = autobuf_inband_step(handle, now_ns);

    *events = autobuf_inband_events(handle);
    *until_ns = autobuf_inband_deadline_ns(handle);
    return result;
}

int ab_inband_run(struct autobuf_inband *ib)
{
    int result;

    if (!ib->socket.io.read)
        return ab_run(ib->socket.fd, step_of_inband, ib);
    do
        result = autobuf_inband_step(ib, autobuf_now_ns());
    while (result == 0);
    return result;
}

int autobuf_inband(int fd, const struct autobuf_inband_options *options, struct autobuf_path *path, int *usable)
{
    struct autobuf_inband *ib;
    int result = path ? autobuf_inband_open(&ib, AUTOBUF_INBAND_INITIATOR, fd, options) : -EINVAL;

    if (usable)
        *usable = result < 0;
    if (result < 0)
        return result;
    result = ab_inband_run(ib);
    if (usable)
        *usable = result == 1;
    if (result == 1)
        result = autobuf_inband_result(ib, path);
    autobuf_inband_close(ib);
    return result;
}
