/* SPDX-License-Identifier: MIT */
/* tools/daemon/withhold.c: the kernel's part of the daemon chooses as rules.c does. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/withhold.h"

#include "../../../preload/sizes.h"

#define ROUNDS 20000U

static void no_mistake(void *user, unsigned line, const char *text)
{
    (void)user;
    fail_msg("%u: %s", line, text);
}

static struct config read_good(const char *text)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    struct config config;

    assert_non_null(file);
    assert_int_equal(config_read(file, &config, no_mistake, NULL), 0);
    fclose(file);
    return config;
}

static struct withhold_end end_of(const struct endpoint *end)
{
    struct withhold_end to = {.version = end->version, .port = end->port};

    memcpy(to.address, end->address, end->version == 4 ? 4 : 16);
    return to;
}

static struct withhold_subject subject_of(const struct subject *s)
{
    struct withhold_subject to = {.local = end_of(&s->local), .remote = end_of(&s->remote), .user = s->user};

    memcpy(to.program, s->program, strlen(s->program));
    memcpy(to.unit, s->unit, strlen(s->unit));
    return to;
}

/* The place of the rule that counts; -1: none, or it does not act. */
static int found(const struct withhold_table *table, const struct withhold_rule *rules,
                 const struct withhold_subject *s)
{
    if (withhold_is_among(&table->stop_ports, s->local.port) || withhold_is_among(&table->stop_ports, s->remote.port))
        return -1;
    for (uint32_t i = 0; i < table->count; i++)
        if (withhold_decides(&rules[i], s))
            return rules[i].sides ? (int)i : -1;
    return -1;
}

static int expected(const struct config *config, const struct subject *s)
{
    const struct rule *rule = rules_find(config, s);

    return rule && rule->mode != MODE_OFF ? (int)(rule - config->rules) : -1;
}

/* Few values each, so that all conditions hold now and then. */
static struct endpoint any_end(void)
{
    static const char *const addresses[] = {"192.0.2.1",   "192.0.2.129",     "198.51.100.7",
                                            "2001:db8::1", "2001:db8:0:1::1", "::192.0.2.1"};
    struct autobuf_prefix prefix;
    struct endpoint end = {.port = (uint16_t)(rand() % 12)};

    assert_int_equal(autobuf_prefix_parse(addresses[rand() % 6], &prefix), 0);
    memcpy(end.address, prefix.address, sizeof end.address);
    end.version = prefix.version;
    return end;
}

static void it_chooses_as_the_daemon_does(void **state)
{
    static const char *const programs[] = {"curl", "curl2", "fifteen-letters"}, *const units[] = {"", "a.service",
                                                                                                  "b.service"};
    struct config config = read_good("stop_ports=9\n"
                                     "[0]\nremote=192.0.2.0/25\nlocal_port=1-2,5\nuser=0\nmode=off\n"
                                     "[1]\nprogram=curl\nlocal=2001:db8::/63\nremote_port=1,2,3,4,5,6,7,8\n"
                                     "[2]\nunit=a.service\nremote=192.0.2.129\nmode=path\n"
                                     "[3]\nprogram=fifteen-letters-and-more\nremote=192.0.2.0/24\nmode=off\n"
                                     "[4]\nremote=::/1\nuser=0\n"
                                     "[5]\nprogram=curl2\nunit=b.service\nmode=off\n"
                                     "[6]\nremote=198.51.100.0/31\n"
                                     "[7]\nlocal=0.0.0.0/0\nremote_port=3-11\n");
    struct withhold_rule rules[WITHHOLD_RULES];
    struct withhold_table table;
    unsigned counts[9] = {0};

    (void)state;
    withhold_fill(&config, &table, rules);
    assert_int_equal(table.count, 8);
    srand(1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct subject s = {.local = any_end(),
                            .remote = any_end(),
                            .user = (uint32_t)(rand() % 2),
                            .program = programs[rand() % 3],
                            .unit = units[rand() % 3]};
        struct withhold_subject seen = subject_of(&s);
        int rule = found(&table, rules, &seen);

        assert_int_equal(rule, expected(&config, &s));
        counts[rule + 1]++;
    }
    assert_true(counts[0] && counts[2] && counts[3] && counts[5] &&
                counts[8]); /* each that acts but [6], where no address is */
    assert_int_equal(counts[7], 0);
    config_free(&config);
}

