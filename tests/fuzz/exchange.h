/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets of the in-band exchange share: a pure handle with options and facts out of
 * the input, a clock, and what went either way, followed line by line. What must hold after each
 * call is checked here.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <errno.h>
#include <stdbool.h>

#include "fuzz.h"
#include "inband/exchange.h"

#define TRAIN_MOST AUTOBUF_INBAND_BUDGET_BYTES
#define PACKETS_MOST (2 * TRAIN_MOST / 536 + 64)
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
#define LATEST_NS (UINT64_MAX / 2) /* 292 years: nobody's clock goes on */

/* The bytes of one end: lines, and the payload that some of them announce. */
struct follower {
    const char *prefix;
    enum ab_verb announces; /* whose number is that of the payload behind it */
    uint64_t lines;         /* complete ones */
    struct ab_line line;    /* the newest */
    struct ab_line first;
    char text[AB_LINE_BYTES];
    size_t text_bytes;      /* of the line that is not complete */
    uint64_t payload_left;
    uint64_t payload_bytes; /* of all trains */
};

struct exchange {
    struct autobuf_inband *ib;
    void (*said)(struct exchange *x); /* a line of its is complete; its payload is not */
    uint32_t role;
    char prefix[AB_PREFIX_BYTES];
    uint32_t budget_bytes;
    uint64_t timeout_ns;
    bool sets; /* SET has a function */
    struct autobuf_inband_facts facts;
    uint64_t now_ns, first_ns, last_ns; /* earliest and latest now_ns */
    int state;
    size_t pending;      /* queued, not sent */
    uint64_t sent_bytes;
    struct follower mouth, ear; /* of this end */
};

/* A line is complete: what does it say? */
static inline void follower_line(struct follower *f)
{
    size_t len = f->text_bytes - 1;

    len -= len > 0 && f->text[len - 1] == '\r';
    f->text_bytes = 0;
    f->lines++;
    if (!ab_line_parse(f->prefix, f->text, len, &f->line))
        f->line.verb = AB_NO_VERB;
    if (f->lines == 1)
        f->first = f->line;
    if (f->line.verb != f->announces || f->line.count != 1 || f->line.numbers[0] > TRAIN_MOST)
        return;
    f->payload_left = f->line.numbers[0];
    f->payload_bytes += f->payload_left;
}

/* A line's next byte. True: it is complete. */
static inline bool follower_byte(struct follower *f, char byte)
{
    if (f->text_bytes < sizeof f->text)
        f->text[f->text_bytes++] = byte;
    if (byte != '\n')
        return false;
    follower_line(f);
    return true;
}

static inline void follower_bytes(struct follower *f, const char *data, size_t len)
{
    while (len > 0) {
        size_t skipped = f->payload_left < len ? (size_t)f->payload_left : len;

        f->payload_left -= skipped;
        data += skipped;
        len -= skipped;
        if (len > 0) {
            follower_byte(f, *data++);
            len--;
        }
    }
}

/* Payload that is sent here: lines that begin with a blank, of letters and digits. */
static inline void check_payload(const char *data, size_t len)
{
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t line = end ? (size_t)(end - data) + 1 : 0;

        CHECK(line >= 3 && line <= AB_LINE_BYTES && data[0] == ' ' && end[-1] == '\r');
        CHECK(strspn(data + 1, LETTERS) == line - 3);
        data += line;
        len -= line;
    }
}

/* What is new to be said: whole lines, each with its payload. */
static inline void check_spoken(struct exchange *x, const char *data, size_t len)
{
    struct follower *f = &x->mouth;

    while (len > 0) {
        bool complete = follower_byte(f, *data);

        CHECK((*data >= ' ' && *data <= '~') || *data == '\r' || *data == '\n');
        data++;
        len--;
        CHECK(f->text_bytes < AB_LINE_BYTES);
        if (!complete)
            continue;
        CHECK(f->line.verb != AB_NO_VERB);
        x->said(x);
        CHECK(f->payload_left <= len);
        check_payload(data, (size_t)f->payload_left);
        data += f->payload_left;
        len -= (size_t)f->payload_left;
        f->payload_left = 0;
    }
    CHECK(f->text_bytes == 0);
}

