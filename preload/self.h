/* SPDX-License-Identifier: MIT */
/* This process: what was asked of this object in it, what its host allows, and who acts for it now. */
#ifndef RUN_SELF_H
#define RUN_SELF_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <autobuf/plan.h>

#include "settings.h"

extern struct run_settings self_settings;
extern uint32_t self_generation __attribute__((visibility("hidden"))); /* another one in each forked child */
extern _Thread_local bool self_inside __attribute__((tls_model("initial-exec")));

/*
 * Whether this thread is to do anything: the process is cared for, and the thread is not in this object already. A child
 * that the C library knows nothing of, as raw clone() makes it, is left alone: nothing here was told that it began.
 */
bool self_acts(void);

/*
 * While this object acts, no signal handler runs, which might jump away or call it anew; the thread cannot be cancelled;
 * and calls that the library makes go on to the C library.
 */
struct stay {
    sigset_t signals;
    int cancel;
    int error;
};

/* Returns false if the thread is to do nothing. */
bool self_enter(struct stay *stay);
void self_leave(const struct stay *stay);

/* Whether the descriptors of this memory are those of this process. A vforked child shares the memory only. */
bool self_is_owner(void);

/*
 * Around what opens descriptors for a moment. A fork waits until that is over, or its child would have them for good.
 * self_may_open() returns false while a thread forks: it is not the time, and there is nothing to end.
 */
bool self_may_open(void);
void self_opened(void);

/*
 * This host's limits; NULL: they cannot be read, or a thread forks just now. The first call reads them: later, after
 * chroot(), they may be gone.
 */
const struct autobuf_limits *self_limits(void);

/* The monotonic clock, some milliseconds behind: cheap enough for each call of the program. */
uint64_t self_coarse_ns(void);

/*
 * Whether system calls of this process are filtered already, or it cannot be told. A filter may kill for any call, also for the
 * prctl() that would tell; those that read a file have just loaded this object.
 */
bool self_is_filtered(void);

/*
 * Begins in this process, and its children once self_forking() is called before each fork(), and after it self_fork_over() in
 * the parent and self_forked() in the child.
 */
void self_begin(const struct run_settings *settings);
void self_forking(void);
void self_fork_over(void);
void self_forked(void);

/* In the child: whether the parent was cared for. */
bool self_acted_before_fork(void);

/* Whether this process is to be cared for from here on. */
void self_turn(bool on);

#endif
