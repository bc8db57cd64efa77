/* SPDX-License-Identifier: MIT */
/* Pieces of what the command prints: members of a JSON object, quantities in human units. */
#ifndef PRINT_H
#define PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* An integer, or null where `absent` says that nothing is known; with a comma behind it. */
void json_number(FILE *out, const char *key, uint64_t value, bool absent);

/* A string without anything to escape, or null; with a comma behind it. */
void json_string(FILE *out, const char *key, const char *value);

/* With a decimal prefix: "4.8 M". */
void scaled(char *text, size_t cap, double value);

void print_quantity(FILE *out, uint64_t value, const char *unit);

#endif
