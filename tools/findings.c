/* SPDX-License-Identifier: MIT */
#include "findings.h"

#include <inttypes.h>

#include "../lib/base/base.h"

#define SIZE_LEAST (1ULL << 16)
#define TCP_MEM_PART 8         /* the part of tcp_mem that one buffer may hold, as in <autobuf/plan.h> */

static struct autobuf_path share_of(const struct autobuf_path *path, uint64_t streams)
{
    struct autobuf_path share = *path;

    ab_path_forget_unsure(&share);
    streams = ab_max(streams, 1);
    share.tx_rate_bit_per_s /= streams;
    share.tx_rate_low_bit_per_s /= streams;
    share.tx_rate_high_bit_per_s /= streams;
    share.rx_rate_bit_per_s /= streams;
    share.rx_rate_low_bit_per_s /= streams;
    share.rx_rate_high_bit_per_s /= streams;
    share.tx_bdp_bytes /= streams;
    share.rx_bdp_bytes /= streams;
    return share;
}

static int plan_with(const struct findings *f, const struct arguments *want, uint32_t flags, struct autobuf_plan *plan)
{
    struct autobuf_limits limits = f->limits;

    limits.flags = flags;
    *plan = (struct autobuf_plan)AUTOBUF_PLAN_INIT;
    return autobuf_plan_make(&f->share, &limits, &f->socket, want->intent, want->expected_bytes, plan);
}

int findings_plan(struct findings *f, const struct arguments *want)
{
    uint32_t none = f->limits.flags & ~AUTOBUF_LIMITS_FORCE;
    int error;

    f->share = share_of(&f->path, want->streams);
    f->expected_bytes = want->expected_bytes;
    error = plan_with(f, want, want->as_user ? none : f->limits.flags, &f->plan);
    if (error == 0)
        error = plan_with(f, want, none, &f->user);
    return error < 0 ? error : plan_with(f, want, none | AUTOBUF_LIMITS_FORCE, &f->root);
}

const char *findings_unsure(const struct findings *f)
{
    uint32_t unsure = f->path.tx_unsure ? f->path.tx_unsure : f->path.rx_unsure;

    return f->share.tx_rate_bit_per_s || f->share.rx_rate_bit_per_s ? NULL : autobuf_unsure_name(unsure);
}

uint64_t findings_wanted(const struct findings *f, bool sends)
{
    uint64_t path = sends ? f->user.snd_wanted_bytes : f->user.rcv_wanted_bytes;

    return f->expected_bytes ? ab_min(f->expected_bytes, path) : path;
}

uint64_t findings_window_rate(const struct findings *f, uint64_t window_bytes)
{
    uint64_t rtt_ns = f->share.rtt_min_ns;

    return rtt_ns && rtt_ns != AUTOBUF_NS_UNSET ? ab_mul_div(window_bytes, 8 * AB_NS_PER_S, rtt_ns) : 0;
}

static uint64_t path_rate(const struct findings *f, bool sends)
{
    return autobuf_payload_bytes(sends ? f->share.tx_rate_bit_per_s : f->share.rx_rate_bit_per_s,
                                 f->share.packet_bytes);
}

uint64_t findings_rate(const struct findings *f, bool sends, uint64_t window_bytes)
{
    uint64_t path = path_rate(f, sends);

    return path ? ab_min(findings_window_rate(f, window_bytes), path) : 0;
}

bool findings_or_more(const struct findings *f, bool sends, uint64_t window_bytes)
{
    uint32_t at_least = sends ? AUTOBUF_PATH_TX_AT_LEAST : AUTOBUF_PATH_RX_AT_LEAST;

    return f->share.flags & at_least && findings_window_rate(f, window_bytes) > path_rate(f, sends);
}

uint64_t findings_time_ns(uint64_t bytes, uint64_t rate_bit_per_s, uint64_t rtt_ns)
{
    uint64_t full = ab_mul_div(rate_bit_per_s, rtt_ns, 8 * AB_NS_PER_S), ns = 0;

    if (!rate_bit_per_s)
        return AUTOBUF_NS_UNSET;
    for (uint64_t window = INITIAL_WINDOW_BYTES; window < full && window < bytes; window *= 2) {
        bytes -= window;
        ns += rtt_ns;
    }
    return ns + ab_min(ab_mul_div(bytes, 8 * AB_NS_PER_S, rate_bit_per_s), AUTOBUF_NS_UNSET - 1 - ns);
}

struct duration findings_duration(const struct findings *f, bool sends, uint64_t window_bytes)
{
    uint64_t rate = findings_rate(f, sends, window_bytes), most = findings_window_rate(f, window_bytes);
    struct duration d = {AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET};

