/* SPDX-License-Identifier: MIT */
/* tools/daemon: its file, and which rule a connection has. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "daemon/config.h"

/* All that is said of a file, "line: text" each. */
struct said {
    char text[8192];
    unsigned count;
};

static void wrong(void *user, unsigned line, const char *text)
{
    struct said *said = user;
    size_t used = strlen(said->text);

    snprintf(said->text + used, sizeof said->text - used, "%u: %s\n", line, text);
    said->count++;
}

static int read_bytes(const char *text, size_t length, struct config *config, struct said *said)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, length, "r");
    int error;

    *said = (struct said){.count = 0};
    assert_non_null(file);
    error = config_read(file, config, wrong, said);
    fclose(file);
    return error;
}

static struct config read_good(const char *text)
{
    struct config config;
    struct said said;

    if (read_bytes(text, strlen(text), &config, &said) != 0)
        fail_msg("%s: %s", text, said.text);
    assert_int_equal(said.count, 0);
    return config;
}

static void all_that_a_file_may_say(void **state)
{
    struct config c =
        read_good("\xef\xbb\xbf; a comment\n"
                  "interval = 250\nbudget=25\nraise=64M\nstatus=/run/x.sock\nstate=off\nbpf=no\nstore=/srv/paths\n"
                  "learned=/run/l.sock\nbelieve=0, 1000\nsite=unix:/run/redis.sock\nsite_key=of:here\n"
                  "site_password_file=/etc/p\n dry_run : yes\nstop_ports=22, 873\n"
                  "# another one\n\n"
                  "[data mover]\nremote=2001:db8::/32\nremote_port=5000-5100,"
                  "80\nlocal=192.0.2.1\nlocal_port=1-65535\n"
                  "\tunit=gridftp.service\nuser=0\nprogram=globus-gridftp-server\nmode=fixed\nsndbuf=4M\nrcvbuf=64k\n"
                  "cc=cubic\npace=1.5G ; about half\ndry_run=yes\n"
                  "[all]\r\nmax=16M\r\nintent=low-delay\nmode=path");
    const struct rule *first = &c.rules[0], *second = &c.rules[1];

    (void)state;
    assert_int_equal(c.interval_ms, 250);
    assert_int_equal(c.budget_percent, 25);
    assert_int_equal(c.raise_bytes, 64000000);
    assert_string_equal(c.status_file, "/run/x.sock");
    assert_false(c.bpf);
    assert_string_equal(c.state_file, "");
    assert_string_equal(c.store_file, "/srv/paths");
    assert_string_equal(c.learned_file, "/run/l.sock");
    assert_int_equal(c.believed.count, 2);
    assert_int_equal(c.believed.users[0], 0);
    assert_int_equal(c.believed.users[1], 1000);
    assert_int_equal(c.site.address.ss_family, AF_UNIX);
    assert_string_equal(c.site_key, "of:here");
    assert_string_equal(c.site_password_file, "/etc/p");
    assert_true(c.dry_run);
    assert_int_equal(c.stop_ports.count, 2);
    assert_int_equal(c.stop_ports.ranges[1].last, 873);
    assert_int_equal(c.count, 2);
    assert_string_equal(first->name, "data mover");
    assert_int_equal(first->line, 18);
    assert_int_equal(first->remote.version, 6);
    assert_int_equal(first->remote.bits, 32);
    assert_int_equal(first->remote_port.count, 2);
    assert_int_equal(first->remote_port.ranges[0].first, 5000);
    assert_int_equal(first->remote_port.ranges[0].last, 5100);
    assert_int_equal(first->remote_port.ranges[1].first, 80);
    assert_int_equal(first->local.bits, 32);
    assert_string_equal(first->unit, "gridftp.service");
    assert_true(first->by_user);
    assert_int_equal(first->user, 0);
    assert_string_equal(first->program, "globus-gridftp-server");
    assert_int_equal(first->mode, MODE_FIXED);
    assert_int_equal(first->snd_bytes, 4000000);
    assert_int_equal(first->rcv_bytes, 64000);
    assert_string_equal(first->congestion_control, "cubic");
    assert_int_equal(first->pace_bit_per_s, 1500000000);
    assert_true(first->dry_run);
    assert_int_equal(second->most_bytes, 16000000);
    assert_int_equal(second->intent, AUTOBUF_INTENT_LOW_DELAY);
    assert_int_equal(second->mode, MODE_PATH);
    assert_false(second->by_user);
    assert_true(second->dry_run); /* the whole file is */
    config_free(&c);
}

