/* SPDX-License-Identifier: MIT */
/*
 * What the program calls in place of the C library's functions. Each calls the next function of its name with the same
 * arguments, tells calls.c what came of it, and returns its result.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"
#include "next.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2U
#endif

#define RARE __attribute__((noinline, cold)) /* so that the other calls need not keep their arguments */

/* ------------------------------------------------------------------------------- descriptors */

int socket(int domain, int type, int protocol)
{
    int fd = NEXT(socket)(domain, type, protocol);

    on_socket(fd, domain, type, protocol);
    return fd;
}

int connect(int fd, __CONST_SOCKADDR_ARG peer, socklen_t length)
{
    int result;

    before_connect(fd, peer.__sockaddr__, length);
    result = NEXT(connect)(fd, peer, length);
    if (result == 0 || errno == EINPROGRESS)
        after_connect(fd, peer.__sockaddr__, length);
    return result;
}

#define ACCEPT(name, parameters, ...)                                                                                  \
    int name parameters                                                                                                \
    {                                                                                                                  \
        int fd = NEXT(name)(__VA_ARGS__);                                                                              \
                                                                                                                       \
        on_accept(listener, fd);                                                                                       \
        return fd;                                                                                                     \
    }

ACCEPT(accept, (int listener, __SOCKADDR_ARG peer, socklen_t *length), listener, peer, length)
ACCEPT(accept4, (int listener, __SOCKADDR_ARG peer, socklen_t *length, int flags), listener, peer, length, flags)

int shutdown(int fd, int how)
{
    before_shutdown(fd);
    return NEXT(shutdown)(fd, how);
}

int close(int fd)
{
    on_close(fd);
    return NEXT(close)(fd);
}

/* Whether these arguments are valid; else the call closes nothing. */
static bool closes(unsigned first, unsigned last, unsigned flags)
{
    return first <= last && !(flags & ~CLOSE_RANGE_UNSHARE);
}

int close_range(unsigned first, unsigned last, int flags)
{
    if (!NEXT(close_range))
        return run_not_here();
    if (closes(first, last, (unsigned)flags))
        on_close_range(first, last);
    return NEXT(close_range)(first, last, flags);
}

void closefrom(int first)
{
    unsigned from = first < 0 ? 0 : (unsigned)first;

    on_close_range(from, ~0U);
    if (NEXT(closefrom))
        NEXT(closefrom)(first);
    else
        NEXT(syscall)(SYS_close_range, (long)from, (long)~0U, 0L);
}

int dup(int fd)
{
    int copy = NEXT(dup)(fd);

    on_dup(fd, copy);
    return copy;
}

int dup2(int fd, int copy)
{
    on_dup2(fd, copy);
    copy = NEXT(dup2)(fd, copy);
    on_dup(fd, copy);
    return copy;
}

int dup3(int fd, int copy, int flags)
{
    if (!(flags & ~O_CLOEXEC))
        on_dup2(fd, copy);
    copy = NEXT(dup3)(fd, copy, flags);
    on_dup(fd, copy);
    return copy;
}

#define FCNTL(name)                                                                                                    \
    int name(int fd, int command, ...)                                                                                 \
    {                                                                                                                  \
        va_list arguments;                                                                                             \
        int result;                                                                                                    \
                                                                                                                       \
        va_start(arguments, command);                                                                                  \
        result = NEXT(name)(fd, command, va_arg(arguments, void *));                                                   \
        va_end(arguments);                                                                                             \
        if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                                                          \
            on_dup(fd, result);                                                                                        \
        return result;                                                                                                 \
    }

FCNTL(fcntl)
FCNTL(fcntl64)

/* ----------------------------------------------------------------------------------- options */

static bool is_size(int level, int option)
{
    return level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_RCVBUF);
}

static int set_option(set_option_fn *next, int fd, int level, int option, const void *value, socklen_t length)
{
    int result, other, other_value, error;

    if (is_size(level, option) && withholds_size(next, fd, option, value, length))
        return 0;
    result = next(fd, level, option, value, length);
    if (result == 0 && level == IPPROTO_TCP && option == TCP_WINDOW_CLAMP &&
        on_window_clamp(fd, &other, &other_value)) {
        error = errno;
        next(fd, SOL_SOCKET, other, &other_value, sizeof other_value);
        next(fd, level, option, value, length); /* from Linux 7.1 on, a size sets the clamp, too */
        errno = error;
    }
    if (result == 0 && level == SOL_SOCKET && (option == SO_SNDBUFFORCE || option == SO_RCVBUFFORCE))
        on_forced_size(fd, option);
    return result;
}

