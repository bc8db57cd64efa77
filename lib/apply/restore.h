/* SPDX-License-Identifier: MIT */
/* What libautobuf can set on a socket: read, and restored. */
#ifndef AB_RESTORE_H
#define AB_RESTORE_H

#include "../base/base.h"

#define AB_REQUEST_MAX 0x3fffffffU /* largest request: the kernel doubles it into an int */
#define AB_NO_CLAMP 0x3fffffff     /* above the window of any window scale */

/* Sets an option of type int. Returns 0, or a negative errno. */
int ab_set_int(int fd, int level, int option, uint64_t value);

/* Sets SO_MAX_PACING_RATE, which has 32 bits in some kernels; UINT64_MAX: no limit. Returns 0 or a negative errno. */
int ab_set_pacing(int fd, uint64_t byte_per_s);

/* Removes the window clamp. Returns 0, or a negative errno. */
int ab_open_clamp(int fd);

/* Restore sizes before locks, because setting a size locks it. Return 0, or a negative errno. */
int ab_restore_snd(int fd, const struct autobuf_settings *was);
int ab_restore_rcv(int fd, const struct autobuf_settings *was);
int ab_restore_locks(int fd, const struct autobuf_settings *was);
int ab_restore_clamp(int fd, const struct autobuf_settings *was);
int ab_restore_pacing(int fd, const struct autobuf_settings *was);

#endif