static void what_a_file_does_not_say(void **state)
{
    struct config c = read_good("");

    (void)state;
    assert_int_equal(c.count, 0);
    assert_int_equal(c.interval_ms, 100);
    assert_int_equal(c.budget_percent, 50);
    assert_string_equal(c.status_file, "/run/autobufd/status.sock");
    assert_string_equal(c.state_file, "/run/autobufd/state");
    assert_true(c.bpf);
    assert_string_equal(c.store_file, "/var/lib/autobuf/paths");
    assert_string_equal(c.learned_file, "/run/autobufd/learned.sock");
    assert_int_equal(c.believed.count, 0);
    assert_int_equal(c.site.address_bytes, 0);
    assert_string_equal(c.site_key, "autobuf");
    assert_string_equal(c.site_password_file, "");
    config_free(&c);
    assert_int_equal(config_without_file(&c), 0);
    assert_int_equal(c.count, 1);
    assert_true(rule_covers_all(&c.rules[0]));
    assert_int_equal(c.rules[0].mode, MODE_AUTO);
    config_free(&c);
}

static void what_is_wrong_is_said_with_its_line(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"bufsize=1\n", "1: bufsize: there is no such setting\n"},
        {"\n[a]\nMode=auto\n", "3: Mode: there is no such setting\n"},
        {"mode=auto\n", "1: mode: belongs into a section\n"},
        {"[a]\ninterval=100\n", "2: interval: belongs before the first section\n"},
        {"[a]\nmode=auto\nmode=off\n", "3: mode: is set already\n"},
        {"[a]\nmode=on\n", "2: mode=on: it takes auto, path, fixed or off\n"},
        {"nonsense\n[a]\nmore nonsense",
         "1: this is neither [name] nor name=value\n3: this is neither [name] nor name=value\n"},
        {"[a\n", "1: a section's name ends with ]\n"},
        {"[]\n", "1: a section has a name of 1 to 49 characters\n"},
        {"[a]\n[b]\nmode=off\n", "2: [b]: is never reached, because [a] in line 1 matches all\n"},
        {"[a]\nmode=fixed\n", "1: [a]: mode fixed sets nothing without sndbuf, rcvbuf, cc or pace\n"},
        {"[a]\nsndbuf=1M\n", "1: [a]: sndbuf and rcvbuf belong to mode fixed; max bounds the other modes\n"},
        {"[a]\nmode=fixed\ncc=reno\nmax=1M\n", "1: [a]: max and intent belong to the modes auto and path\n"},
        {"[a]\nmode=path\ndivide=1M\n", "1: [a]: divide belongs to mode auto, without max and intent\n"},
        {"[a]\ndivide=8M\nmax=1M\n", "1: [a]: divide belongs to mode auto, without max and intent\n"},
        {"[a]\ndivide=8M\nintent=scavenger\n", "1: [a]: divide belongs to mode auto, without max and intent\n"},
        {"[a]\nmode=off\ncc=reno\n", "1: [a]: mode off sets nothing\n"},
        {"interval=9\n", "1: interval=9: it takes milliseconds, 10 to 10000\n"},
        {"interval=1k\n", "1: interval=1k: it takes milliseconds, 10 to 10000\n"},
        {"status=run/x.sock\n",
         "1: status=run/x.sock: it takes off, or a file by its full name, of at most 89 characters\n"},
        {"status=\n", "1: status=: it takes off, or a file by its full name, of at most 89 characters\n"},
        {"status=/"
         "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678\nbudget=51\n",
         "2: budget=51: it takes a percentage of net.ipv4.tcp_mem, 1 to 50\n"},
        {"status=/12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\n",
         "1: status=/12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789: it "
         "takes off, "
         "or a file by its full name, of at most 89 characters\n"},
        {"budget=51\n", "1: budget=51: it takes a percentage of net.ipv4.tcp_mem, 1 to 50\n"},
        {"store=paths\n", "1: store=paths: it takes off, or a file by its full name, of at most 89 characters\n"},
        {"site=redis.example\n",
         "1: site=redis.example: it takes redis://ADDRESS[:PORT][/DATABASE] with a numeric address, or unix:/FILE\n"},
        {"site_key=a b\n", "1: site_key=a b: it takes a name of at most 63 letters, digits, and . _ : -\n"},
        {"believe=0,\n",
         "1: believe=0,: it takes up to eight users of this host, by name or number, with a comma between them\n"},
        {"believe=1 2\n",
         "1: believe=1 2: it takes up to eight users of this host, by name or number, with a comma between them\n"},
        {"believe=1,2,3,4,5,6,7,8,9\n",
         "1: believe=1,2,3,4,5,6,7,8,9: it takes up to eight users of this host, by name or "
         "number, with a comma between them\n"},
        {"dry_run=maybe\n", "1: dry_run=maybe: it takes yes or no\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct config config;
        struct said said;

        CHECK_EQUAL(rows[i].text, read_bytes(rows[i].text, strlen(rows[i].text), &config, &said), -EINVAL);
        if (strcmp(said.text, rows[i].said) != 0)
            fail_msg("%s: said %s, not %s", rows[i].text, said.text, rows[i].said);
        CHECK_EQUAL(rows[i].text, config.count, 0);
        assert_null(config.rules);
    }
}

