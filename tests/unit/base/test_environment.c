/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"

static void only_off_switches_off(void **state)
{
    static const struct {
        const char *value; /* NULL: not in the environment */
        bool off;
    } rows[] = {
        {NULL, false}, {"off", true},  {"", false},     {"OFF", false}, {"of", false},
        {"off ", false}, {" off", false}, {"on", false}, {"0", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        ab_environment_read(rows[i].value);
        CHECK_EQUAL(rows[i].value ? rows[i].value : "unset", autobuf_is_off(), rows[i].off);
    }
    ab_environment_read(NULL);
}

static void a_program_may_print_its_own_log(void **state)
{
    static const struct {
        const char *value;
        bool own, logs;
    } rows[] = {
        {NULL, false, false}, {"off", false, false}, {"log", true, false}, {"log=/dev/null", false, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *name = rows[i].value ? rows[i].value : "unset";

        ab_environment_read(rows[i].value);
        for (int call = 0; call < 2; call++) {
            CHECK_EQUAL(name, autobuf_log_own(), rows[i].own);
            CHECK_EQUAL(name, ab_environment_logs(), rows[i].logs);
        }
    }
    ab_environment_read(NULL);
}

static const char *text_of(const char *path)
{
    static char text[1000];
    FILE *file = fopen(path, "r");
    size_t len;

    if (!file)
        return "";
    len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    fclose(file);
    return text;
}

static void become_standard_error(int fd)
{
    assert_int_equal(dup2(fd, 2), 2);
}

static void log_goes_to_what_standard_error_was(void **state)
{
    char first[] = "/tmp/autobuf.XXXXXX", second[] = "/tmp/autobuf.XXXXXX", wanted[200];
    int own = dup(2), one = mkstemp(first), other = mkstemp(second);
    struct ab_log none = {NULL, NULL};

    (void)state;
    assert_true(own > 2 && one > 2 && other > 2);
    become_standard_error(one);
    ab_environment_read("log");
    autobuf_log_line("first");
    become_standard_error(other); /* a program's data, perhaps */
    autobuf_log_line("not here");
    ab_log(&none, "nor this");
    become_standard_error(one);
    autobuf_log_line("again");
    close(2);
    autobuf_log_line("nowhere");
    ab_environment_read("log"); /* loaded without a standard error */
    become_standard_error(other);
    autobuf_log_line("not here");
    ab_environment_read(NULL);
    become_standard_error(own);
    snprintf(wanted, sizeof wanted, "autobuf[%d]: first\nautobuf[%d]: again\n", getpid(), getpid());
    assert_string_equal(text_of(first), wanted);
    assert_string_equal(text_of(second), "");
    unlink(first);
    unlink(second);
    close(own);
    close(one);
    close(other);
}

/* Whether a line arrives if standard error is fd. */
static bool is_logged_to(int fd, int reader)
{
    char text[100];
    int own = dup(2);

    become_standard_error(fd);
    ab_environment_read("log");
    autobuf_log_line("a line");
    ab_environment_read(NULL);
    become_standard_error(own);
    close(own);
    return recv(reader, text, sizeof text, MSG_DONTWAIT) > 0;
}

/* As under inetd. The socket of systemd's journal is no connection. */
static void no_line_goes_into_a_connection(void **state)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), server, ends[2];
    socklen_t length = sizeof here;

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&here, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&here, &length), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&here, length), 0);
    server = accept(listener, NULL, NULL);
    assert_false(is_logged_to(server, client));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_true(is_logged_to(ends[0], ends[1]));
    for (int i = 0; i < 5; i++)
        close((int[]){listener, client, server, ends[0], ends[1]}[i]);
}

static void log_to(const int ends[2])
{
    int own = dup(2);

    become_standard_error(ends[1]);
    ab_environment_read("log");
    close(ends[0]);
    autobuf_log_line("lost");
    ab_environment_read(NULL);
    become_standard_error(own);
    close(own);
    close(ends[1]);
}