/* After each call: what is new to be sent, and whether the handle is in order. */
static inline void exchange_follow(struct exchange *x)
{
    const struct autobuf_inband *ib = x->ib;
    size_t pending = ib->out.end - ib->out.begin, wanted = autobuf_inband_wanted(ib);
    int state = autobuf_inband_finished(ib);

    CHECK(pending >= x->pending);
    CHECK(pending == x->pending || x->state == 0 ||
          (x->state == 1 && x->role == AUTOBUF_INBAND_RESPONDER));
    if (pending > x->pending)
        check_spoken(x, (const char *)ib->out.bytes + ib->out.begin + x->pending, pending - x->pending);
    x->pending = pending;
    x->first_ns = x->first_ns < x->now_ns ? x->first_ns : x->now_ns;
    x->last_ns = x->last_ns > x->now_ns ? x->last_ns : x->now_ns;
    CHECK(state == 0 || state == 1 || state == AUTOBUF_E_PROTOCOL || state == -ECONNRESET ||
          state == -ETIMEDOUT);
    CHECK(x->state >= 0 || state == x->state);
    CHECK(x->state == 0 || state == x->state || x->role == AUTOBUF_INBAND_RESPONDER);
    CHECK(state != 1 || pending == 0);
    CHECK(state == 0 || autobuf_inband_deadline_ns(ib) == AUTOBUF_NS_UNSET);
    CHECK(state >= 0 || wanted == 0);
    CHECK(wanted <= x->facts.segment_bytes || wanted <= AB_LINE_BYTES);
    CHECK(ib->arrivals.capacity <= PACKETS_MOST && ib->arrivals.count <= ib->arrivals.capacity);
    x->state = state;
}

/* A public struct of an older program: its first size bytes. The caller frees it. */
static inline void *exchange_cut(void *whole, size_t bytes, uint32_t *size, struct input *in)
{
    size_t cut = (size_t)take(in, 1) % (bytes + 1);
    void *copy;

    if (cut > 8)
        cut = cut / 8 * 8; /* through no pointer */
    *size = (uint32_t)cut;
    copy = exact_copy(whole, cut < sizeof *size ? sizeof *size : cut);
    memset((char *)whole + cut, 0, bytes - cut);
    return copy;
}

static inline void exchange_log(void *user, const struct autobuf_event *event)
{
    (void)user;
    CHECK(strncmp(event->text, "in band: ", 9) == 0 && strlen(event->text) < 256);
}

static inline void exchange_options(struct exchange *x, struct autobuf_inband_options *o,
                                    struct input *in, unsigned how)
{
    if (how & 2)
        o->budget_bytes = (uint32_t)take(in, how & 64 ? 4 : 3);
    if (how & 4)
        o->timeout_ns = take_number(in);
    if (how & 8)
        for (size_t i = 0, len = (size_t)take(in, 1) % 40; i < len; i++)
            o->prefix[i % sizeof o->prefix] = (char)take(in, 1);
    if (how & 16) {
        o->log = exchange_log;
        o->log_user = x;
    }
}

