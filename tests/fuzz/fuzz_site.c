/* SPDX-License-Identifier: MIT */
/*
 * The answers of a site's server. First byte: how many entries were sent before, up to three; then whether there was a
 * password; then how many bytes come at once; then 1: entries get valid checksums, as from an attacker. The rest is the
 * answer to a first round and to a second one, which looks back.
 */
#include "fuzz.h"

#include <errno.h>

#include "daemon/learn.h"
#include "daemon/site.h"
#include "paths/record.h"

#define NOW_S 1800000000U
#define RECORD 16U /* of a message: where it begins */
#define CHECKSUM (RECORD + 176U)

static void seal(uint8_t *answer, size_t len)
{
    uint8_t *at = answer;

    while ((at = memmem(at, (size_t)(answer + len - at), "AUTOBUFL", 8)) &&
           answer + len - at >= AUTOBUF_PATHS_MESSAGE_BYTES) {
        uint32_t crc = ab_crc32(at + RECORD, CHECKSUM - RECORD);

        for (unsigned i = 0; i < 4; i++)
            at[CHECKSUM + i] = (uint8_t)(crc >> 8 * i);
        at += AUTOBUF_PATHS_MESSAGE_BYTES;
    }
}

struct taken {
    size_t count;
};

static void take_entry(void *user, const struct autobuf_paths_entry *entry)
{
    struct taken *taken = user;
    struct autobuf_paths_entry e;

    taken->count++;
    if (!entry)
        return;
    e = *entry;
    if (!site_check(&e, NOW_S))
        return;
    CHECK(e.learned_s <= NOW_S && e.expires_s > NOW_S && e.expires_s <= NOW_S + SITE_HOLDS_S);
    CHECK(learn_is_host(&e.remote) && e.method != AUTOBUF_METHOD_GIVEN && !e.device[0] && !e.local.version);
    CHECK(e.tx_rate_bit_per_s <= SITE_RATE_MOST && e.rx_rate_bit_per_s <= SITE_RATE_MOST);
    CHECK(e.rtt_min_ns <= SITE_RTT_MOST_NS);
    CHECK(e.tx_bdp_bytes <= SITE_BDP_MOST && e.rx_bdp_bytes <= SITE_BDP_MOST);
}

static void ask(struct site_talk *talk, size_t count, bool password)
{
    struct autobuf_paths_entry entries[3];
    struct site_round round = {.password = password ? "p" : NULL, .entries = entries, .count = count,
                               .read = SITE_ROUND, .lookback = true};
    size_t bytes;
    char *text;

    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
        entries[i].remote.version = 4;
        entries[i].remote.bits = 32;
        entries[i].method = AUTOBUF_METHOD_ICMP;
    }
    CHECK(site_talk_ask(talk, &round, &text, &bytes) == 0);
    free(text);
}

/* Answers a round. */
static void hear(struct site_talk *talk, struct input in, size_t at_once)
{
    struct taken taken = {0};
    size_t heard = 0;
    int result = 0;

    while (in.len && result == 0) {
        size_t bytes = in.len < at_once ? in.len : at_once;
        char *copy = exact_copy(in.data, bytes);

        result = site_talk_hear(talk, copy, bytes, take_entry, &taken, &heard);
        free(copy);
        in.data += bytes;
        in.len -= bytes;
    }
    CHECK(result == 0 || result == 1 || result == -EPROTO || result == -EKEYREJECTED);
    CHECK(taken.count <= SITE_ROUND && heard <= SITE_ROUND && strlen(talk->refusal) < SITE_REFUSAL_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    size_t count = take(&in, 1) % 4, at_once;
    bool password = take(&in, 1) & 1;
    bool sealed;
    uint8_t *answer;
    struct site_talk talk;

    at_once = (size_t)take(&in, 1) * 16 + 1;
    sealed = take(&in, 1) & 1;
    answer = exact_copy(in.data, in.len);
    if (sealed)
        seal(answer, in.len);
    in.data = answer;
    site_talk_begin(&talk, "key", "0123456789abcdef");
    for (unsigned round = 0; round < 2; round++) {
        ask(&talk, count, password);
        hear(&talk, in, at_once);
    }
    ask(&talk, count, password); /* whatever was said, another round may begin */
    free(answer);
    return 0;
}
