/* SPDX-License-Identifier: MIT */
/* autobuf_probe_*(): the socket around the schedule. */
#include "probe.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h> /* wants <time.h> before it */
#include <linux/icmp.h>
#include <linux/net_tstamp.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../base/option.h"
#include "../kernel/socket.h"

#define SOL_RAW_SOCKET 255 /* SOL_RAW of the kernel's linux/socket.h */
#define BATCH 32U      /* replies for one recvmmsg() */
#define SEND_BATCH 8U  /* packets for one sendmmsg(): few, because the time of each is interpolated */
#define REPLY_BYTES (AB_ECHO_MAX_BYTES + 60U) /* a raw IPv4 socket shows the IP header too */
#define TRUESIZE_BYTES 2304U /* skb->truesize of a packet of 1500 bytes */
#define BUFFER_BYTES (256U * TRUESIZE_BYTES)
#define QUOTED_BYTES 96U    /* of a packet that an ICMP error quotes, IP header included */
#define MIN_PMTU4_BYTES 552U  /* net.ipv4.route.min_pmtu */
#define MIN_PMTU6_BYTES 1280U /* RFC 8200 */
#define CONTROL_BYTES 128U /* a stamp and an extended error */
#define RETRY_NS AB_NS_PER_MS
#define RETRIES 200U
#define REFUSALS 8U /* in a row: the route is gone */
#define BATCHES_MAX 64U /* a step reads so many batches of replies, */
#define ERRORS_MAX 256U /* and ICMP errors: a flood must not keep it from its deadline */

struct autobuf_probe {
    struct ab_schedule schedule;
    pid_t owner;
    int fd;
    uint64_t cookie; /* of the socket */
    int family;
    bool raw;
    bool has_header;        /* IP_HDRINCL: each message is sent with this header */
    struct iphdr header;
    bool blocked;           /* the socket's send buffer is full */
    int error;              /* that the network reported before any reply */
    uint64_t retry_ns;      /* after ENOBUFS */
    unsigned retries;
    unsigned refusals;
    uint64_t offset_ns;     /* CLOCK_REALTIME - CLOCK_MONOTONIC */
    struct sockaddr_storage peer;
    size_t stamped_from;    /* index of the packet that the kernel's stamps of sending count from */
    size_t queue_first;     /* index of the first message in the queue */
    unsigned queue_begin;   /* queue[begin..end) is built, but not sent */
    unsigned queue_end;
    uint16_t lengths[SEND_BATCH];
    uint8_t queue[SEND_BATCH][AB_ECHO_MAX_BYTES];
    uint8_t replies[BATCH][REPLY_BYTES];
    struct mmsghdr messages[BATCH]; /* for recvmmsg() */
    struct iovec vectors[BATCH];
    struct sockaddr_storage from[BATCH];
    _Alignas(struct cmsghdr) uint8_t control[BATCH][CONTROL_BYTES];
};

static int probe_new(struct autobuf_probe **out, const struct autobuf_probe_options *theirs,
                     const struct ab_echo *echo, uint64_t now_ns)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_probe *probe;
    size_t capacity, bytes, stretches_at;
    int error;

    *out = NULL;
    if (theirs && !ab_struct_in(&options, sizeof options, theirs))
        return -EINVAL;
    capacity = ab_schedule_capacity(&options);
    bytes = sizeof *probe + capacity * (sizeof(struct ab_packet) + sizeof(uint64_t));
    stretches_at = bytes;
    if (options.flags & AUTOBUF_PROBE_AVAILABLE)
        bytes += ab_stretches_bytes();
    probe = calloc(1, bytes);
    if (!probe)
        return -ENOMEM;
    probe->fd = -1;
    probe->owner = getpid();
    probe->family = echo->ipv6 ? AF_INET6 : AF_INET;
    error = ab_schedule_init(&probe->schedule, echo, &options, (struct ab_packet *)(probe + 1),
                         (uint64_t *)((struct ab_packet *)(probe + 1) + capacity), capacity, now_ns);
    if (error < 0) {
        free(probe);
        return error;
    }
    if (bytes > stretches_at)
        probe->schedule.stretches = (struct ab_stretches *)((char *)probe + stretches_at);
    *out = probe;
    return 0;
}

