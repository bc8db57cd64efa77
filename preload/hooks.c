/* SPDX-License-Identifier: MIT */
/*
 * What the program calls in place of the C library's functions. Each calls the next one with the same arguments and
 * returns its result; care.c then knows what came of it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "glibc.h"
#include "hooks.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2U
#endif

#define RARE __attribute__((noinline, cold)) /* so that the other calls need not keep their arguments */

/* ------------------------------------------------------------------------------- descriptors */

HOOK int socket(int domain, int type, int protocol)
{
    int fd = NEXT(socket)(domain, type, protocol);

    care_made(fd, domain, type, protocol);
    return fd;
}

HOOK int connect(int fd, __CONST_SOCKADDR_ARG peer, socklen_t length)
{
    int result;

    care_connecting(fd, peer.__sockaddr__, length);
    result = NEXT(connect)(fd, peer, length);
    if (result == 0 || errno == EINPROGRESS)
        care_connected(fd, peer.__sockaddr__, length);
    return result;
}

HOOK int accept(int listener, __SOCKADDR_ARG peer, socklen_t *length)
{
    int fd = NEXT(accept)(listener, peer, length);

    care_accepted(listener, fd);
    return fd;
}

HOOK int accept4(int listener, __SOCKADDR_ARG peer, socklen_t *length, int flags)
{
    int fd = NEXT(accept4)(listener, peer, length, flags);

    care_accepted(listener, fd);
    return fd;
}

HOOK int shutdown(int fd, int how)
{
    care_ending(fd);
    return NEXT(shutdown)(fd, how);
}

HOOK int close(int fd)
{
    care_closes(fd);
    return NEXT(close)(fd);
}

/* glibc 2.34 and 2.35 brought three of them. Where it has none, a program that looks for it finds this one. */
static int not_here(void)
{
    errno = ENOSYS;
    return -1;
}

/* Else it fails, or closes nothing yet. */
static bool closes(unsigned first, unsigned last, unsigned flags)
{
    return first <= last && !(flags & ~CLOSE_RANGE_UNSHARE);
}

HOOK int close_range(unsigned first, unsigned last, int flags);
HOOK int close_range(unsigned first, unsigned last, int flags)
{
    if (!NEXT(close_range))
        return not_here();
    if (closes(first, last, (unsigned)flags))
        care_closing(first, last);
    return NEXT(close_range)(first, last, flags);
}

HOOK void closefrom(int first);
HOOK void closefrom(int first)
{
    unsigned from = first < 0 ? 0 : (unsigned)first;

    care_closing(from, ~0U);
    if (NEXT(closefrom))
        NEXT(closefrom)(first);
    else
        NEXT(syscall)(SYS_close_range, (long)from, (long)~0U, 0L);
}

HOOK int dup(int fd)
{
    int copy = NEXT(dup)(fd);

    care_duplicated(fd, copy);
    return copy;
}

HOOK int dup2(int fd, int copy)
{
    care_replaces(fd, copy);
    copy = NEXT(dup2)(fd, copy);
    care_duplicated(fd, copy);
    return copy;
}

HOOK int dup3(int fd, int copy, int flags)
{
    if (!(flags & ~O_CLOEXEC))
        care_replaces(fd, copy);
    copy = NEXT(dup3)(fd, copy, flags);
    care_duplicated(fd, copy);
    return copy;
}

HOOK int fcntl(int fd, int command, ...)
{
    va_list arguments;
    void *argument;

    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return hook_fcntl(NEXT(fcntl), fd, command, argument);
}

HOOK int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    void *argument;

    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return hook_fcntl(NEXT(fcntl64), fd, command, argument);
}

/* ----------------------------------------------------------------------------------- options */

HOOK int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    return hook_setsockopt(NEXT(setsockopt), fd, level, option, value, length);
}

HOOK int getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    return hook_getsockopt(NEXT(getsockopt), fd, level, option, value, length);
}

/* -------------------------------------------------------------------------------------- data */

HOOK ssize_t read(int fd, void *data, size_t bytes)
{
    return received(fd, NEXT(read)(fd, data, bytes));
}

HOOK ssize_t readv(int fd, const struct iovec *parts, int count)
{
    return received(fd, NEXT(readv)(fd, parts, count));
}

/* The kernel ends a call there (MAX_RW_COUNT), and refuses one of more than SSIZE_MAX as a whole: it is not made in parts. */
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
    uint32_t use = care_use(fd);
    int error = errno;
    size_t done = 0;

    do {
        size_t want = bytes - done < CARE_PART_BYTES ? bytes - done : CARE_PART_BYTES;
        ssize_t part = received(fd, NEXT(recv)(fd, data + done, want, flags));

        if (part < (ssize_t)want)
            return ended(done, part, error);
        done += (size_t)part;
    } while (done < bytes && care_more_comes(fd, use));
    return ended(done, 0, error);
}

