/* SPDX-License-Identifier: MIT */
/* Pieces of what the command prints: members of a JSON object, quantities in human units. */
#ifndef PRINT_H
#define PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* An integer, or null if `absent` is set; a comma follows. */
void json_number(FILE *out, const char *key, uint64_t value, bool absent);

/* A string that needs no escapes, or null; a comma follows. */
void json_string(FILE *out, const char *key, const char *value);

/* With a decimal prefix: "4.8 M". */
void scaled(char *text, size_t cap, double value);

void print_quantity(FILE *out, uint64_t value, const char *unit);

#endif
