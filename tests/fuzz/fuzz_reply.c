/* SPDX-License-Identifier: MIT */
/*
 * A whole measurement on a pure handle. The input is its options and then a script: time passes, or
 * jumps anywhere; packets are taken; replies come, right, cut, changed, twice, foreign, late, or
 * from the future. When the script ends, time runs to the end of the measurement.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "icmp/probe.h"

#define MOST 8192U /* packets: 1,000,000 bytes of 128, and some */
#define LAST_STEPS 20000U
#define NS_PER_S 1000000000ULL

static const uint8_t token[16] = "0123456789abcde";

struct run {
    struct autobuf_probe *probe;
    bool ipv6, stretches, finished;
    uint64_t start_ns, now_ns, limit_ns, budget_bytes, cost_bytes;
    uint32_t sent, answered;
    uint16_t lengths[MOST];
    bool replied[MOST];
};

/* Opens it, or finds that the options are refused as they should be. */
static bool run_open(struct run *r, struct input *in)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    unsigned how = (unsigned)take(in, 1);
    bool allowed;
    int error;

    r->ipv6 = how & 1;
    r->start_ns = r->now_ns = how & 2 ? take_number(in) : 1000000;
    if (how & 4)
        options.packet_bytes = (uint32_t)take(in, how & 64 ? 4 : 2);
    if (how & 8)
        options.budget_bytes = (uint32_t)take(in, how & 64 ? 4 : 3);
    if (how & 16)
        options.timeout_ns = take_number(in);
    if (how & 32)
        options.bdp_high_bytes = options.bdp_low_bytes = take_number(in);
    if ((how & 48) == 48)
        options.silence_ns = take_number(in);
    r->stretches = how & 128;
    options.flags = r->stretches ? AUTOBUF_PROBE_AVAILABLE : 0;
    r->budget_bytes = options.budget_bytes ? options.budget_bytes : 1000000;
    r->limit_ns =
        options.timeout_ns && options.timeout_ns < 2 * NS_PER_S ? options.timeout_ns : 2 * NS_PER_S;
    if (r->stretches) /* 0.5 s and two RTTs, each of 1 s at most, four times */
        r->limit_ns = 12 * NS_PER_S;
    allowed =
        r->budget_bytes >= 1000 && r->budget_bytes <= 1000000 &&
        (!options.packet_bytes || (options.packet_bytes >= 128 && options.packet_bytes <= 1500));
    error = ab_probe_open_pure(&r->probe, r->ipv6 ? AF_INET6 : AF_INET, 7, token, r->start_ns,
                                    how & 252 ? &options : NULL);
    CHECK(error == (allowed ? 0 : -EINVAL));
    return allowed;
}

/* One packet, if there is one to send now. */
static bool run_next(struct run *r, size_t cap)
{
    uint8_t buf[1480];
    uint64_t age_ns = r->now_ns - r->start_ns;
    int len = ab_schedule_next(ab_probe_schedule(r->probe), r->now_ns, buf, cap);

    CHECK(!r->finished || len == -ETIME);
    if (len == -ETIME)
        r->finished = true;
    if (len <= 0) {
        CHECK(len == 0 || len == -ETIME || (len == -ENOSPC && cap < 1480));
        return false;
    }
    CHECK((size_t)len <= cap && r->sent < MOST);
    if (!r->sent && r->now_ns > r->start_ns) { /* time begins with the first packet */
        r->start_ns = r->now_ns;
        age_ns = 0;
    }
    CHECK(r->now_ns >= r->start_ns && age_ns < r->limit_ns);
    CHECK(r->answered || age_ns < NS_PER_S);
    CHECK(buf[0] == (r->ipv6 ? 128 : 8) && memcmp(buf + 8, token, sizeof token) == 0);
    CHECK((uint32_t)(buf[6] << 8 | buf[7]) == r->sent);
    r->lengths[r->sent++] = (uint16_t)len;
    r->cost_bytes += (uint64_t)len + (r->ipv6 ? 40 : 20);
    CHECK(r->cost_bytes <= r->budget_bytes);
    return true;
}

static void run_take(struct run *r, unsigned most)
{
    while (most-- > 0)
        if (!run_next(r, 1480))
            return;
}

enum { RIGHT, CUT, CHANGED };

/* A reply to a packet that was sent, or to one that never was; kind says what is wrong with it. */
static void run_reply(struct run *r, unsigned kind, uint32_t index, uint64_t stamp_ns, unsigned at)
{
    bool sent = index < r->sent;
    size_t len = sent ? r->lengths[index] : 44;
    uint8_t message[1480] = {0}, *copy;
    bool wanted;
    int got;

    message[0] = r->ipv6 ? 129 : 0;
    message[6] = (uint8_t)(index >> 8);
    message[7] = (uint8_t)index;
    memcpy(message + 8, token, sizeof token);
    wanted = sent && !r->replied[index] && !r->finished;
    if (kind == CUT) {
        len = at % len;
        wanted = false;
    } else if (kind == CHANGED) {
        unsigned where = at / 255 % 18; /* type, code, the token: what is checked */

        message[where < 2 ? where : where + 6] ^= (uint8_t)(at % 255 + 1);
        wanted = false;
    }
    copy = exact_copy(message, len);
    got = ab_schedule_reply(ab_probe_schedule(r->probe), stamp_ns, copy, len);
    free(copy);
    CHECK(got == wanted);
    if (!got)
        return;
    r->replied[index] = true;
    r->answered++;
}

