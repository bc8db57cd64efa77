/* SPDX-License-Identifier: MIT */
/* tools/daemon/site_talk.c: what is said to a server, and what it may answer. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/site.h"

#define WHO "0123456789abcdef"
#define OTHER "fedcba9876543210"
#define SELECTED "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
#define READ_SO_MANY(count, from, bytes)                                                                               \
    "*6\r\n$5\r\nXREAD\r\n$5\r\nCOUNT\r\n$2\r\n" count "\r\n$7\r\nSTREAMS\r\n$9\r\ns:paths:1\r\n$" bytes "\r\n" from   \
    "\r\n"
#define READ(from, bytes) READ_SO_MANY("32", from, bytes)
#define READ_ONE_MORE(from, bytes) READ_SO_MANY("33", from, bytes)

static struct site_talk talk_of_test, *talk = &talk_of_test;
static unsigned entries, wrong;

static void take(void *user, const struct autobuf_paths_entry *entry)
{
    (void)user;
    if (entry)
        entries++;
    else
        wrong++;
}

static int begin(void **state)
{
    (void)state;
    entries = wrong = 0;
    site_talk_begin(talk, "s", WHO);
    return 0;
}

static struct autobuf_paths_entry entry(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    return e;
}

static size_t ask(const char *password, const unsigned *database, size_t count, char **text)
{
    struct autobuf_paths_entry e[] = {entry(), entry()};
    struct site_round round = {.password = password, .database = database, .entries = e, .count = count,
                               .read = SITE_ROUND};
    size_t bytes;

    assert_int_equal(site_talk_ask(talk, &round, text, &bytes), 0);
    return bytes;
}

/* Whether a round from now on reads from there. */
static void check_reads(const char *read)
{
    char *text;
    size_t bytes = ask(NULL, NULL, 0, &text);

    assert_int_equal(bytes, strlen(read));
    assert_memory_equal(text, read, bytes);
    free(text);
}

static int hear(const char *bytes, size_t count)
{
    size_t heard;

    return site_talk_hear(talk, bytes, count, take, NULL, &heard);
}

static void what_is_said(void **state)
{
    static const char login[] = "*2\r\n$4\r\nAUTH\r\n$2\r\na \r\n" SELECTED READ("0", "1");
    static const char add[] =
        "*10\r\n$4\r\nXADD\r\n$9\r\ns:paths:1\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$5\r\n10000\r\n$1\r\n*\r\n"
        "$1\r\nh\r\n$16\r\n" WHO "\r\n$1\r\ne\r\n$200\r\nAUTOBUFL";
    unsigned database = 3;
    char *text;
    size_t bytes = ask("a ", &database, 0, &text);

    (void)state;
    assert_int_equal(bytes, strlen(login));
    assert_memory_equal(text, login, bytes);
    free(text);
    bytes = ask(NULL, NULL, 2, &text);
    assert_int_equal(bytes, 2 * (strlen(add) - 8 + AUTOBUF_PATHS_MESSAGE_BYTES + 2) + strlen(READ("0", "1")));
    assert_memory_equal(text, add, strlen(add));
    free(text);
}

/* One message of a stream. Returns its length. */
static size_t message(char *text, const char *who, const char *id)
{
    struct autobuf_paths_entry e = entry();
    size_t bytes = (size_t)sprintf(text, "*1\r\n*2\r\n$9\r\ns:paths:1\r\n*1\r\n*2\r\n$%zu\r\n%s\r\n"
                                         "*4\r\n$1\r\nh\r\n$16\r\n%s\r\n$1\r\ne\r\n$200\r\n", strlen(id), id, who);

    bytes += (size_t)autobuf_paths_entry_encode(&e, text + bytes, AUTOBUF_PATHS_MESSAGE_BYTES);
    return bytes + (size_t)sprintf(text + bytes, "\r\n");
}

