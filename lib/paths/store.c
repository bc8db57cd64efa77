/* SPDX-License-Identifier: MIT */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_FOLDER "/var/lib/autobuf"
#define HOST_STORE HOST_FOLDER "/paths"
#define COPIED_MAX_BYTES 65536U /* a smaller store is copied, so that changes of the file do no harm */

struct autobuf_paths {
    struct ab_snapshot snapshot;
    void *bytes;
    size_t size;
    bool mapped;
};

/* Set before main(), and read without a lock. "": there is none. */
static struct {
    bool only_own; /* AUTOBUF_PATHS is set */
    size_t base_bytes; /* of own: HOME or XDG_CACHE_HOME */
    char own[PATH_MAX];
} files;

/* -------------------------------------------------------------------------------- the files */

void ab_store_environment(const char *paths, const char *cache_home, const char *home)
{
    /* The XDG base directory specification ignores a relative one. */
    bool by_cache = cache_home && cache_home[0] == '/';
    const char *base = by_cache ? cache_home : home && home[0] == '/' ? home : NULL;
    int length = 0;

    files.only_own = paths && paths[0];
    if (files.only_own)
        length = strcmp(paths, "off") == 0 ? 0 : snprintf(files.own, sizeof files.own, "%s", paths);
    else if (base)
        length = snprintf(files.own, sizeof files.own, "%s/%sautobuf/paths", base, by_cache ? "" : ".cache/");
    if (length <= 0 || (size_t)length >= sizeof files.own)
        files.own[0] = '\0';
    files.base_bytes = base ? strlen(base) : 0;
    while (files.base_bytes > 1 && base[files.base_bytes - 1] == '/')
        files.base_bytes--;
}

__attribute__((constructor(101))) static void find_own_store(void)
{
    ab_store_environment(secure_getenv("AUTOBUF_PATHS"), secure_getenv("XDG_CACHE_HOME"), secure_getenv("HOME"));
}

/*
 * Whether a folder is this user's, and the link that leads there this user's or root's. others: they
 * may write to it; the user's own group, which usually has no other member, may anyway.
 */
static bool is_own_folder(const char *name, bool others)
{
    uid_t user = geteuid();
    struct stat found;

    if (lstat(name, &found) < 0)
        return errno == ENOENT; /* or will be */
    if (S_ISLNK(found.st_mode) &&
        ((found.st_uid && found.st_uid != user) || stat(name, &found) < 0))
        return false;
    if (found.st_gid == getegid())
        found.st_mode &= ~(mode_t)S_IWGRP;
    return S_ISDIR(found.st_mode) && found.st_uid == user && (others || !(found.st_mode & (S_IWGRP | S_IWOTH)));
}

/*
 * Whether this user may keep a store there. After sudo -E root has another user's HOME: a file of root there would not
 * be that user's, and a link can lead anywhere. So for root each folder must be root's.
 */
static bool folders_are_ours(void)
{
    size_t bytes = strlen(files.own) + 1;
    char *name = calloc(1, bytes);
    bool ours = name;

    for (size_t i = 1; ours && i < bytes - 1; i++) {
        bool above = i < files.base_bytes;

        name[i - 1] = files.own[i - 1];
        if (files.own[i] == '/' && (!above || !geteuid()))
            ours = is_own_folder(name, above);
    }
    free(name);
    return ours;
}

const char *ab_paths_own(void)
{
    return files.own[0] && (files.only_own || folders_are_ours()) ? files.own : NULL;
}

bool ab_store_is_named(void)
{
    return files.only_own;
}

uid_t ab_store_keeper(const char *file)
{
    struct stat folder;

    if (strcmp(file, HOST_STORE) != 0 || lstat(HOST_FOLDER, &folder) < 0 || !S_ISDIR(folder.st_mode) ||
        folder.st_mode & (S_IWGRP | S_IWOTH))
        return 0;
    return folder.st_uid;
}

/* ---------------------------------------------------------------------------------- opening */

/* A regular file that only this user, root and the keeper can have written. */
static int check(const struct stat *file, uid_t keeper)
{
    bool trusted = !file->st_uid || file->st_uid == geteuid() || file->st_uid == keeper;

    if (!S_ISREG(file->st_mode) || file->st_mode & (S_IWGRP | S_IWOTH) || !trusted)
        return -EPERM;
    if (file->st_size < (off_t)AB_PATHS_HEADER_BYTES || (uint64_t)file->st_size > SIZE_MAX)
        return AUTOBUF_E_DAMAGED;
    return 0;
}

