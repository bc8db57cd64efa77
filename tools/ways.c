/* SPDX-License-Identifier: MIT */
#include "ways.h"

#include <string.h>

#define WINDOW_FIELD_MOST 65535ULL /* of TCP's header; RFC 7323 shifts it by at most 14 */
#define SCALE_MOST 14

static const char *const ways_names[WAYS] = {"sysctl", "autobufd", "run", "link"};

/* Linux chooses the scale in the SYN so that either limit fits (tcp_select_initial_window()). */
static uint64_t scaled_window(const struct autobuf_limits *limits)
{
    uint64_t most = limits->tcp_rmem_max_bytes, window = WINDOW_FIELD_MOST;

    if (!(limits->flags & AUTOBUF_LIMITS_WINDOW_SCALING))
        return window;
    most = limits->rcv_settable_bytes > most ? limits->rcv_settable_bytes : most;
    for (int i = 0; i < SCALE_MOST && window < most; i++)
        window *= 2;
    return window;
}

static uint64_t window_of(const struct autobuf_plan *plan, bool sends)
{
    return sends ? plan->snd_window_bytes : plan->rcv_window_bytes;
}

/* The window that autobufd gives a connection, whose buffers it may force. */
static uint64_t daemon_window(const struct findings *f, bool sends)
{
    struct autobuf_limits limits = f->limits;
    struct autobuf_socket socket = f->socket;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    limits.flags |= AUTOBUF_LIMITS_FORCE;
    socket.stage = AUTOBUF_STAGE_CONNECTED;
    socket.rtt_min_ns = f->share.rtt_min_ns;
    socket.rcv_window_max_bytes = scaled_window(&limits);
    socket.snd_window_max_bytes = limits.flags & AUTOBUF_LIMITS_WINDOW_SCALING ? 0 : WINDOW_FIELD_MOST;
    return autobuf_plan_make(&f->share, &limits, &socket, AUTOBUF_INTENT_THROUGHPUT, 0, &plan) < 0
               ? 0
               : window_of(&plan, sends);
}

static enum help help_of(uint64_t window, uint64_t limited, uint64_t wanted)
{
    return window <= limited ? HELP_NO : window < wanted ? HELP_PART : HELP_ALL;
}

void ways_find(const struct findings *f, bool sends, uint64_t window_bytes, enum help ways[WAYS])
{
    uint64_t wanted = findings_wanted(f, sends);
    enum help mine = help_of(window_of(&f->plan, sends), window_bytes, wanted);

    if (mine == HELP_NO && window_of(&f->root, sends) > window_bytes)
        mine = HELP_ROOT;
    ways[WAY_SYSCTL] = findings_fillable(f) ? HELP_ALL : HELP_PART;
    ways[WAY_AUTOBUFD] = help_of(daemon_window(f, sends), window_bytes, wanted);
    ways[WAY_RUN] = ways[WAY_LINK] = mine;
}

void ways_text(const enum help ways[WAYS], char *text, size_t cap)
{
    static const struct {
        enum help help;
        const char *words;
    } groups[] = {{HELP_ALL, "helps: "},
                  {HELP_PART, "helps in part: "},
                  {HELP_ROOT, "helps as root: "},
                  {HELP_NO, "does not help: "}};
    size_t len = 0;

    text[0] = '\0';
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        const char *before = groups[g].words;

        for (size_t i = 0; i < WAYS && len < cap; i++) {
            if (ways[i] != groups[g].help)
                continue;
            if (before == groups[g].words && len)
                len += (size_t)snprintf(text + len, cap - len, "; ");
            if (len < cap)
                len += (size_t)snprintf(text + len, cap - len, "%s%s", before, ways_names[i]);
            before = ", ";
        }
    }
}

void ways_json(FILE *out, const enum help ways[WAYS])
{
    static const char *const tokens[] = {
        [HELP_NO] = "no", [HELP_ROOT] = "root", [HELP_PART] = "part", [HELP_ALL] = "all"};

    if (ways[0] == HELP_UNSAID) {
        fputs("null", out);
        return;
    }
    for (size_t i = 0; i < WAYS; i++)
        fprintf(out, "%c\"%s\":\"%s\"", i ? ',' : '{', ways_names[i], tokens[ways[i]]);
    fputc('}', out);
}
