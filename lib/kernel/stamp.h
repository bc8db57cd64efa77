/* SPDX-License-Identifier: MIT */
#ifndef AB_STAMP_H
#define AB_STAMP_H

#include <stdint.h>
#include <sys/socket.h>

/*
 * Returns the kernel's receive stamp of a message, on the monotonic clock; the present time if there is no stamp,
 * or if the clock was set since. type: SCM_TIMESTAMPNS or SCM_TIMESTAMPING. *offset_ns is ab_clock_offset_ns();
 * the call renews it if it no longer holds.
 */
uint64_t ab_stamp_ns(struct msghdr *message, int type, uint64_t *offset_ns);

#endif
