/* SPDX-License-Identifier: MIT */
/* tools/daemon/manager.c: how long a connection is looked after, and what each user may have. */
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/managed.h"
#include "daemon/log.h"
#include "paths/store.h"
#include "sockets.h"

#define SO_COOKIE_NUMBER 57
#define NS_PER_S 1000000000ULL
#define LOOK_S 10U

/* One connection over loopback, and all that manages it. */
struct scene {
    struct connection c;
    struct config config;
    struct state state;
    struct keep keep;
    struct manager manager;
    struct known *known;
    uint64_t now_ns;
};

static int changed_when_told = -1; /* a socket whose program sets its receive buffer as soon as something is said */
static unsigned open_most;         /* so many descriptors were open when something was said */
static unsigned told_shares;       /* so often somebody was said to have the share of one user */
static unsigned told_memory;       /* so often TCP was said to hold too much */

static void say(const char *line)
{
    int bytes = 30000;
    unsigned open = open_descriptors();

    told_shares += strstr(line, "may have no more") != NULL;
    told_memory += strstr(line, "no buffer is forced") != NULL;
    open_most = open > open_most ? open : open_most;
    if (changed_when_told >= 0)
        assert_int_equal(setsockopt(changed_when_told, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    changed_when_told = -1;
}

static void wrong(void *user, unsigned line, const char *text)
{
    (void)user;
    fail_msg("%u: %s", line, text);
}

static struct endpoint endpoint_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct endpoint e = {.version = 4};

    assert_int_equal(name(fd, (struct sockaddr *)&address, &length), 0);
    memcpy(e.address, &address.sin_addr, 4);
    e.port = ntohs(address.sin_port);
    return e;
}

static void open_scene(struct scene *s, char *rules)
{
    FILE *file = fmemopen(rules, strlen(rules), "r");

    *s = (struct scene){.c = tcp_connection(), .now_ns = autobuf_now_ns()};
    assert_non_null(file);
    assert_int_equal(config_read(file, &s->config, wrong, NULL), 0);
    fclose(file);
    manager_open(&s->manager, &s->state, &s->keep);
    assert_int_equal(manager_rules(&s->manager, &s->config, s->now_ns), 0);
}

static void take(struct scene *s, int fd, struct seen seen)
{
    struct owner owner = {.pid = getpid(), .fd = fd};
    socklen_t length = sizeof seen.cookie;

    seen.who.local = endpoint_of(fd, getsockname);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE_NUMBER, &seen.cookie, &length), 0);
    s->known = table_make(&s->manager.table, seen.cookie);
    assert_non_null(s->known);
    owner.cookie = seen.cookie;
    manager_begin(&s->manager, &seen, &owner);
    if (s->manager.counts.refused[REPORT_NOT_PERMITTED])
        SKIP("this process may not borrow a descriptor");
}

/* Begins to look after the client's end, by these rules. */
static void begin(struct scene *s, char *rules)
{
    open_scene(s, rules);
    take(s, s->c.client, (struct seen){.moved_bytes = 1000000, .who.remote = endpoint_of(s->c.client, getpeername)});
    assert_int_equal(s->manager.count, 1);
    s->known->state = KNOWN_TENDED;
}

static void finish(struct scene *s)
{
    manager_close(&s->manager);
    table_free(&s->manager.table);
    config_free(&s->config);
    close_connection(&s->c);
}

static void let_pass(struct scene *s, unsigned seconds)
{
    for (unsigned done = 0; done < seconds; done += LOOK_S) {
        s->now_ns += LOOK_S * NS_PER_S;
        manager_step(&s->manager, s->now_ns);
    }
}

static void move_something(struct scene *s)
{
    char data[100] = "";

    assert_int_equal(send(s->c.client, data, sizeof data, 0), sizeof data);
    assert_int_equal(recv(s->c.accepted, data, sizeof data, MSG_WAITALL), sizeof data);
}

static void one_that_moves_something_now_and_then_is_kept(void **state)
{
    struct scene s;
    char rules[] = "[all]\nmode=auto\nintent=low-delay\n";

    (void)state;
    begin(&s, rules);
    for (unsigned i = 0; i < 4; i++) {
        move_something(&s);
        let_pass(&s, 250);
        assert_int_equal(s.manager.count, 1);
    }
    finish(&s);
}

static void one_that_is_idle_is_let_go(void **state)
{
    struct scene s;
    char rules[] = "[all]\nmode=auto\nintent=low-delay\n";

    (void)state;
    begin(&s, rules);
    move_something(&s);
    let_pass(&s, 320);
    assert_int_equal(s.manager.count, 0);
    assert_int_equal(s.known->state, KNOWN_WAITS); /* it may come back */
    finish(&s);
}

