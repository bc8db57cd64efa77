/* SPDX-License-Identifier: MIT */
/* In place of remember.c where there is no path store: bwdelay.c, which scripts/amalgamate.py writes. */
#include "flow.h"

void ab_decide_recall(struct ab_decision *d, int fd)
{
    (void)d;
    (void)fd;
}

void ab_decide_record_route(struct ab_decision *d, int fd)
{
    (void)d;
    (void)fd;
}

void ab_decide_keep(const struct ab_decision *d)
{
    (void)d;
}
