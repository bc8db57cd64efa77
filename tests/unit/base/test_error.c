/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static void own_errors_have_texts_of_their_own(void **state)
{
    static const int own[] = {AUTOBUF_E_NOREPLY, AUTOBUF_E_FEW, AUTOBUF_E_RESOLVE,
                              AUTOBUF_E_FORKED, AUTOBUF_E_OFF, AUTOBUF_E_CLAMPED, AUTOBUF_E_UNSUPPORTED,
                              AUTOBUF_E_PROTOCOL, AUTOBUF_E_DAMAGED, AUTOBUF_E_NEWER, AUTOBUF_E_RELAYED};
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
    static const int values[] = {-5000, -4095, INT_MIN, INT_MIN + 1, AUTOBUF_E_RELAYED - 1};

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
        cmocka_unit_test(own_errors_have_texts_of_their_own),
        cmocka_unit_test(every_errno_has_a_text),
        cmocka_unit_test(any_value_has_a_text),
        cmocka_unit_test(version_is_the_header_s),
    };

    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
