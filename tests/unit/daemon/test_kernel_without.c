/* SPDX-License-Identifier: MIT */
/* tools/daemon/kernel_without.c: a daemon that was built without libbpf says so, and goes on. */
#include "unit.h"

#include <string.h>

#include "daemon/kernel.h"
#include "daemon/withhold.h"

static void it_says_what_is_missing(void **state)
{
    struct broker_maps maps = {.ready = true};

    (void)state;
    kernel_load(&maps);
    assert_false(maps.ready);
    assert_non_null(strstr(maps.why, "built without"));
    assert_null(withhold_open(&maps));
    withhold_rules(NULL, NULL);
    withhold_limits(NULL, NULL);
    assert_int_equal(withhold_count(NULL), 0);
    withhold_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_says_what_is_missing)};

    return cmocka_run_group_tests_name("kernel_without", tests, NULL, NULL);
}
