/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <autobuf/autobuf.h>

#include "preload/self.h"

static void words_arrive(void **state)
{
    static const struct {
        const char *text;
        struct run_settings settings;
    } rows[] = {
        {"intent=throughput", {.intent = AUTOBUF_INTENT_THROUGHPUT}},
        {"intent=low-delay", {.intent = AUTOBUF_INTENT_LOW_DELAY}},
        {"intent=throughput,max=65536,keep-sizes,probe,report",
         {AUTOBUF_INTENT_THROUGHPUT, 65536, true, true, true}},
        {"intent=scavenger", {.intent = AUTOBUF_INTENT_SCAVENGER}},
        {"report,intent=low-delay", {.intent = AUTOBUF_INTENT_LOW_DELAY, .report = true}},
        {"keep-sizes", {.keep_sizes = true}},
        {"probe", {.probe = true}},
        {"max=999999999999999999", {.most_bytes = 999999999999999999}},
        /* What nobody asked for counts for nothing. */
        {NULL, {0}},
        {"", {0}},
        {",,,", {0}},
        {"intent=", {0}},
        {"intent=low-delays", {0}},
        {"max=", {0}},
        {"max=-1", {0}},
        {"max=1k", {0}},
        {"max=1000000000000000000000", {0}},
        {"reports", {0}},
        {"repor", {0}},
        {"Report", {0}},
        {"report probe", {0}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct run_settings *want = &rows[i].settings;
        const char *row = rows[i].text ? rows[i].text : "NULL";
        struct run_settings got = {99, 99, true, true, true};

        run_settings_read(rows[i].text, &got);
        CHECK_EQUAL(row, got.intent, want->intent);
        CHECK_EQUAL(row, got.most_bytes, want->most_bytes);
        CHECK_EQUAL(row, got.keep_sizes, want->keep_sizes);
        CHECK_EQUAL(row, got.probe, want->probe);
        CHECK_EQUAL(row, got.report, want->report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_arrive)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