static void one_that_has_a_share_is_kept(void **state)
{
    struct scene s;
    char rules[] = "[all]\nmode=auto\ndivide=1M\n";

    (void)state;
    begin(&s, rules);
    let_pass(&s, 1000);
    assert_int_equal(s.manager.count, 1);
    finish(&s);
}

/* It is looked at again only if it has other sizes than it was left with. */
static void a_listener_that_changes_as_soon_as_we_tell_is_seen_to_have_changed(void **state)
{
    struct scene s;
    char rules[] = "[all]\nmode=auto\n";
    int bytes = 20000, left, now;
    socklen_t length = sizeof now;

    (void)state;
    open_scene(&s, rules);
    assert_int_equal(setsockopt(s.c.listener, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    assert_int_equal(setsockopt(s.c.listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    changed_when_told = s.c.listener;
    open_most = 0;
    take(&s, s.c.listener, (struct seen){0});
    if (option_of(s.c.listener, SO_BUF_LOCK) < 0)
        SKIP("needs SO_BUF_LOCK (Linux 5.15)");
    assert_int_equal(changed_when_told, -1);
    assert_int_equal(s.known->state, KNOWN_WAITS);
    /* who reads the log may keep us waiting, but not the program's close() */
    assert_int_equal(open_most, open_descriptors());
    left = (int)s.known->rcv_buf_bytes;
    assert_int_equal(getsockopt(s.c.listener, SOL_SOCKET, SO_RCVBUF, &now, &length), 0);
    assert_int_equal(now, 60000);
    assert_int_not_equal(left, now);
    finish(&s);
}

/* Takes connections of this user until there is no room for one more. So many were taken. */
static unsigned fill(struct scene *s, struct connection *c, uint32_t user)
{
    for (unsigned i = 0;; i++) {
        size_t before = s->manager.count;

        assert_true(i < MANAGED_MOST);
        c[i] = tcp_connection();
        take(s, c[i].client, (struct seen){.moved_bytes = 1000000, .who.user = user,
                                           .who.remote = endpoint_of(c[i].client, getpeername)});
        if (s->manager.count > before)
            continue;
        assert_int_equal(s->known->state, KNOWN_WAITS);
        assert_true(s->known->next_bytes > 1000000);
        close_connection(&c[i]);
        return i;
    }
}

static void sweep_of_none(struct scene *s)
{
    users_begin(&s->manager.users);
    manager_sweep_ends(&s->manager);
}

/* Forces what a rule asks for on a new connection of this user. sk_sndbuf then. */
static uint64_t forced(struct scene *s, struct connection *c, uint32_t user)
{
    *c = tcp_connection();
    take(s, c->client, (struct seen){.moved_bytes = 1000000, .who.user = user,
                                     .who.remote = endpoint_of(c->client, getpeername)});
    return (uint64_t)option_of(c->client, SO_SNDBUF);
}

/* What a sweep saw counts, not what the library can count itself, and so does what was forced since. */
static void no_user_has_all_that_may_be_forced(void **state)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
    struct connection c[3];
    struct scene s;
    struct seen seen = {.who = {.remote.version = 4, .user = 1000}, .inode = 1};
    char rules[] = "[all]\nmode=fixed\nsndbuf=1000M\n";
    uint64_t all_bytes, unforced_bytes;

    (void)state;
    assert_int_equal(autobuf_limits_host(&l), 0);
    all_bytes = l.tcp_mem_bytes / 2;
    unforced_bytes = 2 * l.snd_settable_bytes > l.tcp_wmem_max_bytes ? 2 * l.snd_settable_bytes : l.tcp_wmem_max_bytes;
    if (!(l.flags & AUTOBUF_LIMITS_FORCE) || all_bytes < 32 * unforced_bytes || l.tcp_used_bytes > all_bytes / 4)
        SKIP("not permitted to force a buffer, or nothing is left to force");
    open_scene(&s, rules);
    told_shares = 0;
    sweep_of_none(&s);
    seen.snd_buf_bytes = (uint32_t)(all_bytes / 4);
    users_begin(&s.manager.users);
    manager_sees(&s.manager, &seen);
    manager_sweep_ends(&s.manager);
    assert_int_equal(s.manager.counts.forced_bytes, all_bytes / 4);
    assert_int_equal(told_shares, 0);
    assert_in_range(forced(&s, &c[0], 1000), all_bytes / 4 - 200, all_bytes / 4);
    assert_in_range(forced(&s, &c[1], 1000), 0, unforced_bytes);
    assert_in_range(forced(&s, &c[2], 1001), all_bytes / 4 - 200, all_bytes / 4);
    for (unsigned i = 0; i < 2; i++) {
        users_begin(&s.manager.users);
        manager_sees(&s.manager, &seen);
        manager_sees(&s.manager, &seen);
        seen.inode = 0; /* whose it was is not known any more */
        manager_sees(&s.manager, &seen);
        seen.inode = 1;
        manager_sweep_ends(&s.manager);
        assert_int_equal(s.manager.counts.forced_bytes, all_bytes / 4 * 3);
        assert_int_equal(s.manager.counts.full_forced, 1);
        assert_int_equal(told_shares, 1);
    }
    for (unsigned i = 0; i < 3; i++)
        close_connection(&c[i]);
    finish(&s);
}

static void what_tcp_holds_is_told(void **state)
{
    static const struct {
        unsigned percent; /* of what may be forced with it */
        unsigned told;
    } sweeps[] = {{40, 0}, {99, 1}, {100, 1}, {200, 1}, {60, 1}, {99, 1}, {40, 1}, {99, 2}};
    struct scene s;
    char rules[] = "[all]\nmode=auto\n";

    (void)state;
    open_scene(&s, rules);
    s.manager.limits = (struct autobuf_limits){
        .size = sizeof s.manager.limits, .flags = AUTOBUF_LIMITS_FORCE, .tcp_mem_bytes = 2000000000,
        .snd_settable_bytes = 4194304, .rcv_settable_bytes = 4194304,
        .tcp_wmem_max_bytes = 33554432, .tcp_rmem_max_bytes = 33554432,
    };
    told_memory = 0;
    for (size_t i = 0; i < COUNT(sweeps); i++) {
        s.manager.limits.tcp_used_bytes = sweeps[i].percent * 10000000ULL;
        users_begin(&s.manager.users);
        manager_sweep_ends(&s.manager);
        assert_int_equal(told_memory, sweeps[i].told);
    }
    finish(&s);
}

/* With half of all for one, the next one has half of the rest, and so on. */
static void no_user_has_all_connections(void **state)
{
    struct scene s;
    struct connection c[4][MANAGED_MOST];
    char rules[] = "[all]\nmode=auto\nintent=low-delay\n";
    unsigned counts[4];

    (void)state;
    open_scene(&s, rules);
    told_shares = 0;
    for (uint32_t user = 0; user < 4; user++) {
        counts[user] = fill(&s, c[user], 1000 + user);
        assert_int_equal(counts[user], MANAGED_MOST >> (user + 1));
        assert_int_equal(s.manager.counts.refused[REPORT_FULL], user + 1);
        sweep_of_none(&s);
        sweep_of_none(&s);
        assert_int_equal(told_shares, user + 1);
        assert_int_equal(s.manager.counts.full_connections, user + 1);
    }
    for (unsigned i = 0; i < counts[0]; i++)
        close_connection(&c[0][i]);
    let_pass(&s, 10);
    sweep_of_none(&s);
    assert_int_equal(s.manager.counts.full_connections, 0);
    assert_int_equal(fill(&s, c[0], 1000), 4); /* of the 9 that are left */
    sweep_of_none(&s);
    assert_int_equal(s.manager.counts.full_connections, 2);
    assert_int_equal(told_shares, 5); /* of the one that had nothing in between */
    for (unsigned user = 0; user < 4; user++)
        for (unsigned i = 0; i < (user ? counts[user] : 4); i++)
            close_connection(&c[user][i]);
    finish(&s);
}

static void mode_path_looks_where_the_rules_say(void **state)
{
    static const struct {
        char rules[64];
        const char *file;
    } rows[] = {{"[all]\nmode=path\n", "/tmp/named"},
                {"store=/tmp/other\n[all]\nmode=path\n", "/tmp/other"},
                {"store=off\n[all]\nmode=path\n", ""}};

    (void)state;
    assert_int_equal(setenv("AUTOBUF_PATHS", "/tmp/named", true), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char rules[sizeof rows[i].rules];
        struct scene s;

        memcpy(rules, rows[i].rules, sizeof rules);
        open_scene(&s, rules);
        assert_string_equal(ab_paths_own() ? ab_paths_own() : "", rows[i].file);
        finish(&s);
    }
    assert_int_equal(unsetenv("AUTOBUF_PATHS"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mode_path_looks_where_the_rules_say),
        cmocka_unit_test(one_that_moves_something_now_and_then_is_kept),
        cmocka_unit_test(one_that_is_idle_is_let_go),
        cmocka_unit_test(one_that_has_a_share_is_kept),
        cmocka_unit_test(a_listener_that_changes_as_soon_as_we_tell_is_seen_to_have_changed),
        cmocka_unit_test(no_user_has_all_connections),
        cmocka_unit_test(no_user_has_all_that_may_be_forced),
        cmocka_unit_test(what_tcp_holds_is_told),
    };

    log_to(say);
    return cmocka_run_group_tests_name("manager", tests, NULL, NULL);
}
