/* SPDX-License-Identifier: MIT */
#ifndef SHOW_WATCH_H
#define SHOW_WATCH_H

#include <stdio.h>

#include "watch.h"

/* A JSON object on a line of its own. */
void show_start_json(FILE *out, const struct watch *w);
void show_connection_json(FILE *out, const struct connection *c);
void show_change_json(FILE *out, const struct connection *c, const struct autobuf_event *event);
void show_end_json(FILE *out, const struct connection *c);

/* Prints one screen of rows x columns over the one before. */
void show_screen(FILE *out, const struct watch *w, unsigned rows, unsigned columns);

#endif
