/* SPDX-License-Identifier: MIT */
/* What enlarges a window that limits transfers: which of four ways helps on this kernel, with these limits. Pure. */
#ifndef WAYS_H
#define WAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "findings.h"

enum way { WAY_SYSCTL, WAY_AUTOBUFD, WAY_RUN, WAY_LINK, WAYS };

enum help {
    HELP_UNSAID, /* it is no window that these ways could enlarge */
    HELP_NO,
    HELP_ROOT, /* only with CAP_NET_ADMIN, which whoever asks has not */
    HELP_PART, /* not as far as the path needs */
    HELP_ALL,
};

/*
 * Says for each way how far it enlarges the send or the receive window, beyond window_bytes. run and link: with the
 * permission of whoever the plan of *f is for. autobufd has CAP_NET_ADMIN.
 */
void ways_find(const struct findings *f, bool sends, uint64_t window_bytes, enum help ways[WAYS]);

/* "helps: sysctl, autobufd; as root: run, link" */
void ways_text(const enum help ways[WAYS], char *text, size_t cap);

/* An object with a member for each way, or null. */
void ways_json(FILE *out, const enum help ways[WAYS]);

#endif