#define OPTIONS(set, get)                                                                                              \
    int set(int fd, int level, int option, const void *value, socklen_t length)                                        \
    {                                                                                                                  \
        return set_option(NEXT(set), fd, level, option, value, length);                                                \
    }                                                                                                                  \
    int get(int fd, int level, int option, void *value, socklen_t *length)                                             \
    {                                                                                                                  \
        int result = NEXT(get)(fd, level, option, value, length);                                                      \
        uint32_t asked;                                                                                                \
                                                                                                                       \
        if (result == 0 && is_size(level, option) && withheld_size(fd, option, &asked))                                \
            __builtin_memcpy(value, &asked, *length < sizeof asked ? *length : sizeof asked);                          \
        return result;                                                                                                 \
    }

OPTIONS(setsockopt, getsockopt)

/* -------------------------------------------------------------------------------------- data */

/* What MSG_PEEK returns comes again, and what MSG_ERRQUEUE returns is no data. */
#define NOT_TAKEN (MSG_PEEK | MSG_ERRQUEUE)

static ssize_t received(int fd, ssize_t bytes, int flags)
{
    if (!(flags & NOT_TAKEN))
        moved(fd, bytes, false);
    return bytes;
}

static ssize_t sent(int fd, ssize_t bytes)
{
    moved(fd, bytes, true);
    return bytes;
}

#define RECEIVES(name, flags, parameters, ...)                                                                         \
    ssize_t name parameters                                                                                            \
    {                                                                                                                  \
        return received(fd, NEXT(name)(__VA_ARGS__), flags);                                                           \
    }

#define SENDS(name, parameters, ...)                                                                                   \
    ssize_t name parameters                                                                                            \
    {                                                                                                                  \
        return sent(fd, NEXT(name)(__VA_ARGS__));                                                                      \
    }

/* The kernel moves at most this much in a call (MAX_RW_COUNT), and refuses more than SSIZE_MAX. */
#define CALL_MOST ((size_t)INT_MAX & ~((size_t)sysconf(_SC_PAGESIZE) - 1))

/* What a call returns of which so much was done before its last part. One that works leaves errno as it was. */
static ssize_t ended(size_t done, ssize_t part, int error)
{
    if (!done && part <= 0)
        return part;
    errno = error;
    return (ssize_t)done + (part > 0 ? part : 0);
}

/* As send_in_parts(), for a call that waits until all has come. */
RARE static ssize_t receive_in_parts(int fd, char *data, size_t bytes, int flags)
{
    uint32_t use = descriptor_use(fd);
    int error = errno;
    size_t done = 0;

    do {
        size_t want = bytes - done < PART_BYTES ? bytes - done : PART_BYTES;
        ssize_t part = received(fd, NEXT(recv)(fd, data + done, want, flags), 0);

        if (part < (ssize_t)want)
            return ended(done, part, error);
        done += (size_t)part;
    } while (done < bytes && receive_goes_on(fd, use));
    return ended(done, 0, error);
}

RARE static ssize_t receive_much(int fd, void *data, size_t bytes, int flags)
{
    if (flags == MSG_WAITALL && bytes <= CALL_MOST && receives_in_parts(fd))
        return receive_in_parts(fd, data, bytes, flags);
    return received(fd, NEXT(recv)(fd, data, bytes, flags), flags);
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    if (bytes > PART_BYTES)
        return receive_much(fd, data, bytes, flags);
    return received(fd, NEXT(recv)(fd, data, bytes, flags), flags);
}

/* A program that is compiled with -D_FORTIFY_SOURCE calls the functions with _chk. */
ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room, int flags)
{
    if (bytes > PART_BYTES && bytes <= room)
        return receive_much(fd, data, bytes, flags);
    return received(fd, NEXT(__recv_chk)(fd, data, bytes, room, flags), flags);
}

RECEIVES(read, 0, (int fd, void *data, size_t bytes), fd, data, bytes)
RECEIVES(__read_chk, 0, (int fd, void *data, size_t bytes, size_t room), fd, data, bytes, room)
RECEIVES(readv, 0, (int fd, const struct iovec *parts, int count), fd, parts, count)
RECEIVES(recvfrom, flags, (int fd, void *data, size_t bytes, int flags, __SOCKADDR_ARG peer, socklen_t *length),
         fd, data, bytes, flags, peer, length)
