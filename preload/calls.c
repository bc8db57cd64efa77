/* SPDX-License-Identifier: MIT */
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <autobuf/autobuf.h>

#include "next.h"
#include "report.h"
#include "sizes.h"
#include "ssh2.h"

/* ------------------------------------------------------------------------------------- sizes */

static unsigned side_of(int option)
{
    return option == SO_SNDBUF ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV;
}

static void log_withheld(int fd, int option, int value, uint64_t reach)
{
    char line[128];

    snprintf(line, sizeof line, "fd %d: %s %d of the program is not set: autotuning reaches %llu bytes", fd,
             option == SO_SNDBUF ? "SO_SNDBUF" : "SO_RCVBUF", value, (unsigned long long)reach);
    autobuf_log_line(line);
}

/* Unlocks a size that another process set, or that the listener had. Returns whether autotuning has the buffer now. */
static bool unlock(int fd, const struct place *place, uint32_t side)
{
    bool given;

    if (place->flow || !(descriptor_locks(fd) & side))
        return true;
    if (!self_may_open())
        return false;
    given = autobuf_unlock(fd, side) >= 0;
    self_opened();
    return given;
}

/* This side is left to the program from now on. */
static void leave(struct place *place, uint32_t side)
{
    if (!(place->own & side))
        manage_restart(place);
    place->own |= (uint8_t)side;
}

static void note_set(struct place *place, uint32_t side)
{
    place->kept &= (uint8_t)~side;
    place->set |= (uint8_t)side;
}

/* false: the kernel cannot read it either. It is asked by an option that does not exist. */
static bool read_value(set_option_fn *next, int fd, const void *value, int *requested)
{
    int error = errno;
    bool readable = next(fd, SOL_SOCKET, INT_MAX, value, sizeof *requested) == 0 || errno != EFAULT;

    errno = error;
    if (readable)
        memcpy(requested, value, sizeof *requested);
    return readable;
}

/* Decides on a size that the program sets. Returns true if it is withheld. The caller holds the lock. */
static bool withhold(int fd, struct place *place, int option, int value, const struct autobuf_limits *limits)
{
    uint32_t side = side_of(option);
    uint64_t sk_bytes = run_size_stored(limits, side, value);

    if (!self_settings.keep_sizes && manage_is_enough(fd, sk_bytes))
        leave(place, side);
    if (self_settings.keep_sizes || place->own & side || sk_bytes >= run_size_reach(limits, side) ||
        !unlock(fd, place, side)) {
        note_set(place, side);
        return false;
    }
    place->kept |= (uint8_t)side;
    place->asked_bytes[option != SO_SNDBUF] = (uint32_t)sk_bytes;
    log_withheld(fd, option, value, option == SO_SNDBUF ? limits->tcp_wmem_max_bytes : limits->tcp_rmem_max_bytes);
    return true;
}

bool withholds_size(set_option_fn *next, int fd, int option, const void *value, socklen_t length)
{
    struct place *place = descriptor_tcp(fd);
    const struct autobuf_limits *limits = place ? self_limits() : NULL;
    struct stay stay;
    int requested;
    bool withheld = false;

    if (!limits || !value || length < sizeof requested || length > INT_MAX) /* the kernel refuses other lengths */
        return false;
    if (!self_is_owner() || !manage_lock(place, &stay))
        return false;
    if (descriptor_is_tcp(fd) && read_value(next, fd, value, &requested)) /* or the program gets the error */
        withheld = withhold(fd, place, option, requested, limits);
    manage_unlock(place, &stay);
    return withheld;
}

void on_forced_size(int fd, int option)
{
    struct place *place = descriptor_tcp(fd);
    struct stay stay;

    if (!place || !manage_lock(place, &stay))
        return;
    note_set(place, option == SO_SNDBUFFORCE ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV);
    manage_unlock(place, &stay);
}

