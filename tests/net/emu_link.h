/*
 * One direction of an emulated path, in virtual time.
 *
 * Nothing here reads a clock or touches a socket: the caller says when a packet of how many bytes
 * arrives, and is told when it comes out at the other end. The emulator calls it with
 * CLOCK_MONOTONIC, the simulations with times of their own; both see the same link.
 *
 * A packet passes, in this order: a drop-tail queue, a serialiser (perhaps behind a token bucket),
 * random loss, the way itself (delay, jitter, reordering), then a host at its end that is not always
 * in time: a forwarder that sleeps and needs time for each packet, one that stands still now and
 * then, and interrupts that are held back.
 */
#ifndef EMU_LINK_H
#define EMU_LINK_H

#include <stddef.h>
#include <stdint.h>

/* All zero is a link that delivers everything at once. */
struct emu_params {
    uint64_t rate_bit_per_s; /* of IP bytes; 0 = infinite: then there is no queue either */
    uint64_t burst_bytes;    /* depth of the token bucket; 0 = no bucket */
    uint64_t peak_bit_per_s; /* at which the bucket lets a burst through; 0 = infinite */
    uint64_t queue_bytes;    /* limit on packets waiting or in service; 0 = none */
    uint64_t delay_ns;       /* one way, after the last bit has left */
    uint64_t jitter_ns;      /* extra delay, uniform in 0..jitter; the order is kept */
    uint64_t reorder_by_ns;  /* how much longer a reordered packet is held back */
    double reorder;          /* probability of that, 0..1 */
    double loss;             /* probability, 0..1 */
    double cross;            /* cross traffic, as a share of the rate, 0..1 */
    uint32_t cross_size_bytes; /* of its packets; 0 = 1500 */
    uint32_t cross_constant;   /* 0 = Poisson arrivals, 1 = evenly spaced */
    uint64_t wake_ns;  /* the forwarder sleeps until a packet is due, and wakes so late on the mean */
    uint64_t forward_ns;     /* that it takes for each packet then */
    uint64_t stall_ns;       /* for so long nothing comes out */
    uint64_t stall_every_ns; /* once in so long; 0 = never */
    uint64_t batch_ns;       /* what comes within such a time comes out at its end, together */
};

/* Counted since emu_link_init() or emu_link_reset(). The queue includes cross traffic. */
struct emu_truth {
    uint64_t packets; /* offered */
    uint64_t bytes;
    uint64_t delivered_packets; /* given a time of delivery, which may lie in the future */
    uint64_t delivered_bytes;
    uint64_t drops_queue;
    uint64_t drops_loss;
    uint64_t queue_max_bytes;
    uint64_t queue_mean_bytes; /* over time, not over packets */
    uint64_t counted_ns;       /* that time */
    uint64_t cross_packets;    /* arrived at the queue */
    uint64_t cross_drops;
};

/* Time to a fraction of a nanosecond: ns + rem / rate. So a rate is exact in a long run too. */
struct emu_clock {
    uint64_t ns;
    uint64_t rem;
};

enum emu_rng { EMU_RNG_LOSS, EMU_RNG_JITTER, EMU_RNG_REORDER, EMU_RNG_CROSS, EMU_RNG_WAKE, EMU_RNG_COUNT };

struct emu_waiting {
    uint64_t depart_ns;
    uint32_t len_bytes;
};

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 emu_wide;
#else
typedef long double emu_wide; /* 64 bits of it are exact on 32-bit x86 */
#endif

/* Only depart_ns and held are for the caller to read. */
struct emu_link {
    struct emu_params params;
    uint64_t now_ns;

    /* Of the packet accepted last: when its last bit leaves, and whether it may be overtaken. */
    uint64_t depart_ns;
    int held;

    struct emu_clock wire;   /* the serialiser is busy until then */
    struct emu_clock bucket; /* when the tokens spent so far are earned, at the sustained rate */
    uint64_t bucket_ns;      /* the time in which a whole bucket is earned */

    struct emu_waiting *waiting; /* ring, its size a power of two */
    size_t waiting_size;
    size_t waiting_head;
    size_t waiting_count;
    uint64_t queued_bytes;

    uint64_t last_depart_ns; /* of the last packet that keeps the order */
    uint64_t last_deliver_ns;
    uint64_t forwarded_ns; /* when the forwarder was through with the packet before */

    uint64_t cross_next_ns;
    double cross_fraction_ns;

    uint64_t rng[EMU_RNG_COUNT];

    uint64_t changed_ns; /* the last emu_link_set(), for emu_link_retime() */
    uint64_t old_rate_bit_per_s;
    uint64_t new_rate_bit_per_s;

    struct emu_truth truth;
    uint64_t since_ns;
    emu_wide queue_area;
};

/*
 * The same seed and the same calls give the same times, always. Each kind of chance has a stream
 * of its own, so that e.g. adding jitter does not change which packets are lost.
 */
void emu_link_init(struct emu_link *l, const struct emu_params *p, uint64_t seed, uint64_t now_ns);
void emu_link_free(struct emu_link *l);

/*
 * Change the parameters. What waits in the queue is served at the new rate: use emu_link_retime()
 * to learn the new departure of a packet accepted before. A new delay, jitter or loss applies to
 * packets offered from now on; the order is kept even when the delay shrinks.
 */
void emu_link_set(struct emu_link *l, const struct emu_params *p, uint64_t now_ns);

/* Where the last emu_link_set() moved a departure (l->depart_ns as it was after the offer). */
uint64_t emu_link_retime(const struct emu_link *l, uint64_t depart_ns);

/*
 * A packet of len_bytes (IP header included, at most 1e9) arrives. Returns 1 and the time at which
 * it comes out, or 0 when it is dropped. A time before one given earlier counts as that one.
 */
int emu_link_offer(struct emu_link *l, uint64_t now_ns, uint32_t len_bytes, uint64_t *deliver_ns);

/* Let time pass: only of use with cross traffic, whose arrivals are otherwise all caught up with
 * at the next offer. */
void emu_link_advance(struct emu_link *l, uint64_t now_ns);

/* Bytes waiting or in service now, cross traffic included. */
uint64_t emu_link_queued_bytes(struct emu_link *l, uint64_t now_ns);

void emu_link_truth(struct emu_link *l, uint64_t now_ns, struct emu_truth *out);
void emu_link_reset(struct emu_link *l, uint64_t now_ns);

#endif