static void log_to_a_closed_pipe(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    log_to(ends);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    log_to(ends);
}

static void log_to_a_full_pipe(void **state)
{
    int ends[2], reader, flags;
    char data[4096] = "";

    (void)state;
    assert_int_equal(pipe(ends), 0);
    reader = dup(ends[0]);
    flags = fcntl(ends[1], F_GETFL);
    fcntl(ends[1], F_SETFL, flags | O_NONBLOCK);
    while (write(ends[1], data, sizeof data) > 0)
        ;
    fcntl(ends[1], F_SETFL, flags);
    log_to(ends);
    close(reader);
}

static void files_that_may_not_grow(void **state)
{
    char name[] = "/tmp/autobuf.XXXXXX", value[64];
    struct rlimit were, few;

    (void)state;
    close(mkstemp(name));
    snprintf(value, sizeof value, "log=%s", name);
    ab_environment_read(value);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &were), 0);
    few = (struct rlimit){10, were.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    autobuf_log_line("lost");
    assert_false(ab_file_may_have(11));
    assert_true(ab_file_may_have(10));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &were), 0);
    ab_environment_read(NULL);
    assert_string_equal(text_of(name), "");
    unlink(name);
}

/* The descriptor of the file is 2 then. */
static void log_file_where_standard_error_is_closed(void **state)
{
    char name[] = "/tmp/autobuf.XXXXXX", value[64], wanted[100];
    int own = dup(2);

    (void)state;
    close(mkstemp(name));
    snprintf(value, sizeof value, "log=%s", name);
    ab_environment_read(value);
    close(2);
    autobuf_log_line("a line");
    assert_int_equal(fcntl(2, F_GETFD), -1);
    ab_environment_read(NULL);
    become_standard_error(own);
    close(own);
    snprintf(wanted, sizeof wanted, "autobuf[%d]: a line\n", getpid());
    assert_string_equal(text_of(name), wanted);
    unlink(name);
}

static void log_of_the_environment(void **state)
{
    char folder[] = "/tmp/autobuf.XXXXXX", file[64], link[64], value[80], wanted[200];
    struct ab_log none = {NULL, NULL};

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/log", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(file, link), 0);

    snprintf(value, sizeof value, "log=%s", file);
    ab_environment_read(value);
    ab_log(&none, "send: %s", "set");
    autobuf_log_line("again");
    autobuf_log_line(NULL);
    snprintf(wanted, sizeof wanted, "autobuf[%d]: send: set\nautobuf[%d]: again\n", getpid(), getpid());
    assert_string_equal(text_of(file), wanted);
    ab_environment_read("off");
    ab_log(&none, "not this");
    autobuf_log_line("not this");
    ab_environment_read("log="); /* no name */
    assert_false(ab_environment_logs());
    snprintf(value, sizeof value, "log=%s", link); /* somebody else may have put it there */
    ab_environment_read(value);
    ab_log(&none, "nor this");
    assert_string_equal(text_of(file), wanted);
    snprintf(value, sizeof value, "log=%s/none/log", folder);
    ab_environment_read(value);
    assert_true(ab_environment_logs());
    ab_log(&none, "nor this"); /* no folder is made for it, and no other file is written */
    assert_int_equal(access(value + strlen("log="), F_OK), -1);
    assert_string_equal(text_of(file), wanted);
    ab_environment_read(NULL);
    assert_false(ab_environment_logs());
    unlink(file);
    unlink(link);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_off_switches_off),
        cmocka_unit_test(a_program_may_print_its_own_log),
        cmocka_unit_test(log_file_where_standard_error_is_closed),
        cmocka_unit_test(log_of_the_environment),
        cmocka_unit_test(no_line_goes_into_a_connection),
        cmocka_unit_test(log_to_a_closed_pipe),
        cmocka_unit_test(log_to_a_full_pipe),
        cmocka_unit_test(files_that_may_not_grow),
        cmocka_unit_test(log_goes_to_what_standard_error_was),
    };

    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
