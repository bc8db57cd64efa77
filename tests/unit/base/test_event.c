/* SPDX-License-Identifier: MIT */
/* lib/base/event.c: an event in English, in JSON, and as a callback gets it. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

static const struct row {
    struct autobuf_event event;
    const char *text, *json;
} rows[] = {
    {{.what = AUTOBUF_EVENT_KNOWN, .side = AUTOBUF_LOCK_SND, .after_bit_per_s = 24000000, .rtt_ns = 40000000,
     .why = "192.0.2.0/24"},
     "the path store knows it: 24.0 Mbit/s, 40.000 ms, 192.0.2.0/24",
     "{\"what\":\"known\",\"side\":\"send\",\"reason\":null,\"limited\":null,\"before_bytes\":null,"
     "\"after_bytes\":null,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":24000000,\"rtt_ns\":40000000,\"error\":null,"
     "\"why\":\"192.0.2.0/24\"}"},
    {{.what = AUTOBUF_EVENT_KNOWN, .side = AUTOBUF_LOCK_RCV, .after_bit_per_s = 1000000, .rtt_ns = AUTOBUF_NS_UNSET},
     "the path store knows it: 1.0 Mbit/s back",
     "{\"what\":\"known\",\"side\":\"receive\",\"reason\":null,\"limited\":null,\"before_bytes\":null,"
     "\"after_bytes\":null,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":1000000,\"rtt_ns\":null,\"error\":null,\"why\":null}"},
    {{.what = AUTOBUF_EVENT_MEASURED, .side = AUTOBUF_LOCK_SND, .after_bit_per_s = 97500000, .rtt_ns = 1000000},
     "measured: 97.5 Mbit/s, 1.000 ms",
     "{\"what\":\"measured\",\"side\":\"send\",\"reason\":null,\"limited\":null,\"before_bytes\":null,"
     "\"after_bytes\":null,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":97500000,\"rtt_ns\":1000000,\"error\":null,\"why\":null}"},
    {{.what = AUTOBUF_EVENT_MEASURED, .error = AUTOBUF_E_FEW},
     "not measured: too few replies came, or agree, to compute a rate",
     "{\"what\":\"measured\",\"side\":null,\"reason\":null,\"limited\":null,\"before_bytes\":null,\"after_bytes\":null,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":null,\"rtt_ns\":null,"
     "\"error\":\"too few replies came, or agree, to compute a rate\","
     "\"why\":null}"},
    {{.what = AUTOBUF_EVENT_RESIZED, .side = AUTOBUF_LOCK_SND, .bottleneck = AUTOBUF_BOTTLENECK_SND_BUFFER,
      .before_bytes = 1,
      .after_bytes = UINT64_MAX, .why = "it limits"},
     "send buffer 1 -> 18446744073709551615: it limits",
     "{\"what\":\"resized\",\"side\":\"send\",\"reason\":null,\"limited\":\"send-buffer\",\"before_bytes\":1,"
     "\"after_bytes\":18446744073709551615,\"before_bit_per_s\":null,\"after_bit_per_s\":null,\"rtt_ns\":null,"
     "\"error\":null,"
     "\"why\":\"it limits\"}"},
    {{.what = AUTOBUF_EVENT_RESIZED, .side = AUTOBUF_LOCK_RCV, .before_bytes = 2, .after_bytes = 4,
     .why = "x\"\\\n\xff"},
     "receive buffer 2 -> 4: x\"\\\n\xff",
     "{\"what\":\"resized\",\"side\":\"receive\",\"reason\":null,\"limited\":null,\"before_bytes\":2,\"after_bytes\":4,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":null,\"rtt_ns\":null,\"error\":null,\"why\":\"x\\\"\\\\??\"}"},
    {{.what = AUTOBUF_EVENT_GIVEN_BACK, .side = AUTOBUF_LOCK_SND, .before_bytes = 65536, .after_bytes = 65536,
      .why = "it limits"},
     "send buffer of 65536 given back to autotuning: it limits",
     "{\"what\":\"given-back\",\"side\":\"send\",\"reason\":null,\"limited\":null,\"before_bytes\":65536,"
     "\"after_bytes\":65536,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":null,\"rtt_ns\":null,\"error\":null,\"why\":\"it limits\"}"},
    {{.what = AUTOBUF_EVENT_PACED, .after_bit_per_s = 12000000,
     .why = "a queue stands"}, "pace none -> 12.0 Mbit/s: a queue stands",
     "{\"what\":\"paced\",\"side\":null,\"reason\":null,\"limited\":null,\"before_bytes\":null,\"after_bytes\":null,"
     "\"before_bit_per_s\":0,\"after_bit_per_s\":12000000,\"rtt_ns\":null,\"error\":null,\"why\":\"a queue stands\"}"},
    {{.what = AUTOBUF_EVENT_PACED, .before_bit_per_s = 12000000, .why = "over"}, "pace 12.0 -> none: over",
     "{\"what\":\"paced\",\"side\":null,\"reason\":null,\"limited\":null,\"before_bytes\":null,\"after_bytes\":null,"
     "\"before_bit_per_s\":12000000,\"after_bit_per_s\":0,\"rtt_ns\":null,\"error\":null,\"why\":\"over\"}"},
    {{.what = AUTOBUF_EVENT_UNSENT, .before_bytes = 1, .after_bytes = 2, .why = "w"}, "unsent, at most 1 -> 2: w",
     "{\"what\":\"unsent\",\"side\":null,\"reason\":null,\"limited\":null,\"before_bytes\":1,\"after_bytes\":2,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":null,\"rtt_ns\":null,\"error\":null,\"why\":\"w\"}"},
    {{.what = AUTOBUF_EVENT_WINDOW, .before_bytes = 1, .after_bytes = 2, .why = "w"}, "window 1 -> 2: w",
     "{\"what\":\"window\",\"side\":null,\"reason\":null,\"limited\":null,\"before_bytes\":1,\"after_bytes\":2,"
     "\"before_bit_per_s\":null,\"after_bit_per_s\":null,\"rtt_ns\":null,\"error\":null,\"why\":\"w\"}"},
};

static void in_english(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[256];

        ab_event_say(&rows[i].event, text, sizeof text);
        assert_string_equal(text, rows[i].text);
        ab_event_say(&rows[i].event, text, 4); /* cut, not overrun */
        assert_int_equal(strlen(text), 3);
    }
}

