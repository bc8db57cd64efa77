/* SPDX-License-Identifier: MIT */
/*
 * Whether this host paces TCP. The queueing discipline fq does, at the rate that each socket computes (sch_fq.c), and
 * no socket option shows it.
 */
#ifndef AB_QDISC_H
#define AB_QDISC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An ab_netlink_fn() for answers to RTM_GETQDISC (rtnetlink(7)): the bool at user becomes true if one names fq. */
void ab_qdisc_note_fq(void *user, const uint8_t *body, size_t len);

/*
 * Returns 1: a device of this network namespace has fq; 0: none has; or an errno of socket(2), send(2) or recv(2).
 */
int ab_qdisc_has_fq(void);

#endif
