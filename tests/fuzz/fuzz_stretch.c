/* SPDX-License-Identifier: MIT */
/* Stretches of paced data with any times of the peer's, and what searches make of them. */
#include "fuzz.h"

#include "available/stretch.h"

#define MOST 1024U
#define RATE_MOST 1000000000000ULL /* as a line can hold */

/* Each record: how often, and by what steps the chunks behind the last one were sent and arrived. */
static size_t take_chunks(struct input *in, struct ab_chunk *chunks)
{
    struct ab_chunk c = {take_number(in), take_number(in), 1500};
    size_t count = 0;

    while (in->len > 0 && count < MOST) {
        unsigned copies = (unsigned)take(in, 1);
        uint64_t sent_ns = take_number(in), arrived_ns = take_number(in);

        c.bytes = take(in, 2);
        for (unsigned i = 0; i < copies && count < MOST; i++) {
            chunks[count++] = c;
            c.sent_ns += sent_ns;
            c.arrived_ns += arrived_ns;
        }
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct ab_available room;
    static struct ab_chunk made[MOST];
    struct input in = {data, len};
    uint64_t until_ns = take_number(&in), low = take_number(&in) % RATE_MOST, high = take_number(&in) % RATE_MOST;
    struct ab_search search = {.capacity_low_bit_per_s = low, .capacity_high_bit_per_s = high}, none = {0};
    size_t count = take_chunks(&in, made);
    struct ab_chunk *chunks = exact_copy(made, count * sizeof *made);
    struct autobuf_available found;
    struct ab_stretch how;
    unsigned stretches = 0;

    while (ab_search_next(&search, &how)) {
        CHECK(how.pace_bit_per_s > 0 && ++stretches <= 4);
        ab_stretch_estimate(&room, chunks, count, until_ns, &how, &found);
        CHECK(found.over_ns <= 10000000000);
        CHECK((found.tx_low_bit_per_s && found.tx_high_bit_per_s) == !found.cause);
        ab_search_take(&search, how.pace_bit_per_s, count % 2, &found);
    }
    ab_search_result(&search, &none, &found);
    CHECK(!found.tx_high_bit_per_s || found.tx_low_bit_per_s <= found.tx_high_bit_per_s);
    CHECK((found.kind == AUTOBUF_KIND_NONE) == !(found.tx_low_bit_per_s || found.tx_high_bit_per_s));
    CHECK((found.cause == AUTOBUF_CAUSE_CAPACITY) == (low == 0 || (found.tx_low_bit_per_s && found.tx_high_bit_per_s)));
    free(chunks);
    return 0;
}
