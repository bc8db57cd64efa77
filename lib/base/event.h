/* SPDX-License-Identifier: MIT */
/* Events, and the one place that turns them into English or JSON. */
#ifndef AB_EVENT_H
#define AB_EVENT_H

#include "base.h"

/* Passes an event to the callback and to the log of AUTOBUF. Without a text it gets one in English. */
void ab_event(const struct ab_log *log, struct autobuf_event *event);

/* An event in English, except notes and plans, which have a text. */
void ab_event_say(const struct autobuf_event *event, char *text, size_t cap);

/*
 * An event as a JSON object on one line: all fields but size and text, constants as words, unknown values as null.
 * Returns the length without the NUL, also if cap is too small for it.
 */
size_t ab_event_json(const struct autobuf_event *event, char *text, size_t cap);

#endif
