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

/* Takes what a process has of the wanted sockets. Returns how many. */
static size_t ask_process(pid_t pid, struct wanted *wanted, size_t count)
{
    const struct dirent *entry;
    size_t found = 0;
    char path[32];
    DIR *folder;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    if (!folder)
        return 0; /* it has ended, or may not be asked */
    while ((entry = readdir(folder)) != NULL) {
        struct wanted key = {.inode = entry->d_name[0] == '.' ? 0 : inode_of(dirfd(folder), entry->d_name)}, *one;

        one = key.inode ? bsearch(&key, wanted, count, sizeof *wanted, by_inode) : NULL;
        if (!one || one->pid)
            continue;
        one->pid = pid;
        one->fd = atoi(entry->d_name);
        found++;
    }
    closedir(folder);
    return found;
}

static void remember(struct owners *owners, pid_t pid)
{
    for (unsigned i = 0; i < OWNERS_RECENT; i++)
        if (owners->recent[i] == pid)
            return;
    owners->recent[owners->next++ % OWNERS_RECENT] = pid;
}

static size_t ask_all(struct owners *owners, struct wanted *wanted, size_t count, size_t missing)
{
    const struct dirent *entry;
    DIR *folder = opendir("/proc");
    size_t found = 0;

    while (folder && found < missing && (entry = readdir(folder)) != NULL) {
        pid_t pid = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? atoi(entry->d_name) : 0;
        size_t here = pid ? ask_process(pid, wanted, count) : 0;

        if (here)
            remember(owners, pid);
        found += here;
    }
    if (folder)
        closedir(folder);
    return found;
}

size_t owners_find(struct owners *owners, struct wanted *wanted, size_t count)
{
    size_t found = 0;

    qsort(wanted, count, sizeof *wanted, by_inode);
    for (unsigned i = 0; i < OWNERS_RECENT && found < count; i++)
        if (owners->recent[i])
            found += ask_process(owners->recent[i], wanted, count);
    return found < count ? found + ask_all(owners, wanted, count, count - found) : found;
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
