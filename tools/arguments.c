/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "print.h"
#include "transfer.h"

#define BIT(command) (1U << (command))
#define ECHOES (BIT(PROBE) | BIT(EXPLAIN))
#define ON_PATHS (ECHOES | BIT(MEASURE))
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HELP 'h'
#define OPTION_COLUMNS 22 /* of the help, before what an option is for */

enum value {
    FLAG, FAMILY, TEXT, INTENT, PORT,
    COUNTED,  /* a whole number */
    QUANTITY, /* with a suffix: k, M or G */
    MS,       /* milliseconds, kept as nanoseconds */
};

/* One option of some commands. An option may have more than one line, if its range is not the same everywhere. */
struct option_line {
    int letter;         /* what getopt_long() says */
    const char *name;   /* NULL: has a letter only */
    const char *value;  /* what the help calls its value; NULL: takes none */
    const char *help;
    const char *preset; /* what holds without it; NULL: nothing to say */
    unsigned commands;
    enum value kind;
    size_t field; /* of struct arguments */
    double least, most;
};

#define FIELD(name) offsetof(struct arguments, name)
#define SWITCH(letter, name, help, commands, field) {letter, name, NULL, help, NULL, commands, FLAG, FIELD(field), 0, 0}

static const struct option_line lines[] = {
    {'4', NULL, NULL, "use only IPv4 addresses of HOST", NULL, ON_PATHS, FAMILY, FIELD(family), 0, 0},
    {'6', NULL, NULL, "use only IPv6 addresses of HOST", NULL, ON_PATHS, FAMILY, FIELD(family), 0, 0},
    {'I', NULL, "DEVICE|ADDRESS", "send from there", "the kernel chooses", ON_PATHS, TEXT, FIELD(source), 0, 0},
    SWITCH('B', NULL, "keep the source address that the kernel chose first", ECHOES, keep_source),
    {'m', "max", "BYTES", "make no buffer larger than this", "what this host allows", BIT(RUN), QUANTITY,
     FIELD(most_bytes), 64e3, 1e9},
    SWITCH('k', "keep-sizes", "buffers stay as the program sets them", BIT(RUN), keep_sizes),
    SWITCH('P', "probe", "the path may be measured before connect()", BIT(RUN), probe),
    {'L', "log", "FILE", "add what is decided to this file", NULL, BIT(RUN), TEXT, FIELD(log), 0, 0},
    SWITCH('R', "report", "print a line for each connection, when the process ends", BIT(RUN), report),
    SWITCH('j', "json", "print JSON: one object on one line", ON_PATHS | BIT(WATCH) | BIT(PATHS) | BIT(TOP), json),
    SWITCH('u', "tune", "act on the connections: their buffers, or their pace", BIT(WATCH), tune),
    {'i', "intent", "INTENT", INTENT_WORDS, "throughput", ON_PATHS | BIT(WATCH) | BIT(RUN), INTENT,
     FIELD(intent), 0, 0},
    {'b', "budget", "BYTES", "send no more than this", "1M", ECHOES, QUANTITY, FIELD(budget_bytes), 1e3, 1e6},
    {'t', "timeout", "MS", "measure for no longer than this", "2000", ECHOES, MS, FIELD(timeout_ns), 0.001, 2000},
    {'t', "timeout", "MS", "connect, and then measure, for no longer than this", "5000", BIT(MEASURE), MS,
     FIELD(timeout_ns), 0.001, 30000},
    {'r', "rate", "BITS", "the path's rate in bit/s, instead of HOST; needs --rtt", NULL, BIT(EXPLAIN), QUANTITY,
     FIELD(rate_bit_per_s), 1, 1e15},
    {'r', "rate", "BITS", "send all clients together no more than this, in bit/s", "1G", BIT(SERVE), QUANTITY,
     FIELD(rate_bit_per_s), 1, 1e15},
    {'d', "rtt", "MS", "the path's round-trip time, instead of HOST; needs --rate", NULL, BIT(EXPLAIN), MS,
     FIELD(rtt_ns), 0.001, 1e6},
    {'r', "rate", "BITS", "set: the path's rate in bit/s", NULL, BIT(PATHS), QUANTITY, FIELD(rate_bit_per_s), 1, 1e15},
    {'d', "rtt", "MS", "set: the path's round-trip time", NULL, BIT(PATHS), MS, FIELD(rtt_ns), 0.001, 1e6},
    {'H', "hours", "N", "set, import: it holds for so long", "for ever; imported: 168", BIT(PATHS), COUNTED,
     FIELD(hours), 1, 1e5},
    {'f', "from", "LOCAL", "set, show: only from there, or through this interface", "any", BIT(PATHS), TEXT,
     FIELD(from), 0, 0},
    SWITCH('o', "host", "the host's store, /var/lib/autobuf/paths", BIT(PATHS), host),
    {'S', "store", "FILE", "this store", "the host's or the user's", BIT(PATHS), TEXT, FIELD(store), 0, 0},
    SWITCH('A', "all", "forget: all paths", BIT(PATHS), all),
    SWITCH('x', "exported", "import: export printed FILE, which is trusted", BIT(PATHS), exported),
    {'n', "streams", "N", "that many connections share the path", "1", BIT(EXPLAIN), COUNTED, FIELD(streams), 1, 1e4},
    {'e', "bytes", "BYTES", "so much will be transferred", "unknown", BIT(EXPLAIN), QUANTITY, FIELD(expected_bytes),
     1, 1e18},
    {'w', "pid", "PID", "why are the connections of this process slow?", NULL, BIT(EXPLAIN), COUNTED, FIELD(pid), 1,
     INT_MAX},
    SWITCH('U', "as-user", "the plan is an ordinary user's, also for root", ON_PATHS, as_user),
    SWITCH('s', "sysctl", "print only lines for a file in /etc/sysctl.d", BIT(EXPLAIN), sysctl),
    {'C', "check", NULL, "say which lines that --sysctl wrote to FILE are in force",
     "that in /etc/sysctl.d", BIT(EXPLAIN), FLAG, FIELD(check), 0, 0},
    {'l', "bind", "ADDR", "listen on this address", "all", BIT(SERVE), TEXT, FIELD(bind), 0, 0},
    {'p', "port", "N", "listen on this port", MEASURE_PORT, BIT(SERVE), PORT, FIELD(port), 1, 65535},
    {'c', "clients", "N", "serve no more clients at once", "2000", BIT(SERVE), COUNTED, FIELD(clients), 1, 1e6},
    {'a', "per-address", "N", "of these, no more of one address", "32", BIT(SERVE), COUNTED, FIELD(per_address), 1,
     1e6},
    {'T', "transfer", "SECONDS", "allow transfers of at most this length", "none", BIT(SERVE), COUNTED,
     FIELD(transfer_seconds), 1, TRANSFER_SECONDS_MOST},
    {'T', "transfer", "SECONDS", "then transfer this long: default and tuned, each way", "none", BIT(MEASURE), COUNTED,
     FIELD(transfer_seconds), 1, TRANSFER_SECONDS_MOST},
    SWITCH('F', "available", "then say what other traffic leaves free", BIT(MEASURE) | BIT(PROBE), available),
    {'q', "socket", "FILE", "ask autobufd there", TOP_SOCKET, BIT(TOP), TEXT, FIELD(socket), 0, 0},
    {'v', "interval", "MS", "ask so often", "1000", BIT(TOP), MS, FIELD(interval_ns), 100, 60000},
    {'N', "count", "N", "end after so many answers", "until a signal", BIT(TOP), COUNTED, FIELD(count), 1, 1e9},
    {HELP, "help", NULL, "print this", NULL, ~0U, FLAG, 0, 0, 0},
};

