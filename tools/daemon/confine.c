/* SPDX-License-Identifier: MIT */
#include "broker.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <seccomp.h>

#include "../../lib/base/option.h"
#include "../privilege.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* To find owners and to borrow from them, and to set sizes beyond what anybody may. */
#define BROKERS (PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH) | PRIVILEGE(CAP_NET_ADMIN))
/* Of root, whose files these are: its service has none of them. */
#define FILES (PRIVILEGE(CAP_CHOWN) | PRIVILEGE(CAP_DAC_OVERRIDE) | PRIVILEGE(CAP_FOWNER))

#define NO_FD 0xffffffffU /* of mmap(2), in one of two lengths */
#define NO_FD_WIDE 0xffffffffffffffffULL

bool confine_is_worth_it(void)
{
    return privilege_held() & BROKERS;
}

/* Calls without a descriptor of a socket, or that do nothing with one that could matter. */
static const char *const plain[] = {
    "access", "brk", "capget", "capset", "chmod", "chown", "clock_getres", "clock_getres_time64", "clock_gettime",
    "clock_gettime64", "clock_nanosleep", "close", "exit", "exit_group", "faccessat", "faccessat2", "fchmodat",
    "fchownat", "fstat", "fstat64", "fstatat64", "futex", "getcpu", "getcwd", "getegid", "geteuid", "getgid",
    "getpeername", "getpid", "getppid", "getrandom", "getresgid", "getresuid", "getrlimit", "getsockname", "gettid",
    "gettimeofday", "getuid", "getxattr", "link", "lstat", "lstat64", "madvise", "mkdir", "mkdirat", "mprotect",
    "mremap", "munmap", "nanosleep", "newfstatat", "open", "openat", "pidfd_open", "poll", "ppoll", "ppoll_time64",
    "prlimit64", "readlink", "readlinkat", "rename", "renameat", "renameat2", "restart_syscall", "rt_sigaction",
    "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sched_getaffinity", "sched_yield",
    "setitimer", "setxattr", "sigaltstack", "sigreturn", "signalfd4", "socket", "stat", "stat64", "statx", "sysinfo",
    "time", "umask", "uname", "unlink", "unlinkat", "wait4", "waitid",
};

/* Calls with a descriptor as their first argument, which must not be that of the borrowed socket. */
static const char *const with_fd[] = {
    "accept", "accept4", "bind", "connect", "dup", "fadvise64", "fallocate", "fchmod", "fchown", "fcntl", "fcntl64",
    "fdatasync", "flistxattr", "fgetxattr", "flock", "fremovexattr", "fsetxattr", "fsync", "ftruncate", "ftruncate64",
    "getdents64", "ioctl", "listen", "lseek", "_llseek", "pread64", "pwrite64", "read", "readv", "recv", "recvfrom",
    "recvmsg", "send", "sendto", "shutdown", "write", "writev",
};

/* What a broker needs besides, or instead. */
static const char *const brokers[] = {
    "brk", "clock_gettime", "clock_gettime64", "close", "exit", "exit_group", "fcntl", "fcntl64", "fstat",
    "fstat64", "fstatat64", "futex", "getdents64", "getpid", "getrandom", "getsockopt", "ioctl", "lseek", "_llseek",
    "madvise", "mmap", "mmap2", "mprotect", "mremap", "munmap", "newfstatat", "open", "openat", "pidfd_getfd",
    "pidfd_open", "poll", "ppoll", "ppoll_time64", "process_vm_readv", "read", "readlink", "readlinkat", "recv",
    "recvfrom", "restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "send", "sendmsg", "sendto",
    "setitimer", "setsockopt", "sigaltstack", "sigreturn", "statx", "sysinfo", "write",
};

struct option {
    int level, name;
};

