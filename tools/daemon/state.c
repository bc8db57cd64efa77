/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/kernel/proc.h"
#include "../array.h"
#include "config.h"

#define HEAD_BYTES 128U
#define LINE_BYTES 192U
#define LINES_SPARE 64U /* of no use, and allowed to be there */
#define COUNT_MOST 1000000U

/* ------------------------------------------------------------------------------------ lines */

/* The first line: a file of another boot, or of another network namespace, says nothing of these sockets. */
static int head_of_now(char head[HEAD_BYTES])
{
    struct stat net;
    char boot[40];

    ab_proc_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (!boot[0] || stat("/proc/self/ns/net", &net) < 0)
        return -errno;
    boot[strcspn(boot, "\n")] = '\0';
    snprintf(head, HEAD_BYTES, "autobufd state 2 %s %" PRIuMAX "\n", boot, (uintmax_t)net.st_ino);
    return 0;
}

static size_t write_line(const struct noted *noted, char line[LINE_BYTES])
{
    const struct autobuf_settings *s = &noted->settings;

    return (size_t)snprintf(
        line, LINE_BYTES,
        "%" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %s\n",
        noted->cookie, s->locks, s->snd_buf_bytes, s->rcv_buf_bytes, s->pacing_byte_per_s, s->rcv_clamp_bytes,
        s->notsent_bytes, noted->own_byte_per_s, noted->control[0] ? noted->control : "-");
}

/* A line is one that write_line() writes. */
static bool read_line(const char *text, struct noted *noted)
{
    struct autobuf_settings *s = &noted->settings;
    char line[LINE_BYTES];

    *noted = (struct noted){.settings = AUTOBUF_SETTINGS_INIT};
    if (sscanf(text,
               "%" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu64
               " %15[a-zA-Z0-9_-]",
               &noted->cookie, &s->locks, &s->snd_buf_bytes, &s->rcv_buf_bytes, &s->pacing_byte_per_s,
               &s->rcv_clamp_bytes, &s->notsent_bytes, &noted->own_byte_per_s, noted->control) < 9)
        return false;
    if (strcmp(noted->control, "-") == 0)
        noted->control[0] = '\0';
    write_line(noted, line);
    return strcmp(text, line) == 0 && noted->cookie && !(s->locks & ~(AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV)) &&
           s->snd_buf_bytes && s->rcv_buf_bytes && s->snd_buf_bytes <= INT_MAX && s->rcv_buf_bytes <= INT_MAX &&
           s->rcv_clamp_bytes <= INT_MAX;
}

static size_t write_raised(const struct raised *raised, unsigned side, char line[LINE_BYTES])
{
    return (size_t)snprintf(line, LINE_BYTES, "raised %u %" PRIu64 " %" PRIu64 "\n", side, raised->was_bytes,
                            raised->ours_bytes);
}

/* A line is one that write_raised() writes; others change nothing. */
static void read_raised(struct state *state, const char *text)
{
    struct raised raised;
    unsigned side;
    char line[LINE_BYTES];

    if (sscanf(text, "raised %u %" SCNu64 " %" SCNu64, &side, &raised.was_bytes, &raised.ours_bytes) < 3 ||
        side >= RAISE_SIDES)
        return;
    write_raised(&raised, side, line);
    if (strcmp(text, line) == 0 && (!raised.ours_bytes || raised.was_bytes < raised.ours_bytes) &&
        raised.ours_bytes <= INT_MAX)
        state->raised[side] = raised;
}

/* ----------------------------------------------------------------------------------- memory */

static bool has_room(struct state *state)
{
    return state->count < COUNT_MOST && array_grow(&state->noted, state->count, &state->room, sizeof *state->noted);
}

static struct noted *find(const struct state *state, uint64_t cookie)
{
    size_t at = array_place(state->noted, state->count, sizeof *state->noted, cookie);

    return at < state->count && state->noted[at].cookie == cookie ? &state->noted[at] : NULL;
}

const struct noted *state_find(const struct state *state, uint64_t cookie)
{
    return find(state, cookie);
}

/* The newest of a socket counts. */
static bool put(struct state *state, const struct noted *noted)
{
    size_t at = array_place(state->noted, state->count, sizeof *state->noted, noted->cookie);

    if (!find(state, noted->cookie)) {
        if (!has_room(state))
            return false;
        memmove(&state->noted[at + 1], &state->noted[at], (state->count++ - at) * sizeof *state->noted);
    }
    state->noted[at] = *noted;
    return true;
}