static void which_sides_are_withheld(void **state)
{
    static const struct {
        const char *text;
        bool dry_run;
        uint32_t sides;
    } rows[] = {
        {"[a]\n", false, WITHHOLD_SND | WITHHOLD_RCV},
        {"[a]\nmode=path\n", false, WITHHOLD_SND | WITHHOLD_RCV},
        {"[a]\nmax=1M\nintent=low-delay\n", false, WITHHOLD_SND | WITHHOLD_RCV | WITHHOLD_NEAR},
        {"[a]\nmode=fixed\nrcvbuf=1M\n", false, WITHHOLD_RCV},
        {"[a]\nmode=fixed\nsndbuf=1M\ncc=reno\n", false, WITHHOLD_SND},
        {"[a]\nmode=off\n", false, 0},
        {"[a]\ndivide=1M\n", false, 0},
        {"[a]\ndry_run=yes\n", false, 0},
        {"dry_run=yes\n[a]\n", false, 0},
        {"[a]\n", true, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = read_good(rows[i].text);
        struct withhold_rule rules[WITHHOLD_RULES];
        struct withhold_table table;

        if (rows[i].dry_run)
            config_set_dry(&config);
        withhold_fill(&config, &table, rules);
        if (rules[0].sides != rows[i].sides)
            fail_msg("%s", rows[i].text);
        config_free(&config);
    }
}

/* Before a connection only the process is known: a size may be withheld for a rule that then does not match. */
static void ends_that_are_not_known(void **state)
{
    static const struct {
        const char *text;
        int rule;
    } rows[] = {
        {"[0]\n", 0},
        {"[0]\nremote=192.0.2.0/24\n", 0},
        {"[0]\nremote=192.0.2.0/24\nmode=off\n[1]\n", 1},
        {"[0]\nlocal_port=22\nmode=off\n[1]\nremote_port=7\n", 1},
        {"[0]\nprogram=curl\nmode=off\n[1]\n", -1},
        {"[0]\nprogram=other\nmode=off\n[1]\n", 1},
        {"stop_ports=22\n[0]\n", 0},
    };
    struct withhold_subject s = {.user = 1000};

    (void)state;
    memcpy(s.program, "curl", 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = read_good(rows[i].text);
        struct withhold_rule rules[WITHHOLD_RULES];
        struct withhold_table table;

        withhold_fill(&config, &table, rules);
        if (found(&table, rules, &s) != rows[i].rule)
            fail_msg("%s", rows[i].text);
        config_free(&config);
    }
}

/* As preload/sizes.c decides for programs that `autobuf run` runs. */
static void both_decide_alike(const struct autobuf_limits *limits, const struct withhold_table *table)
{
    for (unsigned side = 0; side < WITHHOLD_SIDES; side++) {
        uint32_t lock = side ? AUTOBUF_LOCK_RCV : AUTOBUF_LOCK_SND;

        for (uint32_t value = 1; value < 1U << 30; value += value / 4 + 1) {
            uint32_t stored = withhold_stored(table, side, value);

            assert_int_equal(stored, run_size_stored(limits, lock, (int)value));
            assert_int_equal(stored < table->reach_bytes[side], stored < run_size_reach(limits, lock));
            for (uint32_t rtt_us = 0; rtt_us < 20000; rtt_us = rtt_us * 3 / 2 + 1)
                assert_int_equal(withhold_is_enough(stored, rtt_us), run_size_is_enough(stored, 1000ULL * rtt_us));
        }
    }
}

static void which_sizes_are_small(void **state)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct withhold_table table;

    (void)state;
    limits.snd_settable_bytes = 212992;
    limits.rcv_settable_bytes = 4194304;
    limits.tcp_wmem_max_bytes = 4194304;
    limits.tcp_rmem_default_bytes = 131072;
    limits.tcp_rmem_max_bytes = 6291456;
    withhold_fill_limits(&limits, &table);
    assert_int_equal(table.reach_bytes[1], 131072); /* without autotuning */
    both_decide_alike(&limits, &table);
    limits.flags = AUTOBUF_LIMITS_RCV_AUTOTUNING;
    withhold_fill_limits(&limits, &table);
    assert_int_equal(table.reach_bytes[0], 4194304);
    assert_int_equal(table.reach_bytes[1], 6291456);
    both_decide_alike(&limits, &table);
    assert_int_equal(withhold_stored(&table, 0, 1000000), 425984);
    assert_int_equal(withhold_stored(&table, 1, 1000000), 2000000);
    assert_int_equal(withhold_stored(&table, 0, 1), 4608);
    assert_int_equal(withhold_stored(&table, 1, 1), 2304);
    assert_int_equal(withhold_stored(&table, 1, (uint32_t)-1), 2 * 4194304);
    assert_true(withhold_is_enough(131072, 26) && !withhold_is_enough(131072, 27)); /* 64 KB in 26 us */
    assert_true(withhold_is_enough(UINT32_MAX, 10000) && !withhold_is_enough(UINT32_MAX, 10001) &&
                !withhold_is_enough(UINT32_MAX, 0));
}

static void too_many_are_left_out(void **state)
{
    struct rule *many = calloc(WITHHOLD_RULES + 1, sizeof *many);
    struct config config = {.rules = many, .count = WITHHOLD_RULES + 1};
    struct withhold_rule rules[WITHHOLD_RULES];
    struct withhold_table table = {.withheld = 3, .generation = 1};

    (void)state;
    assert_non_null(many);
    withhold_fill(&config, &table, rules);
    assert_int_equal(table.count, WITHHOLD_RULES);
    assert_true(table.withheld == 3 && table.generation == 1);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_chooses_as_the_daemon_does),
        cmocka_unit_test(which_sides_are_withheld),
        cmocka_unit_test(ends_that_are_not_known),
        cmocka_unit_test(which_sizes_are_small),
        cmocka_unit_test(too_many_are_left_out),
    };

    return cmocka_run_group_tests_name("withhold", tests, NULL, NULL);
}
