/* SPDX-License-Identifier: MIT */
/*
 * What is done for the connections of this process. Each call does nothing in a process that is left alone, and none
 * changes errno, unless it says so.
 */
#ifndef RUN_CARE_H
#define RUN_CARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "places.h"
#include "self.h"
#include "tend.h"

/* A blocking call that moves more than this is made in parts, so that there is a look between them. */
#define CARE_PART_BYTES ((size_t)512 * 1024)

/* Begins to care, as the settings say. Called once, before main(). */
void care_begin(const struct run_settings *settings);

/* Ends all care in this process for good: a filter of system calls comes, or the process ends. */
void care_end(void);

/*
 * Another program is about to take this one's place: what is set for a time, as a pace is, is put back, for nobody would do it later.
 * Returns false if there is nothing to do; otherwise, if the program stays, care_not_replaced() begins anew.
 */
bool care_replacing(void);
void care_not_replaced(bool begun);

/* A descriptor came: from socket(), from accept(), as a duplicate, over a unix socket. -1 counts for nothing. */
void care_made(int fd, int domain, int type, int protocol);
void care_accepted(int listener, int fd);
void care_duplicated(int fd, int copy);
void care_received(const struct msghdr *message);

/* Descriptors from first to last are about to be closed. */
void care_closing(unsigned first, unsigned last);

/* One is; most of those that programs close are no connections. */
static inline void care_closes(int fd)
{
    const struct place *place = place_of(fd);

    if (place && place_kind(place) != PLACE_OTHER)
        care_closing((unsigned)fd, (unsigned)fd);
}

/* A descriptor is about to become a copy of another one, if that is open. */
void care_replaces(int fd, int copy);

/* Another number when the descriptor has become another one. */
static inline uint32_t care_use(int fd)
{
    const struct place *place = place_of(fd);

    return place ? atomic_load_explicit(&place->renewals, memory_order_relaxed) : 0;
}

/* The file that a descriptor is of, and whether it still is. */
struct care_file {
    dev_t dev;
    ino64_t ino;
};

struct care_file care_file_of(int fd);
bool care_is_file(int fd, struct care_file file);

/* connect() is about to be called: the path is measured if that is allowed. */
void care_connecting(int fd, const struct sockaddr *peer, socklen_t length);

/* connect() has succeeded, or will later: so the kernel has read its peer. */
void care_connected(int fd, const struct sockaddr *peer, socklen_t length);

/* Returns true if a size that the program sets is not to be applied, because autotuning does better. */
bool care_keeps(int fd, int option, const void *value, socklen_t length);

/* The program has set a size with SO_SNDBUFFORCE or SO_RCVBUFFORCE. */
void care_forced(int fd, int option);

/*
 * The program has set TCP_WINDOW_CLAMP: its receive side is left to it from now on. Returns true where a SO_RCVBUF of it was not
 * applied, so that autotuning would move the clamp, and what ends that: SO_RCVBUF with its value, or, for a connection that has
 * moved data, which may be in flight to a larger buffer, SO_BUF_LOCK.
 */
bool care_clamps(int fd, int *option, int *value);

/* Returns true, and what getsockopt() is to answer, for a size that was not applied. */
bool care_asked(int fd, int option, uint32_t *stored);

/* shutdown() is about to be called. */
void care_ending(int fd);

/* Whether to make a call that sends more than CARE_PART_BYTES in parts. */
bool care_wants_parts(int fd);

/*
 * Between two parts of a call that began with this use of the descriptor: returns false if the call would return what it has
 * sent, for the connection has failed or a signal was handled, or if the descriptor is of something else now. full: waits for
 * room, as send() would. An error of the connection stays for the program's next call.
 */
bool care_goes_on(int fd, uint32_t use, bool full);

/* Whether to make a recv() with MSG_WAITALL of more than CARE_PART_BYTES in parts. */
bool care_wants_parts_of_read(int fd);

/*
 * As care_goes_on(), for recv(). Returns true if there is more to read; false also if the connection has ended, or if urgent
 * data come next.
 */
bool care_more_comes(int fd, uint32_t use);

/* The program waits: looks after the connections that are due. Most programs have none. */
static inline void care_waits(void)
{
    if (__builtin_expect(atomic_load_explicit(&tend_soonest_ns, memory_order_relaxed) != AUTOBUF_NS_UNSET, 0))
        tend_waiting();
}

/* So many bytes were moved by a call, perhaps of a connection. */
void care_moved(int fd, uint64_t bytes, bool sent);

/*
 * Here is all that most calls need, which are of a file, or of a connection that needs no look. Whether anything is to be
 * done at all is asked by those two that do something.
 */
static inline void moved(int fd, int64_t bytes, bool sent)
{
    struct place *place;

    if (bytes <= 0)
        return;
    place = place_of(fd);
    if (place && place->generation == self_generation) {
        if (__builtin_expect(place_counts(place, (uint64_t)bytes, sent), 0))
            tend_reached(fd, place);
    } else if (place_kind(place) != PLACE_OTHER) {
        care_moved(fd, (uint64_t)bytes, sent);
    }
}

#endif
