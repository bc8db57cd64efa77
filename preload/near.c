/* SPDX-License-Identifier: MIT */
#include "near.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "self.h"
#include "sizes.h"

bool near_needs_nothing(int fd, const struct place *place)
{
    const struct autobuf_limits *limits = self_limits();
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (!limits || self_settings.intent == AUTOBUF_INTENT_LOW_DELAY || autobuf_socket_state(fd, &now) < 0 ||
        now.locks & ~(uint32_t)place->own)
        return false;
    return run_size_is_enough(limits->tcp_wmem_max_bytes, now.rtt_min_ns) &&
           run_size_is_enough(limits->tcp_rmem_max_bytes, now.rtt_min_ns);
}

static bool is_same(const struct sockaddr_in6 *one, const struct sockaddr_in6 *other)
{
    const struct sockaddr_in *a = (const void *)one, *b = (const void *)other;

    if (one->sin6_family != other->sin6_family)
        return false;
    return one->sin6_family == AF_INET ? a->sin_addr.s_addr == b->sin_addr.s_addr
                                       : memcmp(&one->sin6_addr, &other->sin6_addr, sizeof one->sin6_addr) == 0;
}

static bool is_loopback(const struct sockaddr_in6 *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct in6_addr *v6 = &address->sin6_addr;

    if (address->sin6_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
}

/* Also a listener that only programs of this host reach. */
static bool is_on_this_host(int fd)
{
    struct sockaddr_in6 here, peer;
    socklen_t here_length = sizeof here, peer_length = sizeof peer;

    if (getsockname(fd, (struct sockaddr *)&here, &here_length) < 0)
        return false;
    return is_loopback(&here) ||
           (getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 && is_same(&here, &peer));
}

bool near_takes_size(int fd, uint64_t stored_bytes)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (self_settings.intent == AUTOBUF_INTENT_LOW_DELAY)
        return false;
    return is_on_this_host(fd) || (autobuf_socket_state(fd, &now) == 0 && run_size_is_enough(stored_bytes, now.rtt_min_ns));
}

/* The sides with a size that is to be applied. */
static uint32_t sides_to_settle(int fd, const struct place *place)
{
    uint32_t sides = 0;

    if (place->kept & AUTOBUF_LOCK_SND && near_takes_size(fd, place->asked_bytes[0]))
        sides |= AUTOBUF_LOCK_SND;
    if (place->kept & AUTOBUF_LOCK_RCV && near_takes_size(fd, place->asked_bytes[1]))
        sides |= AUTOBUF_LOCK_RCV;
    return sides;
}

void near_settle(int fd, struct place *place)
{
    struct autobuf_settings settings = AUTOBUF_SETTINGS_INIT;
    uint32_t sides = sides_to_settle(fd, place);
    char line[96];

    if (!sides || autobuf_settings_read(fd, &settings) < 0)
        return;
    settings.locks |= sides;
    if (sides & AUTOBUF_LOCK_SND)
        settings.snd_buf_bytes = place->asked_bytes[0];
    if (sides & AUTOBUF_LOCK_RCV)
        settings.rcv_buf_bytes = place->asked_bytes[1];
    if (autobuf_settings_restore(fd, &settings) < 0)
        return;
    place->kept &= (uint8_t)~sides;
    place->set |= (uint8_t)sides;
    place->own |= (uint8_t)sides;
    snprintf(line, sizeof line, "fd %d:%s%s of the program set: its peer is near", fd,
             sides & AUTOBUF_LOCK_SND ? " SO_SNDBUF" : "", sides & AUTOBUF_LOCK_RCV ? " SO_RCVBUF" : "");
    autobuf_log_line(line);
}
