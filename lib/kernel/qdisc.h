/* SPDX-License-Identifier: MIT */
/*
 * Whether this host paces all that TCP sends: the fq queueing discipline does, at the rate that each
 * socket computes (sch_fq.c), and no socket option tells.
 */
#ifndef AB_QDISC_H
#define AB_QDISC_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Reads len bytes of answers to RTM_GETQDISC (rtnetlink(7)): *paces becomes true if one names fq.
 * Returns 1 at the end of the answers, 0 if more follow, -EPROTO if they cannot be understood. Pure.
 */
int ab_qdisc_parse(const void *answers, size_t len, bool *paces);

/* 1: a device of this network namespace has it; 0: none has; or an errno of socket(2), send(2), recv(2). */
int ab_qdisc_has_fq(void);

#endif
