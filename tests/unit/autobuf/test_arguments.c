/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <autobuf/autobuf.h>

#include "arguments.h"

#define WORDS 24
#define TEXT_BYTES 8192

/* What a command line gives, and what it prints on either stream. */
struct outcome {
    int status;
    struct arguments a;
    char out[TEXT_BYTES], err[TEXT_BYTES];
};

static void parse(const char *line, struct outcome *o)
{
    static char words[TEXT_BYTES]; /* the arguments point into it */
    char *argv[WORDS] = {"autobuf"};
    int argc = 1;
    FILE *out = fmemopen(o->out, sizeof o->out, "w"), *err = fmemopen(o->err, sizeof o->err, "w");

    assert_non_null(out);
    assert_non_null(err);
    o->out[0] = o->err[0] = '\0';
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
    o->status = arguments_parse(argc, argv, &o->a, out, err);
    fclose(out);
    fclose(err);
}

static void numbers_and_words_arrive(void **state)
{
    struct outcome o;

    (void)state;
    parse("explain --rate 400M --rtt 0.5 --streams 4 --bytes 2G --as-user --json --intent low-delay", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.command, EXPLAIN);
    assert_int_equal(o.a.rate_bit_per_s, 400000000);
    assert_int_equal(o.a.rtt_ns, 500000);
    assert_int_equal(o.a.streams, 4);
    assert_int_equal(o.a.expected_bytes, 2000000000);
    assert_true(o.a.as_user && o.a.json && !o.a.tune && !o.a.sysctl);
    assert_int_equal(o.a.intent, AUTOBUF_INTENT_LOW_DELAY);
    assert_null(o.a.operand);

    parse("probe -6 -I eth0 -B --budget 20k --timeout 500 mirror.test", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.family, AF_INET6);
    assert_string_equal(o.a.source, "eth0");
    assert_true(o.a.keep_source);
    assert_int_equal(o.a.budget_bytes, 20000);
    assert_int_equal(o.a.timeout_ns, 500000000);
    assert_string_equal(o.a.operand, "mirror.test");

    parse("explain --pid 17 --bytes 2G", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.pid, 17);
    assert_int_equal(o.a.expected_bytes, 2000000000);
    assert_int_equal(o.a.timeout_ns, 2000000000);
    assert_null(o.a.operand);

    parse("watch --tune 17:4", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.pid, 17);
    assert_int_equal(o.a.fd, 4);
    parse("watch 17", &o);
    assert_int_equal(o.a.fd, -1);

    parse("serve --bind ::1 --port 7000 --rate 10M --clients 5 --per-address 2", &o);
    assert_int_equal(o.status, -1);
    assert_string_equal(o.a.bind, "::1");
    assert_string_equal(o.a.port, "7000");
    assert_int_equal(o.a.rate_bit_per_s, 10000000);
    assert_int_equal(o.a.clients, 5);
    assert_int_equal(o.a.per_address, 2);

    parse("run ls", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.command, RUN);
    assert_string_equal(o.a.operands[0], "ls");
    assert_null(o.a.operands[1]);
    assert_true(!o.a.keep_sizes && !o.a.probe && !o.a.report && !o.a.log && !o.a.most_bytes);
    parse("run --keep-sizes --max 1M --log /tmp/l --intent scavenger rsync -a --report x --", &o);
    assert_int_equal(o.status, -1);
    assert_true(o.a.keep_sizes && !o.a.probe && !o.a.report);
    assert_int_equal(o.a.most_bytes, 1000000);
    assert_string_equal(o.a.log, "/tmp/l");
    assert_int_equal(o.a.intent, AUTOBUF_INTENT_SCAVENGER);
    assert_string_equal(o.a.operand, "rsync");
    assert_string_equal(o.a.operands[2], "--report"); /* the program's own */
    assert_string_equal(o.a.operands[4], "--");
    assert_null(o.a.operands[5]);
    parse("run --probe --report -- -odd --max", &o);
    assert_int_equal(o.status, -1);
    assert_true(o.a.probe && o.a.report);
    assert_string_equal(o.a.operand, "-odd");
    assert_string_equal(o.a.operands[1], "--max");

    parse("paths", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.command, PATHS);
    assert_int_equal(o.a.action, PATHS_LIST);
    assert_null(o.a.operand);
    parse("paths --rate 400M set --rtt 100 --hours 5 192.0.2.0/24 --from eth0 --store f", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.action, PATHS_SET);
    assert_string_equal(o.a.operand, "192.0.2.0/24");
    assert_int_equal(o.a.rate_bit_per_s, 400000000);
    assert_int_equal(o.a.rtt_ns, 100000000);
    assert_int_equal(o.a.hours, 5);
    assert_string_equal(o.a.from, "eth0");
    assert_string_equal(o.a.store, "f");
    parse("paths --json show --host mirror.test", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.action, PATHS_SHOW);
    assert_true(o.a.json && o.a.host && !o.a.all);
    parse("paths import --hours 5 - --json", &o);
    assert_int_equal(o.a.action, PATHS_IMPORT);
    assert_string_equal(o.a.operand, "-");
    assert_int_equal(o.a.hours, 5);
    assert_false(o.a.exported);
    parse("paths import --exported f", &o);
    assert_int_equal(o.status, -1);
    assert_true(o.a.exported);
    parse("paths export", &o);
    assert_int_equal(o.a.action, PATHS_EXPORT);
    parse("paths forget --all", &o);
    assert_int_equal(o.status, -1);
    assert_true(o.a.action == PATHS_FORGET && o.a.all && !o.a.operand);

    parse("top", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.command, TOP);
    assert_true(o.a.interval_ns == 1000000000 && !o.a.count && !o.a.json);
    assert_string_equal(o.a.socket, TOP_SOCKET);
    parse("top --json --socket f --interval 250 --count 3", &o);
    assert_int_equal(o.status, -1);
    assert_true(o.a.json && o.a.interval_ns == 250000000 && o.a.count == 3);
    assert_string_equal(o.a.socket, "f");

    parse("serve", &o);
    assert_int_equal(o.a.transfer_seconds, 0);
    assert_true(o.a.rate_bit_per_s == 1000000000 && o.a.clients == 2000 && o.a.per_address == 32 && !o.a.bind);
    assert_string_equal(o.a.port, "7411");
    parse("serve --transfer 60", &o);
    assert_int_equal(o.a.transfer_seconds, 60);

    parse("measure --timeout 30000 --transfer 5 [::1]:99", &o);
    assert_int_equal(o.status, -1);
    assert_int_equal(o.a.transfer_seconds, 5);
    assert_string_equal(o.a.operand, "[::1]:99");
    assert_string_equal(o.a.host_name, "::1");
    assert_string_equal(o.a.port, "99");
    assert_false(o.a.available);
    parse("measure --available x", &o);
    assert_true(o.a.available);
    parse("measure fe80::1", &o);
    assert_int_equal(o.a.timeout_ns, 5000000000);
    assert_string_equal(o.a.host_name, "fe80::1");
    assert_string_equal(o.a.port, "7411");
    parse("probe h", &o);
    assert_true(o.a.timeout_ns == 2000000000 && o.a.budget_bytes == 1000000);
    parse("probe --timeout=7 --js h", &o); /* as getopt_long() has it: = and beginnings */
    assert_int_equal(o.status, -1);
    assert_true(o.a.json && o.a.timeout_ns == 7000000);
}