/* Opens it, or finds that the options are refused as they should be. */
static inline bool exchange_open(struct exchange *x, uint32_t role, struct input *in,
                                 ab_inband_set_fn *set)
{
    struct autobuf_inband_options o = AUTOBUF_INBAND_OPTIONS_INIT, *copy;
    unsigned how = (unsigned)take(in, 1);
    bool valid;
    int error;

    x->role = role;
    x->now_ns = how & 1 ? take_number(in) % LATEST_NS : 1000000;
    exchange_options(x, &o, in, how);
    copy = how & 32 ? exchange_cut(&o, sizeof o, &o.size, in) : exact_copy(&o, sizeof o);
    memcpy(copy, &o.size, sizeof o.size);
    x->budget_bytes = o.budget_bytes ? o.budget_bytes : AUTOBUF_INBAND_BUDGET_BYTES;
    x->timeout_ns = o.timeout_ns ? ab_min(o.timeout_ns, 30 * AB_NS_PER_S) : 5 * AB_NS_PER_S;
    memcpy(x->prefix, o.prefix[0] ? o.prefix : "AUTOBUF", o.prefix[0] ? sizeof o.prefix : 8);
    x->sets = set;
    valid = o.size >= sizeof o.size && x->budget_bytes >= 6000 && x->budget_bytes <= 480000 &&
            (!o.prefix[0] || ab_line_prefix_valid(o.prefix));
    error = autobuf_inband_open_pure(&x->ib, role, x->now_ns, how & 126 || set ? copy : NULL);
    free(copy);
    CHECK(error == (valid ? 0 : -EINVAL) && !x->ib == !valid);
    if (set && valid) {
        x->ib->responder.set = set;
        x->ib->responder.set_user = x;
    }
    x->facts = (struct autobuf_inband_facts){.segment_bytes = 1448, .packet_bytes = 1500,
                                             .rtt_min_ns = AUTOBUF_NS_UNSET};
    x->mouth.prefix = x->ear.prefix = x->prefix;
    x->mouth.announces = role == AUTOBUF_INBAND_INITIATOR ? AB_SINK : AB_TRAIN;
    x->ear.announces = role == AUTOBUF_INBAND_INITIATOR ? AB_NO_VERB : AB_SINK;
    x->state = role == AUTOBUF_INBAND_RESPONDER;
    x->first_ns = x->last_ns = x->now_ns;
    if (valid)
        exchange_follow(x);
    return valid;
}

static inline void exchange_tell(struct exchange *x, struct input *in)
{
    struct autobuf_inband_facts f = AUTOBUF_INBAND_FACTS_INIT, *copy;
    unsigned how = (unsigned)take(in, 1);
    bool valid;

    if (how & 1)
        f.segment_bytes = (uint32_t)take(in, how & 128 ? 4 : 2);
    if (how & 2)
        f.packet_bytes = f.segment_bytes + (uint32_t)take(in, how & 128 ? 4 : 2);
    if (how & 4)
        f.flags = (uint32_t)take(in, 1);
    if (how & 8)
        f.train_bytes = take_number(in);
    if (how & 16)
        f.pace_bit_per_s = take_number(in);
    if (how & 32)
        f.rtt_min_ns = take_number(in);
    copy = how & 64 ? exchange_cut(&f, sizeof f, &f.size, in) : exact_copy(&f, sizeof f);
    memcpy(copy, &f.size, sizeof f.size);
    f.segment_bytes = f.segment_bytes ? f.segment_bytes : 1448;
    f.packet_bytes = f.packet_bytes ? f.packet_bytes : f.segment_bytes + 52;
    f.rtt_min_ns = ab_ns_or_unset(f.rtt_min_ns);
    valid = f.size >= sizeof f.size && f.segment_bytes >= 64 && f.segment_bytes <= 65536 &&
            f.packet_bytes >= f.segment_bytes && f.packet_bytes <= 131072;
    CHECK(autobuf_inband_tell(x->ib, copy) == (valid ? 0 : -EINVAL));
    free(copy);
    if (valid)
        x->facts = f;
    exchange_follow(x);
}

/* Payload that trains may have in one direction. */
static inline uint64_t exchange_budget(const struct exchange *x)
{
    uint64_t bytes = (uint64_t)x->budget_bytes * x->facts.segment_bytes / x->facts.packet_bytes;

    return bytes < TRAIN_MOST ? bytes : TRAIN_MOST;
}

