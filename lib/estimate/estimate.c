/* SPDX-License-Identifier: MIT */
#include "estimate.h"

#define BITS_NS (8 * AB_NS_PER_S)

/*
 * The experiment that set each constant: "sweep" is `tests/mutate sweep NAME`, which gives the mean errors over
 * simulated paths with half the value, the value, and twice the value. "unit" is a case of
 * tests/unit/estimate/test_estimate.c, where those paths show no difference. docs/ESTIMATOR.md says more.
 */

/* Windows. */
#define NARROWEST_NS (75 * AB_NS_PER_US) /* unit: narrow_windows_are_read_between_stalls */
#define PILED_PERCENT 20U     /* more short gaps show jitter; sweep 20 100: 3.1, 4.6% with jitter of 2 ms */
#define AGREEMENT_PERCENT 60U /* of readings must agree; sweep: 7.3, 3.1, 3.7% with jitter of 2 ms */
#define NEAR_PERMILLE 20U     /* readings this close agree; sweep: 3.1, 3.1, 4.1% with jitter of 2 ms */
#define LIKELY_PERCENT 30U    /* enough if gaps are many; sweep: 0.8, 0.8, 0.9% in band, cross traffic */
#define LIKELY_GAPS 100U      /* fewest that are many; unit: most_windows_have_to_agree */
#define SPREAD_PERCENTILE 10U /* percent of readings beyond each bound; unit: bounds_leave_out_a_tenth */

/* The cluster of single gaps. */
#define SURE_SHARE 25U       /* percent of gaps that overrule agreeing windows; sweep: 4.7, 1.1, 1.1% in batches */
#define LIKELY_SHARE 12U     /* percent that overrules disagreeing ones; sweep: 6, 6, 22% cross traffic of 500 B */
#define CLUSTER_GAPS 4U      /* fewest in a cluster; sweep: 6, 6, 16% cross traffic of 500 B */
#define FASTER_PART 10U      /* a tenth of gaps may be too fast; sweep: p95 45, 35, 35% with jitter of 2 ms */
#define ABOVE_PART 12U       /* a cluster is faster than windows by a twelfth; sweep: 1.1, 1.1, 2.3% in batches */
#define MAX_TIMES 3U        /* not 3 times as fast; sweep: 22, 0, 0% cross traffic, p95 34, 35, 52% with jitter */
#define TOLERANCE_PERCENT 6U /* width of a cluster; sweep: p95 34, 35, 53% with jitter of 2 ms */
#define STAMP_NS AB_NS_PER_US /* error of a stamp; tests/bench/run inband (1000 Mbit/s) */
#define STAMP_PART 4U        /* but no more than a quarter of a gap; unit: what_makes_a_cluster */

/* Trains that are shorter than a batch. */
#define SHORT_WINDOWS 2U     /* all trains together are shorter; unit: short_trains_give_a_lower_bound */
#define EVEN_GAPS 6U         /* fewest that count; tests/bench/run transfer (one round trip) */
#define EVEN_PERMILLE 100U   /* gaps this close to their mode are even; unit: as SHORT_WINDOWS */
#define EVEN_BIT_PER_S 2400000000U /* 5 us a packet: a host may be no faster; unit: as SHORT_WINDOWS */

/* Trains of which each is estimated by itself. */
#define TRAINS_MOST 8U       /* the newest; that bounds the time */
#define TRAIN_LEAST 20U
#define TRAIN_LEAST_NS (3 * AB_WINDOW_NS / 2)
#define TRAINS_PERMILLE 50U

