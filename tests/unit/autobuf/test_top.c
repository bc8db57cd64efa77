/* SPDX-License-Identifier: MIT */
/* tools/top.c: what answers may be anything. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

#define HEAD \
    "{\"version\":\"0.1.0\",\"generation\":2,\"sweeps\":12,\"sockets\":11,\"managed\":2," \
    "\"left_out\":5,\"site\":{\"sent\":1,\"x\":[{\"}\":\"]\"}]},\"flows\":["
#define SLOW \
    "{\"pid\":9,\"fd\":3,\"program\":\"curl\",\"unit\":null,\"local\":\"192.0.2.1:80\"," \
    "\"peer\":\"192.0.2.2:81\",\"rule\":\"all\",\"dry_run\":false,\"limited\":\"path\"," \
    "\"available\":{\"kind\":null,\"tx_low_bit_per_s\":null,\"tx_high_bit_per_s\":null,\"cause\":\"too-short\"}," \
    "\"rtt_ns\":null,\"sent_bit_per_s\":1000,\"received_bit_per_s\":20,\"snd_buf_bytes\":87040," \
    "\"rcv_buf_bytes\":131072,\"action\":null,\"action_age_ns\":null}"
#define FAST \
    "{\"pid\":42,\"fd\":5,\"program\":\"rs\\\"ync\",\"peer\":\"[2001:db8::1]:873\"," \
    "\"rule\":\"by night\",\"dry_run\":true,\"available\":{\"kind\":\"share\",\"tx_low_bit_per_s\":380000000," \
    "\"tx_high_bit_per_s\":390000000,\"rx_low_bit_per_s\":null,\"over_ns\":1}," \
    "\"limited\":\"send-buffer\",\"rtt_ns\":40100000," \
    "\"sent_bit_per_s\":386000000,\"received_bit_per_s\":1,\"snd_buf_bytes\":4194304," \
    "\"rcv_buf_bytes\":6,\"changes\":8,\"action\":\"send: kernel: given back to autotuning\"," \
    "\"action_age_ns\":2500000000}"
#define END "]}\n"

static struct top_table table;

static char *copy_of(const char *text)
{
    char *copy = strdup(text);

    assert_non_null(copy);
    return copy;
}

static void expect_printed(unsigned rows, unsigned columns, const char *wanted)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    top_print(out, &table, rows, columns);
    fclose(out);
    assert_string_equal(text, wanted);
    free(text);
}

static void it_is_printed(void **state)
{
    char *text = copy_of(HEAD SLOW "," FAST END);

    (void)state;
    assert_int_equal(top_parse(text, &table), 0);
    assert_int_equal(table.count, 2);
    assert_int_equal(table.rows[0].pid, 42); /* the fastest first */
    assert_int_equal(table.rows[1].rtt_ns, UINT64_MAX);
    assert_true(table.rows[0].dry_run && !table.rows[1].dry_run);
    expect_printed(0, 0,
                   "autobufd 0.1.0 manages 2 of 11 sockets, 12 sweeps so far\n"
                   "PROGRAM[PID]:FD          PEER                     LIMITED BY        SENT/s    RECV/s"
                   "           FREE/s       RTT   "
                   "SNDBUF   RCVBUF  "
                   "[RULE] LAST ACTION\n"
                   "rs\"ync[42]:5             [2001:db8::1]:873        send-buffer      386.0 M        1   "
                   "380.0 M-390.0 M   40.1 ms    "
                   "4.2 M       6   "
                   "[by night] dry run: 2 s ago: send: kernel: given back to autotuning\n"
                   "curl[9]:3                192.0.2.2:81             path               1.0 k       20   "
                   "              -         -   "
                   "87.0 k  131.1 k  "
                   "[all] -\n"
                   "5 more\n");
    expect_printed(4, 20,
                   "\033[Hautobufd 0.1.0 manag\033[K\n"
                   "PROGRAM[PID]:FD     \033[K\n"
                   "rs\"ync[42]:5        \033[K\n"
                   "\033[J");
    free(text);
}

