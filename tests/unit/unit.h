/* SPDX-License-Identifier: MIT */
/* What every unit test uses: cmocka with the headers it needs, checks that name the row of a table, and skips. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* cmocka's own asserts cannot say which row of a table failed. */
#define CHECK(row, condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s: %s", (row), #condition);                                                 \
    } while (0)

#define CHECK_EQUAL(row, actual, expected)                                                         \
    do {                                                                                           \
        long long actual_value = (long long)(actual), expected_value = (long long)(expected);      \
        if (actual_value != expected_value)                                                        \
            fail_msg("%s: %s is %lld, not %lld", (row), #actual, actual_value, expected_value);    \
    } while (0)

/* A skip says why. */
#define SKIP(reason)                                                                               \
    do {                                                                                           \
        print_message("skipped: %s\n", (reason));                                                  \
        skip();                                                                                    \
    } while (0)

/* xorshift64: the same numbers in every run, so that a failure can be repeated. */
static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
