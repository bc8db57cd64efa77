/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "calls.h"
#include "next.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262 /* glibc 2.32 */
#endif

/* What was a TCP socket before may have a flow, or a line to report. */
static void set_kind(int fd, struct place *place, enum place_kind kind)
{
    if (kind == PLACE_OTHER && atomic_load(&place->kind) != PLACE_TCP) {
        atomic_store(&place->kind, PLACE_OTHER);
        return;
    }
    manage_renew(fd, place, kind);
}

uint32_t descriptor_locks(int fd)
{
    int locks = run_option(fd, SO_BUF_LOCK);

    return locks < 0 ? 0 : (uint32_t)locks;
}

/* An MPTCP socket counts, too: TCP connections that it accepts from peers without MPTCP have its sizes. */
static bool is_tcp(int domain, int protocol)
{
    return (domain == AF_INET || domain == AF_INET6) && (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP);
}

bool descriptor_is_tcp(int fd)
{
    return is_tcp(run_option(fd, SO_DOMAIN), run_option(fd, SO_PROTOCOL));
}

/* Unlocks the buffers of a listener that another process opened: its connections would inherit the locks. */
static void unlock_listener(int fd, const struct place *place)
{
    struct autobuf_options options = manage_options(place);
    struct stay stay;

    if (self_settings.keep_sizes || !options.limits || !self_enter(&stay))
        return;
    if (self_may_open()) {
        (void)autobuf_tune(fd, NULL, 0, &options, NULL);
        self_opened();
    }
    self_leave(&stay);
}

/* Asks the kernel about a descriptor that came by no call of this process. */
static enum place_kind find_out(int fd, struct place *place)
{
    enum place_kind kind = PLACE_UNKNOWN;
    int error = errno;

    if (self_is_owner() && run_option(fd, SO_TYPE) != -EBADF) {
        kind = descriptor_is_tcp(fd) ? PLACE_TCP : PLACE_OTHER;
        if (kind == PLACE_TCP)
            atomic_store(&places_share, true); /* whose it was before is not known */
        set_kind(fd, place, kind);
        if (kind == PLACE_TCP && run_option(fd, SO_ACCEPTCONN) == 1)
            unlock_listener(fd, place);
    }
    errno = error;
    return kind;
}

struct place *descriptor_tcp(int fd)
{
    struct place *place;
    enum place_kind kind;

    if (fd < 0 || !self_acts())
        return NULL;
    place = place_made(fd);
    if (!place)
        return NULL;
    kind = place_kind(place);
    if (kind == PLACE_UNKNOWN)
        kind = find_out(fd, place);
    if (kind != PLACE_TCP)
        return NULL;
    if (place->generation != self_generation && self_is_owner())
        manage_adopt(fd, place);
    return place;
}

/* Its place; NULL if there is nothing to note. */
static struct place *noted_place(int fd)
{
    return fd >= 0 && self_acts() && self_is_owner() ? place_made(fd) : NULL;
}

void on_socket(int fd, int domain, int type, int protocol)
{
    bool tcp = (type & 0xf) == SOCK_STREAM && is_tcp(domain, protocol ? protocol : IPPROTO_TCP);
    struct place *place = noted_place(fd);

    if (!place)
        return;
    set_kind(fd, place, tcp ? PLACE_TCP : PLACE_OTHER);
    if (tcp)
        self_limits();
}

/*
 * A duplicate or an accepted connection has the sizes of the other socket, applied or withheld. Returns its place;
 * NULL: it is no connection, or there is nothing to note.
 */
static struct place *note_copy(int fd, int copy)
{
    struct place *place = noted_place(copy), *from = place ? descriptor_tcp(fd) : NULL;

    if (!place)
        return NULL;
    set_kind(copy, place, from ? PLACE_TCP : PLACE_OTHER);
    if (!from)
        return NULL;
    place->kept = from->kept;
    place->set = from->set;
    place->own = from->own;
    memcpy(place->asked_bytes, from->asked_bytes, sizeof place->asked_bytes);
    return place;
}

void on_accept(int listener, int fd)
{
    struct place *place = note_copy(listener, fd);

    if (place)
        manage_connecting(fd, place);
}

void on_dup2(int fd, int copy)
{
    const struct place *place = place_of(copy);
    int error = errno;

    if (fd != copy && place && place_kind(place) != PLACE_OTHER && self_acts() && NEXT(fcntl)(fd, F_GETFD) >= 0)
        on_close(copy);
    errno = error;
}

void on_dup(int fd, int copy)
{
    int error = errno;

    if (fd != copy && note_copy(fd, copy))
        atomic_store(&places_share, true);
    errno = error;
}

void on_rights(const struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)message, c)) {
        size_t count = c->cmsg_len >= CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < count; i++) {
            struct place *place;
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            place = noted_place(fd);
            if (place) {
                set_kind(fd, place, PLACE_OTHER);
                atomic_store(&place->kind, PLACE_UNKNOWN);
            }
        }
    }
}

void on_close_range(unsigned first, unsigned last)
{
    bool mine = false;

    if (!self_acts())
        return;
    for (uint64_t fd = first; fd <= last && fd < PLACES_MOST; fd++) {
        struct place *place = place_of((int)fd);

        if (!place) {
            fd |= PLACES_A_PAGE - 1; /* nor has any other descriptor of this page */
            continue;
        }
        if (place_kind(place) == PLACE_OTHER)
            continue;
        if (!mine && !self_is_owner())
            return;
        mine = true;
        set_kind((int)fd, place, PLACE_OTHER);
    }
}