/* -------------------------------------------------------------------------------- the file */

static int write_all(int fd, const char *text, size_t length)
{
    ssize_t wrote = write(fd, text, length);

    if (wrote < 0)
        return -errno;
    return (size_t)wrote == length ? 0 : -ENOSPC;
}

static bool others_write(const struct stat *file)
{
    return file->st_mode & (S_IWGRP | S_IWOTH);
}

/* For root also the user of the service, who owns its folder; only root can have made that. */
static bool is_of_ours(uid_t user)
{
    struct stat folder;

    if (user == geteuid())
        return true;
    return !geteuid() && lstat(RUN_FOLDER, &folder) == 0 && S_ISDIR(folder.st_mode) && !others_write(&folder) &&
           user == folder.st_uid;
}

/* In a folder where others may write they could put another file of ours in its place. */
static int check_folder(const char *file)
{
    char name[PATH_MAX];
    struct stat folder;

    if ((size_t)snprintf(name, sizeof name, "%s", file) >= sizeof name)
        return -ENAMETOOLONG;
    if (stat(dirname(name), &folder) < 0)
        return -errno;
    if (others_write(&folder) || (folder.st_uid && !is_of_ours(folder.st_uid)))
        return -EPERM;
    return 0;
}

/* One that others wrote, or may write to, would let them set options on sockets with our rights. */
static int take_hold(int fd)
{
    struct stat file;

    if (fstat(fd, &file) < 0)
        return -errno;
    if (!S_ISREG(file.st_mode) || file.st_nlink > 1 || others_write(&file) || !is_of_ours(file.st_uid))
        return -EPERM;
    return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

/* How alike the first lines are. 0; -ENODATA: nothing in the file is of use; -EXDEV, -EBADMSG. */
static int compare_heads(const char *theirs, const char *ours)
{
    size_t version = strcspn(ours, "0123456789") + 2, boot = version + strcspn(ours + version, " ") + 1;

    if (!theirs[0])
        return -ENODATA;
    if (strncmp(theirs, ours, version) != 0 || !strchr(theirs, '\n'))
        return -EBADMSG;
    if (strncmp(theirs, ours, boot) != 0)
        return -ENODATA;
    return strcmp(theirs, ours) == 0 ? 0 : -EXDEV;
}

/* What stands behind the last line that is whole would spoil the next one, and goes. */
static int read_lines(struct state *state, FILE *file)
{
    char line[LINE_BYTES];
    off_t whole = ftello(file);
    bool begins, ends = true;

    while (fgets(line, sizeof line, file)) {
        struct noted noted;

        begins = ends;
        ends = strchr(line, '\n');
        if (!ends)
            continue;
        whole = ftello(file);
        state->lines++;
        if (begins)
            read_raised(state, line);
        if (begins && read_line(line, &noted) && !put(state, &noted)) /* else it is the end of one that is too long */
            return -ENOMEM;
    }
    return ftruncate(state->fd, whole) < 0 ? -errno : 0;
}

static int read_file(struct state *state)
{
    char ours[HEAD_BYTES] = "", line[LINE_BYTES] = "";
    int copy = dup(state->fd), error = head_of_now(ours);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");

    if (!file) {
        if (copy >= 0)
            close(copy);
        return -ENOMEM;
    }
    if (error == 0) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        error = compare_heads(line, ours);
    }
    if (error == 0)
        error = read_lines(state, file);
    fclose(file);
    if (error != -ENODATA)
        return error;
    return ftruncate(state->fd, 0) < 0 ? -errno : write_all(state->fd, ours, strlen(ours));
}

/* Whether the name is still that of the open file: whoever had it before may have put a new one in its place. */
static bool is_named(int fd, const char *file)
{
    struct stat open, named;

    return fstat(fd, &open) == 0 && lstat(file, &named) == 0 && open.st_dev == named.st_dev &&
           open.st_ino == named.st_ino;
}

