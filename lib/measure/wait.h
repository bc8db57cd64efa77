/* SPDX-License-Identifier: MIT */
/* What every stepped measurement on a socket does between its steps, and with what it reads. */
#ifndef AB_WAIT_H
#define AB_WAIT_H

#include <stdint.h>
#include <sys/socket.h>

/* Waits for poll(2) events, at most until then (AUTOBUF_NS_UNSET: for ever). 0, -errno. */
int ab_wait(int fd, int events, uint64_t until_ns);

/*
 * The kernel's receive stamp of a message on the monotonic clock; the present, if there is none or a clock
 * was set meanwhile. type: SCM_TIMESTAMPNS or SCM_TIMESTAMPING. *offset_ns is ab_clock_offset_ns(),
 * renewed where it no longer holds.
 */
uint64_t ab_stamp_ns(struct msghdr *message, int type, uint64_t *offset_ns);

#endif
