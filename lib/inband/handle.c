/* SPDX-License-Identifier: MIT */
/* autobuf_inband_*(): the handle, from its options to its result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "exchange.h"

#define BUDGET_MIN_BYTES 6000U
#define TIMEOUT_NS (5 * AB_NS_PER_S)

static const struct ab_framing *framing_of(const struct autobuf_inband_options *o)
{
    return o->dress == AUTOBUF_INBAND_FTP ? &ab_framing_ftp : &ab_framing_text;
}

static bool exchange_options_valid(const struct autobuf_inband_options *o)
{
    return o->budget_bytes >= BUDGET_MIN_BYTES && o->budget_bytes <= AUTOBUF_INBAND_BUDGET_BYTES &&
           ab_line_prefix_valid(o->prefix) && o->dress <= AUTOBUF_INBAND_FTP &&
           (o->flags & ~(AUTOBUF_INBAND_TX | AUTOBUF_INBAND_RX)) == 0;
}

/* Another payload for each handle, so that no cache on the path has it. Not 0. */
static uint64_t random_seed(uint64_t now_ns)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) /* just after boot */
        seed = now_ns;
    return seed | 1;
}

static struct autobuf_inband *new_handle(uint32_t role, uint64_t now_ns, const struct autobuf_inband_options *options)
{
    bool asks = role == AUTOBUF_INBAND_INITIATOR;
    struct autobuf_inband *ib = calloc(1, sizeof *ib);

    if (!ib)
        return NULL;
    ib->role = role;
    ib->acts = asks ? &ab_role_initiator : &ab_role_responder;
    ib->options = *options;
    ib->framing = framing_of(options);
    ib->encoder = asks ? &ib->framing->ask : &ib->framing->answer;
    ib->decoder = asks ? &ib->framing->answer : &ib->framing->ask;
    ib->log = (struct ab_log){options->log, options->log_user};
    ib->owner = getpid();
    ib->socket.fd = -1;
    ib->start_ns = ib->now_ns = now_ns;
    ib->end_ns = ib->exchange_ns = ib->shortest_ns = AUTOBUF_NS_UNSET;
    ib->out.random = random_seed(now_ns);
    ib->phase = AB_PHASE_OVER;
    return ib;
}

int autobuf_inband_open_pure(struct autobuf_inband **inband, uint32_t role, uint64_t now_ns,
                             const struct autobuf_inband_options *theirs)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband_facts unknown = AUTOBUF_INBAND_FACTS_INIT;
    struct autobuf_inband *ib;
    int error;

    if (!inband)
        return -EINVAL;
    *inband = NULL;
    if (theirs && !ab_struct_in(&options, sizeof options, theirs))
        return -EINVAL;
    if (!options.budget_bytes)
        options.budget_bytes = AUTOBUF_INBAND_BUDGET_BYTES;
    if (!options.timeout_ns)
        options.timeout_ns = TIMEOUT_NS;
    options.timeout_ns = ab_min(options.timeout_ns, AB_INBAND_TIMEOUT_MAX_NS);
    if (!options.prefix[0])
        memcpy(options.prefix, framing_of(&options)->prefix, strlen(framing_of(&options)->prefix) + 1);
    if (!exchange_options_valid(&options) ||
        (role != AUTOBUF_INBAND_INITIATOR && role != AUTOBUF_INBAND_RESPONDER))
        return -EINVAL;
    ib = new_handle(role, now_ns, &options);
    if (!ib)
        return -ENOMEM;
    autobuf_inband_tell(ib, &unknown);
    error = ib->acts->begin ? ib->acts->begin(ib) : 0;
    if (error < 0) {
        autobuf_inband_close(ib);
        return error;
    }
    *inband = ib;
    return 0;
}

int autobuf_inband_greeted(const struct autobuf_inband *ib)
{
    return ib ? ib->greeted : -EINVAL;
}

static void result_direction(const struct autobuf_inband *ib, const struct ab_reading *r,
                             uint64_t *rate, uint64_t *low, uint64_t *high, uint64_t *bdp)
{
    *rate = r->rate_bit_per_s;
    *low = r->low_bit_per_s;
    *high = r->high_bit_per_s;
    /* Hosts hand packets over in groups (NAPI, GRO): of a stream, whose bytes are counted over time, that is no doubt.
     */
    *bdp = r->unsure && r->unsure != AUTOBUF_UNSURE_BATCHES ? 0 : ab_inband_bdp(ib, r->rate_bit_per_s);
}

int autobuf_inband_result(const struct autobuf_inband *ib, struct autobuf_path *theirs)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t end_ns;

    if (!ib)
        return -EINVAL;
    end_ns = ab_min(ib->end_ns, ib->now_ns);
    path.method = AUTOBUF_METHOD_INBAND;
    path.samples = ib->samples;
    path.rtt_min_ns = ab_inband_rtt_ns(ib);
    path.rtt_median_ns = ib->exchange_ns != AUTOBUF_NS_UNSET ? ib->exchange_ns : path.rtt_min_ns;
    if (!ab_inband_is_relayed(ib)) { /* or the trains showed how fast the proxy takes them */
        result_direction(ib, &ib->tx.reading, &path.tx_rate_bit_per_s, &path.tx_rate_low_bit_per_s,
                         &path.tx_rate_high_bit_per_s, &path.tx_bdp_bytes);
        result_direction(ib, &ib->rx.reading, &path.rx_rate_bit_per_s, &path.rx_rate_low_bit_per_s,
                         &path.rx_rate_high_bit_per_s, &path.rx_bdp_bytes);
    }
    if (ib->tx.reading.at_least)
        path.flags |= AUTOBUF_PATH_TX_AT_LEAST;
    if (ib->rx.reading.at_least)
        path.flags |= AUTOBUF_PATH_RX_AT_LEAST;
    path.tx_unsure = ib->tx.reading.unsure;
    path.rx_unsure = ib->rx.reading.unsure;
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
    if (ab_inband_is_relayed(ib))
        return AUTOBUF_E_RELAYED;
    if (path.tx_rate_bit_per_s || path.rx_rate_bit_per_s)
        return 0;
    return ib->exchange_ns == AUTOBUF_NS_UNSET ? AUTOBUF_E_NOREPLY : AUTOBUF_E_FEW;
}

void autobuf_inband_close(struct autobuf_inband *ib)
{
    if (!ib)
        return;
    if (ib->socket.fd >= 0 && ib->owner == getpid())
        ab_restore_prepared(ib->socket.fd, &ib->socket.prepared);
    free(ib->arrivals.packets);
    free(ib->out.bytes);
    free(ib);
}
