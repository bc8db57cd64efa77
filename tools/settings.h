/* SPDX-License-Identifier: MIT */
/* What the files of sysctl.d(5) set. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stddef.h>

#include "host.h"

/* Takes one line of such a file: if it sets a value of three numbers for this name, their last one; else -1. */
int64_t settings_third(const char *line, const char *name);

/* Finds the file that sets the third number of name (net.ipv4.tcp_wmem or tcp_rmem) to what holds now. */
void settings_find(const char *name, int64_t third_bytes, struct setting *setting);

#endif
