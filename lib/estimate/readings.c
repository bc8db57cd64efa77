/* SPDX-License-Identifier: MIT */
/* Readings of the rate from packets, one for each stretch of a train. estimate.c makes candidates of them. */
#include "estimate.h"

#define BITS_NS (8 * AB_NS_PER_S)

/* The experiment that set each constant: see estimate.c. */
#define BEHIND_PART 4U         /* a gap below mean / 4: a batch; unit: only_the_first_of_a_batch_begins_a_window */
#define SPREAD_PERCENT 110U    /* of the time of sending; sweep: 0, 0, 5 bounds of a host that takes 8 us */
#define SHORT_PART 3U          /* below a third of the mean: short; sweep: 0.9, 0.8, 0.8% in band, cross traffic */
#define REGRESSION_PACKETS 12U /* fewer have no slope; sweep: 3.5, 3.1, 5.1% with jitter of 2 ms */
#define BUNCHED_PART 3U        /* the first third of a train; sweep: 38, 3.1, 4.7% with jitter of 2 ms */
#define OVERFLOW_PACKETS 3U    /* lost in a row; unit: the_slope_ends_where_a_queue_overflowed */

static bool adjacent(const struct ab_packet *a)
{
    const struct ab_packet *b = a + 1;

    return a->train && a->train == b->train && a->received_ns != AUTOBUF_NS_UNSET &&
           b->received_ns != AUTOBUF_NS_UNSET && b->received_ns >= a->received_ns;
}

size_t ab_run_end(const struct ab_packet *packets, size_t count, size_t i)
{
    while (i + 1 < count && adjacent(&packets[i]))
        i++;
    return i + 1;
}

uint64_t ab_rate_between(const struct ab_packet *a, const struct ab_packet *b, uint64_t bytes)
{
    return ab_mul_div(bytes, BITS_NS, ab_max(b->received_ns - a->received_ns, 1));
}

uint64_t ab_bytes_of(const struct ab_packet *packets, size_t begin, size_t end)
{
    uint64_t bytes = 0;

    while (begin < end)
        bytes += packets[begin++].bytes;
    return bytes;
}

/*
 * Whether these two arrived farther apart than they were sent: the path was slower than the sending host. If the
 * kernel's stamp of the second one is lost, it can seem to be sent first.
 */
static bool spread_by_path(const struct ab_packet *a, const struct ab_packet *b)
{
    return 100 * (b->received_ns - a->received_ns) > SPREAD_PERCENT * (b->sent_ns - ab_min(a->sent_ns, b->sent_ns));
}

/*
 * One reading for each packet from which a window of width_ns fits into its run. A packet that came right behind
 * another one begins no window, as in pathrate. With singles, merged packets neither begin nor end a window. rates may
 * be NULL. *tried: how many windows there were, with those that the sender made.
 */
static size_t readings_of_windows(const struct ab_packet *packets, size_t count, uint64_t width_ns,
                                  bool singles, uint64_t *rates, size_t *tried)
{
    size_t found = 0;

    *tried = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        uint64_t behind_ns, upto_i = 0, upto_j = 0; /* bytes of the run */

        end = ab_run_end(packets, count, begin);
        behind_ns = (packets[end - 1].received_ns - packets[begin].received_ns) / (end - begin) /
                    BEHIND_PART;
        for (size_t i = begin, j = begin; i < end; i++) {
            upto_i += packets[i].bytes;
            if (i > begin && packets[i].received_ns - packets[i - 1].received_ns < behind_ns)
                continue;
            while (j < end &&
                   (j <= i || packets[j].received_ns - packets[i].received_ns < width_ns))
                upto_j += packets[j++].bytes;
            if (j == end)
                break;
            if (singles && (packets[i].merged || packets[j].merged))
                continue;
            ++*tried;
            if (!spread_by_path(&packets[i], &packets[j]))
                continue;
            if (rates)
                rates[found] = ab_rate_between(&packets[i], &packets[j], upto_j + packets[j].bytes - upto_i);
            found++;
        }
    }
    return found;
}

static size_t readings_of_runs(const struct ab_packet *packets, size_t count, uint64_t *rates)
{
    size_t found = 0;

    for (size_t begin = 0, end; begin < count; begin = end) {
        end = ab_run_end(packets, count, begin);
        if (end - begin > 1 && spread_by_path(&packets[begin], &packets[end - 1]))
            rates[found++] = ab_rate_between(&packets[begin], &packets[end - 1], ab_bytes_of(packets, begin + 1, end));
    }
    return found;
}

size_t ab_estimate_readings(const struct ab_packet *packets, size_t count, uint64_t window_ns, uint64_t *rates)
{
    size_t tried;

    return window_ns ? readings_of_windows(packets, count, window_ns, false, rates, &tried)
                     : readings_of_runs(packets, count, rates);
}

/* The gap before packets that a host merged shows the merging interval, not the path: it does not count. */
size_t ab_readings_of_gaps(const struct ab_packet *packets, size_t count, uint64_t *rates)
{
    size_t tried;

    return readings_of_windows(packets, count, 1, true, rates, &tried);
}

bool ab_most_as_sent(const struct ab_packet *packets, size_t count, uint64_t window_ns)
{
    size_t tried, spread = readings_of_windows(packets, count, window_ns, false, NULL, &tried);

    return 2 * spread < tried;
}

struct ab_gaps ab_gaps_of(const struct ab_packet *packets, size_t count)
{
    struct ab_gaps g = {0};

    for (size_t begin = 0, end; begin < count; begin = end) {
        const struct ab_packet *first = &packets[begin], *last;
        uint64_t span_ns;

        end = ab_run_end(packets, count, begin);
        if (end - begin < 2)
            continue;
        last = &packets[end - 1];
        span_ns = last->received_ns - first->received_ns;
        g.count += end - begin - 1;
        g.bytes += ab_bytes_of(packets, begin + 1, end);
        g.span_ns += span_ns;
        g.longest_ns = ab_max(g.longest_ns, span_ns);
    }
    for (size_t i = 0; g.count && i + 1 < count; i++)
        g.shorter += adjacent(&packets[i]) && packets[i + 1].received_ns - packets[i].received_ns <
                                                  g.span_ns / g.count / SHORT_PART;
    return g;
}

/* For the regression a train ends where a queue overflowed, or at its last packet. */
static size_t usable_end(const struct ab_packet *packets, size_t count, size_t begin)
{
    unsigned missing = 0;
    size_t end = begin;

    while (end < count && packets[end].train == packets[begin].train && missing < OVERFLOW_PACKETS) {
        missing = packets[end].received_ns == AUTOBUF_NS_UNSET ? missing + 1 : 0;
        end++;
    }
    return end - missing;
}

/* Jitter and batches bunch the first packets of a train: its first third does not count. */
uint64_t ab_slope_of(const struct ab_packet *packets, size_t count)
{
    double sum_xx = 0, sum_xy = 0, rate;

    for (size_t begin = 0, next; begin < count; begin = next) {
        size_t end = usable_end(packets, count, begin);
        double n = 0, x = 0, mean_x = 0, mean_y = 0;

        for (next = begin; next < count && packets[next].train == packets[begin].train; next++)
            ;
        if (!packets[begin].train || end < begin + REGRESSION_PACKETS)
            continue;
        for (size_t i = begin + (end - begin) / BUNCHED_PART; i < end; i++) {
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
    return rate < 0x1p63 ? (uint64_t)rate : 0;
}
