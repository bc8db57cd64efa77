/* SPDX-License-Identifier: MIT */
#include "site_talk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis.h>

#include "../../lib/paths/record.h"

#define STREAM_BYTES 96U
#define ID_BYTES 42U /* of two numbers of 64 bits, with its NUL */
#define PIECES_MOST (2 * SITE_ROUND) /* of an answer's array */
#define FIELDS_DEPTH 4U /* arrays around those of a message's fields: the message, all of them, the stream, all of these */
#define DEPTH_MOST 6U /* arrays around any; how many more hiredis would read depends on its version */
#define BEGINNING "0"

struct site_talk {
    const char *who;
    char stream[STREAM_BYTES];
    char read_to[ID_BYTES]; /* what was read last */
    bool was_whole; /* that; and so it can be read once more */
    char refusal[SITE_REFUSAL_BYTES];
    redisReader *reader;
    redisReplyObjectFunctions usual, bounded; /* of the reader; bounded: those that it uses */
    size_t logins, adds, answers; /* of this round: commands of each kind, and answers so far */
    size_t heard_bytes;
    bool lookback;   /* this round reads that one once more */
    bool replaced;   /* an addition of this round is not behind it: the stream is another one */
    bool cut;        /* this round's answer was longer than may be */
};

/* ----------------------------------------------------------------------------------- hiredis */

#if HIREDIS_MAJOR > 0
typedef size_t pieces_type;
#else
typedef int pieces_type;
#endif

static redisReply *parent_of(const redisReadTask *task)
{
    return task->parent ? task->parent->obj : NULL;
}

/* Of something that is left out, its parts are, too. */
static bool is_left_out(const redisReadTask *task)
{
    const redisReply *parent = parent_of(task);

    return parent && parent->type == REDIS_REPLY_NIL;
}

static unsigned depth_of(const redisReadTask *task)
{
    unsigned depth = 0;

    while ((task = task->parent))
        depth++;
    return depth;
}

/* A server may claim that an array is as long as all memory. A message of so many fields is left out, others are refused. */
static void *make_array(const redisReadTask *task, pieces_type pieces)
{
    const struct site_talk *talk = task->privdata;
    unsigned depth = depth_of(task);

    if (depth > DEPTH_MOST)
        return NULL;
    if (is_left_out(task))
        return parent_of(task);
    if ((size_t)pieces <= PIECES_MOST)
        return talk->usual.createArray(task, pieces);
    return depth == FIELDS_DEPTH && task->idx == 1 ? talk->usual.createNil(task) : NULL;
}

static void *make_string(const redisReadTask *task, char *text, size_t bytes)
{
    const struct site_talk *talk = task->privdata;

    return is_left_out(task) ? parent_of(task) : talk->usual.createString(task, text, bytes);
}

static void *make_integer(const redisReadTask *task, long long value)
{
    const struct site_talk *talk = task->privdata;

    return is_left_out(task) ? parent_of(task) : talk->usual.createInteger(task, value);
}

static void *make_nil(const redisReadTask *task)
{
    const struct site_talk *talk = task->privdata;

    return is_left_out(task) ? parent_of(task) : talk->usual.createNil(task);
}

#if HIREDIS_MAJOR > 0
/* These are of a version of the protocol for which nobody has asked. */
static void *refuse_double(const redisReadTask *task, double value, char *text, size_t bytes)
{
    (void)task;
    (void)value;
    (void)text;
    (void)bytes;
    return NULL;
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)task;
    (void)value;
    return NULL;
}
#endif