RECEIVES(__recvfrom_chk, flags, (int fd, void *data, size_t bytes, size_t room, int flags, __SOCKADDR_ARG peer,
                                 socklen_t *length), fd, data, bytes, room, flags, peer, length)

#define RECVMSG(name)                                                                                                  \
    ssize_t name(int fd, struct msghdr *message, int flags)                                                            \
    {                                                                                                                  \
        ssize_t bytes = NEXT(name)(fd, message, flags);                                                                \
                                                                                                                       \
        if (bytes >= 0 && message->msg_controllen)                                                                     \
            on_rights(message);                                                                                        \
        return received(fd, bytes, flags);                                                                             \
    }

RECVMSG(recvmsg)

/* Counts what a call has moved that returned this count of messages, or failed. */
static int moved_messages(int fd, const struct mmsghdr *messages, int count, int flags, bool are_sent)
{
    int64_t bytes = 0;

    for (int i = 0; i < count; i++) {
        if (!are_sent && messages[i].msg_hdr.msg_controllen)
            on_rights(&messages[i].msg_hdr);
        bytes += messages[i].msg_len;
    }
    if (are_sent || !(flags & NOT_TAKEN))
        moved(fd, bytes, are_sent);
    return count;
}

#define RECVMMSG(name, time)                                                                                           \
    int name(int fd, struct mmsghdr *messages, unsigned count, int flags, time *timeout)                               \
    {                                                                                                                  \
        return moved_messages(fd, messages, NEXT(name)(fd, messages, count, flags, timeout), flags, false);            \
    }

#define SENDMMSG(name)                                                                                                 \
    int name(int fd, struct mmsghdr *messages, unsigned count, int flags)                                              \
    {                                                                                                                  \
        return moved_messages(fd, messages, NEXT(name)(fd, messages, count, flags), flags, true);                      \
    }

RECVMMSG(recvmmsg, struct timespec)
SENDMMSG(sendmmsg)

/*
 * A blocking call that takes as long as the transfer leaves no time for samples, so it is made in parts. MSG_MORE makes
 * the segments those of one call. If a part moves less than it should, the call ends with what was moved, as one call
 * does. Once something was moved, the end comes without a signal. A part waits only where it sends something first:
 * otherwise the error that ends it would be lost. If another thread closes the descriptor, one call keeps its
 * connection: so no part may go to the connection that has the number next.
 */
RARE static ssize_t send_in_parts(int fd, const char *data, size_t bytes, int flags)
{
    uint32_t use = descriptor_use(fd);
    int error = errno;
    size_t done = 0;
    bool waits = true;

    do {
        bool last = bytes - done <= PART_BYTES;
        size_t want = last ? bytes - done : PART_BYTES;
        int how = flags | (last ? 0 : MSG_MORE) | (done ? MSG_NOSIGNAL : 0) | (waits ? 0 : MSG_DONTWAIT);
        ssize_t part = sent(fd, NEXT(send)(fd, data + done, want, how));
        bool full = part < (ssize_t)want;

        if (full && waits)
            return ended(done, part, error);
        done += part > 0 ? (size_t)part : 0;
        waits = full;
    } while (done < bytes && send_goes_on(fd, use, waits));
    return ended(done, 0, error);
}

RARE static ssize_t write_much(int fd, const void *data, size_t bytes)
{
    if (bytes <= CALL_MOST && sends_in_parts(fd))
        return send_in_parts(fd, data, bytes, 0);
    return sent(fd, NEXT(write)(fd, data, bytes));
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    if (bytes > PART_BYTES)
        return write_much(fd, data, bytes);
    return sent(fd, NEXT(write)(fd, data, bytes));
}

RARE static ssize_t send_much(int fd, const void *data, size_t bytes, int flags)
{
    if (!(flags & ~MSG_NOSIGNAL) && bytes <= CALL_MOST && sends_in_parts(fd))
        return send_in_parts(fd, data, bytes, flags);
    return sent(fd, NEXT(send)(fd, data, bytes, flags));
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    if (bytes > PART_BYTES)
        return send_much(fd, data, bytes, flags);
    return sent(fd, NEXT(send)(fd, data, bytes, flags));
}

