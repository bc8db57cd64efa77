/* SPDX-License-Identifier: MIT */
/* tools/daemon/act.c: what is kept of an act, told, counted and said. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/act.h"
#include "daemon/log.h"

static char said[16384];
static unsigned lines;

static void hear(const char *line)
{
    strcat(said, line);
    strcat(said, "\n");
    lines++;
}

static const struct owner owner = {.pid = 42, .fd = 7, .program = "mover"};
static struct rule rule = {.name = "all"};

static const struct autobuf_event set = {.what = AUTOBUF_EVENT_SET, .text = "send: set"};

static struct account begin(struct report_counts *counts, bool dry_run)
{
    struct account account = {.counts = counts};

    log_to(hear);
    log_go_on();
    said[0] = '\0';
    lines = 0;
    rule.dry_run = dry_run;
    account_about(&account, -1, &owner, &rule);
    return account;
}

/* A dry run says the same, and that it was one, and counts nothing. */
static void parts_are_one_line(void **state)
{
    (void)state;
    for (int dry_run = 0; dry_run < 2; dry_run++) {
        struct report_counts counts = {0};
        struct account account = begin(&counts, dry_run);

        account_part(&account, &set);
        account_part(&account, &(struct autobuf_event){.what = AUTOBUF_EVENT_PACED, .text = "pace 80 Mbit/s"});
        account_line(&account, &(struct autobuf_event){.what = ACT_CONTROL, .text = "sets congestion control bbr"});
        account_tell(&account);
        assert_int_equal(lines, 0); /* a descriptor is still held */
        log_go_on();
        assert_int_equal(lines, 2);
        assert_non_null(strstr(said, "mover[42]:7 "));
        assert_non_null(
            strstr(said, dry_run ? "[all] dry run: send: set; pace 80 Mbit/s\n" : "[all] send: set; pace 80 Mbit/s\n"));
        assert_non_null(strstr(said, "sets congestion control bbr\n"));
        assert_int_equal(counts.actions[REPORT_BUFFERS], !dry_run);
        assert_int_equal(counts.actions[REPORT_PACE], !dry_run);
        assert_int_equal(counts.actions[REPORT_CONTROL], !dry_run);
        log_go_on();
        assert_int_equal(lines, 2); /* said once */
    }
}

static void what_was_kept_of_another_socket_is_lost(void **state)
{
    struct report_counts counts = {0};
    struct account account = begin(&counts, false);

    (void)state;
    account_part(&account, &set);
    account_about(&account, -1, &owner, &rule);
    account_tell(&account);
    log_go_on();
    assert_int_equal(lines, 0);
    assert_int_equal(counts.actions[REPORT_BUFFERS], 0);
}

static void a_failure_is_counted_and_said(void **state)
{
    struct report_counts counts = {0};
    struct account account = begin(&counts, false);

    (void)state;
    account_failed(&account, -EPERM);
    log_go_on();
    assert_int_equal(counts.failed_actions, 1);
    assert_non_null(strstr(said, autobuf_strerror(-EPERM)));
}

/* Each kind once, however many events an act has; what only says what is known, or is refused, is none. */
static void what_is_counted(void **state)
{
    static const struct {
        struct autobuf_event event;
        int kind; /* -1: none */
    } rows[] = {
        {{.what = AUTOBUF_EVENT_NOTE}, -1},
        {{.what = AUTOBUF_EVENT_KNOWN}, -1},
        {{.what = AUTOBUF_EVENT_MEASURED}, -1},
        {{.what = AUTOBUF_EVENT_LEFT}, -1},
        {{.what = AUTOBUF_EVENT_SET}, REPORT_BUFFERS},
        {{.what = AUTOBUF_EVENT_GIVEN_BACK}, REPORT_GIVEN_BACK},
        {{.what = AUTOBUF_EVENT_RESIZED}, REPORT_BUFFERS},
        {{.what = AUTOBUF_EVENT_PACED}, REPORT_PACE},
        {{.what = AUTOBUF_EVENT_UNSENT}, REPORT_OTHER},
        {{.what = AUTOBUF_EVENT_WINDOW}, REPORT_OTHER},
        {{.what = ACT_CONTROL}, REPORT_CONTROL},
        {{.what = ACT_CONTROL, .error = -EPERM}, -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct report_counts counts = {0};
        struct account account = begin(&counts, false);
        struct autobuf_event event = rows[i].event;

        event.text = "text";
        account_part(&account, &event);
        account_part(&account, &event);
        account_tell(&account);
        account_tell(&account); /* counted once */
        for (int kind = 0; kind < REPORT_KINDS; kind++)
            assert_int_equal(counts.actions[kind], kind == rows[i].kind);
        assert_int_equal(counts.failed_actions, event.error ? 2 : 0);
    }
}

/* Of what is too long for the account the beginning is told, up to the end of a word, wherever the room ends. */
static void long_texts_are_cut(void **state)
{
    static const char first[] = "xxxxxxxxxxxx";

    (void)state;
    for (size_t begun = 1; begun < sizeof first; begun++) {
        struct report_counts counts = {0};
        struct account account = begin(&counts, false);

        account_part(&account, &(struct autobuf_event){.text = first + sizeof first - 1 - begun});
        account_part(&account, &(struct autobuf_event){.what = AUTOBUF_EVENT_SET, .text = "begins"});
        for (unsigned i = 0; i < 100; i++)
            account_part(&account, &(struct autobuf_event){.text = "0123456789"});
        assert_in_range(strlen(account.text), sizeof account.text - 16, sizeof account.text - 1);
        account_tell(&account);
        log_go_on();
        assert_int_equal(lines, 1);
        assert_non_null(strstr(said, "; begins; 0123456789; "));
        assert_string_equal(said + strlen(said) - 16, " 0123456789;...\n");
        assert_int_equal(counts.actions[REPORT_BUFFERS], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_one_line),
        cmocka_unit_test(what_was_kept_of_another_socket_is_lost),
        cmocka_unit_test(a_failure_is_counted_and_said),
        cmocka_unit_test(what_is_counted),
        cmocka_unit_test(long_texts_are_cut),
    };

    return cmocka_run_group_tests_name("account", tests, NULL, NULL);
}
