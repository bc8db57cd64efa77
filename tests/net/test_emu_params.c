#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "emu_params.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *text;
    struct emu_params expect;
} good[] = {
    {"", {0}},
    {"rate=400M,delay=50ms,queue=10M",
     {.rate_bit_per_s = 400000000, .delay_ns = 50000000, .queue_bytes = 10000000}},
    {"rate=1.5G", {.rate_bit_per_s = 1500000000}},
    {"rate=64k,delay=0", {.rate_bit_per_s = 64000}},
    {"delay=2s", {.delay_ns = 2000000000}},
    {"delay=0.5us,jitter=7ns", {.delay_ns = 500, .jitter_ns = 7}},
    {"loss=0.02", {.loss = 0.02}},
    {"reorder=1,reorder_by=1ms", {.reorder = 1.0, .reorder_by_ns = 1000000}},
    {"wake=200us,forward=8us,batch=60us", {.wake_ns = 200000, .forward_ns = 8000, .batch_ns = 60000}},
    {"stall=5ms,stall_every=100ms", {.stall_ns = 5000000, .stall_every_ns = 100000000}},
    {"rate=1M,burst=64K,peak=1G",
     {.rate_bit_per_s = 1000000, .burst_bytes = 64000, .peak_bit_per_s = 1000000000}},
    {"rate=1M,cross=0.5,cross_size=200,cross_spacing=constant",
     {.rate_bit_per_s = 1000000, .cross = 0.5, .cross_size_bytes = 200, .cross_constant = 1}},
};

static void test_good(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < COUNT(good); i++) {
        struct emu_params p;
        char err[100] = "";

        memset(&p, 0, sizeof(p));
        if (emu_params_parse(&p, good[i].text, err, sizeof(err)) < 0)
            print_error("%s: %s\n", good[i].text, err);
        assert_string_equal(err, "");
        assert_memory_equal(&p, &good[i].expect, sizeof(p));
    }
}

static const char *const bad[] = {
    "rate",         "rate=",        "=1",          "speed=1M",     "rate=-1",    "rate=0x10",
    "rate=inf",     "rate=nan",     "rate=1e6",    "rate=1T",      "rate=0.5",   "rate=1M 2",
    "rate=99999G",  "delay=50",     "delay=ms",    "delay=1..2ms", "loss=1.1",   "loss=-0.1",
    "loss=1%",      "queue=1ms",    "reorder=0.1", "peak=1G",      "burst=1000", "cross=0.5",
    "rate=1M,peak=1k,burst=1500",   "rate=1M,cross=0.5,cross_size=0",
    "rate=1M,cross=0.5,cross_spacing=even",        "rate=1M,peak=2M",
    "stall=5ms",    "stall=5ms,stall_every=5ms",   "batch=50",
    "rate=0000000000000000000000000000000000000000000000000000000000000001",
};

static void test_bad_leaves_all_as_it_was(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < COUNT(bad); i++) {
        struct emu_params p, before;
        char text[160] = "delay=1ms,", err[100] = "";

        memset(&p, 0, sizeof(p));
        before = p;
        strcat(text, bad[i]);
        if (emu_params_parse(&p, text, err, sizeof(err)) == 0)
            print_error("accepted: %s\n", bad[i]);
        assert_string_not_equal(err, "");
        assert_null(strchr(err, '\n'));
        assert_memory_equal(&p, &before, sizeof(p));
    }
}

static void test_unnamed_keys_stay(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 5, .loss = 0.5};
    char err[100];

    (void)state;
    assert_int_equal(emu_params_parse(&p, "loss=0,delay=1ms", err, sizeof(err)), 0);
    assert_int_equal(p.rate_bit_per_s, 5);
    assert_int_equal(p.delay_ns, 1000000);
    assert_true(p.loss == 0.0);
    /* what depends on a parameter keeps it */
    assert_int_equal(emu_params_parse(&p, "cross=0.5", err, sizeof(err)), 0);
    assert_int_equal(emu_params_parse(&p, "rate=0", err, sizeof(err)), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad_leaves_all_as_it_was),
        cmocka_unit_test(test_unnamed_keys_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
