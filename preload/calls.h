/* SPDX-License-Identifier: MIT */
/*
 * What hooks.c tells of the program's calls, and asks about them. In a process that is left alone, each function here
 * does nothing and returns 0 or false. None changes errno.
 */
#ifndef RUN_CALLS_H
#define RUN_CALLS_H

#include "manage.h"

/* A blocking call that moves more than this is made in parts, so that the connection can be sampled between them. */
#define PART_BYTES ((size_t)512 * 1024)

/* Begins to act for this process. Called once, before main(). */
void run_begin(const struct run_settings *settings);

/* Ends it for good: the program is about to set a filter of system calls, or the process ends. */
void run_end(void);

/*
 * Before and after exec(). run_exec() undoes what is set for a time only, as a pacing rate is: nobody else would.
 * Returns false if there is nothing to undo. If exec() fails, run_exec_failed() gets that result and begins anew.
 */
bool run_exec(void);
void run_exec_failed(bool begun);

/* A descriptor came: from socket(), from accept(), as a duplicate, over a unix socket (SCM_RIGHTS). -1 is ignored. */
void on_socket(int fd, int domain, int type, int protocol);
void on_accept(int listener, int fd);
void on_dup(int fd, int copy);
void on_rights(const struct msghdr *message);

/* The descriptors first to last are about to be closed. */
void on_close_range(unsigned first, unsigned last);

/* One is; most of those that programs close are no connections. */
static inline void on_close(int fd)
{
    const struct place *place = place_of(fd);

    if (place && place_kind(place) != PLACE_OTHER)
        on_close_range((unsigned)fd, (unsigned)fd);
}

/* copy is about to become a duplicate of fd, if that is open. */
void on_dup2(int fd, int copy);

/* This number changes when the descriptor becomes one of another file. */
static inline uint32_t descriptor_use(int fd)
{
    const struct place *place = place_of(fd);

    return place ? atomic_load_explicit(&place->renewals, memory_order_relaxed) : 0;
}

/* The file that a descriptor is of, and whether it still is. */
struct file_id {
    dev_t dev;
    ino64_t ino;
};

struct file_id file_id_of(int fd);
bool is_file(int fd, struct file_id file);

/* Before connect(): measures the path if the settings allow it. */
void before_connect(int fd, const struct sockaddr *peer, socklen_t length);

/* connect() has succeeded, or is in progress: the kernel has read peer. */
void after_connect(int fd, const struct sockaddr *peer, socklen_t length);

typedef int set_option_fn(int fd, int level, int option, const void *value, socklen_t length);

/* Whether to withhold a size that the program sets from the kernel, because autotuning reaches more. */
bool withholds_size(set_option_fn *next, int fd, int option, const void *value, socklen_t length);

/* Returns true and what getsockopt() is to answer if the size was withheld. */
bool withheld_size(int fd, int option, uint32_t *sk_bytes);

/* The program has set a size with SO_SNDBUFFORCE or SO_RCVBUFFORCE. */
void on_forced_size(int fd, int option);

/*
 * The program has set TCP_WINDOW_CLAMP: its receive side is left to it from now on. Returns true if its SO_RCVBUF was
 * withheld: autotuning would then move the clamp. Setting option to value prevents that. It is the withheld SO_RCVBUF,
 * or, if the connection has moved data, SO_BUF_LOCK: what is in flight may need the larger buffer.
 */
bool on_window_clamp(int fd, int *option, int *value);

/* shutdown() is about to be called. */
void before_shutdown(int fd);

/* Whether to make a call in parts that sends more than PART_BYTES, or a recv() of more with MSG_WAITALL. */
bool sends_in_parts(int fd);
bool receives_in_parts(int fd);

/*
 * Between two parts; use is descriptor_use() before the first. full: waits for room, as send() would. Returns false if
 * the call would end here: the connection has failed, or a signal was handled. False also if the descriptor is of
 * another file now. An error of the connection stays for the program's next call.
 */
bool send_goes_on(int fd, uint32_t use, bool full);

/* The same for recv(). Waits for data. Returns false also at the end of the stream, and where urgent data come next. */
bool receive_goes_on(int fd, uint32_t use);

/* The program is about to wait: samples the connections that are due. Most programs have none. */
static inline void before_wait(void)
{
    if (__builtin_expect(atomic_load_explicit(&manage_next_ns, memory_order_relaxed) != AUTOBUF_NS_UNSET, 0))
        manage_due();
}

/* A call has moved this many bytes, perhaps of a connection. */
void on_moved(int fd, uint64_t bytes, bool sent);

/*
 * The same for each call of the program. Most are of a file, or of a connection that needs no sample, and end here.
 * Whether this object is to act at all is checked by the two functions that it calls.
 */
static inline void moved(int fd, int64_t bytes, bool sent)
{
    struct place *place;

    if (bytes <= 0)
        return;
    place = place_of(fd);
    if (place && place->generation == self_generation) {
        if (__builtin_expect(place_counts(place, (uint64_t)bytes, sent), 0))
            manage_reached(fd, place);
    } else if (place_kind(place) != PLACE_OTHER) {
        on_moved(fd, (uint64_t)bytes, sent);
    }
}

/* Which descriptors of this process are TCP sockets: descriptors.c. */
#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif

/* The place of a TCP socket; NULL: fd is something else, or this object does not act. */
struct place *descriptor_tcp(int fd);

/* SO_BUF_LOCK, as AUTOBUF_LOCK_* bits; 0 before Linux 5.15. Changes errno. */
uint32_t descriptor_locks(int fd);

/* Asks the kernel whether it is a TCP socket. Changes errno. */
bool descriptor_is_tcp(int fd);

#endif
