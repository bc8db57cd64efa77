/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_STEP_BYTES 4096U
#define SHORTEST_LINE_BYTES 3U /* a blank, CR, LF */

/* --------------------------------------------------------------------------------- sending */

/* Room for len more bytes; NULL: no memory. */
static uint8_t *reserve_output(struct autobuf_inband *ib, size_t len)
{
    size_t size = (ib->out.end + len + OUT_STEP_BYTES - 1) / OUT_STEP_BYTES * OUT_STEP_BYTES;
    uint8_t *out;

    if (size > ib->out.size) {
        out = realloc(ib->out.bytes, size);
        if (!out)
            return NULL;
        ib->out.bytes = out;
        ib->out.size = size;
    }
    return ib->out.bytes + ib->out.end;
}

static size_t build_line(const struct autobuf_inband *ib, const struct ab_line *line, const char *text, uint8_t *to)
{
    return ib->encoder->build(line, ib->options.prefix, text, (char *)to, AB_LINE_BYTES);
}

int ab_inband_queue_line(struct autobuf_inband *ib, const struct ab_line *line, const char *text)
{
    uint8_t *to = reserve_output(ib, AB_LINE_BYTES);

    if (!to)
        return -ENOMEM;
    ib->out.end += build_line(ib, line, text, to);
    return 0;
}

/*
 * Random letters and digits: a link that compresses saves no more than the two bits of eight that such a letter leaves
 * unused, so it hardly seems faster.
 */
static void fill_with_letters(struct autobuf_inband *ib, uint8_t *to, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t bits = 0;

    for (size_t i = 0; i < len; i++, bits >>= 6) {
        if (i % 10 == 0) { /* xorshift64 */
            ib->out.random ^= ib->out.random << 13;
            ib->out.random ^= ib->out.random >> 7;
            ib->out.random ^= ib->out.random << 17;
            bits = ib->out.random;
        }
        to[i] = (uint8_t)letters[bits & 63];
    }
}

static void fill_with_lines(struct autobuf_inband *ib, uint8_t *to, size_t len)
{
    while (len > 0) {
        size_t line = len <= AB_LINE_BYTES ? len : AB_LINE_BYTES;

        if (len - line > 0 && len - line < SHORTEST_LINE_BYTES)
            line -= SHORTEST_LINE_BYTES;
        to[0] = ' ';
        fill_with_letters(ib, to + 1, line - SHORTEST_LINE_BYTES);
        to[line - 2] = '\r';
        to[line - 1] = '\n';
        to += line;
        len -= line;
    }
}

int ab_inband_queue_train(struct autobuf_inband *ib, struct ab_line *line, size_t len, size_t behind)
{
    size_t around = ib->out.end - ib->out.begin + behind;
    uint8_t *to = reserve_output(ib, len + AB_LINE_BYTES);
    bool is_reply = ib->role == AUTOBUF_INBAND_RESPONDER && ib->framing->reply_end;
    const char *last = is_reply ? ib->framing->reply_end : "";
    size_t line_bytes = 0, last_bytes = strlen(last);

    if (!to)
        return -ENOMEM;
    if (line) {
        line->count = 1;
        line->numbers[0] = len;
        line_bytes = build_line(ib, line, NULL, to);
        len -= ab_min_size(len - SHORTEST_LINE_BYTES - last_bytes, around + line_bytes);
        line->numbers[0] = len;
        line_bytes = build_line(ib, line, NULL, to);
    }
    fill_with_lines(ib, to + line_bytes, len - last_bytes);
    memcpy(to + line_bytes + len - last_bytes, last, last_bytes);
    ib->out.end += line_bytes + len;
    return 0;
}

static void fail_exchange(struct autobuf_inband *ib, int error)
{
    if (ib->error == 0) {
        ib->error = error;
        ab_log(&ib->log, "in band: %s", autobuf_strerror(error));
    }
    ib->end_ns = ab_min(ib->end_ns, ib->now_ns);
}

static bool is_over(const struct autobuf_inband *ib)
{
    return ib->error < 0 || (ib->phase == AB_PHASE_OVER && ib->out.begin == ib->out.end &&
                             ib->in.payload_left == 0 && ib->in.line_bytes == 0);
}

size_t autobuf_inband_output(struct autobuf_inband *ib, uint64_t now_ns, const void **data)
{
    if (!ib || !data)
        return 0;
    ib->now_ns = now_ns;
    if (ib->error == 0 && now_ns >= autobuf_inband_deadline_ns(ib))
        fail_exchange(ib, -ETIMEDOUT);
    if (ib->error < 0 || ib->out.begin == ib->out.end)
        return 0;
    *data = ib->out.bytes + ib->out.begin;
    return ib->out.end - ib->out.begin;
}

void autobuf_inband_sent(struct autobuf_inband *ib, uint64_t now_ns, size_t bytes)
{
    uint64_t segment_bytes, packets;

    if (!ib)
        return;
    segment_bytes = ib->facts.segment_bytes;
    packets = (bytes + segment_bytes - 1) / segment_bytes;
    ib->now_ns = now_ns;
    ib->cost_bytes += bytes + packets * (ib->facts.packet_bytes - segment_bytes);
    ib->out.begin += ab_min_size(bytes, ib->out.end - ib->out.begin);
    if (ib->out.begin < ib->out.end)
        return;
    ib->out.begin = ib->out.end = 0;
    ib->out.sent_ns = now_ns;
    if (ib->phase == AB_PHASE_OVER) { /* the application may keep the handle for long */
        free(ib->out.bytes);
        ib->out.bytes = NULL;
        ib->out.size = 0;
    }
}

