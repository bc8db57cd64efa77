/* SPDX-License-Identifier: MIT */
/* autobuf_inband_*(): the handle, without a socket. */
#include "inband.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../estimate/mode.h"

#define BUDGET_MIN_BYTES 6000U
#define TIMEOUT_NS (5 * AB_NS_PER_S)
#define TIMEOUT_MOST_NS (30 * AB_NS_PER_S)
#define SEGMENT_BYTES (AB_IP_PACKET_BYTES - AB_TCP_HEADER_BYTES)
#define SEGMENT_MIN_BYTES 64U
#define SEGMENT_MOST_BYTES 65536U
#define OUT_STEP_BYTES 4096U
#define SAME_STAMP_NS 300U  /* no link that is measured sends a full packet in that time */
#define STALL_GAPS 4U       /* as long as the longest of most gaps */
#define STALL_PERCENT 85U
#define ARRIVAL_LEAST_BYTES 536U /* of smaller segments (RFC 9293's default) several share an arrival */
#define SHORTEST_LINE_BYTES 3U /* a blank, CR, LF */
#define REPLY_END "211 "
#define DRAINED_MOST_BYTES 65536U /* beyond what a reply of several lines was told to have */

static const struct ab_dress *dress_of(const struct autobuf_inband_options *o)
{
    return o->dress == AUTOBUF_INBAND_FTP ? ab_dress_ftp() : ab_dress_text();
}

static bool exchange_options_valid(const struct autobuf_inband_options *o)
{
    return o->budget_bytes >= BUDGET_MIN_BYTES && o->budget_bytes <= AB_INBAND_BUDGET_BYTES &&
           ab_line_prefix_valid(o->prefix) && o->dress <= AUTOBUF_INBAND_FTP &&
           (o->flags & ~(AUTOBUF_INBAND_TX | AUTOBUF_INBAND_RX | AUTOBUF_INBAND_GREET)) == 0;
}

static bool exchange_facts_valid(const struct autobuf_inband_facts *f)
{
    return f->segment_bytes >= SEGMENT_MIN_BYTES && f->segment_bytes <= SEGMENT_MOST_BYTES &&
           f->packet_bytes >= f->segment_bytes && f->packet_bytes <= 2 * SEGMENT_MOST_BYTES;
}

int autobuf_inband_open_pure(struct autobuf_inband **inband, uint32_t role, uint64_t now_ns,
                             const struct autobuf_inband_options *theirs)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband_facts unknown = AUTOBUF_INBAND_FACTS_INIT;
    struct autobuf_inband *ib;
    int error;

    *inband = NULL;
    if (theirs && !ab_struct_in(&options, sizeof options, theirs))
        return -EINVAL;
    if (!options.budget_bytes)
        options.budget_bytes = AB_INBAND_BUDGET_BYTES;
    if (!options.timeout_ns)
        options.timeout_ns = TIMEOUT_NS;
    options.timeout_ns = ab_min(options.timeout_ns, TIMEOUT_MOST_NS);
    if (!options.prefix[0])
        memcpy(options.prefix, dress_of(&options)->prefix, strlen(dress_of(&options)->prefix) + 1);
    if (!exchange_options_valid(&options) ||
        (role != AUTOBUF_INBAND_INITIATOR && role != AUTOBUF_INBAND_RESPONDER))
        return -EINVAL;
    ib = calloc(1, sizeof *ib);
    if (!ib)
        return -ENOMEM;
    ib->role = role;
    ib->options = options;
    ib->dress = dress_of(&options);
    ib->log = (struct ab_log){options.log, options.log_user};
    ib->owner = getpid();
    ib->fd = -1;
    ib->start_ns = ib->now_ns = now_ns;
    ib->end_ns = ib->exchange_ns = AUTOBUF_NS_UNSET;
    ib->random = 0x9e3779b97f4a7c15;
    autobuf_inband_tell(ib, &unknown);
    ib->phase = AB_PHASE_OVER;
    error = role == AUTOBUF_INBAND_INITIATOR ? ab_initiator_begin(ib) : 0;
    if (error < 0) {
        autobuf_inband_close(ib);
        return error;
    }
    *inband = ib;
    return 0;
}

