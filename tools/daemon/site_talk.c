/* SPDX-License-Identifier: MIT */
#include "site_talk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis.h>

#define STREAM_BYTES 96U
#define ID_BYTES 42U /* of two numbers of 64 bits, with its NUL */
#define PIECES_MOST (2 * SITE_ROUND) /* of an answer's array */
#define BEGINNING "0"

struct site_talk {
    const char *who;
    char stream[STREAM_BYTES];
    char read_to[ID_BYTES]; /* what was read last */
    char refusal[SITE_REFUSAL_BYTES];
    redisReader *reader;
    redisReplyObjectFunctions usual, bounded; /* of the reader; bounded: those that it uses */
    size_t logins, adds, answers; /* of this round: commands of each kind, and answers so far */
    size_t heard_bytes;
};

/* ----------------------------------------------------------------------------------- hiredis */

#if HIREDIS_MAJOR > 0
typedef size_t pieces_type;
#else
typedef int pieces_type;
#endif

/* A server may claim that an array is as long as all memory. */
static void *make_array(const redisReadTask *task, pieces_type pieces)
{
    const struct site_talk *talk = task->privdata;

    return (size_t)pieces > PIECES_MOST ? NULL : talk->usual.createArray(task, pieces);
}

static int begin_reading(struct site_talk *talk)
{
    if (talk->reader)
        redisReaderFree(talk->reader);
    talk->reader = redisReaderCreate();
    if (!talk->reader)
        return -ENOMEM;
    talk->usual = talk->bounded = *talk->reader->fn;
    talk->bounded.createArray = make_array;
    talk->reader->fn = &talk->bounded;
    talk->reader->privdata = talk;
    return 0;
}

/* ------------------------------------------------------------------------------------ asking */

/* Writes a command of so many words behind what is there. false: there is no memory. */
static bool say(FILE *out, int words, const char **word, const size_t *bytes)
{
    char *text = NULL;
    int length = (int)redisFormatCommandArgv(&text, words, word, bytes);
    bool done = length > 0 && fwrite(text, 1, (size_t)length, out) == (size_t)length;

    redisFreeCommand(text);
    return done;
}

static bool say_words(FILE *out, int words, const char **word)
{
    return say(out, words, word, NULL);
}

static bool say_login(FILE *out, const struct site_round *round)
{
    char database[16];

    if (round->password && !say_words(out, 2, (const char *[]){"AUTH", round->password}))
        return false;
    if (!round->database)
        return true;
    snprintf(database, sizeof database, "%u", *round->database);
    return say_words(out, 2, (const char *[]){"SELECT", database});
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
    char number[16];

    snprintf(number, sizeof number, "%u", count);
    return say_words(out, 6, (const char *[]){"XREAD", "COUNT", number, "STREAMS", talk->stream, talk->read_to});
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

static bool is_array(const redisReply *r, size_t least)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements >= least;
}

/* Two numbers with a dash between them. */
static bool is_id(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING && (size_t)r->len < ID_BYTES && (size_t)r->len == strspn(r->str, "0123456789-");
}

/* One message of the stream. Of a later version it may have more fields. false: it is none. */
static bool hear_message(struct site_talk *talk, const redisReply *r, site_heard_fn *take, void *user)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    redisReply **field;

    if (!is_array(r, 2) || !is_id(r->element[0]) || !is_array(r->element[1], 0))
        return false;
    memcpy(talk->read_to, r->element[0]->str, (size_t)r->element[0]->len + 1);
    if (r->element[1]->elements < 4)
        return true;
    field = r->element[1]->element;
    if (!is_text(field[0], "h") || is_text(field[1], talk->who) || !is_text(field[2], "e") || field[3]->type != REDIS_REPLY_STRING)
        return true;
    take(user, autobuf_paths_entry_decode(field[3]->str, (uint32_t)field[3]->len, &entry) == 0 ? &entry : NULL);
    return true;
}

/* The answer to XREAD: nothing, or of one stream its name and its messages. */
static int hear_stream(struct site_talk *talk, const redisReply *r, site_heard_fn *take, void *user, size_t *heard)
{
    const redisReply *messages;

    *heard = 0;
    if (r->type == REDIS_REPLY_NIL)
        return 1;
    if (!is_array(r, 1) || !is_array(r->element[0], 2) || !is_array(r->element[0]->element[1], 0))
        return -EPROTO;
    messages = r->element[0]->element[1];
    for (; *heard < messages->elements && *heard < SITE_ROUND; ++*heard)
        if (!hear_message(talk, messages->element[*heard], take, user))
            return -EPROTO;
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
    if (at < talk->logins + talk->adds)
        return r->type == REDIS_REPLY_STRING ? 0 : -EPROTO;
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
        result = -EPROTO;
    else if (redisReaderFeed(talk->reader, bytes, count) != REDIS_OK)
        result = -ENOMEM;
    else
        result = hear_all(talk, take, user, heard);
    if (result < 0)
        strcpy(talk->read_to, BEGINNING);
    return result;
}

/* ------------------------------------------------------------------------------------- whole */

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
    strcpy(talk->read_to, BEGINNING);
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
