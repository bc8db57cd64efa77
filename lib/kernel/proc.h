/* SPDX-License-Identifier: MIT */
#ifndef AB_PROC_H
#define AB_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text of a file of /proc, as far as there is room for it; "" if it cannot be read. */
void ab_proc_text(const char *path, char *text, size_t cap);

/*
 * Parses up to count non-negative decimal numbers, separated by white space. It stops at a number that does not fit
 * into 64 bits, and at any other byte. Returns how many numbers it read.
 */
size_t ab_proc_parse(const char *text, uint64_t *numbers, size_t count);

/* The same from a file of /proc; 0 if it cannot be read. */
size_t ab_proc_read(const char *path, uint64_t *numbers, size_t count);

/*
 * Finds a number. In the line that begins with label ("MemAvailable:") it takes the first number, or, if name is not
 * NULL, the number after that word ("TCP:", "mem"). false: there is no such number.
 */
bool ab_proc_find(const char *text, const char *label, const char *name, uint64_t *number);

/* The same from the first 511 bytes of a file of /proc. */
bool ab_proc_read_named(const char *path, const char *label, const char *name, uint64_t *number);

#endif
