/* SPDX-License-Identifier: MIT */
#include "owners.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_inode(const void *a, const void *b)
{
    uint32_t x = ((const struct wanted *)a)->inode, y = ((const struct wanted *)b)->inode;

    return (x > y) - (x < y);
}

/* The number of "socket:[123]"; 0: it is none. */
static uint32_t inode_of(int folder, const char *name)
{
    char target[32];
    ssize_t length = readlinkat(folder, name, target, sizeof target - 1);

    if (length < 9 || strncmp(target, "socket:[", 8) != 0)
        return 0;
    target[length] = '\0';
    return (uint32_t)strtoul(target + 8, NULL, 10);
}

/* What is looked for, and how much more may be looked at. */
struct search {
    struct wanted *wanted;
    size_t count, missing;
    size_t left; /* descriptors */
};

static void take(struct search *search, uint32_t inode, pid_t pid, int fd)
{
    struct wanted key = {.inode = inode}, *one;

    one = bsearch(&key, search->wanted, search->count, sizeof *search->wanted, by_inode);
    if (!one || one->pid)
        return;
    one->pid = pid;
    one->fd = fd;
    search->missing--;
}

/* Takes what a process has of the wanted sockets, from a place in its folder on. 0: it has no more; else where to go on. */
static long ask_process(struct search *search, pid_t pid, long from)
{
    const struct dirent *entry;
    char path[32];
    DIR *folder;
    long at = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    if (!folder)
        return 0; /* it has ended, or may not be asked */
    if (from)
        seekdir(folder, from);
    while (search->missing && (entry = readdir(folder)) != NULL) {
        uint32_t inode = entry->d_name[0] == '.' ? 0 : inode_of(dirfd(folder), entry->d_name);

        if (inode)
            take(search, inode, pid, atoi(entry->d_name));
        if (search->left-- > 1)
            continue;
        search->left = 0;
        at = telldir(folder);
        break;
    }
    closedir(folder);
    return at;
}

static void remember(struct owners *owners, pid_t pid)
{
    for (unsigned i = 0; i < OWNERS_RECENT; i++)
        if (owners->recent[i] == pid)
            return;
    owners->recent[owners->next++ % OWNERS_RECENT] = pid;
}

/* The walk through /proc goes on where the last one ended. Returns whether it was one from beginning to end. */
static bool ask_all(struct owners *owners, struct search *search)
{
    const struct dirent *entry = NULL;
    DIR *folder = opendir("/proc");
    bool whole = !owners->at && !owners->at_fd;
    long at = owners->at;

    if (!folder)
        return false;
    if (at)
        seekdir(folder, at);
    while (search->missing && search->left && (entry = readdir(folder)) != NULL) {
        pid_t pid = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? atoi(entry->d_name) : 0;
        size_t missing = search->missing;

        owners->at_fd = pid ? ask_process(search, pid, pid == owners->at_pid ? owners->at_fd : 0) : 0;
        owners->at_pid = pid;
        if (search->missing < missing)
            remember(owners, pid);
        if (!owners->at_fd)
            at = telldir(folder);
    }
    closedir(folder);
    owners->at = at;
    if (!search->missing || !entry)
        owners->at = owners->at_fd = 0;
    return whole && !entry;
}

bool owners_find(struct owners *owners, struct wanted *wanted, size_t count, size_t most)
{
    struct search search = {wanted, count, count, most / 2};

    qsort(wanted, count, sizeof *wanted, by_inode);
    for (unsigned i = 0; i < OWNERS_RECENT && search.missing && search.left; i++)
        if (owners->recent[i])
            (void)ask_process(&search, owners->recent[i], 0);
    search.left += most / 2;
    return !search.missing || ask_all(owners, &search) || !search.missing;
}

void owners_unit(pid_t pid, char unit[UNIT_BYTES])
{
    char path[32], text[4096];
    const char *last;
    ssize_t length;
    int fd;

    unit[0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return;
    text[length] = '\0';
    last = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/"); /* version 2; before it there may be lines of version 1 */
    if (!last || !strchr(last + 1, '\n'))
        return;
    last += *last == '\n';
    text[(size_t)(last - text) + strcspn(last, "\n")] = '\0';
    last = strrchr(last, '/') + 1;
    if (strlen(last) < UNIT_BYTES)
        strcpy(unit, last);
}