RARE static ssize_t receive_much(int fd, void *data, size_t bytes, int flags)
{
    if (flags == MSG_WAITALL && bytes <= CALL_MOST && care_wants_parts_of_read(fd))
        return receive_in_parts(fd, data, bytes, flags);
    return looked_at(fd, NEXT(recv)(fd, data, bytes, flags), flags);
}

HOOK ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    if (bytes > CARE_PART_BYTES)
        return receive_much(fd, data, bytes, flags);
    return looked_at(fd, NEXT(recv)(fd, data, bytes, flags), flags);
}

HOOK ssize_t recvfrom(int fd, void *data, size_t bytes, int flags, __SOCKADDR_ARG peer, socklen_t *length)
{
    return looked_at(fd, NEXT(recvfrom)(fd, data, bytes, flags, peer, length), flags);
}

HOOK ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    return hook_recvmsg(NEXT(recvmsg), fd, message, flags);
}

HOOK int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    return hook_received(fd, messages, NEXT(recvmmsg)(fd, messages, count, flags, timeout));
}

/* What calls of the C library become if they are compiled with -D_FORTIFY_SOURCE. */
HOOK ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room);
HOOK ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room)
{
    return received(fd, NEXT(__read_chk)(fd, data, bytes, room));
}

HOOK ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room, int flags);
HOOK ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room, int flags)
{
    if (bytes > CARE_PART_BYTES && bytes <= room)
        return receive_much(fd, data, bytes, flags);
    return looked_at(fd, NEXT(__recv_chk)(fd, data, bytes, room, flags), flags);
}

HOOK ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room, int flags, __SOCKADDR_ARG peer,
                            socklen_t *length);
HOOK ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room, int flags, __SOCKADDR_ARG peer,
                            socklen_t *length)
{
    return looked_at(fd, NEXT(__recvfrom_chk)(fd, data, bytes, room, flags, peer, length), flags);
}

/*
 * A blocking call that takes as long as the transfer leaves no time to look, so it is made in parts. MSG_MORE makes the
 * segments those of one call. It ends as one call does: if a part moves less than it should, with what was moved, and without
 * a signal once there is some. A part waits only where it sends something first: else an error that ends it would be lost. One
 * call keeps its connection though another thread closes the descriptor: so no part goes to the next one that has its number.
 */
RARE static ssize_t send_in_parts(int fd, const char *data, size_t bytes, int flags)
{
    uint32_t use = care_use(fd);
    int error = errno;
    size_t done = 0;
    bool waits = true;

    do {
        bool last = bytes - done <= CARE_PART_BYTES;
        size_t want = last ? bytes - done : CARE_PART_BYTES;
        int how = flags | (last ? 0 : MSG_MORE) | (done ? MSG_NOSIGNAL : 0) | (waits ? 0 : MSG_DONTWAIT);
        ssize_t part = sent(fd, NEXT(send)(fd, data + done, want, how));
        bool full = part < (ssize_t)want;

        if (full && waits)
            return ended(done, part, error);
        done += part > 0 ? (size_t)part : 0;
        waits = full;
    } while (done < bytes && care_goes_on(fd, use, waits));
    return ended(done, 0, error);
}

RARE static ssize_t write_much(int fd, const void *data, size_t bytes)
{
    if (bytes <= CALL_MOST && care_wants_parts(fd))
        return send_in_parts(fd, data, bytes, 0);
    return sent(fd, NEXT(write)(fd, data, bytes));
}

HOOK ssize_t write(int fd, const void *data, size_t bytes)
{
    if (bytes > CARE_PART_BYTES)
        return write_much(fd, data, bytes);
    return sent(fd, NEXT(write)(fd, data, bytes));
}

HOOK ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return sent(fd, NEXT(writev)(fd, parts, count));
}

RARE static ssize_t send_much(int fd, const void *data, size_t bytes, int flags)
{
    if (!(flags & ~MSG_NOSIGNAL) && bytes <= CALL_MOST && care_wants_parts(fd))
        return send_in_parts(fd, data, bytes, flags);
    return sent(fd, NEXT(send)(fd, data, bytes, flags));
}

HOOK ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    if (bytes > CARE_PART_BYTES)
        return send_much(fd, data, bytes, flags);
    return sent(fd, NEXT(send)(fd, data, bytes, flags));
}

HOOK ssize_t sendto(int fd, const void *data, size_t bytes, int flags, __CONST_SOCKADDR_ARG peer, socklen_t length)
{
    return sent(fd, NEXT(sendto)(fd, data, bytes, flags, peer, length));
}

HOOK ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return sent(fd, NEXT(sendmsg)(fd, message, flags));
}

HOOK int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return hook_sent(fd, messages, NEXT(sendmmsg)(fd, messages, count, flags));
}

/*
 * As send_in_parts(). The kernel moves the offset on; it makes parts of its own, and so loses a reset between two of them, and
 * raises a signal for it. One call keeps its file, too.
 *
 * A program may ask for all that a file holds without knowing how much it is (busybox). The kernel moves CALL_MOST of it, and
 * refuses what would end beyond the largest offset (rw_verify_area()). A call for nothing tells whether the offset can be read.
 */