SENDS(writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
SENDS(sendto, (int fd, const void *data, size_t bytes, int flags, __CONST_SOCKADDR_ARG peer, socklen_t length),
      fd, data, bytes, flags, peer, length)
SENDS(sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)

/*
 * As send_in_parts(), but the kernel moves the offset on, and one call keeps its file, too. The kernel itself sends a
 * file in parts: a reset between two of them is lost there, too, and raises a signal.
 *
 * A program may ask for all that a file holds without knowing how much it is (busybox). The kernel moves CALL_MOST of
 * it, and refuses what would end beyond the largest offset (rw_verify_area()). A call for 0 bytes tells whether the
 * offset is readable.
 */
#define SENDFILE(name, offset_type)                                                                                    \
    RARE static ssize_t name##_much(int out, int in, offset_type *offset, size_t bytes)                                \
    {                                                                                                                  \
        bool in_parts = sends_in_parts(out);                                                                           \
        struct file_id file;                                                                                           \
        int error = errno;                                                                                             \
        size_t done = 0, most = bytes;                                                                                 \
        uint32_t use;                                                                                                  \
                                                                                                                       \
        if (in_parts && bytes > CALL_MOST) {                                                                           \
            in_parts = bytes <= SSIZE_MAX && offset && NEXT(name)(out, in, offset, 0) == 0 &&                          \
                       *offset >= 0 && bytes <= (uint64_t)(INT64_MAX - *offset);                                       \
            most = CALL_MOST;                                                                                          \
            errno = error;                                                                                             \
        }                                                                                                              \
        if (!in_parts)                                                                                                 \
            return sent(out, NEXT(name)(out, in, offset, bytes));                                                      \
        use = descriptor_use(out);                                                                                     \
        file = file_id_of(in);                                                                                         \
        do {                                                                                                           \
            size_t want = most - done < PART_BYTES ? most - done : PART_BYTES;                                         \
            ssize_t part = sent(out, NEXT(name)(out, in, offset, want));                                               \
                                                                                                                       \
            if (part < (ssize_t)want)                                                                                  \
                return ended(done, part, error);                                                                       \
            done += (size_t)part;                                                                                      \
        } while (done < most && descriptor_use(out) == use && is_file(in, file));                                      \
        return ended(done, 0, error);                                                                                  \
    }                                                                                                                  \
    ssize_t name(int out, int in, offset_type *offset, size_t bytes)                                                   \
    {                                                                                                                  \
        if (bytes > PART_BYTES)                                                                                        \
            return name##_much(out, in, offset, bytes);                                                                \
        return sent(out, NEXT(name)(out, in, offset, bytes));                                                          \
    }

SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes, unsigned flags)
{
    return received(in, sent(out, NEXT(splice)(in, in_offset, out, out_offset, bytes, flags)), 0);
}

/* ------------------------------------------------------------------------------------- waits */

#define WAITS(name, parameters, ...)                                                                                   \
    int name parameters                                                                                                \
    {                                                                                                                  \
        if (!NEXT(name))                                                                                               \
            return run_not_here();                                                                                     \
        before_wait();                                                                                                 \
        return NEXT(name)(__VA_ARGS__);                                                                                \
    }

WAITS(poll, (struct pollfd *fds, nfds_t count, int timeout), fds, count, timeout)
WAITS(__poll_chk, (struct pollfd *fds, nfds_t count, int timeout, size_t room), fds, count, timeout, room)
WAITS(ppoll, (struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals),
      fds, count, timeout, signals)
WAITS(__ppoll_chk, (struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
                    size_t room), fds, count, timeout, signals, room)
WAITS(select, (int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *timeout),
      count, reads, writes, others, timeout)
WAITS(pselect, (int count, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *timeout,
                const sigset_t *signals), count, reads, writes, others, timeout, signals)
WAITS(epoll_wait, (int fd, struct epoll_event *events, int room, int timeout), fd, events, room, timeout)
WAITS(epoll_pwait, (int fd, struct epoll_event *events, int room, int timeout, const sigset_t *signals),
      fd, events, room, timeout, signals)
WAITS(epoll_pwait2, (int fd, struct epoll_event *events, int room, const struct timespec *timeout,
                    const sigset_t *signals), fd, events, room, timeout, signals)

/* ------------------------------------------------------------------------------ this process */