static void what_others_say(void **state)
{
    char text[400];
    size_t bytes = message(text, OTHER, "1700000000000-12");

    (void)state;
    check_reads(READ("0", "1"));
    for (size_t i = 0; i + 1 < bytes; i++)
        assert_int_equal(hear(text + i, 1), 0);
    assert_int_equal(hear(text + bytes - 1, 1), 1);
    assert_int_equal(entries, 1);
    check_reads(READ("1700000000000-12", "16"));
    assert_int_equal(hear(text, message(text, WHO, "1700000000000-13")), 1);
    assert_int_equal(entries, 1); /* what it said itself */
    check_reads(READ("1700000000000-13", "16"));
    message(text, OTHER, "1700000000000-14");
    memcpy(strstr(text, "AUTOBUFL"), "AUTOBUFX", 8);
    assert_int_equal(hear(text, bytes), 1);
    assert_int_equal(wrong, 1);
    assert_int_equal(entries, 1);
    check_reads(READ("1700000000000-14", "16"));
    assert_int_equal(hear("*-1\r\n", 5), 1);
    check_reads(READ("1700000000000-14", "16"));
    assert_int_equal(hear("?", 1), -EPROTO);
    check_reads(READ("0", "1"));
}

static void what_is_no_answer(void **state)
{
    static const struct {
        const char *text;
        size_t adds;
        bool password;
        int result;
    } rows[] = {
        {"*-1\r\n", 0, false, 1},
        {"*1\r\n*2\r\n$1\r\nx\r\n*0\r\n", 0, false, 1},
        {"+OK\r\n*-1\r\n", 0, true, 1},
        {"+OK\r\n$3\r\n1-0\r\n*-1\r\n", 1, true, 1},
        {"+OK\r\n", 0, true, 0},
        {"", 0, false, 0},
        {"*-1\r\n*-1\r\n", 0, false, -EPROTO}, /* more than it was asked */
        {"*-1\r\n+", 0, false, -EPROTO},
        {"+OK\r\n", 0, false, -EPROTO},
        {":1\r\n", 0, false, -EPROTO},
        {"$-1\r\n*-1\r\n", 0, true, -EPROTO},
        {"+1-0\r\n*-1\r\n", 1, false, -EPROTO},
        {"*0\r\n", 0, false, -EPROTO},
        {"*1\r\n$1\r\nx\r\n", 0, false, -EPROTO},
        {"*1\r\n*1\r\n$1\r\nx\r\n", 0, false, -EPROTO},
        {"*1\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n", 0, false, -EPROTO},
        {"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n$1\r\ny\r\n", 0, false, -EPROTO},
        {"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\nx-0\r\n*0\r\n", 0, false, -EPROTO},
        {"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*0\r\n", 0, false, 1}, /* of a later version, perhaps */
        {"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$42\r\n123456789012345678901-23456789012345678901\r\n*0\r\n", 0, false,
         -EPROTO},
        {"*65\r\n", 0, false, -EPROTO},
        {"*2147483647\r\n", 0, false, -EPROTO},
        {"*4294967295\r\n", 0, false, -EPROTO},
        {"*-5\r\n", 0, false, -EPROTO},
        {"$-5\r\n", 0, false, -EPROTO},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", 0, false, -EPROTO},
        {"*1\r\n*2\r\n$1\r\nx\r\n*33\r\n", 0, false, 0},
        {"*1\r\n*2\r\n$1\r\nx\r\n*34\r\n", 0, false, -EPROTO},
        {"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*65536\r\n*65536\r\n", 0, false, 0},
        {"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*65537\r\n", 0, false, -EPROTO},
        {"*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n", 0, false, 1},
        {"*\r\n", 0, false, -EPROTO},
        {"*1\n", 0, false, -EPROTO},
        {"$\n", 0, false, -EPROTO},
        {"$1 \r\n", 0, false, -EPROTO},
        {"$3\r\n1-0xx", 1, false, -EPROTO},
        {"HTTP/1.1 400 Bad Request\r\n", 0, false, -EPROTO},
        {"-NOAUTH Authentication required.\r\n", 0, false, -EKEYREJECTED},
        {"-ERR no\r\n", 1, true, -EKEYREJECTED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text;

        ask(rows[i].password ? "p" : NULL, NULL, rows[i].adds, &text);
        free(text);
        CHECK_EQUAL(rows[i].text, hear(rows[i].text, strlen(rows[i].text)), rows[i].result);
    }
    assert_int_equal(entries + wrong, 0);
}

static void no_line_is_longer_than_any_of_use(void **state)
{
    static char much[1024];

    (void)state;
    memset(much, 'x', sizeof much);
    check_reads(READ("0", "1"));
    assert_int_equal(hear("+", 1), 0);
    assert_int_equal(hear(much, sizeof much - 1), 0);
    assert_int_equal(hear(much, 1), -EPROTO);
}

#define LONG 65536U

/* An answer of several messages, which is written bit by bit. */
static FILE *answer;
static char *answer_text;
static char answer_filler[1000]; /* of no use */
static size_t answer_bytes;

static void begin_answer(size_t messages)
{
    answer = open_memstream(&answer_text, &answer_bytes);
    assert_non_null(answer);
    fprintf(answer, "*1\r\n*2\r\n$9\r\ns:paths:1\r\n*%zu\r\n", messages);
}

/* Then so many pieces follow. */
static void add_message(const char *id, size_t pieces)
{
    fprintf(answer, "*2\r\n$%zu\r\n%s\r\n*%zu\r\n", strlen(id), id, pieces);
}

static void add_string(const char *text, size_t bytes)
{
    fprintf(answer, "$%zu\r\n", bytes);
    fwrite(text, 1, bytes, answer);
    fputs("\r\n", answer);
}

/* An entry, and beside it so many bytes of something else. */
static void add_entry(const char *id, size_t more)
{
    static char zeros[LONG];
    char message[AUTOBUF_PATHS_MESSAGE_BYTES];
    struct autobuf_paths_entry e = entry();

    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), sizeof message);
    add_message(id, 6);
    add_string("h", 1);
    add_string(OTHER, strlen(OTHER));
    add_string("e", 1);
    add_string(message, sizeof message);
    add_string("more", 4);
    add_string(zeros, more);
}

