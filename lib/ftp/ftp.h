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

#include <sys/socket.h>
#include <sys/types.h>

#include <autobuf/ftp.h>

#include "../base/base.h"
#include "../inband/inband.h"

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

#endif