static const struct {
    const char *name, *operand, *what;
} commands[] = {
    [NO_COMMAND] = {"", "", ""},
    [PROBE] = {"probe", " HOST", "Measures the path to HOST with ICMP echoes; says what a socket needs."},
    [EXPLAIN] = {"explain", " [HOST | --pid PID | FILE]",
                 "Says how fast transfers on such a path are, and what limits them."},
    [WATCH] = {"watch", " PID[:FD]", "Shows what limits the TCP connections of a process, or the one at FD."},
    [SERVE] = {"serve", "", "Answers autobuf measure of other hosts, until a signal ends it."},
    [MEASURE] = {"measure", " HOST[:PORT]",
                 "Measures the path to HOST over TCP, where autobuf serve runs."},
    [PATHS] = {"paths", " [ACTION]",
               "Known paths: list, show HOST, set or forget PREFIX, import FILE, export."},
    [RUN] = {"run", " [--] PROGRAM [ARG]...", "Runs PROGRAM, and manages the connections of it and its children."},
    [TOP] = {"top", "", "Shows the connections that autobufd manages, live."},
};

/* "1k to 1M"; without a prefix where none is taken. */
static void range_words(const struct option_line *line, char *text, size_t cap)
{
    static const char *const prefixes[] = {"", "k", "M", "G"};
    double ends[] = {line->least, line->most};
    size_t prefix[] = {0, 0};

    for (size_t i = 0; line->kind == QUANTITY && i < 2; i++)
        for (; prefix[i] < 3 && ends[i] >= 1000 && ends[i] == 1000.0 * (double)(uint64_t)(ends[i] / 1000); prefix[i]++)
            ends[i] /= 1000;
    snprintf(text, cap, "%.15g%s to %.15g%s", ends[0], prefixes[prefix[0]], ends[1], prefixes[prefix[1]]);
}

