/* SPDX-License-Identifier: MIT */
#include "estimate.h"

#include "mode.h"

#define BITS_NS (8 * AB_NS_PER_S)
#define NARROWEST_NS (75 * AB_NS_PER_US)
#define AGREEMENT_PERCENT 60  /* of readings within 2% of their mode: undisturbed */
#define LIKELY_PERCENT 30     /* fewer: no window is undisturbed */
#define LIKELY_GAPS 100       /* that a smaller share is believed of */
#define SURE_SHARE 25         /* percent of gaps that overrule windows which agree */
#define LIKELY_SHARE 12       /* and windows which do not */
#define CLUSTER_GAPS 4
#define BURST_GAPS 4       /* within bursts, that are believed */
#define TRAINS_COMPARED 32 /* at most, each as a whole */
#define TRAIN_PACKETS 6    /* fewer tell nothing as a whole */
#define SURE_GAPS 10       /* in the cluster of a paced train */
#define BURST_BIT_PER_S 700000000U /* the gap within a burst is then as long as stamps are wrong */
#define REGRESSION_PACKETS 12
#define EVEN_GAPS 6
#define EVEN_BIT_PER_S 2400000000U /* 5 us a packet: what hosts themselves take */

static bool adjacent(const struct ab_packet *a)
{
    const struct ab_packet *b = a + 1;

    return a->train && a->train == b->train && a->received_ns != AUTOBUF_NS_UNSET &&
           b->received_ns != AUTOBUF_NS_UNSET && b->received_ns >= a->received_ns;
}

/* The end (exclusive) of the run of adjacent replies that begins at i. */
static size_t run_end(const struct ab_packet *packets, size_t count, size_t i)
{
    while (i + 1 < count && adjacent(&packets[i]))
        i++;
    return i + 1;
}

/* bytes: of the packets after a, b included. */
static uint64_t rate_between(const struct ab_packet *a, const struct ab_packet *b, uint64_t bytes)
{
    return ab_mul_div(bytes, BITS_NS, ab_max(b->received_ns - a->received_ns, 1));
}

/* Between these two the path was the limit, not the host that sent them. */
static bool spread_by_path(const struct ab_packet *a, const struct ab_packet *b)
{
    return 10 * (b->received_ns - a->received_ns) > 11 * (b->sent_ns - a->sent_ns);
}

/*
 * One reading for each packet from which a window of width_ns fits into its run. A packet that came
 * right behind another begins no window: of a batch only the first counts (pathrate does the same).
 * Nor, where only single packets count, do several that arrived as one begin or end one.
 */
static size_t readings_of_windows(const struct ab_packet *packets, size_t count, uint64_t width_ns,
                                  bool singles, uint64_t *rates)
{
    size_t found = 0;

    for (size_t begin = 0, end; begin < count; begin = end) {
        uint64_t behind_ns, upto_i = 0, upto_j = 0; /* bytes of the run */

        end = run_end(packets, count, begin);
        behind_ns =
            (packets[end - 1].received_ns - packets[begin].received_ns) / (end - begin) / 4;
        for (size_t i = begin, j = begin; i < end; i++) {
            upto_i += packets[i].bytes;
            if (i > begin && packets[i].received_ns - packets[i - 1].received_ns < behind_ns)
                continue;
            while (j < end &&
                   (j <= i || packets[j].received_ns - packets[i].received_ns < width_ns))
                upto_j += packets[j++].bytes;
            if (j == end)
                break;
            if (!(singles && (packets[i].merged || packets[j].merged)) &&
                spread_by_path(&packets[i], &packets[j]))
                rates[found++] =
                    rate_between(&packets[i], &packets[j], upto_j + packets[j].bytes - upto_i);
        }
    }
    return found;
}

/* IP bytes of packets[begin..end). */
static uint64_t bytes_of(const struct ab_packet *packets, size_t begin, size_t end)
{
    uint64_t bytes = 0;

    while (begin < end)
        bytes += packets[begin++].bytes;
    return bytes;
}

static size_t readings_of_runs(const struct ab_packet *packets, size_t count, uint64_t *rates)
{
    size_t found = 0;

    for (size_t begin = 0, end; begin < count; begin = end) {
        end = run_end(packets, count, begin);
        if (end - begin > 1 && spread_by_path(&packets[begin], &packets[end - 1]))
            rates[found++] = rate_between(&packets[begin], &packets[end - 1],
                                          bytes_of(packets, begin + 1, end));
    }
    return found;
}