static void in_json(void **state)
{
    char text[1024];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t length = strlen(rows[i].json);

        assert_int_equal(ab_event_json(&rows[i].event, text, sizeof text), length);
        assert_string_equal(text, rows[i].json);
        assert_int_equal(ab_event_json(&rows[i].event, text, length), length);
        assert_int_equal(strlen(text), length - 1);
        assert_int_equal(ab_event_json(&rows[i].event, NULL, 0), length);
    }
    ab_event_json(&(struct autobuf_event){.what = 99, .side = 3}, text, sizeof text);
    assert_non_null(strstr(text, "{\"what\":\"?\",\"side\":null,"));
}

struct heard {
    unsigned events;
    struct autobuf_event last;
    char text[1024];
};

static void hear(void *user, const struct autobuf_event *event)
{
    struct heard *heard = user;

    heard->events++;
    heard->last = *event;
    snprintf(heard->text, sizeof heard->text, "%s", event->text);
}

static void a_callback_gets_both(void **state)
{
    struct heard heard = {0};
    const struct ab_log none = {NULL, &heard}, log = {hear, &heard};
    struct autobuf_event event = rows[0].event;
    char text[600];

    (void)state;
    ab_event(&none, &event);
    ab_log(&none, "%d", 1);
    assert_int_equal(heard.events, 0);
    ab_event(&log, &event);
    assert_int_equal(heard.last.size, sizeof event);
    assert_int_equal(heard.last.after_bit_per_s, 24000000);
    assert_string_equal(heard.text, rows[0].text);
    event.text = "its own";
    ab_event(&log, &event);
    assert_string_equal(heard.text, "its own");
    ab_log(&log, "%s: %d bytes", "plan", 42);
    assert_int_equal(heard.last.what, AUTOBUF_EVENT_NOTE);
    assert_string_equal(heard.text, "plan: 42 bytes");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ab_log(&log, "%s", text); /* longer than any line: cut, not overrun */
    assert_int_equal(heard.events, 4);
    assert_true(strlen(heard.text) >= 80 && strlen(heard.text) < sizeof text - 1);
    assert_int_equal(strspn(heard.text, "x"), strlen(heard.text));
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(autobuf_bottleneck_name(AUTOBUF_BOTTLENECK_UNKNOWN), "unknown");
    assert_string_equal(autobuf_bottleneck_name(AUTOBUF_BOTTLENECK_PATH), "path");
    assert_string_equal(autobuf_bottleneck_name(AUTOBUF_BOTTLENECK_SND_BUFFER), "send-buffer");
    assert_string_equal(autobuf_bottleneck_name(AUTOBUF_BOTTLENECK_RCV_BUFFER), "receive-buffer");
    assert_string_equal(autobuf_bottleneck_name(AUTOBUF_BOTTLENECK_RECEIVER), "receiver");
    assert_string_equal(autobuf_bottleneck_name(AUTOBUF_BOTTLENECK_STALLED), "stalled");
    assert_string_equal(autobuf_bottleneck_name(AUTOBUF_BOTTLENECK_STALLED + 1), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_english),
        cmocka_unit_test(in_json),
        cmocka_unit_test(a_callback_gets_both),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
