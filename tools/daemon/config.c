/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <ini.h>

#include "../../lib/base/address.h"

#define LINE_CHARS 190U /* libinih's own line has 200 bytes */
#define RULES_MOST 100000U
#define SIZE_BYTES_MOST 0x3fffffffU /* the kernel doubles it */
#define RATE_BIT_PER_S_MOST 10e12
#define INTERVAL_MS 100U
#define BUDGET_PERCENT 50U
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define VALUE_BYTES 200U /* of a line */
#define SITE_PORT 6379U
#define SITE_DATABASE_MOST 65535U
#define BLANKS " \t\r\n\f\v"

/* libinih tells its handler no numbers of lines, so its reader counts them, and sees the sections itself. */
struct reading {
    FILE *file;
    config_wrong_fn *wrong;
    void *user; /* of wrong() */
    struct config *config;
    size_t room;     /* of config->rules */
    size_t covering; /* the first rule that matches all, counted from 1; 0: none yet */
    uint32_t given;  /* keys of this section so far, as bits of their places in the table */
    unsigned line;   /* that is read now */
    unsigned mistakes;
    bool stop;  /* no more lines are read: there is no memory */
    bool waits; /* the line before was not blank, and its setting has not come */
};

/* Says what is wrong with a line; what is not printable becomes a question mark. */
__attribute__((format(printf, 3, 4))) static void say_wrong(struct reading *r, unsigned line, const char *format, ...)
{
    va_list arguments;
    char text[320];

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    r->mistakes++;
    r->wrong(r->user, line, text);
}

/* ------------------------------------------------------------------------------------ values */

/* Each takes a value in, or returns what would be right. */
typedef const char *take_fn(void *field, const char *value);

static bool to_number(const char *text, const char *suffixes, double most, double *value)
{
    static const char prefixes[] = "kMG";
    const char *prefix;
    char *end;

    if (text[0] < '0' || text[0] > '9' || strpbrk(text, "xX"))
        return false;
    *value = strtod(text, &end);
    prefix = *end && strchr(suffixes, *end) ? strchr(prefixes, *end) : NULL;
    for (const char *p = prefixes; prefix && p <= prefix; p++)
        *value *= 1000;
    return !end[prefix ? 1 : 0] && *value >= 1 && *value <= most;
}

static const char *take_size(void *field, const char *value)
{
    double number;

    if (!to_number(value, "kMG", SIZE_BYTES_MOST, &number))
        return "bytes, 1 to 1073741823; suffixes k, M and G";
    *(uint64_t *)field = (uint64_t)number;
    return NULL;
}

static const char *take_rate(void *field, const char *value)
{
    double number;

    if (!to_number(value, "kMG", RATE_BIT_PER_S_MOST, &number))
        return "bit/s; suffixes k, M and G";
    *(uint64_t *)field = (uint64_t)number;
    return NULL;
}

static const char *take_interval(void *field, const char *value)
{
    double number;

    if (!to_number(value, "", 10000, &number) || number < 10)
        return "milliseconds, 10 to 10000";
    *(uint32_t *)field = (uint32_t)number;
    return NULL;
}

static const char *take_percent(void *field, const char *value)
{
    double number;

    if (!to_number(value, "", BUDGET_PERCENT, &number))
        return "a percentage of net.ipv4.tcp_mem, 1 to 50";
    *(uint32_t *)field = (uint32_t)number;
    return NULL;
}

static const char *take_bool(void *field, const char *value)
{
    bool yes = strcasecmp(value, "yes") == 0;

    if (!yes && strcasecmp(value, "no") != 0)
        return "yes or no";
    *(bool *)field = yes;
    return NULL;
}

static const char *take_file(void *field, const char *value)
{
    if (strcmp(value, "off") == 0)
        value = "";
    else if (value[0] != '/' || strlen(value) >= FILE_BYTES)
        return "off, or a file by its full name, of at most 89 characters";
    memcpy(field, value, strlen(value) + 1);
    return NULL;
}

