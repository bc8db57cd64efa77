/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/base/base.h"
#include "../../lib/kernel/proc.h"
#include "../../lib/kernel/tcp_diag.h"
#include "../../lib/kernel/tcpinfo.h"

#define HALF_CLOSED                                                                                                    \
    (1U << AB_TCP_FIN_WAIT1 | 1U << AB_TCP_FIN_WAIT2 | 1U << AB_TCP_CLOSE_WAIT | 1U << AB_TCP_LAST_ACK |               \
     1U << AB_TCP_CLOSING)
#define SEEN (1U << AB_TCP_ESTABLISHED | 1U << AB_TCP_LISTEN | HALF_CLOSED)

#define LINE_BYTES 4096U /* of /proc/net/netstat: the longest, TcpExt, has 3,500 */

#define LEAST_ROOM 256U
#define MOST 262144U /* 25 MB, and twice that while it is made anew */

/* ------------------------------------------------------------------------------- sweeping */

/* 4 and 16 bytes of an address; what is mapped into IPv6 becomes IPv4 again. */
static struct endpoint endpoint_of(unsigned family, const void *address, uint16_t port)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool v4 = family == AF_INET, is_mapped = !v4 && memcmp(address, mapped, sizeof mapped) == 0;
    struct endpoint end = {.version = v4 || is_mapped ? 4 : 6, .port = ntohs(port)};

    memcpy(end.address, (const char *)address + (is_mapped ? sizeof mapped : 0), end.version == 4 ? 4 : 16);
    return end;
}

struct sweep {
    sweep_fn *take;
    void *user;
};

static void see(void *user, const struct ab_tcp_diag *told)
{
    const struct inet_diag_msg *socket = &told->socket;
    const struct sweep *sweep = user;
    struct seen seen = {.cookie = told->cookie, .inode = socket->idiag_inode, .who.user = socket->idiag_uid,
                        .snd_buf_bytes = told->snd_buf_bytes, .rcv_buf_bytes = told->rcv_buf_bytes};
    struct ab_tcpinfo info;

    seen.who.local = endpoint_of(socket->idiag_family, socket->id.idiag_src, socket->id.idiag_sport);
    if (socket->idiag_state != AB_TCP_LISTEN)
        seen.who.remote = endpoint_of(socket->idiag_family, socket->id.idiag_dst, socket->id.idiag_dport);
    /*
     * If only the peer has closed its side, the program may go on to send: as any other, as long as a program has it.
     */
    seen.half_closed =
        1U << socket->idiag_state & HALF_CLOSED && !(socket->idiag_state == AB_TCP_CLOSE_WAIT && seen.inode);
    if (told->info && ab_tcpinfo_parse(told->info, told->info_bytes, &info))
        seen.moved_bytes = info.acked_bytes + info.received_bytes;
    sweep->take(sweep->user, &seen);
}

int sweep(int fd, sweep_fn *take, void *user)
{
    struct sweep sweep = {take, user};

    return ab_tcp_diag_list(fd, SEEN, 1U << (INET_DIAG_INFO - 1) | 1U << (INET_DIAG_SKMEMINFO - 1), UINT_MAX, see,
                            &sweep);
}

/* --------------------------------------------------------------------------------- moving */

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
    uint64_t in_bytes = UINT64_MAX, out_bytes = UINT64_MAX;
    char line[LINE_BYTES];

    while (fgets(line, sizeof line, snmp6)) {
        (void)ab_proc_find(line, "Ip6InOctets", NULL, &in_bytes);
        (void)ab_proc_find(line, "Ip6OutOctets", NULL, &out_bytes);
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

/* ------------------------------------------------------------------------------ the table */

static size_t home_of(const struct table *table, uint64_t cookie)
{
    return (size_t)(cookie * 0x9e3779b97f4a7c15ULL >> 20) & (table->room - 1); /* Fibonacci hashing */
}

static size_t place_of(const struct table *table, uint64_t cookie)
{
    size_t at = home_of(table, cookie);

    while (table->places[at].cookie && table->places[at].cookie != cookie)
        at = (at + 1) & (table->room - 1);
    return at;
}

struct known *table_find(const struct table *table, uint64_t cookie)
{
    struct known *known = table->room ? &table->places[place_of(table, cookie)] : NULL;

    return known && known->cookie ? known : NULL;
}

/*
 * A dump may miss a socket while others come and go: what one sweep has not seen the next one may. One that is managed
 * stays in any case: it would be taken up twice. Its sample ends it.
 */
static int stays(const struct known *known, uint32_t round)
{
    return round - known->round <= 1 || known->state == KNOWN_TENDED;
}

/* Moves all that is to be kept to a table of another size. 0, -1. */
static int rebuild(struct table *table, size_t room, uint32_t round, int forget)
{
    struct table next = {.places = calloc(room, sizeof *next.places), .room = room};

    if (!next.places)
        return -1;
    for (size_t i = 0; i < table->room; i++) {
        const struct known *known = &table->places[i];

        if (!known->cookie || (forget && !stays(known, round)))
            continue;
        next.places[place_of(&next, known->cookie)] = *known;
        next.count++;
    }
    free(table->places);
    *table = next;
    return 0;
}

struct known *table_make(struct table *table, uint64_t cookie)
{
    struct known *known = table_find(table, cookie);

    if (known)
        return known;
    if (table->count >= MOST)
        return NULL;
    if (2 * (table->count + 1) > table->room && rebuild(table, table->room ? 2 * table->room : LEAST_ROOM, 0, 0) < 0)
        return NULL;
    known = &table->places[place_of(table, cookie)];
    *known = (struct known){.cookie = cookie};
    table->count++;
    return known;
}

void table_forget(struct table *table, uint32_t round)
{
    size_t kept = 0, room = table->room;

    for (size_t i = 0; i < table->room; i++)
        kept += table->places[i].cookie && stays(&table->places[i], round);
    if (kept == table->count)
        return;
    while (room > LEAST_ROOM && 8 * kept < room)
        room /= 2;
    rebuild(table, room, round, 1); /* without memory they stay until the next sweep */
}

void table_free(struct table *table)
{
    free(table->places);
    *table = (struct table){0};
}
