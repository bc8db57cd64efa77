/* SPDX-License-Identifier: MIT */
/* raise= of autobufd.conf(5): when the limits of autotuning are raised, and when put back. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../../lib/kernel/socket.h"
#include "../print.h"
#include "log.h"
#include "managed.h"

/* A queue stands once the RTT is an eighth above its minimum, and by so much: a receiver measures it in ticks.
 * net/test_raise.py */
#define QUEUE_PART 8U
#define QUEUE_LEAST_NS (4 * AB_NS_PER_MS)

static uint64_t limit_of(const struct manager *manager, unsigned side)
{
    return side ? manager->limits.tcp_rmem_max_bytes : manager->limits.tcp_wmem_max_bytes;
}

bool raising_is_on(const struct manager *manager, unsigned side)
{
    return manager->config->raise_bytes && !manager->left[side];
}

static bool is_queued(const struct ab_tcpinfo *info, uint64_t rtt_ns)
{
    return !info->rtt_min_ns || !rtt_ns ||
           rtt_ns >= info->rtt_min_ns + ab_max(info->rtt_min_ns / QUEUE_PART, QUEUE_LEAST_NS);
}

/* Autotuning makes a send buffer twice what is in flight: once it cannot any more, less waits than is in flight. */
static bool send_buffer_ends(const struct ab_tcpinfo *info, uint64_t limit_bytes)
{
    uint64_t flight_bytes = ab_tcpinfo_flight_bytes(info);

    return flight_bytes >= limit_bytes / 8 && info->notsent_bytes <= flight_bytes && !is_queued(info, info->rtt_ns);
}

/* And a receive buffer four times what arrives in a round trip. */
static bool receive_buffer_ends(const struct ab_tcpinfo *info, uint64_t limit_bytes, uint64_t received_bit_per_s)
{
    return ab_mul_div(received_bit_per_s / 8, info->rcv_rtt_ns, AB_NS_PER_S) >= limit_bytes / 16 * 3 &&
           !is_queued(info, info->rcv_rtt_ns);
}

/* Nobody has set it, autotuning has taken it to the last quarter of its limit, it is used now, and the path is not
 * full. */
static bool ends_at_limit(const struct manager *manager, unsigned side, int copy,
                          const struct autobuf_live_state *state)
{
    uint64_t limit_bytes = limit_of(manager, side);
    struct autobuf_socket now;
    struct ab_tcpinfo info;

    if ((side ? state->rcv_buf_bytes : state->snd_buf_bytes) < limit_bytes / 4 * 3 ||
        ab_socket_read(copy, &now, &info) < 0 || now.locks & (side ? AUTOBUF_LOCK_RCV : AUTOBUF_LOCK_SND))
        return false;
    return side ? receive_buffer_ends(&info, limit_bytes, state->received_bit_per_s)
                : send_buffer_ends(&info, limit_bytes);
}

/* Another daemon's or an administrator's value is left to them, until there are other rules. */
static void leave(struct manager *manager, unsigned side, int error)
{
    manager->left[side] = true;
    log_line("%s is not raised any more: %s", raise_names[side],
             error == -EBUSY    ? "somebody else has changed it"
             : error == -EINVAL ? "it would take too much of tcp_mem"
                                : strerror(-error));
}

static void keep(struct manager *manager, unsigned side, uint64_t now_bytes, struct raised raised)
{
    if (!manager->raises[side] && manager->state->raised[side].ours_bytes == now_bytes)
        manager->earlier[side] = manager->state->raised[side];
    manager->raises[side] = true;
    if (manager->earlier[side].ours_bytes)
        raised.was_bytes = manager->earlier[side].was_bytes;
    if (state_raised(manager->state, side, &raised) < 0)
        log_line("%s cannot be put back by autobufd --undo", raise_names[side]);
}

static uint64_t next_limit(const struct manager *manager, unsigned side)
{
    return ab_min(2 * limit_of(manager, side), manager->config->raise_bytes);
}

static void tell(const struct manager *manager, const struct managed *t, unsigned side, uint64_t bytes)
{
    const struct endpoint *remote = &t->subject.remote;
    char peer[PROCESS_ADDRESS_BYTES];

    process_address(remote->version, remote->address, remote->port, peer);
    log_line("%s%s: %" PRIu64 " -> %" PRIu64 " bytes: %s[%d] %s %s ends there, and no queue stands",
             t->rule->dry_run ? "dry run: " : "", raise_names[side], limit_of(manager, side), bytes, t->owner.program,
             (int)t->owner.pid, side ? "<-" : "->", peer);
}

