/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/plan.h>: the limits of this host, the state of a socket, and what to set. snd and rcv are the socket's
 * sides: <autobuf/autobuf.h> says how directions are named.
 */
#ifndef AUTOBUF_PLAN_H
#define AUTOBUF_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <autobuf/path.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOBUF_LIMITS_RCV_AUTOTUNING 1U /* net.ipv4.tcp_moderate_rcvbuf */
#define AUTOBUF_LIMITS_WINDOW_SCALING 2U /* net.ipv4.tcp_window_scaling */
#define AUTOBUF_LIMITS_FORCE 4U          /* SO_SNDBUFFORCE and SO_RCVBUFFORCE are permitted */

/*
 * This host's limits, in the network namespace of the calling thread. "stored" is what the kernel
 * keeps for a buffer and what getsockopt() shows: twice what setsockopt() is handed.
 */
struct autobuf_limits {
    uint32_t size;
    uint32_t flags;                  /* AUTOBUF_LIMITS_* */
    uint64_t snd_settable_bytes;     /* largest n that SO_SNDBUF takes: net.core.wmem_max */
    uint64_t rcv_settable_bytes;     /* largest n that SO_RCVBUF takes: net.core.rmem_max */
    uint64_t tcp_wmem_min_bytes;     /* net.ipv4.tcp_wmem, stored */
    uint64_t tcp_wmem_default_bytes;
    uint64_t tcp_wmem_max_bytes;     /* autotuning's limit */
    uint64_t tcp_rmem_min_bytes;     /* net.ipv4.tcp_rmem, stored */
    uint64_t tcp_rmem_default_bytes;
    uint64_t tcp_rmem_max_bytes;
    uint64_t tcp_mem_bytes;          /* memory of all TCP sockets at which pressure begins
                                        (net.ipv4.tcp_mem); where that is not visible, outside the
                                        first network namespace, 1/16 of MemAvailable, as the
                                        kernel itself would choose; 0: unknown, nothing is forced */
    uint64_t page_bytes;             /* unit of net.ipv4.tcp_mem; 0: 4096 */
    uint64_t tcp_used_bytes;         /* memory of all TCP sockets of this host now */
    uint64_t forced_bytes;           /* stored, of all send buffers here that are larger than
                                        tcp_wmem_max_bytes and than anybody may set; UINT64_MAX:
                                        unknown. Both 0 where nothing may be forced */
    uint64_t request_most_bytes;     /* the caller's: nothing larger is requested, as setsockopt()
                                        takes it; 0: no such bound */
};

#define AUTOBUF_LIMITS_INIT                                                                        \
    {                                                                                              \
        sizeof(struct autobuf_limits), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                    \
    }
/* As AUTOBUF_LIMITS_INIT; size: sizeof(struct autobuf_limits). */
AUTOBUF_API void autobuf_limits_init(struct autobuf_limits *limits, uint32_t size);

/*
 * Reads them from /proc and checks the settable ones on a scratch socket. Where /proc is not
 * there, the kernel's defaults stand in (and the scratch socket's values). Where sizes may be forced, this
 * takes some 2 microseconds more for each TCP connection of the host. 0, -EINVAL (size), or an errno of
 * socket(2).
 */
AUTOBUF_API int autobuf_limits_host(struct autobuf_limits *limits);

#define AUTOBUF_STAGE_NEW 0U       /* before connect() and listen() */
#define AUTOBUF_STAGE_LISTENING 1U
#define AUTOBUF_STAGE_CONNECTED 2U /* connected, accepted, or its SYN is out */

#define AUTOBUF_LOCK_SND 1U /* SO_SNDBUF was set: autotuning of that side is off */
#define AUTOBUF_LOCK_RCV 2U

/* The state of one TCP socket. */
struct autobuf_socket {
    uint32_t size;
    uint32_t stage;          /* AUTOBUF_STAGE_* */
    uint32_t locks;          /* AUTOBUF_LOCK_*; before Linux 5.15 unknown and 0 */
    uint32_t mss_bytes;      /* 0: not known yet */
    uint64_t snd_buf_bytes;  /* stored */
    uint64_t rcv_buf_bytes;  /* stored */
    uint64_t snd_window_max_bytes; /* the largest window that the connection's window scale, fixed in */
    uint64_t rcv_window_max_bytes; /* the SYN, can tell (RFC 7323); 0: not fixed yet, or unknown */
    uint64_t rtt_min_ns;     /* as TCP has seen it; AUTOBUF_NS_UNSET: unknown */
};

