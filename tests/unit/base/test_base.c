/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <unistd.h>
#include "base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/file.h"

/* What this side knows; the other side's may end earlier or later. */
struct known {
    uint32_t size;
    uint32_t a;
    uint64_t b;
};

#define FILL 0xa5
#define ROOM_BYTES 64

static const struct size_row {
    const char *name;
    uint32_t size;
    bool ok;
} size_rows[] = {
    {"no size at all", 0, false},
    {"one byte short of the size itself", 3, false},
    {"only the size", 4, true},
    {"cut inside a field", 6, true},
    {"older: first field only", 8, true},
    {"cut inside the last field", 15, true},
    {"the same", sizeof(struct known), true},
    {"newer: a field more", sizeof(struct known) + 8, true},
    {"newer: much more", ROOM_BYTES, true},
};

static void struct_out_writes_what_both_know(void **state)
{
    const struct known ours = {sizeof ours, 0x11111111, 0x2222222222222222};

    (void)state;
    for (size_t i = 0; i < COUNT(size_rows); i++) {
        const struct size_row *row = &size_rows[i];
        unsigned char theirs[ROOM_BYTES], expected[ROOM_BYTES];
        size_t both = row->size < sizeof ours ? row->size : sizeof ours;

        memset(theirs, FILL, sizeof theirs);
        memcpy(theirs, &row->size, sizeof row->size);
        memcpy(expected, theirs, sizeof expected);
        if (row->ok && both > sizeof row->size)
            memcpy(expected + sizeof row->size, (const char *)&ours + sizeof row->size,
                   both - sizeof row->size);
        CHECK_EQUAL(row->name, ab_struct_out(theirs, &ours, sizeof ours), row->ok);
        CHECK(row->name, memcmp(theirs, expected, sizeof expected) == 0);
    }
}

static void struct_in_reads_what_both_know(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(size_rows); i++) {
        const struct size_row *row = &size_rows[i];
        unsigned char theirs[ROOM_BYTES], before[ROOM_BYTES];
        struct known ours, expected = {sizeof ours, 0, 0};
        size_t both = row->size < sizeof ours ? row->size : sizeof ours;

        memset(theirs, FILL, sizeof theirs);
        memcpy(theirs, &row->size, sizeof row->size);
        memcpy(before, theirs, sizeof before);
        memset(&ours, 0x77, sizeof ours);
        if (row->ok && both > sizeof row->size)
            memset((char *)&expected + sizeof row->size, FILL, both - sizeof row->size);
        CHECK_EQUAL(row->name, ab_struct_in(&ours, sizeof ours, theirs), row->ok);
        CHECK(row->name, memcmp(theirs, before, sizeof before) == 0);
        if (row->ok)
            CHECK(row->name, memcmp(&ours, &expected, sizeof ours) == 0);
    }
}

/* A struct of any size becomes ours as far as it goes, and zero beyond; nothing behind it is written. */
static void struct_init_writes_the_size_that_it_is_told(void **state)
{
    const struct known ours = {sizeof ours, 0x11111111, 0x2222222222222222};

    (void)state;
    for (size_t i = 0; i < COUNT(size_rows); i++) {
        const struct size_row *row = &size_rows[i];
        unsigned char theirs[ROOM_BYTES + 8], expected[ROOM_BYTES + 8];
        size_t both = row->size < sizeof ours ? row->size : sizeof ours;

        memset(theirs, FILL, sizeof theirs);
        memcpy(expected, theirs, sizeof expected);
        if (row->ok) {
            memset(expected, 0, row->size);
            memcpy(expected, &ours, both);
            memcpy(expected, &row->size, sizeof row->size);
        }
        ab_struct_init(theirs, row->size, &ours, sizeof ours);
        CHECK(row->name, memcmp(theirs, expected, sizeof expected) == 0);
    }
}

static void no_struct_is_no_struct(void **state)
{
    struct known ours = {sizeof ours, 1, 2};

    (void)state;
    assert_false(ab_struct_out(NULL, &ours, sizeof ours));
    assert_false(ab_struct_in(&ours, sizeof ours, NULL));
    assert_true(ours.a == 1 && ours.b == 2);
    ab_struct_init(NULL, sizeof ours, &ours, sizeof ours);
}

