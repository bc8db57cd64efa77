/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

#include "hosts.h"

#define MS AB_NS_PER_MS
#define MBIT 1000000ULL

enum { UNKNOWN, KERNEL, SET, CAPPED, LARGER, LATE }; /* AUTOBUF_REASON_*, short for the tables */
enum { NEW, LISTENING, CONNECTED };

#define SCALED(shift) (65535ULL << (shift))
#define NO_SYSCTL AUTOBUF_SYSCTL_NONE
#define WMEM_MAX AUTOBUF_SYSCTL_WMEM_MAX
#define TCP_RMEM AUTOBUF_SYSCTL_TCP_RMEM
#define SCALING AUTOBUF_SYSCTL_WINDOW_SCALING
#define TCP_MEM AUTOBUF_SYSCTL_TCP_MEM
#define MODERATE AUTOBUF_SYSCTL_MODERATE_RCVBUF
#define FORCED AUTOBUF_PLAN_SND_FORCE
#define RCV_FORCED AUTOBUF_PLAN_RCV_FORCE
#define SND_UNLOCK AUTOBUF_PLAN_SND_UNLOCK
#define RCV_UNLOCK AUTOBUF_PLAN_RCV_UNLOCK
#define LOCK_SND AUTOBUF_LOCK_SND
#define LOCK_RCV AUTOBUF_LOCK_RCV

/* The side of a plan that a row expects. A request has a range: more than needed is a choice. */
struct expected {
    uint32_t reason;
    uint32_t sysctl;
    uint64_t request_least, request_most;
};

struct plan_row {
    const char *name;
    const struct autobuf_limits *host;
    uint64_t rate_bit_per_s, rtt_ns;
    uint32_t stage, locks;
    uint64_t snd_buf_bytes, rcv_buf_bytes; /* 0: a new socket's */
    uint64_t expected_bytes;
    uint32_t add_flags, drop_flags; /* of the host */
    uint64_t tcp_mem_bytes; /* 0: the host's */
    uint64_t tcp_used_bytes, forced_bytes, request_most_bytes;
    uint64_t tcp_rtt_ns; /* of a connection */
    struct expected snd, rcv;
    uint32_t flags; /* of the plan */
    uint64_t snd_window_max, rcv_window_max; /* of the connection's window scale; 0: unknown */
    uint64_t clamp;
};