/* Streams. */
#define MERGED_PART 10U      /* of arrivals: if so many are merged, all are batches; unit: a_paced_sender */
#define BURST_GAPS 4U        /* fewest gaps within bursts that count; unit: as MERGED_PART */
#define BURST_SHARE 25U      /* their minimum percent of all gaps; unit: as MERGED_PART */
#define BURST_PERCENT 150U   /* of pace and train: faster gaps are within bursts; unit: as MERGED_PART */
#define BURST_PERMILLE 40U   /* farther apart: a host woke up late; tests/bench/run inband (bbr) */
#define BURST_BIT_PER_S 700000000U /* above it stamps err by a whole gap; tests/bench/run inband (bbr) */
#define SLOWER_PERCENT 350U  /* of the rate is below the pace; sweep: 0, 0, 4 bounds (bbr's first gain is 2.89) */
#define SLOWER_PERMILLE 60U  /* gaps this close agree; unit: as MERGED_PART */
#define SPAN_PERMILLE 60U    /* to each side of the mode; tests/bench/run inband (bbr, 200 ms: 40 held 88%) */
#define SURE_GAPS 10U        /* so many gaps near a paced train's rate make it sure; unit: as MERGED_PART */
#define PACE_PERCENT 75U     /* 75 to 133% of the pace is the sender's rate; sweep: 0, 0, 70% if paced, unsaid */
#define TRAIN_PACKETS 6U     /* in a whole train; unit: one_fast_train_is_replaced_by_the_median */
#define OUTLIER_PERCENT 250U /* of the median train; tests/bench/run inband (1000 x 200, p95 33%, then 0.04%) */

/* One way to find the rate. It stands if it has a rate, and if enough of its readings agree. */
struct candidate {
    uint64_t rate_bit_per_s; /* 0: there is none */
    unsigned kind;
    unsigned agreement_percent; /* how many of its readings agree */
    unsigned needed_percent;    /* how many have to agree; 0: none */
    bool sure;
};

static const struct {
    bool is_bound;
    const char *why;
} kinds[AB_KINDS] = {
    [AB_KIND_NONE] = {false, "there are too few gaps between replies"},
    [AB_KIND_BURSTS] = {false, "gaps within the sender's bursts agree"},
    [AB_KIND_SLOWER] = {false, "gaps agree, far below the sender's pace"},
    [AB_KIND_CAPPED] = {true, "the sender was paced, so a train tells no more than a lower bound"},
    [AB_KIND_MEDIAN] = {true, "one train came much faster than the others, so the median train is a lower bound"},
    [AB_KIND_EVEN] = {false, "the train was short, but its gaps are even"},
    [AB_KIND_PADDED] = {true, "trains were shorter than a batch may hide, so they tell a lower bound"},
    [AB_KIND_SENT] = {true, "packets came as fast as this host sent them, so they tell a lower bound"},
    [AB_KIND_CLUSTER] = {false, "the fastest gaps agree, and other traffic stretches the rest"},
    [AB_KIND_WINDOWS] = {false, "windows of time agree"},
    [AB_KIND_SLOPE] = {false, "neither windows nor gaps agree, so the slope of arrival times counts"},
    [AB_KIND_POOLED] = {false, "neither windows nor gaps agree, so the mean of all gaps counts"},
};

const char *ab_kind_why(unsigned kind)
{
    return kind < AB_KINDS ? kinds[kind].why : "";
}

static bool stands(const struct candidate *c)
{
    return c->rate_bit_per_s && c->agreement_percent >= c->needed_percent;
}

/* The first candidate that stands. */
static void choose(const struct candidate *table, size_t count, struct ab_rate *rate)
{
    size_t i = 0;

    rate->rate_bit_per_s = 0;
    rate->kind = AB_KIND_NONE;
    rate->at_least = rate->sure = false;
    rate->unsure = AUTOBUF_UNSURE_NOT;
    while (i < count && !stands(&table[i]))
        i++;
    if (i < count) {
        rate->rate_bit_per_s = table[i].rate_bit_per_s;
        rate->kind = (uint8_t)table[i].kind;
        rate->agreement_percent = (uint8_t)table[i].agreement_percent;
        rate->at_least = kinds[table[i].kind].is_bound;
        rate->sure = table[i].sure;
    }
    if (!rate->low_bit_per_s)
        rate->low_bit_per_s = rate->rate_bit_per_s;
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, rate->rate_bit_per_s);
    rate->high_bit_per_s = ab_max(rate->high_bit_per_s, rate->rate_bit_per_s);
}

static unsigned percent_near(const uint64_t *sorted, size_t count, uint64_t center, unsigned permille)
{
    return count ? (unsigned)(100 * ab_count_near(sorted, count, center, permille) / count) : 0;
}

static bool is_near(uint64_t a, uint64_t b)
{
    return 1000 * (a > b ? a - b : b - a) <= TRAINS_PERMILLE * b;
}

