/* SPDX-License-Identifier: MIT */
#include "tend.h"

#include <stdio.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "near.h"
#include "report.h"
#include "self.h"

#define NS_PER_S 1000000000ULL

/* A connection gets a flow once it has moved so much in at most a second: slower ones need no larger window. */
#define BULK_BYTES 262144U
#define BULK_NS NS_PER_S
#define NEW_BYTES 1U /* with --report there is a look at the first ones */

/* Looks take at most one part in so many of the time; a look counts for no more than this. */
#define LOOKS_PART 200U
#define LOOK_NS_MOST 50000U

#define NEAR_BYTES 16777216U /* a path that is too near to gain may have become longer after so many */

#define LISTED_MOST 64U /* connections that are looked after while the program waits */

_Atomic uint64_t tend_soonest_ns = AUTOBUF_NS_UNSET;

static _Atomic uint64_t rest_until_ns;  /* no look before this time */
static _Atomic int listed[LISTED_MOST]; /* descriptor + 1; 0: free */

/* ------------------------------------------------------------------------------------- flows */

/* The sides that are left to the program: AUTOBUF_LOCK_* bits. */
static uint32_t left_of(const struct place *place)
{
    return self_settings.keep_sizes ? place->own | place->set : place->own;
}

/* For which sides of its socket a flow acts. 0: for both. */
static uint32_t sides_of(const struct place *place)
{
    uint32_t left = left_of(place);

    if (!left)
        return 0;
    return left == AUTOBUF_LOCK_SND ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS;
}

bool tend_is_all_set(const struct place *place)
{
    return left_of(place) == (AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV);
}

struct autobuf_options tend_options(const struct place *place)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.intent = self_settings.intent | sides_of(place);
    options.most_bytes = self_settings.most_bytes;
    options.flags = AUTOBUF_FLOW_SILENT;
    options.limits = self_limits();
    return options;
}

static void list(int fd, struct place *place)
{
    for (unsigned i = 0; i < LISTED_MOST; i++) {
        int none = 0;

        if (atomic_compare_exchange_strong(&listed[i], &none, fd + 1)) {
            atomic_store(&place->listed, (uint8_t)(i + 1));
            return;
        }
    }
}

static void unlist(struct place *place)
{
    unsigned at = atomic_exchange(&place->listed, 0);

    if (at)
        atomic_store(&listed[at - 1], 0);
}

/* For good: nothing more is done for this connection. */
static void end_flow(struct place *place)
{
    unlist(place);
    autobuf_flow_close(place->flow);
    place->flow = NULL;
    atomic_store(&place->mark_bytes, UINT64_MAX);
}

void tend_anew(struct place *place)
{
    if (place->flow) {
        end_flow(place);
        atomic_store(&place->mark_bytes, 0);
    }
}

/* Sets the next mark, and returns true if the last one was reached soon enough. */
static bool is_bulk(struct place *place, uint64_t now_ns)
{
    bool soon = now_ns - place->marked_ns <= BULK_NS;

    place->marked_ns = now_ns;
    atomic_store(&place->mark_bytes, place_moved_bytes(place) + BULK_BYTES);
    return soon;
}

/* Also those that were set through another descriptor, or by another process. */
static void note_sizes(int fd, struct place *place)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (autobuf_socket_state(fd, &now) == 0)
        place->set |= (uint8_t)now.locks;
}

static __attribute__((noinline)) void tell_error(int fd, int error)
{
    char line[96];

    snprintf(line, sizeof line, "fd %d: left alone: %s", fd, autobuf_strerror(error));
    autobuf_log_line(line);
}

/* Not inlined: what it has on the stack is not to lie there below what each look calls. The same holds above. */
static __attribute__((noinline)) void open_flow(int fd, struct place *place)
{
    struct autobuf_options options;
    int error;

    if (self_settings.keep_sizes)
        note_sizes(fd, place);
    options = tend_options(place);
    if (tend_is_all_set(place) || !options.limits) {
        end_flow(place);
        return;
    }
    error = autobuf_flow_open(&place->flow, fd, NULL, 0, &options);
    if (error == 0) {
        atomic_store(&place->mark_bytes, 0);
        list(fd, place);
        return;
    }
    tell_error(fd, error);
    end_flow(place);
}