static void help_line(FILE *out, const struct option_line *line)
{
    char words[64], range[96] = "", letter[] = {(char)line->letter, '\0'};

    snprintf(words, sizeof words, "%s%s%s%s", line->name ? "--" : "-", line->name ? line->name : letter,
             line->value ? " " : "", line->value ? line->value : "");
    fprintf(out, "  %-*s %s", OPTION_COLUMNS - 3, words, line->help);
    if (line->most > 0)
        range_words(line, range, sizeof range);
    if (range[0] || line->preset)
        fprintf(out, "\n%*s(%s%s%s%s)", OPTION_COLUMNS, "", range, range[0] && line->preset ? ", " : "",
                line->preset ? "default: " : "", line->preset ? line->preset : "");
    fputc('\n', out);
}

static void help_command(FILE *out, enum command command)
{
    fprintf(out, "usage: autobuf %s [OPTION]...%s\n%s\n\n", commands[command].name, commands[command].operand,
            commands[command].what);
    for (size_t i = 0; i < COUNT(lines); i++)
        if (lines[i].commands & BIT(command))
            help_line(out, &lines[i]);
    fputs("\nBYTES and BITS take a suffix: k, M or G, powers of 1000. autobuf(1) says more.\n", out);
}

static void help_all(FILE *out)
{
    fputs("usage: autobuf COMMAND [OPTION]... [OPERAND]\n", out);
    for (size_t i = 1; i < COUNT(commands); i++)
        fprintf(out, "\n  autobuf %s%s\n      %s\n", commands[i].name, commands[i].operand, commands[i].what);
    fputs("\n  autobuf COMMAND --help\n      Prints the options of a command.\n"
          "\n  autobuf --version | --help\n",
          out);
}

/* "autobuf probe: why", and how the command is used. */
static __attribute__((format(printf, 3, 4))) bool wrong(FILE *err, enum command command, const char *why, ...)
{
    va_list args;

    fprintf(err, "autobuf %s: ", commands[command].name);
    va_start(args, why);
    vfprintf(err, why, args);
    va_end(args);
    fprintf(err, "\nusage: autobuf %s [OPTION]...%s (autobuf %s --help says more)\n", commands[command].name,
            commands[command].operand, commands[command].name);
    return false;
}

static bool parse_decimal(const char *text, const char **end, int *value)
{
    char *stop;
    long long number = strtoll(text, &stop, 10);

    *end = stop;
    *value = (int)number;
    return text[0] >= '0' && text[0] <= '9' && number <= INT_MAX;
}

static bool is_port(const char *text)
{
    int number;

    return parse_decimal(text, &text, &number) && !*text && number >= 1 && number <= 65535;
}

/* A number within the option's range, with its unit's suffix. NULL and *value, or what is wrong. */
static const char *parse_number(const struct option_line *line, const char *text, double *value)
{
    const char *end;

    if (line->kind == COUNTED && strspn(text, "0123456789") != strlen(text))
        return "is not a whole number";
    end = unscaled(text, line->kind == QUANTITY ? "kMG" : "", value);
    if (end == text)
        return "is not a number";
    if (*end)
        return line->kind == QUANTITY ? "ends with something else than the suffixes k, M and G (powers of 1000)"
                                      : "is not a number alone";
    return *value >= line->least && *value <= line->most ? NULL : "is out of range";
}

