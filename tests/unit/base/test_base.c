/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>

#include "base/base.h"

/* The library's struct; the program's may be shorter or longer. */
struct known {
    uint32_t size;
    uint32_t a;
    uint64_t b;
};

#define FILL 0xa5
#define ROOM_BYTES 64

static const struct size_row {
    const char *name;
    uint32_t size;
    bool ok;
} size_rows[] = {
    {"no size at all", 0, false},
    {"one byte short of the size itself", 3, false},
    {"only the size", 4, true},
    {"cut inside a field", 6, true},
    {"older: first field only", 8, true},
    {"cut inside the last field", 15, true},
    {"the same", sizeof(struct known), true},
    {"newer: a field more", sizeof(struct known) + 8, true},
    {"newer: much more", ROOM_BYTES, true},
};

static void struct_out_writes_what_both_know(void **state)
{
    const struct known ours = {sizeof ours, 0x11111111, 0x2222222222222222};

    (void)state;
    for (size_t i = 0; i < COUNT(size_rows); i++) {
        const struct size_row *row = &size_rows[i];
        unsigned char theirs[ROOM_BYTES], expected[ROOM_BYTES];
        size_t both = row->size < sizeof ours ? row->size : sizeof ours;

        memset(theirs, FILL, sizeof theirs);
        memcpy(theirs, &row->size, sizeof row->size);
        memcpy(expected, theirs, sizeof expected);
        if (row->ok && both > sizeof row->size)
            memcpy(expected + sizeof row->size, (const char *)&ours + sizeof row->size,
                   both - sizeof row->size);
        CHECK_EQUAL(row->name, ab_struct_out(theirs, &ours, sizeof ours), row->ok);
        CHECK(row->name, memcmp(theirs, expected, sizeof expected) == 0);
    }
}

static void struct_in_reads_what_both_know(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(size_rows); i++) {
        const struct size_row *row = &size_rows[i];
        unsigned char theirs[ROOM_BYTES], before[ROOM_BYTES];
        struct known ours, expected = {sizeof ours, 0, 0};
        size_t both = row->size < sizeof ours ? row->size : sizeof ours;

        memset(theirs, FILL, sizeof theirs);
        memcpy(theirs, &row->size, sizeof row->size);
        memcpy(before, theirs, sizeof before);
        memset(&ours, 0x77, sizeof ours);
        if (row->ok && both > sizeof row->size)
            memset((char *)&expected + sizeof row->size, FILL, both - sizeof row->size);
        CHECK_EQUAL(row->name, ab_struct_in(&ours, sizeof ours, theirs), row->ok);
        CHECK(row->name, memcmp(theirs, before, sizeof before) == 0);
        if (row->ok)
            CHECK(row->name, memcmp(&ours, &expected, sizeof ours) == 0);
    }
}

static void null_is_refused(void **state)
{
    struct known ours = {sizeof ours, 1, 2};

    (void)state;
    assert_false(ab_struct_out(NULL, &ours, sizeof ours));
    assert_false(ab_struct_in(&ours, sizeof ours, NULL));
    assert_true(ours.a == 1 && ours.b == 2);
}

static void mul_div_does_not_overflow(void **state)
{
    static const struct {
        const char *name;
        uint64_t a, b, c, result;
    } rows[] = {
        {"zero", 0, UINT64_MAX, 1, 0},
        {"rounds down", 7, 1, 2, 3},
        {"below one", 1, 1, UINT64_MAX, 0},
        {"product fits", 100, 10, 8, 125},
        {"product of 65 bits", UINT64_MAX, 2, 4, UINT64_MAX / 2},
        {"product of 128 bits", UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {"result just fits", UINT64_MAX, 3, 3, UINT64_MAX},
        {"result of 2^64", 1ULL << 63, 2, 1, UINT64_MAX},
        {"result of 2^64 - 2", (1ULL << 63) - 1, 2, 1, UINT64_MAX - 1},
        {"result does not fit", UINT64_MAX, UINT64_MAX, 1, UINT64_MAX},
        {"10 Gbit/s for 1000 s", 10000000000ULL, 1000000000000ULL, 8000000000ULL, 1250000000000ULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_EQUAL(rows[i].name, ab_mul_div(rows[i].a, rows[i].b, rows[i].c), rows[i].result);
        CHECK_EQUAL(rows[i].name, ab_mul_div(rows[i].b, rows[i].a, rows[i].c), rows[i].result);
    }
}

/* Modulo 2^64 the remainder is exact: it must be below the divisor. */
static void mul_div_leaves_a_remainder_below_the_divisor(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t a = unit_random(&seed) >> (unit_random(&seed) % 64);
        uint64_t b = unit_random(&seed) >> (unit_random(&seed) % 64);
        uint64_t c = (unit_random(&seed) >> (unit_random(&seed) % 64)) | 1;
        uint64_t result = ab_mul_div(a, b, c);

        if (result == UINT64_MAX)
            assert_true(b > UINT64_MAX / a);
        else
            assert_true(a * b - result * c < c);
        assert_true(ab_mul_div(a, c, c) == a);
    }
}

static void min_and_max(void **state)
{
    (void)state;
    assert_true(ab_min(1, 2) == 1 && ab_min(2, 1) == 1 && ab_min(3, 3) == 3);
    assert_true(ab_max(1, 2) == 2 && ab_max(2, 1) == 2 && ab_max(3, 3) == 3);
    assert_true(ab_min(UINT64_MAX, 0) == 0 && ab_max(UINT64_MAX, 0) == UINT64_MAX);
    assert_true(ab_min_size(1, 2) == 1 && ab_min_size(2, 1) == 1 && ab_min_size(SIZE_MAX, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(struct_out_writes_what_both_know),
        cmocka_unit_test(struct_in_reads_what_both_know),
        cmocka_unit_test(null_is_refused),
        cmocka_unit_test(mul_div_does_not_overflow),
        cmocka_unit_test(mul_div_leaves_a_remainder_below_the_divisor),
        cmocka_unit_test(min_and_max),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