/* Jitter bunches packets, so that narrow windows agree on a wrong rate. A stalled host does not. */
static bool is_piled(const struct ab_gaps *g)
{
    return 100 * g->shorter > PILED_PERCENT * g->count;
}

/*
 * Takes the widest windows of which most readings agree. If there are none, takes the windows of which the most
 * agree; if no window fits, takes whole runs. The percentiles of the readings are the bounds of the rate.
 */
static struct candidate from_windows(const struct ab_packet *packets, size_t count,
                                     const struct ab_gaps *g, uint64_t *scratch,
                                     struct ab_rate *rate)
{
    bool piled = is_piled(g);
    uint64_t narrowest_ns = piled ? AB_WINDOW_NS : NARROWEST_NS;
    uint64_t window_ns = ab_max(g->longest_ns / 2, AB_WINDOW_NS);
    struct candidate best = {.kind = AB_KIND_WINDOWS, .needed_percent = AGREEMENT_PERCENT};

    if (!piled && g->count >= LIKELY_GAPS)
        best.needed_percent = LIKELY_PERCENT;
    for (;;) {
        size_t found = ab_estimate_readings(packets, count, window_ns, scratch);

        if (found >= AB_GAPS_NEEDED || (found > 0 && !window_ns && !best.rate_bit_per_s)) {
            uint64_t mode;
            uint64_t percent;

            ab_sort(scratch, found);
            mode = ab_mode(scratch, found);
            percent = ab_max(percent_near(scratch, found, mode, NEAR_PERMILLE), 1);
            if (!best.rate_bit_per_s || percent > best.agreement_percent) {
                best.rate_bit_per_s = mode;
                best.agreement_percent = (unsigned)percent;
                best.sure = percent >= AGREEMENT_PERCENT && found >= AB_GAPS_NEEDED;
                rate->window_ns = window_ns;
                rate->low_bit_per_s = ab_percentile(scratch, found, SPREAD_PERCENTILE);
                rate->high_bit_per_s = ab_percentile(scratch, found, 100 - SPREAD_PERCENTILE);
            }
        }
        if (best.agreement_percent >= AGREEMENT_PERCENT || !window_ns)
            return best;
        window_ns = window_ns / 2 >= narrowest_ns ? window_ns / 2 : 0;
        if (!window_ns && best.rate_bit_per_s)
            return best;
    }
}

/* How far readings of single gaps may differ at one rate. */
static uint64_t tolerance(uint64_t rate_bit_per_s)
{
    uint64_t gap_ns = ab_max(ab_mul_div(AB_IP_PACKET_BYTES, BITS_NS, ab_max(rate_bit_per_s, 1)), 1);

    return rate_bit_per_s / 100 * TOLERANCE_PERCENT +
           ab_mul_div(rate_bit_per_s, ab_min(STAMP_NS, gap_ns / STAMP_PART), gap_ns);
}

/*
 * The fastest readings of single gaps that agree: share percent of all readings lie within the tolerance, and at
 * most a tenth of all are faster. sorted is ascending.
 */
static struct candidate fastest_cluster(const uint64_t *sorted, size_t count, unsigned share)
{
    uint64_t needed = ab_max(count * share / 100, CLUSTER_GAPS);
    struct candidate c = {.kind = AB_KIND_CLUSTER};
    size_t first = 0;

    for (size_t last = count; last-- > 0 && last + 1 + count / FASTER_PART >= count;) {
        first = last;
        while (first > 0 && sorted[first - 1] >= sorted[last] - tolerance(sorted[last]))
            first--;
        if (last + 1 - first < needed)
            continue;
        c.rate_bit_per_s = ab_mode(sorted + first, last + 1 - first);
        c.agreement_percent = (unsigned)(100 * (last + 1 - first) / count);
        c.needed_percent = (unsigned)(100 * needed / count);
        break;
    }
    return c;
}

/*
 * Cross traffic stretches windows, so that they read somewhat less than the capacity. Gaps that it leaves alone are
 * the cluster. A cluster counts only if its rate is above that of the windows, but less than MAX_TIMES as high.
 */
