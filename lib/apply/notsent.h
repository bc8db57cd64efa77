/* SPDX-License-Identifier: MIT */
/* How much may wait unsent in a send buffer that was made larger: TCP_NOTSENT_LOWAT. */
#ifndef AB_NOTSENT_H
#define AB_NOTSENT_H

#include "../base/base.h"

/*
 * Such a buffer holds what is in flight, and beside it this, or what the buffer before held if that is more: a peer that never
 * reads pins no more memory than with the kernel's own buffer (0.7 MB). A writer that is woken late, as on a busy host, must leave
 * more than that if congestion control paces it: 30 ms late on 400 Mbit/s x 100 ms, it had 0.6 of autotuning's rate with bbr.
 */
#define AB_NOTSENT_BYTES 524288U

/*
 * Raises the bound to bytes, or the host's if that is less, if it is still ours. Returns 1: raised; 0: it is not ours, or no
 * lower; or a negative errno.
 */
int ab_apply_notsent(int fd, uint64_t ours, uint64_t bytes);

#endif
