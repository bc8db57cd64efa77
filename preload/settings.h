/* SPDX-License-Identifier: MIT */
/* What `autobuf run` asks of the preloaded object: AUTOBUF_RUN in the environment. */
#ifndef RUN_SETTINGS_H
#define RUN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_VARIABLE "AUTOBUF_RUN"

struct run_settings {
    uint32_t intent;     /* AUTOBUF_INTENT_* */
    uint64_t most_bytes; /* largest buffer to set; 0: what the host allows */
    bool keep_sizes;     /* buffers are as the program sets them */
    bool probe;          /* the path may be measured before connect() */
    bool report;         /* a line a connection on standard error, at exit */
};

/* Reads words between commas: intent=low-delay, max=BYTES, keep-sizes, probe, report. Ignores others, and NULL. */
void run_settings_read(const char *text, struct run_settings *settings);

#endif
