/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"
#include "ways.h"

#define MBIT 1000000ULL
#define MS 1000000ULL

/* Which way enlarges a window: by kernel, direction and permission. */
static void by_kernel_and_permission(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *limits;
        uint64_t mbit;
        bool sends, forces;
        uint32_t off;
        const char *says;
    } rows[] = {
        {"6.12 sends", &host_older, 400, true, false, 0, "helps: sysctl, autobufd; helps as root: run, link"},
        {"6.12 sends, as root", &host_older, 400, true, true, 0, "helps: sysctl, autobufd, run, link"},
        {"6.12 receives", &host_older, 400, false, false, 0, "helps: sysctl, autobufd; does not help: run, link"},
        {"6.12 receives more than its window scale allows", &host_older, 10000, false, true, 0,
         "helps: sysctl; helps in part: autobufd; does not help: run, link"},
        {"6.17 sends", &host_6_16, 400, true, false, 0, "helps: sysctl, autobufd; helps as root: run, link"},
        {"6.18 sends", &host_6_18, 400, true, false, 0, "helps: sysctl, autobufd, run, link"},
        {"6.18 sends more", &host_6_18, 10000, true, false, 0, "helps: sysctl, autobufd; helps in part: run, link"},
        {"6.18 receives", &host_6_18, 10000, false, false, 0,
         "helps: sysctl; helps in part: autobufd; does not help: run, link"},
        {"wmem_max raised", &host_esnet_64, 10000, true, false, 0, "helps: sysctl, autobufd; helps in part: run, link"},
        {"rmem_max raised", &host_rmem_16, 400, false, false, 0, "helps: sysctl, autobufd, run, link"},
        {"no window scaling", &host_6_18, 400, false, true, AUTOBUF_LIMITS_WINDOW_SCALING,
         "helps: sysctl; does not help: autobufd, run, link"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = {.path = AUTOBUF_PATH_INIT, .limits = *rows[i].limits, .socket = socket_new()};
        const struct arguments asked = {0};
        enum help ways[WAYS];
        char text[128];

        f.limits.flags &= ~rows[i].off;
        f.limits.flags |= rows[i].forces ? AUTOBUF_LIMITS_FORCE : 0;
        assert_int_equal(autobuf_path_given(&f.path, rows[i].mbit * MBIT, 100 * MS), 0);
        assert_int_equal(findings_plan(&f, &asked), 0);
        ways_find(&f, rows[i].sends, rows[i].sends ? f.user.snd_kernel_bytes : f.user.rcv_kernel_bytes, ways);
        ways_text(ways, text, sizeof text);
        if (strcmp(text, rows[i].says) != 0)
            fail_msg("%s: %s", rows[i].name, text);
    }
}

static void as_text_and_json(void **state)
{
    static const enum help unsaid[WAYS], all[WAYS] = {HELP_ALL, HELP_PART, HELP_ROOT, HELP_NO};
    char text[128], *json;
    size_t bytes;
    FILE *out = open_memstream(&json, &bytes);

    (void)state;
    ways_text(unsaid, text, sizeof text);
    assert_string_equal(text, "");
    ways_text(all, text, sizeof text);
    assert_string_equal(text, "helps: sysctl; helps in part: autobufd; helps as root: run; does not help: link");
    for (size_t cap = 1; cap < sizeof text; cap++) { /* with any room */
        memset(text, 'x', sizeof text);
        ways_text(all, text, cap);
        assert_true(strlen(text) < cap && (cap == sizeof text - 1 || text[cap] == 'x'));
    }
    ways_json(out, unsaid);
    ways_json(out, all);
    fclose(out);
    assert_string_equal(json, "null{\"sysctl\":\"all\",\"autobufd\":\"part\",\"run\":\"root\",\"link\":\"no\"}");
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_kernel_and_permission), cmocka_unit_test(as_text_and_json)};

    return cmocka_run_group_tests_name("ways", tests, NULL, NULL);
}
