/* SPDX-License-Identifier: MIT */
#include "traffic.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 4096U /* the longest, TcpExt, has 3,500 */

/* The value that stands where the name stands in the line of names. UINT64_MAX: none does. */
static uint64_t value_of(const char *names, const char *values, const char *name)
{
    size_t length = strlen(name);

    while (*(names += strspn(names, " \n")) && *(values += strspn(values, " \n"))) {
        size_t of_name = strcspn(names, " \n");

        if (of_name == length && strncmp(names, name, length) == 0)
            return strtoull(values, NULL, 10);
        names += of_name;
        values += strcspn(values, " \n");
    }
    return UINT64_MAX;
}

static uint64_t sum(uint64_t in_bytes, uint64_t out_bytes)
{
    return in_bytes == UINT64_MAX || out_bytes == UINT64_MAX ? UINT64_MAX : in_bytes + out_bytes;
}

uint64_t traffic_read_v4(FILE *netstat)
{
    char names[LINE_BYTES], values[LINE_BYTES];

    while (fgets(names, sizeof names, netstat) && fgets(values, sizeof values, netstat))
        if (strncmp(names, "IpExt:", 6) == 0)
            return sum(value_of(names, values, "InOctets"), value_of(names, values, "OutOctets"));
    return UINT64_MAX;
}

uint64_t traffic_read_v6(FILE *snmp6)
{
    uint64_t in_bytes = UINT64_MAX, out_bytes = UINT64_MAX, value;
    char line[LINE_BYTES], name[64];

    while (fgets(line, sizeof line, snmp6)) {
        if (sscanf(line, "%63s %" SCNu64, name, &value) != 2)
            continue;
        if (strcmp(name, "Ip6InOctets") == 0)
            in_bytes = value;
        else if (strcmp(name, "Ip6OutOctets") == 0)
            out_bytes = value;
    }
    return sum(in_bytes, out_bytes);
}

uint64_t traffic_bytes(void)
{
    FILE *netstat = fopen("/proc/net/netstat", "re"), *snmp6 = fopen("/proc/net/snmp6", "re");
    uint64_t v4 = netstat ? traffic_read_v4(netstat) : UINT64_MAX, v6 = snmp6 ? traffic_read_v6(snmp6) : 0;

    if (netstat)
        fclose(netstat);
    if (snmp6)
        fclose(snmp6);
    return sum(v4, v6);
}
