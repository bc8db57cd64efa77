/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/base.h"
#include "base/clock.h"
#include "kernel/socket.h"

/* A message that carries one stamp, of so long ago by the realtime clock. */
static uint64_t stamped(int type, int64_t age_ns, int asked, uint64_t *offset_ns)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct timespec))];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    uint64_t real_ns = autobuf_now_ns() + ab_clock_offset_ns() - (uint64_t)age_ns;
    struct timespec t = {(time_t)(real_ns / AB_NS_PER_S), (long)(real_ns % AB_NS_PER_S)};

    memset(control, 0, sizeof control);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(sizeof t);
    memcpy(CMSG_DATA(c), &t, sizeof t);
    return ab_stamp_ns(&message, asked, offset_ns);
}

/*
 * The same, and when it began. If this process waited for a processor meanwhile, bounds of some milliseconds do not
 * hold, and it is repeated.
 */
static uint64_t stamped_at_once(int type, int64_t age_ns, int64_t wrong_by_ns, uint64_t *before_ns, uint64_t *offset_ns)
{
    uint64_t got_ns = 0;

    for (int tries = 0; tries < 3; tries++) {
        *before_ns = autobuf_now_ns();
        *offset_ns = ab_clock_offset_ns() + (uint64_t)wrong_by_ns;
        got_ns = stamped(type, age_ns, 1, offset_ns);
        if (autobuf_now_ns() - *before_ns < AB_NS_PER_MS)
            break;
    }
    return got_ns;
}

static void test_stamps(void **state)
{
    static const struct {
        const char *name;
        int64_t age_ms;
        int type;
        bool used;
    } rows[] = {
        {"a while ago", 500, 1, true},
        {"just now", 0, 1, true},
        {"of another type", 500, 2, false},
        {"too long ago", 2100, 1, false},
        {"in the future", -500, 1, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t before_ns, offset_ns;
        uint64_t got_ns = stamped_at_once(rows[i].type, rows[i].age_ms * (int64_t)AB_NS_PER_MS, 0, &before_ns,
                                          &offset_ns);
        uint64_t want_ns = before_ns - (rows[i].used ? (uint64_t)rows[i].age_ms * AB_NS_PER_MS : 0);

        CHECK(rows[i].name, got_ns + AB_NS_PER_MS >= want_ns && got_ns <= autobuf_now_ns());
        CHECK(rows[i].name, got_ns < want_ns + 100 * AB_NS_PER_MS);
    }
}

/* A clock was set since the offset was taken: it is taken anew. */
static void test_offset_is_renewed(void **state)
{
    uint64_t before_ns, offset_ns;
    uint64_t got_ns = stamped_at_once(1, 500 * (int64_t)AB_NS_PER_MS, 3600 * (int64_t)AB_NS_PER_S, &before_ns,
                                      &offset_ns);

    (void)state;
    assert_in_range(got_ns, before_ns, before_ns + 100 * AB_NS_PER_MS);
    assert_in_range(offset_ns, ab_clock_offset_ns() - AB_NS_PER_S, ab_clock_offset_ns() + AB_NS_PER_S);
}

/* A message that the kernel stamped this long ago, by a clock that was set by this much since the offset was read. */
static int64_t age_ms(int64_t ago_ms, int64_t set_ms, int64_t *took_ms)
{
    uint64_t begin = autobuf_now_ns(), end;
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct timespec))] = {0};
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    uint64_t offset = ab_clock_offset_ns() - (uint64_t)(set_ms * (int64_t)AB_NS_PER_MS);
    uint64_t stamp = autobuf_now_ns() + ab_clock_offset_ns() - (uint64_t)(ago_ms * (int64_t)AB_NS_PER_MS);
    struct timespec t = {(time_t)(stamp / AB_NS_PER_S), (long)(stamp % AB_NS_PER_S)};

    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof t), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_TIMESTAMPNS};
    memcpy(CMSG_DATA(c), &t, sizeof t);
    stamp = ab_stamp_ns(&message, SCM_TIMESTAMPNS, &offset);
    end = autobuf_now_ns();
    *took_ms = (int64_t)((end - begin) / AB_NS_PER_MS);
    return (int64_t)(end - stamp) / (int64_t)AB_NS_PER_MS;
}

/* A stamp of before and one of after look the same. */
static void stamps_survive_a_clock_that_is_set(void **state)
{
    static const struct {
        const char *name;
        int64_t ago_ms, set_ms, age_ms;
    } rows[] = {
        {"a clock that stays", 300, 0, 300},
        {"set back", 300, -1000, 0},
        {"set forward by less than a stamp may be old", 300, 1900, 0},
        {"set by days", 300, 400000000, 0},
        {"set back between the stamp and here", -1000, 0, 0},
        {"set forward there", 5000, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t took_ms, age = age_ms(rows[i].ago_ms, rows[i].set_ms, &took_ms);

        CHECK(rows[i].name, age >= rows[i].age_ms - 20 && age <= rows[i].age_ms + took_ms + 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stamps),
        cmocka_unit_test(test_offset_is_renewed),
        cmocka_unit_test(stamps_survive_a_clock_that_is_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
