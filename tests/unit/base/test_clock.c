/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/base.h"
#include "base/clock.h"
#include "kernel/stamp.h"

static uint64_t read_ns(clockid_t id)
{
    struct timespec t;

    assert_int_equal(clock_gettime(id, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void monotonic_is_the_kernel_s_and_does_not_go_back(void **state)
{
    uint64_t before = read_ns(CLOCK_MONOTONIC), last = before;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t now = autobuf_now_ns();

        assert_true(now >= last);
        last = now;
    }
    assert_true(last <= read_ns(CLOCK_MONOTONIC));
}

/* A realtime stamp minus the offset lies between the monotonic readings around it, nearly. */
static void offset_turns_realtime_into_monotonic(void **state)
{
    uint64_t offset = ab_clock_offset_ns(), before = read_ns(CLOCK_MONOTONIC);
    uint64_t stamp = read_ns(CLOCK_REALTIME), after = read_ns(CLOCK_MONOTONIC);
    uint64_t turned = stamp - offset;

    (void)state;
    assert_true(turned + 20 * AB_NS_PER_MS >= before); /* a clock that is being slewed is allowed */
    assert_true(turned <= after + 20 * AB_NS_PER_MS);
}

/* A message that the kernel stamped this long ago, by a clock that was set by this much since the offset was read. */
static int64_t age_ms(int64_t ago_ms, int64_t set_ms, int64_t *took_ms)
{
    uint64_t begin = autobuf_now_ns(), end;
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct timespec))] = {0};
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    uint64_t offset = ab_clock_offset_ns() - (uint64_t)(set_ms * (int64_t)AB_NS_PER_MS);
    uint64_t stamp = read_ns(CLOCK_REALTIME) - (uint64_t)(ago_ms * (int64_t)AB_NS_PER_MS);
    struct timespec t = {(time_t)(stamp / AB_NS_PER_S), (long)(stamp % AB_NS_PER_S)};

    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof t), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_TIMESTAMPNS};
    memcpy(CMSG_DATA(c), &t, sizeof t);
    stamp = ab_stamp_ns(&message, SCM_TIMESTAMPNS, &offset);
    end = autobuf_now_ns();
    *took_ms = (int64_t)((end - begin) / AB_NS_PER_MS);
    return (int64_t)(end - stamp) / (int64_t)AB_NS_PER_MS;
}

static void stamps_survive_a_clock_that_is_set(void **state)
{
    static const struct {
        const char *name;
        int64_t ago_ms, set_ms, age_ms;
    } rows[] = {
        {"a clock that stays", 300, 0, 300},
        {"set back by less than a stamp may be old", 300, -1000, 300},
        {"set forward", 300, 1000, 300},
        {"set by days", 300, 400000000, 300},
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
        cmocka_unit_test(monotonic_is_the_kernel_s_and_does_not_go_back),
        cmocka_unit_test(offset_turns_realtime_into_monotonic),
        cmocka_unit_test(stamps_survive_a_clock_that_is_set),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
