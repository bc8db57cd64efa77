/* SPDX-License-Identifier: MIT */
/* Numbers out of /proc. First byte: how many are asked for; the rest is the text. */
#include "fuzz.h"

#include "kernel/proc.h"

#define MOST 8U

/* What was read, written down again, reads the same. */
static void check_again(const uint64_t *numbers, size_t found)
{
    uint64_t again[MOST];
    char text[MOST * 24] = "";
    size_t len = 0;

    for (size_t i = 0; i < found; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%llu\n",
                                (unsigned long long)numbers[i]);
    CHECK(ab_proc_parse(text, again, MOST) == found);
    CHECK(memcmp(again, numbers, found * sizeof *numbers) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    size_t count = (size_t)take(&in, 1) % (MOST + 1), found;
    static const uint64_t untouched[MOST];
    uint64_t named;
    uint64_t *numbers = exact_copy(untouched, count * sizeof *numbers);
    char *text = strndup((const char *)in.data, in.len);

    found = ab_proc_parse(text, numbers, count);
    CHECK(found <= count && found <= (in.len + 1) / 2);
    for (size_t i = found; i < count; i++)
        CHECK(numbers[i] == 0);
    check_again(numbers, found);
    if (ab_proc_find(text, "TCP:", "mem", &named))
        CHECK(named == 0 || in.len > 9);
    if (ab_proc_find(text, "T", NULL, &named))
        CHECK(in.len > 2);
    free(text);
    free(numbers);
    return 0;
}