int autobuf_inband_tell(struct autobuf_inband *ib, const struct autobuf_inband_facts *theirs)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;

    if (!ab_struct_in(&facts, sizeof facts, theirs))
        return -EINVAL;
    if (!facts.segment_bytes)
        facts.segment_bytes = SEGMENT_BYTES;
    if (!facts.packet_bytes)
        facts.packet_bytes = facts.segment_bytes + AB_TCP_HEADER_BYTES;
    if (!exchange_facts_valid(&facts))
        return -EINVAL;
    ib->facts = facts;
    return 0;
}

uint64_t ab_inband_wire_bytes(const struct autobuf_inband *ib, uint64_t payload_bytes)
{
    return payload_bytes * ib->facts.packet_bytes / ib->facts.segment_bytes;
}

uint64_t ab_inband_budget_bytes(const struct autobuf_inband *ib)
{
    return ab_min((uint64_t)ib->options.budget_bytes * ib->facts.segment_bytes /
                      ib->facts.packet_bytes,
                  AUTOBUF_INBAND_TRAIN_MOST_BYTES);
}

/* --------------------------------------------------------------------------------- sending */

/* Room for len bytes more; NULL: there is no memory. */
static uint8_t *room_to_send(struct autobuf_inband *ib, size_t len)
{
    size_t size = (ib->out_end + len + OUT_STEP_BYTES - 1) / OUT_STEP_BYTES * OUT_STEP_BYTES;
    uint8_t *out;

    if (size > ib->out_size) {
        out = realloc(ib->out, size);
        if (!out)
            return NULL;
        ib->out = out;
        ib->out_size = size;
    }
    return ib->out + ib->out_end;
}

/* to has room for a line. */
static size_t build_line(const struct autobuf_inband *ib, const struct ab_line *line,
                         const char *text, uint8_t *to)
{
    const struct ab_dress *d = ib->dress;

    return (ib->role == AUTOBUF_INBAND_INITIATOR ? d->build_ask : d->build_answer)(
        line, ib->options.prefix, text, (char *)to, AB_LINE_BYTES);
}

int ab_inband_say(struct autobuf_inband *ib, const struct ab_line *line, const char *text)
{
    uint8_t *to = room_to_send(ib, AB_LINE_BYTES);

    if (!to)
        return -ENOMEM;
    ib->out_end += build_line(ib, line, text, to);
    return 0;
}