static struct candidate from_cluster(const uint64_t *sorted, size_t count,
                                     const struct candidate *windows, uint64_t pooled)
{
    unsigned share = windows->agreement_percent >= AGREEMENT_PERCENT ? SURE_SHARE : LIKELY_SHARE;
    struct candidate c = fastest_cluster(sorted, count, share);
    uint64_t reference = stands(windows) ? windows->rate_bit_per_s : pooled;

    if (c.rate_bit_per_s <= reference + reference / ABOVE_PART ||
        c.rate_bit_per_s >= MAX_TIMES * reference)
        c.rate_bit_per_s = 0;
    return c;
}

/* A short train may be one batch. But no batch makes even gaps, so even gaps show the path's rate. */
static struct candidate from_even_gaps(const uint64_t *sorted, size_t count)
{
    struct candidate c = {.kind = AB_KIND_EVEN, .needed_percent = AGREEMENT_PERCENT, .sure = true};

    if (count < EVEN_GAPS)
        return c;
    c.rate_bit_per_s = ab_mode(sorted, count);
    c.agreement_percent = percent_near(sorted, count, c.rate_bit_per_s, EVEN_PERMILLE);
    if (c.rate_bit_per_s > EVEN_BIT_PER_S)
        c.rate_bit_per_s = 0;
    return c;
}

static void estimate_packets(const struct ab_packet *packets, size_t count, uint64_t *scratch, struct ab_rate *rate)
{
    enum { EVEN, PADDED, SENT, CLUSTER, WINDOWS, SLOPE, POOLED, COUNT };
    struct ab_gaps g = ab_gaps_of(packets, count);
    struct candidate table[COUNT] = {0};
    struct ab_evidence evidence;
    size_t found;

    *rate = (struct ab_rate){0};
    if (g.count < AB_GAPS_NEEDED || g.span_ns == 0)
        return;
    rate->pooled_bit_per_s = ab_mul_div(g.bytes, BITS_NS, g.span_ns);
    table[WINDOWS] = from_windows(packets, count, &g, scratch, rate);
    found = ab_readings_of_gaps(packets, count, scratch);
    ab_sort(scratch, found);
    table[CLUSTER] = from_cluster(scratch, found, &table[WINDOWS], rate->pooled_bit_per_s);
    table[SLOPE] = (struct candidate){.rate_bit_per_s = ab_slope_of(packets, count), .kind = AB_KIND_SLOPE};
    table[POOLED] = (struct candidate){.rate_bit_per_s = rate->pooled_bit_per_s, .kind = AB_KIND_POOLED};
    rate->torn = table[WINDOWS].rate_bit_per_s && !stands(&table[WINDOWS]) && !stands(&table[CLUSTER]);
    if (!table[WINDOWS].rate_bit_per_s || (rate->window_ns && ab_most_as_sent(packets, count, rate->window_ns))) {
        table[SENT].rate_bit_per_s = rate->pooled_bit_per_s;
        table[SENT].kind = AB_KIND_SENT;
    }
    if (g.longest_ns < AB_WINDOW_NS && g.span_ns < SHORT_WINDOWS * AB_WINDOW_NS) {
        table[EVEN] = from_even_gaps(scratch, found);
        /* A batch may hide up to AB_WINDOW_NS before its first stamp: add it, so that the bound holds. */
        table[PADDED].rate_bit_per_s = ab_mul_div(g.bytes, BITS_NS, g.span_ns + AB_WINDOW_NS);
        table[PADDED].kind = AB_KIND_PADDED;
    }
    choose(table, COUNT, rate);
    evidence = (struct ab_evidence){scratch, found, table[SLOPE].rate_bit_per_s, is_piled(&g)};
    ab_doubt(rate, &evidence);
}

static size_t train_end(const struct ab_packet *packets, size_t count, size_t begin)
{
    size_t end = begin + 1;

    while (end < count && packets[end].train == packets[begin].train)
        end++;
    return end;
}

