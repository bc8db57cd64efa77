/* SPDX-License-Identifier: MIT */
/* The TCP sockets of another process. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_NAME_BYTES 16
#define PROCESS_ADDRESS_BYTES 64

struct process {
    pid_t pid;
    int pidfd;                     /* readable when the process has ended */
    char name[PROCESS_NAME_BYTES]; /* printable */
};

/* What the process calls itself, printable; "": it cannot be told. */
void process_name(pid_t pid, char name[PROCESS_NAME_BYTES]);

enum activity {
    PROCESS_WAITS, /* for something else; also where it cannot be told */
    PROCESS_RUNS,  /* a thread computes, or waits for a processor */
    PROCESS_DISK,  /* a thread waits for a disk, or a network file system */
};

/* What its first threads do just now. */
enum activity process_activity(pid_t pid);

/* A descriptor that is readable when the process has ended. -ESRCH: there is none; -ENOSYS: before Linux 5.6. */
int process_find(pid_t pid);

/*
 * Finds the process, and moves this program into its network namespace, whose limits hold for its sockets. -ESRCH:
 * there is no such process; -ENOSYS: before Linux 5.6; -EPERM: another network namespace, which needs CAP_SYS_ADMIN.
 */
int process_open(pid_t pid, struct process *process);

/* The inode of the socket that a descriptor in a folder /proc/PID/fd is; 0: it is none. */
uint32_t process_socket(int folder, const char *name);

/* Finds the descriptors of the process that are sockets: writes at most cap of them, and returns how many there are. */
int process_sockets(const struct process *process, int *fds, size_t cap);

/*
 * Duplicates a descriptor of the process that pidfd is of. Close the duplicate at once: the connection stays open as
 * long as it is held. -EBADF: the descriptor is not open there (any more); -ENOTSOCK: it is no socket; -EPERM: not
 * permitted; -ESRCH: the process has ended.
 */
int process_borrow(pid_t pid, int pidfd, int fd);

/*
 * Closes the duplicate. If its owner has closed the connection in between, this is the last close, and would wait
 * as long as the owner asked for (SO_LINGER). A timer (SIGALRM, whose handler it sets) ends the wait.
 */
void process_give_back(int copy);

/* Whether an error of these, or of a step of a flow, says that the connection, or its process, has ended. */
bool process_is_over(int error);

/* "192.0.2.1:80", "[2001:db8::1]:80": of version 4 or 6. */
void process_address(unsigned version, const void *address, unsigned port, char text[PROCESS_ADDRESS_BYTES]);

/* "10.0.0.1:7500 -> 10.0.0.2:40000" of a connected socket. */
void process_addresses(int fd, char local[PROCESS_ADDRESS_BYTES], char peer[PROCESS_ADDRESS_BYTES]);

#endif