/* The server has sent it. What the round is over with, if it is. */
static int hear_whole(size_t *heard)
{
    int result = 0;

    assert_int_equal(fclose(answer), 0);
    for (size_t at = 0, bytes; at < answer_bytes && result == 0; at += bytes) {
        bytes = answer_bytes - at < 4096 ? answer_bytes - at : 4096;
        result = site_talk_hear(talk, answer_text + at, bytes, take, NULL, heard);
    }
    free(answer_text);
    return result;
}

static void begin_round(bool lookback, const char *said)
{
    struct site_round round = {.read = SITE_ROUND, .lookback = lookback};
    char *text;
    size_t bytes;

    assert_int_equal(site_talk_ask(talk, &round, &text, &bytes), 0);
    assert_int_equal(bytes, strlen(said));
    assert_memory_equal(text, said, bytes);
    free(text);
}

/* A message of many fields that says nothing, and one behind it. */
static void many_fields(void **state)
{
    static const char pieces[][40] = {"$1\r\nx\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "+x\r\n", "-x\r\n", "*0\r\n",
                                      "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n"};

    (void)state;
    for (size_t i = 0; i < COUNT(pieces); i++) {
        size_t heard, count = 65 + 1000 * i;

        site_talk_read_anew(talk);
        entries = wrong = 0;
        begin_round(true, READ("0", "1"));
        begin_answer(2);
        add_message("7-0", count);
        for (size_t n = 0; n < count; n++)
            fputs(pieces[i], answer);
        add_entry("8-0", 0);
        CHECK_EQUAL(pieces[i], hear_whole(&heard), 1);
        CHECK_EQUAL(pieces[i], heard, 2);
        CHECK_EQUAL(pieces[i], entries, 1);
        CHECK_EQUAL(pieces[i], wrong, 0);
        begin_round(true, READ_ONE_MORE("7-18446744073709551615", "22"));
    }
}

/* Of a longer message than an entry's the rest is passed over; such a one is not read once more. */
static void long_messages(void **state)
{
    size_t heard;

    (void)state;
    begin_round(true, READ("0", "1"));
    begin_answer(4);
    add_entry("7-0", 30000);
    add_entry("8-0", LONG);
    add_message("9-0", 4);
    add_string("h", 1);
    add_string(OTHER, strlen(OTHER));
    add_string("e", 1);
    add_string(answer_filler, sizeof answer_filler);
    add_message("9-1", 60);
    for (size_t n = 0; n < 60; n++)
        add_string("f", 1);
    assert_int_equal(hear_whole(&heard), 1);
    assert_int_equal(heard, 4);
    assert_int_equal(entries, 2);
    assert_int_equal(wrong, 1);
    begin_round(true, READ_ONE_MORE("9-0", "3"));
    for (unsigned i = 0; i < 3; i++) {
        site_talk_read_anew(talk);
        begin_round(true, READ("0", "1"));
        begin_answer(1);
        if (i < 2)
            add_entry("9-2", i ? LONG : 1020);
        else
            add_message("9-2", 62);
        for (size_t n = 0; i == 2 && n < 62; n++)
            add_string("f", 1);
        assert_int_equal(hear_whole(&heard), 1);
        begin_round(true, READ("9-2", "3"));
    }
}