static const char *take_prefix(void *field, const char *value)
{
    static const char right[] = "a prefix, such as 192.0.2.0/24 or 2001:db8::/32, with no bits behind it";

    return autobuf_prefix_parse(value, field) < 0 ? right : NULL;
}

/* Reads a number up to the first character that is no digit, where *text is then. */
static bool to_digits(const char **text, unsigned long most, unsigned *number)
{
    char *end;
    unsigned long value = strtoul(*text, &end, 10);

    if (**text < '0' || **text > '9')
        return false;
    *text = end;
    *number = (unsigned)value;
    return value <= most;
}

static bool to_port(const char **text, uint16_t *port)
{
    unsigned number = 0;
    bool found = to_digits(text, UINT16_MAX, &number);

    *port = (uint16_t)number;
    return found && number;
}

static const char *take_ports(void *field, const char *value)
{
    static const char right[] = "up to eight ports or ranges, such as 80,5000-5100";
    struct ports *ports = field;

    for (;;) {
        struct port_range *range = &ports->ranges[ports->count];

        value += strspn(value, BLANKS);
        if (ports->count == RULE_PORTS || !to_port(&value, &range->first))
            return right;
        range->last = range->first;
        if (*value == '-' && (value++, !to_port(&value, &range->last) || range->last < range->first))
            return right;
        ports->count++;
        value += strspn(value, BLANKS);
        if (!*value)
            return NULL;
        if (*value++ != ',')
            return right;
    }
}

/* The address of a host, and the length of that. */
static bool to_host(const char *host, uint16_t port, struct site_place *place)
{
    uint8_t bytes[16];
    size_t count = inet_pton(AF_INET, host, bytes) == 1 ? 4 : inet_pton(AF_INET6, host, bytes) == 1 ? 16 : 0;

    if (!count)
        return false;
    place->address_bytes = (socklen_t)ab_address_make(bytes, count, &place->address);
    ((struct sockaddr_in *)&place->address)->sin_port = htons(port); /* sin6_port is in the same place */
    return true;
}

bool site_place_parse(const char *text, struct site_place *place)
{
    struct sockaddr_un *file = (struct sockaddr_un *)&place->address;
    uint16_t port = SITE_PORT;
    char host[INET6_ADDRSTRLEN];
    bool bracket;
    size_t bytes;

    *place = (struct site_place){.database = 0};
    if (strncmp(text, "unix:/", 6) == 0 && strlen(text + 5) < sizeof file->sun_path) {
        file->sun_family = AF_UNIX;
        strcpy(file->sun_path, text + 5);
        place->address_bytes = sizeof *file;
        return true;
    }
    if (strncmp(text, "redis://", 8) != 0)
        return false;
    bracket = text[8] == '[';
    text += 8 + bracket;
    bytes = strcspn(text, bracket ? "]" : ":/");
    if (bytes >= sizeof host || (bracket && text[bytes] != ']') || bracket != !!memchr(text, ':', bytes))
        return false;
    memcpy(host, text, bytes);
    host[bytes] = '\0';
    text += bytes + bracket;
    if (*text == ':' && (text++, !to_port(&text, &port)))
        return false;
    if (*text == '/' && (text++, !to_digits(&text, SITE_DATABASE_MOST, &place->database)))
        return false;
    return !*text && to_host(host, port, place);
}

static const char *take_site(void *field, const char *value)
{
    static const char right[] = "redis://ADDRESS[:PORT][/DATABASE] with a numeric address, or unix:/FILE";

    return site_place_parse(value, field) ? NULL : right;
}

static const char *take_word(void *field, const char *value)
{
    if (!value[0] || strlen(value) >= RULE_WORD_BYTES)
        return "a name of at most 63 characters";
    memcpy(field, value, strlen(value) + 1);
    return NULL;
}

/* Of the characters that need no quotes anywhere. */
static const char *take_key(void *field, const char *value)
{
    size_t length = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-");

    if (value[length])
        return "a name of at most 63 letters, digits, and . _ : -";
    return take_word(field, value);
}

