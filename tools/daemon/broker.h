/* SPDX-License-Identifier: MIT */
/*
 * What takes a privilege: to find the process that has a socket open, to borrow its descriptor, and to set on it what
 * only an administrator may. A process of its own, the broker, does it for the daemon, which has no capability from
 * then on, and which the kernel keeps from all that it does not need (confine()). The broker reads nothing but numbers
 * and names of the daemon and /proc, and believes none of them.
 *
 * Without broker_open() the calling process does it itself.
 */
#ifndef BROKER_H
#define BROKER_H

#include "owners.h"

#define BROKER_CONTROL_BYTES 16U /* of the name of a congestion control: TCP_CA_NAME_MAX */

/* Descriptors of memory that the kernel shares, and if there are none, why. */
enum { BROKER_TABLE, BROKER_RULES, BROKER_EVENTS, BROKER_MAPS };
#define BROKER_WHY_BYTES 256U

struct broker_maps {
    bool ready;
    int fds[BROKER_MAPS];
    char why[BROKER_WHY_BYTES];
};

/* Has the kernel do something, as kernel_load() does, for as long as the process lives. */
typedef void broker_load_fn(struct broker_maps *maps);

/*
 * Starts the broker, and gives up what it alone needs: capabilities and system calls. It ends with this process. If
 * load is not NULL, the broker calls it, and *maps are its maps. 1; 0: this process has no capability that is worth it;
 * -EIO: it is confined, and there is no broker; -ENOTSUP: built without libseccomp; other errors of confine() and
 * fork(2), after which this process does it all itself.
 */
int broker_open(broker_load_fn *load, struct broker_maps *maps);

/*
 * The same with a broker that was not started by this process, and which listens at that file:
 * broker_serve(). Other processes of this user cannot reach into this one any more. 0, or an error
 * after which nothing that takes a privilege can be done: -EIO: it does not serve this process;
 * errors of confine() and connect(2). loads: whether it is to call its load.
 */
int broker_join(const char *socket_file, bool loads, struct broker_maps *maps);

/*
 * Is the broker of the next process that connects to descriptor 3, a socket that listens, until that process ends. It
 * must be of the unit of systemd. 0; -EIO: it is not, or asks for nothing; errors of accept(2).
 */
int broker_serve(const char *unit, broker_load_fn *load);

/* Is readable when the broker has ended, without which nothing more can be done. -1: there is none. */
int broker_fd(void);

void broker_close(void);

/*
 * Borrows the descriptor. It is a TCP socket of this network namespace, and that one. Give it back at once:
 * process_give_back().
 * With a broker at most one is held, as LOAN_FD, and no data can be read from it or written to it. -ESTALE: there
 * it is another one by now; -ESRCH: its process has ended; -EPERM: not permitted; errors of pidfd_getfd(2).
 */
int broker_borrow(const struct owner *owner);

#define WANTED_MOST 65536U

/* As owners_find() of the broker's own struct owners, for at most so many. Returns its wholes. */
uint32_t broker_find(struct wanted *wanted, size_t count, size_t most);

#define RAISE_SIDES 2U /* the third values, up to which autotuning goes, 0: of net.ipv4.tcp_wmem, 1: of tcp_rmem */

/* As messages name it. */
extern const char *const raise_names[RAISE_SIDES];

/* The three values of a limit. 0; -EIO: /proc does not say. */
int limit_read(unsigned side, uint64_t values[static 3]);

/* A limit that is raised. */
struct raised {
    uint64_t was_bytes;
    uint64_t ours_bytes; /* 0: it is not raised */
};

/*
 * Raises it to bytes, which are at most twice what it is, or to most_bytes if these are fewer. Or puts it back, with
 * bytes 0. Takes CAP_NET_ADMIN in this network namespace. 0; -EBUSY: somebody else has changed it since, and it is left
 * to them; -EINVAL: that would not raise it, or by more; errors of open(2) and write(2).
 */
int raise_to(struct raised *raised, unsigned side, uint64_t bytes, uint64_t most_bytes);

/*
 * As raise_to(), with the share of tcp_mem that a forced buffer has as the most. The broker puts back what it has
 * raised when it ends. *raised: what is raised from now on.
 */
int broker_raise(unsigned side, uint64_t bytes, struct raised *raised);

/* Of a core, sweeps take one part in so many, samples another, searches through /proc a third, answers a fourth. */
#define COST_PART 40U

/* The processor time of this process and of its broker. */
uint64_t cost_cpu_ns(void);

/* When to do again what has taken processor time since then, which is added to its sum: in proportion to that. */
uint64_t cost_after(uint64_t now_ns, uint64_t began_cpu_ns, uint64_t least_ns, uint64_t *sum_ns);

/* SO_NETNS_COOKIE of this network namespace; 0: before Linux 5.14 it cannot be told. */
uint64_t broker_network(void);

/* ------------------------------------------------- what the two processes can still ask of the kernel: confine.c */

/* The descriptor of the one socket that a process that is confined may borrow. No other may be as high. */
#define LOAN_FD 1023

/* What it asks of its broker: this call, with a process, a descriptor there, and the two halves of a cookie. */
#define ASKS_FOR_LOAN SYS_pidfd_getfd

/* Whether this process has any of the capabilities of which the broker makes use. */
bool confine_is_worth_it(void);

/*
 * From now on this process can make the system calls that a daemon needs, and no others (-EPERM). Of the borrowed
 * socket it can read and set options, and close it. Who reads *listener (seccomp_unotify(2)) decides on ASKS_FOR_LOAN
 * and on options that only an administrator may set: SO_SNDBUFFORCE, SO_RCVBUFFORCE, and TCP_CONGESTION of the borrowed
 * one. Then it has no capability any more, but for those of root that concern files. 0; -ENOTSUP: built without
 * libseccomp, or the kernel has no such listener; -EBUSY: it has one already; -EIO: it is confined, and has its
 * capabilities; errors of seccomp(2).
 */
int confine(int *listener);

/* The same for the broker, which keeps three capabilities. 0, -errno. */
int confine_broker(void);

#endif