/* The newest trains of which each by itself is sure. Returns how many. */
static size_t sure_trains(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                          struct ab_rate trains[TRAINS_MOST])
{
    size_t found = 0;

    for (size_t begin = 0, end; begin < count; begin = end) {
        struct ab_rate rate;

        end = train_end(packets, count, begin);
        if (!packets[begin].train || end - begin < TRAIN_LEAST)
            continue;
        estimate_packets(packets + begin, end - begin, scratch, &rate);
        if (rate.kind == AB_KIND_WINDOWS && rate.sure && !rate.unsure &&
            ab_gaps_of(packets + begin, end - begin).longest_ns >= TRAIN_LEAST_NS)
            trains[found++ % TRAINS_MOST] = rate;
    }
    return ab_min_size(found, TRAINS_MOST);
}

/*
 * A host that was late disturbs some trains, and all of them together seem unsure. If those that are sure by themselves
 * agree, they count.
 */
static void prefer_trains_that_agree(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                                     struct ab_rate *rate)
{
    struct ab_rate trains[TRAINS_MOST], *best = NULL;
    size_t found = sure_trains(packets, count, scratch, trains), most = 1;

    for (size_t i = 0; i < found; i++) {
        size_t agree = 0;

        for (size_t j = 0; j < found; j++)
            agree += is_near(trains[j].rate_bit_per_s, trains[i].rate_bit_per_s);
        if (agree > most && 2 * agree > found) {
            most = agree;
            best = &trains[i];
        }
    }
    if (!best)
        return;
    *rate = *best;
    for (size_t j = 0; j < found; j++) {
        if (!is_near(trains[j].rate_bit_per_s, rate->rate_bit_per_s))
            continue;
        rate->low_bit_per_s = ab_min(rate->low_bit_per_s, trains[j].low_bit_per_s);
        rate->high_bit_per_s = ab_max(rate->high_bit_per_s, trains[j].high_bit_per_s);
    }
}

/* The peer, or a host that merges packets, times what a rate is made of. */
static void keep_plausible(struct ab_rate *rate)
{
    rate->at_least |= rate->rate_bit_per_s > AB_PLAUSIBLE_BIT_PER_S;
    rate->rate_bit_per_s = ab_min(rate->rate_bit_per_s, AB_PLAUSIBLE_BIT_PER_S);
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, AB_PLAUSIBLE_BIT_PER_S);
    rate->high_bit_per_s = ab_min(rate->high_bit_per_s, AB_PLAUSIBLE_BIT_PER_S);
}

void ab_estimate_rate(const struct ab_packet *packets, size_t count, uint64_t *scratch, struct ab_rate *rate)
{
    estimate_packets(packets, count, scratch, rate);
    if (rate->unsure)
        prefer_trains_that_agree(packets, count, scratch, rate);
    keep_plausible(rate);
}

static bool is_between(uint64_t value, uint64_t low, uint64_t high)
{
    return value >= low && value <= high;
}

static bool is_merged(const struct ab_packet *packets, size_t count)
{
    size_t merged = 0;

    for (size_t i = 0; i < count; i++)
        merged += packets[i].merged;
    return MERGED_PART * merged >= count;
}

/* The rate of a train from its first packet to its last, pauses included: a lower bound of the capacity. */
static uint64_t whole_train_rate(const struct ab_packet *packets, size_t count)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < count; i++)
        if (packets[i].received_ns != AUTOBUF_NS_UNSET)
            last_ns = ab_max(last_ns, packets[i].received_ns);
    if (count < 2 || last_ns <= packets[0].received_ns)
        return 0;
    return ab_mul_div(ab_bytes_of(packets, 1, count), BITS_NS, last_ns - packets[0].received_ns + AB_WINDOW_NS);
}

/*
 * Takes the readings of gaps of a paced sender, ascending. The sender reported its pacing rate before the train; it may
 * have changed since: bbr's gain goes from 2.89 down to 0.75 and up to 1.25 (Cardwell et al. 2016). Gaps much faster
 * than the pace and than the whole train are within bursts. They show the path's rate if they agree (a host that wakes
 * up for each burst shortens some). Without bursts, all gaps show it if most agree on a rate far below the pace.
 */
static void from_paced_gaps(const uint64_t *sorted, size_t count, uint64_t pace, uint64_t whole,
                            struct candidate *bursts, struct candidate *slower)
{
    uint64_t slowest = ab_percent(ab_max(pace, whole), BURST_PERCENT);
    size_t slow = 0, fast;

