/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "trees.h"

#define ADVICE "etc/sysctl.d/90-autobuf.conf"
#define RMEM "net.ipv4.tcp_rmem"
#define NOW_RMEM "proc/sys/net/ipv4/tcp_rmem"
#define NOW_WMEM "proc/sys/net/ipv4/tcp_wmem"
#define NOW_MEM "proc/sys/net/ipv4/tcp_mem"

struct said {
    int status;
    char *out, *err;
};

static struct said check(const char *file, bool json)
{
    struct said s = {0};
    size_t bytes;
    FILE *out = open_memstream(&s.out, &bytes), *err = open_memstream(&s.err, &bytes);

    s.status = check_file(tree, file, json, out, err);
    fclose(out);
    fclose(err);
    return s;
}

static void forget(struct said *s)
{
    free(s->out);
    free(s->err);
}

/* Each cause alone, in a tree in which the line would be in force without it. */
static void each_cause(void **state)
{
    static const struct {
        const char *name, *path, *text; /* what is added */
        const char *now;                /* of tcp_rmem; NULL: not there */
        bool inner, fixed;
        const char *state, *cause, *said; /* said: in the text */
    } rows[] = {
        {"in force", NULL, NULL, "4096 131072 16777216", false, false, "in-force", NULL, "in force\n"},
        {"larger", NULL, NULL, "4096 131072 33554432", false, false, "in-force", NULL, "1 of 1 lines in force"},
        {"a later file", "etc/sysctl.d/99-x.conf", RMEM " = 4096 131072 6291456\n", "4096 131072 6291456", false, false,
         "undone", "later-file", "(/etc/sysctl.d/99-x.conf, line 1)"},
        {"also in /usr", "usr/lib/sysctl.d/99-x.conf", "\n" RMEM " = 4096 131072 6291456\n", "4096 131072 6291456",
         false,
         false, "undone", "later-file", "(/usr/lib/sysctl.d/99-x.conf, line 2)"},
        {"sysctl.conf", "etc/sysctl.conf", RMEM " = 1 2 3\n", "1 2 3", false, false, "undone", "later-file",
         "sysctl.conf"},
        {"from the next start on", "etc/sysctl.d/99-x.conf", RMEM " = 1 2 3\n", "4096 131072 16777216", false, false,
         "undone", "later-file", "in force until the next start"},
        {"an earlier file", "etc/sysctl.d/10-x.conf", RMEM " = 4096 131072 6291456\n", "4096 131072 16777216", false,
         false,
         "in-force", NULL, "1 of 1"},
        {"a later file with more", "etc/sysctl.d/99-x.conf", RMEM " = 4096 131072 67108864\n", "4096 131072 67108864",
         false,
         false, "in-force", NULL, "1 of 1"},
        {"tuned", "usr/lib/tuned/nt/tuned.conf", "[sysctl]\n" RMEM "=\"4096 131072 8388608\"\n", "4096 131072 8388608",
         false,
         false, "undone", "tuned", "(/usr/lib/tuned/nt/tuned.conf, line 2)"},
        {"not tuned, which has another", "usr/lib/tuned/nt/tuned.conf", "[sysctl]\n" RMEM "=\"4096 131072 8388608\"\n",
         "4096 131072 6291456", false, false, "missing", "not-applied", "sysctl --system"},
        {"never applied", NULL, NULL, "4096 131072 6291456", false, false, "missing", "not-applied", "sysctl --system"},
        {"a namespace", NULL, NULL, "4096 131072 6291456", true, false, "missing", "namespace", "container"},
        {"that cannot be written", NULL, NULL, "4096 131072 6291456", false, true, "missing", "read-only",
         "on the host"},
        {"that the kernel has not", NULL, NULL, NULL, false, false, "missing", "no-sysctl", "on the host"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool good = strcmp(rows[i].state, "in-force") == 0;
        struct said json, text;
        char wanted[128];

        tree_begin();
        tree_file(ADVICE, "# advice\n" RMEM " = 4096 131072 16777216\n");
        tree_file("etc/tuned/active_profile", "nt\n");
        tree_file(NOW_WMEM, "4096\t16384\t4194304\n");
        if (!rows[i].inner)
            tree_file(NOW_MEM, "1\t2\t3\n");
        if (rows[i].path)
            tree_file(rows[i].path, "%s", rows[i].text);
        if (rows[i].now)
            tree_file(NOW_RMEM, "%s\n", rows[i].now);
        if (rows[i].fixed)
            tree_mode(NOW_RMEM, 0444);
        json = check(NULL, true);
        text = check(NULL, false);
        snprintf(wanted, sizeof wanted, "\"state\":\"%s\",\"cause\":%s%s%s,", rows[i].state, rows[i].cause ? "\"" : "",
                 rows[i].cause ? rows[i].cause : "null", rows[i].cause ? "\"" : "");
        CHECK(rows[i].name, strstr(json.out, wanted) != NULL);
        CHECK(rows[i].name, strstr(json.out, good ? "\"in_force\":true" : "\"in_force\":false") != NULL);
        CHECK(rows[i].name, strstr(text.out, rows[i].said) != NULL);
        CHECK_EQUAL(rows[i].name, json.status, good ? EXIT_RESULT : EXIT_NOTHING);
        CHECK_EQUAL(rows[i].name, text.status, json.status);
        CHECK_EQUAL(rows[i].name, json.err[0] + text.err[0], 0);
        forget(&json);
        forget(&text);
        tree_end();
    }
}

/*
 * A file that is in no folder of sysctl.d; a host of which nothing can be read; and a switch, of which more is not
 * enough.
 */
static void other_files_and_hosts(void **state)
{
    char path[256];
    struct said s;

    (void)state;
    tree_begin();
    tree_file("home/advice", "net.ipv4.tcp_window_scaling = 1\n" RMEM " = 4096 131072 16777216\n");
    snprintf(path, sizeof path, "%s/home/advice", tree);
    s = check(path, true);
    assert_int_equal(s.status, EXIT_NOTHING);
    assert_non_null(strstr(s.out, "\"now\":null,\"state\":\"missing\",\"cause\":\"hidden\""));
    forget(&s);
    tree_file("proc/sys/net/ipv4/tcp_window_scaling", "2\n");
    tree_file(NOW_RMEM, "4096 131072 16777216\n");
    tree_file(NOW_WMEM, "1 2 3\n");
    s = check(path, true);
    assert_int_equal(s.status, EXIT_NOTHING);
    assert_non_null(strstr(s.out, "\"now\":\"2\",\"state\":\"missing\",\"cause\":\"no-file\""));
    assert_non_null(strstr(s.out, "\"now\":\"4096 131072 16777216\",\"state\":\"in-force\",\"cause\":\"no-file\""));
    forget(&s);
    tree_file("proc/sys/net/ipv4/tcp_window_scaling", "1\n");
    s = check(path, false); /* as docker run --sysctl does it */
    assert_int_equal(s.status, EXIT_RESULT);
    forget(&s);
    tree_end();
}

/* What anybody may have written. */
static void advice_that_is_none(void **state)
{
    static const char *const texts[] = {"not a line\n", "../../etc/shadow = 1\n", "net.ipv4.tcp_rmem = \033[2J\n",
                                        "net.ipv4..x=1\n"};
    char path[256];
    struct said s;
    FILE *file;

    (void)state;
    tree_begin();
    s = check(NULL, false);
    assert_int_equal(s.status, EXIT_NOTHING);
    assert_non_null(strstr(s.err, "explain --sysctl"));
    forget(&s);
    for (size_t i = 0; i < COUNT(texts); i++) {
        tree_file(ADVICE, "# first\n%s", texts[i]);
        s = check(NULL, true);
        CHECK_EQUAL(texts[i], s.status, EXIT_NOTHING);
        CHECK(texts[i], s.out[0] == '\0' && strstr(s.err, "line 2") && !strchr(s.err, '\033'));
        forget(&s);
    }
    snprintf(path, sizeof path, "%s/" ADVICE, tree);
    file = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("net.a = 1\n", file);
    fclose(file);
    s = check(NULL, false);
    assert_int_equal(s.status, EXIT_NOTHING);
    assert_non_null(strstr(s.err, "line 65"));
    forget(&s);
    s = check(tree, false); /* a folder */
    assert_int_equal(s.status, EXIT_NOTHING);
    assert_non_null(strstr(s.err, "no ordinary file"));
    forget(&s);
    tree_file(ADVICE, "# This host's limits are enough for this path.\n");
    s = check(NULL, true);
    assert_int_equal(s.status, EXIT_RESULT);
    forget(&s);
    tree_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause), cmocka_unit_test(other_files_and_hosts), cmocka_unit_test(advice_that_is_none),
    };

    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