static const char *take_control(void *field, const char *value)
{
    if (!value[0] || strlen(value) >= sizeof((struct rule *)NULL)->congestion_control)
        return "a congestion control, such as cubic or bbr";
    memcpy(field, value, strlen(value) + 1);
    return NULL;
}

static bool to_user(const char *text, uint32_t *user)
{
    const struct passwd *found = getpwnam(text);
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (!found && (text[0] < '0' || text[0] > '9' || *end || number >= UINT32_MAX))
        return false;
    *user = found ? found->pw_uid : (uint32_t)number;
    return true;
}

static const char *take_user(void *field, const char *value)
{
    struct rule *rule = field;

    if (!to_user(value, &rule->user))
        return "a user of this host, by name or number";
    rule->by_user = true;
    return NULL;
}

static const char *take_users(void *field, const char *value)
{
    static const char right[] = "up to eight users of this host, by name or number, with a comma between them";
    struct believed *believed = field;
    char names[VALUE_BYTES], *rest = names;

    if ((size_t)snprintf(names, sizeof names, "%s", value) >= sizeof names)
        return right;
    for (char *name; (name = strsep(&rest, ",")) != NULL; believed->count++) {
        size_t length;

        name += strspn(name, BLANKS);
        length = strlen(name);
        while (length && strchr(BLANKS, name[length - 1]))
            name[--length] = '\0';
        if (believed->count == BELIEVED_MOST || !to_user(name, &believed->users[believed->count]))
            return right;
    }
    return NULL;
}

static const char *take_mode(void *field, const char *value)
{
    for (size_t i = 0; i < COUNT(rule_modes); i++) {
        if (strcmp(value, rule_modes[i]) == 0) {
            *(enum mode *)field = (enum mode)i;
            return NULL;
        }
    }
    return "auto, path, fixed or off";
}

static const char *take_intent(void *field, const char *value)
{
    bool low_delay = strcmp(value, "low-delay") == 0;

    if (!low_delay && strcmp(value, "throughput") != 0)
        return "throughput or low-delay";
    *(uint32_t *)field = low_delay ? AUTOBUF_INTENT_LOW_DELAY : AUTOBUF_INTENT_THROUGHPUT;
    return NULL;
}

/* -------------------------------------------------------------------------------------- keys */

static const struct key {
    const char *name;
    take_fn *take;
    bool of_rule; /* else of the whole file: before the first section */
    size_t field;
} keys[] = {
    {"interval", take_interval, false, offsetof(struct config, interval_ms)},
    {"budget", take_percent, false, offsetof(struct config, budget_percent)},
    {"bpf", take_bool, false, offsetof(struct config, bpf)},
    {"dry_run", take_bool, false, offsetof(struct config, dry_run)},
    {"stop_ports", take_ports, false, offsetof(struct config, stop_ports)},
    {"status", take_file, false, offsetof(struct config, status_file)},
    {"state", take_file, false, offsetof(struct config, state_file)},
    {"store", take_file, false, offsetof(struct config, store_file)},
    {"learned", take_file, false, offsetof(struct config, learned_file)},
    {"believe", take_users, false, offsetof(struct config, believed)},
    {"site", take_site, false, offsetof(struct config, site)},
    {"site_key", take_key, false, offsetof(struct config, site_key)},
    {"site_password_file", take_file, false, offsetof(struct config, site_password_file)},
    {"remote", take_prefix, true, offsetof(struct rule, remote)},
    {"remote_port", take_ports, true, offsetof(struct rule, remote_port)},
    {"local", take_prefix, true, offsetof(struct rule, local)},
    {"local_port", take_ports, true, offsetof(struct rule, local_port)},
    {"unit", take_word, true, offsetof(struct rule, unit)},
    {"user", take_user, true, 0},
    {"program", take_word, true, offsetof(struct rule, program)},
    {"mode", take_mode, true, offsetof(struct rule, mode)},
    {"sndbuf", take_size, true, offsetof(struct rule, snd_bytes)},
    {"rcvbuf", take_size, true, offsetof(struct rule, rcv_bytes)},
    {"max", take_size, true, offsetof(struct rule, most_bytes)},
    {"divide", take_size, true, offsetof(struct rule, divide_bytes)},
    {"cc", take_control, true, offsetof(struct rule, congestion_control)},
    {"pace", take_rate, true, offsetof(struct rule, pace_bit_per_s)},
    {"intent", take_intent, true, offsetof(struct rule, intent)},
    {"dry_run", take_bool, true, offsetof(struct rule, dry_run)},
};