static void mul_div_does_not_overflow(void **state)
{
    static const struct {
        const char *name;
        uint64_t a, b, c, result;
    } rows[] = {
        {"zero", 0, UINT64_MAX, 1, 0},
        {"rounds down", 7, 1, 2, 3},
        {"below one", 1, 1, UINT64_MAX, 0},
        {"product fits", 100, 10, 8, 125},
        {"product of 65 bits", UINT64_MAX, 2, 4, UINT64_MAX / 2},
        {"product of 128 bits", UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {"result just fits", UINT64_MAX, 3, 3, UINT64_MAX},
        {"result of 2^64", 1ULL << 63, 2, 1, UINT64_MAX},
        {"result of 2^64 - 2", (1ULL << 63) - 1, 2, 1, UINT64_MAX - 1},
        {"result does not fit", UINT64_MAX, UINT64_MAX, 1, UINT64_MAX},
        {"10 Gbit/s for 1000 s", 10000000000ULL, 1000000000000ULL, 8000000000ULL, 1250000000000ULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_EQUAL(rows[i].name, ab_mul_div(rows[i].a, rows[i].b, rows[i].c), rows[i].result);
        CHECK_EQUAL(rows[i].name, ab_mul_div(rows[i].b, rows[i].a, rows[i].c), rows[i].result);
    }
}

/* Modulo 2^64 the rest of a division is exact: it has to be below the divisor. */
static void mul_div_leaves_a_rest_below_the_divisor(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t a = unit_random(&seed) >> (unit_random(&seed) % 64);
        uint64_t b = unit_random(&seed) >> (unit_random(&seed) % 64);
        uint64_t c = (unit_random(&seed) >> (unit_random(&seed) % 64)) | 1;
        uint64_t result = ab_mul_div(a, b, c);

        if (result == UINT64_MAX)
            assert_true(b > UINT64_MAX / a);
        else
            assert_true(a * b - result * c < c);
        assert_true(ab_mul_div(a, c, c) == a);
    }
}

static void min_and_max(void **state)
{
    (void)state;
    assert_true(ab_min(1, 2) == 1 && ab_min(2, 1) == 1 && ab_min(3, 3) == 3);
    assert_true(ab_max(1, 2) == 2 && ab_max(2, 1) == 2 && ab_max(3, 3) == 3);
    assert_true(ab_min(UINT64_MAX, 0) == 0 && ab_max(UINT64_MAX, 0) == UINT64_MAX);
    assert_true(ab_min_size(1, 2) == 1 && ab_min_size(2, 1) == 1 && ab_min_size(SIZE_MAX, 0) == 0);
}

struct heard {
    unsigned lines;
    char last[1024];
};

static void hear(void *user, const char *line)
{
    struct heard *heard = user;

    heard->lines++;
    snprintf(heard->last, sizeof heard->last, "%s", line);
}

static void log_hands_lines_to_the_callback(void **state)
{
    struct heard heard = {0, ""};
    const struct ab_log none = {NULL, &heard}, log = {hear, &heard};
    char text[600];

    (void)state;
    ab_log(&none, "%d", 1);
    assert_int_equal(heard.lines, 0);
    ab_log(&log, "%s: %d bytes", "plan", 42);
    assert_int_equal(heard.lines, 1);
    assert_string_equal(heard.last, "plan: 42 bytes");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ab_log(&log, "%s", text); /* longer than any line: cut, not overrun */
    assert_int_equal(heard.lines, 2);
    assert_true(strlen(heard.last) >= 80 && strlen(heard.last) < sizeof text - 1);
    assert_int_equal(strspn(heard.last, "x"), strlen(heard.last));
}

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

/* What is in a file, from its beginning. */
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

/* Makes descriptor 2 this one. */
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

/* A line where standard error is one end of these. */
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

/* SIGPIPE would end this test. */
static void log_that_nobody_reads(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    log_to(ends);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    log_to(ends);
}

/* Waiting would last for ever. */
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

/* SIGXFSZ would end this test. */
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

/* The file's descriptor is 2 then, as long as a line is written. */
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

static void own_errors_have_texts_of_their_own(void **state)
{
    static const int own[] = {AUTOBUF_E_NOREPLY, AUTOBUF_E_FEW, AUTOBUF_E_RESOLVE,
                              AUTOBUF_E_FORKED, AUTOBUF_E_OFF, AUTOBUF_E_CLAMPED, AUTOBUF_E_UNSUPPORTED,
                              AUTOBUF_E_PROTOCOL, AUTOBUF_E_DAMAGED, AUTOBUF_E_NEWER};
    const char *unknown = autobuf_strerror(-5000);

    (void)state;
    for (size_t i = 0; i < COUNT(own); i++) {
        const char *text = autobuf_strerror(own[i]);

        CHECK(text, own[i] < -4095); /* no errno is there */
        CHECK(text, text[0] != '\0');
        CHECK(text, strcmp(text, unknown) != 0);
        CHECK(text, strcmp(text, autobuf_strerror(0)) != 0);
        for (size_t k = 0; k < i; k++) {
            CHECK(text, own[i] != own[k]);
            CHECK(text, strcmp(text, autobuf_strerror(own[k])) != 0);
        }
    }
}

#ifdef __GLIBC__
#define TIMED_OUT "Connection timed out"
#define KNOWN_LEAST 125 /* Linux has 131 on most machines */
#else /* musl has other words, and none for what it thinks rare */
#define TIMED_OUT "Operation timed out"
#define KNOWN_LEAST 90
#endif

/* The words of errno(3), in English whatever the locale, and each errno its own. */
static void every_errno_has_a_text(void **state)
{
    static const struct {
        int error;
        const char *words;
    } rows[] = {
        {EPERM, "Operation not permitted"},       {EBADF, "Bad file descriptor"},
        {EINVAL, "Invalid argument"},             {ENODATA, "No data available"},
        {ETIMEDOUT, TIMED_OUT},                   {ECONNRESET, "Connection reset by peer"},
        {EACCES, "Permission denied"},            {4095, "unknown error"},
#ifdef __GLIBC__
        {EHWPOISON, "Memory page has hardware error"},
#endif
    };
    unsigned known = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK(rows[i].words, strstr(autobuf_strerror(-rows[i].error), rows[i].words));
    for (int error = 1; error <= 4095; error++) {
        const char *text = autobuf_strerror(-error);

        assert_true(text && text[0]);
        if (strcmp(text, "unknown error") == 0)
            continue;
        known++;
        for (int other = 1; other < error; other++)
            if (strcmp(autobuf_strerror(-other), text) == 0)
                fail_msg("%d and %d: %s", other, error, text);
    }
    assert_in_range(known, KNOWN_LEAST, 140);
}

static void any_value_has_a_text(void **state)
{
    static const int values[] = {-5000, -4095, INT_MIN, INT_MIN + 1, AUTOBUF_E_NEWER - 1};

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++)
        assert_string_equal(autobuf_strerror(values[i]), autobuf_strerror(-5000));
    assert_true(autobuf_strerror(-5000)[0] != '\0');
    assert_string_equal(autobuf_strerror(1), autobuf_strerror(0)); /* both are success */
    assert_string_equal(autobuf_strerror(INT_MAX), autobuf_strerror(0));
    assert_string_not_equal(autobuf_strerror(0), autobuf_strerror(-5000));
}

