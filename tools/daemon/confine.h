/* SPDX-License-Identifier: MIT */
/* What the two processes of the daemon can still ask of the kernel. */
#ifndef CONFINE_H
#define CONFINE_H

#include <stdbool.h>

/*
 * The descriptor under which a process that is confined has the one socket that it may borrow. No other may be as high.
 */
#define LOAN_FD 1023

/*
 * What a confined process asks of its broker: this call, with a process, a descriptor there, and the two halves of a
 * cookie.
 */
#define ASKS_FOR_LOAN SYS_pidfd_getfd

/* Whether this process has any of the capabilities of which the broker makes use. */
bool confine_is_worth_it(void);

/*
 * From now on this process can make the system calls that a daemon needs, and no others (-EPERM). Of the borrowed
 * socket it can read and set options, and close it. Who reads *listener (seccomp_unotify(2)) decides on ASKS_FOR_LOAN
 * and on options that only an administrator may set: SO_SNDBUFFORCE, SO_RCVBUFFORCE, and TCP_CONGESTION of the borrowed
 * one. Then it has no capability any more, but for those of root that concern files. 0; -ENOTSUP: built without
 * libseccomp, or the kernel has no such listener; -EBUSY: it has one already; -EIO: it is confined, and has its
 * capabilities; errors of seccomp(2).
 */
int confine(int *listener);

/* The same for the broker, which keeps three capabilities. 0, -errno. */
int confine_broker(void);

#endif