#define SENDFILE(name, offset_type)                                                                                    \
    RARE static ssize_t name##_much(int out, int in, offset_type *offset, size_t bytes)                                \
    {                                                                                                                  \
        bool in_parts = care_wants_parts(out);                                                                         \
        struct care_file file;                                                                                         \
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
        use = care_use(out);                                                                                           \
        file = care_file_of(in);                                                                                       \
        do {                                                                                                           \
            size_t want = most - done < CARE_PART_BYTES ? most - done : CARE_PART_BYTES;                               \
            ssize_t part = sent(out, NEXT(name)(out, in, offset, want));                                               \
                                                                                                                       \
            if (part < (ssize_t)want)                                                                                  \
                return ended(done, part, error);                                                                       \
            done += (size_t)part;                                                                                      \
        } while (done < most && care_use(out) == use && care_is_file(in, file));                                       \
        return ended(done, 0, error);                                                                                  \
    }                                                                                                                  \
    HOOK ssize_t name(int out, int in, offset_type *offset, size_t bytes);                                             \
    HOOK ssize_t name(int out, int in, offset_type *offset, size_t bytes)                                              \
    {                                                                                                                  \
        if (bytes > CARE_PART_BYTES)                                                                                   \
            return name##_much(out, in, offset, bytes);                                                                \
        return sent(out, NEXT(name)(out, in, offset, bytes));                                                          \
    }

SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

HOOK ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes, unsigned flags)
{
    return received(in, sent(out, NEXT(splice)(in, in_offset, out, out_offset, bytes, flags)));
}

/* ------------------------------------------------------------------------------------- waits */

HOOK int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    care_waits();
    return NEXT(poll)(fds, count, timeout);
}

HOOK int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
    care_waits();
    return NEXT(ppoll)(fds, count, timeout, signals);
}

HOOK int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
HOOK int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
    care_waits();
    return NEXT(__poll_chk)(fds, count, timeout, room);
}

HOOK int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
                     size_t room);
HOOK int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
                     size_t room)
{
    care_waits();
    return NEXT(__ppoll_chk)(fds, count, timeout, signals, room);
}

HOOK int select(int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *timeout)
{
    care_waits();
    return NEXT(select)(count, reads, writes, others, timeout);
}

HOOK int pselect(int count, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *timeout,
                 const sigset_t *signals)
{
    care_waits();
    return NEXT(pselect)(count, reads, writes, others, timeout, signals);
}

HOOK int epoll_wait(int fd, struct epoll_event *events, int room, int timeout)
{
    care_waits();
    return NEXT(epoll_wait)(fd, events, room, timeout);
}

HOOK int epoll_pwait(int fd, struct epoll_event *events, int room, int timeout, const sigset_t *signals)
{
    care_waits();
    return NEXT(epoll_pwait)(fd, events, room, timeout, signals);
}

HOOK int epoll_pwait2(int fd, struct epoll_event *events, int room, const struct timespec *timeout,
                      const sigset_t *signals);
HOOK int epoll_pwait2(int fd, struct epoll_event *events, int room, const struct timespec *timeout,
                      const sigset_t *signals)
{
    if (!NEXT(epoll_pwait2))
        return not_here();
    care_waits();
    return NEXT(epoll_pwait2)(fd, events, room, timeout, signals);
}

/* ------------------------------------------------------------------------------ this process */

HOOK int prctl(int option, ...)
{
    va_list arguments;
    int result;

    va_start(arguments, option);
    result = hook_prctl(NEXT(prctl), option, arguments);
    va_end(arguments);
    return result;
}

HOOK long syscall(long number, ...)
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
        care_end();
    if (number == SYS_close) /* as libuv does */
        care_closes((int)a[0]);
    if (number == SYS_close_range && closes((unsigned)a[0], (unsigned)a[1], (unsigned)a[2]))
        care_closing((unsigned)a[0], (unsigned)a[1]);
    if (number == SYS_execve || number == SYS_execveat)
        begun = care_replacing();
    result = NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    care_not_replaced(begun);
    return result;
}

HOOK void _exit(int status)
{
    care_end();
    NEXT(_exit)(status);
    __builtin_unreachable();
}

HOOK void _Exit(int status)
{
    care_end();
    NEXT(_Exit)(status);
    __builtin_unreachable();
}

/* A sanitizer that keeps books of the program's memory would have to be told of what is done here. */
static bool has_sanitizer(void)
{
    return dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init") || dlsym(RTLD_DEFAULT, "__msan_init") ||
           dlsym(RTLD_DEFAULT, "__hwasan_init");
}

__attribute__((constructor)) static void begin(void)
{
    struct run_settings settings;

    run_next_find();
    if (!run_is_glibc() || has_sanitizer() || self_is_filtered())
        return;
    run_settings_read(secure_getenv(RUN_VARIABLE), &settings);
    care_begin(&settings);
}

__attribute__((destructor)) static void end(void)
{
    care_end();
}
