/* SPDX-License-Identifier: MIT */
#ifndef PRIVILEGE_H
#define PRIVILEGE_H

/*
 * Before anything that comes from the network is read: gives up capabilities, and of a setuid program
 * the other user. 0, -errno.
 */
int drop_privileges(void);

/* For a server that root started: becomes nobody, too. */
int become_nobody(void);

#endif
