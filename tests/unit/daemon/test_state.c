/* SPDX-License-Identifier: MIT */
/* tools/daemon: what sockets were like before they were changed, in its file. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "daemon/state.h"

#define OTHER_USER 65534

static char folder[] = "/tmp/autobuf-tests.XXXXXX";
static char name[64];

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/state", folder);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(name);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct noted sample(uint64_t cookie, const char *control)
{
    struct noted noted = {.cookie = cookie, .settings = AUTOBUF_SETTINGS_INIT};

    noted.settings.locks = AUTOBUF_LOCK_SND;
    noted.settings.snd_buf_bytes = 131072 + cookie;
    noted.settings.rcv_buf_bytes = 2304;
    noted.settings.pacing_byte_per_s = UINT64_MAX;
    noted.settings.rcv_clamp_bytes = 65535;
    noted.settings.notsent_bytes = UINT32_MAX;
    snprintf(noted.control, sizeof noted.control, "%s", control);
    return noted;
}

static void check_same(const struct noted *found, const struct noted *kept)
{
    assert_non_null(found);
    assert_int_equal(found->cookie, kept->cookie);
    assert_string_equal(found->control, kept->control);
    assert_memory_equal(&found->settings, &kept->settings, sizeof kept->settings);
}

static struct state opened(void)
{
    struct state state;

    assert_int_equal(state_open(&state, name), 0);
    return state;
}

static void what_is_kept_is_found_again(void **unused)
{
    struct state state = opened();
    static const uint64_t cookies[] = {7, 3, UINT64_MAX, 1, 5};

    (void)unused;
    for (size_t i = 0; i < COUNT(cookies); i++) {
        struct noted noted = sample(cookies[i], i & 1 ? "bbr" : "");

        assert_int_equal(state_keep(&state, &noted, false), 0);
    }
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < COUNT(cookies); i++) {
            struct noted noted = sample(cookies[i], i & 1 ? "bbr" : "");

            check_same(state_find(&state, cookies[i]), &noted);
        }
        assert_null(state_find(&state, 2));
        assert_int_equal(state.count, COUNT(cookies));
        state_close(&state);
        state = opened();
    }
    state_close(&state);
}

/* A connection was changed already when it is changed again; a listener may have got new sizes from its program. */
static void the_first_stays_unless_it_is_anew(void **unused)
{
    struct state state = opened();
    struct noted first = sample(9, ""), second = sample(9, "reno");

    (void)unused;
    second.settings.snd_buf_bytes = 5000;
    assert_int_equal(state_keep(&state, &first, false), 0);
    assert_int_equal(state_keep(&state, &second, false), 0);
    strcpy(first.control, "reno"); /* which the first rules did not change */
    check_same(state_find(&state, 9), &first);
    state_close(&state);
    state = opened();
    check_same(state_find(&state, 9), &first);
    assert_int_equal(state_keep(&state, &second, true), 0);
    check_same(state_find(&state, 9), &second);
    state_close(&state);
    state = opened();
    check_same(state_find(&state, 9), &second);
    assert_int_equal(state.count, 1);
    state_close(&state);
}

static bool is_even(void *user, uint64_t cookie)
{
    (void)user;
    return cookie % 2 == 0;
}

static bool is_any(void *user, uint64_t cookie)
{
    (void)user;
    return cookie > 0;
}

static void check_pace(const struct state *state, uint64_t cookie, uint64_t own_byte_per_s)
{
    const struct noted *noted = state_find(state, cookie);

    assert_non_null(noted);
    assert_int_equal(noted->own_byte_per_s, own_byte_per_s);
}

