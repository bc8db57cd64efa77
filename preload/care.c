/* SPDX-License-Identifier: MIT */
#include "care.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <autobuf/autobuf.h>

#include "descriptors.h"
#include "next.h"
#include "report.h"
#include "self.h"
#include "tend.h"

void care_moved(int fd, uint64_t bytes, bool sent)
{
    struct place *place = descriptor_tcp(fd);

    if (place && place_counts(place, bytes, sent))
        tend_reached(fd, place);
}

void care_ending(int fd)
{
    struct place *place = self_settings.report ? descriptor_tcp(fd) : NULL;

    care_waits();
    if (place)
        tend_ending(fd, place);
}

/* Whether a connection is looked after, and its calls block without a bound: the time of this option would begin anew in each part. */
static bool blocks_for_ever(int fd, int option)
{
    struct place *place = descriptor_tcp(fd);
    struct timeval timeout = {0, 0};
    socklen_t length = sizeof timeout;
    int flags;

    if (!place || atomic_load_explicit(&place->mark_bytes, memory_order_relaxed) == UINT64_MAX)
        return false;
    flags = NEXT(fcntl)(fd, F_GETFL);
    return flags >= 0 && !(flags & O_NONBLOCK) && NEXT(getsockopt)(fd, SOL_SOCKET, option, &timeout, &length) == 0 &&
           !timeout.tv_sec && !timeout.tv_usec;
}

static bool has_set(int fd, int option)
{
    int value = 0;
    socklen_t length = sizeof value;

    return NEXT(getsockopt)(fd, SOL_SOCKET, option, &value, &length) == 0 && value;
}

/* What comes in the queue of errors looks like a failure to poll(), and a call does not end for it. */
static bool tells_beside(int fd)
{
    return has_set(fd, SO_TIMESTAMPING) || has_set(fd, SO_ZEROCOPY);
}

bool care_wants_parts(int fd)
{
    int error = errno;
    bool wants = blocks_for_ever(fd, SO_SNDTIMEO) && !tells_beside(fd);

    errno = error;
    return wants;
}

/* A part that began after the connection has failed, or that waited and sent nothing, would take the error away. */
bool care_goes_on(int fd, uint32_t use, bool full)
{
    struct pollfd until = {.fd = fd, .events = full ? POLLOUT : 0};
    int error = errno;
    bool ends = care_use(fd) != use;

    if (!ends && full)
        care_waits();
    if (!ends)
        ends = (NEXT(poll)(&until, 1, full ? -1 : 0) < 0 && errno == EINTR) || until.revents & ~POLLOUT;
    errno = error;
    return !ends && care_use(fd) == use;
}

struct care_file care_file_of(int fd)
{
    struct care_file file = {0, 0};
    struct stat64 now;
    int error = errno;

    if (fstat64(fd, &now) == 0)
        file = (struct care_file){now.st_dev, now.st_ino};
    errno = error;
    return file;
}

bool care_is_file(int fd, struct care_file file)
{
    struct care_file now = care_file_of(fd);

    return now.dev == file.dev && now.ino == file.ino;
}

/* kTLS does not say how much there is to read; with urgent data in line, where a call ends is not seen. */
bool care_wants_parts_of_read(int fd)
{
    char protocol[16] = "";
    socklen_t length = sizeof protocol - 1;
    int error = errno, bytes;
    bool wants = blocks_for_ever(fd, SO_RCVTIMEO) && !tells_beside(fd) && !has_set(fd, SO_OOBINLINE) &&
                 ioctl(fd, FIONREAD, &bytes) == 0 &&
                 (NEXT(getsockopt)(fd, IPPROTO_TCP, TCP_ULP, protocol, &length) < 0 || !protocol[0]);

    errno = error;
    return wants;
}

/* So much can be read before the end, or before urgent data. */
static int readable_bytes(int fd)
{
    int bytes;

    return ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

bool care_more_comes(int fd, uint32_t use)
{
    struct pollfd until = {.fd = fd, .events = POLLIN | POLLPRI};
    int error = errno, ready;
    bool more = readable_bytes(fd) > 0;

    if (!more && care_use(fd) == use) { /* a part that began now, with nothing to read, would take the error away that ends it */
        care_waits();
        ready = NEXT(poll)(&until, 1, -1);
        more = ready > 0 ? readable_bytes(fd) > 0 : errno != EINTR;
    }
    errno = error;
    return more && care_use(fd) == use;
}

/* No signal handler runs until all is forgotten that the parent did. Nor is anything, where all care has ended. */
static void forked(void)
{
    sigset_t all, before;

    if (!self_acted_before_fork())
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    self_forked();
    run_report_forget();
    tend_forked();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void care_begin(const struct run_settings *settings)
{
    self_begin(settings);
    if (settings->report)
        run_report_begin();
    if (!autobuf_is_off() && pthread_atfork(self_forking, self_fork_over, forked) == 0)
        self_turn(true);
}

bool care_replacing(void)
{
    struct stay stay;

    if (!self_acts() || !self_is_owner() || !self_enter(&stay))
        return false;
    self_turn(false); /* no other thread opens a flow now */
    tend_pause();
    self_leave(&stay);
    return true;
}

void care_not_replaced(bool begun)
{
    if (begun)
        self_turn(true);
}

void care_end(void)
{
    struct stay stay;

    /* First whether there is anything to end: a filter of system calls may be there already. */
    if (!self_acts() || !self_is_owner() || !self_enter(&stay))
        return;
    tend_end();
    if (self_settings.report)
        run_report_write();
    self_turn(false);
    self_leave(&stay);
}
