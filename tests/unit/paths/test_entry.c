/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>

#include <autobuf/autobuf.h>

static void a_path_comes_back_as_it_went_in(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT, again = AUTOBUF_PATH_INIT;
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    uint8_t *bytes = (uint8_t *)&path;

    (void)state;
    for (size_t i = sizeof path.size; i < sizeof path; i++)
        bytes[i] = (uint8_t)i;
    path.cost_bytes = path.elapsed_ns = path.loss_permille = 0; /* of the measurement, not of the path */
    path.measured_ns = AUTOBUF_NS_UNSET;
    assert_int_equal(autobuf_paths_learn(&e, &path), 0);
    assert_int_equal(autobuf_paths_path(&e, &again), 0);
    assert_memory_equal(&again, &path, sizeof path);
    assert_int_equal(autobuf_paths_learn(NULL, &path), -EINVAL);
    assert_int_equal(autobuf_paths_path(&e, NULL), -EINVAL);
}

static struct autobuf_paths_entry of_host(uint8_t last)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    e.remote = (struct autobuf_prefix){.version = 4, .bits = 32, .address = {192, 0, 2, last}};
    return e;
}

static void entries_have_an_order(void **state)
{
    struct autobuf_paths_entry one = of_host(1), two = of_host(2), none = of_host(1);

    (void)state;
    none.size = 0;
    assert_true(autobuf_paths_compare(&one, &two) < 0);
    assert_true(autobuf_paths_compare(&two, &one) > 0);
    assert_int_equal(autobuf_paths_compare(&one, &one), 0);
    assert_true(autobuf_paths_compare(&two, &none) < 0); /* what is no entry comes last */
    assert_true(autobuf_paths_compare(NULL, &two) > 0);
    assert_int_equal(autobuf_paths_check(&none), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_comes_back_as_it_went_in),
        cmocka_unit_test(entries_have_an_order),
    };

    return cmocka_run_group_tests_name("entry", tests, NULL, NULL);
}
