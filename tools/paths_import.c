/* SPDX-License-Identifier: MIT */
#include "paths_import.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* All of a stream, in memory that the caller frees; at most IMPORT_MOST_BYTES. */
static int read_all(FILE *file, char **text, size_t *bytes)
{
    size_t room = 0;

    *text = NULL;
    *bytes = 0;
    do {
        char *grown;

        room = room ? 2 * room : 65536;
        grown = realloc(*text, room);
        if (!grown)
            return -ENOMEM;
        *text = grown;
        errno = 0;
        *bytes += fread(*text + *bytes, 1, room - *bytes, file);
        if (ferror(file))
            return errno ? -errno : -EIO;
    } while (*bytes == room && room <= IMPORT_MOST_BYTES);
    return *bytes > IMPORT_MOST_BYTES ? -E2BIG : 0;
}

static int read_file(const char *name, char **text, size_t *bytes)
{
    FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    int error;

    *text = NULL;
    if (!file)
        return -errno;
    error = read_all(file, text, bytes);
    if (file != stdin)
        fclose(file);
    return error;
}

static int number_of(const struct ifaddrs *list)
{
    int count = 0;

    for (; list; list = list->ifa_next)
        count++;
    return count;
}

/* The addresses of this host, in memory that the caller frees. */
static int find_addresses(struct autobuf_prefix **addresses, size_t *count)
{
    struct ifaddrs *list;

    *addresses = NULL;
    *count = 0;
    if (getifaddrs(&list) < 0)
        return -errno;
    *addresses = calloc((size_t)number_of(list) + 1, sizeof **addresses);
    for (struct ifaddrs *at = list; at && *addresses; at = at->ifa_next) {
        char text[NI_MAXHOST];
        socklen_t len = at->ifa_addr && at->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                            : sizeof(struct sockaddr_in);

        if (!at->ifa_addr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) ||
            getnameinfo(at->ifa_addr, len, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        text[strcspn(text, "%")] = '\0'; /* the scope of a link's address */
        if (autobuf_prefix_parse(text, *addresses + *count) == 0)
            ++*count;
    }
    freeifaddrs(list);
    return *addresses ? 0 : -ENOMEM;
}

int paths_import_read(const char *file, bool exported, uint64_t holds_s, uint64_t now_s, struct imported *into,
                      char why[IMPORT_WHY_BYTES])
{
    struct import_host host = {.now_s = now_s, .holds_s = holds_s, .exported = exported};
    struct autobuf_prefix *addresses = NULL;
    char *text = NULL;
    size_t bytes = 0;
    int error = read_file(file, &text, &bytes);

    *into = (struct imported){.entries = NULL};
    why[0] = '\0';
    if (error == 0)
        error = find_addresses(&addresses, &host.count);
    host.addresses = addresses;
    if (error == 0)
        error = import_read(text, bytes, &host, into, why);
    if (error == -E2BIG)
        snprintf(why, IMPORT_WHY_BYTES, "it has more than %u MB", IMPORT_MOST_BYTES >> 20);
    free(addresses);
    free(text);
    return error;
}