    if (!rate || !f->expected_bytes)
        return d;
    d.low_ns = findings_time_ns(f->expected_bytes, rate, f->share.rtt_min_ns);
    if (!findings_or_more(f, sends, window_bytes))
        return d;
    d.high_ns = d.low_ns;
    d.low_ns = most < AB_PLAUSIBLE_BIT_PER_S ? findings_time_ns(f->expected_bytes, most, f->share.rtt_min_ns)
                                             : AUTOBUF_NS_UNSET;
    return d;
}

uint64_t findings_sensible(uint64_t bytes)
{
    uint64_t power = SIZE_LEAST;

    while (power < bytes && power < TCP_WINDOW_BYTES)
        power *= 2;
    return bytes > SIZE_LEAST && bytes <= power / 4 * 3 ? power / 4 * 3 : power;
}

/* Whether autotuning reaches with these limits what the transfer needs. */
static bool autotuning_reaches(const struct findings *f, const struct autobuf_limits *limits, bool sends)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    if (autobuf_plan_make(&f->share, limits, &f->socket, AUTOBUF_INTENT_THROUGHPUT, 0, &plan) < 0)
        return true;
    return (sends ? plan.snd_kernel_bytes : plan.rcv_kernel_bytes) >= findings_wanted(f, sends);
}

uint64_t findings_size_most(const struct autobuf_limits *limits)
{
    uint64_t most = TCP_WINDOW_BYTES;

    while (limits->tcp_mem_bytes && most > limits->tcp_mem_bytes / TCP_MEM_PART)
        most /= 2;
    return most;
}

/*
 * The sysctl of one direction with the smallest sensible size that is enough, or the largest that may be advised; the
 * first two of its three sizes stay. false: there is no larger one, or none is needed.
 */
static bool size_enough(const struct findings *f, struct autobuf_limits limits, bool sends, struct sysctl_line *line)
{
    uint64_t *size = sends ? &limits.tcp_wmem_max_bytes : &limits.tcp_rmem_max_bytes;
    uint64_t before = *size, most = findings_size_most(&limits);

    while (*size < most && !autotuning_reaches(f, &limits, sends))
        *size = ab_min(findings_sensible(*size + 1), most);
    snprintf(line->name, sizeof line->name, "net.ipv4.tcp_%cmem", sends ? 'w' : 'r');
    snprintf(line->value, sizeof line->value, "%" PRIu64 " %" PRIu64 " %" PRIu64,
             sends ? limits.tcp_wmem_min_bytes : limits.tcp_rmem_min_bytes,
             sends ? limits.tcp_wmem_default_bytes : limits.tcp_rmem_default_bytes, *size);
    return *size > before;
}

bool findings_known(const struct findings *f)
{
    return f->share.tx_bdp_bytes || f->share.rx_bdp_bytes;
}

bool findings_fillable(const struct findings *f, bool sends)
{
    struct autobuf_limits limits = f->limits;
    uint64_t most = findings_size_most(&limits);

    limits.flags |= AUTOBUF_LIMITS_WINDOW_SCALING | AUTOBUF_LIMITS_RCV_AUTOTUNING;
    limits.tcp_wmem_max_bytes = ab_max(most, limits.tcp_wmem_max_bytes);
    limits.tcp_rmem_max_bytes = ab_max(most, limits.tcp_rmem_max_bytes);
    return autotuning_reaches(f, &limits, sends);
}

size_t findings_sysctls(const struct findings *f, struct sysctl_line out[SYSCTLS_MOST])
{
    struct autobuf_limits limits = f->limits;
    size_t count = 0;

    limits.flags |= AUTOBUF_LIMITS_WINDOW_SCALING;
    if (!findings_known(f) || f->limits.flags & AUTOBUF_LIMITS_ASSUMED || f->socket.flags & AUTOBUF_SOCKET_UNSCALED)
        return 0;
    if (!(f->limits.flags & AUTOBUF_LIMITS_WINDOW_SCALING) &&
        !(autotuning_reaches(f, &f->limits, true) && autotuning_reaches(f, &f->limits, false)))
        out[count++] = (struct sysctl_line){"net.ipv4.tcp_window_scaling", "1"};
    limits.flags |= AUTOBUF_LIMITS_RCV_AUTOTUNING;
    if (!(f->limits.flags & AUTOBUF_LIMITS_RCV_AUTOTUNING) && !autotuning_reaches(f, &f->limits, false))
        out[count++] = (struct sysctl_line){"net.ipv4.tcp_moderate_rcvbuf", "1"};
    count += size_enough(f, limits, true, &out[count]);
    count += size_enough(f, limits, false, &out[count]);
    return count;
}