static int begin_reading(struct site_talk *talk)
{
    if (talk->reader)
        redisReaderFree(talk->reader);
    talk->reader = redisReaderCreate();
    if (!talk->reader)
        return -ENOMEM;
    talk->usual = talk->bounded = *talk->reader->fn;
    talk->bounded.createArray = make_array;
    talk->bounded.createString = make_string;
    talk->bounded.createInteger = make_integer;
    talk->bounded.createNil = make_nil;
#if HIREDIS_MAJOR > 0
    talk->bounded.createDouble = refuse_double;
    talk->bounded.createBool = refuse_bool;
#endif
    talk->reader->fn = &talk->bounded;
    talk->reader->privdata = talk;
    return 0;
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

/* The greatest one before that of the message that was read last. */
static void id_before(const struct site_talk *talk, char text[ID_BYTES])
{
    struct id id = id_of(talk->read_to);

    if (!id.number)
        id.ms -= id.ms > 0;
    id.number--;
    snprintf(text, ID_BYTES, "%" PRIu64 "-%" PRIu64, id.ms, id.number);
}

void site_talk_read_anew(struct site_talk *talk)
{
    strcpy(talk->read_to, BEGINNING);
    talk->was_whole = false;
}

/* ------------------------------------------------------------------------------------ asking */

/* Writes a command of so many words behind what is there. bytes NULL: words without a zero. false: there is no memory. */
static bool say(FILE *out, int words, const char **word, const size_t *bytes)
{
    char *text = NULL;
    int length = (int)redisFormatCommandArgv(&text, words, word, bytes);
    bool done = length > 0 && fwrite(text, 1, (size_t)length, out) == (size_t)length;

    redisFreeCommand(text);
    return done;
}

static bool say_login(FILE *out, const struct site_round *round)
{
    char database[16];

    if (round->password && !say(out, 2, (const char *[]){"AUTH", round->password}, NULL))
        return false;
    if (!round->database)
        return true;
    snprintf(database, sizeof database, "%u", *round->database);
    return say(out, 2, (const char *[]){"SELECT", database}, NULL);
}

static bool say_entry(FILE *out, const struct site_talk *talk, const struct autobuf_paths_entry *entry)
{
    char message[AUTOBUF_PATHS_MESSAGE_BYTES];
    int bytes = autobuf_paths_entry_encode(entry, message, sizeof message);
    const char *words[] = {"XADD", talk->stream, "MAXLEN", "~", SITE_KEPT, "*", "h", talk->who, "e", message};
    size_t lengths[sizeof words / sizeof *words];
    const size_t count = sizeof words / sizeof *words;

    if (bytes < 0)
        return false;
    for (size_t i = 0; i + 1 < count; i++)
        lengths[i] = strlen(words[i]);
    lengths[count - 1] = (size_t)bytes;
    return say(out, (int)count, words, lengths);
}

static bool say_read(FILE *out, const struct site_talk *talk, unsigned count)
{
    char number[16], before[ID_BYTES];
    const char *from = talk->lookback ? before : talk->read_to;

    id_before(talk, before);
    snprintf(number, sizeof number, "%u", count + talk->lookback);
    return say(out, 6, (const char *[]){"XREAD", "COUNT", number, "STREAMS", talk->stream, from}, NULL);
}

int site_talk_ask(struct site_talk *talk, const struct site_round *round, char **bytes, size_t *count)
{
    FILE *out = begin_reading(talk) < 0 ? NULL : open_memstream(bytes, count);
    bool done;

    if (!out)
        return -ENOMEM;
    talk->logins = (round->password ? 1U : 0U) + (round->database ? 1U : 0U);
    talk->adds = round->count;
    talk->answers = talk->heard_bytes = 0;
    talk->lookback = round->lookback && talk->was_whole;
    talk->replaced = talk->cut = false;
    done = say_login(out, round);
    for (size_t i = 0; i < round->count && done; i++)
        done = say_entry(out, talk, &round->entries[i]);
    done = done && say_read(out, talk, round->read);
    if (fclose(out) == 0 && done)
        return 0;
    free(*bytes);
    *bytes = NULL;
    return -ENOMEM;
}

/* ----------------------------------------------------------------------------------- hearing */

static bool is_text(const redisReply *r, const char *text)
{
    return r->type == REDIS_REPLY_STRING && (size_t)r->len == strlen(text) && memcmp(r->str, text, strlen(text)) == 0;
}

/* NULL here and below: it has not come yet. */
static bool is_array(const redisReply *r, size_t least)
{
    return r && r->type == REDIS_REPLY_ARRAY && r->elements >= least;
}

/* Two numbers with a dash between them. */
static bool is_id(const redisReply *r)
{
    return r && r->type == REDIS_REPLY_STRING && (size_t)r->len < ID_BYTES && (size_t)r->len == strspn(r->str, "0123456789-");
}

/* The fields of a message, or of too many what stands for them. */
static bool are_whole(const redisReply *r)
{
    return r && (r->type == REDIS_REPLY_NIL || (is_array(r, 0) && (!r->elements || r->element[r->elements - 1])));
}

static bool has_id(const redisReply *message)
{
    return is_array(message, 2) && is_id(message->element[0]);
}

static void read_to(struct site_talk *talk, const redisReply *message, bool whole)
{
    memcpy(talk->read_to, message->element[0]->str, (size_t)message->element[0]->len + 1);
    talk->was_whole = whole;
}

/* One message of the stream. Of a later version it may have more fields. false: it is none. */
static bool hear_message(struct site_talk *talk, const redisReply *r, site_heard_fn *take, void *user)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    const redisReply *fields;
    redisReply **field;

    if (!has_id(r) || !are_whole(r->element[1]))
        return false;
    fields = r->element[1];
    read_to(talk, r, fields->type != REDIS_REPLY_NIL);
    if (fields->type == REDIS_REPLY_NIL)
        take(user, NULL);
    if (fields->type == REDIS_REPLY_NIL || fields->elements < 4)
        return true;
    field = fields->element;
    if (!is_text(field[0], "h") || is_text(field[1], talk->who) || !is_text(field[2], "e") || field[3]->type != REDIS_REPLY_STRING)
        return true;
    take(user, ab_paths_entry_decode(field[3]->str, (uint32_t)field[3]->len, &entry) == 0 ? &entry : NULL);
    return true;
}

