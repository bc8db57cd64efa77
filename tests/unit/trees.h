/* SPDX-License-Identifier: MIT */
/* A folder that stands for the root of a host, with files that a test writes. */
#ifndef TREES_H
#define TREES_H

#include "unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree[64];

static inline void tree_begin(void)
{
    strcpy(tree, "/tmp/test_tree.XXXXXX");
    assert_non_null(mkdtemp(tree));
}

static inline void tree_end(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf -- '%s'", tree);
    assert_int_equal(system(command), 0);
}

/* Writes one, with the folders above it. */
static inline void tree_file(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void tree_file(const char *path, const char *format, ...)
{
    char full[256];
    va_list words;
    FILE *file;

    snprintf(full, sizeof full, "%s/%s", tree, path);
    for (char *at = full + strlen(tree) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        (void)mkdir(full, 0755);
    }
    file = fopen(full, "w");
    assert_non_null(file);
    va_start(words, format);
    assert_true(vfprintf(file, format, words) >= 0);
    va_end(words);
    assert_int_equal(fclose(file), 0);
}

static inline void tree_mode(const char *path, mode_t mode)
{
    char full[256];

    snprintf(full, sizeof full, "%s/%s", tree, path);
    assert_int_equal(chmod(full, mode), 0);
}

#endif
