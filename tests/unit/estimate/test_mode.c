/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "estimate/estimate.h"

#define MOST 300

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void sort_agrees_with_qsort(void **state)
{
    static const uint64_t masks[] = {0, 1, 7, 0xff, UINT64_MAX}; /* many ties to none */
    uint64_t seed = 0x1234567;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        uint64_t mine[MOST + 1], theirs[MOST + 1];
        size_t count = round < MOST ? round : (size_t)(unit_random(&seed) % MOST);

        for (size_t i = 0; i <= count; i++)
            mine[i] = theirs[i] = unit_random(&seed) & masks[round % COUNT(masks)];
        ab_sort(mine, count);
        qsort(theirs, count, sizeof *theirs, compare);
        assert_memory_equal(mine, theirs, (count + 1) * sizeof *mine); /* one beyond: untouched */
    }
}

static void sort_takes_any_order(void **state)
{
    (void)state;
    for (size_t count = 1; count < 70; count++) {
        uint64_t up[70], down[70];

        for (size_t i = 0; i < count; i++) {
            up[i] = i * 3;
            down[i] = (count - 1 - i) * 3;
        }
        ab_sort(up, count);
        ab_sort(down, count);
        for (size_t i = 0; i < count; i++)
            assert_true(up[i] == i * 3 && down[i] == i * 3);
    }
}

/* Ascending values, and the bounds of their mode. */
static const struct mode_row {
    const char *name;
    size_t count;
    uint64_t values[12];
    uint64_t least, most;
} mode_rows[] = {
    {"one value", 1, {42}, 42, 42},
    {"one value, the largest", 1, {UINT64_MAX}, UINT64_MAX, UINT64_MAX},
    {"two: their mean", 2, {4, 8}, 6, 6},
    {"two equal", 2, {9, 9}, 9, 9},
    {"two at the top do not overflow", 2, {UINT64_MAX - 2, UINT64_MAX}, UINT64_MAX - 1,
     UINT64_MAX - 1},
    {"three: the closer pair below", 3, {10, 12, 30}, 11, 11},
    {"three: the closer pair above", 3, {10, 28, 30}, 29, 29},
    {"three: evenly spaced", 3, {10, 20, 30}, 20, 20},
    {"three equal", 3, {5, 5, 5}, 5, 5},
    {"all equal", 8, {7, 7, 7, 7, 7, 7, 7, 7}, 7, 7},
    {"four: the closest pair", 4, {1, 50, 52, 99}, 51, 51},
    {"four: the closest pair is the last", 4, {1, 50, 98, 100}, 99, 99},
    {"five: half of them is three", 5, {0, 1, 50, 52, 54}, 50, 54},
    {"outliers below", 9, {1, 2, 3, 4, 1000, 1001, 1002, 1003, 1004}, 1000, 1004},
    {"outliers above", 9, {1000, 1001, 1002, 1003, 1004, 2000, 3000, 4000, 5000}, 1000, 1004},
    {"outliers on either side", 9, {1, 500, 1000, 1001, 1002, 1003, 1004, 2000, 9000}, 1000, 1004},
    {"outliers far below one equal half", 8, {0, 0, 0, 0, 60, 60, 60, 60}, 0, 0},
    {"the largest outliers there are", 5, {0, 500, 501, 502, UINT64_MAX}, 500, 502},
    {"a skewed tail: the dense end", 8, {100, 101, 103, 110, 130, 180, 300, 700}, 100, 103},
    {"ties: one of the two pairs", 4, {1, 1, 5, 5}, 1, 5},
};

static void mode_of_known_samples(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(mode_rows); i++) {
        const struct mode_row *row = &mode_rows[i];
        uint64_t values[COUNT(row->values)], mode;

        memcpy(values, row->values, sizeof values);
        mode = ab_mode(values, row->count);
        CHECK(row->name, mode >= row->least && mode <= row->most);
        CHECK(row->name, memcmp(values, row->values, sizeof values) == 0);
    }
}