static inline void exchange_wait(struct exchange *x, uint64_t ns)
{
    x->now_ns = (x->now_ns + ns) % LATEST_NS;
}

/* Sends up to most bytes of what there is. */
static inline void exchange_send(struct exchange *x, size_t most)
{
    bool late = x->state == 0 && x->now_ns >= autobuf_inband_deadline_ns(x->ib);
    const void *data = NULL;
    size_t len = autobuf_inband_output(x->ib, x->now_ns, &data);

    exchange_follow(x);
    CHECK(!late || x->state == -ETIMEDOUT);
    CHECK(len == (x->state < 0 ? 0 : x->pending));
    if (len == 0)
        return;
    CHECK(((const char *)data)[len - 1] > 0);
    most = most > len / 64 ? most : len / 64 + 1; /* bytes one by one would take long */
    len = len < most ? len : most;
    autobuf_inband_sent(x->ib, x->now_ns, len);
    x->sent_bytes += len;
    x->pending -= len;
    exchange_follow(x);
}

/* What arrives, at most piece bytes at a time, gap_ns apart. An initiator's rest is another's. */
struct arrival {
    size_t piece;
    uint64_t gap_ns;
    bool greedy; /* more than is wanted */
};

/* One piece. Returns how much of it was taken; 0: nothing more is. */
static inline size_t exchange_piece(struct exchange *x, const struct arrival *how, const char *data,
                                    size_t len)
{
    size_t wanted = autobuf_inband_wanted(x->ib);
    bool over;
    char *copy;
    int64_t got;

    while (wanted == 0 && x->pending > 0 && x->state == 0) {
        exchange_send(x, how->piece);
        wanted = autobuf_inband_wanted(x->ib);
    }
    over = x->state < 0 || (x->state == 1 && x->role == AUTOBUF_INBAND_INITIATOR);
    CHECK((wanted == 0) == over);
    if (wanted == 0)
        return 0;
    len = len < how->piece ? len : how->piece;
    if (!how->greedy && len > wanted)
        len = wanted;
    copy = exact_copy(data, len);
    got = autobuf_inband_input(x->ib, x->now_ns, copy, len);
    free(copy);
    follower_bytes(&x->ear, data, got < 0 ? len : (size_t)got);
    exchange_follow(x);
    CHECK(got < 0 ? got == x->state : got > 0 && (uint64_t)got <= len);
    CHECK(got < 0 || (uint64_t)got == len || autobuf_inband_wanted(x->ib) == 0);
    return got < 0 ? 0 : (size_t)got;
}

static inline void exchange_feed(struct exchange *x, struct arrival how, const char *data,
                                 size_t len)
{
    size_t taken = 1;

    if (how.piece < 1 + len / 2048)
        how.piece = 1 + len / 2048;
    while (len > 0 && taken > 0) {
        taken = exchange_piece(x, &how, data, len);
        exchange_wait(x, how.gap_ns);
        data += taken;
        len -= taken;
    }
}

/* len bytes that look like payload. */
static inline void exchange_feed_payload(struct exchange *x, struct arrival how, uint64_t len)
{
    static char payload[TRAIN_MOST];

    exchange_feed(x, how, payload, len < sizeof payload ? (size_t)len : sizeof payload);
}

static inline struct arrival take_arrival(struct input *in)
{
    unsigned how = (unsigned)take(in, 1);
    struct arrival arrival = {65536, 0, how & 1};

    if (how & 2)
        arrival.piece = (size_t)take(in, how & 4 ? 1 : 2);
    if (how & 8)
        arrival.gap_ns = how & 16 ? take_number(in) : take(in, 2) * 100;
    return arrival;
}

