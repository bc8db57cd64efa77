/* SPDX-License-Identifier: MIT */
/*
 * A control connection and its data connections.
 *
 *   worth.c    whether to measure
 *   session.c  the session
 *   control.c  the exchange over the control connection, and what the session may set now
 *   client.c   measures, and sends the result to the server
 *   server.c   answers
 *   data.c     the data connection
 */
#ifndef AB_FTP_H
#define AB_FTP_H

#include <autobuf/ftp.h>

#include "../inband/exchange.h"

#define AB_FTP_BOTH (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)

struct autobuf_ftp {
    uint32_t role;
    struct autobuf_ftp_options options;
    struct ab_log log;
    pid_t owner;
    int fd; /* the control connection */
    struct sockaddr_storage peer;
    struct autobuf_limits host; /* as open() saw it */

    struct autobuf_inband *inband; /* NULL: not open yet, or closed */
    bool unsupported;              /* the server does not know the exchange */
    bool may_probe;                /* the caller allows echoes, so an upload may be measured beside its data */
    bool probe_failed;             /* and is not tried again */
    uint32_t measured;             /* directions, AUTOBUF_INTENT_* */
    uint64_t rtt_ns;               /* of the measured path; AUTOBUF_NS_UNSET: none */
    uint64_t snd_wanted_bytes;     /* windows that the path needs, payload; 0: unknown */
    uint64_t rcv_wanted_bytes;
    uint32_t flags;                /* ab_plan_flags() of the measured paths */

    bool listener_set;         /* the listener's receive buffer was set, before the peer was known */
    struct autobuf_flow *flow; /* NULL: no data connection */
};

/* This host's limits for this session, with the present privilege and the caller's bound. */
int ab_ftp_limits(const struct autobuf_ftp *ftp, struct autobuf_limits *limits);

/* Opens the exchange with the session's role. Returns 0, or an error of autobuf_inband_open(). */
int ab_ftp_open_inband(struct autobuf_ftp *ftp);
void ab_ftp_close_inband(struct autobuf_ftp *ftp);

/* Keeps a measurement of a direction for later data connections. */
void ab_ftp_learn(struct autobuf_ftp *ftp, uint32_t direction, const struct autobuf_path *path);

/*
 * Runs the exchange to its end. Returns 1: the program may use the control connection again; or an error: the exchange
 * is closed.
 */
int ab_ftp_run(struct autobuf_ftp *ftp);

/* When measuring over a control connection pays: worth.c, which is pure. */
struct ab_worth {
    const struct autobuf_limits *limits; /* of this host */
    bool peer_sets; /* the server supports SET */
    uint64_t peer_max_bytes; /* largest buffer that the server can set; 0: unknown, assume this host's */
    uint64_t rtt_ns;          /* AUTOBUF_NS_UNSET: unknown */
    uint32_t direction;       /* AUTOBUF_INTENT_SENDS or _RECEIVES */
    uint32_t round_trips;     /* of the measurement */
    uint64_t expected_bytes;  /* of the transfer; 0: unknown */
};

/*
 * Whether a measurement before the transfer could gain more time than it costs: only if a window is the bottleneck of a
 * long transfer, on a path of a common rate. With SET it is the server's window, as autotuning lets it grow; otherwise
 * this host's receive window. This host's send window can be enlarged at any time, so the flow measures beside the
 * transfer. On faster paths the RTT is short, and autobuf_flow_step() is quick. *bdp_low_bytes and *bdp_high_bytes, if
 * not NULL, are set as in autobuf_plan_worth().
 */
bool ab_worth_measuring(const struct ab_worth *worth, uint64_t *bdp_low_bytes, uint64_t *bdp_high_bytes);

/* The size that an unprivileged host with this host's limits would request for a window; 0: none. */
uint64_t ab_worth_request(const struct autobuf_limits *limits, uint32_t direction, uint64_t window_bytes);

#endif