size_t ab_estimate_readings(const struct ab_packet *packets, size_t count, uint64_t window_ns,
                            uint64_t *rates)
{
    return window_ns ? readings_of_windows(packets, count, window_ns, false, rates)
                     : readings_of_runs(packets, count, rates);
}

/*
 * Readings of single gaps. What arrived as one was perhaps made one, at the end of some interval, of which
 * the gap would then tell: that does not count.
 */
static size_t readings_of_gaps(const struct ab_packet *packets, size_t count, uint64_t *rates)
{
    return readings_of_windows(packets, count, 1, true, rates);
}

/* Whether a tenth of the arrivals, or more, were several packets. */
static bool is_merged(const struct ab_packet *packets, size_t count)
{
    size_t merged = 0;

    for (size_t i = 0; i < count; i++)
        merged += packets[i].merged;
    return 10 * merged >= count;
}

/* All adjacent gaps together. */
struct gaps {
    size_t count;
    size_t shorter;      /* than a third of the mean */
    uint64_t span_ns;    /* their sum */
    uint64_t bytes;      /* that arrived in them */
    uint64_t longest_ns; /* longest run */
};

static struct gaps gaps_of(const struct ab_packet *packets, size_t count)
{
    struct gaps g = {0};

    for (size_t begin = 0, end; begin < count; begin = end) {
        const struct ab_packet *first = &packets[begin], *last;
        uint64_t span_ns;

        end = run_end(packets, count, begin);
        if (end - begin < 2)
            continue;
        last = &packets[end - 1];
        span_ns = last->received_ns - first->received_ns;
        g.count += end - begin - 1;
        g.bytes += bytes_of(packets, begin + 1, end);
        g.span_ns += span_ns;
        g.longest_ns = ab_max(g.longest_ns, span_ns);
    }
    for (size_t i = 0; g.count && i + 1 < count; i++)
        g.shorter += adjacent(&packets[i]) && packets[i + 1].received_ns - packets[i].received_ns <
                                                  g.span_ns / g.count / 3;
    return g;
}

/* Where a train ends for a regression: a queue overflowed, or the train is over. */
static size_t usable_end(const struct ab_packet *packets, size_t count, size_t begin)
{
    unsigned missing = 0;
    size_t end = begin;

    while (end < count && packets[end].train == packets[begin].train && missing < 3) {
        missing = packets[end].received_ns == AUTOBUF_NS_UNSET ? missing + 1 : 0;
        end++;
    }
    return end - missing;
}

/*
 * Least squares of arrival time on bytes, one slope for all trains, each with its own origin, over
 * their last two thirds: jitter and batches bunch the first packets, which fill what delay there is
 * to fill.
 */
static uint64_t rate_by_regression(const struct ab_packet *packets, size_t count)
{
    double sum_xx = 0, sum_xy = 0, rate;

    for (size_t begin = 0, next; begin < count; begin = next) {
        size_t end = usable_end(packets, count, begin);
        double n = 0, x = 0, mean_x = 0, mean_y = 0;

        for (next = begin; next < count && packets[next].train == packets[begin].train; next++)
            ;
        if (!packets[begin].train || end < begin + REGRESSION_PACKETS)
            continue;
        for (size_t i = begin + (end - begin) / 3; i < end; i++) {
            double dx, dy;

            x += packets[i].bytes;
            if (packets[i].received_ns == AUTOBUF_NS_UNSET)
                continue;
            dx = x - mean_x;
            dy = (double)(packets[i].received_ns - packets[begin].sent_ns) - mean_y;
            n++;
            mean_x += dx / n;
            mean_y += dy / n;
            sum_xx += dx * dx * (n - 1) / n;
            sum_xy += dx * dy * (n - 1) / n;
        }
    }
    if (sum_xx <= 0 || sum_xy <= 0)
        return 0;
    rate = (double)BITS_NS * sum_xx / sum_xy;
    return rate < 0x1p63 ? (uint64_t)rate : 0; /* beyond: the times have no slope but rounding */
}

/* 6% and, of a gap of a full packet, a microsecond, by which stamps are wrong. */
static uint64_t tolerance(uint64_t rate_bit_per_s)
{
    uint64_t gap_ns = ab_max(ab_mul_div(AB_IP_PACKET_BYTES, BITS_NS, ab_max(rate_bit_per_s, 1)), 1);

    return rate_bit_per_s / 100 * 6 +
           ab_mul_div(rate_bit_per_s, ab_min(AB_NS_PER_US, gap_ns / 4), gap_ns);
}