_Static_assert(COUNT(keys) <= 32, "struct reading counts them in 32 bits");

static const struct key *key_of(const char *name, bool of_rule)
{
    for (size_t i = 0; i < COUNT(keys); i++)
        if (keys[i].of_rule == of_rule && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static void take(struct reading *r, const char *name, const char *value)
{
    struct config *c = r->config;
    bool in_section = c->count;
    const struct key *key = key_of(name, in_section);
    void *base = in_section ? (void *)&c->rules[c->count - 1] : (void *)c;
    const char *right;

    if (!key && key_of(name, !in_section)) {
        say_wrong(r, r->line, in_section ? "%s: belongs before the first section" : "%s: belongs into a section", name);
    } else if (!key) {
        say_wrong(r, r->line, "%s: there is no such setting", name);
    } else if (r->given & 1U << (key - keys)) {
        say_wrong(r, r->line, "%s: is set already", name);
    } else {
        r->given |= 1U << (key - keys);
        right = key->take((char *)base + key->field, value);
        if (right)
            say_wrong(r, r->line, "%s=%s: it takes %s", name, value, right);
    }
}

/* -------------------------------------------------------------------------------- sections */

/* Says what contradicts itself in the section that has ended. */
static void end_section(struct reading *r)
{
    const struct config *c = r->config;
    const struct rule *rule = c->count ? &c->rules[c->count - 1] : NULL;
    bool sets;

    if (!rule || r->stop)
        return;
    sets = rule->snd_bytes || rule->rcv_bytes || rule->pace_bit_per_s || rule->congestion_control[0];
    if (rule->mode == MODE_FIXED && !sets)
        say_wrong(r, rule->line, "[%s]: mode fixed sets nothing without sndbuf, rcvbuf, cc or pace",
                       rule->name);
    if (rule->mode != MODE_FIXED && (rule->snd_bytes || rule->rcv_bytes))
        say_wrong(r, rule->line,
                       "[%s]: sndbuf and rcvbuf belong to mode fixed; max bounds the other modes", rule->name);
    if (rule->mode == MODE_FIXED && (rule->most_bytes || rule->intent))
        say_wrong(r, rule->line, "[%s]: max and intent belong to the modes auto and path", rule->name);
    if (rule->mode == MODE_OFF && (sets || rule->most_bytes || rule->intent))
        say_wrong(r, rule->line, "[%s]: mode off sets nothing", rule->name);
    if (rule->divide_bytes && (rule->mode != MODE_AUTO || rule->most_bytes || rule->intent))
        say_wrong(r, rule->line, "[%s]: divide belongs to mode auto, without max and intent", rule->name);
    if (r->covering)
        say_wrong(r, rule->line, "[%s]: is never reached, because [%s] in line %u matches all", rule->name,
                       c->rules[r->covering - 1].name, c->rules[r->covering - 1].line);
    else if (rule_covers_all(rule))
        r->covering = c->count;
}

static void begin_section(struct reading *r, const char *name)
{
    struct config *c = r->config;
    struct rule *rules = c->rules;

    end_section(r);
    if (c->count == r->room) {
        r->room = r->room ? 2 * r->room : 16;
        rules = c->count < RULES_MOST ? realloc(c->rules, r->room * sizeof *rules) : NULL;
    }
    if (!rules) {
        r->stop = true;
        return;
    }
    c->rules = rules;
    c->rules[c->count] = (struct rule){.line = r->line};
    snprintf(c->rules[c->count].name, RULE_NAME_BYTES, "%s", name);
    c->count++;
    r->given = 0;
}

/* ----------------------------------------------------------------------------------- lines */

/* libinih's handler. 1: go on. */
static int handle(void *user, const char *section, const char *name, const char *value)
{
    struct reading *r = user;

    (void)section; /* whose lines the reader sees, also where two have one name */
    r->waits = false;
    if (!r->stop)
        take(r, name, value);
    return 1;
}

static void take_header(struct reading *r, char *header)
{
    size_t length = strcspn(header + 1, "]");

    if (!header[1 + length])
        say_wrong(r, r->line, "a section's name ends with ]");
    else if (length == 0 || length >= RULE_NAME_BYTES)
        say_wrong(r, r->line, "a section has a name of 1 to %u characters", RULE_NAME_BYTES - 1);
    header[1 + (length < RULE_NAME_BYTES ? length : RULE_NAME_BYTES - 1)] = '\0';
    begin_section(r, header + 1);
}

/* The next line, without its end; what is beyond room, and whether there is a zero in it. false: there is none. */
static bool next_line(struct reading *r, char *out, size_t room, bool *too_long, bool *zero)
{
    size_t length = 0;
    int c;

    *too_long = *zero = false;
    while ((c = getc(r->file)) != EOF && c != '\n') {
        *zero |= c == 0;
        *too_long |= length == room;
        if (length < room)
            out[length++] = (char)c;
    }
    out[length] = '\0';
    r->line += c != EOF || length || *too_long;
    return c != EOF || length || *too_long;
}

/* libinih's reader. It hands on each line without blanks in front, which would continue the line before. */
static char *read_line(char *out, int room, void *user)
{
    struct reading *r = user;
    size_t most = room - 3 < (int)LINE_CHARS ? (size_t)room - 3 : LINE_CHARS;
    bool too_long, zero;
    const char *text;

    if (r->waits)
        say_wrong(r, r->line, "this is neither [name] nor name=value");
    r->waits = false;
    if (r->stop || !next_line(r, out, most, &too_long, &zero))
        return NULL;
    text = out + strspn(out, BLANKS);
    if (r->line == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    if (too_long || zero) {
        say_wrong(r, r->line, too_long ? "the line is longer than %u characters" : "there is a zero in the first %u characters",
                    (unsigned)most);
        text = "";
    }
    memmove(out, text, strlen(text) + 1);
    if (out[0] == '[') {
        take_header(r, out);
        out[0] = '\0';
    }
    r->waits = out[0] && out[0] != ';' && out[0] != '#';
    strcat(out, "\n");
    return out;
}

/* ------------------------------------------------------------------------------- the whole */

static struct config empty(void)
{
    return (struct config){.interval_ms = INTERVAL_MS, .budget_percent = BUDGET_PERCENT, .status_file = STATUS_FILE,
                           .state_file = STATE_FILE, .store_file = STORE_FILE, .learned_file = LEARNED_FILE, .bpf = true,
                           .site_key = SITE_KEY};
}

int config_read(FILE *file, struct config *config, config_wrong_fn *wrong, void *user)
{
    struct reading r = {.file = file, .wrong = wrong, .user = user, .config = config};
    int error;

    *config = empty();
    ini_parse_stream(read_line, &r, handle, &r);
    if (ferror(file))
        say_wrong(&r, r.line, "the file cannot be read to its end");
    end_section(&r);
    error = r.stop ? -ENOMEM : r.mistakes ? -EINVAL : 0;
    if (error < 0)
        config_free(config);
    return error;
}

int config_without_file(struct config *config)
{
    *config = empty();
    config->rules = calloc(1, sizeof *config->rules);
    if (!config->rules)
        return -ENOMEM;
    config->count = 1;
    config->without_file = true;
    strcpy(config->rules[0].name, "all");
    return 0;
}

void config_free(struct config *config)
{
    free(config->rules);
    *config = empty();
}
