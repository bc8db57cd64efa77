/* SPDX-License-Identifier: MIT */
/* tools/daemon/log.c: lines that wait. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "daemon/log.h"

static char said[20000];
static unsigned lines;

static void hear(const char *line)
{
    strcat(said, line);
    strcat(said, "\n");
    lines++;
}

static void lines_wait(void **state)
{
    (void)state;
    said[0] = '\0';
    lines = 0;
    log_line("one of %d", 3);
    assert_string_equal(said, "one of 3\n");
    log_wait();
    log_line("two");
    log_line("three");
    assert_int_equal(lines, 1);
    log_go_on();
    assert_string_equal(said, "one of 3\ntwo\nthree\n");
    log_go_on();
    assert_int_equal(lines, 3); /* once */
    log_line("four");
    assert_int_equal(lines, 4);
}

/* More than can wait at once: it is said before its time rather than lost. */
static void no_line_is_lost(void **state)
{
    (void)state;
    said[0] = '\0';
    lines = 0;
    log_wait();
    for (unsigned i = 0; i < 400; i++)
        log_line("a line that is not so short: number %u", i);
    assert_in_range(lines, 1, 399);
    log_go_on();
    assert_int_equal(lines, 400);
    assert_non_null(strstr(said, "number 0\n"));
    assert_non_null(strstr(said, "number 399\n"));
}

static void a_long_line_is_cut(void **state)
{
    static char text[10000];

    (void)state;
    said[0] = '\0';
    memset(text, 'x', sizeof text - 1);
    log_wait();
    log_line("%s", text);
    log_go_on();
    assert_in_range(strlen(said), 4097, sizeof text - 2); /* it has room for any file's name */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_wait),
        cmocka_unit_test(no_line_is_lost),
        cmocka_unit_test(a_long_line_is_cut),
    };

    log_to(hear);
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
