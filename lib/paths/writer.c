/* SPDX-License-Identifier: MIT */
/* What is written: a new store, one entry into a store, a report to the daemon. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BATCH_RECORDS 256U /* for one write */
#define OWN_MAX 4096U /* entries of the user's own store: 750 KB */
#define DAEMON "/run/autobufd/learned.sock"

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
        memcpy(strrchr(w->fresh, '.'), ".new", sizeof ".new");
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
        return errno == EACCES ? 0 : -errno; /* a folder may be writable, and not readable */
    if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS) /* some file systems cannot */
        error = -errno;
    close(fd);
    return error;
}

static int finish_file(struct ab_paths_writer *w)
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
    int error = finish_file(w);

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

/* The entry that is dropped if one of a user's is added to too many, none that was set by hand. UINT64_MAX: none. */
static uint64_t oldest(const struct autobuf_paths *old, bool adds, uint64_t now_s)
{
    uint64_t learned_s = UINT64_MAX, found = UINT64_MAX, count = ab_paths_count(old);

    for (uint64_t at = 0; adds && count >= OWN_MAX && at < count; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (ab_paths_at(old, at, &entry) < 0 || entry.method == AUTOBUF_METHOD_GIVEN)
            continue;
        if (entry.learned_s > now_s + AB_PATHS_AHEAD_S) /* by a clock that was ahead */
            return at;
        if (entry.learned_s < learned_s) {
            learned_s = entry.learned_s;
            found = at;
        }
    }
    return found;
}

/*
 * The latest time at which an entry was learned at least a day ago; 0: none. If the clock jumps ahead, valid entries
 * seem expired; so only those are dropped that have expired by this time, too.
 */
static uint64_t certainly_past_s(const struct autobuf_paths *old, uint64_t now_s)
{
    uint64_t past_s = 0, count = ab_paths_count(old);

    for (uint64_t at = 0; at < count; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (ab_paths_at(old, at, &entry) == 0 && entry.learned_s < now_s && now_s - entry.learned_s >= AB_PATHS_AHEAD_S)
            past_s = ab_max(past_s, entry.learned_s);
    }
    return past_s;
}

/* A learned entry that may have expired makes room for a new one of the same remote prefix. */
static bool is_dropped(const struct autobuf_paths_entry *entry, const struct autobuf_paths_entry *fresh,
                       uint64_t past_s, uint64_t now_s)
{
    return entry->expires_s <= past_s || (entry->expires_s <= now_s && entry->method != AUTOBUF_METHOD_GIVEN &&
                                          ab_prefix_same(&entry->remote, &fresh->remote));
}

/* Writes the old entries and the new one, which replaces none that was set by hand unless it was, too. */
static int merge(struct ab_paths_writer *writer, const struct autobuf_paths *old, uint64_t skip,
                 const struct autobuf_paths_entry *fresh, uint64_t now_s)
{
    uint64_t count = ab_paths_count(old), past_s = certainly_past_s(old, now_s);
    bool added = false;
    int error = 0;

    for (uint64_t at = 0; at < count && error == 0; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
        int order;

        if (at == skip || ab_paths_at(old, at, &entry) < 0 || is_dropped(&entry, fresh, past_s, now_s))
            continue; /* the clock may be behind */
        order = ab_paths_compare(fresh, &entry);
        if (!added && order <= 0) {
            bool stays = order == 0 && entry.method == AUTOBUF_METHOD_GIVEN && fresh->method != AUTOBUF_METHOD_GIVEN;

            error = ab_paths_add(writer, stays ? &entry : fresh);
            added = true;
        }
        if (order && error == 0) {
            error = ab_paths_add(writer, &entry);
            if (error == -EINVAL) /* of a damaged store: out of order, or there twice */
                error = 0;
        }
    }
    return added || error < 0 ? error : ab_paths_add(writer, fresh);
}

/* Whether it may be a store's beginning, or nothing: what a crash leaves of a file may be zeros. */
static bool may_be_store(const char *name)
{
    static const uint8_t nothing[sizeof ab_paths_magic];
    uint8_t begins[sizeof ab_paths_magic] = {0};
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    ssize_t got = fd < 0 ? -1 : read(fd, begins, sizeof begins);

    if (fd >= 0)
        close(fd);
    return got >= 0 &&
           (memcmp(begins, ab_paths_magic, (size_t)got) == 0 || memcmp(begins, nothing, sizeof nothing) == 0);
}

int ab_paths_set_aside(const char *name)
{
    static const char end[] = ".damaged";
    char *to;

    if (!may_be_store(name))
        return AUTOBUF_E_DAMAGED;
    to = calloc(1, strlen(name) + sizeof end);
    if (!to)
        return -ENOMEM;
    strcpy(to, name);
    strcat(to, end);
    if (faccessat(AT_FDCWD, to, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        (void)rename(name, to);
    free(to);
    return 0;
}

int autobuf_paths_keep(const char *file, const struct autobuf_paths_entry *theirs, uint64_t now_s, uint32_t flags)
{
    struct autobuf_paths_entry entry;
    struct ab_paths_writer *writer = NULL;
    struct autobuf_paths *old = NULL;
    struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT;
    const char *name = file ? file : ab_paths_own();
    bool adds;
    int error;

    if (!ab_struct_in(&entry, sizeof entry, theirs) || ab_paths_check(&entry) < 0)
        return -EINVAL;
    if (!name)
        return -ENOENT;
    error = ab_paths_write(&writer, file, flags);
    if (error == 0)
        error = autobuf_paths_open(&old, name);
    if (writer && error == -ENOENT)
        error = 0;
    if (writer && error == AUTOBUF_E_DAMAGED) /* is replaced; one of a later version is not, nor what is no store */
        error = ab_paths_set_aside(name);
    adds = !file && ab_paths_get(old, &entry, &known) == -ENOENT;
    if (error == 0)
        error = merge(writer, old, oldest(old, adds, now_s), &entry, now_s);
    autobuf_paths_close(old);
    if (error == 0)
        return ab_paths_commit(writer);
    ab_paths_abort(writer);
    return error;
}

static const char *daemon_at = DAEMON;

void ab_paths_report_to(const char *file)
{
    daemon_at = file ? file : DAEMON;
}

int ab_paths_report(const struct autobuf_paths_entry *entry)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];
    int bytes = autobuf_paths_entry_encode(entry, message, sizeof message), fd, error = 0;

    if (bytes < 0 || strlen(daemon_at) >= sizeof to.sun_path)
        return -EINVAL;
    if (ab_store_is_named())
        return -ENOENT;
    memcpy(to.sun_path, daemon_at, strlen(daemon_at) + 1);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (sendto(fd, message, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to) < 0)
        error = -errno;
    close(fd);
    return error;
}
