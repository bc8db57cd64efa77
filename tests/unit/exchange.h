/* SPDX-License-Identifier: MIT */
/* A pure handle of the in-band exchange; tests give it text and read its text. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <autobuf/autobuf.h>

#define MS 1000000ULL
#define SAID_BYTES 600000

/* All that the handle has to send now, as a string; the payload in it, too. */
static inline const char *said(struct autobuf_inband *ib, uint64_t now_ns)
{
    static char text[SAID_BYTES];
    size_t len = 0, part;
    const void *data;

    while ((part = autobuf_inband_output(ib, now_ns, &data)) > 0) {
        assert_true(len + part < sizeof text);
        memcpy(text + len, data, part);
        len += part;
        autobuf_inband_sent(ib, now_ns, part);
    }
    text[len] = '\0';
    return text;
}

/* Hands it text; what it took, or its error. */
static inline int64_t told(struct autobuf_inband *ib, uint64_t now_ns, const char *text)
{
    return autobuf_inband_input(ib, now_ns, text, strlen(text));
}

/*
 * A train of len bytes that arrives segment by segment, gap_ns apart, the first at now_ns. Returns when the last
 * came.
 */
static inline uint64_t train(struct autobuf_inband *ib, uint64_t now_ns, size_t len,
                             uint64_t gap_ns)
{
    static const char payload[65536] = " payload";

    while (len > 0) {
        size_t part = autobuf_inband_wanted(ib);

        assert_true(part > 0 && part <= sizeof payload);
        part = part < len ? part : len;
        assert_int_equal(autobuf_inband_input(ib, now_ns, payload, part), part);
        len -= part;
        if (len > 0)
            now_ns += gap_ns;
    }
    return now_ns;
}

/* The number behind a word, such as "TRAIN " or "rate=", in what was said. */
static inline uint64_t number_in(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    if (!at)
        fail_msg("no \"%s\" in \"%.200s\"", word, text);
    return strtoull(at + strlen(word), NULL, 10);
}

#endif
