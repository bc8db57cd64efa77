/* SPDX-License-Identifier: MIT */
/*
 * The planner and its words over structs of any content and size. Each struct lies in a block of
 * just as many bytes as its size claims (and up to 64 more than the library knows of), so that the
 * address sanitizer sees any access beyond what the caller has.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>

#include <autobuf/autobuf.h>

#define BEHIND_BYTES 64U

static size_t block_bytes(uint32_t size, size_t real)
{
    if (size < sizeof size)
        return sizeof size;
    return size < real + BEHIND_BYTES ? size : real + BEHIND_BYTES;
}

/* pairs: how many of the struct's 64-bit words are two 32-bit fields, which are mostly small. */
static void *take_struct(struct input *in, size_t real, size_t pairs)
{
    uint64_t words[64] = {0};
    unsigned how = (unsigned)take(in, 1);
    uint32_t size = (uint32_t)real;

    if (how >= 224)
        size = (uint32_t)take(in, how % 4 + 1);
    else if (how >= 192)
        size += how % 64;
    for (size_t i = 0; i < (real + BEHIND_BYTES) / sizeof *words; i++) {
        uint64_t small = i < pairs ? take(in, how & 32 ? 8 : 2) : 0;

        if (i >= pairs)
            words[i] = take_number(in);
        else
            words[i] = how & 32 ? small : (small & 7) | (small >> 8 & 7) << 32;
    }
    memcpy(words, &size, sizeof size);
    return exact_copy(words, block_bytes(size, real));
}

static uint32_t size_of(const void *theirs)
{
    uint32_t size;

    memcpy(&size, theirs, sizeof size);
    return size;
}

/* As the library sees it: zero where theirs has no room. */
static void widen(void *ours, size_t real, const void *theirs)
{
    uint32_t size = size_of(theirs);

    memset(ours, 0, real);
    memcpy(ours, theirs, size < real ? size : real);
}

static bool acts(uint32_t reason)
{
    return reason == AUTOBUF_REASON_SET || reason == AUTOBUF_REASON_CAPPED ||
           reason == AUTOBUF_REASON_LATE;
}

static void check_plan(const struct autobuf_plan *p, const struct autobuf_path *path,
                       const struct autobuf_limits *limits, const struct autobuf_socket *socket)
{
    CHECK(p->snd_reason <= AUTOBUF_REASON_OFF && p->rcv_reason <= AUTOBUF_REASON_OFF);
    CHECK(!p->snd_request_bytes || acts(p->snd_reason));
    CHECK(!p->rcv_request_bytes || acts(p->rcv_reason));
    CHECK(p->snd_request_bytes <= limits->snd_settable_bytes || p->flags & AUTOBUF_PLAN_SND_FORCE);
    CHECK(!(p->flags & AUTOBUF_PLAN_SND_FORCE) || limits->flags & AUTOBUF_LIMITS_FORCE);
    CHECK(p->rcv_request_bytes <= limits->rcv_settable_bytes || p->flags & AUTOBUF_PLAN_RCV_FORCE);
    CHECK(!(p->flags & AUTOBUF_PLAN_RCV_FORCE) ||
          (limits->flags & AUTOBUF_LIMITS_FORCE && socket->stage == AUTOBUF_STAGE_CONNECTED));
    CHECK(!p->rcv_request_bytes || socket->stage != AUTOBUF_STAGE_CONNECTED ||
          (socket->rcv_window_max_bytes && p->rcv_clamp_bytes));
    /* What is set is more than what is there already; for low delay the send buffer may shrink. */
    CHECK(!p->snd_request_bytes || p->intent & AUTOBUF_INTENT_LOW_DELAY ||
          2 * p->snd_request_bytes + 1 >= socket->snd_buf_bytes);
    CHECK(!p->rcv_request_bytes || 2 * p->rcv_request_bytes + 1 >= socket->rcv_buf_bytes);
    CHECK((p->snd_reason == AUTOBUF_REASON_CAPPED) == (p->snd_sysctl != AUTOBUF_SYSCTL_NONE));
    CHECK((p->rcv_reason == AUTOBUF_REASON_CAPPED) == (p->rcv_sysctl != AUTOBUF_SYSCTL_NONE));
    /* Nothing is done for a path of which nothing is known. */
    CHECK(path->tx_bdp_bytes || !p->snd_request_bytes);
    CHECK(path->rx_bdp_bytes || !p->rcv_request_bytes);
}

static void check_text(const char *buf, size_t cap, int len)
{
    const char *end = memchr(buf, '\0', cap);

    CHECK(end);
    CHECK((size_t)(end - buf) == ((size_t)len < cap ? (size_t)len : cap - 1));
}

