/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel/proc.h"

#define UNTOUCHED 0xa5a5a5a5a5a5a5a5ULL
#define MOST 4

static const struct proc_row {
    const char *name;
    const char *text;
    size_t count, found;
    uint64_t numbers[MOST];
} rows[] = {
    {"a triple, as tcp_rmem prints it", "4096\t131072\t33554432\n", 3, 3, {4096, 131072, 33554432}},
    {"one number", "212992\n", 1, 1, {212992}},
    {"zero", "0\n", 1, 1, {0}},
    {"leading zeros", "007\n", 1, 1, {7}},
    {"no line feed at the end", "1 2 3", 3, 3, {1, 2, 3}},
    {"blanks and tabs in plenty", " \t 1 \t\t 2   3 \n", 3, 3, {1, 2, 3}},
    {"fewer than asked for", "1 2\n", 3, 2, {1, 2}},
    {"more than asked for", "1 2 3 4\n", 2, 2, {1, 2}},
    {"none asked for", "1 2 3\n", 0, 0, {0}},
    {"empty", "", 3, 0, {0}},
    {"only blanks", " \t \n", 3, 0, {0}},
    {"words", "cubic\n", 1, 0, {0}},
    {"negative", "-1\n", 1, 0, {0}},
    {"a sign", "+1\n", 1, 0, {0}},
    {"garbage behind a number", "12x 3\n", 3, 1, {12}},
    {"garbage between numbers", "1 x 3\n", 3, 1, {1}},
    {"hexadecimal", "0x10\n", 2, 1, {0}},
    {"a comma", "1,2\n", 2, 1, {1}},
    {"a fraction", "1.5\n", 2, 1, {1}},
    {"digits of another script", "\xd9\xa1\n", 1, 0, {0}},
    {"19 digits", "9999999999999999999\n", 1, 1, {9999999999999999999ULL}},
    {"the largest", "18446744073709551615\n", 1, 1, {UINT64_MAX}},
    {"one too large", "18446744073709551616\n", 1, 0, {0}},
    {"20 digits too large", "99999999999999999999\n", 1, 0, {0}},
    {"40 digits", "1111111111111111111111111111111111111111\n", 1, 0, {0}},
    {"too large behind a good one", "5 99999999999999999999 7\n", 3, 1, {5}},
};

static void check_found(const struct proc_row *row, size_t found, const uint64_t *numbers)
{
    CHECK_EQUAL(row->name, found, row->found);
    for (size_t k = 0; k <= MOST; k++)
        CHECK_EQUAL(row->name, numbers[k], k < found ? row->numbers[k] : UNTOUCHED);
}

static void clear(uint64_t *numbers)
{
    for (size_t k = 0; k <= MOST; k++)
        numbers[k] = UNTOUCHED;
}

static void parses_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t numbers[MOST + 1];

        clear(numbers);
        check_found(&rows[i],
                    ab_proc_parse(rows[i].text, numbers, rows[i].count),
                    numbers);
    }
}

static void reads_a_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t numbers[MOST + 1];
        char path[64];
        size_t len = strlen(rows[i].text);
        int fd = memfd_create("numbers", MFD_CLOEXEC);

        if (fd < 0)
            SKIP("no memfd_create");
        assert_int_equal(write(fd, rows[i].text, len), len);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (access(path, R_OK) != 0) {
            close(fd);
            SKIP("/proc is not there");
        }
        clear(numbers);
        check_found(&rows[i], ab_proc_read(path, numbers, rows[i].count), numbers);
        close(fd);
    }
}

static void what_cannot_be_read_gives_nothing(void **state)
{
    uint64_t number = UNTOUCHED;

    (void)state;
    assert_int_equal(ab_proc_read("/proc/sys/net/ipv4/no_such_sysctl", &number, 1), 0);
    assert_int_equal(ab_proc_read("", &number, 1), 0);
    assert_int_equal(ab_proc_read("/", &number, 1), 0); /* opens, but a directory is not read */
    assert_true(number == UNTOUCHED);
}

/* A number behind a name, as in meminfo and sockstat. */
static void finds_by_name(void **state)
{
    static const char memory[] = "MemTotal:       24689760 kB\nMemFree:   1 kB\nMemAvailable:   20000 kB\n";
    static const char sockets[] = "sockets: used 150\nTCP: inuse 4 orphan 0 tw 2 alloc 9 mem 317\nUDP: inuse 1 mem 5\n";
    static const struct {
        const char *text, *label, *name;
        bool found;
        uint64_t number;
    } names[] = {
        {memory, "MemTotal:", NULL, true, 24689760}, {memory, "MemAvailable:", NULL, true, 20000},
        {memory, "MemAvail", NULL, false, 0},        {memory, "kB", NULL, false, 0},
        {sockets, "TCP:", "mem", true, 317},         {sockets, "TCP:", "inuse", true, 4},
        {sockets, "UDP:", "mem", true, 5},           {sockets, "TCP:", "memory", false, 0},
        {sockets, "sockets:", "mem", false, 0},      {sockets, "FRAG:", "mem", false, 0},
        {"TCP: mem\nTCP: 1", "TCP:", "mem", false, 0},
        {"TCP: mem x", "TCP:", "mem", false, 0},     {"", "TCP:", "mem", false, 0},
        {"TCP: \n7", "TCP:", NULL, false, 0},        {"TCP: mem \n7", "TCP:", "mem", false, 0},
        {"Ip6InOctets  \t7\n", "Ip6InOctets", NULL, true, 7},
        {"TCP:", "TCP:", NULL, false, 0},            {"TCP: 7", "TCP:", NULL, true, 7},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        uint64_t number = UNTOUCHED;

        CHECK_EQUAL(names[i].text, ab_proc_find(names[i].text, names[i].label, names[i].name, &number),
                    names[i].found);
        CHECK_EQUAL(names[i].text, number, names[i].found ? names[i].number : UNTOUCHED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_the_table),
        cmocka_unit_test(reads_a_file),
        cmocka_unit_test(what_cannot_be_read_gives_nothing),
        cmocka_unit_test(finds_by_name),
    };

    return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