static void version_is_the_header_s(void **state)
{
    char expected[64];

    (void)state;
    snprintf(expected, sizeof expected, "%d.%d.%d", AUTOBUF_VERSION_MAJOR, AUTOBUF_VERSION_MINOR,
             AUTOBUF_VERSION_PATCH);
    assert_string_equal(autobuf_version(), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(struct_out_writes_what_both_know),
        cmocka_unit_test(struct_in_reads_what_both_know),
        cmocka_unit_test(struct_init_writes_the_size_that_it_is_told),
        cmocka_unit_test(no_struct_is_no_struct),
        cmocka_unit_test(mul_div_does_not_overflow),
        cmocka_unit_test(mul_div_leaves_a_rest_below_the_divisor),
        cmocka_unit_test(min_and_max),
        cmocka_unit_test(log_hands_lines_to_the_callback),
        cmocka_unit_test(only_off_switches_off),
        cmocka_unit_test(a_program_may_print_its_own_log),
        cmocka_unit_test(log_file_where_standard_error_is_closed),
        cmocka_unit_test(log_of_the_environment),
        cmocka_unit_test(log_that_nobody_reads),
        cmocka_unit_test(log_to_a_full_pipe),
        cmocka_unit_test(files_that_may_not_grow),
        cmocka_unit_test(log_goes_to_what_standard_error_was),
        cmocka_unit_test(own_errors_have_texts_of_their_own),
        cmocka_unit_test(every_errno_has_a_text),
        cmocka_unit_test(any_value_has_a_text),
        cmocka_unit_test(version_is_the_header_s),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