/* Each row is an experiment with a real kernel, and its outcome. */
static const struct plan_row measured_rows[] = {
    {.name = "500 Mbit/s x 50 ms: receive autotuning reaches it (481)",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS,
     .snd = {SET, NO_SYSCTL, 2262500, 4194304}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "500 x 50, accepted: no receive buffer is set any more (12 when tried)",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .snd = {SET, NO_SYSCTL, 2262500, 4194304}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "500 x 50, SO_RCVBUF 256K before listen (52): given back to autotuning",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .locks = LOCK_RCV,
     .rcv_buf_bytes = 524288, .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = RCV_UNLOCK},
    {.name = "500 x 50, SO_RCVBUF 1M on the listener (172): unlocking it helps later connections",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .stage = LISTENING,
     .locks = LOCK_RCV, .rcv_buf_bytes = 2097152, .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = RCV_UNLOCK},
    {.name = "500 x 50, SO_RCVBUF 256K and accepted: unlocking does not reopen it",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .locks = LOCK_RCV, .rcv_buf_bytes = 524288, .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {LATE, NO_SYSCTL, 0, 0}},
    {.name = "500 x 50, SO_RCVBUF 256K once connected: given back, the clamp reopened (200, 445)",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .locks = LOCK_RCV, .rcv_buf_bytes = 524288, .snd_window_max = SCALED(10),
     .rcv_window_max = SCALED(10), .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = RCV_UNLOCK, .clamp = SCALED(10)},
    {.name = "500 x 50, SO_RCVBUF 256K before the SYN: as far as its scale goes (50, 79)",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .locks = LOCK_RCV, .rcv_buf_bytes = 524288, .snd_window_max = SCALED(10),
     .rcv_window_max = SCALED(3), .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {LATE, NO_SYSCTL, 0, 0}, .flags = RCV_UNLOCK, .clamp = SCALED(3)},
    {.name = "500 x 50, SO_RCVBUF 4M before listen (481): reaches it already",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .stage = LISTENING,
     .locks = LOCK_RCV, .rcv_buf_bytes = 8388608, .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {LARGER, NO_SYSCTL, 0, 0}},
    {.name = "800 Mbit/s x 100 ms: SO_SNDBUF 4M beats autotuning (630, 310), and is not enough",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .snd = {CAPPED, WMEM_MAX, 4194304, 4194304}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "800 x 100, connected: SO_SNDBUF 4M helps after connect, too",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .snd = {CAPPED, WMEM_MAX, 4194304, 4194304}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "800 x 100, tcp_wmem 16M: autotuning 772, set 593",
     .host = &host_wmem_16, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "1.5 Gbit/s x 100 ms, tcp_wmem 16M: autotuning is short, setting would be shorter",
     .host = &host_wmem_16, .rate_bit_per_s = 1500 * MBIT, .rtt_ns = 100 * MS,
     .snd = {CAPPED, WMEM_MAX, 0, 0}, .rcv = {CAPPED, TCP_RMEM, 0, 0}},
    {.name = "800 x 100, SO_SNDBUF 4M set where tcp_wmem is 16M: given back",
     .host = &host_wmem_16, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .locks = LOCK_SND,
     .snd_buf_bytes = 8388608, .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = SND_UNLOCK},
    {.name = "800 x 100, forced: SO_SNDBUFFORCE reaches it (772), no more than twice the need",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .snd = {SET, NO_SYSCTL, 7240000, 14480100},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "800 x 100, may force, a listener: each connection would have it, and nobody counts them",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .stage = LISTENING,
     .add_flags = AUTOBUF_LIMITS_FORCE, .snd = {CAPPED, WMEM_MAX, 4194304, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "500 x 50, may force, need not",
     .host = &host_6_18, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 50 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
};

/* Older limits, where setting is nearly always a loss, and tuned hosts. */
static const struct plan_row host_rows[] = {
    {.name = "older: a path that autotuning fills",
     .host = &host_older, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 20 * MS,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "older: beyond autotuning on both sides, and nothing to set",
     .host = &host_older, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .snd = {CAPPED, WMEM_MAX, 0, 0}, .rcv = {CAPPED, TCP_RMEM, 0, 0}},
    {.name = "older: beyond autotuning, connected",
     .host = &host_older, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .snd = {CAPPED, WMEM_MAX, 0, 0}, .rcv = {LATE, NO_SYSCTL, 0, 0}},
    {.name = "older: a naive program's 208 KB on both sides given back",
     .host = &host_older, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 100 * MS,
     .locks = LOCK_SND | LOCK_RCV, .snd_buf_bytes = 425984, .rcv_buf_bytes = 425984,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0},
     .flags = SND_UNLOCK | RCV_UNLOCK},
    {.name = "older: given back though even autotuning is short of it",
     .host = &host_older, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .locks = LOCK_SND | LOCK_RCV, .snd_buf_bytes = 425984, .rcv_buf_bytes = 425984,
     .snd = {CAPPED, WMEM_MAX, 0, 0}, .rcv = {CAPPED, TCP_RMEM, 0, 0},
     .flags = SND_UNLOCK | RCV_UNLOCK},
    {.name = "older: forced",
     .host = &host_older, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .snd = {SET, NO_SYSCTL, 7240000, 14480100},
     .rcv = {CAPPED, TCP_RMEM, 0, 0}, .flags = FORCED},
    {.name = "6.16: receive autotuning grown, [rw]mem_max not yet",
     .host = &host_6_16, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .snd = {CAPPED, WMEM_MAX, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "ESnet 32: autotuning reaches 1 Gbit/s x 100 ms",
     .host = &host_esnet_32, .rate_bit_per_s = 1000 * MBIT, .rtt_ns = 100 * MS,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "ESnet 32: 2 Gbit/s x 100 ms, both sides set before connect",
     .host = &host_esnet_32, .rate_bit_per_s = 2000 * MBIT, .rtt_ns = 100 * MS,
     .snd = {SET, NO_SYSCTL, 18100000, 36200100}, .rcv = {SET, NO_SYSCTL, 24133333, 48266700}},
    {.name = "ESnet 32: 2 Gbit/s x 100 ms, connected: the send side alone",
     .host = &host_esnet_32, .rate_bit_per_s = 2000 * MBIT, .rtt_ns = 100 * MS,
     .stage = CONNECTED, .snd = {SET, NO_SYSCTL, 18100000, 36200100},
     .rcv = {LATE, NO_SYSCTL, 0, 0}},
    {.name = "ESnet 64: autotuning reaches 2 Gbit/s x 100 ms",
     .host = &host_esnet_64, .rate_bit_per_s = 2000 * MBIT, .rtt_ns = 100 * MS,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "ESnet 64: 10 Gbit/s x 200 ms is beyond everything",
     .host = &host_esnet_64, .rate_bit_per_s = 10000 * MBIT, .rtt_ns = 200 * MS,
     .snd = {CAPPED, WMEM_MAX, 67108864, 67108864}, .rcv = {CAPPED, TCP_RMEM, 67108864, 67108864}},
};

/* What else the state of socket, host and transfer changes. */
static const struct plan_row state_rows[] = {
    {.name = "product of no byte: rate and time too small",
     .host = &host_6_18, .rate_bit_per_s = 1, .rtt_ns = 1,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "product of one byte",
     .host = &host_6_18, .rate_bit_per_s = 8000, .rtt_ns = 2 * MS,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a locked buffer that is large enough",
     .host = &host_6_18, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 20 * MS,
     .locks = LOCK_SND | LOCK_RCV, .snd_buf_bytes = 1000000, .rcv_buf_bytes = 1000000,
     .snd = {LARGER, NO_SYSCTL, 0, 0}, .rcv = {LARGER, NO_SYSCTL, 0, 0}},
    {.name = "a locked receive buffer that is large enough, connected",
     .host = &host_6_18, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 20 * MS, .stage = CONNECTED,
     .locks = LOCK_RCV, .rcv_buf_bytes = 1000000,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {LARGER, NO_SYSCTL, 0, 0}},
    {.name = "a small send lock, connected: given back",
     .host = &host_6_18, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .locks = LOCK_SND, .snd_buf_bytes = 65536,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = SND_UNLOCK},
    {.name = "a small send lock, autotuning is short of it: set larger",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS, .locks = LOCK_SND,
     .snd_buf_bytes = 65536, .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a small send lock that nobody can take off: as large as is needed",
     .host = &host_6_18, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .add_flags = AUTOBUF_LIMITS_NO_UNLOCK, .locks = LOCK_SND, .snd_buf_bytes = 65536,
     .snd = {SET, NO_SYSCTL, 452500, 1000000}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "one where less may be set: as large as may be",
     .host = &host_older, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 50 * MS, .add_flags = AUTOBUF_LIMITS_NO_UNLOCK,
     .locks = LOCK_SND, .snd_buf_bytes = 65536,
     .snd = {CAPPED, WMEM_MAX, 212992, 212992}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a send lock at the settable maximum, which is more than autotuning's: left",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .locks = LOCK_SND,
     .snd_buf_bytes = 8388608, .snd = {CAPPED, WMEM_MAX, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a receive lock, autotuning off: nothing to give it back to",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .locks = LOCK_RCV,
     .rcv_buf_bytes = 8388608, .drop_flags = AUTOBUF_LIMITS_RCV_AUTOTUNING,
     .snd = {CAPPED, WMEM_MAX, 4194304, 4194304}, .rcv = {CAPPED, MODERATE, 0, 0}},
    {.name = "a receive buffer for a connection: with its clamp",
     .host = &host_esnet_32, .rate_bit_per_s = 2000 * MBIT, .rtt_ns = 100 * MS,
     .stage = CONNECTED, .snd_window_max = SCALED(11), .rcv_window_max = SCALED(11),
     .snd = {SET, NO_SYSCTL, 18100000, 36200100}, .rcv = {SET, NO_SYSCTL, 24133333, 48266700},
     .clamp = SCALED(11)},
    {.name = "a receive buffer for a connection: no larger than the scale can tell",
     .host = &host_esnet_32, .rate_bit_per_s = 2000 * MBIT, .rtt_ns = 100 * MS,
     .stage = CONNECTED, .snd_window_max = SCALED(11), .rcv_window_max = 20000000,
     .snd = {SET, NO_SYSCTL, 18100000, 36200100}, .rcv = {LATE, NO_SYSCTL, 20000000, 20000000},
     .clamp = 20000000},
    {.name = "connected, beyond autotuning and what may be set, the scale being large: tcp_rmem",
     .host = &host_older, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .snd_window_max = SCALED(10), .rcv_window_max = SCALED(10), .snd = {CAPPED, WMEM_MAX, 0, 0},
     .rcv = {CAPPED, TCP_RMEM, 0, 0}},
    {.name = "a peer that does not scale windows: nothing helps",
     .host = &host_6_18, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .snd_window_max = SCALED(0), .rcv_window_max = SCALED(0), .snd = {LATE, NO_SYSCTL, 0, 0},
     .rcv = {LATE, NO_SYSCTL, 0, 0}},
    {.name = "a peer that scales little: the send side is of no use beyond",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .snd_window_max = SCALED(5), .rcv_window_max = SCALED(10), .snd = {LATE, NO_SYSCTL, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a small send lock towards a peer that scales little: up to there",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .locks = LOCK_SND, .snd_buf_bytes = 65536, .snd_window_max = SCALED(5),
     .rcv_window_max = SCALED(10), .snd = {LATE, NO_SYSCTL, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = SND_UNLOCK},
    {.name = "receive autotuning off, connected, the scale known: set with the clamp",
     .host = &host_6_18, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .drop_flags = AUTOBUF_LIMITS_RCV_AUTOTUNING, .snd_window_max = SCALED(10),
     .rcv_window_max = SCALED(10), .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {SET, NO_SYSCTL, 2413333, 4194304}, .clamp = SCALED(10)},
    {.name = "a listener's receive buffer is set for its later connections",
     .host = &host_esnet_32, .rate_bit_per_s = 2000 * MBIT, .rtt_ns = 100 * MS,
     .stage = LISTENING, .snd = {SET, NO_SYSCTL, 18100000, 36200100},
     .rcv = {SET, NO_SYSCTL, 24133333, 48266700}},
    {.name = "receive autotuning off: set before connect",
     .host = &host_6_18, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 50 * MS,
     .drop_flags = AUTOBUF_LIMITS_RCV_AUTOTUNING, .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {SET, NO_SYSCTL, 2413333, 4194304}},
    {.name = "receive autotuning off, connected: late",
     .host = &host_6_18, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 50 * MS, .stage = CONNECTED,
     .drop_flags = AUTOBUF_LIMITS_RCV_AUTOTUNING, .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {LATE, NO_SYSCTL, 0, 0}},
    {.name = "receive autotuning off, what a new socket has is enough",
     .host = &host_6_18, .rate_bit_per_s = 100 * MBIT, .rtt_ns = 4 * MS,
     .drop_flags = AUTOBUF_LIMITS_RCV_AUTOTUNING, .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "window scaling off: nothing else matters",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .drop_flags = AUTOBUF_LIMITS_WINDOW_SCALING, .snd = {CAPPED, SCALING, 0, 0},
     .rcv = {CAPPED, SCALING, 0, 0}},
    {.name = "receive autotuning off, and more than may be set: switching it on would do",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .drop_flags = AUTOBUF_LIMITS_RCV_AUTOTUNING, .snd = {CAPPED, WMEM_MAX, 4194304, 4194304},
     .rcv = {CAPPED, MODERATE, 4194304, 4194304}},
    {.name = "receive autotuning off, and more than it could reach",
     .host = &host_6_18, .rate_bit_per_s = 3000 * MBIT, .rtt_ns = 100 * MS,
     .drop_flags = AUTOBUF_LIMITS_RCV_AUTOTUNING, .snd = {CAPPED, WMEM_MAX, 4194304, 4194304},
     .rcv = {CAPPED, TCP_RMEM, 4194304, 4194304}},
    {.name = "window scaling off: not by force either; sizes that give less than 64 KB are given back",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .locks = LOCK_SND | LOCK_RCV, .snd_buf_bytes = 65536, .rcv_buf_bytes = 65536,
     .add_flags = AUTOBUF_LIMITS_FORCE, .drop_flags = AUTOBUF_LIMITS_WINDOW_SCALING,
     .snd = {CAPPED, SCALING, 0, 0}, .rcv = {CAPPED, SCALING, 0, 0}, .flags = SND_UNLOCK | RCV_UNLOCK},
    {.name = "window scaling off, a transfer that fits",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .expected_bytes = 50000, .drop_flags = AUTOBUF_LIMITS_WINDOW_SCALING,
     .snd = {KERNEL, NO_SYSCTL, 0, 0}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "window scaling off, a path of 60 KB",
     .host = &host_6_18, .rate_bit_per_s = 48 * MBIT, .rtt_ns = 10 * MS,
     .drop_flags = AUTOBUF_LIMITS_WINDOW_SCALING, .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a short transfer is never in flight with more than itself",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .expected_bytes = 1000000, .snd = {KERNEL, NO_SYSCTL, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a transfer of 4 MB needs no more than 4 MB",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .expected_bytes = 4000000, .snd = {SET, NO_SYSCTL, 3000000, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a long transfer is as one of unknown length",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .expected_bytes = 1000000000, .snd = {CAPPED, WMEM_MAX, 4194304, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "little memory for TCP: no more than a share of it, even by force",
     .host = &host_6_18, .rate_bit_per_s = 1500 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 160000000,
     .snd = {CAPPED, TCP_MEM, 1, 160000000 / AB_TCP_MEM_SHARE / 2},
     .rcv = {CAPPED, TCP_RMEM, 0, 0},
     .flags = FORCED},
    {.name = "so little memory for TCP that the share is below autotuning's limit",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .tcp_mem_bytes = 16000000, .snd = {CAPPED, TCP_MEM | WMEM_MAX, 0, 0},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "what TCP holds already is not there for a forced buffer",
     .host = &host_6_18, .rate_bit_per_s = 1500 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000, .tcp_used_bytes = 790000000,
     .snd = {CAPPED, TCP_MEM, 4194305, 5000000}, .rcv = {CAPPED, TCP_RMEM, 0, 0}, .flags = FORCED},
    {.name = "nor what other forced buffers may come to hold",
     .host = &host_6_18, .rate_bit_per_s = 1500 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000, .forced_bytes = 790000000,
     .snd = {CAPPED, TCP_MEM, 4194305, 5000000}, .rcv = {CAPPED, TCP_RMEM, 0, 0}, .flags = FORCED},
    {.name = "all of it held: what anybody may set is left",
     .host = &host_6_18, .rate_bit_per_s = 1500 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000, .forced_bytes = 900000000,
     .snd = {CAPPED, TCP_MEM, 4194304, 4194304}, .rcv = {CAPPED, TCP_RMEM, 0, 0}},
    {.name = "nobody knows what forced buffers hold: none is forced",
     .host = &host_6_18, .rate_bit_per_s = 1500 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000, .forced_bytes = UINT64_MAX,
     .snd = {CAPPED, TCP_MEM, 4194304, 4194304}, .rcv = {CAPPED, TCP_RMEM, 0, 0}},
    {.name = "a forced buffer is 1.35 products, for the rest would stand in a queue",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .snd = {SET, NO_SYSCTL, 9765000, 9780000},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "its own forced buffer does not count against a connection",
     .host = &host_6_18, .rate_bit_per_s = 1500 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE, .locks = LOCK_SND,
     .tcp_mem_bytes = 1600000000, .forced_bytes = 790000000, .snd_buf_bytes = 24000000,
     .snd = {SET, NO_SYSCTL, 17000000, 17000000}, .rcv = {LATE, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "before TCP has seen the path, 32 MB are forced at most",
     .host = &host_6_18, .rate_bit_per_s = 10000 * MBIT, .rtt_ns = 600 * MS,
     .add_flags = AUTOBUF_LIMITS_FORCE, .snd = {CAPPED, WMEM_MAX, 16000000, 16000000},
     .rcv = {CAPPED, TCP_RMEM, 0, 0}, .flags = FORCED},
    {.name = "nor more on a connection whose round-trip time is not known yet",
     .host = &host_6_18, .rate_bit_per_s = 10000 * MBIT, .rtt_ns = 600 * MS, .stage = CONNECTED,
     .add_flags = AUTOBUF_LIMITS_FORCE, .snd = {CAPPED, WMEM_MAX, 16000000, 16000000},
     .rcv = {LATE, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "once TCP has, as much as the path needs",
     .host = &host_6_18, .rate_bit_per_s = 10000 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE,
     .snd = {SET, NO_SYSCTL, 90000000, 181100000}, .rcv = {LATE, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "the caller's own bound holds for force",
     .host = &host_6_18, .rate_bit_per_s = 10000 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE, .request_most_bytes = 8000000,
     .snd = {CAPPED, NO_SYSCTL, 8000000, 8000000}, .rcv = {LATE, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "and for what anybody may set",
     .host = &host_6_18, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS,
     .request_most_bytes = 3000000,
     .snd = {CAPPED, NO_SYSCTL, 3000000, 3000000}, .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
    {.name = "a connection's receive buffer is forced where tcp_rmem is short: two products, and the clamp",
     .host = &host_older, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000,
     .rcv_buf_bytes = 6291456, .snd_window_max = SCALED(10), .rcv_window_max = SCALED(10),
     .snd = {SET, NO_SYSCTL, 3620000, 7240100}, .rcv = {SET, NO_SYSCTL, 9653000, 9654000},
     .flags = FORCED | RCV_FORCED, .clamp = SCALED(10)},
    {.name = "as far as the scale goes, which tcp_rmem has decided",
     .host = &host_older, .rate_bit_per_s = 800 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000,
     .rcv_buf_bytes = 6291456, .snd_window_max = SCALED(10), .rcv_window_max = SCALED(7),
     .snd = {SET, NO_SYSCTL, 7240000, 14480100}, .rcv = {LATE, NO_SYSCTL, SCALED(7), SCALED(7)},
     .flags = FORCED | RCV_FORCED, .clamp = SCALED(7)},
    {.name = "where nobody may take a lock off, too",
     .host = &host_older, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED, .locks = LOCK_RCV,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE | AUTOBUF_LIMITS_NO_UNLOCK, .tcp_mem_bytes = 1600000000,
     .rcv_buf_bytes = 65536, .snd_window_max = SCALED(5), .rcv_window_max = SCALED(7),
     .snd = {LATE, NO_SYSCTL, 0, 0}, .rcv = {SET, NO_SYSCTL, SCALED(7), SCALED(7)},
     .flags = RCV_FORCED, .clamp = SCALED(7)},
    {.name = "no receive buffer is forced before there is a connection: no scale would follow",
     .host = &host_older, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE,
     .tcp_mem_bytes = 1600000000, .snd = {SET, NO_SYSCTL, 3620000, 7240100}, .rcv = {CAPPED, TCP_RMEM, 0, 0},
     .flags = FORCED},
    {.name = "nor on a connection whose scale is not known",
     .host = &host_older, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000,
     .snd = {SET, NO_SYSCTL, 3620000, 7240100}, .rcv = {LATE, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "both sides share what is left: the send side comes first",
     .host = &host_older, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000,
     .tcp_used_bytes = 780000000,
     .rcv_buf_bytes = 6291456, .snd_window_max = SCALED(10), .rcv_window_max = SCALED(10),
     .snd = {SET, NO_SYSCTL, 4887000, 4887600}, .rcv = {SET, NO_SYSCTL, 5112400, 5113000},
     .flags = FORCED | RCV_FORCED, .clamp = SCALED(10)},
    {.name = "the caller's own bound holds for a receive buffer",
     .host = &host_older, .rate_bit_per_s = 400 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .tcp_rtt_ns = 100 * MS, .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 1600000000,
     .request_most_bytes = 4000000,
     .rcv_buf_bytes = 6291456, .snd_window_max = SCALED(10), .rcv_window_max = SCALED(10),
     .snd = {SET, NO_SYSCTL, 4000000, 4000000}, .rcv = {CAPPED, TCP_RMEM, 4000000, 4000000},
     .flags = FORCED | RCV_FORCED, .clamp = SCALED(10)},
    {.name = "by force, on a path that TCP has seen: as much as TCP's largest window needs",
     .host = &host_6_18, .rate_bit_per_s = 100000 * MBIT, .rtt_ns = 100 * MS, .stage = CONNECTED,
     .add_flags = AUTOBUF_LIMITS_FORCE, .tcp_rtt_ns = 100 * MS,
     .snd = {CAPPED, NO_SYSCTL, 805294080, 805294081}, .rcv = {LATE, NO_SYSCTL, 0, 0}, .flags = FORCED},
    {.name = "plenty of memory for TCP changes nothing",
     .host = &host_6_18, .rate_bit_per_s = 500 * MBIT, .rtt_ns = 50 * MS,
     .tcp_mem_bytes = 1572000000, .snd = {SET, NO_SYSCTL, 2262500, 4194304},
     .rcv = {KERNEL, NO_SYSCTL, 0, 0}},
};

static void check_side(const char *name, const struct expected *e, uint32_t reason,
                       uint32_t sysctl, uint64_t request)
{
    CHECK_EQUAL(name, reason, e->reason);
    CHECK_EQUAL(name, sysctl, e->sysctl);
    if (request < e->request_least || request > e->request_most)
        fail_msg("%s: request %llu is not in %llu to %llu", name, (unsigned long long)request,
                 (unsigned long long)e->request_least, (unsigned long long)e->request_most);
}

static void row_inputs(const struct plan_row *row, struct autobuf_limits *limits,
                       struct autobuf_socket *s)
{
    *limits = *row->host;
    limits->flags = (limits->flags | row->add_flags) & ~row->drop_flags;
    if (row->tcp_mem_bytes)
        limits->tcp_mem_bytes = row->tcp_mem_bytes;
    limits->tcp_used_bytes = row->tcp_used_bytes;
    limits->forced_bytes = row->forced_bytes;
    limits->request_most_bytes = row->request_most_bytes;
    *s = socket_new();
    s->stage = row->stage;
    if (row->tcp_rtt_ns)
        s->rtt_min_ns = row->tcp_rtt_ns;
    s->locks = row->locks;
    s->snd_window_max_bytes = row->snd_window_max;
    s->rcv_window_max_bytes = row->rcv_window_max;
    if (row->snd_buf_bytes)
        s->snd_buf_bytes = row->snd_buf_bytes;
    if (row->rcv_buf_bytes)
        s->rcv_buf_bytes = row->rcv_buf_bytes;
}

static void check_rows(const struct plan_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct plan_row *row = &rows[i];
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_limits limits;
        struct autobuf_socket s;
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        uint64_t payload;

        row_inputs(row, &limits, &s);
        CHECK_EQUAL(row->name, autobuf_path_given(&path, row->rate_bit_per_s, row->rtt_ns), 0);
        payload = autobuf_payload_bytes(path.tx_bdp_bytes, path.packet_bytes);
        CHECK_EQUAL(row->name,
                    autobuf_plan_make(&path, &limits, &s, AUTOBUF_INTENT_THROUGHPUT,
                                      row->expected_bytes, &p),
                    0);
        CHECK_EQUAL(row->name, p.size, sizeof p);
        CHECK_EQUAL(row->name, p.intent, AUTOBUF_INTENT_THROUGHPUT);
        CHECK_EQUAL(row->name, p.rtt_ns, row->rtt_ns);
        CHECK_EQUAL(row->name, p.snd_pacing_bit_per_s, 0);
        CHECK_EQUAL(row->name, p.snd_wanted_bytes, payload);
        CHECK_EQUAL(row->name, p.rcv_wanted_bytes, payload);
        check_side(row->name, &row->snd, p.snd_reason, p.snd_sysctl, p.snd_request_bytes);
        check_side(row->name, &row->rcv, p.rcv_reason, p.rcv_sysctl, p.rcv_request_bytes);
        CHECK(row->name, p.snd_needed_bytes >= p.snd_wanted_bytes || row->expected_bytes);
        CHECK(row->name, p.rcv_needed_bytes >= p.rcv_wanted_bytes || row->expected_bytes);
        CHECK_EQUAL(row->name, p.rcv_clamp_bytes, row->clamp);
        CHECK_EQUAL(row->name, p.flags, row->flags);
    }
}

static void plans_what_was_measured(void **state)
{
    (void)state;
    check_rows(measured_rows, COUNT(measured_rows));
}

static void plans_for_older_and_tuned_hosts(void **state)
{
    (void)state;
    check_rows(host_rows, COUNT(host_rows));
}

static void plans_by_the_state(void **state)
{
    (void)state;
    check_rows(state_rows, COUNT(state_rows));
}

/* Other sockets may have forced buffers since the plan was made. */
static void a_plan_may_force_too_much_later(void **state)
{
    static const struct {
        const char *name;
        uint32_t flags;
        uint64_t snd_request, rcv_request; /* the socket's own buffers are the kernel's */
        uint64_t tcp_mem, used, forced, tcp_rtt_ns; /* 0: unknown */
        bool too_much;
    } rows[] = {
        {"nothing is forced", 0, 400000000, 400000000, 1600000000, 800000000, 800000000, 0, false},
        {"as much as one may", FORCED | RCV_FORCED, 100000000, 100000000, 1600000000, 0, 0, 100 * MS, false},
        {"more to send", FORCED, 100000001, 0, 1600000000, 0, 0, 100 * MS, true},
        {"more to receive", RCV_FORCED, 0, 100000001, 1600000000, 0, 0, 100 * MS, true},
        {"that side is not forced", FORCED, 1000, 100000001, 1600000000, 0, 0, 100 * MS, false},
        {"TCP holds the rest", RCV_FORCED, 0, 5000001, 1600000000, 790000000, 0, 100 * MS, true},
        {"others have forced it", RCV_FORCED, 0, 5000001, 1600000000, 0, 790000000, 100 * MS, true},
        {"just what they have left", RCV_FORCED, 0, 5000000, 1600000000, 0, 790000000, 100 * MS, false},
        {"the other side takes it", FORCED | RCV_FORCED, 24000000, 24000000, 400000000, 150000000, 0, 100 * MS, true},
        {"both sides' is left", FORCED | RCV_FORCED, 12000000, 12000000, 400000000, 150000000, 0, 100 * MS, false},
        {"nobody knows what they have", RCV_FORCED, 0, 5000000, 1600000000, 0, UINT64_MAX, 100 * MS, true},
        {"nobody knows the memory", RCV_FORCED, 0, 5000000, 0, 0, 0, 100 * MS, true},
        {"TCP has not seen the path", RCV_FORCED, 0, 16000001, 1600000000, 0, 0, 0, true},
        {"32 MB all the same", RCV_FORCED, 0, 16000000, 1600000000, 0, 0, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        struct autobuf_limits l = host_older;
        struct autobuf_socket s = socket_new();

        l.flags |= AUTOBUF_LIMITS_FORCE;
        l.tcp_mem_bytes = rows[i].tcp_mem;
        l.tcp_used_bytes = rows[i].used;
        l.forced_bytes = rows[i].forced;
        s.stage = CONNECTED;
        if (rows[i].tcp_rtt_ns)
            s.rtt_min_ns = rows[i].tcp_rtt_ns;
        p.flags = rows[i].flags;
        p.snd_request_bytes = rows[i].snd_request;
        p.rcv_request_bytes = rows[i].rcv_request;
        CHECK_EQUAL(rows[i].name, ab_plan_forces_too_much(&p, &l, &s), rows[i].too_much);
        l.flags &= ~AUTOBUF_LIMITS_FORCE;
        CHECK_EQUAL(rows[i].name, ab_plan_forces_too_much(&p, &l, &s), rows[i].flags != 0);
    }
}

/* A window cannot be larger than the 16 bits of the header: RFC 7323. */
static void unscaled_windows_end_at_64k(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_limits limits = host_6_18;
    struct autobuf_socket s = socket_new();
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    (void)state;
    limits.flags &= ~AUTOBUF_LIMITS_WINDOW_SCALING;
    assert_int_equal(autobuf_path_given(&path, 800 * MBIT, 100 * MS), 0);
    assert_int_equal(autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
    assert_true(p.snd_window_bytes <= 65535 && p.rcv_window_bytes <= 65535);
    assert_true(p.snd_sysctl == SCALING && p.rcv_sysctl == SCALING);
}

/* The last number of the line that names a sysctl; 0: none does. */
static uint64_t named_value(const struct autobuf_plan *p, const struct autobuf_limits *limits,
                            const char *sysctl)
{
    char line[128];

    for (unsigned i = 0; autobuf_plan_sysctl(p, limits, i, line, sizeof line) > 0; i++) {
        const char *last = strrchr(line, ' ') ? strrchr(line, ' ') : strchr(line, '=');

        if (strncmp(line, sysctl, strlen(sysctl)) == 0)
            return strtoull(last + 1, NULL, 10);
    }
    return 0;
}

/* With the named value the plan is not capped any more. */
static void check_named_sysctl(const char *name, const struct autobuf_path *path,
                               const struct autobuf_limits *limits, const struct autobuf_socket *s)
{
    struct autobuf_limits cured = *limits;
    struct autobuf_plan p = AUTOBUF_PLAN_INIT, again = AUTOBUF_PLAN_INIT;

    CHECK_EQUAL(name, autobuf_plan_make(path, limits, s, 0, 0, &p), 0);
    if (p.snd_sysctl == WMEM_MAX) {
        cured.snd_settable_bytes = named_value(&p, limits, "net.core.wmem_max=");
        CHECK(name, cured.snd_settable_bytes > limits->snd_settable_bytes);
    }
    if (p.rcv_sysctl == TCP_RMEM) {
        cured.tcp_rmem_max_bytes = named_value(&p, limits, "net.ipv4.tcp_rmem=");
        CHECK(name, cured.tcp_rmem_max_bytes > limits->tcp_rmem_max_bytes);
    }
    CHECK_EQUAL(name, autobuf_plan_make(path, &cured, s, 0, 0, &again), 0);
    CHECK(name, again.snd_reason != CAPPED && again.rcv_reason != CAPPED);
}

static void the_named_sysctl_is_enough(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint32_t locks;
    } rows[] = {
        {"6.18", &host_6_18, 0},         {"older", &host_older, 0},
        {"ESnet 32", &host_esnet_32, 0}, {"ESnet 64", &host_esnet_64, 0},
        {"tcp_wmem 16M", &host_wmem_16, 0}, {"6.18, locked", &host_6_18, LOCK_SND | LOCK_RCV},
        {"older, locked", &host_older, LOCK_SND | LOCK_RCV},
    };
    static const uint64_t rates[] = {100, 500, 800, 1500, 3000, 10000};

    (void)state;
    for (size_t i = 0; i < COUNT(rows) * COUNT(rates); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();

        s.locks = rows[i / COUNT(rates)].locks;
        assert_int_equal(autobuf_path_given(&path, rates[i % COUNT(rates)] * MBIT, 150 * MS), 0);
        check_named_sysctl(rows[i / COUNT(rates)].name, &path, rows[i / COUNT(rates)].host, &s);
    }
}

/* The bottleneck is the caller's bound, or a locked size that cannot be unlocked. */
static void no_sysctl_is_to_be_lowered(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_limits limits = host_esnet_64;
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;
    struct autobuf_socket s = socket_new();

    (void)state;
    limits.tcp_wmem_max_bytes = 4194304;
    limits.request_most_bytes = 100000;
    assert_int_equal(autobuf_path_given(&path, 400 * MBIT, 100 * MS), 0);
    assert_int_equal(autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
    assert_int_equal(p.snd_reason, CAPPED);
    assert_int_equal(named_value(&p, &limits, "net.core.wmem_max="), 0);
    limits = host_older;
    limits.flags |= AUTOBUF_LIMITS_NO_UNLOCK;
    s.locks = LOCK_RCV;
    s.rcv_buf_bytes = 131072;
    assert_int_equal(autobuf_path_given(&path, 80 * MBIT, 100 * MS), 0);
    assert_int_equal(autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
    assert_int_equal(p.rcv_reason, CAPPED);
    assert_int_equal(named_value(&p, &limits, "net.ipv4.tcp_rmem="), 0);
    for (int known = 0; known < 2; known++) { /* others hold TCP's memory, or nobody knows how much */
        limits = host_6_18;
        limits.flags |= AUTOBUF_LIMITS_FORCE;
        limits.tcp_mem_bytes = 4000000000U;
        limits.forced_bytes = known ? 1990000000U : UINT64_MAX;
        s = socket_new();
        p = (struct autobuf_plan)AUTOBUF_PLAN_INIT;
        assert_int_equal(autobuf_path_given(&path, 3000 * MBIT, 100 * MS), 0);
        assert_int_equal(autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
        assert_true(p.snd_sysctl & AUTOBUF_SYSCTL_TCP_MEM);
        assert_int_equal(named_value(&p, &limits, "net.ipv4.tcp_mem="), 0);
    }
}

/* Each limit that is too small is named. With more memory the others may suffice. */
static void more_tcp_memory_is_enough(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint64_t tcp_mem_bytes;
    } rows[] = {
        {"ESnet 64, 40 MB", &host_esnet_64, 40000000},
        {"ESnet 32, 1 page", &host_esnet_32, 4096},
        {"6.18, 16 MB", &host_6_18, 16000000},
    };
    static const uint64_t rates[] = {700, 801, 1503, 3007, 9999};

    (void)state;
    for (size_t i = 0; i < COUNT(rows) * COUNT(rates); i++) {
        const char *name = rows[i / COUNT(rates)].name;
        struct autobuf_limits limits = *rows[i / COUNT(rates)].host;
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;

        limits.tcp_wmem_max_bytes = 4194304;
        limits.tcp_mem_bytes = rows[i / COUNT(rates)].tcp_mem_bytes;
        CHECK_EQUAL(name, autobuf_path_given(&path, rates[i % COUNT(rates)] * MBIT, 100 * MS), 0);
        CHECK_EQUAL(name, autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
        CHECK_EQUAL(name, p.snd_reason, CAPPED);
        CHECK(name, p.snd_sysctl & TCP_MEM);
        CHECK(name, named_value(&p, &limits, "net.ipv4.tcp_mem=") * 4096 >
                        limits.tcp_mem_bytes);
        limits.tcp_mem_bytes = p.snd_needed_bytes * AB_TCP_MEM_SHARE;
        CHECK_EQUAL(name, autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
        CHECK(name, !(p.snd_sysctl & TCP_MEM));
        CHECK(name, p.snd_reason == SET || p.snd_sysctl == WMEM_MAX);
    }
}

/* sysctl(8) takes an int. */
static void sysctl_fits_the_kernel_s_int(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_socket s = socket_new();
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    (void)state;
    assert_int_equal(autobuf_path_given(&path, 400000 * MBIT, 200 * MS), 0);
    assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, 0, 0, &p), 0);
    assert_int_equal(p.snd_sysctl, WMEM_MAX);
    assert_int_equal(p.rcv_sysctl, TCP_RMEM);
    assert_in_range(named_value(&p, &host_6_18, "net.core.wmem_max="), 4194305, INT32_MAX);
    assert_in_range(named_value(&p, &host_6_18, "net.ipv4.tcp_rmem="), 33554433, INT32_MAX);
}

/* A peer that delays its echo replies claims a long path. */
static void the_shorter_rtt_of_tcp_counts(void **state)
{
    static const struct {
        const char *name;
        uint32_t method;
        uint64_t told_ns, tcp_ns, believed_ns;
    } rows[] = {
        {"0.6 s told, 20 ms seen", AUTOBUF_METHOD_ICMP, 600 * MS, 20 * MS, 20 * MS},
        {"in band as well", AUTOBUF_METHOD_INBAND, 600 * MS, 20 * MS, 20 * MS},
        {"nothing seen yet", AUTOBUF_METHOD_ICMP, 600 * MS, AUTOBUF_NS_UNSET, 600 * MS},
        {"a zeroed struct has seen nothing either", AUTOBUF_METHOD_ICMP, 600 * MS, 0, 600 * MS},
        {"less told than seen", AUTOBUF_METHOD_ICMP, 20 * MS, 30 * MS, 20 * MS},
        {"the caller's own word", AUTOBUF_METHOD_GIVEN, 600 * MS, 20 * MS, 600 * MS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        uint64_t bdp = 1000 * MBIT / 8000 * (rows[i].believed_ns / MS), off;

        assert_int_equal(autobuf_path_given(&path, 1000 * MBIT, rows[i].told_ns), 0);
        path.method = rows[i].method;
        s.stage = CONNECTED;
        s.rtt_min_ns = rows[i].tcp_ns;
        CHECK_EQUAL(rows[i].name, autobuf_plan_make(&path, &host_6_18, &s, 0, 0, &p), 0);
        CHECK_EQUAL(rows[i].name, p.rtt_ns, rows[i].believed_ns);
        bdp = autobuf_payload_bytes(bdp, path.packet_bytes);
        off = bdp > p.snd_wanted_bytes ? bdp - p.snd_wanted_bytes : p.snd_wanted_bytes - bdp;
        CHECK(rows[i].name, off < 2);
        CHECK_EQUAL(rows[i].name, p.rcv_wanted_bytes, p.snd_wanted_bytes);
    }
}

static void too_little_known(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint64_t rtt_ns, expected_bytes;
        uint32_t snd, rcv;
    } rows[] = {
        {"nothing", &host_6_18, AUTOBUF_NS_UNSET, 0, UNKNOWN, UNKNOWN},
        {"a zeroed struct", &host_6_18, 0, 0, UNKNOWN, UNKNOWN},
        {"a time, at which no rate matters", &host_6_18, MS, 0, KERNEL, KERNEL},
        {"a time, at which only the send side matters", &host_6_18, 5 * MS, 0, UNKNOWN, KERNEL},
        {"a time, at which the rate matters", &host_6_18, 100 * MS, 0, UNKNOWN, UNKNOWN},
        {"a time beyond sense", &host_6_18, AUTOBUF_NS_UNSET - 1, 0, UNKNOWN, UNKNOWN},
        {"older limits, a short time", &host_older, 2 * MS, 0, KERNEL, KERNEL},
        {"older limits, a longer time", &host_older, 4 * MS, 0, UNKNOWN, UNKNOWN},
        {"a transfer that fits at any rate", &host_6_18, AUTOBUF_NS_UNSET, 1000000, KERNEL, KERNEL},
        {"a transfer that fits the receive side", &host_6_18, 100 * MS, 9000000, UNKNOWN, KERNEL},
        {"a transfer that fits neither", &host_6_18, 100 * MS, 99000000, UNKNOWN, UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;

        path.rtt_min_ns = rows[i].rtt_ns;
        CHECK_EQUAL(rows[i].name,
                    autobuf_plan_make(&path, rows[i].host, &s, 0, rows[i].expected_bytes, &p), 0);
        CHECK_EQUAL(rows[i].name, p.snd_reason, rows[i].snd);
        CHECK_EQUAL(rows[i].name, p.rcv_reason, rows[i].rcv);
        CHECK_EQUAL(rows[i].name, p.snd_wanted_bytes + p.rcv_wanted_bytes, 0);
        CHECK_EQUAL(rows[i].name, p.snd_request_bytes + p.rcv_request_bytes + p.flags, 0);
        CHECK_EQUAL(rows[i].name, p.rtt_ns, rows[i].rtt_ns ? rows[i].rtt_ns : AUTOBUF_NS_UNSET);
    }
}

/* tx concerns the send side only, rx the receive side. */
static void directions_do_not_mix(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_socket s = socket_new();
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    (void)state;
    path.rtt_min_ns = 100 * MS;
    path.packet_bytes = 1500;
    path.tx_bdp_bytes = 15000;
    path.rx_bdp_bytes = 150000000;
    assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, 0, 0, &p), 0);
    assert_true(p.snd_wanted_bytes == 14480 && p.rcv_wanted_bytes == 144800000);
    assert_true(p.snd_reason == KERNEL && p.rcv_reason == CAPPED);
    path.rx_bdp_bytes = 0; /* only one is known */
    assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, 0, 0, &p), 0);
    assert_true(p.snd_reason == KERNEL && p.rcv_reason == UNKNOWN);
}

/* Neither a buffer nor a pace, whatever it says; the other direction is planned. */
static void an_unsure_rate_plans_nothing(void **state)
{
    static const uint32_t intents[] = {AUTOBUF_INTENT_THROUGHPUT, AUTOBUF_INTENT_LOW_DELAY};
    struct autobuf_socket s = socket_new();
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    (void)state;
    for (size_t i = 0; i < COUNT(intents); i++) {
        for (uint32_t unsure = AUTOBUF_UNSURE_JITTER; unsure <= AUTOBUF_UNSURE_PAUSES; unsure++) {
            struct autobuf_path path = AUTOBUF_PATH_INIT;

            assert_int_equal(autobuf_path_given(&path, 500 * MBIT, 100 * MS), 0);
            path.tx_unsure = unsure;
            if (unsure == AUTOBUF_UNSURE_BATCHES) { /* of a stream, it has a BDP, and is a lower bound */
                path.rx_unsure = unsure;
                assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, intents[i], 0, &p), 0);
                assert_true(p.snd_wanted_bytes > 6000000 && p.snd_reason != UNKNOWN);
                assert_int_equal(p.flags, AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_RCV_AT_LEAST);
                assert_true(!p.snd_pacing_bit_per_s && !p.rcv_clamp_bytes);
                continue;
            }
            path.flags = AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_TX_ECHOED;
            assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, intents[i], 0, &p), 0);
            assert_int_equal(p.snd_reason, UNKNOWN);
            assert_true(!p.snd_request_bytes && !p.snd_pacing_bit_per_s && !p.snd_sysctl && !p.flags);
            assert_true(p.rcv_wanted_bytes > 6000000 && p.rcv_reason != UNKNOWN);
            path.tx_unsure = path.flags = 0;
            path.rx_unsure = unsure;
            assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, intents[i], 0, &p), 0);
            assert_int_equal(p.rcv_reason, UNKNOWN);
            assert_true(!p.rcv_request_bytes && !p.rcv_clamp_bytes && !p.rcv_sysctl);
            assert_true(p.snd_wanted_bytes > 6000000 && p.snd_reason != UNKNOWN);
        }
    }
}

static void huge_bdps_do_not_overflow(void **state)
{
    static const uint64_t bdps[] = {1ULL << 32, 1ULL << 60, (1ULL << 60) + 1, UINT64_MAX / 4,
                                        UINT64_MAX / 3, UINT64_MAX / 2, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT(bdps) * 2; i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_limits limits = host_6_18;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;

        if (i >= COUNT(bdps))
            limits.snd_settable_bytes = limits.rcv_settable_bytes = UINT64_MAX;
        path.tx_bdp_bytes = path.rx_bdp_bytes = bdps[i % COUNT(bdps)];
        assert_int_equal(autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
        assert_true(p.snd_wanted_bytes >= 1ULL << 31 && p.rcv_wanted_bytes >= 1ULL << 31);
        if (i < COUNT(bdps)) {
            assert_int_equal(p.snd_reason, CAPPED);
            assert_int_equal(p.rcv_reason, CAPPED);
            assert_true(p.snd_request_bytes == 4194304);
            assert_true(p.rcv_request_bytes == 0);
            assert_true(p.snd_needed_bytes > 8388608 && p.rcv_needed_bytes > 33554432);
        } else {
            assert_true(p.snd_window_bytes > p.snd_kernel_bytes);
            assert_true(p.rcv_window_bytes > p.rcv_kernel_bytes);
        }
    }
}

/* Windows whose 3/2 or double is just above 2^64: the result must not wrap. */
static void windows_do_not_wrap(void **state)
{
    static const uint64_t windows[] = {1ULL << 62, (1ULL << 62) + 1, (1ULL << 63) + 1,
                                       6148914691236517207ULL, 12297829382473034412ULL,
                                       UINT64_MAX - 1, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT(windows); i++) {
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p;

        ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, &p);
        ab_plan_windows(windows[i], windows[i], &host_6_18, &s, 0, &p);
        assert_int_equal(p.snd_reason, CAPPED);
        assert_int_equal(p.rcv_reason, CAPPED);
        assert_true(p.snd_request_bytes == 4194304 && p.rcv_request_bytes == 0);
    }
}

#define ECHOES                                                                                                \
    (AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST | AUTOBUF_PATH_TX_ECHOED | AUTOBUF_PATH_RX_ECHOED)

/* 100 ms: a BDP of 1.207 MB of payload for each 100 Mbit/s. */
static void low_delay_keeps_both_sides_near_the_bdp(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint64_t rate_bit_per_s;
        uint32_t path_flags, stage, locks;
        uint64_t snd_buf, rcv_buf, window_max;
        uint32_t snd_reason, rcv_reason;
        bool paced, snd_held, rcv_held;
    } rows[] = {
        {"a path that autotuning fills, and overfills", &host_6_18, 100 * MBIT, 0, NEW, 0, 0, 0, 0,
         SET, SET, true, true, true},
        {"for later connections", &host_6_18, 100 * MBIT, 0, LISTENING, 0, 0, 0, 0,
         SET, SET, true, true, true},
        {"connected: the receive buffer does not shrink", &host_6_18, 100 * MBIT, 0, CONNECTED, 0,
         0, 6000000, SCALED(10), SET, SET, true, true, true},
        {"connected, the window scale unknown", &host_6_18, 100 * MBIT, 0, CONNECTED, 0,
         0, 6000000, 0, SET, KERNEL, true, true, false},
        {"a path beyond the send side's limits", &host_6_18, 800 * MBIT, 0, NEW, 0, 0, 0, 0,
         CAPPED, KERNEL, true, false, false},
        {"older limits: no buffer of that size can be set", &host_older, 100 * MBIT, 0, NEW, 0, 0,
         0, 0, SET, KERNEL, true, false, false},
        {"older limits, a small path", &host_older, 10 * MBIT, 0, NEW, 0, 0, 0, 0,
         SET, SET, true, true, true},
        {"the application's own buffers stay", &host_6_18, 100 * MBIT, 0, NEW, LOCK_SND | LOCK_RCV,
         4000000, 4000000, 0, SET, LARGER, true, false, false},
        {"the other direction a lower bound", &host_6_18, 100 * MBIT, AUTOBUF_PATH_RX_AT_LEAST,
         NEW, 0, 0, 0, 0, SET, KERNEL, true, true, false},
        {"an echo's rate may be that of the other direction", &host_6_18, 100 * MBIT, ECHOES, NEW, 0, 0, 0, 0,
         KERNEL, KERNEL, false, false, false},
        {"and of a listener's", &host_6_18, 100 * MBIT, ECHOES, LISTENING, 0, 0, 0, 0,
         KERNEL, KERNEL, false, false, false},
        {"a lower bound would slow it down", &host_6_18, 100 * MBIT, AUTOBUF_PATH_TX_AT_LEAST, NEW,
         0, 0, 0, 0, KERNEL, SET, false, false, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        uint64_t payload_rate = rows[i].rate_bit_per_s / 1500 * 1448;
        uint64_t bdp = payload_rate / 80;

        s.stage = rows[i].stage;
        s.locks = rows[i].locks;
        s.snd_buf_bytes = rows[i].snd_buf ? rows[i].snd_buf : s.snd_buf_bytes;
        s.rcv_buf_bytes = rows[i].rcv_buf ? rows[i].rcv_buf : s.rcv_buf_bytes;
        s.snd_window_max_bytes = s.rcv_window_max_bytes = rows[i].window_max;
        CHECK_EQUAL(rows[i].name, autobuf_path_given(&path, rows[i].rate_bit_per_s, 100 * MS), 0);
        path.flags = rows[i].path_flags;
        CHECK_EQUAL(rows[i].name,
                    autobuf_plan_make(&path, rows[i].host, &s, AUTOBUF_INTENT_LOW_DELAY, 0, &p),
                    0);
        CHECK_EQUAL(rows[i].name, p.intent, AUTOBUF_INTENT_LOW_DELAY);
        CHECK_EQUAL(rows[i].name, p.snd_reason, rows[i].snd_reason);
        CHECK_EQUAL(rows[i].name, p.rcv_reason, rows[i].rcv_reason);
        /* a little below the wire's payload rate: no queue, and hardly slower */
        CHECK(rows[i].name, p.snd_pacing_bit_per_s < payload_rate);
        CHECK_EQUAL(rows[i].name, p.snd_pacing_bit_per_s > payload_rate / 100 * 95, rows[i].paced);
        /* windows just above the product */
        CHECK_EQUAL(rows[i].name,
                    p.snd_request_bytes && p.snd_window_bytes >= bdp &&
                        p.snd_window_bytes <= bdp * 13 / 10,
                    rows[i].snd_held);
        CHECK_EQUAL(rows[i].name,
                    p.rcv_clamp_bytes >= bdp && p.rcv_clamp_bytes <= bdp * 12 / 10 &&
                        p.rcv_window_bytes >= bdp &&
                        p.rcv_window_bytes <= p.rcv_clamp_bytes,
                    rows[i].rcv_held);
        if (rows[i].stage == CONNECTED && p.rcv_request_bytes)
            CHECK(rows[i].name, 2 * p.rcv_request_bytes >= s.rcv_buf_bytes);
        else if (rows[i].rcv_held) /* where the kernel replaces the clamp, the buffer is what holds */
            CHECK(rows[i].name, p.rcv_request_bytes >= bdp && p.rcv_request_bytes <= bdp * 11 / 10);
    }
    assert_int_equal(AUTOBUF_REASON_SET, SET); /* the short names of the tables */
    assert_int_equal(AUTOBUF_REASON_LATE, LATE);
    assert_int_equal(AUTOBUF_STAGE_CONNECTED, CONNECTED);
}

/* The side without bulk is left alone, and causes no measurement. */
static void one_direction_alone(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint32_t intent;
        uint32_t snd, rcv;
        int worth;
    } rows[] = {
        {"both", &host_6_18, 0, SET, KERNEL, 1},
        {"both, said", &host_6_18, AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES, SET, KERNEL, 1},
        {"sends", &host_6_18, AUTOBUF_INTENT_SENDS, SET, KERNEL, 1},
        {"receives: autotuning goes further than what may be set", &host_6_18,
         AUTOBUF_INTENT_RECEIVES, KERNEL, KERNEL, 0},
        {"receives, where more may be set, but autotuning goes far", &host_esnet_32,
         AUTOBUF_INTENT_RECEIVES, KERNEL, KERNEL, 0},
        {"receives, where more may be set, and autotuning does not go far", &host_rmem_16,
         AUTOBUF_INTENT_RECEIVES, KERNEL, SET, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;

        CHECK_EQUAL(rows[i].name,
                    autobuf_plan_worth(rows[i].host, &s, rows[i].intent, 0, NULL, NULL),
                    rows[i].worth);
        CHECK_EQUAL(rows[i].name, autobuf_path_given(&path, 400 * MBIT, 100 * MS), 0);
        CHECK_EQUAL(rows[i].name,
                    autobuf_plan_make(&path, rows[i].host, &s, rows[i].intent, 0, &p), 0);
        CHECK_EQUAL(rows[i].name, p.snd_reason, rows[i].snd);
        CHECK_EQUAL(rows[i].name, p.rcv_reason, rows[i].rcv);
        CHECK_EQUAL(rows[i].name, p.snd_request_bytes != 0, rows[i].snd == SET);
        /* nor paced, nor clamped */
        CHECK_EQUAL(rows[i].name,
                    autobuf_plan_make(&path, rows[i].host, &s,
                                      rows[i].intent | AUTOBUF_INTENT_LOW_DELAY, 0, &p),
                    0);
        CHECK_EQUAL(rows[i].name, p.snd_pacing_bit_per_s != 0,
                    rows[i].intent != AUTOBUF_INTENT_RECEIVES);
        CHECK(rows[i].name, rows[i].intent != AUTOBUF_INTENT_SENDS || !p.rcv_clamp_bytes);
    }
}

static void bad_inputs_are_refused(void **state)
{
    static const uint32_t sizes[] = {0, 3};

    (void)state;
    for (size_t i = 0; i < COUNT(sizes) * 4 + 1; i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_limits limits = host_6_18;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        uint32_t *size[] = {&path.size, &limits.size, &s.size, &p.size};
        uint32_t intent = 0;

        if (i < COUNT(sizes) * 4)
            *size[i / COUNT(sizes)] = sizes[i % COUNT(sizes)];
        else
            intent = 3;
        assert_int_equal(autobuf_plan_make(&path, &limits, &s, intent, 0, &p), -EINVAL);
        if (size[i / COUNT(sizes) % 4] == &limits.size || size[i / COUNT(sizes) % 4] == &s.size ||
            intent)
            assert_int_equal(autobuf_plan_worth(&limits, &s, intent, 0, NULL, NULL), -EINVAL);
    }
}

/* An older program's plan ends before the receive side: the rest is not written. */
static void older_program_s_plan(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_socket s = socket_new();
    struct autobuf_plan p;

    (void)state;
    memset(&p, 0x77, sizeof p);
    p.size = offsetof(struct autobuf_plan, rcv_wanted_bytes);
    assert_int_equal(autobuf_path_given(&path, 800 * MBIT, 100 * MS), 0);
    assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, 0, 0, &p), 0);
    assert_int_equal(p.size, offsetof(struct autobuf_plan, rcv_wanted_bytes));
    assert_true(p.snd_request_bytes == 4194304);
    assert_true(p.rcv_wanted_bytes == 0x7777777777777777ULL);
    assert_true(p.rcv_needed_bytes == 0x7777777777777777ULL);
}

/* --------------------------------------------------------- properties over a pseudo-random grid */

struct inputs {
    struct autobuf_path path;
    struct autobuf_limits limits;
    struct autobuf_socket socket;
    uint32_t intent;
    uint64_t expected_bytes;
};

/* A number whose magnitude is uniform. */
static uint64_t some(uint64_t *seed, unsigned bits)
{
    uint64_t value = unit_random(seed) >> (64 - bits);

    return value >> unit_random(seed) % bits;
}

static void random_inputs(uint64_t *seed, struct inputs *in)
{
    static const struct autobuf_limits *const hosts[] = {
        &host_6_18, &host_older, &host_esnet_32, &host_esnet_64, &host_wmem_16, &host_6_16};

    memset(in, 0, sizeof *in);
    in->path = (struct autobuf_path)AUTOBUF_PATH_INIT;
    in->path.rtt_min_ns = unit_random(seed) % 4 ? some(seed, 42) : AUTOBUF_NS_UNSET;
    in->path.packet_bytes = unit_random(seed) % 4 ? 1500 : (uint32_t)some(seed, 14);
    in->path.tx_rate_bit_per_s = some(seed, 40);
    in->path.tx_bdp_bytes = some(seed, unit_random(seed) % 8 ? 30 : 64);
    in->path.rx_bdp_bytes = some(seed, unit_random(seed) % 8 ? 30 : 64);
    in->path.flags = unit_random(seed) & 3;
    in->limits = *hosts[unit_random(seed) % COUNT(hosts)];
    if (unit_random(seed) % 4 == 0) {
        in->limits.snd_settable_bytes = some(seed, 31);
        in->limits.rcv_settable_bytes = some(seed, 31);
        in->limits.tcp_wmem_max_bytes = some(seed, 31);
        in->limits.tcp_rmem_max_bytes = some(seed, 31);
    }
    if (unit_random(seed) % 4 == 0)
        in->limits.flags |= AUTOBUF_LIMITS_FORCE;
    if (unit_random(seed) % 4 == 0)
        in->limits.flags &= ~AUTOBUF_LIMITS_RCV_AUTOTUNING;
    if (unit_random(seed) % 16 == 0)
        in->limits.flags &= ~AUTOBUF_LIMITS_WINDOW_SCALING;
    in->limits.tcp_mem_bytes = unit_random(seed) % 2 ? some(seed, 36) : unit_random(seed) % 4 ? 1ULL << 40 : 0;
    in->limits.tcp_used_bytes = unit_random(seed) % 2 ? some(seed, 36) : 0;
    in->limits.forced_bytes = unit_random(seed) % 2 ? some(seed, 36) : 0;
    in->limits.request_most_bytes = unit_random(seed) % 8 ? 0 : some(seed, 31);
    in->socket = socket_new();
    in->socket.stage = (uint32_t)(unit_random(seed) % 3);
    in->socket.locks = unit_random(seed) & 3;
    if (in->socket.stage == AUTOBUF_STAGE_CONNECTED && unit_random(seed) % 4) {
        in->socket.snd_window_max_bytes = SCALED(unit_random(seed) % 15);
        in->socket.rcv_window_max_bytes = SCALED(unit_random(seed) % 15);
        in->socket.rtt_min_ns = some(seed, 30);
    }
    if (unit_random(seed) % 2) {
        in->socket.snd_buf_bytes = 4608 + some(seed, 26);
        in->socket.rcv_buf_bytes = 2304 + some(seed, 26);
    }
    in->intent = unit_random(seed) % 4 == 0;
    in->expected_bytes = unit_random(seed) % 2 ? some(seed, 40) : 0;
}

static bool tcp_knows_the_time(const struct autobuf_socket *s)
{
    return s->rtt_min_ns && s->rtt_min_ns != AUTOBUF_NS_UNSET;
}

/* Also on a path with a smaller BDP, such as loopback, four segments fit into buffer and advertised window. */
static void low_delay_leaves_room_for_segments(void **state)
{
    static const uint32_t msses[] = {536, 1448, 8948, 65483};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(msses); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        uint64_t least = 4 * (uint64_t)msses[i / 2];

        s.stage = i % 2 ? CONNECTED : NEW;
        s.mss_bytes = msses[i / 2];
        s.snd_window_max_bytes = s.rcv_window_max_bytes = SCALED(10);
        assert_int_equal(autobuf_path_given(&path, 1000 * MBIT, 10000), 0);
        assert_int_equal(autobuf_plan_make(&path, &host_6_18, &s, AUTOBUF_INTENT_LOW_DELAY, 0, &p), 0);
        assert_true(p.snd_wanted_bytes < 4000);
        assert_true(p.snd_window_bytes >= least && p.snd_window_bytes <= least + 4000);
        assert_true(p.rcv_window_bytes >= least);
        if (s.stage == CONNECTED || p.rcv_clamp_bytes) /* before, the buffer that there is does not become smaller */
            assert_true(p.rcv_clamp_bytes >= least && p.rcv_clamp_bytes <= least + 4000);
    }
}

/* One side of a plan with what bounds it. */
struct planned {
    uint64_t wanted, request, window, kernel, settable, share;
    uint32_t reason, sysctl;
    bool force, unlock, locked, low_delay;
    bool asked; /* for a size, or for so much at most */
};

static void check_properties(const char *side, const struct planned *p)
{
    bool paced_only = p->reason == AUTOBUF_REASON_SET && !p->request;

    if (p->request) {
        CHECK(side, p->reason == AUTOBUF_REASON_SET || p->reason == AUTOBUF_REASON_CAPPED ||
                        p->reason == AUTOBUF_REASON_LATE);
        CHECK(side, p->window >= p->kernel || p->low_delay); /* a plan never expects to lose */
        CHECK(side, p->request <= p->settable || p->force);
        CHECK(side, p->request <= p->share / 2);
        CHECK(side, !p->unlock);
    }
    if (p->unlock) {
        CHECK(side, p->locked);
        CHECK(side, p->window >= p->kernel);
    }
    if (p->force)
        CHECK(side, p->request > p->settable);
    if (p->reason == AUTOBUF_REASON_KERNEL || p->reason == AUTOBUF_REASON_LARGER)
        CHECK(side, p->window >= p->wanted);
    if (p->reason == AUTOBUF_REASON_SET && !paced_only)
        CHECK(side, p->window >= p->wanted);
    if (p->reason == AUTOBUF_REASON_CAPPED || p->reason == AUTOBUF_REASON_LATE)
        CHECK(side, p->window <= p->wanted + 3);
    CHECK(side, p->window <= AB_SCALED_WINDOW_BYTES);
    if (p->reason != AUTOBUF_REASON_CAPPED)
        CHECK(side, p->sysctl == AUTOBUF_SYSCTL_NONE);
    else if (p->window < AB_SCALED_WINDOW_BYTES / 2 && !p->asked)
        CHECK(side, p->sysctl != AUTOBUF_SYSCTL_NONE);
    if (!p->request && !p->unlock)
        CHECK(side, p->window == p->kernel);
}

/* Forced buffers of this and other sockets are within their share of TCP's memory. */
static void check_force(const struct inputs *in, const struct autobuf_plan *p)
{
    const struct autobuf_limits *l = &in->limits;
    uint64_t snd = p->flags & FORCED ? 2 * p->snd_request_bytes : 0;
    uint64_t rcv = p->flags & RCV_FORCED ? 2 * p->rcv_request_bytes : 0;
    uint64_t stored = snd + rcv, others = l->forced_bytes, own = 0;
    uint64_t most = l->request_most_bytes ? l->request_most_bytes : UINT64_MAX;

    assert_true(p->snd_request_bytes <= most && p->rcv_request_bytes <= most);
    if (!stored)
        return;
    if (snd && in->socket.snd_buf_bytes > ab_unforced_sndbuf(l))
        own += in->socket.snd_buf_bytes;
    if (rcv && in->socket.rcv_buf_bytes > ab_unforced_rcvbuf(l))
        own += in->socket.rcv_buf_bytes;
    others -= own < others ? own : others;
    assert_true(stored + others <= l->tcp_mem_bytes / 2);
    assert_true(snd <= l->tcp_mem_bytes / 8 && rcv <= l->tcp_mem_bytes / 8);
    assert_true(stored + l->tcp_used_bytes <= l->tcp_mem_bytes / 2);
    assert_true((snd <= AB_UNSEEN_BUF_MAX && rcv <= AB_UNSEEN_BUF_MAX) ||
                (in->socket.stage == AUTOBUF_STAGE_CONNECTED && tcp_knows_the_time(&in->socket)));
    assert_true(!rcv || (in->socket.stage == AUTOBUF_STAGE_CONNECTED && in->socket.rcv_window_max_bytes));
}

static uint64_t in_flight(uint64_t wanted, uint64_t expected_bytes)
{
    return expected_bytes && expected_bytes < wanted ? expected_bytes : wanted;
}

static void properties_hold_everywhere(void **state)
{
    uint64_t seed = 0x5eed;
    unsigned requests = 0, forced = 0, rcv_forced = 0, unlocks = 0, received = 0;

    (void)state;
    for (unsigned round = 0; round < 300000; round++) {
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        struct planned snd, rcv;
        struct inputs in;
        uint64_t share;

        random_inputs(&seed, &in);
        share = in.limits.tcp_mem_bytes ? in.limits.tcp_mem_bytes / AB_TCP_MEM_SHARE : UINT64_MAX;
        assert_int_equal(autobuf_plan_make(&in.path, &in.limits, &in.socket, in.intent,
                                           in.expected_bytes, &p),
                         0);
        snd = (struct planned){in_flight(p.snd_wanted_bytes, in.expected_bytes),
                               p.snd_request_bytes, p.snd_window_bytes, p.snd_kernel_bytes,
                               in.limits.snd_settable_bytes, share, p.snd_reason, p.snd_sysctl,
                               p.flags & FORCED, p.flags & SND_UNLOCK, in.socket.locks & LOCK_SND,
                               in.intent == AUTOBUF_INTENT_LOW_DELAY,
                               in.limits.request_most_bytes || in.socket.locks & LOCK_SND};
        rcv = (struct planned){in_flight(p.rcv_wanted_bytes, in.expected_bytes),
                               p.rcv_request_bytes, p.rcv_window_bytes, p.rcv_kernel_bytes,
                               in.limits.rcv_settable_bytes, share, p.rcv_reason, p.rcv_sysctl,
                               p.flags & RCV_FORCED, p.flags & RCV_UNLOCK, in.socket.locks & LOCK_RCV,
                               in.intent == AUTOBUF_INTENT_LOW_DELAY,
                               in.limits.request_most_bytes || in.socket.locks & LOCK_RCV};
        check_properties("send", &snd);
        check_properties("receive", &rcv);
        assert_true(!(snd.force || rcv.force) || (in.limits.flags & AUTOBUF_LIMITS_FORCE && in.limits.tcp_mem_bytes));
        check_force(&in, &p);
        if (in.socket.stage == AUTOBUF_STAGE_CONNECTED) {
            bool acts = rcv.request || rcv.unlock;

            assert_true(!acts || in.socket.rcv_window_max_bytes);
            assert_true(acts == (p.rcv_clamp_bytes != 0));
            assert_true(p.rcv_clamp_bytes <= in.socket.rcv_window_max_bytes);
            assert_true(!rcv.request || 2 * rcv.request + 1 >= in.socket.rcv_buf_bytes);
        } else {
            assert_true(!p.rcv_clamp_bytes || in.intent == AUTOBUF_INTENT_LOW_DELAY);
        }
        assert_true(!p.snd_pacing_bit_per_s || in.intent == AUTOBUF_INTENT_LOW_DELAY);
        requests += snd.request != 0;
        received += rcv.request != 0;
        forced += snd.force;
        rcv_forced += rcv.force;
        unlocks += snd.unlock + rcv.unlock;
    }
    /* the grid has to reach what it checks */
    assert_true(requests > 1000 && received > 1000 && forced > 1000 && rcv_forced > 500 && unlocks > 1000);
}

/* --------------------------------------------------------------------------- autobuf_plan_worth */

static void worth_measuring(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint32_t stage, add_flags;
        uint64_t expected_bytes;
        int worth;
    } rows[] = {
        {"older limits: no result changes anything", &host_older, NEW, 0, 0, 0},
        {"older limits, listening", &host_older, LISTENING, 0, 0, 0},
        {"older limits, connected", &host_older, CONNECTED, 0, 0, 0},
        {"older limits, by force", &host_older, NEW, AUTOBUF_LIMITS_FORCE, 0, 1},
        {"6.16", &host_6_16, NEW, 0, 0, 0},
        {"tcp_wmem 16M: nothing larger can be set", &host_wmem_16, NEW, 0, 0, 0},
        {"ESnet 32: 128 MB can be set", &host_esnet_32, NEW, 0, 0, 1},
        {"ESnet 32, 150 MB: over before that could pay on most paths", &host_esnet_32, NEW, 0, 150000000, 0},
        /* four times a window of 22 MB saves 3/4 of the time, which must be 30 round trips of the old window */
        {"ESnet 32, 880 MB: 29.5 of them", &host_esnet_32, NEW, 0, 880000000, 0},
        {"ESnet 32, 910 MB: 30.5", &host_esnet_32, NEW, 0, 910000000, 1},
        {"ESnet 32, 2 GB", &host_esnet_32, NEW, 0, 2000000000, 1},
        {"6.18, length unknown", &host_6_18, NEW, 0, 0, 1},
        {"6.18, connected: the send side alone", &host_6_18, CONNECTED, 0, 0, 1},
        {"6.18, one byte", &host_6_18, NEW, 0, 1, 0},
        {"6.18, 64 KB", &host_6_18, NEW, 0, 65536, 0},
        {"6.18, less than autotuning's window", &host_6_18, NEW, 0, 2000000, 0},
        /* one of 2.8 MB that is doubled saves a half, of which three pay for the measurement */
        {"6.18, 16 MB: 2.9 of them", &host_6_18, NEW, 0, 16000000, 0},
        {"6.18, 18 MB: 3.2", &host_6_18, NEW, 0, 18000000, 1},
        {"6.18, 10 GB", &host_6_18, NEW, 0, 10000000000ULL, 1},
        {"6.18, the longest", &host_6_18, NEW, 0, UINT64_MAX, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = *rows[i].host;
        struct autobuf_socket s = socket_new();

        limits.flags |= rows[i].add_flags;
        s.stage = rows[i].stage;
        CHECK_EQUAL(rows[i].name,
                    autobuf_plan_worth(&limits, &s, AUTOBUF_INTENT_THROUGHPUT,
                                       rows[i].expected_bytes, NULL, NULL),
                    rows[i].worth);
    }
}

static void worth_measuring_with_features_off(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint32_t stage, add_flags, drop_flags;
        int worth;
    } rows[] = {
        {"window scaling", &host_6_18, NEW, 0, AUTOBUF_LIMITS_WINDOW_SCALING, 0},
        {"window scaling, though by force", &host_6_18, NEW, AUTOBUF_LIMITS_FORCE,
         AUTOBUF_LIMITS_WINDOW_SCALING, 0},
        {"receive autotuning: what is set is better than nothing", &host_older, NEW, 0,
         AUTOBUF_LIMITS_RCV_AUTOTUNING, 1},
        {"receive autotuning, connected", &host_older, CONNECTED, 0,
         AUTOBUF_LIMITS_RCV_AUTOTUNING, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = *rows[i].host;
        struct autobuf_socket s = socket_new();

        limits.flags = (limits.flags | rows[i].add_flags) & ~rows[i].drop_flags;
        s.stage = rows[i].stage;
        CHECK_EQUAL(rows[i].name, autobuf_plan_worth(&limits, &s, 0, 0, NULL, NULL), rows[i].worth);
    }
}

/* Small locked buffers can be helped on any host; large ones need no help. */
static void worth_measuring_when_locked(void **state)
{
    struct autobuf_socket s = socket_new();

    (void)state;
    s.locks = LOCK_SND;
    s.snd_buf_bytes = 65536;
    assert_int_equal(autobuf_plan_worth(&host_older, &s, 0, 0, NULL, NULL), 1);
    s.snd_buf_bytes = 16777216;
    assert_int_equal(autobuf_plan_worth(&host_older, &s, 0, 0, NULL, NULL), 0);
    s.locks = LOCK_RCV;
    s.rcv_buf_bytes = 65536;
    assert_int_equal(autobuf_plan_worth(&host_older, &s, 0, 0, NULL, NULL), 1);
    s.stage = AUTOBUF_STAGE_CONNECTED; /* too late for the receive side */
    assert_int_equal(autobuf_plan_worth(&host_older, &s, 0, 0, NULL, NULL), 0);
}

/* Low delay needs the pacing rate, whatever the limits of this host. */
static void worth_measuring_for_low_delay(void **state)
{
    struct autobuf_socket s = socket_new();
    uint64_t low = 4711, high = 4711;

    (void)state;
    assert_int_equal(autobuf_plan_worth(&host_older, &s, AUTOBUF_INTENT_LOW_DELAY, 0, &low, &high),
                     1);
    assert_true(low == 0 && high == 0); /* any product, and that precisely */
    /* but a short transfer does not wait for it */
    assert_int_equal(autobuf_plan_worth(&host_older, &s, AUTOBUF_INTENT_LOW_DELAY, 1000, NULL, NULL), 0);
    assert_int_equal(autobuf_plan_worth(&host_older, &s, AUTOBUF_INTENT_SCAVENGER, 0, NULL, NULL), 0);
    /* of the side that carries the bulk: 2.8 MB of send window, 16.8 of receive window */
    assert_int_equal(autobuf_plan_worth(&host_6_18, &s, AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SENDS, 100000000,
                                        NULL, NULL), 1);
    assert_int_equal(autobuf_plan_worth(&host_6_18, &s, AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_RECEIVES, 100000000,
                                        NULL, NULL), 0);
    assert_int_equal(autobuf_plan_worth(&host_older, &s, AUTOBUF_INTENT_LOW_DELAY, 1ULL << 40, NULL, NULL),
                     1);
}

static void worth_grows_with_the_transfer(void **state)
{
    struct autobuf_socket s = socket_new();
    int before = 0;

    (void)state;
    for (uint64_t bytes = 1; bytes < 1ULL << 40; bytes *= 2) {
        int worth = autobuf_plan_worth(&host_6_18, &s, 0, bytes, NULL, NULL);

        assert_true(worth >= before && worth <= 1);
        before = worth;
    }
    assert_int_equal(before, 1);
}

/* On an unknown path a buffer that is smaller than autotuning's is given back. */
static void limits_alone_decide(void **state)
{
    static const struct {
        const char *name;
        uint32_t intent, stage, locks, drop_flags;
        uint64_t snd, rcv, rcv_window_max;
        uint32_t flags;
        uint64_t clamp;
        uint32_t add_flags;
    } rows[] = {
        {"nothing was set", 0, NEW, 0, 0, 16384, 131072, 0, 0, 0, 0},
        {"both were", 0, NEW, LOCK_SND | LOCK_RCV, 0, 65536, 65536, 0, SND_UNLOCK | RCV_UNLOCK, 0, 0},
        {"both, of a listener", 0, LISTENING, LOCK_SND | LOCK_RCV, 0, 65536, 65536, 0, SND_UNLOCK | RCV_UNLOCK, 0, 0},
        {"to as much", 0, NEW, LOCK_SND | LOCK_RCV, 0, 4194304, 33554432, 0, 0, 0, 0},
        {"to more", 0, NEW, LOCK_SND | LOCK_RCV, 0, 8388608, 67108864, 0, 0, 0, 0},
        {"it only sends", AUTOBUF_INTENT_SENDS, NEW, LOCK_SND | LOCK_RCV, 0, 65536, 65536, 0, SND_UNLOCK, 0, 0},
        {"it only receives", AUTOBUF_INTENT_RECEIVES, NEW, LOCK_SND | LOCK_RCV, 0, 65536, 65536, 0, RCV_UNLOCK, 0, 0},
        {"low delay", AUTOBUF_INTENT_LOW_DELAY, NEW, LOCK_SND | LOCK_RCV, 0, 65536, 65536, 0, 0, 0, 0},
        {"a connection, whose clamp is reopened", 0, CONNECTED, LOCK_RCV, 0, 16384, 65536, SCALED(10), RCV_UNLOCK,
         SCALED(10), 0},
        {"a connection of an unknown scale", 0, CONNECTED, LOCK_RCV, 0, 16384, 65536, 0, 0, 0, 0},
        {"a connection whose scale allows no more", 0, CONNECTED, LOCK_RCV, 0, 16384, 131070, SCALED(0), 0, 0, 0},
        {"receive autotuning is off", 0, NEW, LOCK_RCV, AUTOBUF_LIMITS_RCV_AUTOTUNING, 16384, 65536, 0, 0, 0, 0},
        {"both were, and nobody can take locks off", 0, NEW, LOCK_SND | LOCK_RCV, 0, 65536, 65536, 0, 0, 0,
         AUTOBUF_LIMITS_NO_UNLOCK},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = host_6_18;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p;

        limits.flags = (limits.flags & ~rows[i].drop_flags) | rows[i].add_flags;
        s.stage = rows[i].stage;
        s.locks = rows[i].locks;
        s.snd_buf_bytes = rows[i].snd;
        s.rcv_buf_bytes = rows[i].rcv;
        s.rcv_window_max_bytes = rows[i].rcv_window_max;
        ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, rows[i].intent, &p);
        ab_plan_limits(&limits, &s, &p);
        CHECK_EQUAL(rows[i].name, p.flags, rows[i].flags);
        CHECK_EQUAL(rows[i].name, p.rcv_clamp_bytes, rows[i].clamp);
        CHECK_EQUAL(rows[i].name, p.snd_request_bytes + p.rcv_request_bytes, 0);
        CHECK_EQUAL(rows[i].name, p.snd_reason == AUTOBUF_REASON_KERNEL, (p.flags & SND_UNLOCK) != 0);
        CHECK_EQUAL(rows[i].name, p.rcv_reason == AUTOBUF_REASON_KERNEL, (p.flags & RCV_UNLOCK) != 0);
    }
}

/* A program's own size is large enough for what an echo saw, but perhaps not for the direction that nobody measured. */
static void a_lower_bound_leaves_no_size_that_autotuning_exceeds(void **state)
{
    static const struct {
        const char *name;
        uint32_t path_flags, intent;
        uint64_t rcv_buf;
        uint32_t reason, flags;
    } rows[] = {
        {"a known path", 0, 0, 1000000, LARGER, 0},
        {"an echo's", ECHOES, 0, 1000000, KERNEL, RCV_UNLOCK},
        {"a bound", AUTOBUF_PATH_RX_AT_LEAST, 0, 1000000, KERNEL, RCV_UNLOCK},
        {"a size beyond autotuning", ECHOES, 0, 40000000, LARGER, 0},
        {"low delay", ECHOES, AUTOBUF_INTENT_LOW_DELAY, 1000000, LARGER, 0},
        {"it only sends", ECHOES, AUTOBUF_INTENT_SENDS, 1000000, LARGER, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_socket s = socket_new();
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;

        assert_int_equal(autobuf_path_given(&path, 20 * MBIT, 150 * MS), 0);
        path.flags = rows[i].path_flags;
        s.locks = LOCK_RCV;
        s.rcv_buf_bytes = rows[i].rcv_buf;
        CHECK_EQUAL(rows[i].name, autobuf_plan_make(&path, &host_6_18, &s, rows[i].intent, 0, &p), 0);
        ab_plan_limits(&host_6_18, &s, &p);
        CHECK_EQUAL(rows[i].name, p.rcv_reason, rows[i].reason);
        CHECK_EQUAL(rows[i].name, p.flags & RCV_UNLOCK, rows[i].flags);
    }
}

static void a_lower_bound_is_doubled(void **state)
{
    static const struct {
        uint32_t flags;
        unsigned percent;
    } rows[] = {{0, 135}, {AUTOBUF_PATH_TX_AT_LEAST, 200}, {AUTOBUF_PATH_RX_AT_LEAST, 135},
                {ECHOES, 135}}; /* as on a path with as much each way */
    struct autobuf_limits limits = host_6_18;
    struct autobuf_socket s = socket_new();
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    (void)state;
    limits.snd_settable_bytes = 1ULL << 30;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(autobuf_path_given(&path, 800 * MBIT, 100 * MS), 0);
        path.flags = rows[i].flags;
        assert_int_equal(autobuf_plan_make(&path, &limits, &s, 0, 0, &p), 0);
        assert_in_range(4 * p.snd_request_bytes / 3, p.snd_wanted_bytes * rows[i].percent / 100 - 2,
                        p.snd_wanted_bytes * rows[i].percent / 100 + 2);
    }
}

static void the_range_begins_above_autotuning(void **state)
{
    struct autobuf_limits limits = host_6_18;
    struct autobuf_socket s = socket_new();
    uint64_t before = 0, low, high;

    (void)state;
    limits.snd_settable_bytes = limits.rcv_settable_bytes = 1ULL << 30;
    for (uint64_t stored = 65536; stored <= 1ULL << 29; stored *= 2) {
        limits.tcp_wmem_max_bytes = limits.tcp_rmem_max_bytes = stored;
        assert_int_equal(autobuf_plan_worth(&limits, &s, 0, 0, &low, &high), 1);
        assert_true(low > before && high > low);
        before = low;
    }
    assert_int_equal(autobuf_plan_worth(&host_6_18, &s, 0, 0, &low, &high), 1);
    /* Autotuning gives 2.8 MB. From 4.14 MB on 1.35 times as much is all that may be set, 5.6 MB. */
    assert_in_range(low, 2796000, 2900000);
    assert_in_range(high, 4290000, 4300000);
}

/* The RTT of a connection is known: on a short path no echo is sent. */
static void near_peers_are_not_measured(void **state)
{
    static const struct {
        const char *name;
        uint64_t rtt_ns;
        int worth;
    } rows[] = {
        {"unknown", AUTOBUF_NS_UNSET, 1}, {"a zeroed struct", 0, 1},
        {"2 ms", 2 * MS, 0}, {"2.5 ms", 2500000, 1}, {"100 ms", 100 * MS, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_socket s = socket_new();

        s.stage = CONNECTED;
        s.rtt_min_ns = rows[i].rtt_ns;
        CHECK_EQUAL(rows[i].name, autobuf_plan_worth(&host_6_18, &s, 0, 0, NULL, NULL),
                    rows[i].worth);
    }
}

/* If measuring is not worth it, no plausible path changes the plan. Below the range a plan does nothing. */
static void not_worth_means_no_change(void **state)
{
    uint64_t seed = 0xfeed;
    unsigned never = 0, bounded = 0;

    (void)state;
    for (unsigned round = 0; round < 100000; round++) {
        struct autobuf_plan p = AUTOBUF_PLAN_INIT, more = AUTOBUF_PLAN_INIT;
        struct inputs in;
        uint64_t low, high;
        bool plenty;
        int worth;

        random_inputs(&seed, &in);
        in.path.method = AUTOBUF_METHOD_GIVEN; /* its products are what they are said to be */
        worth = autobuf_plan_worth(&in.limits, &in.socket, 0, 0, &low, &high);
        assert_in_range(worth, 0, 1);
        if (worth) {
            assert_true(low > 0 && high >= low);
            in.path.packet_bytes = 1500;
            in.path.tx_bdp_bytes = in.path.rx_bdp_bytes = low;
            bounded++;
        } else if (tcp_knows_the_time(&in.socket)) {
            assert_int_equal(autobuf_path_given(&in.path, 10000 * MBIT, in.socket.rtt_min_ns), 0);
        }
        never += !worth;
        assert_int_equal(autobuf_plan_make(&in.path, &in.limits, &in.socket, 0, 0, &p), 0);
        assert_true(p.snd_request_bytes == 0 && !(p.flags & SND_UNLOCK));
        plenty = p.rcv_kernel_bytes >= 16000000; /* not counted */
        assert_true(plenty || (p.rcv_request_bytes == 0 && !(p.flags & RCV_UNLOCK)));
        if (!worth)
            continue;
        in.path.tx_bdp_bytes = in.path.rx_bdp_bytes = high;
        assert_int_equal(autobuf_plan_make(&in.path, &in.limits, &in.socket, 0, 0, &p), 0);
        in.path.tx_bdp_bytes = in.path.rx_bdp_bytes = ab_mul_div(high, 3, 1);
        assert_int_equal(autobuf_plan_make(&in.path, &in.limits, &in.socket, 0, 0, &more), 0);
        assert_true(p.snd_request_bytes == more.snd_request_bytes);
        assert_true(plenty || p.rcv_request_bytes == more.rcv_request_bytes);
    }
    assert_true(never > 1000 && bounded > 1000);
}

static void windows_known_already(void **state)
{
    struct autobuf_socket s = socket_new();
    struct autobuf_plan p;

    (void)state;
    ab_plan_nothing(AUTOBUF_REASON_OFF, AUTOBUF_INTENT_LOW_DELAY, &p);
    assert_true(p.size == sizeof p && p.intent == AUTOBUF_INTENT_LOW_DELAY);
    assert_true(p.snd_reason == AUTOBUF_REASON_OFF && p.rcv_reason == AUTOBUF_REASON_OFF);
    assert_true(p.rtt_ns == AUTOBUF_NS_UNSET && p.flags == 0);
    assert_true(p.snd_request_bytes == 0 && p.rcv_request_bytes == 0);
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, &p);
    ab_plan_windows(4000000, 1000000, &host_6_18, &s, 0, &p);
    assert_true(p.snd_wanted_bytes == 4000000 && p.rcv_wanted_bytes == 1000000);
    assert_true(p.snd_reason == AUTOBUF_REASON_SET && p.snd_request_bytes >= 3000000);
    assert_true(p.snd_window_bytes >= 4000000 && p.snd_window_bytes > p.snd_kernel_bytes);
    assert_true(p.rcv_reason == AUTOBUF_REASON_KERNEL && p.rcv_request_bytes == 0);
}

/* 2/3, 3/4 or all of sk_sndbuf becomes window, at most what the window scale allows. */
static void the_window_depends_on_how_a_program_writes(void **state)
{
    static const struct {
        const char *name;
        uint32_t stage, locks;
        uint64_t wanted, window_max, stored;
    } rows[] = {
        {"autotuning's", NEW, 0, 2000000, 0, 4194304},
        {"nothing is known", NEW, 0, 0, 0, 4194304},
        {"what is set", NEW, 0, 4000000, 0, 8100000},
        {"given back", NEW, AUTOBUF_LOCK_SND, 2000000, 0, 4194304},
        {"bounded by the window scale", CONNECTED, 0, 2000000, 3000000, 4194304},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct autobuf_socket s = socket_new();
        uint64_t most = rows[i].window_max ? rows[i].window_max : UINT64_MAX;
        struct autobuf_plan p;

        s.stage = rows[i].stage;
        s.locks = rows[i].locks;
        s.snd_window_max_bytes = rows[i].window_max;
        ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, &p);
        ab_plan_windows(rows[i].wanted, 0, &host_6_18, &s, 0, &p);
        CHECK(rows[i].name, !p.snd_request_bytes || 2 * p.snd_request_bytes == rows[i].stored);
        CHECK_EQUAL(rows[i].name, p.snd_window_bytes, ab_min(rows[i].stored / 3 * 2, most));
        CHECK_EQUAL(rows[i].name, p.snd_block_bytes, ab_min(rows[i].stored / 4 * 3, most));
        CHECK_EQUAL(rows[i].name, p.snd_retry_bytes, ab_min(rows[i].stored, most));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_depends_on_how_a_program_writes),
        cmocka_unit_test(plans_what_was_measured),
        cmocka_unit_test(plans_for_older_and_tuned_hosts),
        cmocka_unit_test(plans_by_the_state),
        cmocka_unit_test(a_plan_may_force_too_much_later),
        cmocka_unit_test(unscaled_windows_end_at_64k),
        cmocka_unit_test(the_named_sysctl_is_enough),
        cmocka_unit_test(no_sysctl_is_to_be_lowered),
        cmocka_unit_test(more_tcp_memory_is_enough),
        cmocka_unit_test(sysctl_fits_the_kernel_s_int),
        cmocka_unit_test(the_shorter_rtt_of_tcp_counts),
        cmocka_unit_test(too_little_known),
        cmocka_unit_test(directions_do_not_mix),
        cmocka_unit_test(an_unsure_rate_plans_nothing),
        cmocka_unit_test(huge_bdps_do_not_overflow),
        cmocka_unit_test(windows_do_not_wrap),
        cmocka_unit_test(low_delay_keeps_both_sides_near_the_bdp),
        cmocka_unit_test(low_delay_leaves_room_for_segments),
        cmocka_unit_test(one_direction_alone),
        cmocka_unit_test(bad_inputs_are_refused),
        cmocka_unit_test(older_program_s_plan),
        cmocka_unit_test(properties_hold_everywhere),
        cmocka_unit_test(worth_measuring),
        cmocka_unit_test(worth_measuring_with_features_off),
        cmocka_unit_test(worth_measuring_when_locked),
        cmocka_unit_test(worth_measuring_for_low_delay),
        cmocka_unit_test(worth_grows_with_the_transfer),
        cmocka_unit_test(limits_alone_decide),
        cmocka_unit_test(a_lower_bound_leaves_no_size_that_autotuning_exceeds),
        cmocka_unit_test(a_lower_bound_is_doubled),
        cmocka_unit_test(the_range_begins_above_autotuning),
        cmocka_unit_test(near_peers_are_not_measured),
        cmocka_unit_test(not_worth_means_no_change),
        cmocka_unit_test(windows_known_already),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