#define AUTOBUF_SOCKET_INIT                                                                        \
    {                                                                                              \
        sizeof(struct autobuf_socket), 0, 0, 0, 0, 0, 0, 0, AUTOBUF_NS_UNSET                       \
    }
/* As AUTOBUF_SOCKET_INIT; size: sizeof(struct autobuf_socket). */
AUTOBUF_API void autobuf_socket_init(struct autobuf_socket *socket, uint32_t size);

/* Reads it. -EBADF, -ENOTSOCK; -EOPNOTSUPP: not a TCP socket; -EINVAL (size). */
AUTOBUF_API int autobuf_socket_state(int fd, struct autobuf_socket *socket);

/* -------------------------------------------------------------------------------------- plan */

#define AUTOBUF_INTENT_THROUGHPUT 0U
#define AUTOBUF_INTENT_LOW_DELAY 1U
/* May be added to either, where only one direction carries bulk data: the other side of the socket is
   then left alone, and nothing is measured for it. */
#define AUTOBUF_INTENT_SENDS 16U
#define AUTOBUF_INTENT_RECEIVES 32U

#define AUTOBUF_REASON_UNKNOWN 0U /* "unknown": too little is known of the path; left alone */
#define AUTOBUF_REASON_KERNEL 1U  /* "kernel": autotuning reaches it; left alone */
#define AUTOBUF_REASON_SET 2U     /* "set": a buffer is set, and reaches what the path needs; or, for
                                     low delay, a pacing rate is */
#define AUTOBUF_REASON_CAPPED 3U  /* "capped": a sysctl stands in the way; the request, if there is
                                     one, is the best that is allowed */
#define AUTOBUF_REASON_LARGER 4U  /* "larger": the buffer is larger already; left alone */
#define AUTOBUF_REASON_LATE 5U    /* "late": the window scale is fixed already; what is done, if
                                     anything, is the best that it allows */
#define AUTOBUF_REASON_OFF 6U     /* "off": AUTOBUF=off */

/*
 * The request is beyond net.core.wmem_max: SO_SNDBUFFORCE. One such buffer is at most 1/8 of tcp_mem_bytes,
 * all of them together with whatever else TCP holds at most 1/2, and no more than 32 MB are forced (stored)
 * before TCP itself has seen the path's round-trip time.
 */
#define AUTOBUF_PLAN_SND_FORCE 1U
#define AUTOBUF_PLAN_SND_UNLOCK 2U /* give the side back to autotuning (SO_BUF_LOCK) */
#define AUTOBUF_PLAN_RCV_UNLOCK 4U
#define AUTOBUF_PLAN_SND_AT_LEAST 8U /* what is wanted is but a lower bound */
#define AUTOBUF_PLAN_RCV_AT_LEAST 16U

/* Bits, for more than one may stand in the way. */
#define AUTOBUF_SYSCTL_NONE 0U
#define AUTOBUF_SYSCTL_WMEM_MAX 1U /* net.core.wmem_max */
#define AUTOBUF_SYSCTL_TCP_RMEM 2U /* net.ipv4.tcp_rmem, third value */
#define AUTOBUF_SYSCTL_WINDOW_SCALING 4U  /* net.ipv4.tcp_window_scaling */
#define AUTOBUF_SYSCTL_TCP_MEM 8U         /* net.ipv4.tcp_mem, of which one socket may pin 1/8 */
#define AUTOBUF_SYSCTL_MODERATE_RCVBUF 16U /* net.ipv4.tcp_moderate_rcvbuf */

/*
 * What to do for a socket and what it is expected to give. Windows are TCP payload bytes, requests
 * are what setsockopt() is to be handed.
 */
