/* SPDX-License-Identifier: MIT */
#ifndef AB_PRIVILEGE_H
#define AB_PRIVILEGE_H

#include <stdbool.h>

/*
 * A non-blocking, close-on-exec ICMP socket for family: a ping socket, else a raw one (*raw), for
 * which CAP_NET_RAW is raised for the one call if the thread may and has not. The only place in the
 * library where privilege is used. -EACCES: neither is permitted; other errnos of socket(2).
 */
int ab_privilege_icmp_socket(int family, bool *raw);

#endif