void ab_inband_end(struct autobuf_inband *ib)
{
    ib->phase = AB_PHASE_OVER;
    ib->end_ns = ab_min(ib->end_ns, ib->now_ns);
    free(ib->arrivals.packets);
    ib->arrivals = (struct ab_arrivals){0};
}

/* Whether the line so far lacks the prefix. */
static bool is_foreign(const struct autobuf_inband *ib)
{
    size_t prefix_len = strlen(ib->options.prefix);

    return ib->role == AUTOBUF_INBAND_RESPONDER &&
           memcmp(ib->in.line, ib->options.prefix, ab_min_size(ib->in.line_bytes, prefix_len)) != 0;
}

/* Takes bytes up to the end of a line, and handles a complete line. Returns how many bytes it took. */
static size_t receive_line_part(struct autobuf_inband *ib, const char *data, size_t len)
{
    size_t most = ab_min_size(len, AB_LINE_BYTES - ib->in.line_bytes);
    const char *end = memchr(data, '\n', most);
    size_t taken = end ? (size_t)(end - data) + 1 : most, text_len;
    struct ab_line line;
    int error;

    memcpy(ib->in.line + ib->in.line_bytes, data, taken);
    ib->in.line_bytes += taken;
    if (is_foreign(ib) || (!end && ib->in.line_bytes == AB_LINE_BYTES)) {
        fail_exchange(ib, AUTOBUF_E_PROTOCOL);
        return taken;
    }
    if (!end)
        return taken;
    text_len = ib->in.line_bytes - 1;
    text_len -= text_len > 0 && ib->in.line[text_len - 1] == '\r';
    if (!ib->decoder->parse(ib->options.prefix, ib->in.line, text_len, &line))
        line.verb = AB_NO_VERB;
    error = ib->acts->line(ib, &line, ib->in.line_bytes);
    ib->in.line_bytes = 0;
    if (error < 0)
        fail_exchange(ib, error);
    return taken;
}

int64_t ab_inband_plain_part(struct autobuf_inband *ib, const char *data, size_t len)
{
    size_t taken = (size_t)ab_min(len, ib->in.payload_left);

    (void)data;
    ib->in.payload_left -= taken;
    return (int64_t)taken;
}

static size_t receive_payload(struct autobuf_inband *ib, uint64_t stamp_ns, const char *data, size_t len)
{
    int64_t taken = ib->acts->part(ib, data, len);
    int error = taken < 0 ? (int)taken : 0;

    if (error == 0)
        ab_inband_arrived(ib, stamp_ns, (uint64_t)taken);
    if (error == 0 && ib->in.payload_left == 0)
        error = ib->acts->payload(ib);
    if (error < 0)
        fail_exchange(ib, error);
    return taken < 0 ? 0 : (size_t)taken;
}

/* The exchange is over, or a responder has to send first, which bounds its memory. */
static bool reads_nothing(const struct autobuf_inband *ib)
{
    if (ib->error < 0 || ib->in.payload_left > 0)
        return ib->error < 0;
    if (ib->role == AUTOBUF_INBAND_INITIATOR)
        return ib->phase == AB_PHASE_OVER;
    return ib->out.begin < ib->out.end;
}

int64_t autobuf_inband_input(struct autobuf_inband *ib, uint64_t stamp_ns, const void *data, size_t len)
{
    size_t taken = 0;

    if (!ib || (!data && len))
        return -EINVAL;
    if (ib->owner != getpid())
        return AUTOBUF_E_FORKED;
    if (ib->error == 0 && len == 0 && !is_over(ib))
        fail_exchange(ib, -ECONNRESET);
    ib->now_ns = ab_max(ib->now_ns, stamp_ns);
    if (is_over(ib)) /* these bytes may begin the next exchange */
        ib->limit_ns = ib->now_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    while (taken < len && !reads_nothing(ib)) {
        if (ib->in.payload_left > 0)
            taken += receive_payload(ib, stamp_ns, (const char *)data + taken, len - taken);
        else
            taken += receive_line_part(ib, (const char *)data + taken, len - taken);
        if (is_over(ib))
            break; /* what follows may be the application's */
    }
    return ib->error < 0 ? ib->error : (int64_t)taken;
}

size_t autobuf_inband_wanted(const struct autobuf_inband *ib)
{
    uint64_t segment_bytes;

    if (!ib || reads_nothing(ib))
        return 0;
    segment_bytes = ib->facts.segment_bytes;
    if (ib->in.payload_left == 0)
        return AB_LINE_BYTES - ib->in.line_bytes;
    return (size_t)ab_min(ib->in.payload_left, segment_bytes - ib->arrivals.offset_bytes % segment_bytes);
}

/* ------------------------------------------------------------------------------- state */

uint64_t autobuf_inband_deadline_ns(const struct autobuf_inband *ib)
{
    return !ib || is_over(ib) ? AUTOBUF_NS_UNSET : ib->limit_ns;
}

int autobuf_inband_finished(const struct autobuf_inband *ib)
{
    if (!ib)
        return -EINVAL;
    return ib->error < 0 ? ib->error : is_over(ib);
}
