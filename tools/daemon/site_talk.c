/* SPDX-License-Identifier: MIT */
#include "site.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/paths/record.h"

#define BEGINNING "0"
#define COUNT_MOST 65536  /* elements of an array */
#define PIECES_MOST 64U   /* values of a message that is read once more */
#define HEAD_VALUES 4U    /* of the answer to XREAD, before the first message */
#define UNKNOWN SIZE_MAX

/* ------------------------------------------------------------------------------------ values */

/* One value of Redis's protocol, version 2; of an array its head: the elements follow. */
struct value {
    char type; /* NUL: a string that is of no use */
    const char *text;
    long count; /* bytes of text, elements of an array; -1: null */
};

/* 1; 0: it has not come whole; -EPROTO: it is none. */
static int take_value(struct site_talk *talk, struct value *v)
{
    const char *at = talk->heard + talk->parsed, *end = memchr(at, '\n', talk->bytes - talk->parsed);
    char *stop;

    if (talk->parsed < talk->bytes && !memchr("+-:$*", *at, 5))
        return -EPROTO;
    if (!end)
        return 0;
    *v = (struct value){*at, at + 1, end - at - 2};
    if (v->count < 0 || end[-1] != '\r')
        return -EPROTO;
    if (*at == '$' || *at == '*') {
        v->count = strtol(v->text, &stop, 10);
        if (v->text[0] == '\r' || stop != end - 1 || v->count < -1 || (*at == '*' && v->count > COUNT_MOST))
            return -EPROTO;
    }
    if (*at == '$' && v->count >= 0) {
        size_t whole = (size_t)(end + 1 - at) + (size_t)v->count + 2;

        v->text = end + 1;
        if (whole > SITE_VALUE_BYTES) {
            v->type = '\0';
            talk->skip = (size_t)v->count + 2;
        } else if (whole > talk->bytes - talk->parsed) {
            return 0;
        } else if (memcmp(v->text + v->count, "\r\n", 2) != 0) {
            return -EPROTO;
        } else {
            end = at + whole - 1;
        }
    }
    talk->parsed = (size_t)(end + 1 - talk->heard);
    return 1;
}

static bool is_text(const struct value *v, const char *text)
{
    return v->type == '$' && v->count == (long)strlen(text) && memcmp(v->text, text, strlen(text)) == 0;
}

/* --------------------------------------------------------------------------------------- ids */

struct id {
    uint64_t ms, number; /* of those of the same millisecond */
};

static struct id id_of(const char *text)
{
    char *end;
    struct id id = {.ms = strtoull(text, &end, 10)};

    if (*end == '-')
        id.number = strtoull(end + 1, NULL, 10);
    return id;
}

/* Whether it stands behind the message that was read last. */
static bool is_behind(const struct site_talk *talk, const char *text)
{
    struct id id = id_of(text), last = id_of(talk->read_to);

    return id.ms > last.ms || (id.ms == last.ms && id.number > last.number);
}

/* Two numbers with a dash between them. */
static bool is_id(const struct value *v)
{
    return v->type == '$' && v->count >= 0 && v->count < (long)SITE_ID_BYTES &&
           strspn(v->text, "0123456789-") >= (size_t)v->count;
}

/* The greatest one before that of the message that was read last. */
static void id_before(const struct site_talk *talk, char text[SITE_ID_BYTES])
{
    struct id id = id_of(talk->read_to);

    if (!id.number)
        id.ms -= id.ms > 0;
    id.number--;
    snprintf(text, SITE_ID_BYTES, "%" PRIu64 "-%" PRIu64, id.ms, id.number);
}

void site_talk_read_anew(struct site_talk *talk)
{
    strcpy(talk->read_to, BEGINNING);
    talk->was_whole = false;
}

void site_talk_begin(struct site_talk *talk, const char *key, const char *who)
{
    *talk = (struct site_talk){.who = who};
    snprintf(talk->stream, sizeof talk->stream, "%s:paths:1", key);
    site_talk_read_anew(talk);
}

/* ------------------------------------------------------------------------------------ asking */

