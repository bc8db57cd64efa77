/* SPDX-License-Identifier: MIT */
/* The pure form of the exchange in band, inside TLS. */
#include "exchange.h"

#include <errno.h>

#define RECORD_LEAST_BYTES 64U
#define RECORD_MOST_BYTES 16384U

/*
 * Tells the exchange what the socket knows, as seen from above TLS. A record fills one segment, so each read of a
 * segment completes one record, and records have the times of segments. Records of 1,400 bytes drift against the
 * segments: one in 55 reads completes two, which makes the rate 1.8% too low. With larger records some reads would
 * complete none.
 */
static int tell_facts(struct link *l, struct autobuf_inband *ib)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    uint32_t segment, packet, record, overhead = (uint32_t)l->overhead_bytes;
    int error;

    facts.flags = l->facts_flags; /* the host need not be asked again */
    error = autobuf_inband_facts(l->fd, &facts);
    if (error < 0)
        return error;
    l->facts_flags = facts.flags;
    segment = facts.segment_bytes;
    packet = facts.packet_bytes;
    record = segment > overhead ? segment - overhead : 0;
    if (record < RECORD_LEAST_BYTES)
        record = RECORD_LEAST_BYTES;
    if (record > RECORD_MOST_BYTES)
        record = RECORD_MOST_BYTES;
    l->segment_bytes = segment;
    l->record_bytes = record;
    facts.segment_bytes = record;
    facts.packet_bytes = ((record + overhead) * packet + segment / 2) / segment;
    facts.train_bytes = facts.train_bytes * record / (record + overhead);
    facts.pace_bit_per_s = facts.pace_bit_per_s / (record + overhead) * record;
    return autobuf_inband_tell(ib, &facts);
}

/* What came belongs to the exchange, until it is over. */
static int take_plain(struct link *l, struct autobuf_inband *ib)
{
    int64_t taken;
    int error;

    if (l->begin == l->end)
        return 0;
    error = tell_facts(l, ib); /* what came may make it decide on a train */
    if (error < 0)
        return error;
    taken = autobuf_inband_input(ib, l->stamp_ns, l->plain + l->begin, l->end - l->begin);
    if (taken < 0)
        return (int)taken;
    link_take(l, (size_t)taken);
    return 0;
}

/* Encrypts all that there is to send before it sends any of it. *sending: how many bytes of plaintext that is. */
static int send_plain(struct link *l, struct autobuf_inband *ib, size_t *sending)
{
    const void *data;
    uint64_t now_ns = autobuf_now_ns(); /* before it is sent: an answer must not seem older */
    size_t len = autobuf_inband_output(ib, now_ns, &data);
    int result = 0;

    if (len > 0 && *sending == 0) {
        result = link_write(l, data, len);
        *sending = len;
    }
    if (result == 0)
        result = link_flush(l);
    if (result == 1 && *sending > 0) {
        autobuf_inband_sent(ib, now_ns, *sending);
        *sending = 0;
    }
    return result < 0 ? result : 0;
}

/* Waits, unless there is something to read already. */
static int get_plain(struct link *l, const struct autobuf_inband *ib)
{
    bool reads = autobuf_inband_wanted(ib) > 0;
    uint64_t idle_ns = autobuf_now_ns() + IDLE_NS, until_ns = autobuf_inband_deadline_ns(ib);
    int result = 0;

    if (reads && l->begin < l->end)
        return 0;
    if (reads)
        result = link_fill(l);
    if (result != 0)
        return result < 0 ? result : 0;
    result = link_wait(l, reads, until_ns < idle_ns ? until_ns : idle_ns);
    return result == -ETIMEDOUT && until_ns < idle_ns ? 0 : result; /* output() is told of it */
}

int exchange_run(struct link *l, struct autobuf_inband *ib)
{
    size_t sending = 0;
    int result = tell_facts(l, ib);

    while (result == 0) {
        result = take_plain(l, ib);
        if (result == 0)
            result = send_plain(l, ib, &sending);
        if (result == 0)
            result = autobuf_inband_finished(ib);
        if (result == 0)
            result = get_plain(l, ib);
    }
    return result;
}
