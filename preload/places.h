/* SPDX-License-Identifier: MIT */
/* What is known of each descriptor of this process: a table by number. Only pages that are used take memory. */
#ifndef RUN_PLACES_H
#define RUN_PLACES_H

#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include <autobuf/flow.h>

#define PLACES_A_PAGE 256U
#define PAGES 4096U
#define PLACES_MOST (PLACES_A_PAGE * PAGES) /* descriptors from here on are left alone */
#define BOTTLENECKS (AUTOBUF_BOTTLENECK_STALLED + 1)

#define YIELDS 100

/* A lock that is held for microseconds, and that a forked child can free: 0 is free. */
static inline bool spin_trylock(_Atomic uint8_t *lock)
{
    return !atomic_exchange_explicit(lock, 1, memory_order_acquire);
}

static inline void spin_lock(_Atomic uint8_t *lock)
{
    for (unsigned tries = 0; !spin_trylock(lock); tries++) {
        if (tries < YIELDS)
            sched_yield();
        else /* who has it may be of a lower priority than this thread, which is of SCHED_FIFO */
            nanosleep(&(struct timespec){0, 50000}, NULL);
    }
}

static inline void spin_unlock(_Atomic uint8_t *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

enum place_kind {
    PLACE_UNKNOWN, /* it was open before this object was, and nobody has asked the kernel yet */
    PLACE_OTHER,   /* closed, or no TCP socket */
    PLACE_TCP,
};

/*
 * One descriptor. Counters and times are read and written without the lock: nothing depends on one call more or less.
 * The flow and what is below it belong to the thread that holds the lock. The first cache line holds what each call
 * needs.
 */
struct place {
    _Alignas(64) _Atomic uint8_t kind; /* enum place_kind */
    _Atomic uint8_t locked;
    _Atomic uint8_t listed;  /* position in the list of managed connections, from 1 on; 0: not in it */
    /* AUTOBUF_LOCK_* bits: */
    uint8_t kept;            /* a size that the program set was withheld from the kernel */
    uint8_t set;             /* a size that the program set was applied */
    uint8_t own;             /* left to the program: it set TCP_WINDOW_CLAMP, or a size while its peer is near */
    uint8_t changed;         /* set by a flow. Only with --report */
    uint32_t generation;     /* of the process that manages this TCP socket: a forked child has another one; 0: none */
    uint32_t asked_bytes[2]; /* what getsockopt() answers for a withheld size, send side first */
    _Atomic uint32_t renewals; /* how often the descriptor became one of another file */
    _Atomic uint64_t sent_bytes;
    _Atomic uint64_t received_bytes;
    _Atomic uint64_t mark_bytes; /* the next sample is due when this much has moved */
    _Atomic uint64_t due_ns;     /* and not before this time */
    uint64_t began_ns;           /* connected */
    uint64_t marked_ns;          /* when the mark was set */
    struct autobuf_flow *flow;   /* NULL: none yet */
    _Atomic uint64_t cookie;     /* SO_COOKIE, one for all descriptors of a socket; 0: unknown. Only with --report */
    struct sockaddr_in6 peer;    /* or a sockaddr_in; AF_UNSPEC: unknown. Only with --report */
    struct autobuf_socket last;  /* the last sample while TCP knew the connection. Only with --report */
    uint64_t paced_bit_per_s;    /* by the flow, at the last sample; 0: not paced. Only with --report */
    uint64_t low_bit_per_s, high_bit_per_s; /* free, when that was known last; 0: it was not. Only with --report */
    _Atomic uint64_t ahead_bytes; /* the most that libssh2 had requested and not got. Only with --report */
    uint64_t sampled_ns;         /* last sample of the flow, for the report; 0: none yet */
    uint64_t limited_ns[BOTTLENECKS]; /* how long each AUTOBUF_BOTTLENECK_* was the bottleneck. Only with --report */
};

extern _Atomic(struct place *) run_pages[PAGES] __attribute__((visibility("hidden")));

/* NULL: nothing is known of this descriptor. */
static inline struct place *place_of(int fd)
{
    struct place *page;

    if ((unsigned)fd >= PLACES_MOST)
        return NULL;
    page = atomic_load_explicit(&run_pages[(unsigned)fd / PLACES_A_PAGE], memory_order_acquire);
    return page ? &page[(unsigned)fd % PLACES_A_PAGE] : NULL;
}

static inline enum place_kind place_kind(const struct place *place)
{
    return place ? (enum place_kind)atomic_load_explicit(&place->kind, memory_order_relaxed) : PLACE_UNKNOWN;
}

static inline uint64_t place_moved_bytes(const struct place *place)
{
    return atomic_load_explicit(&place->sent_bytes, memory_order_relaxed) +
           atomic_load_explicit(&place->received_bytes, memory_order_relaxed);
}

/* Counts what a call moved. Returns whether the mark is reached. */
static inline bool place_counts(struct place *place, uint64_t bytes, bool sent)
{
    _Atomic uint64_t *counter = sent ? &place->sent_bytes : &place->received_bytes;
    _Atomic uint64_t *other = sent ? &place->received_bytes : &place->sent_bytes;
    uint64_t counted = atomic_load_explicit(counter, memory_order_relaxed) + bytes;

    /* Two threads that write to one connection at once may lose a count. */
    atomic_store_explicit(counter, counted, memory_order_relaxed);
    return counted + atomic_load_explicit(other, memory_order_relaxed) >=
           atomic_load_explicit(&place->mark_bytes, memory_order_relaxed);
}

/* As place_of(), but makes the place if there is none. NULL: the number is too large, or there is no memory. */
struct place *place_made(int fd);

/* Whether a socket may have two descriptors here: nobody looks for another one before. */
extern _Atomic bool places_share __attribute__((visibility("hidden")));

/* Another place of this process with the same socket. Locks it. NULL: there is none, or all are locked. */
struct place *places_lock_other(const struct place *one);

/* Calls for each place that is a TCP socket's, or locked: such a one may become a TCP socket's. */
void places_each(void (*call)(int fd, struct place *place));

#endif