/* The option, the value and the reason; then how the command is used; nothing on standard output. */
static void wrong_usage_says_what_is_wrong(void **state)
{
    static const struct {
        const char *line, *says;
    } rows[] = {
        {"", "which command?"},
        {"nonsense", "nonsense: there is no such command"},
        {"probe", "HOST is missing"},
        {"probe a b", "b: one operand too many"},
        {"probe --nonsense a", "--nonsense: there is no such option"},
        {"probe -x a", "-x: there is no such option"},
        {"probe -4x a", "-x: there is no such option"},
        {"probe --budget", "--budget: its value is missing"},
        {"probe --json=1 a", "--json takes no value"},
        {"probe --json -t500 a", "-t: there is no such option"},
        {"probe --budget 999 a", "--budget 999: is out of range: it takes 1k to 1M"},
        {"probe --budget 20K a", "--budget 20K: ends with something else than the suffixes k, M and G"},
        {"probe --budget 1000001 a", "--budget 1000001: is out of range"},
        {"probe --budget x a", "--budget x: is not a number"},
        {"explain a b", "b: one operand too many"},
        {"explain --rate 0 --rtt 1", "--rate 0: is out of range"},
        {"explain --rate 1M --rtt -1", "--rtt -1: is out of range"},
        {"serve --port 0", "--port 0: it is not a port"},
        {"serve --rate 0", "--rate 0: is out of range"},
        {"serve --rate fast", "--rate fast: is not a number"},
        {"serve --clients 0", "--clients 0: is out of range"},
        {"serve --clients -1", "--clients -1: is not a whole number"},
        {"serve --per-address 0", "--per-address 0: is out of range"},
        {"measure x:0", "is not a port"},
        {"measure --transfer 0 x", "--transfer 0: is out of range: it takes 1 to 60"},
        {"measure --transfer 1.5 x", "--transfer 1.5: is not a whole number"},
        {"serve --transfer 61", "--transfer 61: is out of range"},
        {"explain --available x", "--available is an option of autobuf probe"},
        {"probe --transfer 1 x", "--transfer is an option of autobuf serve"},
        {"measure --rate 1 x", "--rate is an option of autobuf explain"},
        {"watch -1", "-1: there is no such option"},
        {"watch 1 2", "2: one operand too many"},
        {"probe --budget nan a", "--budget nan: is out of range"},
        {"probe --budget -1 a", "--budget -1: is out of range"},
        {"probe --timeout 0 a", "--timeout 0: is out of range: it takes 0.001 to 2000"},
        {"probe --timeout 2001 a", "it takes 0.001 to 2000"},
        {"probe --timeout 5ms a", "--timeout 5ms: is not a number alone"},
        {"probe --timeout inf a", "--timeout inf: is out of range"},
        {"probe --intent fast a", "--intent fast: it takes throughput, low-delay or scavenger"},
        {"probe --rate 1M --rtt 1 a", "--rate is an option of autobuf explain"},
        {"probe -I '' a", ": -I: its value is empty"},
        {"explain --rate 1G", "--rate needs --rtt"},
        {"explain --rtt 1", "--rtt needs --rate"},
        {"explain --rate 1M --rtt 1 a", "either HOST is measured, or --rate and --rtt"},
        {"explain --rate 1T --rtt 1", "--rate 1T: ends with something else"},
        {"explain --streams 0", "--streams 0: is out of range: it takes 1 to 10000"},
        {"explain --streams 1k", "--streams 1k: is not a whole number"},
        {"explain --sysctl --json", "exclude each other"},
        {"explain --sysctl", "needs a path"},
        {"explain --check --sysctl", "--check takes no path"},
        {"explain --check --rate 1M --rtt 1", "--check takes no path"},
        {"explain --pid 17 a", "--pid takes no HOST, and not --rate, --rtt, --streams, --sysctl or --check"},
        {"explain --pid 17 --rate 1M --rtt 1", "--pid takes no HOST"},
        {"explain --pid 17 --streams 2", "--pid takes no HOST"},
        {"explain --pid 17 --sysctl", "--pid takes no HOST"},
        {"explain --pid 17 --check", "--pid takes no HOST"},
        {"explain --pid 0", "--pid 0: is out of range: it takes 1 to 2147483647"},
        {"explain --pid 1:2", "--pid 1:2: is not a whole number"},
        {"explain --pid", "--pid: its value is missing"},
        {"explain --b 3", "--b: there is no such option, or more than one begins so"},
        {"watch", "PID is missing"},
        {"watch abc", "abc: it is not the number of a process"},
        {"watch 0", "0: it is not the number of a process"},
        {"watch 99999999999", "it is not the number of a process"},
        {"watch 1:", "1:: what follows the colon is not a descriptor"},
        {"watch 1:x", "1:x: what follows the colon is not a descriptor"},
        {"watch --intent low-delay 1", "--intent has no effect without --tune"},
        {"watch --clients 3 1", "--clients is an option of autobuf serve"},
        {"serve x", "x: it takes no operand"},
        {"serve --json", "--json is an option of autobuf probe"},
        {"serve --port 65536", "--port 65536: it is not a port, 1 to 65535"},
        {"serve --port 1x", "--port 1x: it is not a port"},
        {"serve --bind ''", "--bind: its value is empty"},
        {"serve --clients 1000001", "--clients 1000001: is out of range: it takes 1 to 1000000"},
        {"serve --rtt 1", "--rtt is an option of autobuf explain"},
        {"measure", "HOST is missing"},
        {"measure h:99999", "h:99999: what follows the colon is not a port, 1 to 65535"},
        {"measure h:", "is not a port"},
        {"measure [::1", "its bracket is not closed"},
        {"measure :1", "there is no host's name in it"},
        {"measure --timeout 30001 h", "it takes 0.001 to 30000"},
        {"paths frob", "frob: it is not list, show, set, import, export or forget"},
        {"paths set 192.0.2.1", "set needs --rate and --rtt"},
        {"paths set 192.0.2.1 --rate 1M", "set needs --rate and --rtt"},
        {"paths set --rate 1M --rtt 10", "PREFIX is missing"},
        {"paths show", "HOST is missing"},
        {"paths forget", "PREFIX is missing"},
        {"paths forget --all 192.0.2.1", "192.0.2.1: one operand too many"},
        {"paths import", "FILE is missing"},
        {"paths import a b", "b: one operand too many"},
        {"paths export a", "a: one operand too many"},
        {"paths import a --rate 1M", "--rate and --rtt are of set"},
        {"paths export --hours 1", "--hours is of set and import"},
        {"paths list 192.0.2.1", "192.0.2.1: one operand too many"},
        {"paths show a b", "b: one operand too many"},
        {"paths --all", "--all is of forget"},
        {"paths export --exported", "--exported is of import"},
        {"paths show a --hours 3", "--hours is of set and import"},
        {"paths list --from eth0", "--from is of set and show"},
        {"paths --store f --host", "--host and --store exclude each other"},
        {"paths set 192.0.2.1 --rate 1M --rtt 10 --hours 0", "--hours 0: is out of range: it takes 1 to 100000"},
        {"run", "PROGRAM is missing"},
        {"top 42", "42: it takes no operand"},
        {"top --interval 99", "--interval 99: is out of range: it takes 100 to 60000"},
        {"top --interval 60001", "--interval 60001: is out of range"},
        {"top --count 0", "--count 0: is out of range"},
        {"top --socket ''", "--socket: its value is empty"},
        {"watch --socket f 1", "--socket is an option of autobuf top"},
        {"run --report", "PROGRAM is missing"},
        {"run --", "PROGRAM is missing"},
        {"run --json ls", "--json is an option of autobuf probe"},
        {"run --tune ls", "--tune is an option of autobuf watch"},
        {"run --max 63999 ls", "--max 63999: is out of range: it takes 64k to 1G"},
        {"run --log '' ls", "--log: its value is empty"},
        {"run --intent fast ls", "it takes throughput, low-delay or scavenger"},
        {"probe --keep-sizes a", "--keep-sizes is an option of autobuf run"},
    };
    struct outcome o;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        parse(rows[i].line, &o);
        CHECK_EQUAL(rows[i].line, o.status, EXIT_USAGE);
        CHECK(o.err, strstr(o.err, rows[i].says) != NULL);
        CHECK(rows[i].line, strstr(o.err, "usage: autobuf ") != NULL);
        CHECK(rows[i].line, o.out[0] == '\0');
    }
}

