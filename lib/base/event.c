/* SPDX-License-Identifier: MIT */
#include "base.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define WORD(words, number) ((number) < sizeof(words) / sizeof *(words) ? (words)[number] : "?")

/* ------------------------------------------------------------------------------------ names */

const char *autobuf_reason_name(uint32_t reason)
{
    static const char *const names[] = {"unknown", "kernel", "set", "capped", "larger", "late", "off"};

    return WORD(names, reason);
}

const char *autobuf_bottleneck_name(uint32_t bottleneck)
{
    static const char *const names[] = {
        "unknown", "idle", "sender", "path", "send-buffer", "peer", "receive-buffer", "receiver", "stalled",
    };

    return WORD(names, bottleneck);
}

static const char *name_of(uint32_t what)
{
    static const char *const names[] = {"note",    "known", "measured", "left",  "set", "given-back",
                                        "resized", "paced", "unsent",   "window"};

    return WORD(names, what);
}

/* ---------------------------------------------------------------------------------- English */

static void say_path(const struct autobuf_event *e, char *text, size_t cap)
{
    char rtt[32] = "";

    if (e->rtt_ns != AUTOBUF_NS_UNSET)
        snprintf(rtt, sizeof rtt, ", %.3f ms", (double)e->rtt_ns / 1e6);
    snprintf(text, cap, "%s: %.1f Mbit/s%s%s%s%s",
             e->what == AUTOBUF_EVENT_KNOWN ? "the path store knows it" : "measured", (double)e->after_bit_per_s / 1e6,
             e->side == AUTOBUF_LOCK_RCV ? " back" : "", rtt, e->why ? ", " : "", e->why ? e->why : "");
}

/* Without %f, of which printf() takes much stack: a live connection is deepest here. */
static void say_rate(uint64_t bit_per_s, char *text, size_t cap)
{
    uint64_t tenths = (bit_per_s + 50000) / 100000;

    snprintf(text, cap, "%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
}

static void say_pace(const struct autobuf_event *e, char *text, size_t cap)
{
    char before[32] = "none", after[32] = "none";

    if (e->before_bit_per_s)
        say_rate(e->before_bit_per_s, before, sizeof before);
    if (e->after_bit_per_s)
        say_rate(e->after_bit_per_s, after, sizeof after);
    snprintf(text, cap, "pace %s -> %s%s: %s", before, after, e->after_bit_per_s ? " Mbit/s" : "", e->why);
}

static void say_bytes(const struct autobuf_event *e, char *text, size_t cap)
{
    const char *what = e->what == AUTOBUF_EVENT_UNSENT   ? "unsent, at most"
                       : e->what == AUTOBUF_EVENT_WINDOW ? "window"
                       : e->side == AUTOBUF_LOCK_SND     ? "send buffer"
                                                         : "receive buffer";

    if (e->what == AUTOBUF_EVENT_GIVEN_BACK)
        snprintf(text, cap, "%s of %" PRIu64 " given back to autotuning: %s", what, e->before_bytes, e->why);
    else
        snprintf(text, cap, "%s %" PRIu64 " -> %" PRIu64 ": %s", what, e->before_bytes, e->after_bytes, e->why);
}

void ab_event_say(const struct autobuf_event *e, char *text, size_t cap)
{
    if (e->error)
        snprintf(text, cap, "not measured: %s", autobuf_strerror(e->error));
    else if (e->what == AUTOBUF_EVENT_KNOWN || e->what == AUTOBUF_EVENT_MEASURED)
        say_path(e, text, cap);
    else if (e->what == AUTOBUF_EVENT_PACED)
        say_pace(e, text, cap);
    else
        say_bytes(e, text, cap);
}

/* ------------------------------------------------------------------------------------- JSON */

/* NULL: null. Other characters than printable ASCII become question marks. */
static void add_string(struct ab_text *t, const char *key, const char *value)
{
    if (!value) {
        ab_add(t, ",\"%s\":null", key);
        return;
    }
    ab_add(t, ",\"%s\":\"", key);
    for (; *value; value++)
        ab_add(t, "%s%c", *value == '"' || *value == '\\' ? "\\" : "",
               *value >= ' ' && *value <= '~' ? *value : '?');
    ab_add(t, "\"");
}

static void add_number(struct ab_text *t, const char *key, uint64_t value, bool known)
{
    if (known)
        ab_add(t, ",\"%s\":%" PRIu64, key, value);
    else
        ab_add(t, ",\"%s\":null", key);
}

size_t ab_event_json(const struct autobuf_event *e, char *buf, size_t cap)
{
    static const char *const sides[] = {NULL, "send", "receive"};
    bool paced = e->what == AUTOBUF_EVENT_PACED, bytes = e->what >= AUTOBUF_EVENT_LEFT && !paced;
    struct ab_text t = {buf, cap, 0};

    ab_add(&t, "{\"what\":\"%s\"", name_of(e->what));
    add_string(&t, "side", e->side < 3 ? sides[e->side] : NULL);
    add_string(&t, "reason", e->reason ? autobuf_reason_name(e->reason) : NULL);
    add_string(&t, "limited", e->bottleneck ? autobuf_bottleneck_name(e->bottleneck) : NULL);
    add_number(&t, "before_bytes", e->before_bytes, bytes);
    add_number(&t, "after_bytes", e->after_bytes, bytes);
    add_number(&t, "before_bit_per_s", e->before_bit_per_s, paced);
    add_number(&t, "after_bit_per_s", e->after_bit_per_s, paced || e->after_bit_per_s);
    add_number(&t, "rtt_ns", e->rtt_ns, e->rtt_ns && e->rtt_ns != AUTOBUF_NS_UNSET);
    add_string(&t, "error", e->error ? autobuf_strerror(e->error) : NULL);
    add_string(&t, "why", e->why);
    ab_add(&t, "}");
    return t.len;
}

/* -------------------------------------------------------------------------------------- log */

bool ab_log_is_on(const struct ab_log *log)
{
    return log->fn || ab_environment_logs();
}

static void deliver(const struct ab_log *log, struct autobuf_event *event)
{
    event->size = sizeof *event;
    if (log->fn)
        log->fn(log->user, event);
    if (ab_environment_logs())
        ab_environment_line(event->text);
}

/* Not inlined: an event that brings its text has no second one below it on the stack. */
static __attribute__((noinline)) void say_and_deliver(const struct ab_log *log, struct autobuf_event *event)
{
    char text[AB_LOG_BYTES];

    ab_event_say(event, text, sizeof text);
    event->text = text;
    deliver(log, event);
}

void ab_event(const struct ab_log *log, struct autobuf_event *event)
{
    if (!ab_log_is_on(log))
        return;
    if (event->text)
        deliver(log, event);
    else
        say_and_deliver(log, event);
}

void ab_log(const struct ab_log *log, const char *format, ...)
{
    struct autobuf_event event = {.what = AUTOBUF_EVENT_NOTE};
    char text[AB_LOG_BYTES];
    va_list args;

    if (!ab_log_is_on(log))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    event.text = text;
    deliver(log, &event);
}