/* A forked child may have closed the socket, and its descriptor may be another file now. */
static bool has_socket(const struct autobuf_probe *probe)
{
    return probe->fd >= 0 && (probe->owner == getpid() || ab_socket_check(probe->fd, probe->cookie) == 0);
}

void autobuf_probe_close(struct autobuf_probe *probe)
{
    if (!probe)
        return;
    if (has_socket(probe))
        close(probe->fd);
    free(probe);
}

int ab_probe_open_pure(struct autobuf_probe **probe, int family, uint16_t ident, const uint8_t token[16],
                       uint64_t now_ns, const struct autobuf_probe_options *options)
{
    struct ab_echo echo = {family == AF_INET6, ident, {0}};

    memcpy(echo.token, token, sizeof echo.token);
    return probe_new(probe, options, &echo, now_ns);
}

struct ab_schedule *ab_probe_schedule(struct autobuf_probe *probe)
{
    return &probe->schedule;
}

/* Replies only: a raw socket would show every ICMP message that comes to this host. */
static int filter_replies(const struct autobuf_probe *probe)
{
    struct icmp_filter only4 = {~(1U << ICMP_ECHOREPLY)};
    struct icmp6_filter only6;

    if (!probe->raw)
        return 0;
    if (probe->family == AF_INET)
        return setsockopt(probe->fd, SOL_RAW_SOCKET, ICMP_FILTER, &only4, sizeof only4);
    memset(&only6, 0xff, sizeof only6);
    only6.icmp6_filt[ICMP6_ECHO_REPLY / 32] &= ~(1U << ICMP6_ECHO_REPLY % 32);
    return setsockopt(probe->fd, IPPROTO_ICMPV6, ICMP6_FILTER, &only6, sizeof only6);
}

/*
 * The probe trusts "fragmentation needed" only if the error quotes its token. With a raw IPv4 socket anybody could
 * change the path MTU that the kernel keeps (raw_err() in net/ipv4/raw.c compares no identifier), and TCP would use
 * it, too. IP_PMTUDISC_INTERFACE makes the kernel ignore such errors. It also clears DF, so the header is our own.
 */
static int forbid_fragments(struct autobuf_probe *probe)
{
    int ttl = 0, fd = probe->fd, error;

    if (probe->family == AF_INET6)
        return ab_set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    if (!probe->raw)
        return ab_set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    error = ab_get_int(fd, IPPROTO_IP, IP_TTL, &ttl);
    if (error == 0)
        error = ab_set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_INTERFACE);
    if (error == 0)
        error = ab_set_option(fd, IPPROTO_IP, IP_HDRINCL, 1);
    if (error < 0)
        return error;
    probe->has_header = true; /* the kernel fills in source, length, identifier and checksum */
    probe->header = (struct iphdr){.version = 4,
                                   .ihl = sizeof probe->header / 4,
                                   .frag_off = htons(IP_DF),
                                   .ttl = (uint8_t)ttl,
                                   .protocol = IPPROTO_ICMP};
    memcpy(&probe->header.daddr, &((const struct sockaddr_in *)&probe->peer)->sin_addr, sizeof probe->header.daddr);
    return 0;
}

/*
 * Makes the kernel stamp each packet that leaves, and count from this one: a failed send may have been counted. The
 * clock of this process cannot tell where in sendmmsg(), or after it, another process ran. Without stamps the time is
 * interpolated.
 */
static void begin_stamps(struct autobuf_probe *probe, size_t index)
{
    int stamps = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
                 SOF_TIMESTAMPING_OPT_TSONLY;

    (void)ab_set_option(probe->fd, SOL_SOCKET, SO_TIMESTAMPING, 0);
    (void)ab_set_option(probe->fd, SOL_SOCKET, SO_TIMESTAMPING, stamps);
    probe->stamped_from = index;
}

