/* SPDX-License-Identifier: MIT */
#include "manage.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "report.h"
#include "sizes.h"

#define NS_PER_S 1000000000ULL

/* A connection gets a flow once it has moved this much within a second: a slower one needs no larger window. */
#define BULK_BYTES 262144U
#define BULK_NS NS_PER_S
#define NEW_BYTES 1U /* the mark of a connection that is sampled as soon as data move */

/* Sampling takes at most one part in this many of the time. A sample counts for no more than this. */
#define SAMPLES_PART 200U
#define SAMPLE_NS_MOST 50000U

#define NEAR_BYTES 16777216U /* after this much, the RTT of a near path is read again: the route may have changed */

#define OWN_FRAME __attribute__((noinline)) /* its variables are not on the stack below what is called beside it */

#define LISTED_MOST 64U /* connections that are sampled while the program waits */

_Atomic uint64_t manage_next_ns = AUTOBUF_NS_UNSET;

static _Atomic uint64_t rest_until_ns;  /* no sample before this time */
static _Atomic int listed[LISTED_MOST]; /* descriptor + 1; 0: free */

bool manage_lock(struct place *place, struct stay *stay)
{
    if (!self_enter(stay))
        return false;
    spin_lock(&place->locked);
    return true;
}

void manage_unlock(struct place *place, const struct stay *stay)
{
    spin_unlock(&place->locked);
    self_leave(stay);
}

/* -------------------------------------------------------------------------------- near peers */

/* For throughput: whether autotuning reaches the window of a path this short, and no other process has set a size. */
static OWN_FRAME bool needs_no_window(int fd, const struct place *place)
{
    const struct autobuf_limits *limits = self_limits();
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (!limits || self_settings.intent != AUTOBUF_INTENT_THROUGHPUT || autobuf_socket_state(fd, &now) < 0 ||
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

/* Also for a listener on a loopback address. */
static bool is_on_this_host(int fd)
{
    struct sockaddr_in6 here, peer;
    socklen_t here_length = sizeof here, peer_length = sizeof peer;

    if (getsockname(fd, (struct sockaddr *)&here, &here_length) < 0)
        return false;
    return is_loopback(&here) ||
           (getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 && is_same(&here, &peer));
}

bool manage_is_enough(int fd, uint64_t sk_bytes)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (self_settings.intent != AUTOBUF_INTENT_THROUGHPUT)
        return false;
    return is_on_this_host(fd) || (autobuf_socket_state(fd, &now) == 0 && run_size_is_enough(sk_bytes, now.rtt_min_ns));
}

static uint32_t sides_to_apply(int fd, const struct place *place)
{
    uint32_t sides = 0;

    if (place->kept & AUTOBUF_LOCK_SND && manage_is_enough(fd, place->asked_bytes[0]))
        sides |= AUTOBUF_LOCK_SND;
    if (place->kept & AUTOBUF_LOCK_RCV && manage_is_enough(fd, place->asked_bytes[1]))
        sides |= AUTOBUF_LOCK_RCV;
    return sides;
}

/* Applies withheld sizes if the peer is near. */
static OWN_FRAME void apply_near(int fd, struct place *place)
{
    struct autobuf_settings settings = AUTOBUF_SETTINGS_INIT;
    uint32_t sides = sides_to_apply(fd, place);
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

/* ------------------------------------------------------------------------------------- flows */

/* The sides that are left to the program: AUTOBUF_LOCK_* bits. */
static uint32_t left_of(const struct place *place)
{
    return self_settings.keep_sizes ? place->own | place->set : place->own;
}

/* The sides for which a flow acts, as bits of an intent; 0: both. */
static uint32_t sides_of(const struct place *place)
{
    uint32_t left = left_of(place);

    if (!left)
        return 0;
    return left == AUTOBUF_LOCK_SND ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS;
}

bool manage_leaves_all(const struct place *place)
{
    return left_of(place) == (AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV);
}

struct autobuf_options manage_options(const struct place *place)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.intent = self_settings.intent | sides_of(place);
    options.most_bytes = self_settings.most_bytes;
    options.flags = AUTOBUF_FLOW_SILENT;
    options.limits = self_limits();
    return options;
}

/* Samples the connection also while the program waits, if there is room. */
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

/* This connection is managed no more. */
static void end_flow(struct place *place)
{
    unlist(place);
    autobuf_flow_close(place->flow);
    place->flow = NULL;
    atomic_store(&place->mark_bytes, UINT64_MAX);
}

void manage_restart(struct place *place)
{
    if (place->flow) {
        end_flow(place);
        atomic_store(&place->mark_bytes, 0);
    }
}

/* Sets the next mark. Returns whether the last one was reached within BULK_NS. */
static bool is_bulk(struct place *place, uint64_t now_ns)
{
    bool soon = now_ns - place->marked_ns <= BULK_NS;

    place->marked_ns = now_ns;
    atomic_store(&place->mark_bytes, place_moved_bytes(place) + BULK_BYTES);
    return soon;
}

/* Finds sizes that were set through another descriptor, or by another process. */
static OWN_FRAME void note_sizes(int fd, struct place *place)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (autobuf_socket_state(fd, &now) == 0)
        place->set |= (uint8_t)now.locks;
}

