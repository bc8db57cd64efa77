/* SPDX-License-Identifier: MIT */
/* tools/daemon/site_place.c: where a server is. */
#include "unit.h"

#include <string.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "daemon/site_place.h"

#define TEN "/234567890"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void what_is_a_place(void **state)
{
    static const struct {
        const char *text, *address; /* NULL: it is none */
        unsigned port, database;
    } rows[] = {
        {"redis://192.0.2.1", "192.0.2.1", 6379, 0},
        {"redis://192.0.2.1:1", "192.0.2.1", 1, 0},
        {"redis://192.0.2.1:65535/3", "192.0.2.1", 65535, 3},
        {"redis://192.0.2.1/65535", "192.0.2.1", 6379, 65535},
        {"redis://[2001:db8::1]", "2001:db8::1", 6379, 0},
        {"redis://[2001:db8::1]:7/8", "2001:db8::1", 7, 8},
        {"unix:/run/redis.sock", "/run/redis.sock", 0, 0},
        {"unix:" HUNDRED "1234567", HUNDRED "1234567", 0, 0},
        {"unix:" HUNDRED "12345678", NULL, 0, 0},
        {"unix:redis.sock", NULL, 0, 0},
        {"unix:", NULL, 0, 0},
        {"", NULL, 0, 0},
        {"redis://", NULL, 0, 0},
        {"rediss://192.0.2.1", NULL, 0, 0},
        {"192.0.2.1", NULL, 0, 0},
        {"redis://redis.example", NULL, 0, 0},
        {"redis://user:secret@192.0.2.1", NULL, 0, 0},
        {"redis://2001:db8::1", NULL, 0, 0},
        {"redis://[2001:db8::1", NULL, 0, 0},
        {"redis://[192.0.2.1]", NULL, 0, 0},
        {"redis://[]", NULL, 0, 0},
        {"redis://192.0.2.1:", NULL, 0, 0},
        {"redis://192.0.2.1:0", NULL, 0, 0},
        {"redis://192.0.2.1:65536", NULL, 0, 0},
        {"redis://192.0.2.1:-1", NULL, 0, 0},
        {"redis://192.0.2.1:99999999999999999999999", NULL, 0, 0},
        {"redis://192.0.2.1/", NULL, 0, 0},
        {"redis://192.0.2.1/65536", NULL, 0, 0},
        {"redis://192.0.2.1/1/", NULL, 0, 0},
        {"redis://192.0.2.1 ", NULL, 0, 0},
        {"redis://1111111111111111111111111111111111111111111111111111111111111111", NULL, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct site_place place;
        bool found = site_place_parse(rows[i].text, &place);
        const struct sockaddr_in *v4 = (struct sockaddr_in *)&place.address;
        const struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&place.address;
        char text[INET6_ADDRSTRLEN];

        CHECK_EQUAL(rows[i].text, found, rows[i].address != NULL);
        if (!found)
            continue;
        CHECK_EQUAL(rows[i].text, place.database, rows[i].database);
        if (place.address.ss_family == AF_UNIX) {
            CHECK(rows[i].text, strcmp(((struct sockaddr_un *)&place.address)->sun_path, rows[i].address) == 0);
            CHECK_EQUAL(rows[i].text, place.address_bytes, sizeof(struct sockaddr_un));
        } else if (place.address.ss_family == AF_INET) {
            CHECK(rows[i].text, strcmp(inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text), rows[i].address) == 0);
            CHECK_EQUAL(rows[i].text, ntohs(v4->sin_port), rows[i].port);
            CHECK_EQUAL(rows[i].text, place.address_bytes, sizeof *v4);
        } else {
            CHECK(rows[i].text, strcmp(inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text), rows[i].address) == 0);
            CHECK_EQUAL(rows[i].text, ntohs(v6->sin6_port), rows[i].port);
            CHECK_EQUAL(rows[i].text, place.address_bytes, sizeof *v6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_a_place)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
