/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"

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

/* A realtime stamp minus the offset is about between the monotonic readings around it. */
static void offset_turns_realtime_into_monotonic(void **state)
{
    uint64_t offset = ab_clock_offset_ns(), before = read_ns(CLOCK_MONOTONIC);
    uint64_t stamp = read_ns(CLOCK_REALTIME), after = read_ns(CLOCK_MONOTONIC);
    uint64_t turned = stamp - offset;

    (void)state;
    assert_true(turned + 20 * AB_NS_PER_MS >= before); /* a clock that is being slewed is allowed */
    assert_true(turned <= after + 20 * AB_NS_PER_MS);
}

static void test_wait(void **state)
{
    uint64_t begin_ns = autobuf_now_ns();
    int pipes[2];

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(ab_wait(pipes[0], POLLIN, begin_ns), 0); /* past already */
    assert_int_equal(ab_wait(pipes[0], POLLIN, begin_ns + 20 * AB_NS_PER_MS), 0);
    assert_true(autobuf_now_ns() >= begin_ns + 20 * AB_NS_PER_MS);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_int_equal(ab_wait(pipes[0], POLLIN, AUTOBUF_NS_UNSET), 0); /* it would wait for ever */
    close(pipes[0]);
    close(pipes[1]);
}

/* The results of each step, and what to wait for. */
struct stepped {
    int results[4];
    int events;
    uint64_t wait_ns;
    unsigned steps;
    uint64_t last_ns;
};

static int step(void *handle, uint64_t now_ns, int *events, uint64_t *until_ns)
{
    struct stepped *s = handle;

    assert_true(s->steps < COUNT(s->results) && now_ns >= s->last_ns && now_ns <= autobuf_now_ns());
    s->last_ns = now_ns;
    *events = s->events;
    *until_ns = s->wait_ns == AUTOBUF_NS_UNSET ? AUTOBUF_NS_UNSET : now_ns + s->wait_ns;
    return s->results[s->steps++];
}

/* Steps until a result is not 0, never before fd is ready or the time has come. */
static void test_run(void **state)
{
    static const struct {
        const char *name;
        struct stepped stepped;
        int result;
        unsigned steps;
        uint64_t least_ns;
    } rows[] = {
        {"done at once", {.results = {1}, .wait_ns = AUTOBUF_NS_UNSET}, 1, 1, 0},
        {"an error at once", {.results = {-EPROTO}, .wait_ns = AUTOBUF_NS_UNSET}, -EPROTO, 1, 0},
        {"by time", {.results = {0, 0, 7}, .events = POLLIN, .wait_ns = 5 * AB_NS_PER_MS}, 7, 3, 10 * AB_NS_PER_MS},
        {"an error later", {.results = {0, -EIO}, .wait_ns = 1}, -EIO, 2, 0},
        {"by the descriptor", {.results = {0, 0, 0, 1}, .events = POLLOUT, .wait_ns = AUTOBUF_NS_UNSET}, 1, 4, 0},
    };
    int pipes[2];

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct stepped s = rows[i].stepped;
        uint64_t begin_ns = autobuf_now_ns();

        CHECK_EQUAL(rows[i].name, ab_run(pipes[s.events == POLLOUT], step, &s), rows[i].result);
        CHECK_EQUAL(rows[i].name, s.steps, rows[i].steps);
        CHECK(rows[i].name, autobuf_now_ns() - begin_ns >= rows[i].least_ns);
    }
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_is_the_kernel_s_and_does_not_go_back),
        cmocka_unit_test(offset_turns_realtime_into_monotonic),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
