/* SPDX-License-Identifier: MIT */
/* tools/daemon/site_without.c: a daemon without hiredis refuses a site's server, and else runs as with it. */
#include "unit.h"

#include <errno.h>

#include "daemon/config.h"
#include "daemon/site.h"

static void a_server_is_refused(void **state)
{
    struct config config = {0};
    struct site *site = NULL;

    (void)state;
    assert_int_equal(site_open(&site, &config, NULL), 0);
    assert_null(site);
    config.site.address_bytes = 16;
    assert_int_equal(site_open(&site, &config, NULL), -ENOTSUP);
    assert_null(site);
}

static void nothing_is_due(void **state)
{
    struct pollfd fd = {.fd = -2};

    (void)state;
    assert_int_equal(site_poll(NULL, &fd, 1), 0);
    assert_int_equal(fd.fd, -2);
    assert_true(site_deadline_ns(NULL, 1) == UINT64_MAX);
    site_step(NULL, 1);
    site_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_refused),
        cmocka_unit_test(nothing_is_due),
    };

    return cmocka_run_group_tests_name("site_without", tests, NULL, NULL);
}
