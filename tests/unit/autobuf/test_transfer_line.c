/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>

#include "transfer.h"

static bool parse(const char *text, struct transfer_line *line)
{
    return transfer_line_parse(text, strlen(text), line);
}

static void lines_are_written_as_the_page_has_them(void **state)
{
    struct transfer_line ask = {.verb = TRANSFER_ASK, .number = 5, .values = {[TRANSFER_TUNED] = 1}};
    struct transfer_line report = {.verb = TRANSFER_REPORT,
                                   .values = {[TRANSFER_BYTES] = 7000, [TRANSFER_NSEC] = 5000000001}};
    struct transfer_line error = {.verb = TRANSFER_ERROR, .number = TRANSFER_REFUSED};
    char text[TRANSFER_LINE_BYTES + 1] = "";

    (void)state;
    text[transfer_line_format(&ask, text)] = '\0';
    assert_string_equal(text, "AUTOBUF TRANSFER 1 5 tuned=1\r\n");
    text[transfer_line_format(&report, text)] = '\0';
    assert_string_equal(text, "AUTOBUF REPORT 1 bytes=7000 nsec=5000000001\r\n");
    text[transfer_line_format(&error, text)] = '\0';
    assert_string_equal(text, "AUTOBUF ERROR 550 no transfers here: --transfer SECONDS allows them\r\n");
    for (unsigned i = 0; i < TRANSFER_KEYS; i++)
        report.values[i] = UINT64_MAX;
    assert_in_range(transfer_line_format(&report, text), 100, TRANSFER_LINE_BYTES - 1);
}

static void lines_that_are_written_can_be_read(void **state)
{
    struct transfer_line line = {.verb = TRANSFER_REPORT}, again;
    char text[TRANSFER_LINE_BYTES];

    (void)state;
    for (unsigned i = 0; i < TRANSFER_KEYS; i++)
        line.values[i] = i < TRANSFER_BYTES || i == TRANSFER_CAUSE ? 1 : i - TRANSFER_BYTES;
    assert_true(transfer_line_parse(text, transfer_line_format(&line, text), &again));
    assert_memory_equal(&line, &again, sizeof line);
}

static void what_is_good(void **state)
{
    struct transfer_line line;

    (void)state;
    assert_true(parse("AUTOBUF TRANSFER 1 60\r\n", &line));
    assert_true(line.verb == TRANSFER_ASK && line.number == 60 && !line.values[TRANSFER_RECEIVE]);
    assert_true(parse("AUTOBUF TRANSFER 1 1 receive=1 tuned=0\n", &line));
    assert_true(line.values[TRANSFER_RECEIVE] == 1 && line.values[TRANSFER_TUNED] == 0);
    assert_true(parse("AUTOBUF TRANSFER 2 1 later=77 receive=1\n", &line)); /* a version that knows more */
    assert_int_equal(line.values[TRANSFER_RECEIVE], 1);
    assert_true(parse("AUTOBUF TRANSFER 1 0 receive=1 pace=50000000 low=97000000 high=1000000000000\r\n", &line));
    assert_true(line.number == 0 && line.values[TRANSFER_PACE] == 50000000);
    assert_true(parse("AUTOBUF REPORT 1\r\n", &line));
    assert_true(parse("AUTOBUF ERROR 500 \x1b[2J what is this?\r\n", &line)); /* the text is not kept */
    assert_int_equal(line.number, 500);
    assert_true(parse("AUTOBUF ERROR 421\n", &line));
}

static void what_is_not(void **state)
{
    static const char *const rows[] = {
        "", "\n", "\r\n", "A", "AUTOBUF\r\n", "AUTOBUF HELLO 1\r\n", "autobuf transfer 1 5\r\n",
        "AUTOBUF TRANSFER 1 5", "AUTOBUF TRANSFER \r\n", "AUTOBUF TRANSFER 1\r\n", "AUTOBUF TRANSFER 1 \r\n",
        "AUTOBUF TRANSFER 0 5\r\n", "AUTOBUF TRANSFER 1 0\r\n", "AUTOBUF TRANSFER 1 61\r\n",
        "AUTOBUF TRANSFER 1 -5\r\n", "AUTOBUF TRANSFER 1 5.5\r\n", "AUTOBUF TRANSFER 1 0x5\r\n",
        "AUTOBUF TRANSFER 1 5 \r\n", "AUTOBUF TRANSFER 1  5\r\n", " AUTOBUF TRANSFER 1 5\r\n",
        "AUTOBUF TRANSFER 1 18446744073709551621\r\n", "AUTOBUF TRANSFER 1 00000000000000000005\r\n",
        "AUTOBUF TRANSFER 1 5 send\r\n", "AUTOBUF TRANSFER 1 5 receive=\r\n", "AUTOBUF TRANSFER 1 5 =1\r\n",
        "AUTOBUF TRANSFER 1 5 receive=2\r\n", "AUTOBUF TRANSFER 1 5 receive=1 receive=1\r\n",
        "AUTOBUF TRANSFER 1 5 receive=1\r\n\n", "AUTOBUF TRANSFER 1 5\nAUTOBUF TRANSFER 1 5\n",
        "AUTOBUF TRANSFER 1 5 Receive=1\r\n", "AUTOBUF TRANSFER 1 5 averyveryverylongkey=1\r\n",
        "AUTOBUF REPORT\r\n", "AUTOBUF REPORT 1 nsec=99000000001\r\n", "AUTOBUF REPORT 1 limiter=9\r\n",
        "AUTOBUF TRANSFER 1 0 pace=0\r\n", "AUTOBUF TRANSFER 1 0 low=1\r\n", "AUTOBUF TRANSFER 1 5 pace=1\r\n",
        "AUTOBUF TRANSFER 1 0 pace=1000000000001\r\n", "AUTOBUF REPORT 1 cause=7\r\n",
        "AUTOBUF REPORT 1 window=9999999999999999999\r\n", "AUTOBUF ERROR\r\n", "AUTOBUF ERROR x\r\n",
        "AUTOBUF ERROR 1000 no\r\n", "AUTOBUF ERROR 500no\r\n",
    };
    struct transfer_line line;
    char text[TRANSFER_LINE_BYTES + 2];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (parse(rows[i], &line))
            fail_msg("taken: %s", rows[i]);
    assert_false(transfer_line_parse("AUTOBUF TRANSFER 1 5\0\r\n", 23, &line));
    memset(text, 'x', sizeof text); /* longer than a line can be */
    memcpy(text, "AUTOBUF ERROR 500 ", 18);
    text[sizeof text - 1] = '\n';
    assert_false(transfer_line_parse(text, sizeof text, &line));
    text[TRANSFER_LINE_BYTES - 1] = '\n';
    assert_true(transfer_line_parse(text, TRANSFER_LINE_BYTES, &line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_written_as_the_page_has_them),
        cmocka_unit_test(lines_that_are_written_can_be_read),
        cmocka_unit_test(what_is_good),
        cmocka_unit_test(what_is_not),
    };

    return cmocka_run_group_tests_name("transfer_line", tests, NULL, NULL);
}
