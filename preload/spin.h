/* SPDX-License-Identifier: MIT */
/* A lock that is held for microseconds, and that a forked child can free. */
#ifndef RUN_SPIN_H
#define RUN_SPIN_H

#include <sched.h>
#include <stdatomic.h>

static inline void spin_lock(atomic_flag *lock)
{
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        sched_yield();
}

static inline void spin_unlock(atomic_flag *lock)
{
    atomic_flag_clear_explicit(lock, memory_order_release);
}

#endif
