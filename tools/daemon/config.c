/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "../array.h"
#include "../print.h"
#include "../resolve.h"

#define LINE_CHARS 190U
#define RULES_MOST 100000U
#define SIZE_BYTES_MOST 0x3fffffffU /* the kernel doubles it */
#define RATE_BIT_PER_S_MOST 10e12
#define INTERVAL_MS 100U
#define BUDGET_PERCENT 50U
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SITE_PORT 6379U
#define SITE_DATABASE_MOST 65535U
#define BLANKS " \t\r\n\f\v"

struct reading {
    config_wrong_fn *wrong;
    void *user; /* of wrong() */
    struct config *config;
    size_t room;     /* of config->rules */
    size_t covering; /* the first rule that matches all, counted from 1; 0: none yet */
    uint32_t given;  /* keys of this section so far, as bits of their places in the table */
    unsigned line;   /* that is read now */
    unsigned mistakes;
    bool stop;  /* no more lines are read: there is no memory */
};

/* Without the blanks around it. */
static char *trim(char *text)
{
    size_t length;

    text += strspn(text, BLANKS);
    length = strlen(text);
    while (length && strchr(BLANKS, text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

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

/* A kind of value. */
struct kind {
    bool (*take)(void *field, char *value); /* takes it in, if it is right; NULL: it is a number */
    double least, most;
    const char *suffixes; /* of numbers */
    const char *right;
};

static bool take_number(const struct kind *kind, uint64_t *field, const char *value)
{
    double number;

    if (value[0] < '0' || value[0] > '9' || strpbrk(value, "xX") || *unscaled(value, kind->suffixes, &number) ||
        number < kind->least || number > kind->most)
        return false;
    *field = (uint64_t)number;
    return true;
}

static bool take_bool(void *field, char *value)
{
    *(bool *)field = strcasecmp(value, "yes") == 0;
    return *(bool *)field || strcasecmp(value, "no") == 0;
}

/* With its NUL it has so many bytes at most. */
static bool copy_name(char *field, const char *value, size_t bytes)
{
    bool right = value[0] && strlen(value) < bytes;

    if (right)
        strcpy(field, value);
    return right;
}

static bool take_word(void *field, char *value)
{
    return copy_name(field, value, RULE_WORD_BYTES);
}

static bool take_control(void *field, char *value)
{
    return copy_name(field, value, sizeof((struct rule *)NULL)->congestion_control);
}

static bool take_file(void *field, char *value)
{
    *(char *)field = '\0';
    return strcmp(value, "off") == 0 || (value[0] == '/' && copy_name(field, value, FILE_BYTES));
}

/* Of the characters that need no quotes anywhere. */
static bool take_key(void *field, char *value)
{
    size_t length = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-");

    return !value[length] && take_word(field, value);
}

static bool take_prefix(void *field, char *value)
{
    return autobuf_prefix_parse(value, field) == 0;
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

static bool take_range(struct ports *ports, const char *text)
{
    struct port_range *range = &ports->ranges[ports->count];

    if (ports->count == RULE_PORTS || !to_port(&text, &range->first))
        return false;
    range->last = range->first;
    ports->count++;
    return (*text != '-' || (text++, to_port(&text, &range->last))) && !*text && range->last >= range->first;
}

static bool take_ports(void *field, char *value)
{
    for (char *one; (one = strsep(&value, ",")) != NULL;)
        if (!take_range(field, trim(one)))
            return false;
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
    place->address_bytes = source_address(host, &place->address);
    ((struct sockaddr_in *)&place->address)->sin_port = htons(port); /* sin6_port is in the same place */
    return !*text && place->address_bytes;
}

static bool take_site(void *field, char *value)
{
    return site_place_parse(value, field);
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

static bool take_user(void *field, char *value)
{
    struct rule *rule = field;

    return rule->by_user = to_user(value, &rule->user);
}

static bool take_users(void *field, char *value)
{
    struct believed *believed = field;

    for (char *one; (one = strsep(&value, ",")) != NULL; believed->count++)
        if (believed->count == BELIEVED_MOST || !to_user(trim(one), &believed->users[believed->count]))
            return false;
    return true;
}

static bool take_mode(void *field, char *value)
{
    size_t mode = 0;

    while (mode < MODES && strcmp(value, rule_modes[mode]) != 0)
        mode++;
    *(enum mode *)field = (enum mode)mode;
    return mode < MODES;
}

static bool take_intent(void *field, char *value)
{
    return intent_parse(value, field);
}

/* -------------------------------------------------------------------------------------- keys */

static const struct kind
    sizes = {NULL, 1, SIZE_BYTES_MOST, "kMG", "bytes, 1 to 1073741823; suffixes k, M and G"},
    rates = {NULL, 1, RATE_BIT_PER_S_MOST, "kMG", "bit/s; suffixes k, M and G"},
    intervals = {NULL, 10, 10000, "", "milliseconds, 10 to 10000"},
    percents = {NULL, 1, BUDGET_PERCENT, "", "a percentage of net.ipv4.tcp_mem, 1 to 50"},
    bools = {take_bool, 0, 0, NULL, "yes or no"},
    files = {take_file, 0, 0, NULL, "off, or a file by its full name, of at most 89 characters"},
    prefixes = {take_prefix, 0, 0, NULL, "a prefix, such as 192.0.2.0/24 or 2001:db8::/32, with no bits behind it"},
    port_lists = {take_ports, 0, 0, NULL, "up to eight ports or ranges, such as 80,5000-5100"},
    sites = {take_site, 0, 0, NULL, "redis://ADDRESS[:PORT][/DATABASE] with a numeric address, or unix:/FILE"},
    words = {take_word, 0, 0, NULL, "a name of at most 63 characters"},
    key_words = {take_key, 0, 0, NULL, "a name of at most 63 letters, digits, and . _ : -"},
    controls = {take_control, 0, 0, NULL, "a congestion control, such as cubic or bbr"},
    single_users = {take_user, 0, 0, NULL, "a user of this host, by name or number"},
    user_lists = {take_users, 0, 0, NULL,
                  "up to eight users of this host, by name or number, with a comma between them"},
    modes = {take_mode, 0, 0, NULL, "auto, path, fixed or off"},
    intents = {take_intent, 0, 0, NULL, INTENT_WORDS};

static const struct key {
    const char *name;
    const struct kind *kind;
    bool of_rule; /* else of the whole file: before the first section */
    size_t field;
} keys[] = {
    {"interval", &intervals, false, offsetof(struct config, interval_ms)},
    {"budget", &percents, false, offsetof(struct config, budget_percent)},
    {"raise", &sizes, false, offsetof(struct config, raise_bytes)},
    {"bpf", &bools, false, offsetof(struct config, bpf)},
    {"dry_run", &bools, false, offsetof(struct config, dry_run)},
    {"stop_ports", &port_lists, false, offsetof(struct config, stop_ports)},
    {"status", &files, false, offsetof(struct config, status_file)},
    {"state", &files, false, offsetof(struct config, state_file)},
    {"store", &files, false, offsetof(struct config, store_file)},
    {"learned", &files, false, offsetof(struct config, learned_file)},
    {"believe", &user_lists, false, offsetof(struct config, believed)},
    {"site", &sites, false, offsetof(struct config, site)},
    {"site_key", &key_words, false, offsetof(struct config, site_key)},
    {"site_password_file", &files, false, offsetof(struct config, site_password_file)},
    {"remote", &prefixes, true, offsetof(struct rule, remote)},
    {"remote_port", &port_lists, true, offsetof(struct rule, remote_port)},
    {"local", &prefixes, true, offsetof(struct rule, local)},
    {"local_port", &port_lists, true, offsetof(struct rule, local_port)},
    {"unit", &words, true, offsetof(struct rule, unit)},
    {"user", &single_users, true, 0},
    {"program", &words, true, offsetof(struct rule, program)},
    {"mode", &modes, true, offsetof(struct rule, mode)},
    {"sndbuf", &sizes, true, offsetof(struct rule, snd_bytes)},
    {"rcvbuf", &sizes, true, offsetof(struct rule, rcv_bytes)},
    {"max", &sizes, true, offsetof(struct rule, most_bytes)},
    {"divide", &sizes, true, offsetof(struct rule, divide_bytes)},
    {"cc", &controls, true, offsetof(struct rule, congestion_control)},
    {"pace", &rates, true, offsetof(struct rule, pace_bit_per_s)},
    {"intent", &intents, true, offsetof(struct rule, intent)},
    {"dry_run", &bools, true, offsetof(struct rule, dry_run)},
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
    char *base = in_section ? (char *)&c->rules[c->count - 1] : (char *)c, copy[LINE_CHARS + 1];
    void *field;

    if (!key && key_of(name, !in_section)) {
        say_wrong(r, r->line, in_section ? "%s: belongs before the first section" : "%s: belongs into a section", name);
    } else if (!key) {
        say_wrong(r, r->line, "%s: there is no such setting", name);
    } else if (r->given & 1U << (key - keys)) {
        say_wrong(r, r->line, "%s: is set already", name);
    } else {
        r->given |= 1U << (key - keys);
        field = base + key->field;
        strcpy(copy, value);
        if (!(key->kind->take ? key->kind->take(field, copy) : take_number(key->kind, field, copy)))
            say_wrong(r, r->line, "%s=%s: it takes %s", name, value, key->kind->right);
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
        say_wrong(r, rule->line, "[%s]: mode fixed sets nothing without sndbuf, rcvbuf, cc or pace", rule->name);
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

    end_section(r);
    r->stop = c->count == RULES_MOST || !array_grow(&c->rules, c->count, &r->room, sizeof *c->rules);
    if (r->stop)
        return;
    c->rules[c->count] = (struct rule){.line = r->line};
    snprintf(c->rules[c->count].name, RULE_NAME_BYTES, "%s", name);
    c->count++;
    r->given = 0;
}

/* ----------------------------------------------------------------------------------- lines */

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

/* NAME=VALUE or NAME:VALUE, and behind a blank and a semicolon a comment. */
static void take_setting(struct reading *r, char *text)
{
    char *comment = text, *end;

    do
        comment = strchr(comment + 1, ';');
    while (comment && !strchr(BLANKS, comment[-1]));
    if (comment)
        *comment = '\0';
    end = strpbrk(text, "=:");
    if (!end) {
        say_wrong(r, r->line, "this is neither [name] nor name=value");
        return;
    }
    *end = '\0';
    take(r, trim(text), trim(end + 1));
}

/* Without its end. */
static void take_line(struct reading *r, char *line, size_t length)
{
    bool too_long = length > LINE_CHARS;

    r->line++;
    if (too_long || strlen(line) < length) {
        say_wrong(r, r->line,
                  too_long ? "the line is longer than %u characters" : "there is a zero in the first %u characters",
                  LINE_CHARS);
        return;
    }
    if (r->line == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3;
    line = trim(line);
    if (line[0] == '[')
        take_header(r, line);
    else if (line[0] && line[0] != ';' && line[0] != '#')
        take_setting(r, line);
}

/* ------------------------------------------------------------------------------- the whole */

static struct config empty(void)
{
    return (struct config){.interval_ms = INTERVAL_MS, .budget_percent = BUDGET_PERCENT, .status_file = STATUS_FILE,
                           .state_file = STATE_FILE, .store_file = STORE_FILE, .learned_file = LEARNED_FILE,
                           .bpf = true, .site_key = SITE_KEY};
}

int config_read(FILE *file, struct config *config, config_wrong_fn *wrong, void *user)
{
    struct reading r = {.wrong = wrong, .user = user, .config = config};
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int error;

    *config = empty();
    while (!r.stop && (length = getline(&line, &room, file)) >= 0) {
        length -= length && line[length - 1] == '\n';
        line[length] = '\0';
        take_line(&r, line, (size_t)length);
    }
    free(line);
    if (!r.stop && !feof(file))
        say_wrong(&r, r.line, "the file cannot be read to its end");
    end_section(&r);
    error = r.stop ? -ENOMEM : r.mistakes ? -EINVAL : 0;
    if (config->dry_run)
        config_set_dry(config);
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

void config_set_dry(struct config *config)
{
    config->dry_run = true;
    for (size_t i = 0; i < config->count; i++)
        config->rules[i].dry_run = true;
}

void config_free(struct config *config)
{
    free(config->rules);
    *config = empty();
}