/* Which sockets are paced, and what their programs allow, outlives a daemon that is killed. */
static void what_is_paced_is_known_again(void **unused)
{
    struct state state = opened();
    size_t lines;

    (void)unused;
    state_paced(&state, 1, 5000); /* is not kept */
    for (uint64_t cookie = 1; cookie <= 5; cookie++) {
        struct noted noted = sample(cookie, "");

        assert_int_equal(state_keep(&state, &noted, false), 0);
    }
    state_paced(&state, 2, UINT64_MAX);
    state_paced(&state, 3, 7000);
    state_paced(&state, 3, 8000); /* so its program says now */
    lines = state.lines;
    state_paced(&state, 3, 8000);
    assert_int_equal(state.lines, lines);
    state_paced(&state, 4, 9000);
    state_paced(&state, 4, 0);
    state_paced(&state, 5, 0);
    for (int again = 0; again < 3; again++) {
        struct noted noted = sample(3, "bbr");

        check_pace(&state, 1, 0);
        check_pace(&state, 2, UINT64_MAX);
        check_pace(&state, 3, 8000);
        check_pace(&state, 4, 0);
        check_pace(&state, 5, 0);
        assert_int_equal(state.count, 5);
        if (again == 1) {
            assert_int_equal(state_keep(&state, &noted, false), 0); /* more of it is kept */
            assert_int_equal(state_retain(&state, is_any, NULL), 0);
        }
        state_close(&state);
        state = opened();
    }
    state_paced(&state, 2, 0);
    state_paced(&state, 4, 100);
    state_close(&state);
    state = opened();
    check_pace(&state, 2, 0);
    check_pace(&state, 4, 100);
    state_close(&state);
}

static void what_is_of_no_use_goes(void **unused)
{
    struct state state = opened();

    (void)unused;
    for (uint64_t cookie = 1; cookie <= 100; cookie++) {
        struct noted noted = sample(cookie, "");

        assert_int_equal(state_keep(&state, &noted, false), 0);
        assert_int_equal(state_is_long(&state), cookie > 64);
    }
    assert_int_equal(state_retain(&state, is_even, NULL), 0);
    assert_false(state_is_long(&state));
    for (int again = 0; again < 2; again++) {
        struct noted noted = sample(42, "");

        assert_int_equal(state.count, 50);
        assert_int_equal(state.lines, 50);
        check_same(state_find(&state, 42), &noted);
        assert_null(state_find(&state, 43));
        assert_false(state_is_long(&state));
        state_close(&state);
        state = opened();
    }
    state_close(&state);
}

static void one_daemon_has_it(void **unused)
{
    struct state state = opened(), second;

    (void)unused;
    assert_int_equal(state_open(&second, name), -EWOULDBLOCK);
    assert_int_equal(state_retain(&state, is_even, NULL), 0); /* another file, locked as well */
    assert_int_equal(state_open(&second, name), -EWOULDBLOCK);
    state_close(&state);
    state = opened();
    state_close(&state);
}

/* The rules that named the file may be read anew. */
static void its_name_is_its_own(void **unused)
{
    char text[sizeof name];
    struct state state;

    (void)unused;
    strcpy(text, name);
    assert_int_equal(state_open(&state, text), 0);
    text[strlen(text) - 1] ^= 1;
    assert_int_equal(state_retain(&state, is_even, NULL), 0);
    assert_int_equal(access(text, F_OK), -1);
    assert_string_equal(state.file, name);
    state_close(&state);
}

