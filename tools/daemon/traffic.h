/* SPDX-License-Identifier: MIT */
/* How much has come and gone in all, of this network namespace: if that is little, no connection can have moved much. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stdint.h>
#include <stdio.h>

/* Octets of IPv4 in /proc/net/netstat, and of IPv6 in /proc/net/snmp6. UINT64_MAX: it does not say. */
uint64_t traffic_read_v4(FILE *netstat);
uint64_t traffic_read_v6(FILE *snmp6);

/* Both together, since the namespace was made. Without IPv6 those of IPv4. UINT64_MAX: not known. */
uint64_t traffic_bytes(void);

#endif
