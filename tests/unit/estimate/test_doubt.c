/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "estimate/estimate.h"

#define GAPS 100
#define MBIT 1000000ULL

/* Of 100 gaps these read other rates, all others 100 Mbit/s. */
static void gaps_of(uint64_t *gaps, unsigned groups, uint64_t groups_mbit, unsigned batches)
{
    for (unsigned i = 0; i < GAPS; i++)
        gaps[i] = 100 * MBIT;
    for (unsigned i = 0; i < groups; i++)
        gaps[GAPS - batches - 1 - i] = groups_mbit * MBIT;
    for (unsigned i = 0; i < batches; i++)
        gaps[GAPS - 1 - i] = 5000 * MBIT;
}

/* The rate that was chosen is 100 Mbit/s, and so are both ends of its interval. */
static void what_makes_a_rate_unsure(void **state)
{
    static const struct {
        const char *name;
        uint8_t kind;
        uint64_t pooled_mbit, slope_mbit;
        unsigned groups;
        uint64_t groups_mbit;
        unsigned batches;
        bool piled;
        uint8_t unsure;
        uint64_t low_kbit, high_kbit;
    } rows[] = {
        {"all agree", AB_KIND_WINDOWS, 100, 100, 0, 0, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"the slope alone", AB_KIND_SLOPE, 100, 100, 0, 0, 0, false, AUTOBUF_UNSURE_JITTER, 80000, 125000},
        {"the slope, some gaps much faster", AB_KIND_SLOPE, 100, 100, 20, 1000, 0, false, AUTOBUF_UNSURE_JITTER, 80000,
         1000000},
        {"the mean alone, far below", AB_KIND_POOLED, 50, 100, 0, 0, 0, false, AUTOBUF_UNSURE_JITTER, 50000, 125000},
        {"the fastest gaps", AB_KIND_CLUSTER, 70, 100, 0, 0, 0, false, AUTOBUF_UNSURE_BATCHES, 70000, 100000},
        {"even gaps", AB_KIND_EVEN, 70, 0, 0, 0, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"a bound", AB_KIND_PADDED, 70, 0, 0, 0, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"pauses", AB_KIND_WINDOWS, 82, 100, 0, 0, 0, false, AUTOBUF_UNSURE_PAUSES, 82000, 100000},
        {"short pauses", AB_KIND_WINDOWS, 85, 100, 0, 0, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"one long gap in all windows", AB_KIND_WINDOWS, 122, 100, 0, 0, 0, false, AUTOBUF_UNSURE_JITTER, 80000,
         125000},
        {"a very long one", AB_KIND_WINDOWS, 236, 100, 0, 0, 0, false, AUTOBUF_UNSURE_JITTER, 80000, 236000},
        {"a gap that is not so long", AB_KIND_WINDOWS, 119, 100, 0, 0, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"a steeper slope", AB_KIND_WINDOWS, 100, 122, 0, 0, 0, false, AUTOBUF_UNSURE_JITTER, 80000, 125000},
        {"a little steeper", AB_KIND_WINDOWS, 100, 119, 0, 0, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"no slope", AB_KIND_WINDOWS, 100, 0, 0, 0, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"faster gaps", AB_KIND_WINDOWS, 100, 100, 6, 150, 0, false, AUTOBUF_UNSURE_BATCHES, 100000, 150000},
        {"few of them", AB_KIND_WINDOWS, 100, 100, 4, 150, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"hardly faster", AB_KIND_WINDOWS, 100, 100, 20, 114, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"a little faster", AB_KIND_WINDOWS, 100, 100, 20, 117, 0, false, AUTOBUF_UNSURE_BATCHES, 100000, 117000},
        {"three times as fast", AB_KIND_WINDOWS, 100, 100, 20, 299, 0, false, AUTOBUF_UNSURE_BATCHES, 100000, 299000},
        {"in batches", AB_KIND_WINDOWS, 100, 100, 20, 310, 0, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"both, few in batches", AB_KIND_WINDOWS, 100, 100, 20, 150, 4, false, AUTOBUF_UNSURE_BATCHES, 100000, 150000},
        {"both", AB_KIND_WINDOWS, 100, 100, 20, 150, 10, false, AUTOBUF_UNSURE_NOT, 100000, 100000},
        {"the fastest gaps, in batches", AB_KIND_CLUSTER, 100, 100, 20, 700, 0, false, AUTOBUF_UNSURE_BATCHES, 100000,
         300000},
        {"packets piled up", AB_KIND_WINDOWS, 100, 100, 0, 0, 0, true, AUTOBUF_UNSURE_NOT, 95238, 105000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_rate rate = {.rate_bit_per_s = 100 * MBIT, .low_bit_per_s = 100 * MBIT, .high_bit_per_s = 100 * MBIT,
                               .pooled_bit_per_s = rows[i].pooled_mbit * MBIT, .kind = rows[i].kind, .sure = true};
        uint64_t gaps[GAPS];
        struct ab_evidence evidence = {gaps, GAPS, rows[i].slope_mbit * MBIT, rows[i].piled};

        gaps_of(gaps, rows[i].groups, rows[i].groups_mbit, rows[i].batches);
        ab_doubt(&rate, &evidence);
        CHECK_EQUAL(rows[i].name, rate.unsure, rows[i].unsure);
        CHECK_EQUAL(rows[i].name, rate.rate_bit_per_s, 100 * MBIT);
        CHECK_EQUAL(rows[i].name, rate.low_bit_per_s / 1000, rows[i].low_kbit);
        CHECK_EQUAL(rows[i].name, rate.high_bit_per_s / 1000, rows[i].high_kbit);
    }
}

static void few_gaps_or_little_agreement(void **state)
{
    static const struct {
        const char *name;
        uint8_t kind;
        bool sure;
        size_t count;
        uint8_t unsure;
    } rows[] = {
        {"enough", AB_KIND_WINDOWS, true, 6, AUTOBUF_UNSURE_NOT},
        {"few gaps", AB_KIND_WINDOWS, true, 5, AUTOBUF_UNSURE_JITTER},
        {"few windows agree", AB_KIND_WINDOWS, false, 100, AUTOBUF_UNSURE_JITTER},
        {"even gaps", AB_KIND_EVEN, false, 3, AUTOBUF_UNSURE_NOT},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_rate rate = {.rate_bit_per_s = 100 * MBIT, .low_bit_per_s = 100 * MBIT, .high_bit_per_s = 100 * MBIT,
                               .pooled_bit_per_s = 100 * MBIT, .kind = rows[i].kind, .sure = rows[i].sure};
        uint64_t gaps[GAPS];
        struct ab_evidence evidence = {gaps, rows[i].count, 100 * MBIT, false};

        gaps_of(gaps, 0, 0, 0);
        ab_doubt(&rate, &evidence);
        CHECK_EQUAL(rows[i].name, rate.unsure, rows[i].unsure);
        CHECK_EQUAL(rows[i].name, rate.low_bit_per_s / MBIT, rows[i].unsure ? 80 : 100);
        CHECK_EQUAL(rows[i].name, rate.high_bit_per_s / MBIT, rows[i].unsure ? 125 : 100);
    }
}

static void without_gaps(void **state)
{
    struct ab_rate rate = {.rate_bit_per_s = 100 * MBIT, .low_bit_per_s = 100 * MBIT, .high_bit_per_s = 100 * MBIT,
                           .pooled_bit_per_s = 90 * MBIT, .kind = AB_KIND_SLOPE};
    struct ab_evidence evidence = {NULL, 0, 0, false};

    (void)state;
    ab_doubt(&rate, &evidence);
    assert_int_equal(rate.unsure, AUTOBUF_UNSURE_JITTER);
    assert_int_equal(rate.high_bit_per_s, 125 * MBIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_makes_a_rate_unsure),
        cmocka_unit_test(few_gaps_or_little_agreement),
        cmocka_unit_test(without_gaps),
    };

    return cmocka_run_group_tests_name("doubt", tests, NULL, NULL);
}
