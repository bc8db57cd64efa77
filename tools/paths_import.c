/* SPDX-License-Identifier: MIT */
#include "paths_import.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/paths/record.h"

#define IMPORT_HOURS 168U /* how long what is imported holds, if nobody says */
#define READER "autobuf-paths-import"

enum { DONE = 0, FAILED = 1 };

/* What it writes is to be read from *out. */
static int start_reader(const struct arguments *want, pid_t *child, FILE **out)
{
    char hours[40];
    char *operand = (char *)(uintptr_t)want->operand;
    char *arguments[] = {READER, want->exported ? "--exported" : hours, "--", operand, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], error;

    snprintf(hours, sizeof hours, "--hours=%llu",
             (unsigned long long)(want->hours ? want->hours : IMPORT_HOURS));
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *out = fdopen(ends[0], "r");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, nobody could tell how the reader ended */
    error = *out ? posix_spawnp(child, READER, &actions, NULL, arguments, environ) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error && *out)
        fclose(*out);
    return -error;
}

/* To its end, one message for each entry (autobuf_paths_entry_encode()). */
static int read_messages(FILE *from, struct imported *into)
{
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];
    size_t room = 0, bytes;

    while ((bytes = fread(message, 1, sizeof message, from)) > 0) {
        int error;

        if (into->count == room) {
            struct autobuf_paths_entry *grown;

            room = room ? 2 * room : 64;
            grown = reallocarray(into->entries, room, sizeof *grown);
            if (!grown)
                return -ENOMEM;
            into->entries = grown;
        }
        into->entries[into->count] = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
        error = ab_paths_entry_decode(message, (uint32_t)bytes, into->entries + into->count++);
        if (error < 0)
            return error;
    }
    return ferror(from) ? -EIO : 0;
}

static int by_key(const void *a, const void *b)
{
    return ab_paths_compare(a, b);
}

int paths_import_read(const struct arguments *want, struct imported *into)
{
    FILE *from = NULL;
    pid_t child;
    int status = 0, error = start_reader(want, &child, &from);

    *into = (struct imported){.entries = NULL};
    if (error < 0) {
        fprintf(stderr, "autobuf: " READER ": %s: the Python package has it (python3-autobuf)\n",
                strerror(-error));
        return FAILED;
    }
    error = read_messages(from, into);
    fclose(from);
    if (waitpid(child, &status, 0) < 0)
        error = -errno;
    if (error < 0 || WIFSIGNALED(status))
        fprintf(stderr, "autobuf: " READER ": %s\n",
                error < 0 ? autobuf_strerror(error) : strsignal(WTERMSIG(status)));
    if (error < 0 || status != 0)
        return FAILED;
    if (into->count)
        qsort(into->entries, into->count, sizeof *into->entries, by_key);
    return DONE;
}