/* Writes a command of so many words; the last one may hold zeros. */
static void say(FILE *out, size_t count, const char *const *words, size_t last_bytes)
{
    fprintf(out, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = i + 1 < count ? strlen(words[i]) : last_bytes;

        fprintf(out, "$%zu\r\n", bytes);
        fwrite(words[i], 1, bytes, out);
        fputs("\r\n", out);
    }
}

static void say_two(FILE *out, const char *command, const char *operand)
{
    say(out, 2, (const char *[]){command, operand}, strlen(operand));
}

static void say_entry(FILE *out, const struct site_talk *talk, const struct autobuf_paths_entry *entry)
{
    char message[AUTOBUF_PATHS_MESSAGE_BYTES];
    const char *words[] = {"XADD", talk->stream, "MAXLEN", "~", SITE_KEPT, "*", "h", talk->who, "e", message};

    (void)autobuf_paths_entry_encode(entry, message, sizeof message); /* what site_check() lets through can be */
    say(out, sizeof words / sizeof *words, words, sizeof message);
}

static void say_read(FILE *out, const struct site_talk *talk, unsigned count)
{
    char number[16], before[SITE_ID_BYTES];
    const char *from = talk->lookback ? before : talk->read_to;

    id_before(talk, before);
    snprintf(number, sizeof number, "%u", count + talk->lookback);
    say(out, 6, (const char *[]){"XREAD", "COUNT", number, "STREAMS", talk->stream, from}, strlen(from));
}

int site_talk_ask(struct site_talk *talk, const struct site_round *round, char **bytes, size_t *count)
{
    FILE *out = open_memstream(bytes, count);
    char database[16];
    bool failed;

    if (!out)
        return -ENOMEM;
    talk->logins = (round->password ? 1U : 0U) + (round->database ? 1U : 0U);
    talk->adds = round->count;
    talk->values = talk->open = talk->taken = talk->bytes = talk->parsed = talk->skip = 0;
    talk->left = UNKNOWN;
    talk->lookback = round->lookback && talk->was_whole;
    talk->replaced = false;
    if (round->password)
        say_two(out, "AUTH", round->password);
    if (round->database) {
        snprintf(database, sizeof database, "%u", *round->database);
        say_two(out, "SELECT", database);
    }
    for (size_t i = 0; i < round->count; i++)
        say_entry(out, talk, &round->entries[i]);
    say_read(out, talk, round->read);
    failed = ferror(out);
    if (fclose(out) == 0 && !failed)
        return 0;
    free(*bytes);
    *bytes = NULL;
    return -ENOMEM;
}

/* ----------------------------------------------------------------------------------- hearing */

/*
 * The stream is no longer that of which something was read. The next round reads all: one that has begun anew has
 * smaller ids.
 */
static void note_another(struct site_talk *talk)
{
    talk->replaced = true;
    site_talk_read_anew(talk);
}

/* A message begins: the one that was known, one of a stream that is another, or a new one. */
static void hear_id(struct site_talk *talk, const struct value *id)
{
    bool is_known = talk->lookback;

    if (is_known && !is_text(id, talk->read_to))
        note_another(talk);
    talk->lookback = false;
    talk->is_entry = !is_known && !talk->replaced;
    if (!talk->is_entry)
        return;
    memcpy(talk->read_to, id->text, (size_t)id->count);
    talk->read_to[id->count] = '\0';
    talk->was_whole = talk->is_long = false;
    talk->taken++;
}

static void hear_entry(const struct value *v, site_heard_fn *take, void *user)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    bool good = v->type == '$' && v->count >= 0 && ab_paths_entry_decode(v->text, (uint32_t)v->count, &entry) == 0;

    take(user, good ? &entry : NULL);
}

/*
 * The next value of a message: that itself, its id, its fields, and each of them, of which a later version may have
 * more.
 */
