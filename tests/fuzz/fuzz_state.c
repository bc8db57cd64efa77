/* SPDX-License-Identifier: MIT */
/*
 * The daemon's state file. First byte: 1: the first line is that of this boot and this network
 * namespace. The rest is the file, or what is behind that line. What is taken is sound and stands
 * in the file, comes back as it was, and what is kept later is found among it.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "daemon/state.h"

#define LINE_BYTES 191U /* of the longest line that is read, with its end */

static char folder[40], name[64], head[128];
static size_t head_bytes;

static void remove_folder(void)
{
    unlink(name);
    rmdir(folder);
}

static void write_file(const void *start, size_t start_bytes, const void *rest, size_t rest_bytes)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, start, start_bytes) == (ssize_t)start_bytes);
    CHECK(write(fd, rest, rest_bytes) == (ssize_t)rest_bytes);
    close(fd);
}

/* A file that was just made has nothing but its first line. */
static void begin(void)
{
    struct state state;
    ssize_t got;
    int fd;

    make_folder(folder);
    atexit(remove_folder);
    snprintf(name, sizeof name, "%s/state", folder);
    CHECK(state_open(&state, name) == 0);
    state_close(&state);
    fd = open(name, O_RDONLY);
    got = read(fd, head, sizeof head);
    CHECK(got > 0 && got < (ssize_t)sizeof head);
    close(fd);
    head_bytes = (size_t)got;
}

static void check_noted(const struct noted *noted)
{
    const struct autobuf_settings *s = &noted->settings;

    CHECK(noted->cookie && !(s->locks & ~(AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV)));
    CHECK(s->snd_buf_bytes && s->snd_buf_bytes <= INT_MAX);
    CHECK(s->rcv_buf_bytes && s->rcv_buf_bytes <= INT_MAX && s->rcv_clamp_bytes <= INT_MAX);
    CHECK(memchr(noted->control, '\0', BROKER_CONTROL_BYTES));
    for (const char *c = noted->control; *c; c++)
        CHECK(*c > ' ' && *c <= '~');
}

/* Whole lines that a reader takes. */
static size_t lines_of(const uint8_t *text, size_t len)
{
    size_t lines = 0;

    while (len) {
        const uint8_t *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) + 1 : len;

        lines += end && line <= LINE_BYTES;
        text += line;
        len -= line;
    }
    return lines;
}

static void check_all(const struct state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        check_noted(&state->noted[i]);
        CHECK(!i || state->noted[i - 1].cookie < state->noted[i].cookie);
        CHECK(state_find(state, state->noted[i].cookie) == &state->noted[i]);
    }
}

static void check_same(const struct noted *a, const struct noted *b)
{
    CHECK(a->cookie == b->cookie && a->own_byte_per_s == b->own_byte_per_s && strcmp(a->control, b->control) == 0);
    CHECK(memcmp(&a->settings, &b->settings, sizeof a->settings) == 0);
}

static void open_again(struct state *state, const struct noted *known, size_t count)
{
    state_close(state);
    CHECK(state_open(state, name) == 0 && state->count == count);
    check_all(state);
    for (size_t i = 0; i < count; i++)
        check_same(&known[i], &state->noted[i]);
}

static bool is_any(void *user, uint64_t cookie)
{
    (void)user;
    return cookie > 0;
}

/* One more, behind what was read, then all of it anew. */
static void keep_one(struct state *state)
{
    struct noted fresh = {.cookie = 1, .settings = AUTOBUF_SETTINGS_INIT, .control = "bbr"};
    struct noted *known;
    size_t count;

    fresh.settings.snd_buf_bytes = fresh.settings.rcv_buf_bytes = 4096;
    while (state_find(state, fresh.cookie))
        fresh.cookie++;
    CHECK(state_keep(state, &fresh, false) == 0);
    state_paced(state, fresh.cookie, 1000);
    check_all(state);
    count = state->count;
    known = exact_copy(state->noted, count * sizeof *known);
    open_again(state, known, count);
    CHECK(state_retain(state, is_any, NULL) == 0);
    open_again(state, known, count);
    free(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    bool headed = take(&in, 1) & 1;
    struct noted *known;
    struct state state;
    size_t count;
    int error;

    if (!head_bytes)
        begin();
    write_file(head, headed ? head_bytes : 0, in.data, in.len);
    error = state_open(&state, name);
    CHECK(error == 0 || (!headed && (error == -EBADMSG || error == -EXDEV)));
    if (error < 0) {
        CHECK(!state.file && !state.count);
        return 0;
    }
    check_all(&state);
    CHECK(state.count <= lines_of(in.data, in.len));
    count = state.count;
    known = exact_copy(state.noted, count * sizeof *known);
    open_again(&state, known, count);
    free(known);
    keep_one(&state);
    state_close(&state);
    return 0;
}
