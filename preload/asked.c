/* SPDX-License-Identifier: MIT */
/* What the program asks of a socket: sizes, and a connection. */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "care.h"
#include "descriptors.h"
#include "near.h"
#include "next.h"
#include "self.h"
#include "sizes.h"
#include "tend.h"

static unsigned side_of(int option)
{
    return option == SO_SNDBUF ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV;
}

static void tell_size(int fd, int option, int value, uint64_t reach)
{
    char line[128];

    snprintf(line, sizeof line, "fd %d: %s %d of the program is not set: autotuning reaches %llu bytes", fd,
             option == SO_SNDBUF ? "SO_SNDBUF" : "SO_RCVBUF", value, (unsigned long long)reach);
    autobuf_log_line(line);
}

/* One that was locked before, by another process or as the listener's, is given back. Returns whether autotuning has it then. */
static bool gives_back(int fd, const struct place *place, uint32_t side)
{
    bool given;

    if (place->flow || !(descriptor_locks(fd) & (int)side))
        return true;
    if (!self_may_open())
        return false;
    given = autobuf_unlock(fd, side) >= 0;
    self_opened();
    return given;
}

static bool keep(int fd, struct place *place, int option, int value, const struct autobuf_limits *limits)
{
    uint32_t side = side_of(option);
    uint64_t stored = run_size_stored(limits, side, value);

    if (!self_settings.keep_sizes && near_takes_size(fd, stored)) {
        if (!(place->own & side))
            tend_anew(place);
        place->own |= (uint8_t)side;
    }
    if (self_settings.keep_sizes || place->own & side || !run_size_is_small(limits, side, stored) ||
        !gives_back(fd, place, side)) {
        place->kept &= (uint8_t)~side;
        place->set |= (uint8_t)side;
        return false;
    }
    place->kept |= (uint8_t)side;
    place->asked_bytes[option != SO_SNDBUF] = (uint32_t)stored;
    tell_size(fd, option, value, option == SO_SNDBUF ? limits->tcp_wmem_max_bytes : limits->tcp_rmem_max_bytes);
    return true;
}

bool care_keeps(int fd, int option, const void *value, socklen_t length)
{
    struct place *place = descriptor_tcp(fd);
    const struct autobuf_limits *limits = place ? self_limits() : NULL;
    struct stay stay;
    int asked;
    bool keeps = false;

    if (!limits || !value || length < sizeof asked || length > INT_MAX || !self_enter(&stay)) /* the kernel refuses other lengths */
        return false;
    if (self_is_owner() && descriptor_is_tcp(fd)) { /* or the caller is to get the kernel's error */
        memcpy(&asked, value, sizeof asked);
        place_lock(place);
        keeps = keep(fd, place, option, asked, limits);
        place_unlock(place);
    }
    self_leave(&stay);
    return keeps;
}

void care_forced(int fd, int option)
{
    uint8_t side = option == SO_SNDBUFFORCE ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV;
    struct place *place = descriptor_tcp(fd);
    struct stay stay;

    if (!place || !self_enter(&stay))
        return;
    place_lock(place);
    place->kept &= (uint8_t)~side;
    place->set |= side;
    place_unlock(place);
    self_leave(&stay);
}

bool care_clamps(int fd, int *option, int *value)
{
    struct place *place = descriptor_tcp(fd);
    struct stay stay;
    bool locks = false;

    if (!place || !self_enter(&stay))
        return false;
    if (self_is_owner() && descriptor_is_tcp(fd)) {
        place_lock(place);
        if (!(place->own & AUTOBUF_LOCK_RCV))
            tend_anew(place);
        place->own |= AUTOBUF_LOCK_RCV;
        locks = place->kept & AUTOBUF_LOCK_RCV;
        *option = place_moved_bytes(place) ? SO_BUF_LOCK : SO_RCVBUF;
        *value = (int)(*option == SO_BUF_LOCK ? (uint32_t)descriptor_locks(fd) | AUTOBUF_LOCK_RCV : place->asked_bytes[1] / 2);
        if (locks && *option == SO_RCVBUF) {
            place->kept &= (uint8_t)~AUTOBUF_LOCK_RCV;
            place->set |= AUTOBUF_LOCK_RCV;
        }
        place_unlock(place);
    }
    self_leave(&stay);
    return locks;
}

bool care_asked(int fd, int option, uint32_t *stored)
{
    struct place *place = descriptor_tcp(fd);

    if (!place || !(place->kept & side_of(option)) || !descriptor_is_tcp(fd)) /* libc may have closed it, as fclose() does */
        return false;
    *stored = place->asked_bytes[option != SO_SNDBUF];
    return true;
}

/* Some programs call connect() once more to see what came of it. */
static bool connects_already(int fd)
{
    uint8_t state = TCP_CLOSE;
    socklen_t length = sizeof state;

    return NEXT(getsockopt)(fd, IPPROTO_TCP, TCP_INFO, &state, &length) == 0 && state != TCP_CLOSE;
}

static void measure(int fd, const struct place *place, const struct sockaddr *peer, socklen_t length)
{
    struct autobuf_options options = tend_options(place);
    struct stay stay;

    options.flags = 0;
    if (tend_is_all_set(place) || !options.limits || !self_enter(&stay))
        return;
    autobuf_tune(fd, peer, length, &options, NULL); /* a fork does not wait so long: its child may have a socket more */
    self_leave(&stay);
}

void care_connecting(int fd, const struct sockaddr *peer, socklen_t length)
{
    struct place *place = descriptor_tcp(fd);
    int error = errno;

    if (!place || connects_already(fd))
        return;
    if (self_settings.probe)
        measure(fd, place, peer, length);
    errno = error;
    place->began_ns = place->marked_ns = autobuf_now_ns();
}

void care_connected(int fd, const struct sockaddr *peer, socklen_t length)
{
    struct place *place = descriptor_tcp(fd);

    if (!place)
        return;
    if (self_settings.report && length <= sizeof place->peer)
        memcpy(&place->peer, peer, length);
    tend_came(fd, place);
}
