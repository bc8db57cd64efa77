/* SPDX-License-Identifier: MIT */
/*
 * On machines of 32 bits the C library has some functions twice, and a program that is compiled with _TIME_BITS=64, as
 * those of Debian 13 for armhf are, calls these.
 */
#include "hooks.h"

#if __TIMESIZE == 32

/* The C library declares the other name for both. */
#define TIME64_DECLARE(type, name, parameters) HOOK type name parameters;
RUN_FUNCTIONS_TIME64(TIME64_DECLARE)

int __fcntl_time64(int fd, int command, ...)
{
    va_list arguments;
    void *argument;

    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return hook_fcntl(NEXT(__fcntl_time64), fd, command, argument);
}

int __setsockopt64(int fd, int level, int option, const void *value, socklen_t length)
{
    return hook_setsockopt(NEXT(__setsockopt64), fd, level, option, value, length);
}

int __getsockopt64(int fd, int level, int option, void *value, socklen_t *length)
{
    return hook_getsockopt(NEXT(__getsockopt64), fd, level, option, value, length);
}

ssize_t __recvmsg64(int fd, struct msghdr *message, int flags)
{
    return hook_recvmsg(NEXT(__recvmsg64), fd, message, flags);
}

int __recvmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags, void *timeout)
{
    return hook_received(fd, messages, NEXT(__recvmmsg64)(fd, messages, count, flags, timeout));
}

ssize_t __sendmsg64(int fd, const struct msghdr *message, int flags)
{
    return sent(fd, NEXT(__sendmsg64)(fd, message, flags));
}

int __sendmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return hook_sent(fd, messages, NEXT(__sendmmsg64)(fd, messages, count, flags));
}

int __ppoll64(struct pollfd *fds, nfds_t count, const void *timeout, const sigset_t *signals)
{
    care_waits();
    return NEXT(__ppoll64)(fds, count, timeout, signals);
}

int __select64(int count, fd_set *reads, fd_set *writes, fd_set *others, void *timeout)
{
    care_waits();
    return NEXT(__select64)(count, reads, writes, others, timeout);
}

int __pselect64(int count, fd_set *reads, fd_set *writes, fd_set *others, const void *timeout, const sigset_t *signals)
{
    care_waits();
    return NEXT(__pselect64)(count, reads, writes, others, timeout, signals);
}

int __epoll_pwait2_time64(int fd, struct epoll_event *events, int room, const void *timeout, const sigset_t *signals)
{
    care_waits();
    return NEXT(__epoll_pwait2_time64)(fd, events, room, timeout, signals);
}

int __prctl_time64(int option, ...)
{
    va_list arguments;
    int result;

    va_start(arguments, option);
    result = hook_prctl(NEXT(__prctl_time64), option, arguments);
    va_end(arguments);
    return result;
}

#endif
