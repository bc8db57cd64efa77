/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "measure.h"

#define TEXT_BYTES 4096
#define COLUMNS_MOST 80

/* Four that have succeeded; what was sent was limited by the default's send buffer. */
static void succeed(struct transfer_result results[TRANSFERS])
{
    memset(results, 0, TRANSFERS * sizeof *results);
    for (unsigned i = 0; i < TRANSFERS; i++)
        results[i] = (struct transfer_result){
            .receives = i >= RECEIVING_DEFAULT, .tuned = i % 2, .rate_bit_per_s = 200000000, .bytes = 125000000,
            .elapsed_ns = 5000000000, .sender = {.values = {[TRANSFER_WINDOW] = 2800000, [TRANSFER_RTT_MIN] = 100000000,
                                                            [TRANSFER_RTT_MEAN] = 104600000,
                                                            [TRANSFER_BOTTLENECK] = AUTOBUF_BOTTLENECK_PATH}}};
    results[SENDING_DEFAULT].sender.values[TRANSFER_BOTTLENECK] = AUTOBUF_BOTTLENECK_SND_BUFFER;
}

static void show(const struct transfer_result results[TRANSFERS], char text[TEXT_BYTES])
{
    FILE *out = fmemopen(text, TEXT_BYTES, "w");

    assert_non_null(out);
    show_transfers(out, results, 5);
    fclose(out);
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
        assert_in_range(strcspn(at, "\n"), 1, COLUMNS_MOST);
}

static void a_gain_has_its_reason(void **state)
{
    static const struct {
        uint64_t rate, bottleneck;
        const char *says;
    } rows[] = {
        {348999999, AUTOBUF_BOTTLENECK_SND_BUFFER,
         "sending: 1.74 times the rate: the send buffer of this host was the limit"},
        {348999999, AUTOBUF_BOTTLENECK_PEER, "sending: 1.74 times the rate: the server's receive window was the limit"},
        {348999999, AUTOBUF_BOTTLENECK_PATH,
         "sending: 1.74 times the rate, but no window was the limit of the default"},
        {200000001, AUTOBUF_BOTTLENECK_SND_BUFFER, "sending: no gain: the path was the limit\n"},
        {209000000, AUTOBUF_BOTTLENECK_PATH, "sending: no gain: the path was the limit\n"},
        {100000000, AUTOBUF_BOTTLENECK_SND_BUFFER, "sending: 0.50 times the rate: slower;"},
        {1, AUTOBUF_BOTTLENECK_UNKNOWN, "sending: 0.00 times the rate: slower;"},
    };
    struct transfer_result results[TRANSFERS];
    char text[TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        succeed(results);
        results[SENDING_TUNED].rate_bit_per_s = rows[i].rate;
        results[SENDING_DEFAULT].sender.values[TRANSFER_BOTTLENECK] = rows[i].bottleneck;
        show(results, text);
        for (char *end = text; (end = strstr(end, "\n   ")) != NULL;) { /* unfolded */
            memmove(end, end + 3, strlen(end + 3) + 1);
            *end = ' ';
        }
        if (!strstr(text, rows[i].says))
            fail_msg("%s is not in:\n%s", rows[i].says, text);
        assert_non_null(strstr(text, "receiving: no gain: the path was the limit\n"));
    }
}

static void a_transfer_that_failed_says_why(void **state)
{
    struct transfer_result results[TRANSFERS];
    char text[TEXT_BYTES], timed_out[128];

    (void)state;
    /* each C library has its own words */
    snprintf(timed_out, sizeof timed_out, "\nsending, tuned     %s\n", strerror(ETIMEDOUT));
    succeed(results);
    results[SENDING_TUNED] = (struct transfer_result){.tuned = true, .error = -ETIMEDOUT};
    results[RECEIVING_TUNED] = (struct transfer_result){.receives = true, .tuned = true, .error = AUTOBUF_E_UNSUPPORTED,
                                                        .code = TRANSFER_REFUSED};
    show(results, text);
    assert_non_null(strstr(text, timed_out));
    assert_non_null(strstr(text, "\nreceiving, tuned   the server allows no transfers"));
    assert_null(strstr(text, "sending: "));
    assert_null(strstr(text, "receiving: "));
}

/* Whatever the peer reports, as far as a line can hold it. */
static void lines_fit_a_terminal(void **state)
{
    static const uint64_t numbers[] = {0, 1, 999, 99000000000, 1ULL << 40, 1000000000000};
    struct transfer_result results[TRANSFERS];
    struct transfer t = {.sends = true, .tuned = true, .state = AUTOBUF_LIVE_STATE_INIT};
    struct transfer_picture picture = {.begin_ns = 1};
    char text[TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (uint64_t bottleneck = 0; bottleneck < TRANSFER_BOTTLENECKS; bottleneck++) {
            FILE *out = fmemopen(text, sizeof text, "w");

            t.state.sent_bytes += numbers[i];
            t.state.in_flight_bytes = numbers[i];
            t.state.rtt_ns = 9999900000;
            show_transfer_progress(out, &picture, &t, (i + 1) * 1000000000);
            fclose(out);
            assert_in_range(strlen(text), 40, COLUMNS_MOST - 1 + strlen("\r\033[K"));
            succeed(results);
            for (unsigned k = TRANSFER_WINDOW; k < TRANSFER_BOTTLENECK; k++)
                results[SENDING_DEFAULT].sender.values[k] =
                    numbers[i] < 99000000000 || k == TRANSFER_WINDOW || k == TRANSFER_RESENT ? numbers[i] : 99000000000;
            results[SENDING_DEFAULT].sender.values[TRANSFER_BOTTLENECK] = bottleneck;
            show(results, text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gain_has_its_reason),
        cmocka_unit_test(a_transfer_that_failed_says_why),
        cmocka_unit_test(lines_fit_a_terminal),
    };

    return cmocka_run_group_tests_name("show_transfer", tests, NULL, NULL);
}