struct autobuf_plan {
    uint32_t size;
    uint32_t intent;                /* AUTOBUF_INTENT_* */
    uint32_t flags;                 /* AUTOBUF_PLAN_* */
    uint32_t snd_reason;            /* AUTOBUF_REASON_* */
    uint32_t rcv_reason;
    uint32_t snd_sysctl;            /* AUTOBUF_SYSCTL_* bits: what stands in the way */
    uint32_t rcv_sysctl;
    uint32_t reserved;
    uint64_t rtt_ns;                /* of the path that it was made for; AUTOBUF_NS_UNSET */
    uint64_t snd_wanted_bytes;      /* window that the path needs; 0: unknown */
    uint64_t snd_request_bytes;     /* 0: leave alone */
    uint64_t snd_window_bytes;      /* expected with the plan; 0: unknown */
    uint64_t snd_kernel_bytes;      /* expected without it */
    uint64_t snd_needed_bytes;      /* stored, for what is wanted; 0: unknown */
    uint64_t snd_pacing_bit_per_s;  /* payload rate for SO_MAX_PACING_RATE; 0: leave alone;
                                       UINT64_MAX: no limit */
    uint64_t rcv_wanted_bytes;
    uint64_t rcv_request_bytes;
    uint64_t rcv_window_bytes;
    uint64_t rcv_kernel_bytes;
    uint64_t rcv_needed_bytes;
    uint64_t rcv_clamp_bytes;       /* for TCP_WINDOW_CLAMP; 0: none */
};

#define AUTOBUF_PLAN_INIT                                                                          \
    {                                                                                              \
        sizeof(struct autobuf_plan), 0, 0, 0, 0, 0, 0, 0, AUTOBUF_NS_UNSET, 0, 0, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0                                                                          \
    }
/* As AUTOBUF_PLAN_INIT; size: sizeof(struct autobuf_plan). */
AUTOBUF_API void autobuf_plan_init(struct autobuf_plan *plan, uint32_t size);

/*
 * Pure: path, limits and the socket's state in, plan out. intent: AUTOBUF_INTENT_*; expected_bytes:
 * how much will be transferred, 0: unknown. A side is set only where autotuning cannot reach the
 * product and the settable maximum is more than autotuning's; a side that was set smaller than that is
 * given back to autotuning. The receive side is best helped before connect(), or on a listener for its
 * later connections: afterwards only as far as the window scale allows. For low delay the send side is
 * paced just below the path's rate, and both sides are held just above its product; the rate of an
 * echo being the smaller direction's, the larger one is then held to it too. -EINVAL: a size, or the
 * intent.
 */
AUTOBUF_API int autobuf_plan_make(const struct autobuf_path *path,
                                  const struct autobuf_limits *limits,
                                  const struct autobuf_socket *socket, uint32_t intent,
                                  uint64_t expected_bytes, struct autobuf_plan *plan);

/*
 * Whether measuring can pay for a transfer of expected_bytes (0: unknown) on this host: 1, or 0 if
 * no plausible result (up to 10 Gbit/s, at the socket's round-trip time if that is known) could change
 * the plan, or the transfer would end before a better window made up for the wait. A receive window that
 * autotuning takes to 16 MB is no reason to measure: few senders fill more. A send window of that is one only
 * for long transfers: few paths hold more. *bdp_low_bytes and
 * *bdp_high_bytes, if not NULL, become the products of interest, for struct autobuf_probe_options.
 * -EINVAL.
 */
AUTOBUF_API int autobuf_plan_worth(const struct autobuf_limits *limits,
                                   const struct autobuf_socket *socket, uint32_t intent,
                                   uint64_t expected_bytes, uint64_t *bdp_low_bytes,
                                   uint64_t *bdp_high_bytes);

/* "kernel", "set", ... for an AUTOBUF_REASON_*; "?" for any other value. */
AUTOBUF_API const char *autobuf_reason_name(uint32_t reason);

/*
 * Two plain English lines, one a side, each ending in a line feed, cut at cap bytes with the final
 * zero. Returns the length that all of it has, like snprintf(3); -EINVAL (size).
 */
AUTOBUF_API int autobuf_plan_explain(const struct autobuf_plan *plan, char *buf, size_t cap);

/*
 * The index-th line (0, 1, ...) that an administrator must change, as sysctl(8) takes it:
 * "net.core.wmem_max=16777216". limits supplies the parts of a triple that stay. Returns its
 * length, as snprintf(3); 0: there is no such line; -EINVAL (a size).
 */
AUTOBUF_API int autobuf_plan_sysctl(const struct autobuf_plan *plan,
                                    const struct autobuf_limits *limits, unsigned index, char *buf,
                                    size_t cap);

#ifdef __cplusplus
}
#endif

#endif
