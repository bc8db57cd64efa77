/* SPDX-License-Identifier: MIT */
/* `autobuf explain --check`: which lines of an earlier advice are in force, and what undoes the others. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Compares the lines of file (NULL: root/etc/sysctl.d/90-autobuf.conf) with what the kernel has, and prints each on
 * out, as text or JSON, with the reason if it is not in force. A larger buffer than the line says is in force, too. It
 * changes nothing. What is wrong with the file goes to err. Returns EXIT_RESULT: all lines are in force; EXIT_NOTHING:
 * one is missing or undone, or the file cannot be used. root: as in sysctls.h.
 */
int check_file(const char *root, const char *file, bool json, FILE *out, FILE *err);

#endif