static const struct option readable[] = {
    {SOL_SOCKET, SO_SNDBUF}, {SOL_SOCKET, SO_RCVBUF}, {SOL_SOCKET, SO_BUF_LOCK}, {SOL_SOCKET, SO_MAX_PACING_RATE},
    {SOL_SOCKET, SO_MEMINFO}, {SOL_SOCKET, SO_COOKIE}, {SOL_SOCKET, SO_TYPE}, {SOL_SOCKET, SO_DOMAIN},
    {SOL_SOCKET, SO_PROTOCOL}, {SOL_SOCKET, SO_ACCEPTCONN}, {SOL_SOCKET, SO_MARK},
    {SOL_SOCKET, SO_BINDTODEVICE}, {SOL_SOCKET, SO_BINDTOIFINDEX}, {SOL_SOCKET, SO_INCOMING_CPU},
    {IPPROTO_TCP, TCP_INFO}, {IPPROTO_TCP, TCP_WINDOW_CLAMP}, {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    {IPPROTO_TCP, TCP_CONGESTION}, {IPPROTO_TCP, TCP_MAXSEG},
};
static const struct option settable[] = {
    {SOL_SOCKET, SO_SNDBUF}, {SOL_SOCKET, SO_RCVBUF}, {SOL_SOCKET, SO_BUF_LOCK}, {SOL_SOCKET, SO_MAX_PACING_RATE},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP}, {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
};

#define IS(at, how, value) {at, SCMP_CMP_##how, (scmp_datum_t)(value), 0}
#define LOAN IS(0, EQ, LOAN_FD)
#define OTHER IS(0, LT, LOAN_FD) /* not "is another one": the kernel takes half of the register, the filter all of it */

/* A call with so many conditions on its arguments. */
static const struct {
    uint32_t action;
    int call;
    unsigned count;
    struct scmp_arg_cmp conditions[3];
} others[] = {
    /* of other sockets all that anybody may set: SO_RCVBUFFORCE follows SO_SNDBUFFORCE */
    {SCMP_ACT_ALLOW, SCMP_SYS(getsockopt), 1, {OTHER}},
    {SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 2, {OTHER, IS(1, NE, SOL_SOCKET)}},
    {SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 3, {OTHER, IS(1, EQ, SOL_SOCKET), IS(2, LT, SO_SNDBUFFORCE)}},
    {SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 3, {OTHER, IS(1, EQ, SOL_SOCKET), IS(2, GT, SO_RCVBUFFORCE)}},
    /* a mapping of the borrowed socket would show what it receives */
    {SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, {IS(4, LT, LOAN_FD)}},
    {SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, {IS(4, EQ, NO_FD)}},
    {SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, {IS(4, EQ, NO_FD_WIDE)}},
    {SCMP_ACT_ALLOW, SCMP_SYS(mmap2), 1, {IS(4, LT, LOAN_FD)}},
    {SCMP_ACT_ALLOW, SCMP_SYS(mmap2), 1, {IS(4, EQ, NO_FD)}},
    {SCMP_ACT_ALLOW, SCMP_SYS(mmap2), 1, {IS(4, EQ, NO_FD_WIDE)}},
    /* what the broker does: a loan, and what only an administrator may set, on any socket, and on the borrowed one */
    {SCMP_ACT_NOTIFY, SCMP_SYS(pidfd_getfd), 0, {{0}}},
    {SCMP_ACT_NOTIFY, SCMP_SYS(setsockopt), 2, {IS(1, EQ, SOL_SOCKET), IS(2, EQ, SO_SNDBUFFORCE)}},
    {SCMP_ACT_NOTIFY, SCMP_SYS(setsockopt), 2, {IS(1, EQ, SOL_SOCKET), IS(2, EQ, SO_RCVBUFFORCE)}},
    {SCMP_ACT_NOTIFY, SCMP_SYS(setsockopt), 3, {LOAN, IS(1, EQ, IPPROTO_TCP), IS(2, EQ, TCP_CONGESTION)}},
};

/* The first error stays. A call that this machine does not have is none. */
static void note(int *error, int result)
{
    if (*error == 0 && result != -EDOM && result != -EEXIST)
        *error = result;
}

static void allow(scmp_filter_ctx filter, const char *const *names, size_t count, bool not_the_loan, int *error)
{
    const struct scmp_arg_cmp other = OTHER;

    for (size_t i = 0; i < count; i++) {
        int call = seccomp_syscall_resolve_name(names[i]);

        if (call != __NR_SCMP_ERROR)
            note(error, seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, not_the_loan, &other));
    }
}

static void allow_options(scmp_filter_ctx filter, int call, const struct option *options, size_t count, int *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct scmp_arg_cmp is[] = {LOAN, IS(1, EQ, options[i].level), IS(2, EQ, options[i].name)};

        note(error, seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, COUNT(is), is));
    }
}

static scmp_filter_ctx make(int *error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));

    *error = filter ? 0 : -ENOMEM;
    if (filter)
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* by a tree: some calls are made for each look */
    return filter;
}

/* No descriptor of this process is above that of a loan, and that one can be. */
static int bound_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    if (limit.rlim_max <= LOAN_FD)
        return -EMFILE;
    limit.rlim_cur = LOAN_FD + 1;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

/* A filter cannot read the arguments of socketcall(2), the one call for sockets of i386 and others: all would pass. */
static bool can_read_arguments(void)
{
    return seccomp_syscall_resolve_name("socketcall") < 0;
}

int confine(int *listener)
{
    int error = can_read_arguments() ? bound_descriptors() : -ENOTSUP;
    scmp_filter_ctx filter = error == 0 ? make(&error) : NULL;

    if (!filter)
        return error;
    allow(filter, plain, COUNT(plain), false, &error);
    allow(filter, with_fd, COUNT(with_fd), true, &error);
    allow_options(filter, SCMP_SYS(getsockopt), readable, COUNT(readable), &error);
    allow_options(filter, SCMP_SYS(setsockopt), settable, COUNT(settable), &error);
    for (size_t i = 0; i < COUNT(others); i++)
        note(&error, seccomp_rule_add_array(filter, others[i].action, others[i].call, others[i].count,
                                            others[i].conditions));
    note(&error, seccomp_load(filter));
    *listener = error == 0 ? seccomp_notify_fd(filter) : -1;
    seccomp_release(filter);
    if (error == 0 && privilege_keep(FILES) < 0)
        error = -EIO;
    return error;
}

int confine_broker(void)
{
    int error;
    scmp_filter_ctx filter = make(&error);

    if (!filter)
        return error;
    allow(filter, brokers, COUNT(brokers), false, &error);
    if (error == 0)
        error = privilege_keep(BROKERS);
    note(&error, seccomp_load(filter));
    seccomp_release(filter);
    return error;
}
