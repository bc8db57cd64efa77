/* SPDX-License-Identifier: MIT */
/* The receive window of an open connection, by which a receiver holds its peer to a rate. */
#ifndef AB_WINDOW_H
#define AB_WINDOW_H

#include "../base/base.h"

struct ab_window {
    uint32_t before_bytes; /* TCP_WINDOW_CLAMP before; 0: not read yet */
    bool own;              /* the program had locked the receive side, so that clamp is what it has */
    bool locked;           /* by us */
};

/*
 * Sets TCP_WINDOW_CLAMP; 0 puts it back. Autotuning would move it, so the side is locked while its buffer has room for
 * the window. Linux from 5.15 on closes a window that is open; it never takes back what it has promised. Returns 0, or
 * a negative errno.
 */
int ab_apply_window(int fd, struct ab_window *window, uint64_t bytes);

#endif
