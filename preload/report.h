/* SPDX-License-Identifier: MIT */
/* --report: a line for each connection that moved data. */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include "places.h"

/* Notes which connection this is, and who the peer is, while the socket still has one. May change errno. */
void run_report_who(int fd, struct place *place);

/*
 * Notes what TCP knows of a connection, unless it is over: TCP has forgotten it then. So it is called when the first
 * bytes have moved, at each look, before shutdown(), and before the line is made. May change errno.
 */
void run_report_note(int fd, struct place *place);

/* The same at a look: notes also what limits the connection, and what its flow has set. */
void run_report_sample(int fd, struct place *place, uint64_t now_ns);

/*
 * Keeps the line of a connection that is about to be closed; if another descriptor holds the same one, that will have
 * the line. limits: of this host; NULL: unknown. May change errno.
 */
void run_report_add(int fd, struct place *place, const struct autobuf_limits *limits);

/* Looks what standard error is. */
void run_report_begin(void);

/* Writes all lines there, if it still is that. */
void run_report_write(void);

/* Says there, if it still is that, that the program which takes this one's place, or its child's, is not reached. */
void run_report_lost(const char *program);

/* In a forked child: the lines are the parent's. */
void run_report_forget(void);

#endif
