/* SPDX-License-Identifier: MIT */
/* The words of AUTOBUF_INTENT_*. */
#ifndef TOOLS_INTENT_H
#define TOOLS_INTENT_H

#include <stdbool.h>
#include <stdint.h>

#define INTENT_WORDS "throughput, low-delay or scavenger"

const char *intent_name(uint32_t intent);

/* false: it is none of the words. */
bool intent_parse(const char *text, uint32_t *intent);

#endif