static void raise_side(struct manager *manager, const struct managed *t, unsigned side)
{
    struct raised raised;
    int error;

    (void)managed_read_limits(manager); /* somebody may have changed them since */
    error = broker_raise(side, next_limit(manager, side), &raised);
    if (error < 0) {
        leave(manager, side, error);
        return;
    }
    tell(manager, t, side, raised.ours_bytes);
    keep(manager, side, limit_of(manager, side), raised);
    (void)managed_read_limits(manager);
}

/* Its place, or that of the slowest, if this one is faster; NULL: it is not. */
static struct advised *place_for(struct advice *advice, const char *peer, uint64_t bit_per_s)
{
    struct advised *slowest = NULL;

    for (size_t i = 0; i < advice->count; i++) {
        struct advised *each = &advice->peers[i];

        if (strcmp(each->peer, peer) == 0)
            return each->bit_per_s < bit_per_s ? each : NULL;
        if (!slowest || each->bit_per_s < slowest->bit_per_s)
            slowest = each;
    }
    if (advice->count < ADVICE_PEERS)
        return &advice->peers[advice->count++];
    return slowest->bit_per_s < bit_per_s ? slowest : NULL;
}

/* In a dry run, instead of raising it. */
static void note(struct manager *manager, const struct managed *t, unsigned side,
                 const struct autobuf_live_state *state)
{
    const struct endpoint *remote = &t->subject.remote;
    struct advised now = {.bit_per_s = side ? state->received_bit_per_s : state->sent_bit_per_s,
                          .rtt_ns = state->rtt_ns};
    struct advised *place;

    if (!manager->advice[side].count)
        tell(manager, t, side, next_limit(manager, side));
    process_address(remote->version, remote->address, 0, now.peer);
    *strrchr(now.peer, ':') = '\0';
    memcpy(now.program, t->owner.program, sizeof now.program);
    place = place_for(&manager->advice[side], now.peer, now.bit_per_s);
    if (place)
        *place = now;
}

static void advise_side(const struct manager *manager, unsigned side, FILE *out)
{
    const struct advice *advice = &manager->advice[side];
    uint64_t values[3];

    if (!advice->count || limit_read(side, values) < 0)
        return;
    fprintf(out, "# At %" PRIu64 " bytes ended, while no queue stood:\n", values[2]);
    for (size_t i = 0; i < advice->count; i++) {
        const struct advised *each = &advice->peers[i];

        fprintf(out, "#   %s %s %s, up to %sbit/s", each->program, side ? "<-" : "->", each->peer,
                SCALED(each->bit_per_s));
        if (each->rtt_ns != AUTOBUF_NS_UNSET)
            fprintf(out, " at an RTT of %.1f ms", (double)each->rtt_ns / 1e6);
        fputc('\n', out);
    }
    fprintf(out, "# Each may be faster, twice at most, with twice that:\n%s = %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
            raise_names[side], values[0], values[1], ab_min(2 * values[2], manager->config->raise_bytes));
}

void raising_advise(const struct manager *manager, FILE *out)
{
    for (unsigned side = 0; side < RAISE_SIDES; side++)
        advise_side(manager, side, out);
    if (!manager->advice[0].count && !manager->advice[1].count)
        fputs("# No connection ended at tcp_wmem or tcp_rmem.\n", out);
}

void raising_sample(struct manager *manager, const struct managed *t, int copy, const struct autobuf_live_state *state)
{
    for (unsigned side = 0; side < RAISE_SIDES; side++)
        if (raising_is_on(manager, side) && limit_of(manager, side) < manager->config->raise_bytes &&
            ends_at_limit(manager, side, copy, state)) {
            if (t->rule->dry_run)
                note(manager, t, side, state);
            else
                raise_side(manager, t, side);
        }
}

void raising_end(struct manager *manager)
{
    for (unsigned side = 0; side < RAISE_SIDES; side++) {
        struct raised raised;
        int error;

        if (!manager->raises[side])
            continue;
        error = broker_raise(side, 0, &raised);
        if (error == 0)
            log_line("%s: put back as it was", raise_names[side]);
        if (error == 0 || error == -EBUSY)
            (void)state_raised(manager->state, side, &manager->earlier[side]);
        else
            log_line("%s stays raised (%s): autobufd --undo puts it back", raise_names[side], strerror(-error));
    }
}
