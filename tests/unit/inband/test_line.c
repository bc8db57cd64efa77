/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "inband/exchange.h"

#define P "AUTOBUF"

static const struct parse_row {
    const char *name;
    const char *text;
    bool good;
    enum ab_verb verb;
    unsigned count;
    uint64_t numbers[2];
    enum ab_key key;
    uint64_t value;
} parse_rows[] = {
    {"HELLO", P " HELLO 1 train=5 budget=7", true, AB_HELLO, 1, {1}, AB_KEY_BUDGET, 7},
    {"TRAIN", P " TRAIN 14480", true, AB_TRAIN, 1, {14480}, AB_KEY_PACE, 0},
    {"SINK with keys", P " SINK 9 pace=3 paced=1", true, AB_SINK, 1, {9}, AB_KEY_PACED, 1},
    {"RESULT", P " RESULT rate=100", true, AB_RESULT, 0, {0}, AB_KEY_RATE, 100},
    {"a verb alone", P " RESULT", true, AB_RESULT, 0, {0}, AB_KEY_RATE, 0},
    {"SET", P " SET 0 1073741824", true, AB_SET, 2, {0, 1073741824}, AB_KEY_RATE, 0},
    {"ERROR with words", P " ERROR 452 no more = of 7 it", true, AB_ERROR, 1, {452}, AB_KEY_RATE, 0},
    {"ERROR without a code", P " ERROR no more", false, AB_ERROR, 0, {0}, AB_KEY_RATE, 0},
    {"a key of tomorrow", P " HELLO 1 colour=3 train=5", true, AB_HELLO, 1, {1}, AB_KEY_TRAIN, 5},
    {"a verb of tomorrow", P " PAINT 1 blue", true, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"a key twice: the last", P " RESULT rate=1 rate=2", true, AB_RESULT, 0, {0}, AB_KEY_RATE, 2},
    {"19 digits", P " RESULT rate=9999999999999999999", true, AB_RESULT, 0, {0}, AB_KEY_RATE,
     9999999999999999999ULL},
    {"20 digits", P " RESULT rate=10000000000000000000", false, AB_RESULT, 0, {0}, AB_KEY_RATE, 0},
    {"a key without a value", P " RESULT rate=", false, AB_RESULT, 0, {0}, AB_KEY_RATE, 0},
    {"a value without a key", P " RESULT =1", true, AB_RESULT, 0, {0}, AB_KEY_RATE, 0},
    {"negative", P " TRAIN -1", false, AB_TRAIN, 0, {0}, AB_KEY_RATE, 0},
    {"a sign", P " TRAIN +1", false, AB_TRAIN, 0, {0}, AB_KEY_RATE, 0},
    {"hexadecimal", P " TRAIN 0x10", false, AB_TRAIN, 0, {0}, AB_KEY_RATE, 0},
    {"a fraction", P " RESULT rate=1.5", false, AB_RESULT, 0, {0}, AB_KEY_RATE, 0},
    {"a number behind a key", P " HELLO train=1 2", false, AB_HELLO, 0, {0}, AB_KEY_RATE, 0},
    {"three numbers", P " SET 1 2 3", false, AB_SET, 3, {1, 2}, AB_KEY_RATE, 0},
    {"two blanks", P "  TRAIN 1", false, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"a blank at the end", P " TRAIN 1 ", false, AB_TRAIN, 1, {1}, AB_KEY_RATE, 0},
    {"a tab", P "\tTRAIN 1", false, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"small letters", P " train 1", true, AB_TRAIN, 1, {1}, AB_KEY_RATE, 0},
    {"a longer verb", P " TRAINS 1", true, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"a shorter verb", P " TRAI 1", true, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"another prefix", "AUTOBUG TRAIN 1", false, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"a longer prefix", "AUTOBUFF TRAIN 1", false, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"the prefix alone", P, false, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"the prefix and a blank", P " ", false, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"empty", "", false, AB_NO_VERB, 0, {0}, AB_KEY_RATE, 0},
    {"another protocol", "220 ftp.example.org FTP server ready.", false, AB_NO_VERB, 0, {0},
     AB_KEY_RATE, 0},
};

