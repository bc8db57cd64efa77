/* SPDX-License-Identifier: MIT */
/*
 * A control connection and its data connections.
 *
 *   worth.c    when measuring pays
 *   session.c  the session
 *   limits.c   what it may set now
 *   control.c  the exchange over the control connection
 *   client.c   measures, and tells the server
 *   server.c   answers
 *   data.c     the data connection: before, once it is connected, and while it carries data
 */
#ifndef AB_FTP_H
#define AB_FTP_H

#include <sys/socket.h>
#include <sys/types.h>

#include <autobuf/ftp.h>

#include "../base/base.h"

#define AB_FTP_BOTH (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)

struct autobuf_ftp {
    uint32_t role;
    struct autobuf_ftp_options options;
    struct ab_log log;
    pid_t owner;
    int fd; /* the control connection */
    struct sockaddr_storage peer;
    struct autobuf_limits host; /* as open() saw it */

    struct autobuf_inband *inband; /* NULL: not yet, or not any more */
    int prepared;                  /* of a control connection with read() and write() */
    bool mute;                     /* the server does not know the exchange */
    uint32_t measured;             /* directions, AUTOBUF_INTENT_* */
    uint64_t rtt_ns;               /* of the path that was measured; AUTOBUF_NS_UNSET */
    uint64_t snd_wanted_bytes;     /* windows that the path needs, payload; 0: unknown */
    uint64_t rcv_wanted_bytes;

    bool listener_set;         /* a receive buffer, for a peer not known then */
    struct autobuf_flow *flow; /* NULL: no data connection */
};

/* This host's limits as they are for this session now: after privilege was given up, and bounded. */
int ab_ftp_limits(const struct autobuf_ftp *ftp, struct autobuf_limits *limits);

/* The exchange, as the session's role has it; 0, or an error of autobuf_inband_open(). */
int ab_ftp_open_inband(struct autobuf_ftp *ftp);
void ab_ftp_close_inband(struct autobuf_ftp *ftp);

/* Tells the exchange the facts of a connection whose every segment holds a record. */
int ab_ftp_tell(struct autobuf_ftp *ftp);

/*
 * Until the exchange is over: 1, and the control connection is the program's again; or an error, and the
 * exchange is closed.
 */
int ab_ftp_run(struct autobuf_ftp *ftp);

#endif
