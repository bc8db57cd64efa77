/* SPDX-License-Identifier: MIT */
/* What libautobuf can set on a socket: read, and put back. */
#ifndef AB_RESTORE_H
#define AB_RESTORE_H

#include "../base/base.h"

#define AB_REQUEST_MAX 0x3fffffffU /* as setsockopt() takes it: the kernel doubles it */
#define AB_NO_CLAMP 0x3fffffff     /* any window scale ends below */

/* Sets an option of type int. Returns 0, or a negative errno. */
int ab_set_int(int fd, int level, int option, uint64_t value);

/* Sets SO_MAX_PACING_RATE; UINT64_MAX: no limit. A kernel that takes 32 bits gets as much as these hold. 0, or a negative errno. */
int ab_set_pacing(int fd, uint64_t byte_per_s);

/* Takes the window clamp away. Returns 0, or a negative errno. */
int ab_open_clamp(int fd);

/* Each puts one back. Sizes before locks: setting a size locks the buffer. Return 0, or a negative errno. */
int ab_put_back_snd(int fd, const struct autobuf_settings *was);
int ab_put_back_rcv(int fd, const struct autobuf_settings *was);
int ab_put_back_locks(int fd, const struct autobuf_settings *was);
int ab_put_back_clamp(int fd, const struct autobuf_settings *was);
int ab_put_back_pacing(int fd, const struct autobuf_settings *was);

#endif
