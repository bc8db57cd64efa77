/* SPDX-License-Identifier: MIT */
/* The daemon's file: autobufd.conf(5). */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdio.h>

#include "rules.h"

/* Is told what is wrong in a line, from 1 on. */
typedef void config_wrong_fn(void *user, unsigned line, const char *text);

/*
 * Reads a file to its end, whatever is wrong in it, and says all that is. Returns 0; -EINVAL: something was wrong;
 * -ENOMEM. Then *config is empty. Free it with config_free().
 */
int config_read(FILE *file, struct config *config, config_wrong_fn *wrong, void *user);

/* The rules of a host that has no file: every connection, mode auto. 0, -ENOMEM. */
int config_without_file(struct config *config);

void config_free(struct config *config);

#endif