static void append(const char *text, size_t length)
{
    FILE *file = fopen(name, "ab");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void lines_that_are_wrong_are_left_out(void **unused)
{
    static const char *const wrong[] = {
        "",
        "1",
        "1 1 5000 2304 1 1 1\n",
        "1 1 5000 2304 1 1 1 0 cubic more\n",
        "0 1 5000 2304 1 1 1 0 cubic\n",
        "1 4 5000 2304 1 1 1 0 cubic\n",
        "1 1 0 2304 1 1 1 0 cubic\n",
        "1 1 5000 0 1 1 1 0 cubic\n",
        "1 1 2147483648 2304 1 1 1 0 cubic\n",
        "1 1 5000 2304 18446744073709551616 1 1 0 cubic\n",
        "1 1 5000 2304 1 1 4294967296 0 cubic\n",
        "1 1 5000 2304 1 1 1 0 a-name-of-16-abc\n",
        "1 1 5000 2304 1 1 1 0 \x1b[31m\n",
        "-1 1 5000 2304 1 1 1 0 cubic\n",
        "1  1 5000 2304 1 1 1 0 cubic\n",
        "01 1 5000 2304 1 1 1 0 cubic\n",
        "1 1 5000 2304 1 1 1 0cubic\n",
        "18446744073709551616 1 5000 2304 1 1 1 0 cubic\n",
        "1 4294967297 5000 2304 1 1 1 0 cubic\n",
        "1 1 5000 2304 1 1 1 0 cubic\r\n",
        "1 1 5000 2304 1 1 1 18446744073709551616 cubic\n",
        "1 1 5000 2304 1 1 1 -1 cubic\n",
        "1 1 5000 2304 1 1 1 0 cub", /* cut off */
    };

    (void)unused;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct state state = opened();
        struct noted good = sample(77, "cubic");

        state_close(&state);
        append(wrong[i], strlen(wrong[i]));
        state = opened();
        assert_int_equal(state.count, 0);
        assert_int_equal(state_keep(&state, &good, false), 0);
        state_close(&state);
        state = opened();
        check_same(state_find(&state, 77), &good);
        assert_int_equal(state.count, 1);
        state_close(&state);
        unlink(name);
    }
}

/* It is read in parts, of which one may look like a line. */
static void the_end_of_a_long_line_is_no_line(void **unused)
{
    static const char good[] = "1 1 5000 2304 1 1 1 0 cubic\n";
    struct noted more = sample(77, "cubic");
    char text[512];

    (void)unused;
    for (size_t before = 1; before < sizeof text - sizeof good; before++) {
        struct state state = opened();

        state_close(&state);
        memset(text, '5', before);
        memcpy(text + before, good, sizeof good);
        append(text, strlen(text));
        state = opened();
        assert_null(state_find(&state, 1));
        assert_int_equal(state_keep(&state, &more, false), 0);
        state_close(&state);
        state = opened();
        check_same(state_find(&state, 77), &more);
        state_close(&state);
        unlink(name);
    }
}

/* The bytes of a good file with one byte changed, or cut off anywhere. */
static void spoilt_files_do_no_harm(void **unused)
{
    struct state state = opened();
    struct noted good = sample(77, "cubic");
    char bytes[512];
    ssize_t length;
    int fd;

    (void)unused;
    assert_int_equal(state_keep(&state, &good, false), 0);
    state_paced(&state, 77, 5000);
    state_close(&state);
    fd = open(name, O_RDONLY);
    length = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_true(length > 100 && length < (ssize_t)sizeof bytes);
    for (ssize_t i = 0; i < 2 * length; i++) {
        char was = bytes[i % length];
        int error;

        unlink(name);
        bytes[i % length] ^= (char)(1 + i % 127);
        append(bytes, (size_t)(i < length ? length : i - length));
        bytes[i % length] = was;
        error = state_open(&state, name);
        assert_true(error == 0 || error == -EBADMSG || error == -EXDEV);
        if (error == 0) {
            assert_true(state.count <= 2); /* of which one may be another socket */
            state_close(&state);
        }
    }
}

static void replace_in_head(size_t word, const char *with)
{
    char bytes[512] = "", *at = bytes, *end;
    int fd = open(name, O_RDONLY);

    assert_true(read(fd, bytes, sizeof bytes - 1) > 0);
    close(fd);
    unlink(name);
    while (word--)
        at = strchr(at, ' ') + 1;
    end = at + strcspn(at, " \n");
    append(bytes, (size_t)(at - bytes));
    append(with, strlen(with));
    append(end, strlen(end));
}

