/* SPDX-License-Identifier: MIT */
#include "managed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../lib/base/option.h"
#include "../../lib/kernel/socket.h"
#include "../../lib/kernel/tcp_diag.h"
#include "learn.h"

#define WAIT_NS 3000000000ULL /* for the kernel's last word: a FIN that is lost is sent again within a second or two */
#define HOLDS_S 86400U        /* as a measurement does */
#define ENDED_MOST 512U       /* messages of connections that ended that one step reads */

struct lesson {
    struct lesson *next; /* in its bucket */
    uint64_t cookie;
    struct autobuf_prefix remote;
    struct learn learn;
    struct ab_tcpinfo final; /* as far as it is known */
    uint64_t until_ns;        /* 0: it goes on */
    bool closed;              /* the kernel has told its last word */
};

void lessons_open(struct lessons *lessons, struct keep *keep)
{
    *lessons = (struct lessons){.keep = keep, .group = ab_tcp_diag_open_ended()};
}

static struct lesson **bucket_of(struct lessons *lessons, uint64_t cookie)
{
    return &lessons->buckets[cookie & (LESSON_BUCKETS - 1)]; /* the kernel counts them */
}

static bool is_set(int copy, int option)
{
    int value;

    return ab_get_int(copy, SOL_SOCKET, option, &value) == 0 && value;
}

struct lesson *lessons_begin(struct lessons *lessons, uint64_t cookie, const struct endpoint *remote,
                             uint64_t autotuning_bytes, int copy)
{
    struct lesson *lesson, **bucket = bucket_of(lessons, cookie);

    /* as SO_BINDTODEVICE sets it, too */
    if (!lessons->keep->file[0] || is_set(copy, SO_MARK) || is_set(copy, SO_BINDTOIFINDEX))
        return NULL;
    lesson = calloc(1, sizeof *lesson);
    if (!lesson)
        return NULL;
    lesson->cookie = cookie;
    lesson->learn.autotuning_bytes = autotuning_bytes;
    lesson->remote.version = remote->version;
    lesson->remote.bits = remote->version == 4 ? 32 : 128;
    memcpy(lesson->remote.address, remote->address, remote->version == 4 ? 4 : 16);
    lesson->next = *bucket;
    *bucket = lesson;
    return lesson;
}

void lessons_sample(struct lesson *lesson, int copy, const struct autobuf_live_state *state, uint64_t now_ns)
{
    if (!lesson || ab_socket_info(copy, &lesson->final) < 0)
        return;
    learn_sample(&lesson->learn, state, &lesson->final, now_ns);
}

static void conclude(struct lessons *lessons, const struct lesson *lesson)
{
    struct autobuf_paths_entry entry;

    if (!learn_end(&lesson->learn, &lesson->final, &lesson->remote, &entry))
        return;
    entry.learned_s = (uint64_t)time(NULL);
    entry.expires_s = entry.learned_s + HOLDS_S;
    lessons->keep->counts.connections++;
    keep_learned(lessons->keep, &entry, KEEP_MOST);
}

/* All places of what is to be written are taken. So many lessons may wait until they are free; the rest is lost. */
static bool waits_for_store(const struct lessons *lessons)
{
    return lessons->keep->count == KEEP_MOST && lessons->ended <= LESSON_BUCKETS;
}

/* All that are over: the kernel has told, or had its time. */
static void conclude_bucket(struct lessons *lessons, struct lesson **at, uint64_t now_ns)
{
    while (*at) {
        struct lesson *lesson = *at;

        if (!lesson->until_ns || (!lesson->closed && now_ns < lesson->until_ns) || waits_for_store(lessons)) {
            at = &lesson->next;
            continue;
        }
        conclude(lessons, lesson);
        *at = lesson->next;
        free(lesson);
        lessons->ended--;
    }
}

void lessons_end(struct lessons *lessons, struct lesson *lesson, uint64_t now_ns)
{
    if (!lesson)
        return;
    lessons->ended++;
    lesson->until_ns = lessons->group < 0 ? now_ns : now_ns + WAIT_NS;
    conclude_bucket(lessons, bucket_of(lessons, lesson->cookie), now_ns);
}

/* The kernel's last word of a connection. */
static void take(void *user, const struct ab_tcp_diag *told)
{
    struct lessons *lessons = user;
    struct ab_tcpinfo final;

    if (!told->info || !ab_tcpinfo_parse(told->info, told->info_bytes, &final))
        return;
    for (struct lesson *lesson = *bucket_of(lessons, told->cookie); lesson; lesson = lesson->next) {
        if (lesson->cookie != told->cookie)
            continue;
        lesson->final = final;
        lesson->closed = true;
    }
}

void lessons_step(struct lessons *lessons, uint64_t now_ns)
{
    uint64_t began_ns = cost_cpu_ns();

    if (lessons->group >= 0)
        (void)ab_tcp_diag_ended(lessons->group, ENDED_MOST, take, lessons);
    for (size_t i = 0; lessons->ended && i < LESSON_BUCKETS; i++)
        conclude_bucket(lessons, &lessons->buckets[i], now_ns);
    lessons->keep->counts.cpu_ns += cost_cpu_ns() - began_ns;
}

void lessons_close(struct lessons *lessons)
{
    for (size_t i = 0; lessons->ended; i = (i + 1) % LESSON_BUCKETS) {
        if (lessons->keep->count == KEEP_MOST)
            keep_close(lessons->keep);
        conclude_bucket(lessons, &lessons->buckets[i], UINT64_MAX);
    }
    if (lessons->group >= 0)
        close(lessons->group);
}
