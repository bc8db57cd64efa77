/* SPDX-License-Identifier: MIT */
/* Rules of WAD, the work-around daemon of the Net100 project (Dunigan, 2003), as rules of this daemon. */
#ifndef WAD_H
#define WAD_H

#include <stdio.h>

#include "config.h"

/*
 * Reads a wad.conf and writes an autobufd.conf, in which a comment says of each setting that is not taken over why.
 * Returns 0; -EINVAL: something was wrong, was said, and nothing is written; -ENOMEM.
 */
int wad_convert(FILE *in, FILE *out, config_wrong_fn *wrong, void *user);

#endif