/* One look at a connection, of which the caller holds the lock. */
static void look(int fd, struct place *place, uint64_t now_ns)
{
    int error;

    if (self_settings.report && !place->flow)
        run_report_note(fd, place);
    if (place->kept && !place->flow)
        near_settle(fd, place);
    if (place_moved_bytes(place) < BULK_BYTES) { /* only the report, and sizes, want to see it that early */
        atomic_store(&place->mark_bytes, BULK_BYTES);
        return;
    }
    if (!place->flow && is_bulk(place, now_ns)) {
        if (near_needs_nothing(fd, place))
            atomic_store(&place->mark_bytes, place_moved_bytes(place) + NEAR_BYTES);
        else
            open_flow(fd, place);
    }
    if (!place->flow)
        return;
    error = autobuf_flow_step(place->flow, now_ns);
    if (self_settings.report)
        run_report_look(fd, place, now_ns);
    if (error < 0) {
        end_flow(place);
        return;
    }
    atomic_store_explicit(&place->due_ns, autobuf_flow_deadline_ns(place->flow), memory_order_relaxed);
}

static void rest(uint64_t began_ns, uint64_t ended_ns)
{
    uint64_t took_ns = ended_ns - began_ns;

    if (took_ns > LOOK_NS_MOST) /* mostly, the thread had to wait for a processor */
        took_ns = LOOK_NS_MOST;
    atomic_store_explicit(&rest_until_ns, ended_ns + took_ns * LOOKS_PART, memory_order_relaxed);
}

/* Looks unless another thread does, or forks. */
static void look_if_free(int fd, struct place *place)
{
    struct stay stay;

    if (!self_enter(&stay))
        return;
    if (self_may_open()) {
        if (place_trylock(place)) {
            uint64_t began_ns = autobuf_now_ns();

            look(fd, place, began_ns);
            rest(began_ns, autobuf_now_ns());
            place_unlock(place);
        }
        self_opened();
    }
    self_leave(&stay);
}

/* The report has not seen it yet, and may have no second chance. */
static bool is_new(const struct place *place)
{
    return atomic_load_explicit(&place->mark_bytes, memory_order_relaxed) == NEW_BYTES;
}

