/* SPDX-License-Identifier: MIT */
/*
 * The linker of another C library, as musl's, loads this object for a child that uses it, and ends the child if a function is
 * missing there. So none is taken from glibc alone: those that calls and macros need in secret are made here.
 */
#ifndef RUN_GLIBC_H
#define RUN_GLIBC_H

#include <stdbool.h>

/* Whether this process uses glibc. If not, this object does nothing. */
bool run_is_glibc(void);

#endif