/* A line, whole or, as how tells, with a byte changed, cut, or with a bare LF. */
static inline size_t exchange_line(const struct exchange *x, const struct ab_line *line,
                                   struct input *in, unsigned how, char *text)
{
    size_t len = ab_line_build(line, x->prefix, line->verb == AB_ERROR ? "text" : NULL, text,
                               AB_LINE_BYTES);
    size_t at;

    if (len == 0)
        return 0;
    at = how == 1 || how == 2 ? (size_t)take(in, 1) % len : len - 2;
    if (how == 1)
        text[at] = (char)take(in, 1);
    else if (how == 2)
        len = at;
    else if (how == 3) /* LF alone */
        text[at] = text[--len];
    return len;
}

/* The peer closes. */
static inline void exchange_end(struct exchange *x)
{
    int before = x->state;
    int64_t got = autobuf_inband_input(x->ib, x->now_ns, "", 0);

    exchange_follow(x);
    CHECK(before != 0 || x->state == -ECONNRESET);
    CHECK(got == (x->state < 0 ? x->state : 0) && (before == 0 || x->state == before));
}

static inline void check_rate(uint64_t rate, uint64_t low, uint64_t high, uint64_t bdp, bool told)
{
    CHECK(low <= rate && rate <= high);
    CHECK(rate > 0 || bdp == 0);
    CHECK(!told || high <= AB_PLAUSIBLE_BIT_PER_S);
}

/* As TCP saw it, or no longer than all that was going on. */
static inline bool is_rtt(const struct exchange *x, uint64_t rtt_ns)
{
    uint64_t all_ns = x->last_ns - x->first_ns, tcp_ns = x->facts.rtt_min_ns;

    return rtt_ns == AUTOBUF_NS_UNSET || rtt_ns == tcp_ns || rtt_ns == 1 ||
           rtt_ns <= (x->role == AUTOBUF_INBAND_INITIATOR ? all_ns : x->timeout_ns);
}

static inline int exchange_result(const struct exchange *x)
{
    struct autobuf_path p = AUTOBUF_PATH_INIT;
    int result = autobuf_inband_result(x->ib, &p);

    CHECK(result == 0 || result == AUTOBUF_E_UNSUPPORTED || result == AUTOBUF_E_NOREPLY ||
          result == AUTOBUF_E_FEW || result == AUTOBUF_E_RELAYED);
    CHECK(result != 0 || p.tx_rate_bit_per_s || p.rx_rate_bit_per_s);
    CHECK(result != 0 || p.rtt_min_ns != AUTOBUF_NS_UNSET);
    CHECK((result != AUTOBUF_E_FEW && result != AUTOBUF_E_RELAYED) || !(p.tx_rate_bit_per_s || p.rx_rate_bit_per_s));
    CHECK(p.method == AUTOBUF_METHOD_INBAND && p.cost_bytes >= x->sent_bytes);
    CHECK(is_rtt(x, p.rtt_min_ns) && is_rtt(x, p.rtt_median_ns));
    CHECK(p.rtt_min_ns <= p.rtt_median_ns && p.packet_bytes == x->facts.packet_bytes);
    check_rate(p.tx_rate_bit_per_s, p.tx_rate_low_bit_per_s, p.tx_rate_high_bit_per_s,
               p.tx_bdp_bytes, true);
    check_rate(p.rx_rate_bit_per_s, p.rx_rate_low_bit_per_s, p.rx_rate_high_bit_per_s,
               p.rx_bdp_bytes, false);
    return result;
}

/* All is sent, and then nothing comes: the end is its deadline. */
static inline void exchange_to_the_end(struct exchange *x)
{
    exchange_send(x, SIZE_MAX);
    if (x->state == 0) {
        CHECK(autobuf_inband_deadline_ns(x->ib) != AUTOBUF_NS_UNSET);
        x->now_ns = autobuf_inband_deadline_ns(x->ib);
        exchange_send(x, SIZE_MAX);
        CHECK(x->state == -ETIMEDOUT);
    }
    exchange_result(x);
}

#endif