static int copy(int fd, struct autobuf_paths *paths)
{
    size_t done = 0;

    paths->bytes = calloc(1, paths->size);
    if (!paths->bytes)
        return -ENOMEM;
    while (done < paths->size) {
        ssize_t got = read(fd, (uint8_t *)paths->bytes + done, paths->size - done);

        if (got <= 0)
            return got < 0 ? -errno : AUTOBUF_E_DAMAGED;
        done += (size_t)got;
    }
    return 0;
}

static int load(int fd, struct autobuf_paths *paths, uid_t keeper)
{
    struct stat file;
    int error = fstat(fd, &file) < 0 ? -errno : check(&file, keeper);

    if (error < 0)
        return error;
    paths->size = (size_t)file.st_size;
    if (paths->size <= COPIED_MAX_BYTES)
        return copy(fd, paths);
    paths->bytes = mmap(NULL, paths->size, PROT_READ, MAP_SHARED, fd, 0);
    if (paths->bytes == MAP_FAILED) {
        paths->bytes = NULL;
        return -errno;
    }
    paths->mapped = true;
    return 0;
}

static int open_file(struct autobuf_paths **out, const char *file)
{
    struct autobuf_paths *paths;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;

    if (fd < 0)
        return -errno;
    paths = calloc(1, sizeof *paths);
    error = paths ? load(fd, paths, ab_store_keeper(file)) : -ENOMEM;
    close(fd);
    if (error == 0)
        error = ab_snapshot_take(paths->bytes, paths->size, &paths->snapshot);
    if (error < 0) {
        autobuf_paths_close(paths);
        return error;
    }
    *out = paths;
    return 0;
}

int autobuf_paths_open(struct autobuf_paths **paths, const char *file)
{
    int host = -ENOENT, own = -ENOENT;
    const char *name;

    if (!paths)
        return -EINVAL;
    *paths = NULL;
    if (file)
        return open_file(paths, file);
    if (!files.only_own)
        host = open_file(paths, HOST_STORE);
    name = host < 0 ? ab_paths_own() : NULL;
    if (name)
        own = open_file(paths, name);
    if (host == 0 || own == 0)
        return 0;
    return host == -ENOENT ? own : host;
}

void autobuf_paths_close(struct autobuf_paths *paths)
{
    if (!paths)
        return;
    if (paths->mapped)
        munmap(paths->bytes, paths->size);
    else
        free(paths->bytes);
    free(paths);
}

/* ---------------------------------------------------------------------------------- looking */

uint64_t ab_paths_count(const struct autobuf_paths *paths)
{
    return paths ? paths->snapshot.head.count : 0;
}

bool ab_paths_are_local(const struct autobuf_paths *paths)
{
    return paths->snapshot.head.local;
}

int ab_paths_at(const struct autobuf_paths *paths, uint64_t at, struct autobuf_paths_entry *entry)
{
    return paths ? ab_snapshot_at(&paths->snapshot, at, entry) : -ENOENT;
}

int ab_paths_get(const struct autobuf_paths *paths, const struct autobuf_paths_entry *key,
                 struct autobuf_paths_entry *entry)
{
    return paths ? ab_snapshot_get(&paths->snapshot, key, entry) : -ENOENT;
}

int autobuf_paths_find(const struct autobuf_paths *paths, const struct autobuf_paths_query *theirs,
                       struct autobuf_paths_entry *entry)
{
    static const uint32_t intents = AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SCAVENGER | AUTOBUF_INTENT_SENDS |
                                    AUTOBUF_INTENT_RECEIVES;
    struct autobuf_paths_entry found;
    struct autobuf_paths_query wanted;
    struct ab_snapshot_query query = {.device = ""};
    int error;

    if (!paths || !entry || !ab_struct_in(&wanted, sizeof wanted, theirs) || wanted.intent & ~intents)
        return -EINVAL;
    error = ab_prefix_of(wanted.remote, wanted.remote_len, &query.remote);
    if (error == 0 && wanted.local)
        error = ab_prefix_of(wanted.local, wanted.local_len, &query.local);
    if (error < 0)
        return -EINVAL;
    if (wanted.device)
        query.device = wanted.device;
    query.intent = wanted.intent;
    query.now_s = wanted.now_s;
    error = ab_snapshot_find(&paths->snapshot, &query, &found);
    if (error < 0)
        return error;
    return ab_struct_out(entry, &found, sizeof found) ? 0 : -EINVAL;
}
