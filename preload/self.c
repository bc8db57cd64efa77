/* SPDX-License-Identifier: MIT */
#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "next.h"
#include "pool.h"

#define NS_PER_S 1000000000ULL
#define FORK_NS_MOST NS_PER_S /* fork() waits no longer: opening takes microseconds, unless the kernel is stuck */

struct run_settings self_settings;
uint32_t self_generation;
bool self_acted_before_fork;
/* initial-exec: reading it calls no function, which a signal handler must not. */
_Thread_local bool self_inside __attribute__((tls_model("initial-exec")));

static _Atomic bool off;
static _Atomic bool *on = &off; /* in memory that is zero in a child */
static struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
static pid_t owner;
static _Atomic int opening; /* threads between self_may_open() and self_opened() */
static _Atomic int forking;
static _Atomic int limits_state; /* 0: not read; 1: being read; 2: read; 3: cannot be read */

bool self_acts(void)
{
    return !self_inside && atomic_load_explicit(on, memory_order_relaxed);
}

bool self_enter(struct stay *stay)
{
    sigset_t all;

    if (!self_acts())
        return false;
    stay->error = errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &stay->signals);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &stay->cancel);
    self_inside = true;
    return true;
}

void self_leave(const struct stay *stay)
{
    self_inside = false;
    pthread_setcancelstate(stay->cancel, NULL);
    pthread_sigmask(SIG_SETMASK, &stay->signals, NULL);
    errno = stay->error;
}

bool self_is_owner(void)
{
    return getpid() == owner;
}

uint64_t self_coarse_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

bool self_may_open(void)
{
    if (!self_is_owner())
        return false;
    atomic_fetch_add(&opening, 1);
    if (atomic_load(&forking) <= 0)
        return true;
    self_opened();
    return false;
}

void self_opened(void)
{
    atomic_fetch_sub(&opening, 1);
}

static int read_limits(void)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    int fd = NEXT(socket)(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

    if (fd < 0)
        fd = NEXT(socket)(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    options.flags = AUTOBUF_FLOW_OBSERVE;
    applied.limits = &limits;
    error = autobuf_tune(fd, NULL, 0, &options, &applied);
    NEXT(close)(fd);
    return error;
}

const struct autobuf_limits *self_limits(void)
{
    int none = 0, state = atomic_load(&limits_state);

    if (state == 0) {
        struct stay stay;
        bool entered = self_enter(&stay); /* if not, this thread is inside already */

        if (self_may_open()) {
            if (atomic_compare_exchange_strong(&limits_state, &none, 1))
                atomic_store(&limits_state, read_limits() == 0 ? 2 : 3);
            self_opened();
        }
        if (entered)
            self_leave(&stay);
    }
    while ((state = atomic_load(&limits_state)) == 1)
        sched_yield();
    return state == 2 ? &limits : NULL;
}

/* Before Linux 4.14, which has no MADV_WIPEONFORK, a child has the parent's value. */
static _Atomic bool *in_memory_of_this_process(void)
{
    void *page = mmap(NULL, sizeof *on, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return &off;
    madvise(page, sizeof *on, MADV_WIPEONFORK);
    return page;
}

void self_turn(bool now)
{
    if (now && on == &off)
        on = in_memory_of_this_process();
    if (on != &off)
        atomic_store(on, now);
}

void self_begin(const struct run_settings *settings)
{
    self_settings = *settings;
    self_generation = 1;
    owner = getpid();
}

bool self_is_filtered(void)
{
    static const char field[] = "\nSeccomp:\t";
    size_t kept = 0, length = strlen(field);
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const char *at = NULL;
    char text[512];
    ssize_t got;

    if (fd < 0)
        return true;
    while ((got = NEXT(read)(fd, text + kept, sizeof text - 1 - kept)) > 0) {
        kept += (size_t)got;
        text[kept] = '\0';
        at = strstr(text, field);
        if (at && at[length])
            break;
        if (kept > length) { /* the field may have begun at the end */
            memmove(text, text + kept - length, length);
            kept = length;
        }
    }
    NEXT(close)(fd);
    return got < 0 || (got > 0 && at[length] != '0'); /* a kernel without filters has no such field */
}

void self_forking(void)
{
    uint64_t until_ns = 0, now_ns = 0;

    self_acted_before_fork = atomic_load(on);
    atomic_fetch_add(&forking, 1);
    while (atomic_load(&opening) && now_ns <= until_ns) {
        now_ns = autobuf_now_ns();
        until_ns = until_ns ? until_ns : now_ns + FORK_NS_MOST;
        sched_yield();
    }
}

void self_fork_over(void)
{
    atomic_fetch_sub(&forking, 1);
}

void self_forked(void)
{
    self_turn(true);
    self_generation++;
    self_inside = false;
    owner = getpid();
    atomic_store(&opening, 0);
    atomic_store(&forking, 0);
    run_pool_forked();
    if (atomic_load(&limits_state) == 1) /* a thread of the parent was reading them */
        atomic_store(&limits_state, 0);
}