/* All that is not answered yet is, one after the other, but for some that are lost. */
static void run_replies(struct run *r, uint64_t delay_ns, uint64_t gap_ns, unsigned lost)
{
    uint64_t stamp_ns = r->now_ns + delay_ns;

    for (uint32_t i = 0; i < r->sent; i++) {
        if (r->replied[i])
            continue;
        if (!lost || i % (lost + 1))
            run_reply(r, RIGHT, i, stamp_ns, 0);
        stamp_ns += gap_ns;
    }
}

static void run_foreign(struct run *r, struct input *in)
{
    size_t len = (size_t)take(in, 1);
    uint8_t *copy;

    len = len < in->len ? len : in->len;
    copy = exact_copy(in->data, len);
    if (len >= 24) /* what a fuzzer learns, an off-path host does not */
        copy[8] = (uint8_t)~token[0];
    CHECK(ab_schedule_reply(ab_probe_schedule(r->probe), r->now_ns, copy, len) == 0);
    free(copy);
    in->data += len;
    in->len -= len;
}

static void run_check(const struct run *r)
{
    struct autobuf_path p = AUTOBUF_PATH_INIT;
    struct autobuf_probe_progress progress = AUTOBUF_PROBE_PROGRESS_INIT;
    uint64_t rates[4];
    struct autobuf_available a = AUTOBUF_AVAILABLE_INIT;
    int result = autobuf_probe_result(r->probe, &p);

    CHECK(result == 0 || result == AUTOBUF_E_NOREPLY || result == AUTOBUF_E_FEW);
    CHECK(p.cost_bytes == r->cost_bytes);
    CHECK(r->stretches ? p.samples <= r->answered : p.samples == r->answered);
    CHECK((result == 0) == (p.tx_rate_bit_per_s != 0));
    CHECK((result == 0 && !p.tx_unsure) == (p.tx_bdp_bytes != 0));
    CHECK(p.tx_rate_low_bit_per_s <= p.tx_rate_bit_per_s);
    CHECK(p.tx_rate_bit_per_s <= p.tx_rate_high_bit_per_s);
    CHECK(p.rtt_min_ns <= p.rtt_median_ns);
    CHECK(autobuf_probe_available(r->probe, &a) == 0 && a.tx_low_bit_per_s == a.rx_low_bit_per_s);
    CHECK(!a.tx_high_bit_per_s || a.tx_low_bit_per_s <= a.tx_high_bit_per_s);
    CHECK(autobuf_probe_progress(r->probe, &progress) == 0);
    CHECK(progress.sent_packets == r->sent && progress.received_packets == r->answered);
    CHECK(progress.cost_bytes == r->cost_bytes);
    CHECK(autobuf_probe_rates(r->probe, rates, 4) <= r->sent);
}

static void run_action(struct run *r, struct input *in)
{
    unsigned what = (unsigned)take(in, 1), kind = what / 16 % 4;
    uint64_t a, b;

    switch (what % 10) {
    case 0:
        r->now_ns += take(in, 1) * 100000;
        break;
    case 1:
        r->now_ns = autobuf_probe_deadline_ns(r->probe);
        break;
    case 2: /* anywhere, backwards too */
        r->now_ns = what & 16 ? take_number(in) : r->start_ns + take_number(in);
        break;
    case 3:
        run_take(r, (unsigned)take(in, 1));
        break;
    case 4: /* a buffer that may be too small */
        run_next(r, (size_t)take(in, 2) % 1481);
        break;
    case 5:
        a = take(in, 1);
        run_reply(r, kind, (uint32_t)(what & 64 ? a : r->sent - 1 - a) % MOST, r->now_ns,
                  (unsigned)take(in, 2));
        break;
    case 6:
        a = take(in, 2);
        run_reply(r, kind, (uint32_t)a % MOST, take_number(in), 0);
        break;
    case 7:
        a = take_number(in);
        b = take_number(in);
        run_replies(r, a, b, kind);
        break;
    case 8:
        run_foreign(r, in);
        break;
    default:
        a = take(in, 2);
        ab_schedule_mtu(ab_probe_schedule(r->probe), (uint32_t)a);
        run_check(r);
        break;
    }
}

/* From deadline to deadline: each must lie ahead, and the last must come. */
static void run_to_the_end(struct run *r)
{
    for (unsigned step = 0; !r->finished; step++) {
        uint64_t next_ns;

        CHECK(step < LAST_STEPS);
        if (run_next(r, 1480) || r->finished)
            continue;
        next_ns = autobuf_probe_deadline_ns(r->probe);
        CHECK(next_ns > r->now_ns);
        r->now_ns = next_ns;
    }
    run_reply(r, RIGHT, 0, r->now_ns, 0);
    CHECK(!run_next(r, 1480));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct run r;
    struct input in = {data, len};

    memset(&r, 0, sizeof r);
    if (!run_open(&r, &in))
        return 0;
    for (unsigned steps = 0; in.len > 0 && steps < 400; steps++)
        run_action(&r, &in);
    run_check(&r);
    run_to_the_end(&r);
    run_check(&r);
    autobuf_probe_close(r.probe);
    return 0;
}