/*
 * The fastest readings of single gaps that agree: share/100 of them within a tolerance, and no more than a
 * tenth faster. 0: there is no such cluster. sorted is ascending.
 */
static uint64_t fastest_cluster(const uint64_t *sorted, size_t count, unsigned share)
{
    size_t needed = ab_max(count * share / 100, CLUSTER_GAPS);
    size_t first = 0;

    for (size_t last = count; last-- > 0 && last + 1 + count / 10 >= count;) {
        first = last;
        while (first > 0 && sorted[first - 1] >= sorted[last] - tolerance(sorted[last]))
            first--;
        if (last + 1 - first >= needed)
            return ab_mode(sorted + first, last + 1 - first);
    }
    return 0;
}

/*
 * Readings over the widest windows of which most agree, else over those of which the most do, and
 * over whole runs where no window fits. Returns what percent agree; 0: there are none.
 */
static unsigned agreeing_readings(const struct ab_packet *packets, size_t count,
                                  uint64_t longest_ns, uint64_t narrowest_ns, uint64_t *scratch,
                                  struct ab_rate *rate)
{
    uint64_t window_ns = ab_max(longest_ns / 2, AB_WINDOW_NS);
    unsigned best = 0;

    for (;;) {
        size_t found = ab_estimate_readings(packets, count, window_ns, scratch);

        if (found >= AB_GAPS_NEEDED || (found > 0 && !window_ns && !best)) {
            uint64_t mode;
            unsigned percent;

            ab_sort(scratch, found);
            mode = ab_mode(scratch, found);
            /* At least 1: there are readings, even if none is near another. */
            percent =
                (unsigned)ab_max(100 * ab_count_near(scratch, found, mode, 20) / found, 1);
            if (percent > best) {
                best = percent;
                rate->window_ns = window_ns;
                rate->sure = percent >= AGREEMENT_PERCENT && found >= AB_GAPS_NEEDED;
                rate->rate_bit_per_s = mode;
                rate->low_bit_per_s = ab_percentile(scratch, found, 10);
                rate->high_bit_per_s = ab_percentile(scratch, found, 90);
            }
        }
        if (best >= AGREEMENT_PERCENT || !window_ns)
            return best;
        window_ns = window_ns / 2 >= narrowest_ns ? window_ns / 2 : 0;
        if (!window_ns && best)
            return best;
    }
}

static void resolve_rate(const struct ab_packet *packets, size_t count, const struct gaps *g,
                         uint64_t *scratch, struct ab_rate *rate)
{
    /* Jitter piles packets up, and makes equals of narrow windows; a stalled host does not. */
    uint64_t narrowest_ns = 5 * g->shorter > g->count ? AB_WINDOW_NS : NARROWEST_NS;
    unsigned percent =
        agreeing_readings(packets, count, g->longest_ns, narrowest_ns, scratch, rate);
    bool agreed = percent >= AGREEMENT_PERCENT;
    bool likely = agreed || (percent >= LIKELY_PERCENT && g->count >= LIKELY_GAPS &&
                             narrowest_ns < AB_WINDOW_NS);
    uint64_t reference = likely ? rate->rate_bit_per_s : rate->pooled_bit_per_s;
    uint64_t cluster, slope;
    size_t found;

    if (!percent) {
        rate->rate_bit_per_s = rate->pooled_bit_per_s;
        rate->at_least = true; /* they came as fast as this host sent them */
        return;
    }
    found = readings_of_gaps(packets, count, scratch);
    ab_sort(scratch, found);
    cluster = fastest_cluster(scratch, found, agreed ? SURE_SHARE : LIKELY_SHARE);
    if (cluster > reference + reference / 12 && cluster < 3 * reference) {
        rate->sure = false;
        rate->rate_bit_per_s = cluster;
    } else if (!likely) {
        slope = rate_by_regression(packets, count);
        rate->torn = true;
        rate->rate_bit_per_s = slope ? slope : rate->pooled_bit_per_s;
    }
}

/*
 * A short train, of which a batch could hide any part of the time before its first stamp, but whose
 * gaps are even, as no batch makes them. 0: they are not, or too short to tell.
 */
static uint64_t even_rate(const struct ab_packet *packets, size_t count, uint64_t *scratch)
{
    size_t found = readings_of_gaps(packets, count, scratch);
    uint64_t mode;

    if (found < EVEN_GAPS)
        return 0;
    ab_sort(scratch, found);
    mode = ab_mode(scratch, found);
    return mode <= EVEN_BIT_PER_S &&
                   100 * ab_count_near(scratch, found, mode, 100) >= AGREEMENT_PERCENT * found
               ? mode
               : 0;
}