    *bursts = (struct candidate){.kind = AB_KIND_BURSTS, .needed_percent = AGREEMENT_PERCENT};
    *slower = (struct candidate){.kind = AB_KIND_SLOWER, .needed_percent = AGREEMENT_PERCENT};
    while (slow < count && sorted[slow] <= slowest)
        slow++;
    fast = count - slow;
    if (fast >= BURST_GAPS && 100 * fast >= BURST_SHARE * count) {
        uint64_t mode = ab_mode(sorted + slow, fast);

        bursts->agreement_percent = percent_near(sorted + slow, fast, mode, BURST_PERMILLE);
        bursts->rate_bit_per_s = mode <= BURST_BIT_PER_S ? mode : 0;
        bursts->sure = ab_count_near(sorted, count, mode, SLOWER_PERMILLE) >= SURE_GAPS;
    } else if (count) {
        uint64_t mode = ab_mode(sorted, count);

        slower->agreement_percent = percent_near(sorted, count, mode, SLOWER_PERMILLE);
        slower->rate_bit_per_s = ab_percent(mode, SLOWER_PERCENT) < pace ? mode : 0;
        slower->sure = ab_count_near(sorted, count, mode, SLOWER_PERMILLE) >= SURE_GAPS;
    }
}

/* The path's rate may lie anywhere among the gaps that agree, not only at their mode. */
static void widen_by_mode_error(struct ab_rate *rate)
{
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, ab_mul_div(rate->rate_bit_per_s, 1000 - SPAN_PERMILLE, 1000));
    rate->high_bit_per_s = ab_max(rate->high_bit_per_s, ab_mul_div(rate->rate_bit_per_s, 1000 + SPAN_PERMILLE, 1000));
}

static void estimate_paced(const struct ab_packet *packets, size_t count, size_t newest,
                           uint64_t pace, uint64_t *scratch, struct ab_rate *rate)
{
    enum { BURSTS, SLOWER, CAPPED, COUNT };
    struct candidate table[COUNT] = {0};
    uint64_t whole = whole_train_rate(packets + newest, count - newest), high = 0;
    size_t found = ab_readings_of_gaps(packets, count, scratch);

    ab_sort(scratch, found);
    if (found && !is_merged(packets, count)) { /* gaps between batches do not show the path */
        from_paced_gaps(scratch, found, pace, whole, &table[BURSTS], &table[SLOWER]);
        high = ab_percentile(scratch, found, 100 - SPREAD_PERCENTILE);
    }
    if (stands(&table[BURSTS]) || stands(&table[SLOWER])) {
        *rate = (struct ab_rate){.high_bit_per_s = high};
    } else {
        ab_estimate_rate(packets + newest, count - newest, scratch, rate);
        table[CAPPED].rate_bit_per_s = ab_min(rate->rate_bit_per_s, whole);
        table[CAPPED].kind = AB_KIND_CAPPED;
    }
    choose(table, COUNT, rate);
    if (rate->kind == AB_KIND_BURSTS || rate->kind == AB_KIND_SLOWER)
        widen_by_mode_error(rate);
}

/* The median rate of whole trains; 0: there are fewer than two. */
static uint64_t median_train(const struct ab_packet *packets, size_t count, uint64_t *rates)
{
    size_t found = 0;

    for (size_t begin = 0, end; begin < count; begin = end) {
        end = ab_run_end(packets, count, begin);
        if (end - begin >= TRAIN_PACKETS)
            rates[found++] = ab_rate_between(&packets[begin], &packets[end - 1], ab_bytes_of(packets, begin + 1, end));
    }
    if (found < 2)
        return 0;
    ab_sort(rates, found);
    return ab_percentile(rates, found, 50);
}

/* A train that was delayed and then released at once seems faster than the path: use the median train instead. */
static void replace_outlier(const struct ab_packet *packets, size_t count, uint64_t *scratch, struct ab_rate *rate)
{
    struct candidate median = {.rate_bit_per_s = median_train(packets, count, scratch),
                               .kind = AB_KIND_MEDIAN};

    if (stands(&median) &&
        ab_mul_div(rate->rate_bit_per_s, 100, OUTLIER_PERCENT) > median.rate_bit_per_s)
        choose(&median, 1, rate);
}