static int prepare_socket(struct autobuf_probe *probe)
{
    bool v4 = probe->family == AF_INET;
    int fd = probe->fd, error;

    /* As large as net.core.[rw]mem_max allows. */
    ab_set_option(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
    ab_set_option(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
    begin_stamps(probe, 0);
    error = ab_set_option(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    if (error == 0 && filter_replies(probe) < 0)
        error = -errno;
    if (error == 0)
        error = ab_set_option(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, 1);
    return error < 0 ? error : forbid_fragments(probe);
}

/* No train is longer than this socket's receive buffer holds. */
static uint32_t receive_buffer_packets(int fd)
{
    int sk_rcvbuf = 0;

    (void)ab_get_int(fd, SOL_SOCKET, SO_RCVBUF, &sk_rcvbuf);
    return sk_rcvbuf > 0 ? (uint32_t)sk_rcvbuf / TRUESIZE_BYTES : 0;
}

static int set_source(int fd, const struct autobuf_probe_options *options)
{
    struct sockaddr_storage source;
    int len;

    if (options->mark &&
        setsockopt(fd, SOL_SOCKET, SO_MARK, &options->mark, sizeof options->mark) < 0)
        return -errno;
    if (options->device[0] && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, options->device,
                                         (socklen_t)strnlen(options->device, 16)) < 0)
        return -errno;
    if (!options->source)
        return 0;
    len = ab_address_copy(options->source, options->source_len, &source);
    if (len < 0)
        return len;
    return bind(fd, (struct sockaddr *)&source, (socklen_t)len) < 0 ? -errno : 0;
}

static uint32_t path_mtu_bytes(const struct autobuf_probe *probe)
{
    bool v4 = probe->family == AF_INET;
    int mtu = 0;

    (void)ab_get_int(probe->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu);
    return mtu > 0 ? (uint32_t)mtu : AB_IP_PACKET_BYTES;
}

/* -EACCES is kept for a program that is not permitted to measure. */
static int network_error(uint32_t error)
{
    return error == EACCES || error == EPERM ? -EHOSTUNREACH : -(int)error;
}

static int probe_connect(struct autobuf_probe *probe, socklen_t peer_len, const struct autobuf_probe_options *theirs)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    int error;

    if (theirs)
        ab_struct_in(&options, sizeof options, theirs);
    probe->fd = ab_privilege_icmp_socket(probe->family, &probe->raw);
    if (probe->fd == -EACCES)
        ab_log(&probe->schedule.log, "neither ping sockets (net.ipv4.ping_group_range) nor raw sockets "
                                 "(CAP_NET_RAW) are permitted");
    if (probe->fd < 0)
        return probe->fd;
    (void)ab_socket_cookie(probe->fd, &probe->cookie);
    error = prepare_socket(probe);
    if (error == 0)
        error = set_source(probe->fd, &options);
    if (error < 0)
        return error;
    if (connect(probe->fd, (struct sockaddr *)&probe->peer, peer_len) < 0)
        return network_error((uint32_t)errno); /* a "prohibit" route says EACCES */
    probe->offset_ns = ab_clock_offset_ns();
    probe->schedule.burst_max = receive_buffer_packets(probe->fd);
    ab_schedule_mtu(&probe->schedule, path_mtu_bytes(probe));
    ab_log(&probe->schedule.log, "%s socket, packets of %u bytes", probe->raw ? "raw" : "ping",
           probe->schedule.full_bytes);
    return 0;
}

int autobuf_probe_open(struct autobuf_probe **probe, const struct sockaddr *peer,
                       socklen_t peer_len, const struct autobuf_probe_options *options)
{
    struct sockaddr_storage address;
    struct ab_echo echo = {0};
    int len, error;

    if (!probe)
        return -EINVAL;
    *probe = NULL;
    len = ab_address_copy(peer, peer_len, &address);
    if (len < 0)
        return len;
    echo.ipv6 = address.ss_family == AF_INET6;
    if (getrandom(echo.token, sizeof echo.token, GRND_NONBLOCK) != sizeof echo.token)
        return errno == EAGAIN ? -EAGAIN : -EIO;
    memcpy(&echo.ident, echo.token, sizeof echo.ident);
    error = probe_new(probe, options, &echo, autobuf_now_ns());
    if (error < 0)
        return error;
    (*probe)->peer = address;
    error = probe_connect(*probe, (socklen_t)len, options);
    if (error < 0) {
        autobuf_probe_close(*probe);
        *probe = NULL;
    }
    return error;
}

int autobuf_probe_fd(const struct autobuf_probe *probe)
{
    return probe ? probe->fd : -EINVAL;
}

int autobuf_probe_events(const struct autobuf_probe *probe)
{
    if (!probe)
        return -EINVAL;
    return probe->blocked ? POLLIN | POLLOUT : POLLIN;
}

uint64_t autobuf_probe_deadline_ns(const struct autobuf_probe *probe)
{
    uint64_t schedule_ns;

    if (!probe)
        return AUTOBUF_NS_UNSET;
    schedule_ns = ab_schedule_deadline_ns(&probe->schedule);
    if (probe->retry_ns)
        return ab_min(probe->schedule.end_ns, probe->retry_ns);
    if (probe->blocked)
        return ab_min(probe->schedule.end_ns, ab_max(schedule_ns, probe->schedule.close_ns));
    return schedule_ns;
}

/* ------------------------------------------------------------------------------- receiving */

static void handle_reply(struct autobuf_probe *probe, struct mmsghdr *m)
{
    const uint8_t *buf = m->msg_hdr.msg_iov->iov_base;
    size_t len = m->msg_len;
    size_t header = 0;

    if (!ab_address_same(m->msg_hdr.msg_name, &probe->peer))
        return;
    if (probe->raw && probe->family == AF_INET) {
        header = ab_echo_ipv4_header_bytes(buf, len);
        if (!header)
            return;
    }
    ab_schedule_reply(&probe->schedule, ab_stamp_ns(&m->msg_hdr, SCM_TIMESTAMPNS, &probe->offset_ns), buf + header,
                      len - header);
}

static void receive_replies(struct autobuf_probe *probe)
{
    struct mmsghdr *messages = probe->messages;
    unsigned errors = 0;
    int got;

    for (unsigned batches = 0; batches < BATCHES_MAX; batches++) {
        for (unsigned i = 0; i < BATCH; i++) {
            probe->vectors[i] = (struct iovec){probe->replies[i], REPLY_BYTES};
            messages[i].msg_hdr = (struct msghdr){.msg_name = &probe->from[i],
                                                  .msg_namelen = sizeof probe->from[i],
                                                  .msg_iov = &probe->vectors[i],
                                                  .msg_iovlen = 1,
                                                  .msg_control = probe->control[i],
                                                  .msg_controllen = CONTROL_BYTES};
        }
        got = recvmmsg(probe->fd, messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < got; i++)
            handle_reply(probe, &messages[i]);
        /* A pending socket error comes first, once. The error queue explains it. */
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || ++errors > BATCH))
            return;
        if (got >= 0 && got < (int)BATCH)
            return;
    }
}

