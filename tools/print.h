/* SPDX-License-Identifier: MIT */
/* Pieces of what the command prints: members of a JSON object, quantities in human units, words. */
#ifndef PRINT_H
#define PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <autobuf/autobuf.h>

/*
 * Members of an object; a comma follows. An integer is null if `absent` is set, a string if it is NULL. What is not
 * printable ASCII becomes a question mark.
 */
void json_number(FILE *out, const char *key, uint64_t value, bool absent);
void json_string(FILE *out, const char *key, const char *value);
void json_bool(FILE *out, const char *key, bool value);

/* The string alone, in quotes, or null. */
void json_text(FILE *out, const char *value);

/* The state of an open connection: members of an object; no comma follows. */
void json_state(FILE *out, const struct autobuf_live_state *state);

/* What is free: a member of an object; a comma follows. */
void json_available(FILE *out, const struct autobuf_available *available);

/* The same in words: "180.0 to 230.0 Mbit/s over the last 10.0 s". */
#define AVAILABLE_BYTES 128U
const char *available_words(char text[AVAILABLE_BYTES], const struct autobuf_available *available);

/* With a decimal prefix: "4.8 M". SCALED() brings the text along, for the block in which it stands. */
#define SCALED_BYTES 32U
/* Of a connection with AUTOBUF_SOCKET_UNSCALED. */
#define UNSCALED_WORDS "window scaling was not negotiated (a middlebox?): at most 65,535 bytes in flight"
#define UNSCALED_CHANGE "let firewalls pass TCP's window scale option; net.ipv4.tcp_window_scaling=1 at both ends"

#define SCALED(value) scaled((char[SCALED_BYTES]){0}, value)
const char *scaled(char text[SCALED_BYTES], uint64_t value);

/* "41.3 s to 207 s", "at least 207 s", "at most 41.3 s"; AUTOBUF_NS_UNSET in both: "unknown". */
#define DURATION_BYTES 80U
const char *duration_words(char text[DURATION_BYTES], uint64_t low_ns, uint64_t high_ns);

/* The words of AUTOBUF_INTENT_*. */
#define INTENT_WORDS "throughput, low-delay or scavenger"
const char *intent_name(uint32_t intent);

/* false: it is none of the words. */
bool intent_parse(const char *text, uint32_t *intent);

/* The exit status: this one, unless standard output did not take everything. Then it says so. */
int output_end(const char *program, int status);

/* A number with one of these prefixes, of "kMG", or none. Returns where it ends: at text if it is none. */
const char *unscaled(const char *text, const char *prefixes, double *value);

/* What a terminal shows, drawn over what was there; no terminal has rows and columns of 0: nothing is cut off. */
struct screen {
    FILE *out;
    unsigned rows, columns;
    unsigned row;
};

struct screen screen_begin(FILE *out, unsigned rows, unsigned columns);
void screen_line(struct screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_end(const struct screen *screen);

/* Of standard output; 24 x 80 of a terminal that does not tell. */
void screen_size(unsigned *rows, unsigned *columns);

/* Prints lines, folded between words at 79 columns; what is folded begins after so many spaces. */
void print_folded(FILE *out, const char *text, int indent);

#endif
