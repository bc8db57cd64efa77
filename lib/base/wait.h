/* SPDX-License-Identifier: MIT */
#ifndef AB_WAIT_H
#define AB_WAIT_H

#include <stdint.h>

/* Waits for poll(2) events, at most until then (AUTOBUF_NS_UNSET: for ever). 0, -errno. */
int ab_wait(int fd, int events, uint64_t until_ns);

#endif
