/* SPDX-License-Identifier: MIT */
#include "owners.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../lib/kernel/proc.h"
#include "../array.h"

#define FIRST_FEW 64U
#define RECENT 16U /* searches ago */
/* How much of the way to give up it is that a process was asked from its first descriptor to its last. */
#define WHOLE 1U
#define WHOLE_AT_ONCE OWNERS_NONE

static int by_inode(const void *a, const void *b)
{
    uint32_t x = ((const struct wanted *)a)->inode, y = ((const struct wanted *)b)->inode;

    return (x > y) - (x < y);
}

/* What is looked for, and how much more may be looked at. */
struct search {
    struct wanted *wanted;
    size_t count, missing;
    size_t left; /* descriptors */
};

void owners_unit(pid_t pid, char unit[UNIT_BYTES])
{
    char path[32], text[4096];
    const char *last;

    unit[0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    ab_proc_text(path, text, sizeof text);
    /* version 2; before it there may be lines of version 1 */
    last = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    if (!last || !strchr(last + 1, '\n'))
        return;
    last += *last == '\n';
    text[(size_t)(last - text) + strcspn(last, "\n")] = '\0';
    last = strrchr(last, '/') + 1;
    if (strlen(last) < UNIT_BYTES)
        strcpy(unit, last);
}

static void take(struct search *search, uint32_t inode, pid_t pid, int fd)
{
    struct wanted key = {.inode = inode}, *one;

    one = bsearch(&key, search->wanted, search->count, sizeof *search->wanted, by_inode);
    if (!one || one->owner.pid)
        return;
    one->owner.pid = pid;
    one->owner.fd = fd;
    process_name(pid, one->owner.program);
    owners_unit(pid, one->owner.unit);
    search->missing--;
}

/*
 * Takes what a process has of the wanted sockets, from a place in its folder on, and looks at so many descriptors at
 * most. 0: it has no more; else where to go on.
 */
static long ask_process(struct search *search, struct owners_process *process, long from, size_t most)
{
    size_t missing = search->missing;
    const struct dirent *entry;
    char path[32];
    DIR *folder;
    long at = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)process->pid);
    folder = opendir(path);
    if (!folder)
        return 0; /* it has ended, or may not be asked */
    if (from)
        seekdir(folder, from);
    most = most < search->left ? most : search->left;
    while (search->missing && (entry = readdir(folder)) != NULL) {
        uint32_t inode = entry->d_name[0] == '.' ? 0 : process_socket(dirfd(folder), entry->d_name);

        if (inode)
            take(search, inode, process->pid, atoi(entry->d_name));
        search->left--;
        if (--most)
            continue;
        at = telldir(folder);
        break;
    }
    closedir(folder);
    if (search->missing < missing)
        process->found = process->sampled;
    return at;
}

/* ------------------------------------------------------------------------------- processes */

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct owners_process *)a)->pid, y = ((const struct owners_process *)b)->pid;

    return (x > y) - (x < y);
}

/* Of each user first those that owned something lately, then those whose turn is longest ago. */
static int by_user(const void *a, const void *b)
{
    const struct owners_process *x = a, *y = b;

    if (x->user != y->user)
        return x->user > y->user ? 1 : -1;
    if (x->recent != y->recent)
        return x->recent ? -1 : 1;
    return x->sampled != y->sampled ? (x->sampled > y->sampled ? 1 : -1) : by_pid(a, b);
}

/* Another process, of which nothing is known. NULL: there is no memory. */
static struct owners_process *add(struct owners *owners, pid_t pid)
{
    if (!array_grow(&owners->processes, owners->count, &owners->room, sizeof *owners->processes))
        return NULL;
    owners->processes[owners->count] = (struct owners_process){.pid = pid};
    return &owners->processes[owners->count++];
}

/* The processes of now, in any order. What is known of one stays. Those for which there is no memory are left out. */
static void list(struct owners *owners)
{
    size_t known = owners->count, kept = 0;
    const struct dirent *entry;
    DIR *folder = opendir("/proc");

    if (known)
        qsort(owners->processes, known, sizeof *owners->processes, by_pid);
    while (folder && (entry = readdir(folder)) != NULL) {
        struct owners_process key = {.pid =
                                         entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? atoi(entry->d_name) : 0},
                              *one;
        struct stat is;

        if (!key.pid || fstatat(dirfd(folder), entry->d_name, &is, 0) < 0)
            continue;
        one = known ? bsearch(&key, owners->processes, known, sizeof key, by_pid) : NULL;
        if (!one)
            one = add(owners, key.pid);
        if (!one)
            break;
        one->user = is.st_uid;
        one->listed = owners->searches;
        one->recent = one->found && owners->searches - one->found <= RECENT;
    }
    if (folder)
        closedir(folder);
    for (size_t i = 0; i < owners->count; i++)
        if (owners->processes[i].listed == owners->searches)
            owners->processes[kept++] = owners->processes[i];
    owners->count = kept;
}