/* Letters and digits that do not compress: a link that does would be measured too fast. */
static void fill_with_letters(struct autobuf_inband *ib, uint8_t *to, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t bits = 0;

    for (size_t i = 0; i < len; i++, bits >>= 6) {
        if (i % 10 == 0) { /* xorshift64 */
            ib->random ^= ib->random << 13;
            ib->random ^= ib->random >> 7;
            ib->random ^= ib->random << 17;
            bits = ib->random;
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

int ab_inband_say_train(struct autobuf_inband *ib, struct ab_line *line, uint64_t len, size_t behind)
{
    uint64_t around = ib->out_end - ib->out_begin + behind;
    uint8_t *to = room_to_send(ib, len + AB_LINE_BYTES);
    const char *last = ib->role == AUTOBUF_INBAND_RESPONDER ? ib->dress->train_end : "";
    size_t line_bytes = 0, last_bytes = strlen(last);

    if (!to)
        return -ENOMEM;
    if (line) {
        line->count = 1;
        line->numbers[0] = len;
        line_bytes = build_line(ib, line, NULL, to);
        len -= ab_min(len - SHORTEST_LINE_BYTES - last_bytes, around + line_bytes);
        line->numbers[0] = len;
        line_bytes = build_line(ib, line, NULL, to);
    }
    fill_with_lines(ib, to + line_bytes, len - last_bytes);
    memcpy(to + line_bytes + len - last_bytes, last, last_bytes);
    ib->out_end += line_bytes + len;
    return 0;
}

static void give_up(struct autobuf_inband *ib, int error)
{
    if (ib->error == 0) {
        ib->error = error;
        ab_log(&ib->log, "in band: %s", autobuf_strerror(error));
    }
    ib->end_ns = ab_min(ib->end_ns, ib->now_ns);
}

bool ab_inband_is_over(const struct autobuf_inband *ib)
{
    return ib->error < 0 || (ib->phase == AB_PHASE_OVER && ib->out_begin == ib->out_end &&
                             ib->payload_left == 0 && ib->line_bytes == 0);
}

size_t autobuf_inband_output(struct autobuf_inband *ib, uint64_t now_ns, const void **data)
{
    ib->now_ns = now_ns;
    if (ib->error == 0 && now_ns >= autobuf_inband_deadline_ns(ib))
        give_up(ib, -ETIMEDOUT);
    if (ib->error < 0 || ib->out_begin == ib->out_end)
        return 0;
    *data = ib->out + ib->out_begin;
    return ib->out_end - ib->out_begin;
}

void autobuf_inband_sent(struct autobuf_inband *ib, uint64_t now_ns, size_t bytes)
{
    uint32_t segment_bytes = ib->facts.segment_bytes;
    uint64_t packets = (bytes + segment_bytes - 1) / segment_bytes;

    ib->now_ns = now_ns;
    ib->cost_bytes += bytes + packets * (ib->facts.packet_bytes - segment_bytes);
    ib->out_begin += ab_min(bytes, ib->out_end - ib->out_begin);
    if (ib->out_begin < ib->out_end)
        return;
    ib->out_begin = ib->out_end = 0;
    ib->round_ns = now_ns;
    if (ib->phase == AB_PHASE_OVER) { /* an application may keep a handle for long */
        free(ib->out);
        ib->out = NULL;
        ib->out_size = 0;
    }
}

/* ------------------------------------------------------------------------------- receiving */

static int make_room_for_arrivals(struct autobuf_inband *ib)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t least_bytes = ab_max(ib->facts.segment_bytes, ARRIVAL_LEAST_BYTES);
    size_t capacity = 2 * ab_inband_budget_bytes(ib) / least_bytes + 64;

    if (a->packets)
        return 0;
    a->packets = calloc(capacity, sizeof *a->packets + sizeof *a->scratch);
    if (!a->packets)
        return -ENOMEM;
    a->scratch = (uint64_t *)(a->packets + capacity);
    a->capacity = capacity;
    a->count = 0;
    return 0;
}

void ab_inband_tell_pace(const struct autobuf_inband *ib, struct ab_line *line)
{
    line->values[AB_KEY_PACE] = ib->facts.pace_bit_per_s;
    line->values[AB_KEY_PACED] = ib->facts.flags & AUTOBUF_INBAND_PACED;
}

int ab_inband_expect(struct autobuf_inband *ib, const struct ab_line *line, uint64_t offset)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t segment_bytes = ib->facts.segment_bytes, len = line->numbers[0];
    int error = make_room_for_arrivals(ib);

    if (error < 0)
        return error;
    a->trains++;
    a->train_begin = a->count;
    a->train_bytes = 0;
    a->pace_bit_per_s = ab_min(line->values[AB_KEY_PACE], AB_PLAUSIBLE_BIT_PER_S);
    a->paced = line->values[AB_KEY_PACED];
    a->offset_bytes = offset;
    a->count_end = (offset + len) / segment_bytes * segment_bytes;
    ib->payload_left = len;
    ib->reply_matched = ib->drained_bytes = 0;
    return 0;
}

/* One packet read in two parts; put on another clock, its stamp is not quite the same. */
static bool is_same_stamp(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) < SAME_STAMP_NS;
}