static bool is_due(struct place *place, uint64_t now_ns)
{
    return now_ns >= atomic_load_explicit(&place->due_ns, memory_order_relaxed) &&
           now_ns >= atomic_load_explicit(&rest_until_ns, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------------ places */

/* As tend_renew(); the caller is inside, and holds the lock. */
static void renew(int fd, struct place *place, enum place_kind kind)
{
    if (self_settings.report && place->generation == self_generation && place_moved_bytes(place))
        run_report_add(fd, place, self_limits());
    end_flow(place);
    atomic_fetch_add(&place->renewals, 1);
    place->kept = place->set = place->own = place->changed = 0;
    atomic_store(&place->cookie, 0);
    place->generation = kind == PLACE_TCP ? self_generation : 0;
    memset(place->limited_ns, 0, sizeof place->limited_ns);
    place->looked_ns = 0;
    place->last = (struct autobuf_socket)AUTOBUF_SOCKET_INIT;
    place->paced_bit_per_s = 0;
    atomic_store(&place->sent_bytes, 0);
    atomic_store(&place->received_bytes, 0);
    atomic_store(&place->mark_bytes, self_settings.report ? NEW_BYTES : BULK_BYTES);
    atomic_store(&place->due_ns, 0);
    place->began_ns = place->marked_ns = kind == PLACE_TCP ? autobuf_now_ns() : 0;
    place->peer.sin6_family = AF_UNSPEC;
    if (self_settings.report && kind == PLACE_TCP)
        run_report_who(fd, place);
    atomic_store(&place->kind, (uint8_t)kind);
}

void tend_renew(int fd, struct place *place, enum place_kind kind)
{
    struct stay stay;

    if (!self_enter(&stay))
        return;
    place_lock(place);
    renew(fd, place, kind);
    place_unlock(place);
    self_leave(&stay);
}

void tend_adopt(int fd, struct place *place)
{
    struct stay stay;

    if (!self_enter(&stay))
        return;
    place_lock(place);
    if (place->generation != self_generation) { /* else another thread was first */
        uint8_t kept = place->kept, set = place->set, own = place->own;

        renew(fd, place, PLACE_TCP);
        place->kept = kept;
        place->set = set;
        place->own = own;
    }
    place_unlock(place);
    self_leave(&stay);
}

/* Its flow was the parent's. Writes only what differs, for the memory is still shared with the parent. */
static void fork_place(int fd, struct place *place)
{
    (void)fd;
    if (place->flow && !atomic_load(&place->locked))
        autobuf_flow_close(place->flow);
    if (place->flow)
        place->flow = NULL;
    if (atomic_load(&place->listed))
        atomic_store(&place->listed, 0);
    if (atomic_load(&place->locked)) /* by a thread that does not exist here */
        atomic_store(&place->locked, 0);
}

static void end_place(int fd, struct place *place)
{
    if (!place_trylock(place)) /* another thread looks at it, and the process ends */
        return;
    renew(fd, place, PLACE_OTHER);
    place_unlock(place);
}

void tend_end(void)
{
    places_each(end_place);
}

static void pause_place(int fd, struct place *place)
{
    (void)fd;
    place_lock(place);
    tend_anew(place);
    place_unlock(place);
}

void tend_pause(void)
{
    places_each(pause_place);
}

void tend_forked(void)
{
    places_each(fork_place);
    for (unsigned i = 0; i < LISTED_MOST; i++)
        atomic_store(&listed[i], 0);
}

void tend_ending(int fd, struct place *place)
{
    struct stay stay;

    if (!self_settings.report || !self_enter(&stay))
        return;
    if (place_trylock(place)) { /* or a look notes the same just now */
        run_report_note(fd, place);
        place_unlock(place);
    }
    self_leave(&stay);
}

/* -------------------------------------------------------------------------------------- data */

void tend_came(int fd, struct place *place)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;
    struct stay stay;

    if (!place->kept || !self_enter(&stay))
        return;
    place_lock(place);
    near_settle(fd, place);
    if (place->kept && autobuf_socket_state(fd, &now) == 0 && now.rtt_min_ns == AUTOBUF_NS_UNSET)
        atomic_store(&place->mark_bytes, NEW_BYTES);
    place_unlock(place);
    self_leave(&stay);
}

void tend_reached(int fd, struct place *place)
{
    uint64_t due_ns;

    if (!self_acts() || !(is_new(place) || is_due(place, self_coarse_ns())))
        return;
    look_if_free(fd, place);
    due_ns = atomic_load(&place->due_ns);
    if (atomic_load(&place->listed) && due_ns < atomic_load(&tend_soonest_ns))
        atomic_store(&tend_soonest_ns, due_ns);
}

void tend_waiting(void)
{
    uint64_t now_ns, soonest = AUTOBUF_NS_UNSET;

    if (!self_acts())
        return;
    now_ns = self_coarse_ns();
    if (now_ns < atomic_load(&tend_soonest_ns))
        return;
    for (unsigned i = 0; i < LISTED_MOST; i++) {
        int fd = atomic_load_explicit(&listed[i], memory_order_relaxed) - 1;
        struct place *place = place_of(fd);
        uint64_t due_ns;

        if (!place)
            continue;
        if (is_due(place, now_ns))
            look_if_free(fd, place);
        due_ns = atomic_load(&place->due_ns);
        soonest = due_ns < soonest ? due_ns : soonest;
    }
    atomic_store(&tend_soonest_ns, soonest);
}