/* Whatever a round was ended by in the midst of a message, the next one goes on behind it. */
static void a_message_that_has_no_end(void **state)
{
    (void)state;
    begin_round(true, READ("0", "1"));
    begin_answer(2);
    add_entry("7-0", 0);
    add_message("7-1", 65536);
    assert_int_equal(fclose(answer), 0);
    assert_int_equal(hear(answer_text, answer_bytes), 0);
    free(answer_text);
    begin_round(true, READ("7-1", "3"));
}

static void a_stream_that_is_another_one(void **state)
{
    size_t heard;

    (void)state;
    begin_round(true, READ("0", "1"));
    begin_answer(1);
    add_entry("7-0", 0);
    assert_int_equal(hear_whole(&heard), 1);
    for (unsigned round = 0; round < 2; round++) { /* the same */
        begin_round(true, READ_ONE_MORE("6-18446744073709551615", "22"));
        begin_answer(1);
        add_entry("7-0", 0);
        assert_int_equal(hear_whole(&heard), 1);
        assert_int_equal(heard, 0);
        assert_int_equal(entries, 1);
    }
    begin_round(true, READ_ONE_MORE("6-18446744073709551615", "22"));
    begin_answer(2);
    add_entry("7-0", 0);
    add_entry("7-1", 0);
    assert_int_equal(hear_whole(&heard), 1);
    assert_int_equal(heard, 1);
    assert_int_equal(entries, 2);
    begin_round(true, READ_ONE_MORE("7-0", "3"));
    assert_int_equal(hear("*-1\r\n", 5), 1); /* it is gone */
    begin_round(true, READ("0", "1"));
    begin_answer(1);
    add_entry("5-9", 0);
    assert_int_equal(hear_whole(&heard), 1);
    begin_round(true, READ_ONE_MORE("5-8", "3"));
    begin_answer(1);
    add_entry("6-0", 0); /* one that is not that which was read last, but behind it */
    assert_int_equal(hear_whole(&heard), 1);
    begin_round(true, READ("0", "1"));
}

/* An addition comes behind what was read, unless the stream is another one. */
static void what_is_added_before_what_was_read(void **state)
{
    static const struct {
        const char *id;
        bool another;
    } rows[] = {{"8-0", false}, {"7-5", false}, {"7-4", true}, {"7-3", true}, {"6-9", true}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[60], *said;
        size_t heard;

        site_talk_read_anew(talk);
        begin_round(false, READ("0", "1"));
        begin_answer(1);
        add_entry("7-4", 0);
        assert_int_equal(hear_whole(&heard), 1);
        ask(NULL, NULL, 1, &said);
        free(said);
        snprintf(text, sizeof text, "$3\r\n%s\r\n*-1\r\n", rows[i].id);
        CHECK_EQUAL(rows[i].id, hear(text, strlen(text)), 1);
        begin_round(false, rows[i].another ? READ("0", "1") : READ("7-4", "3"));
    }
}

static void its_words_are_printable(void **state)
{
    static const char refusal[] = "-\033[31mERR\t\xff";
    char text[400];
    size_t bytes = (size_t)sprintf(text, "%s%0200d\r\n", refusal, 0);

    (void)state;
    check_reads(READ("0", "1"));
    assert_int_equal(hear(text, bytes), -EKEYREJECTED);
    assert_memory_equal(talk->refusal, "?[31mERR??000", 13);
    assert_int_equal(strlen(talk->refusal), SITE_REFUSAL_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_said, begin),
        cmocka_unit_test_setup(what_others_say, begin),
        cmocka_unit_test_setup(what_is_no_answer, begin),
        cmocka_unit_test_setup(no_line_is_longer_than_any_of_use, begin),
        cmocka_unit_test_setup(many_fields, begin),
        cmocka_unit_test_setup(long_messages, begin),
        cmocka_unit_test_setup(a_message_that_has_no_end, begin),
        cmocka_unit_test_setup(a_stream_that_is_another_one, begin),
        cmocka_unit_test_setup(what_is_added_before_what_was_read, begin),
        cmocka_unit_test_setup(its_words_are_printable, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
