/* SPDX-License-Identifier: MIT */
#ifndef AB_PRIVILEGE_H
#define AB_PRIVILEGE_H

#include <stdbool.h>

/*
 * Opens a non-blocking, close-on-exec ICMP socket: a ping socket, or else a raw one (*raw). For a raw one it raises
 * CAP_NET_RAW for this one call, if the thread may and has not done so. This is the only place in the library that
 * uses privilege. -EACCES: neither is permitted; other errnos of socket(2).
 */
int ab_privilege_icmp_socket(int family, bool *raw);

#endif