/* A tie gives one of the values, none between two clusters. */
static void mode_of_ties_is_a_cluster(void **state)
{
    const uint64_t two[] = {10, 10, 10, 90, 90, 90}, four[] = {1, 1, 5, 5};
    uint64_t mode = ab_mode(two, COUNT(two));

    (void)state;
    assert_true(mode == 10 || mode == 90);
    mode = ab_mode(four, COUNT(four));
    assert_true(mode == 1 || mode == 5);
}

/* If more than half of the values are close together, the mode is among them. */
static void mode_withstands_outliers(void **state)
{
    uint64_t seed = 0xabcdef;

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        uint64_t values[MOST], mode;
        size_t count = 1 + (size_t)(unit_random(&seed) % MOST), good = (count + 2) / 2;
        uint64_t center = 1000000 + unit_random(&seed) % 1000000;

        if (good > count)
            good = count;
        for (size_t i = 0; i < count; i++) {
            if (i < good)
                values[i] = center + unit_random(&seed) % 1000;
            else if (unit_random(&seed) & 1)
                values[i] = unit_random(&seed) % (center - 100000);
            else
                values[i] = center + 100000 + unit_random(&seed) % (UINT64_MAX / 2);
        }
        ab_sort(values, count);
        mode = ab_mode(values, count);
        assert_true(mode >= center && mode < center + 1000);
    }
}

static void percentiles(void **state)
{
    static const struct {
        const char *name;
        size_t count;
        unsigned percent;
        uint64_t result;
    } rows[] = {
        {"first", 11, 0, 0},        {"last", 11, 100, 10}, {"middle", 11, 50, 5},
        {"tenth of eleven", 11, 10, 1}, {"90 of eleven", 11, 90, 9}, {"one value, 0", 1, 0, 0},
        {"one value, 50", 1, 50, 0},  {"one value, 100", 1, 100, 0}, {"two, 100", 2, 100, 1},
        {"two, 99", 2, 99, 0},        {"101 values, 37", 101, 37, 37},
    };
    uint64_t values[101];

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = i;
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK_EQUAL(rows[i].name, ab_percentile(values, rows[i].count, rows[i].percent),
                    rows[i].result);
    for (size_t count = 1; count <= COUNT(values); count++) {
        for (unsigned percent = 1; percent <= 100; percent++)
            assert_true(ab_percentile(values, count, percent) >=
                        ab_percentile(values, count, percent - 1));
    }
}

static void counts_near_a_center(void **state)
{
    static const uint64_t values[] = {0, 949999, 950000, 999999, 1000000, 1050000, 1050001,
                                      2000000, UINT64_MAX};
    static const struct {
        const char *name;
        size_t count;
        uint64_t center, part;
        size_t near;
    } rows[] = {
        {"none there", 0, 1000000, 50, 0},
        {"5% on either side, edges included", COUNT(values), 1000000, 50, 4},
        {"nothing but itself", COUNT(values), 1000000, 0, 1},
        {"100%: from zero to twice", COUNT(values), 1000000, 1000, 8},
        {"center that is no value", COUNT(values), 500000, 10, 0},
        {"only the first ones counted", 3, 1000000, 50, 1},
        {"far away", COUNT(values), 4000000, 100, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK_EQUAL(rows[i].name,
                    ab_count_near(values, rows[i].count, rows[i].center, rows[i].part),
                    rows[i].near);
}

/* A part of a small center is a fraction, which is not rounded down. */
static void counts_near_a_small_center(void **state)
{
    static const uint64_t values[] = {900, 999, 1100};

    (void)state;
    assert_int_equal(ab_count_near(values, COUNT(values), 999, 200), 3);
    assert_int_equal(ab_count_near(values, COUNT(values), 999, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_agrees_with_qsort),
        cmocka_unit_test(sort_takes_any_order),
        cmocka_unit_test(mode_of_known_samples),
        cmocka_unit_test(mode_of_ties_is_a_cluster),
        cmocka_unit_test(mode_withstands_outliers),
        cmocka_unit_test(percentiles),
        cmocka_unit_test(counts_near_a_center),
        cmocka_unit_test(counts_near_a_small_center),
    };

    return cmocka_run_group_tests_name("mode", tests, NULL, NULL);
}
