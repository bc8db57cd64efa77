/* SPDX-License-Identifier: MIT */
/* TCP_NOTSENT_LOWAT of an enlarged send buffer. */
#ifndef AB_NOTSENT_H
#define AB_NOTSENT_H

#include "../base/base.h"

/*
 * Beside the data in flight so much may wait unsent, or the size of the buffer before if that is more: a peer that
 * never reads pins no more memory than with the kernel's own buffer (0.7 MB). With bbr, a writer that is woken 30 ms
 * late on 400 Mbit/s x 100 ms needs more: it had 0.6 of autotuning's rate.
 */
#define AB_NOTSENT_BYTES 524288U

/*
 * Raises TCP_NOTSENT_LOWAT from ours to bytes, at most net.ipv4.tcp_notsent_lowat. Returns 1: raised; 0: the program
 * changed it, or it is no lower; or a negative errno.
 */
int ab_apply_notsent(int fd, uint64_t ours, uint64_t bytes);

#endif