static void check_explain(const struct autobuf_plan *plan, size_t cap)
{
    char *buf = malloc(cap ? cap : 1);
    int len;

    CHECK(buf);
    len = autobuf_plan_explain(plan, cap ? buf : NULL, cap);
    CHECK((len == -EINVAL) == (size_of(plan) < sizeof(uint32_t)));
    CHECK(len == -EINVAL || (len > 0 && len < 2000));
    if (len > 0 && cap)
        check_text(buf, cap, len);
    if (len > 0 && cap > (size_t)len)
        CHECK(buf[len - 1] == '\n' && strchr(buf, '\n') < buf + len - 1);
    free(buf);
}

static void check_sysctl(const struct autobuf_plan *plan, const struct autobuf_limits *limits,
                         unsigned index, size_t cap)
{
    char *buf = malloc(cap ? cap : 1);
    int len;

    CHECK(buf);
    len = autobuf_plan_sysctl(plan, limits, index, cap ? buf : NULL, cap);
    CHECK(len == -EINVAL || (len >= 0 && len < 200));
    CHECK(index < 5 || len <= 0);
    if (len > 0 && cap)
        check_text(buf, cap, len);
    free(buf);
}

/* Where measuring is said to be of no use, no plausible path makes the planner act. */
static void check_worth(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                        uint64_t rate_bit_per_s, uint64_t expected_bytes, uint32_t intent)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    uint64_t low = 0, high = 0;
    uint32_t one_way = intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);
    int worth = autobuf_plan_worth(limits, socket, intent, expected_bytes, &low, &high);

    CHECK(worth == 0 || worth == 1 || worth == -EINVAL);
    CHECK(autobuf_plan_worth(limits, socket, intent, expected_bytes, NULL, NULL) == worth);
    if (worth < 0 || intent & AUTOBUF_INTENT_LOW_DELAY || expected_bytes)
        return;
    CHECK(worth == 0 || (low > 0 && high >= low));
    if (worth == 0 && size_of(socket) >= sizeof *socket && socket->rtt_min_ns &&
        socket->rtt_min_ns != AUTOBUF_NS_UNSET)
        return; /* it knows the time, and that is part of its answer */
    if (autobuf_path_given(&path, rate_bit_per_s % 10000000001 + 1, 300000000) < 0)
        return;
    if (worth == 1)
        path.tx_bdp_bytes = path.rx_bdp_bytes = low;
    CHECK(autobuf_plan_make(&path, limits, socket, intent, 0, &plan) == 0);
    /* Of no interest: a side that carries a byte, on a host that has no window for it at all; and a
       receive window that few senders fill. */
    CHECK(!plan.snd_request_bytes || one_way == AUTOBUF_INTENT_RECEIVES);
    CHECK(!plan.rcv_request_bytes || one_way == AUTOBUF_INTENT_SENDS ||
          plan.rcv_kernel_bytes >= 16000000);
    CHECK(plan.snd_request_bytes <= 2 || one_way != AUTOBUF_INTENT_RECEIVES);
    CHECK(plan.rcv_request_bytes <= 2 || one_way != AUTOBUF_INTENT_SENDS);
}

/* What stands behind the library's part of a larger struct stays as it is. */
static void check_make(struct input *in, const struct autobuf_limits *limits,
                       const struct autobuf_socket *socket, struct autobuf_plan *plan,
                       uint64_t expected_bytes, uint32_t intent)
{
    struct autobuf_path *path = take_struct(in, sizeof *path, 2), p;
    size_t bytes = block_bytes(size_of(plan), sizeof *plan);
    uint8_t *before = exact_copy(plan, bytes);
    struct autobuf_limits l;
    struct autobuf_socket s;
    int result = autobuf_plan_make(path, limits, socket, intent, expected_bytes, plan);

    CHECK(result == 0 || result == -EINVAL);
    CHECK(memcmp(before, plan, sizeof(uint32_t)) == 0);
    if (bytes > sizeof *plan)
        CHECK(memcmp(before + sizeof *plan, plan + 1, bytes - sizeof *plan) == 0);
    widen(&p, sizeof p, path);
    widen(&l, sizeof l, limits);
    widen(&s, sizeof s, socket);
    if (result == 0 && bytes >= sizeof *plan)
        check_plan(plan, &p, &l, &s);
    free(before);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    size_t cap = (size_t)take(&in, 2) % 1024;
    uint32_t how = (uint32_t)take(&in, 1), intent = how % 8 == 7 ? how : how & 49;
    uint64_t expected_bytes = take_number(&in), rate_bit_per_s = take_number(&in);
    struct autobuf_limits *limits = take_struct(&in, sizeof *limits, 1);
    struct autobuf_socket *socket = take_struct(&in, sizeof *socket, 2);
    struct autobuf_plan *plan = take_struct(&in, sizeof *plan, 4);

    for (unsigned made = 0; made < 2; made++) { /* any plan, then one of the planner's */
        check_explain(plan, cap);
        for (unsigned index = 0; index < 3; index++)
            check_sysctl(plan, limits, index, cap);
        if (!made)
            check_make(&in, limits, socket, plan, expected_bytes, intent);
    }
    check_worth(limits, socket, rate_bit_per_s, expected_bytes, intent);
    free(plan);
    free(socket);
    free(limits);
    return 0;
}