void ab_estimate_rate(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                      struct ab_rate *rate)
{
    struct gaps g = gaps_of(packets, count);

    *rate = (struct ab_rate){0};
    if (g.count < AB_GAPS_NEEDED || g.span_ns == 0)
        return;
    rate->pooled_bit_per_s = ab_mul_div(g.bytes, BITS_NS, g.span_ns);
    resolve_rate(packets, count, &g, scratch, rate);
    if (g.longest_ns < AB_WINDOW_NS && g.span_ns < 2 * AB_WINDOW_NS) {
        uint64_t even = even_rate(packets, count, scratch);

        /* A batch may hide that much time before its first stamp: the bound that stays true. */
        rate->rate_bit_per_s = even ? even : ab_mul_div(g.bytes, BITS_NS, g.span_ns + AB_WINDOW_NS);
        rate->at_least = !even;
        rate->sure = even;
    }
    if (!rate->low_bit_per_s)
        rate->low_bit_per_s = rate->rate_bit_per_s;
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, rate->rate_bit_per_s);
    rate->high_bit_per_s = ab_max(rate->high_bit_per_s, rate->rate_bit_per_s);
}

static bool is_between(uint64_t value, uint64_t low, uint64_t high)
{
    return value >= low && value <= high;
}

/* Of all packets from the first to the last, whatever happened between: the path has no less. */
static uint64_t whole_rate(const struct ab_packet *packets, size_t count)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < count; i++)
        if (packets[i].received_ns != AUTOBUF_NS_UNSET)
            last_ns = ab_max(last_ns, packets[i].received_ns);
    if (count < 2 || last_ns <= packets[0].received_ns)
        return 0;
    return ab_mul_div(bytes_of(packets, 1, count), BITS_NS,
                      last_ns - packets[0].received_ns + AB_WINDOW_NS);
}

/*
 * A paced sender's: of ascending readings of gaps the path's rate, if they tell it; else 0. What is told of
 * the pace is what it was before the train: bbr's gain goes from 2.89 down to 0.75 and up to 1.25 (Cardwell
 * et al. 2016). Gaps well above it, and above the train as a whole, are those within bursts, and the path's
 * if they agree: a host that wakes up for each burst shortens some. All gaps are the path's if most agree
 * far below the pace.
 */
static uint64_t rate_within_bursts(const uint64_t *sorted, size_t count, uint64_t pace,
                                   uint64_t whole)
{
    uint64_t slowest = ab_max(pace, whole) / 2 * 3, mode;
    size_t slow = 0, fast;

    while (slow < count && sorted[slow] <= slowest)
        slow++;
    fast = count - slow;
    if (fast >= BURST_GAPS && 100 * fast >= SURE_SHARE * count) {
        mode = ab_mode(sorted + slow, fast);
        return mode <= BURST_BIT_PER_S && 100 * ab_count_near(sorted + slow, fast, mode, 40) >=
                                              AGREEMENT_PERCENT * fast
                   ? mode
                   : 0;
    }
    mode = count ? ab_mode(sorted, count) : 0;
    return mode < pace / 7 * 2 &&
                   100 * ab_count_near(sorted, count, mode, 60) >= AGREEMENT_PERCENT * count
               ? mode
               : 0;
}

static void resolve_paced(const struct ab_packet *packets, size_t count, size_t newest,
                          uint64_t pace, uint64_t *scratch, struct ab_rate *rate)
{
    size_t found = readings_of_gaps(packets, count, scratch);
    uint64_t whole = whole_rate(packets + newest, count - newest), within = 0;

    ab_sort(scratch, found);
    if (!is_merged(packets, count)) /* else gaps are those of batches */
        within = rate_within_bursts(scratch, found, pace, whole);
    if (within) {
        *rate =
            (struct ab_rate){.rate_bit_per_s = within,
                             .low_bit_per_s = within,
                             .high_bit_per_s = ab_max(ab_percentile(scratch, found, 90), within),
                             .sure = ab_count_near(scratch, found, within, 60) >= SURE_GAPS};
        return;
    }
    ab_estimate_rate(packets + newest, count - newest, scratch, rate);
    rate->rate_bit_per_s = ab_min(rate->rate_bit_per_s, whole);
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, rate->rate_bit_per_s);
    rate->sure = false;
    rate->at_least |= rate->rate_bit_per_s != 0;
}

