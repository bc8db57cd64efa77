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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_comes_back_as_it_went_in),
    };

    return cmocka_run_group_tests_name("entry", tests, NULL, NULL);
}