static void take_payload(struct autobuf_inband *ib, uint64_t stamp_ns, uint64_t len)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t before = ab_inband_wire_bytes(ib, a->train_bytes);
    struct ab_packet *p;

    a->offset_bytes += len;
    a->train_bytes += len;
    if (a->offset_bytes > a->count_end && a->count > a->train_begin)
        return;
    p = a->count > a->train_begin ? &a->packets[a->count - 1] : NULL;
    if (!p || (!is_same_stamp(p->received_ns, stamp_ns) && a->count < a->capacity)) {
        if (a->count == a->capacity)
            return;
        p = &a->packets[a->count++];
        *p = (struct ab_packet){.train = a->trains};
    }
    p->received_ns = stamp_ns;
    p->bytes += (uint32_t)(ab_inband_wire_bytes(ib, a->train_bytes) - before);
    p->merged = p->bytes > ib->facts.packet_bytes + ib->facts.packet_bytes / 2;
}

/* TCP's own least, unless it cannot be: the exchange took a round trip as well. */
static uint64_t exchange_rtt_ns(const struct autobuf_inband *ib)
{
    uint64_t tcp_ns = ib->facts.rtt_min_ns;

    return tcp_ns && tcp_ns < ib->exchange_ns ? tcp_ns : ib->exchange_ns;
}

static uint64_t gap_before(const struct ab_packet *p)
{
    return p->received_ns > p[-1].received_ns ? p->received_ns - p[-1].received_ns : 0;
}

/*
 * A gap as long as this is no packet's time on a link, and none between the bursts of a paced sender,
 * who lets several go in a round trip: a window was full, or something came again.
 */
static uint64_t shortest_stall_ns(const struct autobuf_inband *ib)
{
    const struct ab_arrivals *a = &ib->arrivals;
    uint64_t rtt_ns = exchange_rtt_ns(ib);
    size_t gaps = 0;

    for (size_t i = a->train_begin + 1; i < a->count; i++)
        a->scratch[gaps++] = gap_before(&a->packets[i]);
    if (gaps == 0)
        return 0;
    ab_sort(a->scratch, gaps);
    return ab_max(STALL_GAPS * ab_percentile(a->scratch, gaps, STALL_PERCENT),
                  rtt_ns == AUTOBUF_NS_UNSET ? 0 : rtt_ns / 2);
}

/* What comes behind a stall is another train. Tells what the newest brought in which time, without stalls. */
static void split_at_stalls(struct autobuf_inband *ib, struct ab_reading *r)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t stall_ns = shortest_stall_ns(ib), wire_bytes = 0;

    r->span_ns = 0;
    for (size_t i = a->train_begin + 1; i < a->count; i++) {
        uint64_t gap_ns = gap_before(&a->packets[i]);

        if (gap_ns < stall_ns) {
            r->span_ns = ab_min(r->span_ns + gap_ns, TIMEOUT_MOST_NS);
            wire_bytes += a->packets[i].bytes;
        } else {
            a->trains++;
        }
        a->packets[i].train = a->trains;
    }
    /* Facts may have changed meanwhile. */
    r->bytes = ab_min(wire_bytes * ib->facts.segment_bytes / ib->facts.packet_bytes, a->train_bytes);
}

/* Nothing, or a bound below what is known already. */
static bool is_less(const struct ab_rate *rate, const struct ab_reading *known)
{
    return rate->rate_bit_per_s == 0 ||
           (rate->at_least && rate->rate_bit_per_s < known->rate_bit_per_s);
}

void ab_inband_read(struct autobuf_inband *ib)
{
    struct ab_arrivals *a = &ib->arrivals;
    struct ab_reading *r = &ib->rx.reading;
    struct ab_rate rate;

    split_at_stalls(ib, r);
    ab_estimate_stream(a->packets, a->count, a->train_begin, &a->free_begin,
                       ab_inband_wire_bytes(ib, a->pace_bit_per_s), a->paced, a->scratch, &rate);
    r->sure = rate.sure;
    if (!is_less(&rate, r)) {
        r->rate_bit_per_s = ab_min(rate.rate_bit_per_s, AB_PLAUSIBLE_BIT_PER_S);
        r->low_bit_per_s = ab_min(rate.low_bit_per_s, AB_PLAUSIBLE_BIT_PER_S);
        r->high_bit_per_s = ab_min(rate.high_bit_per_s, AB_PLAUSIBLE_BIT_PER_S);
        r->at_least = rate.at_least || rate.rate_bit_per_s > AB_PLAUSIBLE_BIT_PER_S;
    }
    ib->samples = (uint32_t)a->count;
    ab_log(&ib->log, "in band: train of %llu bytes in %llu us, %zu arrivals: %s%.1f Mbit/s%s",
           (unsigned long long)a->train_bytes, (unsigned long long)(r->span_ns / AB_NS_PER_US), a->count,
           r->at_least ? "at least " : "", (double)r->rate_bit_per_s / 1e6,
           r->sure ? "" : ", not sure");
}