bool on_window_clamp(int fd, int *option, int *value)
{
    struct place *place = descriptor_tcp(fd);
    struct stay stay;
    bool locks = false;

    if (!place || !self_is_owner() || !manage_lock(place, &stay))
        return false;
    if (descriptor_is_tcp(fd)) {
        leave(place, AUTOBUF_LOCK_RCV);
        locks = place->kept & AUTOBUF_LOCK_RCV;
        if (place_moved_bytes(place)) {
            *option = SO_BUF_LOCK;
            *value = (int)(descriptor_locks(fd) | AUTOBUF_LOCK_RCV);
        } else {
            *option = SO_RCVBUF;
            *value = (int)(place->asked_bytes[1] / 2);
            if (locks)
                note_set(place, AUTOBUF_LOCK_RCV);
        }
    }
    manage_unlock(place, &stay);
    return locks;
}

bool withheld_size(int fd, int option, uint32_t *sk_bytes)
{
    struct place *place = descriptor_tcp(fd);

    if (!place || !(place->kept & side_of(option)) || !descriptor_is_tcp(fd))
        return false; /* the C library may have closed it, as fclose() does */
    *sk_bytes = place->asked_bytes[option != SO_SNDBUF];
    return true;
}

/* ------------------------------------------------------------------------------- connections */

/* A program may call connect() again to learn the result. */
static bool connects_already(int fd)
{
    uint8_t state = TCP_CLOSE;
    socklen_t length = sizeof state;

    return NEXT(getsockopt)(fd, IPPROTO_TCP, TCP_INFO, &state, &length) == 0 && state != TCP_CLOSE;
}

static void measure(int fd, const struct place *place, const struct sockaddr *peer, socklen_t length)
{
    struct autobuf_options options = manage_options(place);
    struct stay stay;

    options.flags = 0;
    if (manage_leaves_all(place) || !options.limits || !self_enter(&stay))
        return;
    autobuf_tune(fd, peer, length, &options, NULL); /* a fork does not wait for it: its child may inherit the socket */
    self_leave(&stay);
}

void before_connect(int fd, const struct sockaddr *peer, socklen_t length)
{
    struct place *place = descriptor_tcp(fd);
    int error = errno;

    if (!place || connects_already(fd))
        return;
    if (self_settings.probe)
        measure(fd, place, peer, length);
    errno = error;
    place->began_ns = place->marked_ns = autobuf_now_ns();
}

void after_connect(int fd, const struct sockaddr *peer, socklen_t length)
{
    struct place *place = descriptor_tcp(fd);

    if (!place)
        return;
    if (self_settings.report && length <= sizeof place->peer)
        memcpy(&place->peer, peer, length);
    manage_connecting(fd, place);
}

void on_moved(int fd, uint64_t bytes, bool sent)
{
    struct place *place = descriptor_tcp(fd);

    if (place && place_counts(place, bytes, sent))
        manage_reached(fd, place);
}

void before_shutdown(int fd)
{
    struct place *place = self_settings.report ? descriptor_tcp(fd) : NULL;

    before_wait();
    if (place)
        manage_ending(fd, place);
}

/* ---------------------------------------------------------------------------- calls in parts */

/* Whether a connection may be managed, and its calls block without a timeout, which would begin anew in each part. */
static bool blocks_without_timeout(int fd, int option)
{
    struct place *place = descriptor_tcp(fd);
    struct timeval timeout = {0, 0};
    socklen_t length = sizeof timeout;
    int flags;

    if (!place || atomic_load_explicit(&place->mark_bytes, memory_order_relaxed) == UINT64_MAX)
        return false;
    if (!descriptor_is_tcp(fd)) /* closed and opened in a way that is not seen: a message must not be torn */
        return false;
    flags = NEXT(fcntl)(fd, F_GETFL);
    return flags >= 0 && !(flags & O_NONBLOCK) && NEXT(getsockopt)(fd, SOL_SOCKET, option, &timeout, &length) == 0 &&
           !timeout.tv_sec && !timeout.tv_usec;
}

/* The error queue may hold more than errors: poll() reports it as POLLERR, and a call does not end for it. */
static bool uses_error_queue(int fd)
{
    return run_option(fd, SO_TIMESTAMPING) > 0 || run_option(fd, SO_ZEROCOPY) > 0;
}

