/* SPDX-License-Identifier: MIT */
/* --report: a line for each connection that moved data. */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include "places.h"

/* Notes which connection this is, and who the peer is, while the socket still has one. May change errno. */
void run_report_who(int fd, struct place *place);

/*
 * Keeps the line of a connection that is about to be closed; if another descriptor holds the same one, that will have
 * the line. limits: of this host; NULL: unknown.
 */
void run_report_add(int fd, const struct place *place, const struct autobuf_limits *limits);

/* Looks what standard error is. */
void run_report_begin(void);

/* Writes all lines there, if it still is that. */
void run_report_write(void);

/* In a forked child: the lines are the parent's. */
void run_report_forget(void);

#endif