void ab_reading_tell(const struct ab_reading *r, struct ab_line *line)
{
    line->values[AB_KEY_BYTES] = r->bytes;
    line->values[AB_KEY_NSEC] = r->span_ns;
    line->values[AB_KEY_RATE] = r->rate_bit_per_s;
    line->values[AB_KEY_LOW] = r->low_bit_per_s;
    line->values[AB_KEY_HIGH] = r->high_bit_per_s;
    line->values[AB_KEY_SURE] = r->sure;
    line->values[AB_KEY_ATLEAST] = r->at_least;
}

bool ab_reading_hear(const struct ab_line *line, struct ab_reading *r)
{
    const uint64_t *v = line->values;

    *r = (struct ab_reading){.bytes = v[AB_KEY_BYTES], .span_ns = v[AB_KEY_NSEC]};
    if (v[AB_KEY_RATE] == 0 || v[AB_KEY_RATE] > AB_PLAUSIBLE_BIT_PER_S ||
        v[AB_KEY_LOW] > v[AB_KEY_RATE] || v[AB_KEY_HIGH] < v[AB_KEY_RATE])
        return false;
    r->rate_bit_per_s = v[AB_KEY_RATE];
    r->low_bit_per_s = v[AB_KEY_LOW];
    r->high_bit_per_s = ab_min(v[AB_KEY_HIGH], AB_PLAUSIBLE_BIT_PER_S);
    r->sure = v[AB_KEY_SURE];
    r->at_least = v[AB_KEY_ATLEAST];
    return true;
}

void ab_inband_over(struct autobuf_inband *ib)
{
    ib->phase = AB_PHASE_OVER;
    ib->end_ns = ab_min(ib->end_ns, ib->now_ns);
    free(ib->arrivals.packets);
    ib->arrivals = (struct ab_arrivals){0};
}

/* Whether what is there of a line can still become one that a responder is meant to read. */
static bool is_foreign(const struct autobuf_inband *ib)
{
    size_t prefix_len = strlen(ib->options.prefix);

    return ib->role == AUTOBUF_INBAND_RESPONDER &&
           memcmp(ib->line, ib->options.prefix, ab_min(ib->line_bytes, prefix_len)) != 0;
}

/* Takes up to the end of a line; acts on it when it is complete. Returns how much it took. */
static size_t take_line(struct autobuf_inband *ib, const char *data, size_t len)
{
    size_t most = ab_min(len, AB_LINE_BYTES - ib->line_bytes);
    const char *end = memchr(data, '\n', most);
    size_t taken = end ? (size_t)(end - data) + 1 : most, text_len;
    struct ab_line line;
    int error;

    memcpy(ib->line + ib->line_bytes, data, taken);
    ib->line_bytes += taken;
    if (is_foreign(ib) || (!end && ib->line_bytes == AB_LINE_BYTES)) {
        give_up(ib, AUTOBUF_E_PROTOCOL);
        return taken;
    }
    if (!end)
        return taken;
    text_len = ib->line_bytes - 1;
    text_len -= text_len > 0 && ib->line[text_len - 1] == '\r';
    if (!(ib->role == AUTOBUF_INBAND_INITIATOR ? ib->dress->parse_answer : ib->dress->parse_ask)(
            ib->options.prefix, ib->line, text_len, &line))
        line.verb = AB_NO_VERB;
    error = ib->role == AUTOBUF_INBAND_INITIATOR
                ? ab_initiator_line(ib, &line, ib->line_bytes)
                : ab_responder_line(ib, &line, ib->line_bytes);
    ib->line_bytes = 0;
    if (error < 0)
        give_up(ib, error);
    return taken;
}