/* The median of what the trains, each as a whole, came at; 0: there are not two of them. */
static uint64_t median_train(const struct ab_packet *packets, size_t count)
{
    uint64_t rates[TRAINS_COMPARED];
    size_t found = 0;

    for (size_t begin = 0, end; begin < count && found < TRAINS_COMPARED; begin = end) {
        end = run_end(packets, count, begin);
        if (end - begin >= TRAIN_PACKETS)
            rates[found++] = rate_between(&packets[begin], &packets[end - 1],
                                          bytes_of(packets, begin + 1, end));
    }
    if (found < 2)
        return 0;
    ab_sort(rates, found);
    return ab_percentile(rates, found, 50);
}

/* One train that something held up, and then let go at once, does not speak for all. */
static void mistrust_outlier(const struct ab_packet *packets, size_t count, struct ab_rate *rate)
{
    uint64_t median = median_train(packets, count);

    if (!median || rate->rate_bit_per_s / 5 * 2 <= median)
        return;
    rate->high_bit_per_s = ab_max(rate->high_bit_per_s, rate->rate_bit_per_s);
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, median);
    rate->rate_bit_per_s = median;
    rate->at_least = true;
    rate->sure = false;
}

void ab_estimate_stream(const struct ab_packet *packets, size_t count, size_t newest, size_t *unpaced,
                        uint64_t pace_bit_per_s, bool paced, uint64_t *scratch,
                        struct ab_rate *rate)
{
    if (pace_bit_per_s && !paced) {
        ab_estimate_rate(packets + newest, count - newest, scratch, rate);
        paced = is_between(rate->rate_bit_per_s, pace_bit_per_s * 3 / 4, pace_bit_per_s * 4 / 3);
    }
    if (pace_bit_per_s && paced) {
        *unpaced = count;
        resolve_paced(packets, count, newest, pace_bit_per_s, scratch, rate);
    } else {
        ab_estimate_rate(packets + *unpaced, count - *unpaced, scratch, rate);
        mistrust_outlier(packets + *unpaced, count - *unpaced, rate);
    }
}

size_t ab_estimate_rtt(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                       uint64_t *min_ns, uint64_t *median_ns)
{
    size_t found = 0;

    *min_ns = *median_ns = AUTOBUF_NS_UNSET;
    for (size_t i = 0; i < count; i++) {
        const struct ab_packet *p = &packets[i];

        if (!p->train && p->received_ns != AUTOBUF_NS_UNSET)
            scratch[found++] = p->received_ns > p->sent_ns ? p->received_ns - p->sent_ns : 1;
    }
    if (!found)
        return 0;
    ab_sort(scratch, found);
    *min_ns = scratch[0];
    *median_ns = ab_percentile(scratch, found, 50);
    return found;
}

uint64_t ab_estimate_bdp(uint64_t rate_bit_per_s, uint64_t rtt_ns, uint32_t full_bytes,
                         uint32_t small_bytes)
{
    uint64_t bytes = ab_mul_div(rate_bit_per_s, rtt_ns, BITS_NS);

    return bytes > UINT64_MAX - full_bytes ? UINT64_MAX : bytes + full_bytes - small_bytes;
}

int ab_estimate_path(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                     struct autobuf_path *path)
{
    uint32_t small_bytes = 0, full_bytes = 0;
    struct ab_rate rate;

    path->samples = 0;
    for (size_t i = 0; i < count; i++) {
        path->samples += packets[i].received_ns != AUTOBUF_NS_UNSET;
        if (packets[i].train)
            full_bytes = packets[i].bytes;
        else
            small_bytes = packets[i].bytes;
    }
    ab_estimate_rtt(packets, count, scratch, &path->rtt_min_ns, &path->rtt_median_ns);
    if (path->rtt_min_ns == AUTOBUF_NS_UNSET)
        return AUTOBUF_E_NOREPLY;
    ab_estimate_rate(packets, count, scratch, &rate);
    path->tx_rate_bit_per_s = path->rx_rate_bit_per_s = rate.rate_bit_per_s;
    path->tx_rate_low_bit_per_s = path->rx_rate_low_bit_per_s = rate.low_bit_per_s;
    path->tx_rate_high_bit_per_s = path->rx_rate_high_bit_per_s = rate.high_bit_per_s;
    if (rate.at_least)
        path->flags |= AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST;
    if (!rate.rate_bit_per_s)
        return AUTOBUF_E_FEW;
    path->packet_bytes = full_bytes;
    path->tx_bdp_bytes = path->rx_bdp_bytes =
        ab_estimate_bdp(rate.rate_bit_per_s, path->rtt_min_ns, full_bytes, small_bytes);
    return 0;
}