/* Takes back what is queued from the first packet on that is larger than this. */
static void drop_larger(struct autobuf_probe *probe, uint32_t bytes)
{
    unsigned at = probe->queue_begin;

    while (at < probe->queue_end && probe->schedule.packets[probe->queue_first + at].bytes <= bytes)
        at++;
    if (at < probe->queue_end)
        ab_schedule_unsend(&probe->schedule, probe->queue_first + at);
    probe->queue_end = at;
}

/* Trains begin again with smaller packets. */
static void set_packet_bytes(struct autobuf_probe *probe, uint32_t packet_bytes)
{
    drop_larger(probe, packet_bytes);
    ab_schedule_mtu(&probe->schedule, packet_bytes);
}

/* A packet was too large, and the error has no MTU: try the minimum of IPv6, then that of IPv4. */
static void shrink(struct autobuf_probe *probe)
{
    drop_larger(probe, 0);
    ab_schedule_mtu(&probe->schedule, probe->schedule.full_bytes > 1280 ? 1280 : 576);
}

/* Ignores an MTU below the minimum that the kernel itself accepts. */
static void set_path_mtu(struct autobuf_probe *probe, uint32_t mtu_bytes)
{
    uint32_t min_bytes = probe->family == AF_INET ? MIN_PMTU4_BYTES : MIN_PMTU6_BYTES;

    if (mtu_bytes == 0) /* a router from before RFC 1191 */
        shrink(probe);
    else
        set_packet_bytes(probe, (uint32_t)ab_max(mtu_bytes, min_bytes));
}

