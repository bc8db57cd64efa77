/* SPDX-License-Identifier: MIT */
#include "show_watch.h"

#include <string.h>
#include <sys/utsname.h>

#include "../lib/base/event.h"
#include "print.h"

#define BLOCK_ROWS 7
#define LINE_BYTES 256

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

static const char *limiter_words(const struct connection *c)
{
    bool tuned = c->watch->want.tune;

    switch (c->state.limiter) {
    case AUTOBUF_LIMITER_IDLE:
        return "nothing: it is idle";
    case AUTOBUF_LIMITER_SENDER:
        return "the program, which has nothing more to send";
    case AUTOBUF_LIMITER_PATH:
        return "the path (congestion control, or a queue)";
    case AUTOBUF_LIMITER_SND_BUFFER:
        return tuned ? "the send buffer" : "the send buffer (--tune enlarges it)";
    case AUTOBUF_LIMITER_PEER:
        return "the peer: its window, or what it sends";
    case AUTOBUF_LIMITER_RCV_BUFFER:
        return tuned ? "the receive buffer" : "the receive buffer (--tune enlarges it)";
    case AUTOBUF_LIMITER_RECEIVER:
        return "the program, which leaves data unread";
    default:
        return "not known yet";
    }
}

static void quantity_words(char *text, size_t cap, const char *what, uint64_t value, const char *unit)
{
    char number[32];
    size_t used = strlen(text);

    scaled(number, sizeof number, (double)value);
    snprintf(text + used, cap - used, "%s%s%s", what, number, unit);
}

/* "20.1 ms", or "unknown". */
static const char *ms_words(char *text, size_t cap, uint64_t ns)
{
    if (ns == AUTOBUF_NS_UNSET)
        return "unknown";
    snprintf(text, cap, "%.1f ms", (double)ns / 1e6);
    return text;
}

static void show_flow(struct screen *s, const struct connection *c)
{
    const struct autobuf_live_state *state = &c->state;
    char line[LINE_BYTES] = "", now[32], least[32];

    quantity_words(line, sizeof line, "  sent         ", c->sent_bit_per_s, "bit/s, ");
    quantity_words(line, sizeof line, "", state->sent_bytes, "B; received ");
    quantity_words(line, sizeof line, "", c->received_bit_per_s, "bit/s, ");
    quantity_words(line, sizeof line, "", state->received_bytes, "B");
    screen_line(s, line);
    snprintf(line, sizeof line, "  round trip   %s (least %s), %u packets sent again",
             ms_words(now, sizeof now, state->rtt_ns), ms_words(least, sizeof least, state->rtt_min_ns),
             state->retransmits);
    screen_line(s, line);
}

static void show_windows(struct screen *s, const struct connection *c)
{
    const struct autobuf_live_state *state = &c->state;
    char line[LINE_BYTES] = "";

    quantity_words(line, sizeof line, "  in flight    ", state->in_flight_bytes, "B");
    quantity_words(line, sizeof line, "; congestion window ", state->cwnd_bytes, "B");
    if (state->peer_window_bytes)
        quantity_words(line, sizeof line, ", peer's ", state->peer_window_bytes, "B");
    screen_line(s, line);
    line[0] = 0;
    quantity_words(line, sizeof line, "  buffers      send ", state->snd_buf_bytes, "B");
    quantity_words(line, sizeof line, " (not sent yet ", state->notsent_bytes, "B), ");
    quantity_words(line, sizeof line, "receive ", state->rcv_buf_bytes, "B");
    if (state->pacing_bit_per_s)
        quantity_words(line, sizeof line, ", paced at ", state->pacing_bit_per_s, "bit/s");
    screen_line(s, line);
}

static void show_connection(struct screen *s, const struct connection *c)
{
    char line[LINE_BYTES];

    screen_line(s, "");
    snprintf(line, sizeof line, "fd %d  %s -> %s", c->fd, c->local, c->peer);
    screen_line(s, line);
    snprintf(line, sizeof line, "  limited by   %s", limiter_words(c));
    screen_line(s, line);
    show_flow(s, c);
    show_windows(s, c);
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
    char line[LINE_BYTES];
    size_t shown = 0;

    snprintf(line, sizeof line, "%s (%d): %zu TCP connection%s%s", w->process.name,
             (int)w->process.pid, w->count, w->count == 1 ? "" : "s",
             !w->want.tune                                  ? ""
             : w->want.intent == AUTOBUF_INTENT_LOW_DELAY ? ", tuned for low delay"
                                                            : ", tuned for throughput");
    screen_line(&s, line);
    for (size_t i = 0; i < CONNECTIONS_MOST && s.row + BLOCK_ROWS + below + 2 < rows; i++) {
        if (!w->connections[i].live)
            continue;
        show_connection(&s, &w->connections[i]);
        shown++;
    }
    if (shown < w->count || w->left_out) {
        snprintf(line, sizeof line, "%zu more", w->count - shown + w->left_out);
        screen_line(&s, line);
    }
    if (below)
        screen_line(&s, "");
    for (size_t i = CHANGES_SHOWN - below; i < CHANGES_SHOWN; i++)
        screen_line(&s, w->changes[i]);
    screen_end(&s);
}
