/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sysctls.h"
#include "trees.h"

static void lines_are_taken_apart(void **state)
{
    static const struct {
        const char *line;
        enum sysctl_parsed is;
        const char *name, *value;
    } rows[] = {
        {"net.ipv4.tcp_rmem = 4096 131072 16777216\n", SYSCTL_SET, "net.ipv4.tcp_rmem", "4096 131072 16777216"},
        {"net.ipv4.tcp_rmem=4096 131072 16777216", SYSCTL_SET, "net.ipv4.tcp_rmem", "4096 131072 16777216"},
        {"  -net/ipv4/tcp_rmem\t=\t4096\t131072\t\t1 ", SYSCTL_SET, "net.ipv4.tcp_rmem", "4096 131072 1"},
        {"net.ipv4.tcp_rmem = \"4096 131072 1\"\r\n", SYSCTL_SET, "net.ipv4.tcp_rmem", "4096 131072 1"},
        {"include=a, b\n", SYSCTL_SET, "include", "a, b"},
        {"# net.ipv4.tcp_rmem = 1 2 3", SYSCTL_NOTHING, NULL, NULL},
        {" ; net.ipv4.tcp_rmem = 1 2 3", SYSCTL_NOTHING, NULL, NULL},
        {" \t\n", SYSCTL_NOTHING, NULL, NULL},
        {"", SYSCTL_NOTHING, NULL, NULL},
        {"net.ipv4.tcp_rmem", SYSCTL_WRONG, NULL, NULL},
        {"net.ipv4.tcp_rmem =", SYSCTL_WRONG, NULL, NULL},
        {"= 1", SYSCTL_WRONG, NULL, NULL},
        {"net.ipv4..tcp_rmem = 1", SYSCTL_WRONG, NULL, NULL},
        {"../../etc/passwd = 1", SYSCTL_WRONG, NULL, NULL},
        {"net/../../etc/passwd = 1", SYSCTL_WRONG, NULL, NULL},
        {"/etc/passwd = 1", SYSCTL_WRONG, NULL, NULL},
        {"net/ipv4.x = 1", SYSCTL_WRONG, NULL, NULL},
        {"net.ipv4.tcp_*mem = 1", SYSCTL_WRONG, NULL, NULL},
        {"net.x = \033[2J", SYSCTL_WRONG, NULL, NULL},
        {"\xff\xfe = 1", SYSCTL_WRONG, NULL, NULL},
    };
    char line[256];
    struct sysctl_setting found;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_EQUAL(rows[i].line, sysctls_parse(rows[i].line, &found), rows[i].is);
        CHECK(rows[i].line, !rows[i].name || strcmp(found.name, rows[i].name) == 0);
        CHECK(rows[i].line, !rows[i].name || strcmp(found.value, rows[i].value) == 0);
    }
    for (size_t len = 1; len < 200; len++) { /* names and values that just fit, and longer ones */
        snprintf(line, sizeof line, "%0*d=1", (int)len, 0);
        CHECK_EQUAL(line, sysctls_parse(line, &found), len < SYSCTL_NAME_BYTES ? SYSCTL_SET : SYSCTL_WRONG);
        snprintf(line, sizeof line, "a=%0*d", (int)len, 0);
        CHECK_EQUAL(line, sysctls_parse(line, &found), len < SYSCTL_VALUE_BYTES ? SYSCTL_SET : SYSCTL_WRONG);
    }
}

