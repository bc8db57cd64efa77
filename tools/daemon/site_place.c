/* SPDX-License-Identifier: MIT */
#include "site_place.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#define PORT 6379U
#define HOST_BYTES 64U

static const char scheme[] = "redis://", file[] = "unix:";

static bool parse_file(const char *name, struct site_place *place)
{
    struct sockaddr_un *to = (struct sockaddr_un *)&place->address;

    if (name[0] != '/' || strlen(name) >= sizeof to->sun_path)
        return false;
    to->sun_family = AF_UNIX;
    strcpy(to->sun_path, name);
    place->address_bytes = sizeof *to;
    return true;
}

/* Reads the number behind this letter, if the text begins with it, and goes behind it. */
static bool parse_number(const char **text, char letter, unsigned most, unsigned *number)
{
    unsigned long value;
    char *end;

    if (**text != letter)
        return true;
    if ((*text)[1] < '0' || (*text)[1] > '9')
        return false;
    value = strtoul(*text + 1, &end, 10);
    *text = end;
    *number = (unsigned)value;
    return value <= most;
}

static bool parse_host(const char *host, unsigned port, struct site_place *place)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&place->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&place->address;

    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        place->address_bytes = sizeof *v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
        return false;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    place->address_bytes = sizeof *v6;
    return true;
}

bool site_place_parse(const char *text, struct site_place *place)
{
    unsigned port = PORT;
    char host[HOST_BYTES];
    bool bracket;
    size_t bytes;

    *place = (struct site_place){.database = 0};
    if (strncmp(text, file, strlen(file)) == 0)
        return parse_file(text + strlen(file), place);
    if (strncmp(text, scheme, strlen(scheme)) != 0)
        return false;
    text += strlen(scheme);
    bracket = *text == '[';
    text += bracket;
    bytes = strcspn(text, bracket ? "]" : ":/");
    if (bytes >= sizeof host || (bracket && text[bytes] != ']') || bracket != !!memchr(text, ':', bytes))
        return false;
    memcpy(host, text, bytes);
    host[bytes] = '\0';
    text += bytes + bracket;
    return parse_number(&text, ':', UINT16_MAX, &port) && port && parse_number(&text, '/', SITE_DATABASE_MOST, &place->database) &&
           !*text && parse_host(host, port, place);
}
