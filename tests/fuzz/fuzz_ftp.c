/* SPDX-License-Identifier: MIT */
/*
 * The exchange in FTP's framing, on a pure handle: a client whose server says anything, or a server whose
 * client does. The input is the options and then a script: words of the protocol or any bytes arrive, what
 * there is to say is sent, in parts, time passes, a client begins anew or asks for sizes.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "inband/exchange.h"

#define STEPS_MOST 2000U
#define SAID_MOST 4000000U /* trains of a budget, and lines */

static const char *const server_words[] = {
    "211 AUTOBUF 1 train=480000 budget=480000 maxrcv=4194304 maxsnd=1\r\n", "211 AUTOBUF 1 \r\n",
    "211-AUTOBUF TRAIN 14000\r\n", "211-AUTOBUF TRAIN 99999999\r\n", " payload\r\n", "211 AUTOBUF\r\n",
    "350 Go\r\n", "211 bytes=13032 nsec=10800000\r\n", "200 AUTOBUF rcv=5 snd=0\r\n", "452 no\r\n",
    "500-What\r\n", "421 bye\r\n", "211", "\r\n",
};
static const char *const client_words[] = {
    "SITE AUTOBUF\r\n", "SITE AUTOBUF TRAIN 14480\r\n", "SITE AUTOBUF TRAIN 480000\r\n",
    "SITE AUTOBUF SINK 14480\r\n", "SITE AUTOBUF SINK 1\r\n", "SITE AUTOBUF SET 1 2\r\n",
    "SITE AUTOBUF SET 99999999999 2\r\n", "SITE AUTOBUF PAINT\r\n", "NOOP\r\n", "SITE ", "\r\n",
};

struct session {
    struct autobuf_inband *ib;
    bool is_client;
    bool greeted; /* a client: "211 AUTOBUF 1" may have come */
    uint64_t now_ns;
    uint64_t said_bytes;
    unsigned wishes;
};

static void hear_wish(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes)
{
    struct session *s = user;

    CHECK(*rcv_bytes <= 1ULL << 30 && *snd_bytes <= 1ULL << 30);
    s->wishes++;
}

/* A client says but HELLO to who has not answered that. */
static void say(struct session *s, size_t most)
{
    const void *data;
    size_t len = autobuf_inband_output(s->ib, s->now_ns, &data);

    if (len == 0)
        return;
    if (s->is_client && !s->greeted)
        CHECK(strlen("SITE AUTOBUF\r\n") >= len);
    if (s->is_client && len > 3)
        CHECK(memcmp(data, "SITE", 4) == 0 || *(const char *)data == ' ' || s->said_bytes);
    len = most && most < len ? most : len;
    s->said_bytes += len;
    CHECK(s->said_bytes < SAID_MOST);
    autobuf_inband_sent(s->ib, s->now_ns, len);
}

static void hear(struct session *s, const char *text, size_t len)
{
    char *copy = exact_copy(text, len);
    int before = autobuf_inband_finished(s->ib);
    int64_t taken;

    s->greeted = s->greeted || strstr(text, "211 AUTOBUF 1") != NULL;
    taken = autobuf_inband_input(s->ib, s->now_ns, copy, len);
    CHECK(taken <= (int64_t)len);
    CHECK(before >= 0 || taken == before);
    free(copy);
}

static void hear_any(struct session *s, struct input *in)
{
    char text[200];
    size_t len = (size_t)take(in, 1) % (sizeof text - 1);

    for (size_t i = 0; i < len; i++)
        text[i] = (char)take(in, 1);
    text[len] = '\0';
    s->greeted = true; /* it may be anything, in parts */
    hear(s, text, len);
}

static void hear_word(struct session *s, unsigned which)
{
    size_t count = s->is_client ? sizeof server_words / sizeof *server_words
                                : sizeof client_words / sizeof *client_words;
    const char *word = (s->is_client ? server_words : client_words)[which % count];

    hear(s, word, strlen(word));
}

static void step(struct session *s, struct input *in)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;

    switch (take(in, 1) % 8) {
    case 0:
        say(s, (size_t)take(in, 1));
        break;
    case 1:
        hear_any(s, in);
        break;
    case 2:
        s->now_ns += take(in, 4);
        break;
    case 3:
        ab_inband_begin(s->ib, s->now_ns, (uint32_t)take(in, 1) & 3, 0, 0);
        break;
    case 4:
        ab_inband_set(s->ib, s->now_ns, take(in, 4), take(in, 4));
        break;
    case 5:
        facts.segment_bytes = 64 + (uint32_t)take(in, 2);
        facts.train_bytes = take(in, 3);
        CHECK(autobuf_inband_tell(s->ib, &facts) <= 0);
        break;
    case 6:
        break;
    default:
        hear_word(s, (unsigned)take(in, 1));
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct session s = {.is_client = take(&in, 1) & 1};
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    bool hello_only;

    options.dress = AUTOBUF_INBAND_FTP;
    options.flags = (uint32_t)take(&in, 1) & 7;
    hello_only = options.flags & 4;
    options.flags &= 3;
    CHECK(autobuf_inband_open_pure(&s.ib,
                                   s.is_client ? AUTOBUF_INBAND_INITIATOR : AUTOBUF_INBAND_RESPONDER,
                                   0, &options) == 0);
    s.ib->responder.set = hear_wish;
    s.ib->responder.set_user = &s;
    s.ib->initiator.hello_only = hello_only;
    for (unsigned i = 0; in.len > 0 && i < STEPS_MOST; i++)
        step(&s, &in);
    autobuf_inband_result(s.ib, &path);
    CHECK(path.tx_rate_bit_per_s <= AB_PLAUSIBLE_BIT_PER_S);
    CHECK(path.rx_rate_bit_per_s <= AB_PLAUSIBLE_BIT_PER_S);
    /* By its deadline it is over, whatever was said. */
    while (autobuf_inband_finished(s.ib) == 0) {
        s.now_ns = autobuf_inband_deadline_ns(s.ib);
        CHECK(s.now_ns != AUTOBUF_NS_UNSET);
        say(&s, 0);
    }
    autobuf_inband_close(s.ib);
    return 0;
}
