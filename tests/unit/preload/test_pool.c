/* SPDX-License-Identifier: MIT */
/* The memory of the preloaded object, by its own names: meson.build renames them for this test. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

void *pool_calloc(size_t count, size_t bytes);
void pool_free(void *data);

#define LARGEST ((size_t)1 << 21)

static bool is_zero(const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i])
            return false;
    return true;
}

static void blocks_are_zero_and_apart(void **state)
{
    static const size_t sizes[] = {0, 1, 1000, 1008, 1009, 1024, 4096, 65536, 70000, 1048576, LARGEST - 64};
    unsigned char *blocks[2 * COUNT(sizes)];

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT(blocks); i++) {
            size_t bytes = sizes[i % COUNT(sizes)];

            blocks[i] = pool_calloc(1, bytes);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
            assert_true(is_zero(blocks[i], bytes));
            memset(blocks[i], (int)i + 1, bytes);
        }
        for (size_t i = 0; i < COUNT(blocks); i++) {
            size_t bytes = sizes[i % COUNT(sizes)];

            for (size_t k = 0; k < bytes; k++)
                if (blocks[i][k] != i + 1)
                    fail_msg("block %zu, byte %zu", i, k);
            pool_free(blocks[i]);
        }
    }
}

static void what_is_free_serves_again(void **state)
{
    void *first = pool_calloc(10, 100), *second;

    (void)state;
    pool_free(first);
    second = pool_calloc(1, 1000);
    assert_ptr_equal(second, first);
    pool_free(second);
    pool_free(NULL);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    errno = 0;
    assert_null(pool_calloc(1, 2 * LARGEST));
    assert_int_equal(errno, ENOMEM);
    assert_null(pool_calloc(SIZE_MAX / 2, 4));
    assert_null(pool_calloc(SIZE_MAX, SIZE_MAX));
}

static void *take_and_give(void *text)
{
    for (int i = 0; i < 20000; i++) {
        unsigned char *block = pool_calloc(1, 2000);

        if (!block || !is_zero(block, 2000))
            return NULL;
        memset(block, 0xa5, 2000);
        pool_free(block);
    }
    return text;
}

static void threads_do_not_share_a_block(void **state)
{
    pthread_t threads[4];
    char done[] = "done";
    void *said;

    (void)state;
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, done), 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &said), 0);
        assert_ptr_equal(said, done);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zero_and_apart),
        cmocka_unit_test(what_is_free_serves_again),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(threads_do_not_share_a_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
