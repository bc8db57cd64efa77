/* SPDX-License-Identifier: MIT */
/* What the functions that the program calls have in common; those that exist several times take the next one. */
#ifndef RUN_HOOKS_H
#define RUN_HOOKS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "care.h"
#include "next.h"

#define HOOK __attribute__((visibility("default")))

static inline ssize_t received(int fd, ssize_t bytes)
{
    moved(fd, bytes, false);
    return bytes;
}

/* What is only looked at comes again; errors are no data. */
static inline ssize_t looked_at(int fd, ssize_t bytes, int flags)
{
    return flags & (MSG_PEEK | MSG_ERRQUEUE) ? bytes : received(fd, bytes);
}

static inline ssize_t sent(int fd, ssize_t bytes)
{
    moved(fd, bytes, true);
    return bytes;
}

static inline int hook_fcntl(int (*next)(int, int, ...), int fd, int command, void *argument)
{
    int result = next(fd, command, argument);

    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        care_duplicated(fd, result);
    return result;
}

static inline bool is_size(int level, int option)
{
    return level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_RCVBUF);
}

static inline int hook_setsockopt(int (*next)(int, int, int, const void *, socklen_t), int fd, int level, int option,
                                  const void *value, socklen_t length)
{
    int result, other, value_of_other, error;

    if (is_size(level, option) && care_keeps(fd, option, value, length))
        return 0;
    result = next(fd, level, option, value, length);
    if (result == 0 && level == IPPROTO_TCP && option == TCP_WINDOW_CLAMP && care_clamps(fd, &other, &value_of_other)) {
        error = errno;
        next(fd, SOL_SOCKET, other, &value_of_other, sizeof value_of_other);
        next(fd, level, option, value, length); /* from Linux 7.1 on, a size sets the clamp, too */
        errno = error;
    }
    if (result == 0 && level == SOL_SOCKET && (option == SO_SNDBUFFORCE || option == SO_RCVBUFFORCE))
        care_forced(fd, option);
    return result;
}

static inline int hook_getsockopt(int (*next)(int, int, int, void *, socklen_t *), int fd, int level, int option,
                                  void *value, socklen_t *length)
{
    int result = next(fd, level, option, value, length);
    uint32_t stored;

    if (result == 0 && is_size(level, option) && care_asked(fd, option, &stored))
        __builtin_memcpy(value, &stored, *length < sizeof stored ? *length : sizeof stored);
    return result;
}

static inline ssize_t hook_recvmsg(ssize_t (*next)(int, struct msghdr *, int), int fd, struct msghdr *message, int flags)
{
    ssize_t bytes = next(fd, message, flags);

    if (bytes >= 0 && message->msg_controllen)
        care_received(message);
    return looked_at(fd, bytes, flags);
}

/* The bytes of the messages that a call has moved. */
static inline int64_t bytes_of(const struct mmsghdr *messages, int count)
{
    int64_t bytes = 0;

    for (int i = 0; i < count; i++)
        bytes += messages[i].msg_len;
    return bytes;
}

/* After a call that has received so many messages, or has failed. */
static inline int hook_received(int fd, const struct mmsghdr *messages, int count)
{
    for (int i = 0; i < count; i++)
        if (messages[i].msg_hdr.msg_controllen)
            care_received(&messages[i].msg_hdr);
    moved(fd, bytes_of(messages, count), false);
    return count;
}

static inline int hook_sent(int fd, const struct mmsghdr *messages, int count)
{
    moved(fd, bytes_of(messages, count), true);
    return count;
}

/*
 * A filter of system calls may kill for a call that the program itself does not make: all care ends before it comes. These are
 * the calls that can bring one; others only ask what the kernel knows.
 */
static inline bool filters(unsigned long operation, unsigned long flags, unsigned long filter)
{
    return operation == SECCOMP_SET_MODE_STRICT ? !flags && !filter : operation == SECCOMP_SET_MODE_FILTER && filter;
}

static inline bool filters_by_prctl(unsigned long option, unsigned long mode, unsigned long filter)
{
    return option == PR_SET_SECCOMP && (mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && filter));
}

static inline int hook_prctl(int (*next)(int, ...), int option, va_list arguments)
{
    unsigned long a[4];

    for (int i = 0; i < 4; i++)
        a[i] = va_arg(arguments, unsigned long);
    if (filters_by_prctl((unsigned long)option, a[0], a[1]))
        care_end();
    return next(option, a[0], a[1], a[2], a[3]);
}

#endif
