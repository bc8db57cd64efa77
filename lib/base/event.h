/* SPDX-License-Identifier: MIT */
/* What was seen, decided or done, as a struct; and the one place that turns it into English or JSON. */
#ifndef AB_EVENT_H
#define AB_EVENT_H

#include "base.h"

/* Hands an event to a handle's callback, if it has one. Without a text of its own it is said in English. */
void ab_event(const struct ab_log *log, struct autobuf_event event);

/* An event in English; not of AUTOBUF_EVENT_NOTE and of plans, which bring their own text. */
void ab_event_say(const struct autobuf_event *event, char *text, size_t cap);

/*
 * An event as a JSON object on one line: its fields but size and text, constants as words, absent knowledge as null. Returns
 * the length without the NUL, which is that of the whole also if cap is too small.
 */
size_t ab_event_json(const struct autobuf_event *event, char *text, size_t cap);

#endif