/* --------------------------------------------------------------------------------- a search */

/* So many of them, from the first on, are of the same user. */
static size_t count_user(const struct owners *owners, size_t first)
{
    size_t count = 1;

    while (first + count < owners->count && owners->processes[first + count].user == owners->processes[first].user)
        count++;
    return count;
}

/* Whether a socket of this user is looked for. */
static bool is_wanted(const struct search *search, uid_t user)
{
    for (size_t i = 0; i < search->count; i++)
        if (!search->wanted[i].owner.pid && search->wanted[i].user == user)
            return true;
    return false;
}

/* Of those that have more descriptors than the first few, the one whose turn it is; NULL: there is none. */
static struct owners_process *next_to_dig(struct owners_process *processes, size_t count)
{
    struct owners_process *next = NULL;

    for (size_t i = 0; i < count; i++)
        if (processes[i].at && (!next || processes[i].dug < next->dug))
            next = &processes[i];
    return next;
}

static void asked_whole(const struct owners *owners, struct owners_process *process)
{
    process->whole = process->begun == owners->searches ? WHOLE_AT_ONCE : WHOLE;
    process->at = 0;
}

/* The first few descriptors of each process, which is all that most of them have, then the others. */
static void ask_user(struct owners *owners, struct search *search, struct owners_process *processes, size_t count,
                     size_t most)
{
    struct owners_process *one;

    search->left = (most + 1) / 2;
    for (size_t i = 0; i < count && search->missing && search->left; i++) {
        long at;

        one = &processes[i];
        one->sampled = owners->searches;
        if (!one->at)
            one->begun = owners->searches;
        at = ask_process(search, one, 0, FIRST_FEW);
        if (!at && search->missing)
            asked_whole(owners, one);
        else if (!one->at)
            one->at = at;
    }
    search->left += most / 2;
    while (search->missing && search->left && (one = next_to_dig(processes, count)) != NULL) {
        one->dug = ++owners->digs;
        one->at = ask_process(search, one, one->at, most / 4 + 1);
        if (!one->at && search->missing)
            asked_whole(owners, one);
    }
}

/* Those users of whom something is looked for, or all others: each may cost as much as any. */
static void ask_users(struct owners *owners, struct search *search, const bool *wanted, bool which, size_t most)
{
    size_t users = 0;

    for (size_t i = 0; i < owners->count; i += count_user(owners, i))
        users += wanted[i] == which;
    for (size_t i = 0; i < owners->count && search->missing; i += count_user(owners, i))
        if (wanted[i] == which)
            ask_user(owners, search, &owners->processes[i], count_user(owners, i), most / users + 1);
}

/* Whether all were asked, by several searches or by this one alone. */
static void count_wholes(struct owners *owners)
{
    uint32_t least = WHOLE_AT_ONCE;

    for (size_t i = 0; i < owners->count; i++)
        least = owners->processes[i].whole < least ? owners->processes[i].whole : least;
    owners->wholes += owners->count ? least : 0;
    for (size_t i = 0; i < owners->count && least; i++)
        owners->processes[i].whole = 0;
}

void owners_find(struct owners *owners, struct wanted *wanted, size_t count, size_t most)
{
    struct search search = {wanted, count, count, 0};
    bool *wanted_of; /* at the first process of each user */

    owners->searches++;
    list(owners);
    wanted_of = calloc(owners->count + 1, sizeof *wanted_of);
    if (!count || !owners->count || !wanted_of) {
        free(wanted_of);
        return;
    }
    qsort(wanted, count, sizeof *wanted, by_inode);
    qsort(owners->processes, owners->count, sizeof *owners->processes, by_user);
    for (size_t i = 0; i < owners->count; i += count_user(owners, i))
        wanted_of[i] = is_wanted(&search, owners->processes[i].user);
    ask_users(owners, &search, wanted_of, true, most / 2);
    ask_users(owners, &search, wanted_of, false, most / 2);
    count_wholes(owners);
    free(wanted_of);
}

size_t lap_first(struct lap *lap, const struct wanted *wanted, size_t count)
{
    size_t first = 0;

    while (first < count && wanted[first].inode < lap->next_inode)
        first++;
    if (first < count && wanted[first].inode <= lap->last_inode)
        return first;
    *lap = (struct lap){.last_inode = wanted[count - 1].inode};
    return 0;
}
