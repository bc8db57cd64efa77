/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "../lib/base/address.h"
#include "../lib/kernel/proc.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* the same on every architecture, as all numbers since 424 are */
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define THREADS_MOST 64   /* that are looked at: a look must cost little */
#define LINGER_US 20000 /* that a close may wait */

static void proc_path(pid_t pid, const char *file, char path[64])
{
    snprintf(path, 64, "/proc/%d/%s", (int)pid, file);
}

/* A name is what the process calls itself: anything. */
void process_name(pid_t pid, char name[PROCESS_NAME_BYTES])
{
    char path[64];

    proc_path(pid, "comm", path);
    ab_proc_text(path, name, PROCESS_NAME_BYTES);
    name[strcspn(name, "\n")] = 0;
    for (char *c = name; *c; c++) {
        if (!isprint((unsigned char)*c))
            *c = '?';
    }
}

enum activity process_activity(pid_t pid)
{
    enum activity found = PROCESS_WAITS;
    const struct dirent *entry;
    char path[64], text[256];
    DIR *folder;

    proc_path(pid, "task", path);
    folder = opendir(path);
    for (int i = 0; folder && i < THREADS_MOST && (entry = readdir(folder)) != NULL; i++) {
        const char *state;

        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, entry->d_name);
        ab_proc_text(path, text, sizeof text);
        state = strrchr(text, ')'); /* a name may have one, too */
        if (state && strncmp(state, ") D", 3) == 0)
            found = PROCESS_DISK;
        else if (state && strncmp(state, ") R", 3) == 0 && found == PROCESS_WAITS)
            found = PROCESS_RUNS;
    }
    if (folder)
        closedir(folder);
    return found;
}

static int enter_network(const struct process *process)
{
    struct stat here, there;
    char path[64];

    proc_path(process->pid, "ns/net", path);
    if (stat("/proc/self/ns/net", &here) < 0 || stat(path, &there) < 0)
        return 0; /* cannot be told; what is not permitted will show */
    if (here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        return 0;
    return setns(process->pidfd, CLONE_NEWNET) < 0 ? -errno : 0;
}

static void do_nothing(int signal)
{
    (void)signal;
}

int process_find(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (pidfd >= 0)
        return pidfd;
    return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno; /* a thread's number is no process's */
}

int process_open(pid_t pid, struct process *process)
{
    int error;

    *process = (struct process){.pid = pid, .pidfd = process_find(pid)};
    if (process->pidfd < 0)
        return process->pidfd;
    process_name(pid, process->name);
    error = enter_network(process);
    if (error < 0)
        close(process->pidfd);
    return error;
}

uint32_t process_socket(int folder, const char *name)
{
    char target[32];
    ssize_t length = readlinkat(folder, name, target, sizeof target - 1);

    if (length < 9 || strncmp(target, "socket:[", 8) != 0)
        return 0;
    target[length] = '\0';
    return (uint32_t)strtoul(target + 8, NULL, 10);
}

int process_sockets(const struct process *process, int *fds, size_t cap)
{
    const struct dirent *entry;
    char path[64];
    size_t count = 0;
    DIR *folder;

    proc_path(process->pid, "fd", path);
    folder = opendir(path);
    if (!folder)
        return errno == ENOENT ? -ESRCH : -errno;
    while ((entry = readdir(folder)) != NULL) {
        if (!process_socket(dirfd(folder), entry->d_name))
            continue;
        if (count < cap)
            fds[count] = atoi(entry->d_name);
        count++;
    }
    closedir(folder);
    return (int)count;
}

/*
 * Whether the descriptor is no socket, for sure: closing a copy of another file may ask its file system, which may be a
 * user's.
 */
static bool is_no_socket(pid_t pid, int fd)
{
    char name[32], path[64], target[16];
    ssize_t length;

    snprintf(name, sizeof name, "fd/%d", fd);
    proc_path(pid, name, path);
    length = readlink(path, target, sizeof target);
    return length >= 0 && (length < 8 || strncmp(target, "socket:[", 8) != 0);
}

int process_borrow(pid_t pid, int pidfd, int fd)
{
    int copy;

    if (is_no_socket(pid, fd))
        return -ENOTSOCK;
    copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    return copy < 0 ? -errno : copy;
}

void process_give_back(int copy)
{
    const struct itimerval soon = {{0, LINGER_US}, {0, LINGER_US}}, never = {{0, 0}, {0, 0}};
    struct sigaction interrupt = {.sa_handler = do_nothing}; /* without SA_RESTART */

    sigaction(SIGALRM, &interrupt, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    close(copy);
    setitimer(ITIMER_REAL, &never, NULL);
}

void process_address(unsigned version, const void *address, unsigned port, char text[PROCESS_ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";

    inet_ntop(version == 4 ? AF_INET : AF_INET6, address, host, sizeof host);
    snprintf(text, PROCESS_ADDRESS_BYTES, version == 4 ? "%s:%u" : "[%s]:%u", host, port);
}

/* "?" where there is no address. ask: getsockname() or getpeername(). */
static void address_text(int fd, int ask(int, struct sockaddr *, socklen_t *), char text[PROCESS_ADDRESS_BYTES])
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    const void *bytes;
    size_t count;

    (void)ask(fd, (struct sockaddr *)&address, &len);
    bytes = ab_address_bytes(&address, &count);
    strcpy(text, "?");
    if (count) /* the port is at the same place in both families */
        process_address(count == 4 ? 4 : 6, bytes, ntohs(((const struct sockaddr_in *)&address)->sin_port), text);
}

void process_addresses(int fd, char local[PROCESS_ADDRESS_BYTES], char peer[PROCESS_ADDRESS_BYTES])
{
    address_text(fd, getsockname, local);
    address_text(fd, getpeername, peer);
}

bool process_is_over(int error)
{
    return error == -EBADF || error == -ENOTSOCK || error == -EOPNOTSUPP || error == -ENOTCONN || error == -ESTALE ||
           error == -ESRCH;
}
