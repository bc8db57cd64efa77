/* SPDX-License-Identifier: MIT */
/* tools/daemon/managed.c: nobody takes all. */
#include "unit.h"

#include <string.h>

#include "daemon/log.h"
#include "daemon/managed.h"

#define TOTAL 1000000U

/* Each takes as much as it can, again and again: for whoever comes next there is always something. */
static void nobody_takes_all(void **state)
{
    uint64_t held = 0;

    (void)state;
    for (unsigned i = 1; i <= 8; i++) {
        uint64_t own = 0, more;

        while ((more = users_left(TOTAL, held, own)) > 0) {
            own += more;
            held += more;
            assert_true(TOTAL - held >= own);
        }
        assert_in_range(own, (TOTAL >> i) - 2, (TOTAL >> i) + 2);
    }
    assert_int_equal(users_left(TOTAL, TOTAL + 1, 0), 0);
    assert_int_equal(users_left(TOTAL, 0, TOTAL), 0);
    assert_int_equal(users_left(0, 0, 0), 0);
    assert_int_equal(users_left(TOTAL, UINT64_MAX, UINT64_MAX), 0);
}

static void a_count_holds_until_the_next_one(void **state)
{
    struct users users = {0};

    (void)state;
    users_begin(&users);
    for (uint32_t user = 1000; user > 0; user--)
        users_count(&users, user, user);
    users_count(&users, 7, 100);
    users_count(&users, 1001, 0);
    users_count(&users, USERS_NOBODY, 50);
    assert_int_equal(users.forced_bytes, 0);
    users_end(&users);
    assert_int_equal(users.forced_bytes, 500500 + 150);
    assert_int_equal(users.count, 1000);
    assert_int_equal(users_find(&users, 7)->forced_bytes, 107);
    users_force(&users, 7, 10);
    users_force(&users, 2000, 20);
    assert_int_equal(users.forced_bytes, 500500 + 180);
    assert_int_equal(users_find(&users, 7)->forced_bytes, 117);
    users_begin(&users); /* which fails */
    users_count(&users, 7, 1);
    assert_int_equal(users_find(&users, 7)->forced_bytes, 117);
    users_find(&users, 3)->connections = 1;
    users_begin(&users);
    users_count(&users, 7, 1);
    users_end(&users);
    assert_int_equal(users.forced_bytes, 1);
    assert_int_equal(users.count, 2);
    assert_int_equal(users_find(&users, 3)->connections, 1);
    users_free(&users);
}

static unsigned lines;

static void hear(const char *line)
{
    (void)line;
    lines++;
}

/* Whoever asks is told all that was done, as the log is. */
static void an_action_is_kept_whole(void **state)
{
    static const struct owner owner;
    static const struct rule rule;
    static struct manager manager = {
        .now_ns = 7, .account = {.counts = &manager.counts, .owner = &owner, .rule = &rule, .copy = -1}};
    static struct managed managed;

    (void)state;
    log_to(hear);
    memset(manager.account.text, 'x', sizeof manager.account.text - 1);
    managed_tell(&manager, &managed);
    assert_int_equal(lines, 1);
    assert_string_equal(managed.action, manager.account.text);
    assert_int_equal(managed.action_ns, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_takes_all),
        cmocka_unit_test(an_action_is_kept_whole),
        cmocka_unit_test(a_count_holds_until_the_next_one),
    };

    return cmocka_run_group_tests_name("managed", tests, NULL, NULL);
}