bool sends_in_parts(int fd)
{
    int error = errno;
    bool wants = blocks_without_timeout(fd, SO_SNDTIMEO) && !uses_error_queue(fd);

    errno = error;
    return wants;
}

/* A part that begins after the connection has failed, or that waits and sends nothing, would consume its error. */
bool send_goes_on(int fd, uint32_t use, bool full)
{
    struct pollfd until = {.fd = fd, .events = full ? POLLOUT : 0};
    int error = errno;
    bool ends = descriptor_use(fd) != use;

    if (!ends && full)
        before_wait();
    if (!ends)
        ends = (NEXT(poll)(&until, 1, full ? -1 : 0) < 0 && errno == EINTR) || until.revents & ~POLLOUT;
    errno = error;
    return !ends && descriptor_use(fd) == use;
}

struct file_id file_id_of(int fd)
{
    struct file_id file = {0, 0};
    struct stat64 now;
    int error = errno;

    if (fstat64(fd, &now) == 0)
        file = (struct file_id){now.st_dev, now.st_ino};
    errno = error;
    return file;
}

bool is_file(int fd, struct file_id file)
{
    struct file_id now = file_id_of(fd);

    return now.dev == file.dev && now.ino == file.ino;
}

/* FIONREAD does not say what can be read with kTLS, nor where urgent data end a call with SO_OOBINLINE. */
bool receives_in_parts(int fd)
{
    char protocol[16] = "";
    socklen_t length = sizeof protocol - 1;
    int error = errno, bytes;
    bool wants = blocks_without_timeout(fd, SO_RCVTIMEO) && !uses_error_queue(fd) &&
                 run_option(fd, SO_OOBINLINE) <= 0 && ioctl(fd, FIONREAD, &bytes) == 0 &&
                 (NEXT(getsockopt)(fd, IPPROTO_TCP, TCP_ULP, protocol, &length) < 0 || !protocol[0]);

    errno = error;
    return wants;
}

/* What can be read before the end of the stream, or before urgent data. */
static int readable_bytes(int fd)
{
    int bytes;

    return ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

bool receive_goes_on(int fd, uint32_t use)
{
    struct pollfd until = {.fd = fd, .events = POLLIN | POLLPRI};
    int error = errno, ready;
    bool more = readable_bytes(fd) > 0;

    if (!more && descriptor_use(fd) == use) { /* a part that began now would consume the error that ends it */
        before_wait();
        ready = NEXT(poll)(&until, 1, -1);
        more = ready > 0 ? readable_bytes(fd) > 0 : errno != EINTR;
    }
    errno = error;
    return more && descriptor_use(fd) == use;
}

/* ------------------------------------------------------------------------------ this process */

/* In a forked child: forgets what the parent does, before a signal handler can run. */
static void forked(void)
{
    sigset_t all, before;

    if (!self_acted_before_fork)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    self_forked();
    run_report_forget();
    manage_forked();
    run_ssh2_forked();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void run_begin(const struct run_settings *settings)
{
    self_begin(settings);
    run_report_begin();
    if (!autobuf_is_off() && pthread_atfork(self_forking, self_fork_over, forked) == 0)
        self_turn(true);
}

bool run_exec(void)
{
    struct stay stay;

    if (!self_acts() || !self_is_owner() || !self_enter(&stay))
        return false;
    self_turn(false); /* no other thread opens a flow from now on */
    manage_pause();
    self_leave(&stay);
    return true;
}

void run_exec_failed(bool begun)
{
    if (begun)
        self_turn(true);
}

void run_end(void)
{
    struct stay stay;

    /* Makes no system call if there is nothing to end: a filter may be set already. */
    if (!self_acts() || !self_is_owner() || !self_enter(&stay))
        return;
    self_forking(); /* no thread makes a call of ours under a filter that is set for all */
    manage_end();
    if (self_settings.report)
        run_report_write();
    self_turn(false);
    self_leave(&stay);
}