static void what_is_no_table(void **state)
{
    static const char *const rows[] = {
        "", "\n", "{", "{}\n", "[]\n", "null\n", "{\"version\":null}\n", "{\"version\":\"1\"}",
        "{\"version\":\"1\"}\n\n", "{\"version\":1}\n",
        "{\"version\":\"1\n", "{\"version\":\"1\n\"}\n", "{\"version\":\"1\\\n\"}\n", "{\"version\":\"1\\",
        "{\"version\":\"1\\\"}\n", "{\"version\":\"1\",}\n", "{\"version\":\"1\" ,\"managed\":1}\n",
        "{\"version\":\"1\",\"managed\":-1}\n", "{\"version\":\"1\",\"managed\":\"1\"}\n",
        "{\"version\":\"1\",\"flows\":{}}\n",
        "{\"version\":\"1\",\"x\":[[}\n", "{\"version\":\"1\",\"x\":[\"]}\n", "{\"version\":\"1\",\"x\"}\n",
        HEAD SLOW, HEAD SLOW END "9", HEAD SLOW "," END, HEAD "," SLOW END, HEAD "9" END, HEAD "{\"dry_run\":1}" END,
        HEAD "{\"pid\":x}" END,
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = copy_of(rows[i]);

        CHECK_EQUAL(rows[i], top_parse(text, &table), -EPROTO);
        free(text);
    }
}

static void more_rows_than_it_holds(void **state)
{
    size_t row = strlen(SLOW ",");
    char *text = malloc(strlen(HEAD END) + (TOP_ROWS_MOST + 1) * row + 1), *at = text;

    (void)state;
    assert_non_null(text);
    at = stpcpy(at, HEAD);
    for (size_t i = 1; i < TOP_ROWS_MOST; i++)
        at = stpcpy(at, SLOW ",");
    stpcpy(at, SLOW END);
    assert_int_equal(top_parse(text, &table), 0);
    assert_int_equal(table.count, TOP_ROWS_MOST);
    at = stpcpy(text, HEAD);
    for (size_t i = 0; i < TOP_ROWS_MOST; i++)
        at = stpcpy(at, SLOW ",");
    stpcpy(at, SLOW END);
    assert_int_equal(top_parse(text, &table), -EPROTO);
    free(text);
}

static void bodies(void **state)
{
    static const struct {
        const char *answer;
        int number;
    } rows[] = {
        {"HTTP/1.0 200 OK\r\nA: b\r\n\r\nbody", 200}, {"HTTP/1.1 404 Not Found\r\n\r\n", 404},
        {"HTTP/1.0 200 OK\r\nA: b\r\n", -EPROTO},
        {"", -EPROTO},                                {"HTTP/1.0", -EPROTO},
        {"HTTP/2.0 200\r\n\r\n", -EPROTO},
        {"SSH-2.0-x\r\n\r\n", -EPROTO},
    };
    char *body;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = copy_of(rows[i].answer);

        CHECK_EQUAL(rows[i].answer, top_body(text, &body), rows[i].number);
        if (i == 0)
            assert_string_equal(body, "body");
        free(text);
    }
}

static void nothing_reaches_the_terminal(void **state)
{
    char text[] = "a\tb\033[2J\n\x7f\x80\xff\r ~";

    (void)state;
    top_clean(text);
    assert_string_equal(text, "a?b?[2J\n???? ~");
}

/* Whatever comes, it ends, and stays within the text: the sanitizers look on. */
static void any_bytes(void **state)
{
    uint64_t random = 88172645463325252ULL;
    FILE *nowhere = fopen("/dev/null", "we");

    (void)state;
    assert_non_null(nowhere);
    for (unsigned i = 0; i < 20000; i++) {
        char *text = copy_of(HEAD FAST "," SLOW END);
        size_t length = strlen(text);

        for (uint64_t changes = unit_random(&random) % 4; changes > 0; changes--)
            text[unit_random(&random) % length] = "\"\\{}[],:\n09-x\xff"[unit_random(&random) % 14];
        top_clean(text);
        if (top_parse(text, &table) == 0)
            top_print(nowhere, &table, 24, 80);
        free(text);
    }
    fclose(nowhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_printed), cmocka_unit_test(what_is_no_table),
        cmocka_unit_test(more_rows_than_it_holds),
        cmocka_unit_test(bodies),        cmocka_unit_test(nothing_reaches_the_terminal), cmocka_unit_test(any_bytes),
    };

    return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