static OWN_FRAME void tell_error(int fd, int error)
{
    char line[96];

    snprintf(line, sizeof line, "fd %d: left alone: %s", fd, autobuf_strerror(error));
    autobuf_log_line(line);
}

static OWN_FRAME void open_flow(int fd, struct place *place)
{
    struct autobuf_options options = manage_options(place);
    int error;

    if (manage_leaves_all(place) || !options.limits) {
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

/* The caller holds the lock. */
static void sample(int fd, struct place *place, uint64_t now_ns)
{
    int error;

    if (self_settings.report && !place->flow)
        run_report_note(fd, place);
    if (place->kept && !place->flow)
        apply_near(fd, place);
    if (place_moved_bytes(place) < BULK_BYTES) { /* it came early, for the report or withheld sizes */
        atomic_store(&place->mark_bytes, BULK_BYTES);
        return;
    }
    if (!place->flow && is_bulk(place, now_ns)) {
        if (needs_no_window(fd, place)) {
            atomic_store(&place->mark_bytes, place_moved_bytes(place) + NEAR_BYTES);
        } else {
            if (self_settings.keep_sizes)
                note_sizes(fd, place);
            open_flow(fd, place);
        }
    }
    if (!place->flow)
        return;
    error = autobuf_flow_step(place->flow, now_ns);
    if (self_settings.report)
        run_report_sample(fd, place, now_ns);
    if (error < 0) {
        end_flow(place);
        return;
    }
    atomic_store_explicit(&place->due_ns, autobuf_flow_deadline_ns(place->flow), memory_order_relaxed);
}

static void rest(uint64_t began_ns, uint64_t ended_ns)
{
    uint64_t took_ns = ended_ns - began_ns;

    if (took_ns > SAMPLE_NS_MOST) /* the thread has waited for a processor, most likely */
        took_ns = SAMPLE_NS_MOST;
    atomic_store_explicit(&rest_until_ns, ended_ns + took_ns * SAMPLES_PART, memory_order_relaxed);
}

/* The next sample is due no later than that. */
static void set_next(uint64_t due_ns)
{
    uint64_t next_ns = atomic_load(&manage_next_ns);

    while (due_ns < next_ns && !atomic_compare_exchange_weak(&manage_next_ns, &next_ns, due_ns)) {
    }
}

/* Samples, unless another thread does, or forks. */
static void sample_if_free(int fd, struct place *place)
{
    struct stay stay;

    if (!self_enter(&stay))
        return;
    if (self_may_open()) {
        if (spin_trylock(&place->locked)) {
            uint64_t began_ns = autobuf_now_ns();

            sample(fd, place, began_ns);
            rest(began_ns, autobuf_now_ns());
            spin_unlock(&place->locked);
        }
        self_opened();
    }
    self_leave(&stay);
    if (atomic_load(&place->listed))
        set_next(atomic_load(&place->due_ns));
}

/* A sample that the report or withheld sizes wait for does not wait for others. */
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

/* The caller is inside, and holds the lock. */
static void renew(int fd, struct place *place, enum place_kind kind)
{
    if (self_settings.report && place->generation == self_generation && place_moved_bytes(place))
        run_report_add(fd, place, self_limits());
    end_flow(place);
    place->kept = place->set = place->own = place->changed = 0;
    atomic_store(&place->cookie, 0);
    place->generation = kind == PLACE_TCP ? self_generation : 0;
    memset(place->limited_ns, 0, sizeof place->limited_ns);
    place->sampled_ns = 0;
    place->last = (struct autobuf_socket)AUTOBUF_SOCKET_INIT;
    place->paced_bit_per_s = place->low_bit_per_s = place->high_bit_per_s = 0;
    atomic_store(&place->ahead_bytes, 0);
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

void manage_renew(int fd, struct place *place, enum place_kind kind)
{
    struct stay stay;

    if (!manage_lock(place, &stay))
        return;
    atomic_fetch_add(&place->renewals, 1); /* not where this process only ends its care: a call may be under way */
    renew(fd, place, kind);
    manage_unlock(place, &stay);
}

void manage_adopt(int fd, struct place *place)
{
    struct stay stay;

    if (!manage_lock(place, &stay))
        return;
    if (place->generation != self_generation) { /* else another thread was first */
        uint8_t kept = place->kept, set = place->set, own = place->own;

        renew(fd, place, PLACE_TCP);
        place->kept = kept;
        place->set = set;
        place->own = own;
    }
    manage_unlock(place, &stay);
}

/* The flow is the parent's. Writes only what differs: each write copies a page that the parent shares. */
static void fork_place(int fd, struct place *place)
{
    (void)fd;
    if (place->flow && !atomic_load(&place->locked))
        autobuf_flow_close(place->flow);
    if (place->flow)
        place->flow = NULL;
    if (atomic_load(&place->listed))
        atomic_store(&place->listed, 0);
    if (atomic_load(&place->locked)) /* by a thread of the parent */
        atomic_store(&place->locked, 0);
}

/* What is the parent's is left alone: each write copies a page. */
static bool is_parents(const struct place *place)
{
    return place->generation && place->generation != self_generation;
}

static void end_place(int fd, struct place *place)
{
    if (is_parents(place) || !spin_trylock(&place->locked)) /* another thread samples it, and the process ends */
        return;
    renew(fd, place, PLACE_OTHER);
    spin_unlock(&place->locked);
}

void manage_end(void)
{
    places_each(end_place);
}

static void pause_place(int fd, struct place *place)
{
    (void)fd;
    if (is_parents(place))
        return;
    spin_lock(&place->locked);
    manage_restart(place);
    spin_unlock(&place->locked);
}

void manage_pause(void)
{
    places_each(pause_place);
}

void manage_forked(void)
{
    places_each(fork_place);
    for (unsigned i = 0; i < LISTED_MOST; i++)
        atomic_store(&listed[i], 0);
}

void manage_ending(int fd, struct place *place)
{
    struct stay stay;

    if (!self_settings.report || !self_enter(&stay))
        return;
    if (spin_trylock(&place->locked)) { /* otherwise another thread samples it just now, which does the same */
        run_report_note(fd, place);
        spin_unlock(&place->locked);
    }
    self_leave(&stay);
}

/* -------------------------------------------------------------------------------------- data */

void manage_connecting(int fd, struct place *place)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;
    struct stay stay;

    if (!place->kept || !manage_lock(place, &stay))
        return;
    apply_near(fd, place);
    if (place->kept && autobuf_socket_state(fd, &now) == 0 && now.rtt_min_ns == AUTOBUF_NS_UNSET)
        atomic_store(&place->mark_bytes, NEW_BYTES);
    manage_unlock(place, &stay);
}

void manage_reached(int fd, struct place *place)
{
    if (self_acts() && (is_new(place) || is_due(place, self_coarse_ns())))
        sample_if_free(fd, place);
}

void manage_due(void)
{
    uint64_t now_ns, next_ns, soonest = AUTOBUF_NS_UNSET;

    if (!self_acts())
        return;
    now_ns = self_coarse_ns();
    next_ns = atomic_load(&manage_next_ns);
    /* One thread at a time; what becomes due for others meanwhile counts. */
    if (now_ns < next_ns || !atomic_compare_exchange_strong(&manage_next_ns, &next_ns, AUTOBUF_NS_UNSET))
        return;
    for (unsigned i = 0; i < LISTED_MOST; i++) {
        int fd = atomic_load_explicit(&listed[i], memory_order_relaxed) - 1;
        struct place *place = place_of(fd);
        uint64_t due_ns;

        if (!place)
            continue;
        if (is_due(place, now_ns))
            sample_if_free(fd, place);
        due_ns = atomic_load(&place->due_ns);
        soonest = due_ns < soonest ? due_ns : soonest;
    }
    set_next(soonest);
}