/* Ignores an ICMP error that quotes no packet of this run: anybody can forge one. */
static void handle_error(struct autobuf_probe *probe, const struct sock_extended_err *e,
                         const uint8_t *quoted, size_t len)
{
    size_t header = probe->has_header ? ab_echo_ipv4_header_bytes(quoted, len) : 0;

    if (e->ee_origin == SO_EE_ORIGIN_LOCAL) {
        if (e->ee_errno == EMSGSIZE)
            set_packet_bytes(probe, e->ee_info);
        return;
    }
    if (!ab_schedule_quoted(&probe->schedule, quoted + header, len - header))
        return;
    if (e->ee_errno == EMSGSIZE)
        set_path_mtu(probe, e->ee_info);
    else if ((e->ee_origin == SO_EE_ORIGIN_ICMP && e->ee_type != ICMP_REDIRECT && e->ee_type != ICMP_SOURCE_QUENCH) ||
             e->ee_origin == SO_EE_ORIGIN_ICMP6)
        probe->error = network_error(e->ee_errno);
}

/*
 * Reads so much of the error queue, and from it when packets were sent. "Packet too big" makes packets smaller;
 * "unreachable" ends the run unless the peer has answered already. Returns how many errors there were, foreign ones
 * included.
 */
static unsigned receive_errors(struct autobuf_probe *probe, unsigned most)
{
    _Alignas(struct cmsghdr) uint8_t control[512];
    uint8_t quoted[QUOTED_BYTES];
    struct iovec vector = {quoted, sizeof quoted};
    struct msghdr message = {.msg_control = control,
                             .msg_controllen = sizeof control,
                             .msg_iov = &vector,
                             .msg_iovlen = 1};
    unsigned errors = 0;

    for (unsigned i = 0; i < most; i++) {
        ssize_t got = recvmsg(probe->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);

        if (got < 0)
            break;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
            struct sock_extended_err e;

            if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
                !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
                continue;
            memcpy(&e, CMSG_DATA(c), sizeof e);
            if (e.ee_origin == SO_EE_ORIGIN_TIMESTAMPING) {
                ab_schedule_stamped(&probe->schedule, probe->stamped_from + e.ee_data,
                                    ab_stamp_ns(&message, SCM_TIMESTAMPING, &probe->offset_ns));
                continue;
            }
            errors++;
            handle_error(probe, &e, quoted, (size_t)got);
        }
        message.msg_controllen = sizeof control;
    }
    return errors;
}

/* --------------------------------------------------------------------------------- sending */

static int fill_queue(struct autobuf_probe *probe, uint64_t now_ns)
{
    probe->queue_first = probe->schedule.count;
    probe->queue_begin = probe->queue_end = 0;
    while (probe->queue_end < SEND_BATCH) {
        int len = ab_schedule_next(&probe->schedule, now_ns, probe->queue[probe->queue_end], AB_ECHO_MAX_BYTES);

        if (len <= 0)
            return len;
        probe->lengths[probe->queue_end++] = (uint16_t)len;
    }
    return 0;
}