/* Of an answer to XREAD about one stream, after its name. NULL: it is none, or they have not come yet. */
static const redisReply *messages_of(const redisReply *r)
{
    if (!is_array(r, 1) || !is_array(r->element[0], 2) || !is_array(r->element[0]->element[1], 0))
        return NULL;
    return r->element[0]->element[1];
}

/* If the stream is no longer that of which something was read, the next round reads all: one that has begun anew has smaller ids. */
static bool is_another(struct site_talk *talk, const redisReply *messages)
{
    bool is_known = !talk->lookback || (messages && messages->elements && has_id(messages->element[0]) &&
                                          strcmp(messages->element[0]->element[0]->str, talk->read_to) == 0);

    if (!talk->replaced && is_known)
        return false;
    site_talk_read_anew(talk);
    return true;
}

/* Takes those that are new, up to the first that is not whole. Returns how many. */
static size_t hear_messages(struct site_talk *talk, const redisReply *messages, site_heard_fn *take, void *user)
{
    size_t known = talk->lookback, at = known;

    while (at < messages->elements && at < known + SITE_ROUND && hear_message(talk, messages->element[at], take, user))
        at++;
    return at - known;
}

/* The answer to XREAD: nothing, or of one stream its name and its messages. */
static int hear_stream(struct site_talk *talk, const redisReply *r, site_heard_fn *take, void *user, size_t *heard)
{
    const redisReply *messages = messages_of(r);
    size_t fresh;

    *heard = 0;
    if (!messages && r->type != REDIS_REPLY_NIL)
        return -EPROTO;
    if (is_another(talk, messages) || !messages)
        return 1;
    fresh = messages->elements - talk->lookback;
    *heard = hear_messages(talk, messages, take, user);
    return *heard < fresh && *heard < SITE_ROUND ? -EPROTO : 1;
}

