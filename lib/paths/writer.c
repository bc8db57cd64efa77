/* SPDX-License-Identifier: MIT */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store.h"

#define BATCH_RECORDS 256U /* for one write */

struct ab_paths_writer {
    struct ab_paths_head head;
    int lock; /* descriptor; it is locked for as long as it is open */
    int fd;   /* the new file */
    int error; /* of a write */
    uint32_t flags;
    uint32_t same_remote; /* records with the last one's remote prefix */
    uint32_t gathered;
    uint8_t last[AB_PATHS_KEY_BYTES];
    uint8_t records[BATCH_RECORDS * AB_PATHS_RECORD_BYTES];
    char file[PATH_MAX];
    char fresh[PATH_MAX]; /* the new file, until it is renamed */
};

/*
 * Whether this user may trust a lock file. Root gives one that it made in another user's folder of the host's store to
 * that user, who could not lock it otherwise.
 */
static bool lock_is_trusted(int fd, const char *file)
{
    uid_t keeper = ab_store_keeper(file);
    struct stat lock;

    if (fstat(fd, &lock) < 0 || !S_ISREG(lock.st_mode) || lock.st_nlink != 1)
        return false;
    if (keeper && !lock.st_uid && !geteuid() && fchown(fd, keeper, (gid_t)-1) < 0)
        return false;
    return !lock.st_uid || lock.st_uid == geteuid() || lock.st_uid == keeper;
}

/* Opens FILE.lock, which is never removed: another writer may wait at it. */
static int open_lock(const char *name, const char *file, uint32_t flags)
{
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);

    if (fd < 0)
        return -errno;
    if (!lock_is_trusted(fd, file)) {
        close(fd);
        return -EPERM;
    }
    while (flock(fd, LOCK_EX | (flags & AUTOBUF_PATHS_TRY ? LOCK_NB : 0)) < 0) {
        int error = errno;

        if (error == EINTR)
            continue;
        close(fd);
        return error == EWOULDBLOCK ? -EAGAIN : -error;
    }
    return fd;
}

static int write_all(int fd, const uint8_t *bytes, size_t count, off_t at)
{
    if (!ab_file_may_have((uint64_t)at + count))
        return -EFBIG;
    while (count) {
        ssize_t wrote = pwrite(fd, bytes, count, at);

        if (wrote <= 0)
            return wrote < 0 ? -errno : -EIO;
        bytes += wrote;
        count -= (size_t)wrote;
        at += wrote;
    }
    return 0;
}

static int flush(struct ab_paths_writer *w)
{
    uint64_t before = w->head.count - w->gathered;

    if (w->error == 0 && w->gathered)
        w->error = write_all(w->fd, w->records, (size_t)w->gathered * AB_PATHS_RECORD_BYTES,
                             (off_t)(AB_PATHS_HEADER_BYTES + before * AB_PATHS_RECORD_BYTES));
    w->gathered = 0;
    return w->error;
}

/* Makes the last two folders of the user's own store: ~/.cache/autobuf. */
static void make_folders(char *file)
{
    char *slash = strrchr(file, '/'), *above;

    if (!slash)
        return;
    *slash = '\0';
    above = strrchr(file, '/');
    if (above && above != file) {
        *above = '\0';
        (void)mkdir(file, 0700); /* open() fails if it is missing */
        *above = '/';
    }
    (void)mkdir(file, 0700);
    *slash = '/';
}