static void values_that_are_none(void **state)
{
    static const char *const settings[] = {
        "remote=",          "remote=10.0.0.1/8",  "remote=host",       "remote=10.0.0.0/33", "local=::1/129",
        "remote_port=",
        "remote_port=0",    "remote_port=65536",  "remote_port=5-4",   "remote_port=80,",    "remote_port=80 90",
        "remote_port=http",
        "remote_port=1,2,3,4,5,6,7,8,9",          "sndbuf=0",          "sndbuf=-1",          "sndbuf=1T",
        "sndbuf=0x10",
        "sndbuf=2G",        "sndbuf=nan",         "sndbuf=1MB",        "max=",               "pace=11000G",
        "pace=fast",
        "user=no such one", "user=-1",            "user=4294967295",   "user=",              "unit=",
        "program=",
        "cc=a-name-of-more-than-15",              "cc=",               "intent=speed",       "dry_run=",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        char text[256];
        struct config config;
        struct said said;

        snprintf(text, sizeof text, "[a]\nmode=auto\n%s\n", settings[i]);
        CHECK_EQUAL(settings[i], read_bytes(text, strlen(text), &config, &said), -EINVAL);
        CHECK(settings[i], strncmp(said.text, "3: ", 3) == 0 && strstr(said.text, ": it takes "));
    }
}

static void lines_that_are_too_long_or_not_text(void **state)
{
    char text[1024];
    struct config config;
    struct said said;

    (void)state;
    for (size_t length = 1; length < 600; length++) {
        int fits = length <= 190;

        memset(text, 'x', length);
        text[0] = '#';
        memcpy(text + length, "\n[a]\n", 6);
        assert_int_equal(read_bytes(text, length + 5, &config, &said), fits ? 0 : -EINVAL);
        if (!fits)
            assert_string_equal(said.text, "1: the line is longer than 190 characters\n");
        config_free(&config);
    }
    assert_int_equal(read_bytes("[a]\nmode=a\0uto\n", 15, &config, &said), -EINVAL);
    assert_string_equal(said.text, "2: there is a zero in the first 190 characters\n");
    assert_int_equal(read_bytes("[a]\n\x1b[2J=1\n", 10, &config, &said), -EINVAL);
    assert_null(strchr(said.text, '\x1b'));
    for (size_t length = 48; length < 52; length++) {
        memset(text, 'n', sizeof text);
        text[0] = '[';
        memcpy(text + 1 + length, "]\n", 3);
        assert_int_equal(read_bytes(text, strlen(text), &config, &said), length < RULE_NAME_BYTES ? 0 : -EINVAL);
        config_free(&config);
    }
}

static void ten_thousand_rules(void **state)
{
    const size_t count = 10000;
    char *text = malloc(count * 64), *at = text;
    struct config c;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        at += sprintf(at, "[%zu]\nremote=10.%zu.%zu.0/24\nmode=off\n", i, i / 256, i % 256);
    c = read_good(text);
    assert_int_equal(c.count, count);
    assert_string_equal(c.rules[count - 1].name, "9999");
    config_free(&c);
    free(text);
}

/* ---------------------------------------------------------------------------------- matching */

static struct subject subject_of(const char *local, uint16_t local_port, const char *remote, uint16_t remote_port)
{
    struct subject s = {.local.port = local_port, .remote.port = remote_port, .user = 1000};
    struct autobuf_prefix prefix;

    assert_int_equal(autobuf_prefix_parse(local, &prefix), 0);
    memcpy(s.local.address, prefix.address, sizeof s.local.address);
    s.local.version = prefix.version;
    if (!remote)
        return s;
    assert_int_equal(autobuf_prefix_parse(remote, &prefix), 0);
    memcpy(s.remote.address, prefix.address, sizeof s.remote.address);
    s.remote.version = prefix.version;
    return s;
}