/* Up to the end of a reply's last line, which begins with its code and a blank. */
static size_t to_end_of_reply(struct autobuf_inband *ib, const char *data, size_t len, bool *ended)
{
    size_t code_bytes = strlen(REPLY_END);

    *ended = false;
    for (size_t i = 0; i < len; i++) {
        if (ib->reply_matched < code_bytes)
            ib->reply_matched =
                data[i] == REPLY_END[ib->reply_matched] ? ib->reply_matched + 1 : code_bytes + 1;
        if (data[i] != '\n')
            continue;
        *ended = ib->reply_matched == code_bytes;
        ib->reply_matched = 0;
        if (*ended)
            return i + 1;
    }
    return len;
}

/* A reply may end sooner than was told, or later: it is drained, but not for ever. */
static size_t take_reply(struct autobuf_inband *ib, const char *data, size_t len)
{
    bool ended;
    size_t taken = to_end_of_reply(ib, data, ab_min(len, ib->payload_left), &ended);

    ib->payload_left = ended ? 0 : ib->payload_left - taken;
    if (!ended && ib->payload_left == 0) {
        ib->payload_left = AB_LINE_BYTES;
        ib->drained_bytes += AB_LINE_BYTES;
        if (ib->drained_bytes > DRAINED_MOST_BYTES)
            give_up(ib, AUTOBUF_E_PROTOCOL);
    }
    return taken;
}

static size_t take_train(struct autobuf_inband *ib, uint64_t stamp_ns, const char *data, size_t len)
{
    bool is_reply = ib->role == AUTOBUF_INBAND_INITIATOR && ib->dress->train_end[0];
    size_t taken = is_reply ? take_reply(ib, data, len) : ab_min(len, ib->payload_left);
    int error = 0;

    if (!is_reply)
        ib->payload_left -= taken;
    if (!ib->sink_refused)
        take_payload(ib, stamp_ns, taken);
    if (ib->payload_left == 0)
        error = ib->role == AUTOBUF_INBAND_INITIATOR ? ab_initiator_payload(ib)
                                                     : ab_responder_payload(ib);
    if (error < 0)
        give_up(ib, error);
    return taken;
}

/* Nothing more is to be read now: it is over, or a responder has to send first, which bounds its memory. */
static bool is_deaf(const struct autobuf_inband *ib)
{
    if (ib->error < 0 || ib->payload_left > 0)
        return ib->error < 0;
    if (ib->role == AUTOBUF_INBAND_INITIATOR)
        return ib->phase == AB_PHASE_OVER;
    return ib->out_begin < ib->out_end;
}

int64_t autobuf_inband_input(struct autobuf_inband *ib, uint64_t stamp_ns, const void *data,
                             size_t len)
{
    size_t taken = 0;

    if (ib->owner != getpid())
        return AUTOBUF_E_FORKED;
    if (ib->error == 0 && len == 0 && !ab_inband_is_over(ib))
        give_up(ib, -ECONNRESET);
    ib->now_ns = ab_max(ib->now_ns, stamp_ns);
    if (ab_inband_is_over(ib)) /* and perhaps not any longer */
        ib->limit_ns = ib->now_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    while (taken < len && !is_deaf(ib)) {
        if (ib->payload_left > 0)
            taken += take_train(ib, stamp_ns, (const char *)data + taken, len - taken);
        else
            taken += take_line(ib, (const char *)data + taken, len - taken);
        if (ab_inband_is_over(ib))
            break; /* what follows may be the application's */
    }
    return ib->error < 0 ? ib->error : (int64_t)taken;
}

size_t autobuf_inband_wanted(const struct autobuf_inband *ib)
{
    uint64_t segment_bytes = ib->facts.segment_bytes;

    if (is_deaf(ib))
        return 0;
    if (ib->payload_left == 0)
        return AB_LINE_BYTES - ib->line_bytes;
    return ab_min(ib->payload_left, segment_bytes - ib->arrivals.offset_bytes % segment_bytes);
}

