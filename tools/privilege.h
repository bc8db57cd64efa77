/* SPDX-License-Identifier: MIT */
#ifndef PRIVILEGE_H
#define PRIVILEGE_H

#include <stdint.h>

#include <linux/capability.h>

#define PRIVILEGE(capability) (1ULL << (capability))

/* The capabilities that this process may use, a bit for each. 0 also if the kernel does not say. */
uint64_t privilege_held(void);

/*
 * Keeps none but these, of which all are in effect then. Ambient and inheritable ones go, too. Returns 0 or a negative
 * errno.
 */
int privilege_keep(uint64_t kept);

/*
 * Gives up capabilities, and in a setuid program the other user. Call it before reading anything from the network.
 * Returns 0 or a negative errno.
 */
int drop_privileges(void);

/* For a server that root started: becomes nobody, too. */
int become_nobody(void);

/*
 * As root: becomes the owner of a folder, if that is another user. What that user can put there is then nothing of
 * root's.
 */
int become_owner(const char *folder);

#endif
