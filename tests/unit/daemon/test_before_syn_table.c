/* SPDX-License-Identifier: MIT */
/* tools/daemon/before_syn_table: the kernel's part of the daemon chooses as rules.c does. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/before_syn_table.h"
#include "daemon/config.h"

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

static struct before_syn_end end_of(const struct endpoint *end)
{
    struct before_syn_end to = {.version = end->version, .port = end->port};

    memcpy(to.address, end->address, end->version == 4 ? 4 : 16);
    return to;
}

static struct before_syn_subject subject_of(const struct subject *s)
{
    struct before_syn_subject to = {.local = end_of(&s->local), .remote = end_of(&s->remote), .user = s->user};

    memcpy(to.program, s->program, strlen(s->program));
    memcpy(to.unit, s->unit, strlen(s->unit));
    return to;
}

/* The place of the rule that counts; -1: none, or it does not act. */
static int found(const struct before_syn_table *table, const struct before_syn_rule *rules,
                 const struct before_syn_subject *s)
{
    if (before_syn_is_among(&table->stop_ports, s->local.port) ||
        before_syn_is_among(&table->stop_ports, s->remote.port))
        return -1;
    for (uint32_t i = 0; i < table->count; i++)
        if (before_syn_matches(&rules[i], s))
            return rules[i].acts ? (int)i : -1;
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
    struct before_syn_rule rules[BEFORE_SYN_RULES];
    struct before_syn_table table;
    unsigned counts[9] = {0};

    (void)state;
    before_syn_fill(&config, false, &table, rules);
    assert_int_equal(table.count, 8);
    srand(1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct subject s = {.local = any_end(), .remote = any_end(), .user = (uint32_t)(rand() % 2),
                            .program = programs[rand() % 3],
                            .unit = units[rand() % 3]};
        struct before_syn_subject seen = subject_of(&s);
        int rule = found(&table, rules, &seen);

        assert_int_equal(rule, expected(&config, &s));
        counts[rule + 1]++;
    }
    /* each that acts but [6], where no address is */
    assert_true(counts[0] && counts[2] && counts[3] && counts[5] && counts[8]);
    assert_int_equal(counts[7], 0);
    config_free(&config);
}

static void which_rules_act(void **state)
{
    static const struct {
        const char *text;
        bool dry_run, acts;
    } rows[] = {
        {"[a]\n", false, true},
        {"[a]\nmode=path\n", false, true},
        {"[a]\nmax=1M\nintent=low-delay\n", false, true},
        {"[a]\nmode=fixed\nrcvbuf=1M\n", false, true},
        {"[a]\nmode=fixed\nsndbuf=1M\ncc=reno\n", false, false},
        {"[a]\nmode=off\n", false, false},
        {"[a]\ndivide=1M\n", false, false},
        {"[a]\ndry_run=yes\n", false, false},
        {"dry_run=yes\n[a]\n", false, false},
        {"[a]\n", true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config config = read_good(rows[i].text);
        struct before_syn_rule rules[BEFORE_SYN_RULES];
        struct before_syn_table table;

        before_syn_fill(&config, rows[i].dry_run, &table, rules);
        if (rules[0].acts != rows[i].acts)
            fail_msg("%s", rows[i].text);
        config_free(&config);
    }
}

static void too_many_are_left_out(void **state)
{
    struct rule *many = calloc(BEFORE_SYN_RULES + 1, sizeof *many);
    struct config config = {.rules = many, .count = BEFORE_SYN_RULES + 1};
    struct before_syn_rule rules[BEFORE_SYN_RULES];
    struct before_syn_table table = {.raised = 3, .generation = 1, .namespace_cookie = 7};

    (void)state;
    assert_non_null(many);
    before_syn_fill(&config, false, &table, rules);
    assert_int_equal(table.count, BEFORE_SYN_RULES);
    assert_true(table.raised == 3 && table.generation == 1 && table.namespace_cookie == 7);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_chooses_as_the_daemon_does),
        cmocka_unit_test(which_rules_act),
        cmocka_unit_test(too_many_are_left_out),
    };

    return cmocka_run_group_tests_name("before_syn_table", tests, NULL, NULL);
}
