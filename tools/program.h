/* SPDX-License-Identifier: MIT */
/* What kind of program a file is: whether an object that is preloaded can act in it. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

enum reach {
    REACHED,
    REACH_STATIC,        /* no run-time linker, which would load the object */
    REACH_GO,            /* makes its system calls by itself */
    REACH_PRIVILEGED,    /* set-user-ID, set-group-ID, or with capabilities: the linker loads nothing for others */
    REACH_SANITIZED,     /* its sanitizer is to be loaded first */
    REACH_MACHINE,       /* for another machine than the object, or of another size */
    REACH_LIBRARY,       /* uses another C library */
    /* this process's system calls are filtered: it might be killed for one that the program does not make */
    REACH_FILTERED,
};

/* The file that execvp() would run; false: there is none. */
bool program_find(const char *name, char *path, size_t cap);

/* Whether system calls of this process, and so of what it runs, are filtered. */
bool program_is_filtered(void);

/* Looks into a file; a script is what runs it. What cannot be read is REACHED: exec() then says what is wrong. */
enum reach program_reach(const char *path);

/* In a word. */
const char *program_reach_name(enum reach reach);

#endif
