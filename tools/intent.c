/* SPDX-License-Identifier: MIT */
#include "intent.h"

#include <string.h>

#include <autobuf/autobuf.h>

const char *intent_name(uint32_t intent)
{
    return intent == AUTOBUF_INTENT_LOW_DELAY   ? "low-delay"
           : intent == AUTOBUF_INTENT_SCAVENGER ? "scavenger"
                                                : "throughput";
}

bool intent_parse(const char *text, uint32_t *intent)
{
    *intent = strcmp(text, "low-delay") == 0   ? AUTOBUF_INTENT_LOW_DELAY
              : strcmp(text, "scavenger") == 0 ? AUTOBUF_INTENT_SCAVENGER
                                               : AUTOBUF_INTENT_THROUGHPUT;
    return strcmp(text, intent_name(*intent)) == 0;
}