static void files_of_elsewhere(void **unused)
{
    static const struct {
        size_t word;
        const char *with;
        int result;
    } rows[] = {
        {0, "another", -EBADMSG},
        {2, "1", -EBADMSG},
        {3, "11111111-2222-3333-4444-555555555555", 0}, /* an earlier boot: nothing of it is there any more */
        {4, "1", -EXDEV},
    };

    (void)unused;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct state state = opened();
        struct noted noted = sample(8, "");

        assert_int_equal(state_keep(&state, &noted, false), 0);
        state_close(&state);
        replace_in_head(rows[i].word, rows[i].with);
        assert_int_equal(state_open(&state, name), rows[i].result);
        assert_int_equal(state.count, 0);
        state_close(&state);
        unlink(name);
    }
}

static void files_that_are_not_ours_alone(void **unused)
{
    struct state state = opened();
    char other[80];

    (void)unused;
    state_close(&state);
    assert_int_equal(chmod(name, 0622), 0);
    assert_int_equal(state_open(&state, name), -EPERM);
    assert_int_equal(chmod(name, 0600), 0);
    snprintf(other, sizeof other, "%s.real", name);
    assert_int_equal(link(name, other), 0); /* another file of ours, which must not be cut */
    assert_int_equal(state_open(&state, name), -EPERM);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(chmod(folder, 0733), 0);
    assert_int_equal(state_open(&state, name), -EPERM);
    assert_int_equal(chmod(folder, 0700), 0);
    state = opened();
    state_close(&state);
    unlink(name);
    assert_int_equal(symlink(other, name), 0);
    assert_int_equal(state_open(&state, name), -ELOOP);
    unlink(name);
    assert_int_equal(mkfifo(name, 0600), 0);
    assert_int_equal(state_open(&state, name), -EPERM);
    unlink(name);
    assert_int_equal(state_open(&state, "/no/such/folder/state"), -ENOENT);
}

