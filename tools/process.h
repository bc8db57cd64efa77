/* SPDX-License-Identifier: MIT */
/* The TCP sockets of another process. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>
#include <sys/types.h>

#define PROCESS_NAME_BYTES 16
#define PROCESS_ADDRESS_BYTES 64

struct process {
    pid_t pid;
    int pidfd;                     /* readable when the process has ended */
    char name[PROCESS_NAME_BYTES]; /* printable */
};

/*
 * Finds it, and moves this program into its network namespace, whose limits are those that hold for its
 * sockets. -ESRCH: there is none; -ENOSYS: before Linux 5.6; -EPERM: another network namespace, which
 * needs CAP_SYS_ADMIN.
 */
int process_open(pid_t pid, struct process *process);

/* Its descriptors that are sockets: writes at most cap of them, and returns how many there are. */
int process_sockets(const struct process *process, int *fds, size_t cap);

/*
 * A duplicate of one of its descriptors, to be given back at once: a connection lasts as long as it is
 * held. -EBADF: not open there (any more); -EPERM: not permitted; -ESRCH: the process has ended.
 */
int process_borrow(const struct process *process, int fd);

/*
 * Closes the duplicate. Where its owner has closed the connection meanwhile this is the last close, and would
 * wait as long as the owner said (SO_LINGER): a timer (SIGALRM, whose handler process_open() sets) ends that.
 */
void process_give_back(int copy);

/* "10.0.0.1:7500 -> 10.0.0.2:40000" of a connected socket. */
void process_addresses(int fd, char local[PROCESS_ADDRESS_BYTES], char peer[PROCESS_ADDRESS_BYTES]);

#endif
