/* SPDX-License-Identifier: MIT */
#ifndef AB_PRIVILEGE_H
#define AB_PRIVILEGE_H

#include <stdbool.h>

/*
 * Opens a non-blocking, close-on-exec ICMP socket: a ping socket, or else a raw one (*raw). For a raw one it raises
 * CAP_NET_RAW for this one call, if it is permitted but not effective. No other place in the library uses a
 * capability. -EACCES: neither socket is permitted; other errnos of socket(2).
 */
int ab_privilege_icmp_socket(int family, bool *raw);

#endif