/* Lines that fit a screen; every range and every default; each option once. */
static void help_names_every_option(void **state)
{
    static const struct {
        const char *command;
        const char *says[9];
    } rows[] = {
        {"probe", {"-4", "-I DEVICE|ADDRESS", "--budget BYTES", "(1k to 1M, default: 1M)",
                   "(0.001 to 2000, default: 2000)",
                   "--intent INTENT", "(default: throughput)", "--as-user"}},
        {"explain", {"--pid PID", "--rate BITS", "--rtt MS", "--streams N", "--bytes BYTES", "--sysctl", "--as-user",
                     "-B", "--check"}},
        {"watch", {"--tune", "--json", "--intent INTENT", "--help", "PID[:FD]", "usage:", "autobuf watch", "(1)"}},
        {"serve", {"--bind ADDR", "--port N", "(1 to 65535, default: 7411)", "--clients N",
                   "(1 to 1000000, default: 2000)",
                   "--per-address N", "(1 to 1000000, default: 32)", "default: 1G"}},
        {"measure", {"HOST[:PORT]", "(0.001 to 30000, default: 5000)", "-6", "-I", "--json", "--intent", "--as-user",
                     "usage:"}},
        {"paths", {"list, show HOST, set or forget PREFIX, import FILE, export", "--store FILE", "--host",
                   "--from LOCAL", "--hours N",
                   "(1 to 100000, default: for ever; imported: 168)", "--all", "--exported", "--json"}},
        {"run", {"[--] PROGRAM [ARG]...", "--intent INTENT", "--max BYTES",
                 "(64k to 1G, default: what this host allows)",
                 "--keep-sizes", "--probe", "--log FILE", "--report"}},
        {"top", {"--json", "--socket FILE", "(default: /run/autobufd/status.sock)", "--interval MS",
                 "(100 to 60000, default: 1000)",
                 "--count N", "usage:", "autobuf top"}},
    };
    struct outcome o;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char line[64];

        snprintf(line, sizeof line, "%s --help", rows[i].command);
        parse(line, &o);
        CHECK_EQUAL(line, o.status, EXIT_RESULT);
        CHECK(line, o.err[0] == '\0');
        for (size_t k = 0; k < COUNT(rows[i].says) && rows[i].says[k]; k++)
            CHECK(rows[i].says[k], strstr(o.out, rows[i].says[k]) != NULL);
        for (const char *at = o.out; *at; at += strcspn(at, "\n") + 1)
            CHECK(at, strcspn(at, "\n") < 80);
    }
    parse("--help", &o);
    assert_int_equal(o.status, EXIT_RESULT);
    for (const char *at = o.out; *at; at += strcspn(at, "\n") + 1)
        CHECK(at, strcspn(at, "\n") < 80);
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK(rows[i].command, strstr(o.out, rows[i].command) != NULL);
    parse("--version", &o);
    assert_int_equal(o.status, EXIT_RESULT);
    assert_true(strncmp(o.out, "autobuf ", 8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_words_arrive),
        cmocka_unit_test(wrong_usage_says_what_is_wrong),
        cmocka_unit_test(help_names_every_option),
    };

    return cmocka_run_group_tests_name("arguments", tests, NULL, NULL);
}