/*
 * Calls that can set a filter of system calls; others only ask what the kernel knows. A filter may kill the process for
 * a call that the program does not make itself, so this object makes none from then on.
 */
static bool filters(unsigned long operation, unsigned long flags, unsigned long filter)
{
    return operation == SECCOMP_SET_MODE_STRICT ? !flags && !filter : operation == SECCOMP_SET_MODE_FILTER && filter;
}

static bool filters_by_prctl(unsigned long option, unsigned long mode, unsigned long filter)
{
    return option == PR_SET_SECCOMP && (mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && filter));
}

#define PRCTL(name)                                                                                                    \
    int name(int option, ...)                                                                                          \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        unsigned long a[4];                                                                                            \
                                                                                                                       \
        va_start(list, option);                                                                                        \
        for (int i = 0; i < 4; i++)                                                                                    \
            a[i] = va_arg(list, unsigned long);                                                                        \
        va_end(list);                                                                                                  \
        if (filters_by_prctl((unsigned long)option, a[0], a[1]))                                                       \
            run_end();                                                                                                 \
        return NEXT(name)(option, a[0], a[1], a[2], a[3]);                                                             \
    }

PRCTL(prctl)

long syscall(long number, ...)
{
    bool begun = false;
    va_list list;
    long a[6], result;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if ((number == SYS_seccomp && filters((unsigned long)a[0], (unsigned long)a[1], (unsigned long)a[2])) ||
        (number == SYS_prctl && filters_by_prctl((unsigned long)a[0], (unsigned long)a[1], (unsigned long)a[2])))
        run_end();
    if (number == SYS_close) /* as libuv does */
        on_close((int)a[0]);
    if (number == SYS_close_range && closes((unsigned)a[0], (unsigned)a[1], (unsigned)a[2]))
        on_close_range((unsigned)a[0], (unsigned)a[1]);
    if (number == SYS_execve || number == SYS_execveat)
        begun = run_exec();
    result = NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    run_exec_failed(begun);
    return result;
}

#define EXIT(name)                                                                                                     \
    void name(int status)                                                                                              \
    {                                                                                                                  \
        run_end();                                                                                                     \
        NEXT(name)(status);                                                                                            \
        __builtin_unreachable();                                                                                       \
    }

EXIT(_exit)
EXIT(_Exit)

/* -------------------------------------------------------------------------- times of 64 bits */

/* On a machine of 32 bits, a program that is compiled with _TIME_BITS=64, as Debian 13's for armhf are, calls these. */
#if __TIMESIZE == 32
FCNTL(__fcntl_time64)
OPTIONS(__setsockopt64, __getsockopt64)
RECVMSG(__recvmsg64)
RECVMMSG(__recvmmsg64, void)
SENDS(__sendmsg64, (int fd, const struct msghdr *message, int flags), fd, message, flags)
SENDMMSG(__sendmmsg64)
WAITS(__ppoll64, (struct pollfd *fds, nfds_t count, const void *timeout, const sigset_t *signals),
      fds, count, timeout, signals)
WAITS(__ppoll64_chk, (struct pollfd *fds, nfds_t count, const void *timeout, const sigset_t *signals, size_t room),
      fds, count, timeout, signals, room)
WAITS(__select64, (int count, fd_set *reads, fd_set *writes, fd_set *others, void *timeout),
      count, reads, writes, others, timeout)
WAITS(__pselect64, (int count, fd_set *reads, fd_set *writes, fd_set *others, const void *timeout,
                    const sigset_t *signals), count, reads, writes, others, timeout, signals)
WAITS(__epoll_pwait2_time64, (int fd, struct epoll_event *events, int room, const void *timeout,
                             const sigset_t *signals), fd, events, room, timeout, signals)
PRCTL(__prctl_time64)
#endif

/* A sanitizer that tracks the program's memory would have to be told of what is done here. */
static bool has_sanitizer(void)
{
    return dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__hwasan_init") ||
           dlsym(RTLD_DEFAULT, "__msan_init") || dlsym(RTLD_DEFAULT, "__tsan_init");
}

__attribute__((constructor)) static void begin(void)
{
    struct run_settings settings;

    run_next_find();
    if (!run_is_glibc() || has_sanitizer() || self_is_filtered())
        return;
    run_settings_read(secure_getenv(RUN_VARIABLE), &settings);
    run_begin(&settings);
}

__attribute__((destructor)) static void end(void)
{
    run_end();
}