static void keep_number(struct arguments *a, const struct option_line *line, double value)
{
    uint64_t *field = (uint64_t *)(void *)((char *)a + line->field);

    *field = (uint64_t)(line->kind == MS ? value * 1e6 : value);
}

/* A preset that is a number holds. Others are words about what happens without one. */
static void take_presets(struct arguments *a)
{
    for (size_t i = 0; i < COUNT(lines); i++) {
        const struct option_line *line = &lines[i];
        double value;

        if (line->commands & BIT(a->command) && line->kind >= COUNTED && line->preset &&
            !parse_number(line, line->preset, &value))
            keep_number(a, line, value);
    }
}

static bool take_number(struct arguments *a, const struct option_line *line, const char *text, FILE *err)
{
    double value = 0;
    const char *why = parse_number(line, text, &value);
    char range[96];

    if (why) {
        range_words(line, range, sizeof range);
        return wrong(err, a->command, "--%s %s: %s: it takes %s", line->name, text, why, range);
    }
    keep_number(a, line, value);
    return true;
}

static bool take_option(struct arguments *a, const struct option_line *line, const char *text, FILE *err)
{
    void *field = (char *)a + line->field;

    if (line->value && !text[0] && line->kind < COUNTED)
        return line->name ? wrong(err, a->command, "--%s: its value is empty", line->name)
                          : wrong(err, a->command, "-%c: its value is empty", line->letter);
    switch (line->kind) {
    case FLAG:
        return *(bool *)field = true;
    case FAMILY:
        a->family = line->letter == '4' ? AF_INET : AF_INET6;
        return true;
    case TEXT:
    case PORT:
        *(const char **)field = text;
        return line->kind == TEXT || is_port(text) ||
               wrong(err, a->command, "--port %s: it is not a port, 1 to 65535", text);
    case INTENT:
        return intent_parse(text, &a->intent) || wrong(err, a->command, "--intent %s: it takes " INTENT_WORDS, text);
    default:
        return take_number(a, line, text, err);
    }
}

static const struct option_line *line_of(int letter, unsigned among)
{
    for (size_t i = 0; i < COUNT(lines); i++)
        if (lines[i].letter == letter && lines[i].commands & among)
            return &lines[i];
    return NULL;
}

/* The options of a command, as getopt_long(3) takes them: the short ones, and the long ones. */
static void options_of(enum command command, char *letters, struct option *names)
{
    if (command == RUN)
        *letters++ = '+'; /* what follows PROGRAM is the program's */
    *letters++ = ':'; /* a value that is missing is told from an option that is unknown */
    for (size_t i = 0; i < COUNT(lines); i++) {
        const struct option_line *line = &lines[i];

        if (!(line->commands & BIT(command)))
            continue;
        if (line->name) {
            *names++ = (struct option){line->name, line->value ? required_argument : no_argument, NULL, line->letter};
            continue;
        }
        *letters++ = (char)line->letter;
        if (line->value)
            *letters++ = ':';
    }
    *letters = '\0';
    *names = (struct option){NULL, 0, NULL, 0};
}

/* Is it the option that this line is of? word: as it was given, of this length. */
static bool is_named(const struct option_line *line, const char *word, size_t length)
{
    if (!line->name)
        return length == 2 && word[1] == line->letter;
    return strncmp(word, "--", 2) == 0 && strlen(line->name) == length - 2 &&
           strncmp(line->name, word + 2, length - 2) == 0;
}

/* Says of an option that getopt_long() refused what is wrong, and which command has it, if one has. */
static bool refused_option(const struct arguments *a, const char *word, FILE *err)
{
    const struct option_line *known = optopt && strncmp(word, "--", 2) == 0 ? line_of(optopt, BIT(a->command)) : NULL;
    char letter[] = {'-', (char)optopt, '\0'};
    size_t length;

    if (known && !known->value && strchr(word, '='))
        return wrong(err, a->command, "--%s takes no value", known->name);
    word = optopt ? letter : word;
    length = strcspn(word, "=");
    for (size_t i = 0; i < COUNT(lines); i++)
        for (size_t c = 1; is_named(&lines[i], word, length) && c < COUNT(commands); c++)
            if (lines[i].commands & BIT(c))
                return wrong(err, a->command, "%.*s is an option of autobuf %s", (int)length, word, commands[c].name);
    return wrong(err, a->command, "%.*s: there is no such option, or more than one begins so", (int)length, word);
}