int state_open(struct state *state, const char *file)
{
    int error;

    *state = (struct state){.file = strdup(file), .fd = -1, .lines_most = LINES_SPARE};
    if (!state->file)
        return -ENOMEM;
    error = check_folder(file);
    if (error == 0) {
        state->fd = open(file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        error = state->fd < 0 ? -errno : take_hold(state->fd);
    }
    if (error == 0 && !is_named(state->fd, file))
        error = -EWOULDBLOCK;
    if (error == 0)
        error = read_file(state);
    if (error < 0)
        state_close(state);
    return error;
}

/* All of a line, or nothing. What stays there in part is dropped by the next reader, unless more comes behind it. */
static int append_line(struct state *state, const char *line, size_t length)
{
    off_t end = lseek(state->fd, 0, SEEK_END);
    int error = end < 0 ? -errno : write_all(state->fd, line, length);

    state->lines += error == 0;
    if (error < 0 && end >= 0 && ftruncate(state->fd, end) < 0)
        return error;
    return error;
}

int state_raised(struct state *state, unsigned side, const struct raised *raised)
{
    char line[LINE_BYTES];
    int error = state->file ? append_line(state, line, write_raised(raised, side, line)) : 0;

    if (error == 0)
        state->raised[side] = *raised;
    return error;
}

void state_paced(struct state *state, uint64_t cookie, uint64_t own_byte_per_s)
{
    struct noted *noted = find(state, cookie);
    char line[LINE_BYTES];

    if (!state->file || !noted || noted->own_byte_per_s == own_byte_per_s)
        return;
    noted->own_byte_per_s = own_byte_per_s;
    (void)append_line(state, line, write_line(noted, line)); /* else it is as after a kill before this call */
}

int state_keep(struct state *state, const struct noted *noted, bool anew)
{
    const struct noted *kept = find(state, noted->cookie);
    struct noted fresh = kept && !anew ? *kept : *noted;
    char line[LINE_BYTES];
    int error;

    if (!state->file || (kept && !anew && (kept->control[0] || !noted->control[0])))
        return 0;
    if (kept) { /* by rules that did not change its congestion control, perhaps; and its pace is told apart */
        memcpy(fresh.control, noted->control, sizeof fresh.control);
        fresh.own_byte_per_s = kept->own_byte_per_s;
    }
    if (!has_room(state))
        return -ENOMEM;
    error = append_line(state, line, write_line(&fresh, line));
    if (error == 0)
        (void)put(state, &fresh);
    return error;
}

bool state_is_long(const struct state *state)
{
    return state->lines > state->lines_most;
}

/* All of it into a new file, of the same owner. A descriptor, locked. */
static int write_anew(const struct state *state, const char *name)
{
    char text[HEAD_BYTES + LINE_BYTES];
    struct stat old;
    int fd, error;

    (void)unlink(name); /* what one that was killed has left, or others have put there */
    fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    error = fd < 0 ? -errno : take_hold(fd);
    if (error == 0 && (fstat(state->fd, &old) < 0 || fchown(fd, old.st_uid, old.st_gid) < 0))
        error = -errno;
    if (error == 0)
        error = head_of_now(text);
    if (error == 0)
        error = write_all(fd, text, strlen(text));
    for (size_t i = 0; error == 0 && i < state->count; i++)
        error = write_all(fd, text, write_line(&state->noted[i], text));
    for (unsigned side = 0; error == 0 && side < RAISE_SIDES; side++)
        if (state->raised[side].ours_bytes)
            error = write_all(fd, text, write_raised(&state->raised[side], side, text));
    if (error == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return error;
}

int state_retain(struct state *state, bool (*want)(void *user, uint64_t cookie), void *user)
{
    char name[PATH_MAX];
    size_t kept = 0;
    int fd;

    for (size_t i = 0; i < state->count; i++)
        if (want(user, state->noted[i].cookie))
            state->noted[kept++] = state->noted[i];
    state->count = kept;
    state->lines_most = 2 * state->lines + LINES_SPARE; /* if it fails, it is tried again then */
    if ((size_t)snprintf(name, sizeof name, "%s.new", state->file) >= sizeof name)
        return -ENAMETOOLONG;
    fd = write_anew(state, name);
    if (fd < 0)
        return fd;
    if (rename(name, state->file) < 0) {
        int error = -errno;

        close(fd);
        return error;
    }
    close(state->fd);
    state->fd = fd;
    state->lines = kept;
    state->lines_most = 2 * kept + LINES_SPARE;
    return 0;
}

void state_close(struct state *state)
{
    if (state->file && state->fd >= 0)
        close(state->fd);
    free(state->noted);
    free(state->file);
    *state = (struct state){.fd = -1};
}
