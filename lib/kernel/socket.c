/* SPDX-License-Identifier: MIT */
/* The state of a TCP socket, and the stamps of what it receives. */
#include "socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include "../base/clock.h"
#include "../base/option.h"

#define STAMP_SLACK_NS (2 * (int64_t)AB_NS_PER_MS)
#define STAMP_AGE_NS (2 * (int64_t)AB_NS_PER_S)

#ifndef SO_COOKIE
#define SO_COOKIE 57
#endif

#define WINDOW_FIELD_MAX 65535ULL /* of the TCP header; RFC 7323 shifts it */

static uint32_t stage_of(uint8_t state)
{
    if (state == AB_TCP_CLOSE)
        return AUTOBUF_STAGE_NEW;
    return state == AB_TCP_LISTEN ? AUTOBUF_STAGE_LISTENING : AUTOBUF_STAGE_CONNECTED;
}

/* Both ends must agree on window scaling. Until the SYN-ACK the scale is unknown. */
static void note_connection(const struct ab_tcpinfo *info, struct autobuf_socket *s)
{
    s->mss_bytes = info->mss_bytes;
    if (info->state == AB_TCP_SYN_SENT)
        return;
    s->snd_window_max_bytes = WINDOW_FIELD_MAX << info->snd_scale;
    s->rcv_window_max_bytes = WINDOW_FIELD_MAX << info->rcv_scale;
    s->flags = info->scaled ? 0 : AUTOBUF_SOCKET_UNSCALED;
    s->rtt_min_ns = ab_ns_or_unset(info->rtt_min_ns);
}

int ab_socket_info(int fd, struct ab_tcpinfo *info)
{
    uint8_t bytes[AB_TCPINFO_BYTES];
    socklen_t len = sizeof bytes;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, bytes, &len) < 0 ||
        !ab_tcpinfo_parse(bytes, len, info))
        return -EOPNOTSUPP;
    return 0;
}

int ab_socket_scratch(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 && errno == EAFNOSUPPORT)
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

int ab_socket_sizes(int fd, uint64_t *snd_bytes, uint64_t *rcv_bytes)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof memory;
    int snd = 0, rcv = 0, error = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &len) < 0) {
        error = ab_get_int(fd, SOL_SOCKET, SO_SNDBUF, &snd);
        error = error == 0 ? ab_get_int(fd, SOL_SOCKET, SO_RCVBUF, &rcv) : error;
        memory[SK_MEMINFO_SNDBUF] = (uint32_t)snd;
        memory[SK_MEMINFO_RCVBUF] = (uint32_t)rcv;
    }
    *snd_bytes = memory[SK_MEMINFO_SNDBUF];
    *rcv_bytes = memory[SK_MEMINFO_RCVBUF];
    return error;
}

/*
 * Before Linux 5.15 only sizes show locks. Before the connection a buffer that nobody set has the size of a new socket.
 * Autotuning then makes it larger, never smaller, so that some set sizes go unseen.
 */
static uint32_t locks_by_sizes(const struct autobuf_socket *socket)
{
    bool late = socket->stage == AUTOBUF_STAGE_CONNECTED;
    int fd = ab_socket_scratch();
    uint64_t snd, rcv;
    uint32_t locks = 0;

    if (fd < 0)
        return 0;
    if (ab_socket_sizes(fd, &snd, &rcv) == 0) {
        if (late ? socket->snd_buf_bytes < snd : socket->snd_buf_bytes != snd)
            locks |= AUTOBUF_LOCK_SND;
        if (late ? socket->rcv_buf_bytes < rcv : socket->rcv_buf_bytes != rcv)
            locks |= AUTOBUF_LOCK_RCV;
    }
    close(fd);
    return locks;
}

int ab_socket_read(int fd, struct autobuf_socket *state, struct ab_tcpinfo *info)
{
    struct autobuf_socket found = {.size = sizeof found, .rtt_min_ns = AUTOBUF_NS_UNSET};
    int protocol = 0, locks = 0, error;

    error = ab_get_int(fd, SOL_SOCKET, SO_PROTOCOL, &protocol);
    if (error == 0)
        error = protocol == IPPROTO_TCP ? ab_socket_info(fd, info) : -EOPNOTSUPP;
    if (error == 0)
        error = ab_socket_sizes(fd, &found.snd_buf_bytes, &found.rcv_buf_bytes);
    if (error < 0)
        return error;
    found.stage = stage_of(info->state);
    if (found.stage == AUTOBUF_STAGE_CONNECTED)
        note_connection(info, &found);
    if (ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks) == 0)
        found.locks = (uint32_t)locks & (AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV);
    else
        found.locks = locks_by_sizes(&found);
    *state = found;
    return 0;
}

int autobuf_socket_state(int fd, struct autobuf_socket *state)
{
    struct autobuf_socket found;
    struct ab_tcpinfo info = {.state = 0};
    int error = state ? ab_socket_read(fd, &found, &info) : -EINVAL;

    if (error < 0)
        return error;
    return ab_struct_out(state, &found, sizeof found) ? 0 : -EINVAL;
}

void ab_socket_device(int fd, char *device)
{
    socklen_t len = AUTOBUF_INTERFACE_BYTES; /* the kernel wants room for the longest name */

    if (getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, &len) < 0 || !len)
        device[0] = '\0';
    device[AUTOBUF_INTERFACE_BYTES - 1] = '\0';
}

int ab_socket_cookie(int fd, uint64_t *cookie)
{
    socklen_t len = sizeof *cookie;

    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len) < 0 ? -errno : 0;
}

int ab_socket_check(int fd, uint64_t cookie)
{
    uint64_t now;
    int error = ab_socket_cookie(fd, &now);

    if (error < 0)
        return error;
    return now == cookie ? 0 : -ESTALE;
}

/* Setting the clock changes the offset; slewing changes it by less than the slack during a measurement. */
static bool is_set(uint64_t *offset_ns)
{
    uint64_t present_ns = ab_clock_offset_ns();
    int64_t off_ns = (int64_t)(present_ns - *offset_ns);

    if (off_ns <= STAMP_SLACK_NS && off_ns >= -STAMP_SLACK_NS)
        return false;
    *offset_ns = present_ns;
    return true;
}

uint64_t ab_stamp_ns(struct msghdr *message, int type, uint64_t *offset_ns)
{
    uint64_t now_ns = autobuf_now_ns();

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct timespec t; /* SCM_TIMESTAMPING has three, of which the first is the software's */
        uint64_t real_ns;
        int64_t age_ns;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != type ||
            c->cmsg_len < CMSG_LEN(sizeof t))
            continue;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        real_ns = (uint64_t)t.tv_sec * AB_NS_PER_S + (uint64_t)t.tv_nsec;
        if (is_set(offset_ns)) /* before that stamp, or after it */
            break;
        age_ns = (int64_t)(now_ns - (real_ns - *offset_ns));
        if (age_ns > -STAMP_SLACK_NS && age_ns < STAMP_AGE_NS)
            return ab_min(now_ns, real_ns - *offset_ns);
    }
    return now_ns;
}
