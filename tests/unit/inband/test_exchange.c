/* SPDX-License-Identifier: MIT */
/* The exchange in band: what both ends share. */
#include "exchange.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEGMENT 1448U

static struct autobuf_inband *open_role(uint32_t role)
{
    struct autobuf_inband *ib;

    assert_int_equal(autobuf_inband_open_pure(&ib, role, 0, NULL), 0);
    return ib;
}

/* Each read ends where a segment ends, counted from the line before the train. */
static void test_reads_end_with_segments(void **state)
{
    static const char payload[2 * SEGMENT] = " ";
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    size_t line = strlen("AUTOBUF SINK 14480\r\n");

    (void)state;
    told(ib, MS, "AUTOBUF HELLO 1\r\n");
    said(ib, MS);
    assert_int_equal(autobuf_inband_wanted(ib), 500);
    assert_int_equal(told(ib, MS, "AUTOBUF SINK 14480\r\n"), line);
    assert_int_equal(autobuf_inband_wanted(ib), SEGMENT - line);
    autobuf_inband_input(ib, MS, payload, 100);
    assert_int_equal(autobuf_inband_wanted(ib), SEGMENT - line - 100);
    autobuf_inband_input(ib, MS, payload, SEGMENT - line - 100);
    assert_int_equal(autobuf_inband_wanted(ib), SEGMENT);
    for (int i = 0; i < 9; i++)
        autobuf_inband_input(ib, MS, payload, autobuf_inband_wanted(ib));
    assert_int_equal(autobuf_inband_wanted(ib), line);
    autobuf_inband_close(ib);
}

/* Partial writes send the same bytes as one. */
static void test_partial_writes(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    const void *data;
    size_t left, step = 1, sent = 0;

    (void)state;
    told(ib, 0, "AUTOBUF HELLO 1\r\n");
    said(ib, 0);
    told(ib, 0, "AUTOBUF TRAIN 14480\r\n");
    while ((left = autobuf_inband_output(ib, 0, &data)) > 0) {
        size_t part = step < left ? step : left;

        assert_int_equal(left, 14480 - sent);
        autobuf_inband_sent(ib, 0, part);
        sent += part;
        step += 7;
    }
    assert_int_equal(sent, 14480);
    autobuf_inband_close(ib);
}

#define WINDOW 10U /* letters, of which each tells 6 bits */
#define TRAIN_BYTES 200000U

/* The number of a letter; 64: it is none. */
static unsigned letter(char c)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(letters, c) : NULL;

    return at ? (unsigned)(at - letters) : 64;
}

/* Appends each row of letters in a train to windows, as a number, and counts each letter. */
static size_t windows_of(struct autobuf_inband *ib, uint64_t *windows, unsigned counts[64])
{
    const char *text;
    uint64_t window = 0;
    size_t count = 0;
    unsigned len = 0;

    told(ib, MS, "AUTOBUF TRAIN 200000\r\n");
    text = said(ib, MS);
    for (text = strchr(text, '\n') + 1; *text; text++) {
        unsigned value = letter(*text);

        len = value < 64 ? len + 1 : 0;
        window = (window << 6 | (value & 63)) & ((1ULL << 6 * WINDOW) - 1);
        if (len > 0)
            counts[value]++;
        if (len >= WINDOW)
            windows[count++] = window;
    }
    return count;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/*
 * A link that compresses finds nothing that was sent before, in this train, another one or another connection, and no
 * letter more often than others: it saves only the two bits of eight that a letter leaves unused.
 */
static void test_no_train_repeats_another(void **state)
{
    static uint64_t windows[3 * TRAIN_BYTES];
    unsigned counts[64] = {0}, most = 0, least = UINT32_MAX;
    size_t count = 0;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);

        told(ib, MS, "AUTOBUF HELLO 1\r\n");
        said(ib, MS);
        for (unsigned trains = 0; trains <= i; trains++)
            count += windows_of(ib, windows + count, counts);
        autobuf_inband_close(ib);
    }
    assert_true(count > 3 * TRAIN_BYTES * 9 / 10);
    qsort(windows, count, sizeof *windows, compare);
    for (size_t i = 1; i < count; i++)
        assert_true(windows[i - 1] != windows[i]);
    for (unsigned i = 0; i < 64; i++) {
        most = counts[i] > most ? counts[i] : most;
        least = counts[i] < least ? counts[i] : least;
    }
    assert_in_range(most - least, 0, count / 64 / 5); /* the standard deviation is a hundredth */
}

static void test_end_of_the_connection(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);

    (void)state;
    assert_int_equal(autobuf_inband_input(ib, 0, "", 0), 0); /* between exchanges it may end */
    told(ib, 0, "AUTOBUF HEL");
    assert_int_equal(autobuf_inband_input(ib, 0, "", 0), -ECONNRESET);
    assert_int_equal(autobuf_inband_finished(ib), -ECONNRESET);
    autobuf_inband_close(ib);
    ib = open_role(AUTOBUF_INBAND_INITIATOR);
    assert_int_equal(autobuf_inband_input(ib, 0, "", 0), -ECONNRESET);
    autobuf_inband_close(ib);
}

static void test_forked(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_INITIATOR);
    int status = 0;
    pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(autobuf_inband_input(ib, 0, "x", 1) == AUTOBUF_E_FORKED ? 7 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    autobuf_inband_close(ib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_end_with_segments),
        cmocka_unit_test(test_partial_writes),
        cmocka_unit_test(test_no_train_repeats_another),
        cmocka_unit_test(test_end_of_the_connection),
        cmocka_unit_test(test_forked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
