/* SPDX-License-Identifier: MIT */
/* What kind of program a file is: whether an object that is preloaded can act in it. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* The file that execvp() would run; false: there is none. */
bool program_find(const char *name, char *path, size_t cap);

/* Whether system calls of this process, and so of what it runs, are filtered. */
bool program_is_filtered(void);

/*
 * Looks into a file, and says in a few words why such an object cannot act in it; NULL: it can. A script is what runs
 * it. What cannot be read is exec()'s to refuse.
 */
const char *program_unreached(const char *path);

#endif
