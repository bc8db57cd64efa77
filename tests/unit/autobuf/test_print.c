/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "print.h"

static void lines_are_folded_between_words(void **state)
{
    static const char long_line[] = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
                                    "fifteen sixteen seventeen eighteen nineteen twenty\nshort\n";
    char text[512] = "", word[128];
    FILE *out = fmemopen(text, sizeof text, "w");
    unsigned lines = 0;

    (void)state;
    print_folded(out, long_line, 3);
    fclose(out);
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1, lines++)
        assert_true(strcspn(at, "\n") < 80);
    assert_int_equal(lines, 3);
    assert_non_null(strstr(text, "thirteen\n   fourteen"));
    assert_non_null(strstr(text, "twenty\nshort\n"));
    out = fmemopen(text, sizeof text, "w"); /* a word that is longer than a line */
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = '\0';
    print_folded(out, word, 3);
    fclose(out);
    assert_int_equal(strlen(text), strlen(word));
}

/* A device may be called nearly anything. */
static void strings_of_json_are_escaped(void **state)
{
    char text[128] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    (void)state;
    json_string(out, "key", "a\"b\\c\nd\x7f\xc3");
    json_string(out, "none", NULL);
    json_bool(out, "yes", true);
    fclose(out);
    assert_string_equal(text, "\"key\":\"a\\\"b\\\\c?d??\",\"none\":null,\"yes\":true,");
}

static void a_state_is_an_object(void **state)
{
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    char text[1024] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    (void)state;
    live.bottleneck = AUTOBUF_BOTTLENECK_PATH;
    live.rtt_ns = AUTOBUF_NS_UNSET;
    live.rtt_min_ns = 39000000;
    live.changes = 8;
    fputc('{', out);
    json_state(out, &live);
    fputc('}', out);
    fclose(out);
    assert_string_equal(text,
                        "{\"limited\":\"path\",\"rtt_ns\":null,\"rtt_min_ns\":39000000,\"sent_bytes\":0,"
                        "\"received_bytes\":0,"
                        "\"sent_bit_per_s\":0,\"received_bit_per_s\":0,\"in_flight_bytes\":0,\"cwnd_bytes\":0,"
                        "\"peer_window_bytes\":null,\"notsent_bytes\":0,\"snd_buf_bytes\":0,\"rcv_buf_bytes\":0,"
                        "\"pacing_bit_per_s\":null,\"mtu_bytes\":null,\"loss_permille\":0,\"retransmits\":0,"
                        "\"changes\":8}");
}

static void what_is_free_is_an_object_and_words(void **state)
{
    struct autobuf_available known = {sizeof known, AUTOBUF_KIND_SHARE, 0, 0, 180000000, 230000000, 0, 0,
                                      9900000000, 5};
    struct autobuf_available least = {sizeof least, AUTOBUF_KIND_AVAILABLE, AUTOBUF_AVAILABLE_TX_AT_LEAST,
                                      AUTOBUF_CAUSE_NO_QUEUE, 1500, 0, 0, 0, 1000000000, 0};
    struct autobuf_available none = {.size = sizeof none, .cause = AUTOBUF_CAUSE_SHORT};
    char text[1024] = "", words[AVAILABLE_BYTES];
    FILE *out = fmemopen(text, sizeof text, "w");

    (void)state;
    json_available(out, &known);
    json_available(out, &none);
    fclose(out);
    assert_string_equal(text, "\"available\":{\"kind\":\"share\",\"tx_low_bit_per_s\":180000000,"
                              "\"tx_high_bit_per_s\":230000000,\"rx_low_bit_per_s\":null,\"rx_high_bit_per_s\":null,"
                              "\"over_ns\":9900000000,\"age_ns\":5,\"echoed\":false,\"cause\":null},"
                              "\"available\":{\"kind\":null,\"tx_low_bit_per_s\":null,\"tx_high_bit_per_s\":null,"
                              "\"rx_low_bit_per_s\":null,\"rx_high_bit_per_s\":null,\"over_ns\":null,\"age_ns\":null,"
                              "\"echoed\":false,\"cause\":\"too-short\"},");
    assert_string_equal(available_words(words, &known),
                        "180.0 Mbit/s to 230.0 Mbit/s as a new flow's share, over 9.9 s");
    assert_string_equal(available_words(words, &least), "at least 1.5 kbit/s, over 1.0 s");
    least.tx_high_bit_per_s = 7000000;
    least.tx_low_bit_per_s = 0;
    assert_string_equal(available_words(words, &least), "at most 7.0 Mbit/s, over 1.0 s");
    assert_string_equal(available_words(words, &none), "unknown (too-short)");
}

static void a_duration_in_words(void **state)
{
    char text[DURATION_BYTES];

    (void)state;
    assert_string_equal(duration_words(text, 41250000000, 207400000000), "41.2 s to 207 s");
    assert_string_equal(duration_words(text, 2071000000, 2072000000), "2.07 s");
    assert_string_equal(duration_words(text, 1500000, AUTOBUF_NS_UNSET), "at least 0.002 s");
    assert_string_equal(duration_words(text, AUTOBUF_NS_UNSET, 90000000000000), "at most 90000 s");
    assert_string_equal(duration_words(text, AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_folded_between_words),
        cmocka_unit_test(strings_of_json_are_escaped),
        cmocka_unit_test(a_state_is_an_object),
        cmocka_unit_test(what_is_free_is_an_object_and_words),
        cmocka_unit_test(a_duration_in_words),
    };

    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
