/* SPDX-License-Identifier: MIT */
/* raise= of autobufd.conf(5): when the limits of autotuning are raised, and when put back. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../../lib/kernel/socket.h"
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

static void raise_side(struct manager *manager, const struct managed *t, unsigned side)
{
    uint64_t now_bytes = limit_of(manager, side), bytes = ab_min(2 * now_bytes, manager->config->raise_bytes);
    bool dry_run = t->rule->dry_run;
    const struct endpoint *remote = &t->subject.remote;
    char peer[PROCESS_ADDRESS_BYTES];
    struct raised raised = {.ours_bytes = bytes};
    int error = dry_run ? 0 : broker_raise(side, bytes, &raised);

    if (error < 0) {
        leave(manager, side, error);
        return;
    }
    process_address(remote->version, remote->address, remote->port, peer);
    log_line("%s%s: %" PRIu64 " -> %" PRIu64 " bytes: %s[%d] %s %s ends there, and no queue stands",
             dry_run ? "dry run: " : "", raise_names[side], now_bytes, raised.ours_bytes, t->owner.program,
             (int)t->owner.pid, side ? "<-" : "->", peer);
    if (dry_run)
        manager->left[side] = true; /* it is said once */
    else
        keep(manager, side, now_bytes, raised);
    (void)managed_read_limits(manager);
}

void raising_sample(struct manager *manager, const struct managed *t, int copy, const struct autobuf_live_state *state)
{
    for (unsigned side = 0; side < RAISE_SIDES; side++)
        if (raising_is_on(manager, side) && limit_of(manager, side) < manager->config->raise_bytes &&
            ends_at_limit(manager, side, copy, state))
            raise_side(manager, t, side);
}

void raising_end(struct manager *manager)
{
    for (unsigned side = 0; side < RAISE_SIDES; side++) {
        struct raised raised;

        if (!manager->raises[side])
            continue;
        if (broker_raise(side, 0, &raised) == 0)
            log_line("%s: put back as it was", raise_names[side]);
        (void)state_raised(manager->state, side, &manager->earlier[side]);
    }
}
