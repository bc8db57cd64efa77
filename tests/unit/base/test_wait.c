/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/wait.h"
#include "kernel/stamp.h"

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
 * The same, and before_ns: when that began. Bounds of some milliseconds tell nothing of a reading during which this process
 * was kept from a processor, so it is made again then.
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
        uint64_t got_ns = stamped_at_once(rows[i].type, rows[i].age_ms * (int64_t)AB_NS_PER_MS, 0, &before_ns, &offset_ns);
        uint64_t want_ns = before_ns - (rows[i].used ? (uint64_t)rows[i].age_ms * AB_NS_PER_MS : 0);

        CHECK(rows[i].name, got_ns + AB_NS_PER_MS >= want_ns && got_ns <= autobuf_now_ns());
        CHECK(rows[i].name, got_ns < want_ns + 100 * AB_NS_PER_MS);
    }
}

/* A clock was set since the offset was taken: it is taken anew. */
static void test_offset_is_renewed(void **state)
{
    uint64_t before_ns, offset_ns;
    uint64_t got_ns = stamped_at_once(1, 500 * (int64_t)AB_NS_PER_MS, 3600 * (int64_t)AB_NS_PER_S, &before_ns, &offset_ns);
    uint64_t want_ns = before_ns - 500 * AB_NS_PER_MS;

    (void)state;
    assert_in_range(got_ns, want_ns - AB_NS_PER_MS, want_ns + 100 * AB_NS_PER_MS);
    assert_in_range(offset_ns, ab_clock_offset_ns() - AB_NS_PER_S, ab_clock_offset_ns() + AB_NS_PER_S);
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

/* What is stepped: its results one after the other, and what it waits for between. */
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

/* Steps until a result is not 0, whatever it is, and neither before fd is ready nor before the time. */
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
        cmocka_unit_test(test_stamps),
        cmocka_unit_test(test_offset_is_renewed),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