static void which_rule_counts(void **state)
{
    static const struct {
        const char *name, *conditions, *program, *unit;
        int matches, may; /* may: as long as program and unit are not known */
    } rows[] = {
        {"none", "", "nginx", "", 1, 1},
        {"remote", "remote=198.51.100.0/25", "nginx", "", 1, 1},
        {"remote, all bits", "remote=198.51.100.7", "nginx", "", 1, 1},
        {"remote, odd bits", "remote=198.51.100.6/31", "nginx", "", 1, 1},
        {"remote, one bit off", "remote=198.51.100.4/31", "nginx", "", 0, 0},
        {"remote, other bytes", "remote=198.51.101.0/24", "nginx", "", 0, 0},
        {"all of IPv4", "remote=0.0.0.0/0", "nginx", "", 1, 1},
        {"all of IPv6", "remote=::/0", "nginx", "", 0, 0},
        {"port", "remote_port=443", "nginx", "", 1, 1},
        {"port in a range", "remote_port=1,400-443", "nginx", "", 1, 1},
        {"other ports", "remote_port=442,444", "nginx", "", 0, 0},
        {"local", "local=192.0.2.0/24\nlocal_port=50000", "nginx", "", 1, 1},
        {"local, not both", "local=192.0.2.0/24\nlocal_port=50001", "nginx", "", 0, 0},
        {"user", "user=1000", "nginx", "", 1, 1},
        {"another user", "user=1001", "nginx", "", 0, 0},
        {"program", "program=nginx", "nginx", "", 1, 1},
        {"another program", "program=nginx", "apache2", "", 0, 1},
        {"a program's name that the kernel has cut", "program=globus-gridftp-server", "globus-gridftp-", "", 1, 1},
        {"unit", "unit=nginx.service", "nginx", "nginx.service", 1, 1},
        {"another unit", "unit=nginx.service", "nginx", "", 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct subject s = subject_of("192.0.2.10", 50000, "198.51.100.7", 443);
        char text[256];
        struct config c;

        snprintf(text, sizeof text, "[it]\n%s\n", rows[i].conditions);
        c = read_good(text);
        CHECK_EQUAL(rows[i].name, rules_may_act(&c, &s), rows[i].may);
        s.program = rows[i].program;
        s.unit = rows[i].unit;
        CHECK_EQUAL(rows[i].name, rules_find(&c, &s) == &c.rules[0], rows[i].matches);
        config_free(&c);
        snprintf(text, sizeof text, "stop_ports=1,%u\n[it]\n", i % 2 ? 443U : 50000U);
        c = read_good(text);
        assert_null(rules_find(&c, &s));
        assert_false(rules_may_act(&c, &s));
        config_free(&c);
    }
}

static void a_listener_has_no_peer_yet(void **state)
{
    struct subject s = subject_of("0.0.0.0", 80, NULL, 0);
    struct config c = read_good("[it]\nremote=198.51.100.0/24\nremote_port=5\nlocal_port=80\n");

    (void)state;
    assert_ptr_equal(rules_find(&c, &s), &c.rules[0]);
    s.local.port = 81;
    assert_null(rules_find(&c, &s));
    config_free(&c);
}

static void the_first_one_counts(void **state)
{
    struct subject s = subject_of("2001:db8::1", 50000, "2001:db8::2", 443);
    struct config c = read_good("[far]\nremote=2001:db9::/"
                                "32\n[off]\nprogram=rsync\nmode=off\n[near]\nremote=2001:db8::/33\n[rest]\nmode=off\n");

    (void)state;
    s.unit = "";
    assert_true(rules_may_act(&c, &s)); /* unless it turns out to be rsync */
    s.program = "rsync";
    assert_string_equal(rules_find(&c, &s)->name, "off");
    s.program = "scp";
    assert_string_equal(rules_find(&c, &s)->name, "near");
    s.remote.address[4] = 0x80;
    assert_string_equal(rules_find(&c, &s)->name, "rest");
    assert_false(rules_may_act(&c, &s));
    config_free(&c);
}

/* --------------------------------------------------------------------- where a site's server is */

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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_a_file_may_say),
        cmocka_unit_test(what_a_file_does_not_say),
        cmocka_unit_test(what_is_wrong_is_said_with_its_line),
        cmocka_unit_test(values_that_are_none),
        cmocka_unit_test(lines_that_are_too_long_or_not_text),
        cmocka_unit_test(ten_thousand_rules),
        cmocka_unit_test(which_rule_counts),
        cmocka_unit_test(a_listener_has_no_peer_yet),
        cmocka_unit_test(the_first_one_counts),
        cmocka_unit_test(what_is_a_place),
    };

    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