static int hear_piece(struct site_talk *talk, size_t at, const struct value *v, site_heard_fn *take, void *user)
{
    bool is_array = v->type == '*' && v->count >= 0;

    talk->is_long |= !v->type || at >= PIECES_MOST;
    talk->open += is_array ? (size_t)v->count : 0;
    switch (at) {
    case 0:
        if (!is_array || v->count < 2)
            return -EPROTO;
        talk->open++;
        break;
    case 1:
        if (!is_id(v))
            return -EPROTO;
        hear_id(talk, v);
        break;
    case 2:
        talk->is_entry &= is_array && v->count >= 4;
        break;
    case 3:
        talk->is_entry &= is_text(v, "h");
        break;
    case 4:
        talk->is_entry &= v->type == '$' && !is_text(v, talk->who);
        break;
    case 5:
        talk->is_entry &= is_text(v, "e");
        break;
    case 6:
        if (talk->is_entry)
            hear_entry(v, take, user);
        break;
    }
    if (--talk->open)
        return 1;
    talk->values = talk->logins + talk->adds + HEAD_VALUES;
    talk->was_whole = !talk->replaced && !talk->is_long;
    talk->left--;
    return 1;
}

/* The answer to XREAD: null, or of one stream its name and its messages. */
static int hear_head(struct site_talk *talk, size_t at, const struct value *v)
{
    static const struct {
        char type;
        long least, most;
    } shape[HEAD_VALUES] = {{'*', 1, 1}, {'*', 2, 2}, {'$', 0, SITE_VALUE_BYTES}, {'*', 0, SITE_ROUND + 1}};
    bool is_null = at == 0 && v->type == '*' && v->count < 0;

    if (!is_null && (v->type != shape[at].type || v->count < shape[at].least || v->count > shape[at].most))
        return -EPROTO;
    if (!is_null && at + 1 < HEAD_VALUES)
        return 1;
    talk->left = is_null ? 0 : (size_t)v->count;
    if (talk->replaced || (talk->lookback && !talk->left))
        note_another(talk);
    return 1;
}

static int hear_refusal(struct site_talk *talk, const struct value *v)
{
    size_t at = 0;

    for (; at + 1 < sizeof talk->refusal && at < (size_t)v->count; at++)
        talk->refusal[at] = v->text[at] >= ' ' && v->text[at] <= '~' ? v->text[at] : '?';
    talk->refusal[at] = '\0';
    return -EKEYREJECTED;
}

static int hear_value(struct site_talk *talk, const struct value *v, site_heard_fn *take, void *user)
{
    size_t at = talk->values++, commands = talk->logins + talk->adds;

    if (v->type == '-' && at <= commands)
        return hear_refusal(talk, v);
    if (at < talk->logins)
        return v->type == '+' ? 1 : -EPROTO;
    if (at >= commands + HEAD_VALUES)
        return hear_piece(talk, at - commands - HEAD_VALUES, v, take, user);
    if (at >= commands)
        return hear_head(talk, at - commands, v);
    talk->replaced |= is_id(v) && !is_behind(talk, v->text);
    return v->type == '$' && v->count >= 0 ? 1 : -EPROTO;
}

/* What has come, as far as it is whole. Behind the last answer nothing may come. */
static int hear_all(struct site_talk *talk, site_heard_fn *take, void *user)
{
    int result = 1;

    while (result > 0) {
        size_t skipped = ab_min_size(talk->skip, talk->bytes - talk->parsed);
        struct value v;

        talk->parsed += skipped;
        talk->skip -= skipped;
        if (!talk->left && !talk->skip)
            return talk->parsed < talk->bytes ? -EPROTO : 1;
        result = talk->skip ? 0 : take_value(talk, &v);
        if (result > 0)
            result = hear_value(talk, &v, take, user);
    }
    return result;
}

int site_talk_hear(struct site_talk *talk, const char *bytes, size_t count, site_heard_fn *take, void *user,
                   size_t *heard)
{
    int result = 0;

    while (result == 0 && count) {
        size_t more;

        talk->bytes -= talk->parsed;
        memmove(talk->heard, talk->heard + talk->parsed, talk->bytes);
        talk->parsed = 0;
        more = ab_min_size(count, SITE_VALUE_BYTES - talk->bytes);
        memcpy(talk->heard + talk->bytes, bytes, more);
        talk->bytes += more;
        bytes += more;
        count -= more;
        result = more ? hear_all(talk, take, user) : -EPROTO;
    }
    if (result > 0 && count)
        result = -EPROTO;
    *heard = talk->taken;
    if (result < 0)
        site_talk_read_anew(talk);
    return result;
}
