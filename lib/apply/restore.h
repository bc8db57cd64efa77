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

/* Restores whatever is not as it was, but of the buffers only these sides. Returns 0, or the first error. */
int ab_restore(int fd, const struct autobuf_settings *was, uint32_t sides);

/*
 * Sets a size by SO_SNDBUF or SO_RCVBUF, and locks that side before, for autobufd withholds small sizes of sides that
 * are not locked. Returns 0, or an errno of setsockopt(2).
 */
int ab_set_size(int fd, int option, uint64_t bytes);

#endif
