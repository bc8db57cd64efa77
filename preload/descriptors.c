/* SPDX-License-Identifier: MIT */
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "care.h"
#include "next.h"
#include "self.h"
#include "tend.h"

/* What was TCP before has a flow, perhaps, or a line to report. */
static void set_kind(int fd, struct place *place, enum place_kind kind)
{
    if (kind == PLACE_OTHER && atomic_load(&place->kind) != PLACE_TCP) {
        atomic_store(&place->kind, PLACE_OTHER);
        return;
    }
    tend_renew(fd, place, kind);
}

static int option_of(int fd, int option)
{
    int value = 0;
    socklen_t length = sizeof value;

    return NEXT(getsockopt)(fd, SOL_SOCKET, option, &value, &length) < 0 ? -errno : value;
}

int descriptor_locks(int fd)
{
    int locks = option_of(fd, SO_BUF_LOCK);

    return locks < 0 ? 0 : locks;
}

bool descriptor_is_tcp(int fd)
{
    int domain = option_of(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6) && option_of(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

/* Gives a listening socket's buffers back to autotuning: somebody else opened it, and the connections inherit them. */
static void unlock_listener(int fd, const struct place *place)
{
    struct autobuf_options options = tend_options(place);
    struct autobuf_flow *flow;
    struct stay stay;

    if (self_settings.keep_sizes || !options.limits || !self_enter(&stay))
        return;
    if (self_may_open()) {
        if (autobuf_flow_open(&flow, fd, NULL, 0, &options) == 0)
            autobuf_flow_close(flow);
        self_opened();
    }
    self_leave(&stay);
}

/* Looks what a descriptor is that nobody has told of. */
static enum place_kind find_out(int fd, struct place *place)
{
    enum place_kind kind = PLACE_UNKNOWN;
    int error = errno;

    if (self_is_owner() && option_of(fd, SO_TYPE) != -EBADF) {
        kind = descriptor_is_tcp(fd) ? PLACE_TCP : PLACE_OTHER;
        set_kind(fd, place, kind);
        if (kind == PLACE_TCP && option_of(fd, SO_ACCEPTCONN) == 1)
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
        tend_adopt(fd, place);
    return place;
}

/* Its place in the table; NULL where there is nothing to note. */
static struct place *noted_place(int fd)
{
    return fd >= 0 && self_acts() && self_is_owner() ? place_made(fd) : NULL;
}

void care_made(int fd, int domain, int type, int protocol)
{
    bool tcp = (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_STREAM &&
               (protocol == 0 || protocol == IPPROTO_TCP);
    struct place *place = noted_place(fd);

    if (!place)
        return;
    set_kind(fd, place, tcp ? PLACE_TCP : PLACE_OTHER);
    if (tcp)
        self_limits();
}

/* Its sizes are those of the other one, applied or not. */
static void inherit(int fd, struct place *place, const struct place *from)
{
    set_kind(fd, place, PLACE_TCP);
    place->kept = from->kept;
    place->set = from->set;
    place->own = from->own;
    memcpy(place->asked_bytes, from->asked_bytes, sizeof place->asked_bytes);
}

void care_accepted(int listener, int fd)
{
    struct place *place = noted_place(fd), *from;

    if (!place)
        return;
    from = descriptor_tcp(listener);
    if (from) {
        inherit(fd, place, from);
        tend_came(fd, place);
    } else {
        set_kind(fd, place, PLACE_OTHER);
    }
}

void care_replaces(int fd, int copy)
{
    const struct place *place = place_of(copy);
    int error = errno;

    if (fd != copy && place && place_kind(place) != PLACE_OTHER && self_acts() && NEXT(fcntl)(fd, F_GETFD) >= 0)
        care_closes(copy);
    errno = error;
}

void care_duplicated(int fd, int copy)
{
    struct place *place = noted_place(copy), *from;
    int error = errno;

    if (!place || fd == copy)
        return;
    from = descriptor_tcp(fd);
    if (from)
        inherit(copy, place, from);
    else
        set_kind(copy, place, PLACE_OTHER);
    errno = error;
}

void care_received(const struct msghdr *message)
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

void care_closing(unsigned first, unsigned last)
{
    bool mine = false;

    if (!self_acts())
        return;
    for (uint64_t fd = first; fd <= last && fd < PLACES_MOST; fd++) {
        struct place *place = place_of((int)fd);

        if (!place) {
            fd |= PLACES_A_PAGE - 1; /* nor has any other of this page one */
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