int ab_paths_write(struct ab_paths_writer **writer, const char *file, uint32_t flags)
{
    const char *name = file ? file : ab_paths_own();
    struct ab_paths_writer *w;
    int error;

    *writer = NULL;
    if (flags & ~(AUTOBUF_PATHS_TRY | AUTOBUF_PATHS_NO_SYNC))
        return -EINVAL;
    if (!name)
        return -ENOENT;
    w = calloc(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    w->flags = flags;
    w->fd = w->lock = -1;
    /* First the lock's name, which is longer than that of the new file. */
    if (snprintf(w->file, sizeof w->file, "%s", name) >= (int)sizeof w->file ||
        snprintf(w->fresh, sizeof w->fresh, "%s.lock", name) >= (int)sizeof w->fresh) {
        ab_paths_abort(w);
        return -EINVAL;
    }
    if (!file)
        make_folders(w->fresh);
    error = w->lock = open_lock(w->fresh, name, flags);
    if (error >= 0) { /* a killed writer may have left one */
        snprintf(w->fresh, sizeof w->fresh, "%s.new", name);
        (void)unlink(w->fresh);
        w->fd = open(w->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        error = w->fd < 0 ? -errno : 0;
    }
    if (error < 0) {
        ab_paths_abort(w);
        return error;
    }
    *writer = w;
    return 0;
}

static void note(struct ab_paths_writer *w, const struct autobuf_paths_entry *entry)
{
    uint32_t bit = ab_paths_length_bit(entry->remote.version, entry->remote.bits);

    w->head.lengths[bit / 8] |= (uint8_t)(1U << bit % 8);
    w->head.local |= entry->local.version || entry->device[0];
    if (entry->method == AUTOBUF_METHOD_GIVEN) /* nothing repeats it after a crash of the host */
        w->flags &= ~AUTOBUF_PATHS_NO_SYNC;
    w->head.count++;
    w->gathered++;
}

int ab_paths_add(struct ab_paths_writer *w, const struct autobuf_paths_entry *entry)
{
    uint32_t same_remote;
    uint8_t *record;

    if (w->error < 0 || (w->gathered == BATCH_RECORDS && flush(w) < 0))
        return w->error;
    record = w->records + (size_t)w->gathered * AB_PATHS_RECORD_BYTES;
    if (ab_paths_record_write(entry, record) < 0 || (w->head.count && memcmp(record, w->last, sizeof w->last) <= 0))
        return -EINVAL;
    same_remote = memcmp(record, w->last, AB_PATHS_REMOTE_BYTES) == 0 ? w->same_remote + 1 : 1;
    if (same_remote > AB_PATHS_SAME_REMOTE || w->head.count == AB_PATHS_COUNT_MOST)
        return -E2BIG;
    w->same_remote = same_remote;
    memcpy(w->last, record, sizeof w->last);
    note(w, entry);
    return 0;
}

/* Makes the rename survive a crash of the host. Cuts the name. */
static int sync_folder(char *file)
{
    char *slash = strrchr(file, '/');
    int fd, error = 0;

    if (slash)
        slash[1] = '\0';
    fd = open(slash ? file : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS) /* some file systems cannot */
        error = -errno;
    close(fd);
    return error;
}

static int finish(struct ab_paths_writer *w)
{
    uint8_t header[AB_PATHS_HEADER_BYTES];
    int error = flush(w);

    ab_paths_head_write(&w->head, header);
    if (error == 0)
        error = write_all(w->fd, header, sizeof header, 0);
    if (error == 0 && !(w->flags & AUTOBUF_PATHS_NO_SYNC) && fsync(w->fd) < 0)
        error = -errno;
    if (error == 0) { /* a network file system may report ENOSPC only now */
        error = close(w->fd) < 0 ? -errno : 0;
        w->fd = -1;
    }
    if (error == 0 && rename(w->fresh, w->file) < 0)
        error = -errno;
    if (error < 0)
        return error;
    w->fresh[0] = '\0';
    return w->flags & AUTOBUF_PATHS_NO_SYNC ? 0 : sync_folder(w->file);
}

int ab_paths_commit(struct ab_paths_writer *w)
{
    int error = finish(w);

    ab_paths_abort(w);
    return error;
}

void ab_paths_abort(struct ab_paths_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->lock >= 0) {
        if (w->fresh[0])
            unlink(w->fresh);
        (void)flock(w->lock, LOCK_UN); /* a forked child may have the descriptor, too */
        close(w->lock);
    }
    free(w);
}
