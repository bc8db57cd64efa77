/* SPDX-License-Identifier: MIT */
#ifndef AB_PROC_H
#define AB_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads up to count non-negative decimal numbers, separated by white space, out of len bytes of text.
 * Pure. Returns how many were read; a number too large for 64 bits or any other byte ends it.
 */
size_t ab_proc_parse(const char *text, size_t len, uint64_t *numbers, size_t count);

/* The same from a file of /proc; 0 if it cannot be read. */
size_t ab_proc_read(const char *path, uint64_t *numbers, size_t count);

/*
 * The number behind a name: in the line of len bytes of text that begins with label ("MemAvailable:"), the first
 * number; or, if name is not NULL, the one behind that word ("TCP:", "mem"). Pure. false: it is not there.
 */
bool ab_proc_find(const char *text, size_t len, const char *label, const char *name, uint64_t *number);

/* The same from a file of /proc, of which the first 2 KB are looked at. */
bool ab_proc_read_named(const char *path, const char *label, const char *name, uint64_t *number);

#endif
