/* SPDX-License-Identifier: MIT */
/* This process: its settings, the limits of its host, and whether this object may act now. */
#ifndef RUN_SELF_H
#define RUN_SELF_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <autobuf/plan.h>

/* What `autobuf run` asks of the preloaded object: AUTOBUF_RUN in the environment. */
#define RUN_VARIABLE "AUTOBUF_RUN"

struct run_settings {
    uint32_t intent;     /* AUTOBUF_INTENT_* */
    uint64_t most_bytes; /* largest buffer to set; 0: what the host allows */
    bool keep_sizes;     /* buffers are as the program sets them */
    bool probe;          /* the path may be measured before connect() */
    bool report;         /* a line a connection on standard error, at exit */
};

/* Reads words between commas: intent=low-delay, max=BYTES, keep-sizes, probe, report. Ignores others, and NULL. */
void run_settings_read(const char *text, struct run_settings *settings);

extern struct run_settings self_settings;
extern uint32_t self_generation __attribute__((visibility("hidden"))); /* another one in each forked child */
extern bool self_acted_before_fork; /* in a forked child: whether this object acted in the parent */
extern _Thread_local bool self_inside __attribute__((tls_model("initial-exec")));

/*
 * Whether this thread is to do anything: the process is managed, and the thread is not inside this object already. A
 * child of raw clone() is left alone: fork handlers do not run for it.
 */
bool self_acts(void);

/*
 * While a thread is inside, no signal handler runs (it might jump away, or call this object again), the thread cannot
 * be cancelled, and calls that the library makes go to the C library.
 */
struct stay {
    sigset_t signals;
    int cancel;
    int error;
};

/* Returns false if the thread is to do nothing. */
bool self_enter(struct stay *stay);
void self_leave(const struct stay *stay);

/* False in a child of vfork(): it shares the parent's memory, but has descriptors of its own. */
bool self_is_owner(void);

/*
 * Around code that opens descriptors for a moment. fork() waits until that is over: otherwise its child would have them
 * for good. While a thread forks, self_may_open() returns false, and self_opened() must not be called.
 */
bool self_may_open(void);
void self_opened(void);

/*
 * This host's limits; NULL: they cannot be read, or a thread forks just now. The first call reads /proc: after chroot()
 * it may be gone.
 */
const struct autobuf_limits *self_limits(void);

/* CLOCK_MONOTONIC_COARSE: some milliseconds behind, but cheap enough for each call of the program. */
uint64_t self_coarse_ns(void);

/*
 * Whether a filter of system calls is set already, or it cannot be told. Reads /proc: a filter may kill for the prctl()
 * that would tell, but it has just allowed the dynamic linker to read this object.
 */
bool self_is_filtered(void);

/* Begins in this process. The others are called before fork(), after it in the parent, and in the child. */
void self_begin(const struct run_settings *settings);
void self_forking(void);
void self_fork_over(void);
void self_forked(void);

/* Whether this object acts in this process from now on. */
void self_turn(bool on);

#endif