/* Sends what is queued with one sendmmsg(). Returns how many packets went, or a negative errno. */
static int send_queue(struct autobuf_probe *probe)
{
    struct mmsghdr messages[SEND_BATCH];
    struct iovec vectors[SEND_BATCH][2];
    unsigned skip = probe->has_header ? 0 : 1;
    unsigned begin = probe->queue_begin, count = probe->queue_end - begin;
    uint64_t before_ns, after_ns;
    int sent, error;

    for (unsigned i = 0; i < count; i++) {
        vectors[i][0] = (struct iovec){&probe->header, sizeof probe->header};
        vectors[i][1] = (struct iovec){probe->queue[begin + i], probe->lengths[begin + i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i][skip], .msg_iovlen = 2 - skip};
    }
    before_ns = autobuf_now_ns();
    sent = sendmmsg(probe->fd, messages, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    error = -errno;
    if (sent < (int)count)
        begin_stamps(probe, probe->queue_first + begin + (sent > 0 ? (unsigned)sent : 0));
    if (sent < 0)
        return error;
    after_ns = autobuf_now_ns();
    for (int i = 0; i < sent; i++)
        ab_schedule_sent(&probe->schedule, probe->queue_first + begin + (unsigned)i,
                     before_ns + (after_ns - before_ns) * (uint64_t)i / (uint64_t)sent);
    probe->queue_begin += (unsigned)sent;
    return sent;
}

/* Either the error queue has this host's MTU, or the error is about an earlier packet, and the queue is sent again. */
static void too_large(struct autobuf_probe *probe)
{
    uint32_t before = probe->schedule.full_bytes;

    if (receive_errors(probe, ERRORS_MAX) > 0 && ++probe->refusals <= REFUSALS)
        return;
    if (probe->schedule.full_bytes == before)
        shrink(probe);
}

/* After a failed send. Returns 0: go on, now or later; a negative errno: give up. */
static int send_failed(struct autobuf_probe *probe, int error, uint64_t now_ns)
{
    if (++probe->retries > RETRIES)
        return probe->schedule.received ? -ETIME : error; /* what came, counts */
    switch (error) {
    case -EINTR:
        return 0;
    case -EAGAIN:
        probe->blocked = true;
        return 0;
    case -ENOBUFS: /* the device's queue is full; poll() does not report when it has room */
    case -ENOMEM:
        probe->retry_ns = now_ns + RETRY_NS;
        return 0;
    case -EMSGSIZE:
        too_large(probe);
        return 0;
    case -EHOSTUNREACH: /* about an earlier packet if the error queue has it, else no route */
    case -ENETUNREACH:
    case -ECONNREFUSED:
    case -EHOSTDOWN:
    case -EACCES:
        if (receive_errors(probe, ERRORS_MAX) > 0 || ++probe->refusals <= REFUSALS)
            return 0;
        return probe->schedule.received ? -ETIME : network_error((uint32_t)-error);
    case -EPERM: /* a packet filter of this host */
        if (!probe->schedule.received)
            return network_error(EPERM);
        probe->queue_begin++; /* counts as lost */
        begin_stamps(probe, probe->queue_first + probe->queue_begin);
        return 0;
    default: /* SO_ERROR of an ICMP error, forged ones included */
        return receive_errors(probe, ERRORS_MAX) > 0 ? 0 : error;
    }
}

static int send_packets(struct autobuf_probe *probe, uint64_t now_ns)
{
    probe->blocked = false;
    probe->retry_ns = 0;
    while (!probe->blocked && !probe->retry_ns) {
        int result;

        if (now_ns >= probe->schedule.end_ns)
            drop_larger(probe, 0);
        if (probe->queue_begin == probe->queue_end) {
            result = fill_queue(probe, now_ns);
            if (probe->queue_end == 0)
                return result;
        }
        result = send_queue(probe);
        if (result < 0) {
            result = send_failed(probe, result, now_ns);
        } else {
            probe->retries = probe->refusals = 0;
            receive_errors(probe, (unsigned)result); /* stamps take room from replies */
            now_ns = ab_max(now_ns, autobuf_now_ns());
            if (now_ns >= ab_min(probe->schedule.close_ns, probe->schedule.end_ns))
                return 0; /* replies may have come while this process was late: they are read first */
        }
        if (result < 0)
            return result;
    }
    return 0;
}

int autobuf_probe_step(struct autobuf_probe *probe, uint64_t now_ns)
{
    int result;

    if (!probe)
        return -EINVAL;
    if (probe->owner != getpid())
        return AUTOBUF_E_FORKED;
    now_ns = ab_max(now_ns, autobuf_now_ns()); /* the caller's time may be stale */
    receive_replies(probe);
    receive_errors(probe, ERRORS_MAX);
    if (probe->error && probe->schedule.received == 0)
        return probe->error;
    result = send_packets(probe, now_ns);
    if (result == -ETIME)
        return probe->schedule.received ? 1 : AUTOBUF_E_NOREPLY;
    return result < 0 ? result : 0;
}

/* ------------------------------------------------------------------------ results and shells */

int autobuf_probe_result(const struct autobuf_probe *probe, struct autobuf_path *path)
{
    struct autobuf_path found;
    int result;

    if (!probe)
        return -EINVAL;
    result = ab_schedule_result(&probe->schedule, &found);
    return ab_struct_out(path, &found, sizeof found) ? result : -EINVAL;
}

int autobuf_probe_progress(const struct autobuf_probe *probe, struct autobuf_probe_progress *progress)
{
    const struct ab_schedule *schedule;
    struct autobuf_probe_progress now;

    if (!probe)
        return -EINVAL;
    schedule = &probe->schedule;
    now = (struct autobuf_probe_progress){
        .trains = schedule->trains,
        .sent_packets = (uint32_t)schedule->count,
        .received_packets = schedule->received,
        .cost_bytes = schedule->cost_bytes,
        .elapsed_ns = (schedule->phase == AB_DONE ? schedule->finished_ns : schedule->last_ns) - schedule->start_ns,
    };
    return ab_struct_out(progress, &now, sizeof now) ? 0 : -EINVAL;
}

size_t autobuf_probe_rates(const struct autobuf_probe *probe, uint64_t *rates, size_t cap)
{
    const struct ab_schedule *s;
    struct ab_rate rate;
    size_t count, found;

    if (!probe)
        return 0;
    s = &probe->schedule;
    count = ab_schedule_measured(s);
    ab_estimate_rate(s->packets, count, s->scratch, &rate);
    if (rate.at_least || !rate.rate_bit_per_s)
        return 0;
    found = rate.kind == AB_KIND_CLUSTER || rate.kind == AB_KIND_EVEN
                ? ab_readings_of_gaps(s->packets, count, s->scratch)
                : ab_estimate_readings(s->packets, count, rate.window_ns, s->scratch);
    if (found && cap && rates)
        memcpy(rates, s->scratch, ab_min_size(found, cap) * sizeof *rates);
    return found;
}

int autobuf_probe_available(const struct autobuf_probe *probe, struct autobuf_available *available)
{
    return probe ? ab_stretches_result(probe->schedule.stretches, available) : -EINVAL;
}

static int step_of_probe(void *handle, uint64_t now_ns, int *events, uint64_t *until_ns)
{
    int result = autobuf_probe_step(handle, now_ns);

    *events = autobuf_probe_events(handle);
    *until_ns = autobuf_probe_deadline_ns(handle);
    return result;
}

/* Steps it until it is finished, takes its result and closes it. */
static int finish(struct autobuf_probe *probe, struct autobuf_path *path)
{
    int result = ab_run(probe->fd, step_of_probe, probe);

    if (result > 0)
        result = autobuf_probe_result(probe, path);
    autobuf_probe_close(probe);
    return result;
}

int autobuf_probe(const struct sockaddr *peer, socklen_t peer_len,
                  const struct autobuf_probe_options *options, struct autobuf_path *path)
{
    struct autobuf_probe *probe;
    int result = path ? autobuf_probe_open(&probe, peer, peer_len, options) : -EINVAL;

    return result < 0 ? result : finish(probe, path);
}

static void take_source(int fd, struct autobuf_probe_options *probe, struct sockaddr_storage *source)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof local;
    socklen_t mark_len = sizeof probe->mark;

    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0 && len <= sizeof local) {
        int copied = ab_address_copy((struct sockaddr *)&local, len, source);

        if (copied > 0 && !ab_address_is_any(source)) {
            probe->source = (struct sockaddr *)source;
            probe->source_len = (uint32_t)copied;
        }
    }
    ab_socket_device(fd, probe->device);
    if (!probe->mark)
        (void)getsockopt(fd, SOL_SOCKET, SO_MARK, &probe->mark, &mark_len);
}

int ab_probe_open_like(struct autobuf_probe **probe, int fd, const struct sockaddr *peer,
                       socklen_t peer_len, const struct autobuf_probe_options *options)
{
    struct autobuf_probe_options like = *options;
    struct sockaddr_storage source;

    take_source(fd, &like, &source);
    return autobuf_probe_open(probe, peer, peer_len, &like);
}

int ab_probe_conclude(struct autobuf_probe *probe, struct autobuf_path *path)
{
    int result = autobuf_probe_result(probe, path);

    autobuf_probe_close(probe);
    return result == AUTOBUF_E_FEW ? 0 : result;
}

int ab_probe_like(int fd, const struct sockaddr *peer, socklen_t peer_len,
                  const struct autobuf_probe_options *options, struct autobuf_path *path)
{
    struct autobuf_probe *probe;
    int result = ab_probe_open_like(&probe, fd, peer, peer_len, options);

    if (result == 0)
        result = finish(probe, path);
    return result == AUTOBUF_E_FEW ? 0 : result;
}