/* Which of two files sets it, as systemd-sysctl(8) and sysctl(8) have it. */
static void the_order_of_files(void **state)
{
    static const struct {
        const char *first, *second, *last; /* NULL: neither */
    } rows[] = {
        {"etc/sysctl.d/10-a.conf", "etc/sysctl.d/90-b.conf", "etc/sysctl.d/90-b.conf"},
        {"etc/sysctl.d/10-a.conf", "usr/lib/sysctl.d/90-b.conf", "usr/lib/sysctl.d/90-b.conf"},
        {"usr/lib/sysctl.d/10-a.conf", "etc/sysctl.d/10-a.conf", "etc/sysctl.d/10-a.conf"},
        {"run/sysctl.d/10-a.conf", "etc/sysctl.d/10-a.conf", "etc/sysctl.d/10-a.conf"},
        {"usr/local/lib/sysctl.d/10-a.conf", "run/sysctl.d/10-a.conf", "run/sysctl.d/10-a.conf"},
        {"lib/sysctl.d/10-a.conf", "usr/lib/sysctl.d/10-a.conf", "usr/lib/sysctl.d/10-a.conf"},
        {"etc/sysctl.conf", "usr/lib/sysctl.d/zz.conf", "etc/sysctl.conf"},
        {"etc/sysctl.d/10-a.conf", "etc/sysctl.d/90-b.txt", "etc/sysctl.d/10-a.conf"},
        {"etc/sysctl.d/90-b.txt", "home/sysctl.d/90-b.conf", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sysctl_setting found;

        tree_begin();
        tree_file(rows[i].first, "a.b = 1\na.b = %s\n", "first");
        tree_file(rows[i].second, "#\na.b = second\n");
        CHECK_EQUAL(rows[i].first, sysctls_last(tree, "a.b", &found), rows[i].last != NULL);
        CHECK(rows[i].first, !rows[i].last || strcmp(found.file + 1, rows[i].last) == 0);
        CHECK(rows[i].first, !rows[i].last || strcmp(found.value,
                                                     rows[i].last == rows[i].first ? "first" : "second") == 0);
        CHECK(rows[i].first, !rows[i].last || found.line == 2);
        assert_false(sysctls_last(tree, "a.c", &found));
        tree_end();
    }
}

/* A file that is masked, or that cannot be one, sets nothing. */
static void files_that_set_nothing(void **state)
{
    char path[256];
    struct sysctl_setting found;

    (void)state;
    tree_begin();
    tree_file("usr/lib/sysctl.d/10-a.conf", "a.b = 1\n");
    assert_true(sysctls_last(tree, "a.b", &found));
    tree_file("etc/sysctl.d/none", "%s", "");
    snprintf(path, sizeof path, "%s/etc/sysctl.d/10-a.conf", tree);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_false(sysctls_last(tree, "a.b", &found));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* and nobody writes: it must not wait */
    assert_false(sysctls_last(tree, "a.b", &found));
    assert_int_equal(unlink(path), 0);
    tree_file("etc/sysctl.d/10-a.conf", "a.x = %0600d\na.b = 2\n", 0); /* a line that is too long is none */
    assert_true(sysctls_last(tree, "a.b", &found));
    assert_string_equal(found.value, "2");
    assert_int_equal(found.line, 2);
    tree_end();
}

static void profiles_of_tuned(void **state)
{
    struct sysctl_setting found;

    (void)state;
    tree_begin();
    tree_file("usr/lib/tuned/base/tuned.conf", "[main]\nsummary=x\n[sysctl]\na.b=\"1 2 3\"\na.c = 4\n[net]\na.d=1\n");
    tree_file("usr/lib/tuned/profiles/net/tuned.conf", "[main]\ninclude=base\n[sysctl]\na.b=5\n");
    tree_file("usr/lib/tuned/loop/tuned.conf", "[main]\ninclude=loop, base, ../base\n");
    assert_false(sysctls_tuned(tree, "a.b", &found));
    tree_file("etc/tuned/active_profile", "net\n");
    assert_true(sysctls_tuned(tree, "a.b", &found));
    assert_string_equal(found.value, "5");
    assert_true(sysctls_tuned(tree, "a.c", &found));
    assert_string_equal(found.file, "/usr/lib/tuned/base/tuned.conf");
    assert_false(sysctls_tuned(tree, "a.d", &found));
    tree_file("etc/tuned/base/tuned.conf", "[sysctl]\na.b=6\n");
    assert_false(sysctls_tuned(tree, "a.c", &found));
    tree_file("etc/tuned/active_profile", "loop\n");
    assert_true(sysctls_tuned(tree, "a.b", &found));
    assert_string_equal(found.value, "6");
    tree_file("etc/tuned/active_profile", "%s", "../../x\n");
    assert_false(sysctls_tuned(tree, "a.b", &found));
    tree_end();
}

static void what_the_kernel_has(void **state)
{
    char value[SYSCTL_VALUE_BYTES];

    (void)state;
    tree_begin();
    tree_file("proc/sys/a/b", "4096\t131072\t6291456\n");
    assert_true(sysctls_now(tree, "a.b", value));
    assert_string_equal(value, "4096 131072 6291456");
    assert_false(sysctls_fixed(tree, "a.b"));
    tree_mode("proc/sys/a/b", 0444);
    assert_true(sysctls_fixed(tree, "a.b"));
    assert_false(sysctls_now(tree, "a.c", value));
    assert_false(sysctls_fixed(tree, "a.c"));
    tree_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_taken_apart), cmocka_unit_test(the_order_of_files),
        cmocka_unit_test(files_that_set_nothing), cmocka_unit_test(profiles_of_tuned),
        cmocka_unit_test(what_the_kernel_has),
    };

    return cmocka_run_group_tests_name("sysctls", tests, NULL, NULL);
}
