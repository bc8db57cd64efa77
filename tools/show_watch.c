/* SPDX-License-Identifier: MIT */
#include "show_watch.h"

#include <string.h>
#include <sys/utsname.h>

#include "../lib/base/event.h"
#include "print.h"

#define BLOCK_ROWS 7

static void json_begin(FILE *out, const struct connection *c)
{
    fputc('{', out);
    json_number(out, "pid", (uint64_t)c->watch->process.pid, false);
    json_number(out, "fd", (uint64_t)c->fd, false);
}

void show_connection_json(FILE *out, const struct connection *c)
{
    struct autobuf_live_state state = c->state;

    state.sent_bit_per_s = c->sent_bit_per_s; /* since the report before */
    state.received_bit_per_s = c->received_bit_per_s;
    json_begin(out, c);
    json_string(out, "local", c->local);
    json_string(out, "peer", c->peer);
    json_state(out, &state);
    fputs("}\n", out);
}

void show_start_json(FILE *out, const struct watch *w)
{
    struct utsname system;

    fputc('{', out);
    json_number(out, "pid", (uint64_t)w->process.pid, false);
    json_string(out, "version", autobuf_version());
    json_string(out, "kernel", uname(&system) == 0 ? system.release : NULL);
    json_bool(out, "tune", w->want.tune);
    fprintf(out, "\"intent\":\"%s\"}\n",
            w->want.intent == AUTOBUF_INTENT_LOW_DELAY ? "low-delay" : "throughput");
}

void show_change_json(FILE *out, const struct connection *c, const struct autobuf_event *event)
{
    char text[1024];

    json_begin(out, c);
    json_string(out, "change", event->text);
    ab_event_json(event, text, sizeof text);
    fprintf(out, "\"event\":%s}\n", text);
}

void show_end_json(FILE *out, const struct connection *c)
{
    json_begin(out, c);
    fputs("\"end\":\"closed\"}\n", out);
}

static const char *const limiter_words[] = {
    [AUTOBUF_LIMITER_IDLE] = "nothing: it is idle",
    [AUTOBUF_LIMITER_SENDER] = "the program, which has nothing more to send",
    [AUTOBUF_LIMITER_PATH] = "the path (congestion control, or a queue)",
    [AUTOBUF_LIMITER_SND_BUFFER] = "the send buffer",
    [AUTOBUF_LIMITER_PEER] = "the peer: its window, or what it sends",
    [AUTOBUF_LIMITER_RCV_BUFFER] = "the receive buffer",
    [AUTOBUF_LIMITER_RECEIVER] = "the program, which leaves data unread",
};

static void show_limiter(struct screen *s, const struct connection *c)
{
    uint32_t limiter = c->state.limiter;
    bool buffer = limiter == AUTOBUF_LIMITER_SND_BUFFER || limiter == AUTOBUF_LIMITER_RCV_BUFFER;

    screen_line(s, "  limited by   %s%s", limiter == AUTOBUF_LIMITER_UNKNOWN ? "not known yet" : limiter_words[limiter],
                buffer && !c->watch->want.tune ? " (--tune enlarges it)" : "");
}

/* "20.1 ms", or "unknown". */
static const char *ms_words(char text[32], uint64_t ns)
{
    if (ns == AUTOBUF_NS_UNSET)
        return "unknown";
    snprintf(text, 32, "%.1f ms", (double)ns / 1e6);
    return text;
}

static void show_connection(struct screen *s, const struct connection *c)
{
    const struct autobuf_live_state *state = &c->state;
    bool peer = state->peer_window_bytes, paced = state->pacing_bit_per_s;
    char now[32], least[32];

    screen_line(s, "%s", "");
    screen_line(s, "fd %d  %s -> %s", c->fd, c->local, c->peer);
    show_limiter(s, c);
    screen_line(s, "  sent         %sbit/s, %sB; received %sbit/s, %sB", SCALED(c->sent_bit_per_s),
                SCALED(state->sent_bytes), SCALED(c->received_bit_per_s), SCALED(state->received_bytes));
    screen_line(s, "  round trip   %s (least %s), %u packets sent again", ms_words(now, state->rtt_ns),
                ms_words(least, state->rtt_min_ns), state->retransmits);
    screen_line(s, "  in flight    %sB; congestion window %sB%s%s%s", SCALED(state->in_flight_bytes),
                SCALED(state->cwnd_bytes), peer ? ", peer's " : "",
                peer ? SCALED(state->peer_window_bytes) : "", peer ? "B" : "");
    screen_line(s, "  buffers      send %sB (not sent yet %sB), receive %sB%s%s%s", SCALED(state->snd_buf_bytes),
                SCALED(state->notsent_bytes), SCALED(state->rcv_buf_bytes), paced ? ", paced at " : "",
                paced ? SCALED(state->pacing_bit_per_s) : "", paced ? "bit/s" : "");
}

static unsigned changes_so_far(const struct watch *w)
{
    unsigned count = 0;

    for (size_t i = 0; i < CHANGES_SHOWN; i++)
        count += w->changes[i][0] != 0;
    return count;
}

void show_screen(FILE *out, const struct watch *w, unsigned rows, unsigned columns)
{
    struct screen s = screen_begin(out, rows, columns);
    unsigned below = changes_so_far(w);
    size_t shown = 0;

    screen_line(&s, "%s (%d): %zu TCP connection%s%s", w->process.name,
                (int)w->process.pid, w->count, w->count == 1 ? "" : "s",
                !w->want.tune                                  ? ""
                : w->want.intent == AUTOBUF_INTENT_LOW_DELAY ? ", tuned for low delay"
                                                               : ", tuned for throughput");
    for (size_t i = 0; i < CONNECTIONS_MOST && s.row + BLOCK_ROWS + below + 2 < rows; i++) {
        if (!w->connections[i].flow)
            continue;
        show_connection(&s, &w->connections[i]);
        shown++;
    }
    if (shown < w->count || w->left_out)
        screen_line(&s, "%zu more", w->count - shown + w->left_out);
    if (below)
        screen_line(&s, "%s", "");
    for (size_t i = CHANGES_SHOWN - below; i < CHANGES_SHOWN; i++)
        screen_line(&s, "%s", w->changes[i]);
    screen_end(&s);
}