static void files_of_others(void **unused)
{
    struct state state = opened();
    struct noted noted = sample(1, "");
    struct stat before, after;

    (void)unused;
    assert_int_equal(state_keep(&state, &noted, false), 0);
    state_close(&state);
    if (geteuid() != 0)
        SKIP("not permitted to give a file away");
    assert_int_equal(chown(name, OTHER_USER, OTHER_USER), 0);
    assert_int_equal(stat(name, &before), 0);
    assert_int_equal(state_open(&state, name), -EPERM);
    assert_int_equal(state_keep(&state, &noted, false), 0);
    assert_int_equal(stat(name, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(chown(name, 0, 0), 0);
    assert_int_equal(chown(folder, OTHER_USER, OTHER_USER), 0);
    assert_int_equal(state_open(&state, name), -EPERM);
    assert_int_equal(chown(folder, 0, 0), 0);
    state = opened();
    assert_int_equal(state.count, 1);
    state_close(&state);
}

/* A link to another file, symbolic or hard. That file stays as it is. */
static void what_stands_where_the_new_one_is_made(void **unused)
{
    char fresh[80], other[80];

    (void)unused;
    snprintf(fresh, sizeof fresh, "%s.new", name);
    snprintf(other, sizeof other, "%s.other", name);
    for (int hard = 0; hard < 2; hard++) {
        struct state state = opened();
        struct noted noted = sample(1, "");
        int fd = open(other, O_WRONLY | O_CREAT | O_EXCL, 0600);
        struct stat found;

        assert_int_equal(write(fd, "theirs", 6), 6);
        close(fd);
        assert_int_equal(hard ? link(other, fresh) : symlink(other, fresh), 0);
        assert_int_equal(state_keep(&state, &noted, false), 0);
        assert_int_equal(state_retain(&state, is_any, NULL), 0);
        assert_int_equal(stat(other, &found), 0);
        assert_int_equal(found.st_size, 6);
        assert_int_equal(lstat(fresh, &found), -1);
        state_close(&state);
        state = opened();
        assert_int_equal(state.count, 1);
        state_close(&state);
        unlink(name);
        unlink(other);
    }
}

/* As on a disk that is full. */
static void what_cannot_be_written_is_not_kept(void **unused)
{
    struct state state = opened();
    struct noted noted = sample(1, "");
    struct rlimit was, small;
    struct stat before, after;

    (void)unused;
    assert_int_equal(state_keep(&state, &noted, false), 0);
    assert_int_equal(stat(name, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    small = was;
    small.rlim_cur = (rlim_t)before.st_size + 10;
    setrlimit(RLIMIT_FSIZE, &small);
    noted = sample(2, "");
    assert_true(state_keep(&state, &noted, false) < 0);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_null(state_find(&state, 2));
    assert_int_equal(stat(name, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(state_keep(&state, &noted, false), 0);
    state_close(&state);
    state = opened();
    assert_int_equal(state.count, 2);
    state_close(&state);
}

static void limits_that_are_raised(void **unused)
{
    static const char *const wrong[] = {"raised 2 1 2\n", "raised 0 4 4\n", "raised 0 4 2147483648\n",
                                        "raised 0 4 8 \n", "raised 0 04 8\n"};
    const struct raised first = {4000000, 8000000}, second = {4000000, 16000000}, none = {0, 0};
    struct state state;

    (void)unused;
    assert_int_equal(state_open(&state, name), 0);
    assert_int_equal(state_raised(&state, 1, &first), 0);
    assert_int_equal(state_raised(&state, 1, &second), 0);
    assert_int_equal(state_retain(&state, is_any, NULL), 0);
    state_close(&state);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        FILE *file = fopen(name, "a");

        assert_non_null(file);
        fputs(wrong[i], file);
        fclose(file);
    }
    assert_int_equal(state_open(&state, name), 0);
    assert_memory_equal(&state.raised[0], &none, sizeof none);
    assert_memory_equal(&state.raised[1], &second, sizeof second);
    assert_int_equal(state_raised(&state, 1, &none), 0);
    state_close(&state);
    assert_int_equal(state_open(&state, name), 0);
    assert_memory_equal(&state.raised[1], &none, sizeof none);
    state_close(&state);
}

static void without_a_file_nothing_is_kept(void **unused)
{
    static const char *const files[] = {"/nowhere/state", "/", "/dev/null"};
    struct state state = {.fd = -1};
    struct noted noted = sample(1, "");

    (void)unused;
    assert_int_equal(state_keep(&state, &noted, false), 0);
    assert_null(state_find(&state, 1));
    state_close(&state);
    for (size_t i = 0; i < COUNT(files); i++) {
        if (state_open(&state, files[i]) >= 0)
            fail_msg("%s: was opened", files[i]);
        assert_int_equal(state_keep(&state, &noted, false), 0);
        assert_null(state_find(&state, 1));
        state_close(&state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_kept_is_found_again, remove_file),
        cmocka_unit_test_teardown(what_is_paced_is_known_again, remove_file),
        cmocka_unit_test_teardown(the_first_stays_unless_it_is_anew, remove_file),
        cmocka_unit_test_teardown(what_is_of_no_use_goes, remove_file),
        cmocka_unit_test_teardown(its_name_is_its_own, remove_file),
        cmocka_unit_test_teardown(one_daemon_has_it, remove_file),
        cmocka_unit_test_teardown(lines_that_are_wrong_are_left_out, remove_file),
        cmocka_unit_test_teardown(the_end_of_a_long_line_is_no_line, remove_file),
        cmocka_unit_test_teardown(spoilt_files_do_no_harm, remove_file),
        cmocka_unit_test_teardown(files_of_elsewhere, remove_file),
        cmocka_unit_test_teardown(files_that_are_not_ours_alone, remove_file),
        cmocka_unit_test_teardown(files_of_others, remove_file),
        cmocka_unit_test_teardown(what_stands_where_the_new_one_is_made, remove_file),
        cmocka_unit_test_teardown(what_cannot_be_written_is_not_kept, remove_file),
        cmocka_unit_test_teardown(limits_that_are_raised, remove_file),
        cmocka_unit_test(without_a_file_nothing_is_kept),
    };

    return cmocka_run_group_tests_name("state", tests, make_folder, remove_folder);
}
