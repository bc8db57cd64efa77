/* SPDX-License-Identifier: MIT */
/* tools/daemon/before_syn_without.c: a daemon without libbpf says so, and else runs as with it. */
#include "unit.h"

#include <string.h>

#include "daemon/before_syn.h"
#include "daemon/config.h"

static void it_says_what_is_missing(void **state)
{
    const struct config config = {0};
    char why[BEFORE_SYN_WHY_BYTES] = "";

    (void)state;
    assert_null(before_syn_open(why));
    assert_non_null(strstr(why, "libbpf"));
    before_syn_rules(NULL, &config, false);
    assert_int_equal(before_syn_count(NULL), 0);
    before_syn_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_is_missing),
    };

    return cmocka_run_group_tests_name("before_syn_without", tests, NULL, NULL);
}