/* ---------------------------------------------------------------------------------- asking */

uint64_t autobuf_inband_deadline_ns(const struct autobuf_inband *ib)
{
    return ab_inband_is_over(ib) ? AUTOBUF_NS_UNSET : ib->limit_ns;
}

int autobuf_inband_state(const struct autobuf_inband *ib)
{
    return ib->error < 0 ? ib->error : ab_inband_is_over(ib);
}

uint64_t ab_inband_product(const struct autobuf_inband *ib, uint64_t rate_bit_per_s)
{
    uint64_t rtt_ns = exchange_rtt_ns(ib);
    uint32_t small_bytes = ib->facts.packet_bytes - ib->facts.segment_bytes;

    return rate_bit_per_s && rtt_ns != AUTOBUF_NS_UNSET
               ? ab_estimate_bdp(rate_bit_per_s, rtt_ns, ib->facts.packet_bytes, small_bytes)
               : 0;
}

uint64_t ab_inband_believable(const struct autobuf_inband *ib, bool tx)
{
    const struct ab_reading *r = &ib->rx.reading;

    if (tx)
        return ib->tx.spent_bytes ? ab_inband_product(ib, AB_PLAUSIBLE_BIT_PER_S) : 0;
    return r->at_least ? ab_inband_product(ib, AB_PLAUSIBLE_BIT_PER_S)
                       : 2 * ab_inband_product(ib, r->high_bit_per_s);
}

static void result_direction(const struct autobuf_inband *ib, const struct ab_reading *r,
                             uint64_t *rate, uint64_t *low, uint64_t *high, uint64_t *bdp)
{
    *rate = r->rate_bit_per_s;
    *low = r->low_bit_per_s;
    *high = r->high_bit_per_s;
    *bdp = ab_inband_product(ib, r->rate_bit_per_s);
}

int autobuf_inband_result(const struct autobuf_inband *ib, struct autobuf_path *theirs)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t end_ns = ab_min(ib->end_ns, ib->now_ns);

    path.method = AUTOBUF_METHOD_INBAND;
    path.samples = ib->samples;
    path.rtt_min_ns = exchange_rtt_ns(ib);
    path.rtt_median_ns =
        ib->exchange_ns != AUTOBUF_NS_UNSET ? ib->exchange_ns : path.rtt_min_ns;
    result_direction(ib, &ib->tx.reading, &path.tx_rate_bit_per_s, &path.tx_rate_low_bit_per_s,
                     &path.tx_rate_high_bit_per_s, &path.tx_bdp_bytes);
    result_direction(ib, &ib->rx.reading, &path.rx_rate_bit_per_s, &path.rx_rate_low_bit_per_s,
                     &path.rx_rate_high_bit_per_s, &path.rx_bdp_bytes);
    if (ib->tx.reading.at_least)
        path.flags |= AUTOBUF_PATH_TX_AT_LEAST;
    if (ib->rx.reading.at_least)
        path.flags |= AUTOBUF_PATH_RX_AT_LEAST;
    path.cost_bytes = ib->cost_bytes;
    path.elapsed_ns = end_ns > ib->start_ns ? end_ns - ib->start_ns : 0;
    path.measured_ns = end_ns;
    path.packet_bytes = ib->facts.packet_bytes;
    if (!ab_struct_out(theirs, &path, sizeof path))
        return -EINVAL;
    if (ib->outcome < 0)
        return ib->outcome;
    if (path.rtt_min_ns == AUTOBUF_NS_UNSET)
        return AUTOBUF_E_NOREPLY;
    if (path.tx_rate_bit_per_s || path.rx_rate_bit_per_s)
        return 0;
    return ib->exchange_ns == AUTOBUF_NS_UNSET ? AUTOBUF_E_NOREPLY : AUTOBUF_E_FEW;
}

void autobuf_inband_close(struct autobuf_inband *ib)
{
    if (!ib)
        return;
    if (ib->fd >= 0 && ib->owner == getpid())
        autobuf_inband_restore(ib->fd, ib->prepared);
    free(ib->arrivals.packets);
    free(ib->out);
    free(ib);
}