/*
 * An answer that is longer than may be. What has come whole counts; then fewer fit. If nothing has, it is the first message
 * that is too long, and is left out; but first it is read without the one that was known.
 */
static int hear_cut(struct site_talk *talk, site_heard_fn *take, void *user, size_t *heard)
{
    const redisReply *messages = messages_of(talk->reader->reply), *first;

    *heard = 0;
    if (talk->answers < talk->logins + talk->adds || !messages || !messages->elements)
        return -EPROTO;
    talk->cut = true;
    if (is_another(talk, messages))
        return 1;
    *heard = hear_messages(talk, messages, take, user);
    if (*heard)
        return 1;
    if (talk->lookback) {
        talk->was_whole = false;
        return 1;
    }
    first = messages->element[0];
    if (!has_id(first) || !is_behind(talk, first->element[0]->str))
        return -EPROTO;
    read_to(talk, first, false);
    take(user, NULL);
    *heard = 1;
    return 1;
}

static int hear_refusal(struct site_talk *talk, const redisReply *r)
{
    size_t at = 0;

    for (; at + 1 < sizeof talk->refusal && at < (size_t)r->len; at++)
        talk->refusal[at] = r->str[at] >= ' ' && r->str[at] <= '~' ? r->str[at] : '?';
    talk->refusal[at] = '\0';
    return -EKEYREJECTED;
}

static int hear_answer(struct site_talk *talk, const redisReply *r, site_heard_fn *take, void *user, size_t *heard)
{
    size_t at = talk->answers++;

    if (r->type == REDIS_REPLY_ERROR)
        return hear_refusal(talk, r);
    if (at < talk->logins)
        return r->type == REDIS_REPLY_STATUS ? 0 : -EPROTO;
    if (at < talk->logins + talk->adds) {
        talk->replaced = talk->replaced || (is_id(r) && !is_behind(talk, r->str));
        return r->type == REDIS_REPLY_STRING ? 0 : -EPROTO;
    }
    return hear_stream(talk, r, take, user, heard);
}

/* Answers as long as there are whole ones. Behind the last one nothing may come. */
static int hear_all(struct site_talk *talk, site_heard_fn *take, void *user, size_t *heard)
{
    int result = 0;

    while (result == 0) {
        void *reply = NULL;

        if (redisReaderGetReply(talk->reader, &reply) != REDIS_OK)
            return -EPROTO;
        if (!reply)
            return 0;
        result = hear_answer(talk, reply, take, user, heard);
        freeReplyObject(reply);
    }
    return result == 1 && talk->reader->pos < talk->reader->len ? -EPROTO : result;
}

int site_talk_hear(struct site_talk *talk, const char *bytes, size_t count, site_heard_fn *take, void *user, size_t *heard)
{
    int result;

    talk->heard_bytes += count;
    if (talk->heard_bytes > SITE_HEARD_MOST)
        result = hear_cut(talk, take, user, heard);
    else if (redisReaderFeed(talk->reader, bytes, count) != REDIS_OK)
        result = -ENOMEM;
    else
        result = hear_all(talk, take, user, heard);
    if (result < 0)
        site_talk_read_anew(talk);
    return result;
}

/* ------------------------------------------------------------------------------------- whole */

bool site_talk_was_cut(const struct site_talk *talk)
{
    return talk->cut;
}

const char *site_talk_refusal(const struct site_talk *talk)
{
    return talk->refusal;
}

int site_talk_open(struct site_talk **out, const char *key, const char *who)
{
    struct site_talk *talk = calloc(1, sizeof *talk);

    *out = talk;
    if (!talk)
        return -ENOMEM;
    talk->who = who;
    snprintf(talk->stream, sizeof talk->stream, "%s:paths:1", key);
    site_talk_read_anew(talk);
    return 0;
}

void site_talk_close(struct site_talk *talk)
{
    if (!talk)
        return;
    if (talk->reader)
        redisReaderFree(talk->reader);
    free(talk);
}
