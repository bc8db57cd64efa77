/* SPDX-License-Identifier: MIT */
/* tools/import_without.c: a command without jansson reads no JSON, and says so. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"

static void nothing_is_read(void **state)
{
    static const char text[] = "{\"start\":{},\"end\":{}}";
    const struct import_host host = {.now_s = 1, .holds_s = 1};
    struct imported into = {.count = 7};
    char why[IMPORT_WHY_BYTES] = "";

    (void)state;
    assert_int_equal(import_read(text, sizeof text - 1, &host, &into, why), -ENOSYS);
    assert_int_equal(into.count, 0);
    free(into.entries); /* as callers do */
    assert_non_null(strstr(why, "libjansson"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read),
    };

    return cmocka_run_group_tests_name("import_without", tests, NULL, NULL);
}