static bool parse_options(int argc, char **argv, struct arguments *a, bool *help, FILE *err)
{
    struct option names[COUNT(lines) + 1];
    char letters[2 * COUNT(lines) + 3];
    int letter;

    options_of(a->command, letters, names);
    opterr = 0;
    optind = 0; /* begins anew, also in a process that has parsed before */
    while ((letter = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        const char *word = argv[optind - 1];

        if (letter == ':')
            return wrong(err, a->command, "%s: its value is missing", word);
        if (letter == '?')
            return refused_option(a, word, err);
        if (letter == HELP)
            return *help = true;
        if (!take_option(a, line_of(letter, BIT(a->command)), optarg, err))
            return false;
    }
    a->operands = argv + optind;
    if (optind < argc)
        a->operand = argv[optind++];
    if (a->command == PATHS && optind < argc)
        optind++; /* after the action, its operand */
    return a->command == RUN || optind == argc || wrong(err, a->command, "%s: one operand too many", argv[optind]);
}

/* PID[:FD] */
static bool check_process(struct arguments *a, FILE *err)
{
    const char *rest = a->operand;
    int pid = 0;

    if (!rest)
        return wrong(err, WATCH, "which process? PID is missing");
    if (!parse_decimal(rest, &rest, &pid) || pid == 0 || (*rest && *rest != ':'))
        return wrong(err, WATCH, "%s: it is not the number of a process", a->operand);
    if (*rest == ':' && (!parse_decimal(rest + 1, &rest, &a->fd) || *rest))
        return wrong(err, WATCH, "%s: what follows the colon is not a descriptor", a->operand);
    a->pid = (uint64_t)pid;
    return a->intent == AUTOBUF_INTENT_THROUGHPUT || a->tune ||
           wrong(err, WATCH, "--intent has no effect without --tune");
}

static bool check_explained(const struct arguments *a, FILE *err)
{
    if (a->pid && (a->operand || a->rate_bit_per_s || a->rtt_ns || a->streams > 1 || a->sysctl || a->check))
        return wrong(err, EXPLAIN, "--pid takes no HOST, and not --rate, --rtt, --streams, --sysctl or --check");
    if (a->check && (a->sysctl || a->rate_bit_per_s || a->rtt_ns))
        return wrong(err, EXPLAIN, "--check takes no path, and not --sysctl");
    if (a->rate_bit_per_s && !a->rtt_ns)
        return wrong(err, EXPLAIN, "--rate needs --rtt, the path's round-trip time, as well");
    if (a->rtt_ns && !a->rate_bit_per_s)
        return wrong(err, EXPLAIN, "--rtt needs --rate, the path's rate, as well");
    if (a->rtt_ns && a->operand)
        return wrong(err, EXPLAIN, "%s: either HOST is measured, or --rate and --rtt say what the path is", a->operand);
    if (a->sysctl && a->json)
        return wrong(err, EXPLAIN, "--sysctl and --json exclude each other");
    if (a->sysctl && !a->operand && !a->rate_bit_per_s)
        return wrong(err, EXPLAIN, "--sysctl needs a path: HOST, or --rate and --rtt");
    return true;
}

/* [ACTION [OPERAND]] */
static bool check_paths(struct arguments *a, FILE *err)
{
    static const struct {
        const char *name, *operand; /* NULL: it takes none */
    } actions[PATHS_UNKNOWN] = {
        [PATHS_LIST] = {"list", NULL}, [PATHS_SHOW] = {"show", "HOST"}, [PATHS_SET] = {"set", "PREFIX"},
        [PATHS_IMPORT] = {"import", "FILE"}, [PATHS_EXPORT] = {"export", NULL}, [PATHS_FORGET] = {"forget", "PREFIX"}};
    const char *action = a->operand ? a->operand : "list";

    a->action = PATHS_LIST;
    while (a->action < PATHS_UNKNOWN && strcmp(action, actions[a->action].name) != 0)
        a->action++;
    a->operand = a->operand ? a->operands[1] : NULL;
    if (a->action == PATHS_UNKNOWN)
        return wrong(err, PATHS, "%s: it is not list, show, set, import, export or forget", action);
    if (a->host && a->store)
        return wrong(err, PATHS, "--host and --store exclude each other");
    if (a->all && a->action != PATHS_FORGET)
        return wrong(err, PATHS, "--all is of forget");
    if (a->exported && a->action != PATHS_IMPORT)
        return wrong(err, PATHS, "--exported is of import");
    if (a->action != PATHS_SET && (a->rate_bit_per_s || a->rtt_ns))
        return wrong(err, PATHS, "--rate and --rtt are of set");
    if (a->action != PATHS_SET && a->action != PATHS_IMPORT && a->hours)
        return wrong(err, PATHS, "--hours is of set and import");
    if (a->action != PATHS_SET && a->action != PATHS_SHOW && a->from)
        return wrong(err, PATHS, "--from is of set and show");
    if (a->action == PATHS_SET && (!a->rate_bit_per_s || !a->rtt_ns))
        return wrong(err, PATHS, "set needs --rate and --rtt");
    if (!a->operand && actions[a->action].operand && !a->all)
        return wrong(err, PATHS, "%s is missing", actions[a->action].operand);
    if (a->operand && (!actions[a->action].operand || a->all))
        return wrong(err, PATHS, "%s: one operand too many", a->operand);
    return true;
}

/* HOST, HOST:PORT, [HOST]:PORT, or an IPv6 address with its colons. NULL, or what is wrong. */
static const char *split_target(struct arguments *a)
{
    const char *target = a->operand, *begin = target, *colon = strrchr(target, ':');
    size_t len = strlen(target);

    if (target[0] == '[') {
        const char *end = strchr(target, ']');

        if (!end || (end[1] && end[1] != ':'))
            return "its bracket is not closed, or something else than a port follows";
        begin = target + 1;
        len = (size_t)(end - begin);
        colon = end[1] ? end + 1 : NULL;
    } else if (colon && strchr(target, ':') != colon) {
        colon = NULL;
    } else if (colon) {
        len = (size_t)(colon - target);
    }
    if (colon)
        a->port = colon + 1;
    if (!is_port(a->port))
        return "what follows the colon is not a port, 1 to 65535";
    if (len == 0 || len >= sizeof a->host_name)
        return "there is no host's name in it";
    memcpy(a->host_name, begin, len);
    a->host_name[len] = '\0';
    return NULL;
}

static bool check(struct arguments *a, FILE *err)
{
    const char *why;

    switch (a->command) {
    case WATCH:
        return check_process(a, err);
    case SERVE:
    case TOP:
        return !a->operand || wrong(err, a->command, "%s: it takes no operand", a->operand);
    case PATHS:
        return check_paths(a, err);
    case RUN:
        return a->operand || wrong(err, RUN, "PROGRAM is missing");
    case EXPLAIN:
        return check_explained(a, err);
    case MEASURE:
        why = a->operand ? split_target(a) : "HOST is missing";
        return !why || wrong(err, MEASURE, "%s%s%s", a->operand ? a->operand : "", a->operand ? ": " : "", why);
    default:
        return a->operand || wrong(err, a->command, "HOST is missing");
    }
}

int arguments_parse(int argc, char **argv, struct arguments *a, FILE *out, FILE *err)
{
    const char *name = argc > 1 ? argv[1] : "";
    bool help = false;

    *a = (struct arguments){.fd = -1, .family = AF_UNSPEC, .intent = AUTOBUF_INTENT_THROUGHPUT, .port = MEASURE_PORT,
                            .socket = TOP_SOCKET};
    if (strcmp(name, "--version") == 0) {
        fprintf(out, "autobuf %s\n", autobuf_version());
        return EXIT_RESULT;
    }
    if (strcmp(name, "--help") == 0) {
        help_all(out);
        return EXIT_RESULT;
    }
    for (size_t i = 1; i < COUNT(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            a->command = (enum command)i;
    take_presets(a);
    if (a->command == NO_COMMAND) {
        fprintf(err, "autobuf: %s%s\n", name, name[0] ? ": there is no such command" : "which command?");
        help_all(err);
        return EXIT_USAGE;
    }
    if (!parse_options(argc - 1, argv + 1, a, &help, err))
        return EXIT_USAGE;
    if (help) {
        help_command(out, a->command);
        return EXIT_RESULT;
    }
    return check(a, err) ? -1 : EXIT_USAGE;
}