void ab_estimate_stream(const struct ab_packet *packets, size_t count, size_t newest, size_t *unpaced,
                        uint64_t pace_bit_per_s, bool paced, uint64_t *scratch,
                        struct ab_rate *rate)
{
    if (pace_bit_per_s && !paced) {
        ab_estimate_rate(packets + newest, count - newest, scratch, rate);
        paced = is_between(rate->rate_bit_per_s, ab_percent(pace_bit_per_s, PACE_PERCENT),
                           ab_mul_div(pace_bit_per_s, 100, PACE_PERCENT));
    }
    if (pace_bit_per_s && paced) {
        *unpaced = count;
        estimate_paced(packets, count, newest, pace_bit_per_s, scratch, rate);
    } else {
        ab_estimate_rate(packets + *unpaced, count - *unpaced, scratch, rate);
        replace_outlier(packets + *unpaced, count - *unpaced, scratch, rate);
    }
    keep_plausible(rate);
}

size_t ab_estimate_rtt(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                       uint64_t *min_ns, uint64_t *median_ns)
{
    size_t found = 0;

    *min_ns = *median_ns = AUTOBUF_NS_UNSET;
    for (size_t i = 0; i < count; i++) {
        const struct ab_packet *p = &packets[i];

        if (!p->train && !p->delayed && p->received_ns != AUTOBUF_NS_UNSET)
            scratch[found++] = p->received_ns > p->sent_ns ? p->received_ns - p->sent_ns : 1;
    }
    if (!found)
        return 0;
    ab_sort(scratch, found);
    *min_ns = scratch[0];
    *median_ns = ab_percentile(scratch, found, 50);
    return found;
}

uint64_t ab_estimate_bdp(uint64_t rate_bit_per_s, uint64_t rtt_ns, uint32_t full_bytes, uint32_t small_bytes)
{
    uint64_t bytes = ab_mul_div(rate_bit_per_s, rtt_ns, BITS_NS);

    return bytes > UINT64_MAX - full_bytes ? UINT64_MAX : bytes + full_bytes - small_bytes;
}

/*
 * Packets of trains that were lost, in thousandths of those up to the last one that was answered. Larger ones, of which
 * the path takes none, are no loss.
 */
static uint32_t loss_permille(const struct ab_packet *packets, size_t count, uint32_t full_bytes)
{
    uint64_t sent = 0, lost = 0;

    while (count > 0 && packets[count - 1].received_ns == AUTOBUF_NS_UNSET)
        count--; /* these may be in flight */
    for (size_t i = 0; i < count; i++) {
        bool counts = packets[i].train && packets[i].bytes <= full_bytes;

        sent += counts;
        lost += counts && packets[i].received_ns == AUTOBUF_NS_UNSET;
    }
    return sent ? (uint32_t)(1000 * lost / sent) : 0;
}

int ab_estimate_path(const struct ab_packet *packets, size_t count, uint64_t *scratch, struct autobuf_path *path)
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
    path->loss_permille = loss_permille(packets, count, full_bytes);
    ab_estimate_rtt(packets, count, scratch, &path->rtt_min_ns, &path->rtt_median_ns);
    if (path->rtt_min_ns == AUTOBUF_NS_UNSET)
        return AUTOBUF_E_NOREPLY;
    ab_estimate_rate(packets, count, scratch, &rate);
    path->tx_unsure = path->rx_unsure = rate.unsure;
    path->tx_rate_bit_per_s = path->rx_rate_bit_per_s = rate.rate_bit_per_s;
    path->tx_rate_low_bit_per_s = path->rx_rate_low_bit_per_s = rate.low_bit_per_s;
    path->tx_rate_high_bit_per_s = path->rx_rate_high_bit_per_s = rate.high_bit_per_s;
    if (!rate.rate_bit_per_s)
        return AUTOBUF_E_FEW;
    path->flags |= AB_PATH_AT_LEAST | (rate.at_least ? 0 : AB_PATH_ECHOED);
    path->packet_bytes = full_bytes;
    if (!rate.unsure)
        path->tx_bdp_bytes = path->rx_bdp_bytes =
            ab_estimate_bdp(rate.rate_bit_per_s, path->rtt_min_ns, full_bytes, small_bytes);
    return 0;
}