static void test_parse(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(parse_rows); i++) {
        const struct parse_row *row = &parse_rows[i];
        struct ab_line line;

        CHECK_EQUAL(row->name, ab_line_parse(P, row->text, strlen(row->text), &line), row->good);
        CHECK_EQUAL(row->name, line.verb, row->verb);
        if (!row->good)
            continue;
        CHECK_EQUAL(row->name, line.count, row->count);
        CHECK_EQUAL(row->name, line.numbers[0], row->numbers[0]);
        CHECK_EQUAL(row->name, line.numbers[1], row->numbers[1]);
        CHECK(row->name, line.values[row->key] == row->value);
    }
}

static void test_length_is_respected(void **state)
{
    struct ab_line line;

    (void)state;
    assert_true(ab_line_parse(P, P " TRAIN 14480", strlen(P " TRAIN 144"), &line));
    assert_int_equal(line.numbers[0], 144);
    assert_false(ab_line_parse(P, P " TRAIN 1", 3, &line));
    assert_false(ab_line_parse(P, P " \0TRAIN 1", strlen(P) + 8, &line) && line.verb != AB_NO_VERB);
}

static void test_built_lines_parse(void **state)
{
    (void)state;
    for (unsigned verb = 1; verb <= AB_ERROR; verb++) {
        struct ab_line built = {.verb = (enum ab_verb)verb, .count = verb == AB_SET ? 2 : 1};
        struct ab_line parsed;
        char text[AB_LINE_BYTES];
        size_t len;

        built.numbers[0] = 123;
        built.numbers[1] = verb == AB_SET ? 9999999999999999999ULL : 0;
        for (unsigned key = 0; verb != AB_ERROR && key < AB_KEY_MAXRCV; key++)
            built.values[key] = 9999999999999999999ULL - key;
        len = ab_line_build(&built, P, NULL, text, sizeof text);
        assert_true(len > 2 && len < AB_LINE_BYTES);
        assert_memory_equal(text + len - 2, "\r\n", 2);
        assert_true(ab_line_parse(P, text, len - 2, &parsed));
        assert_memory_equal(&built, &parsed, sizeof built);
        assert_int_equal(ab_line_build(&built, P, NULL, text, len), 0);
        assert_int_equal(ab_line_build(&built, P, NULL, text, len + 1), len);
    }
}

static void test_what_is_zero_is_left_out(void **state)
{
    struct ab_line line = {.verb = AB_TRAIN, .count = 1, .numbers = {7}};
    char text[AB_LINE_BYTES];
    size_t len = ab_line_build(&line, "SITE " P, "for people", text, sizeof text);

    (void)state;
    assert_int_equal(len, strlen("SITE " P " TRAIN 7 for people\r\n"));
    assert_memory_equal(text, "SITE " P " TRAIN 7 for people\r\n", len);
}

/* A line that is too long is not built at all. */
static void test_too_long(void **state)
{
    struct ab_line line = {.verb = AB_ERROR, .count = 1, .numbers = {500}};
    char words[2 * AB_LINE_BYTES], text[4 * AB_LINE_BYTES];

    (void)state;
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    assert_int_equal(ab_line_build(&line, P, words, text, sizeof text), 0);
}

static void test_prefixes(void **state)
{
    (void)state;
    assert_true(ab_line_prefix_valid("AUTOBUF"));
    assert_true(ab_line_prefix_valid("SITE AUTOBUF"));
    assert_true(ab_line_prefix_valid("1234567890123456789012345678901"));
    assert_false(ab_line_prefix_valid("12345678901234567890123456789012"));
    assert_false(ab_line_prefix_valid(""));
    assert_false(ab_line_prefix_valid(" A"));
    assert_false(ab_line_prefix_valid("A "));
    assert_false(ab_line_prefix_valid("A\nB"));
    assert_false(ab_line_prefix_valid("\xff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_length_is_respected),
        cmocka_unit_test(test_built_lines_parse),
        cmocka_unit_test(test_what_is_zero_is_left_out),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_prefixes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
