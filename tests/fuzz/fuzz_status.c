/* SPDX-License-Identifier: MIT */
/*
 * A request at the daemon's socket, as it comes: byte by byte. It is answered once it is whole,
 * more bytes change no answer, and a page is what the first line asks for.
 */
#include "fuzz.h"

#include <stdbool.h>

#include "daemon/status.h"

static const char *const starts[] = {
    [STATUS_METRICS] = "GET /metrics HTTP/1.",
    [STATUS_FLOWS] = "GET /flows HTTP/1.",
};

/* Whether a blank line ends it. */
static bool is_whole(const char *text, size_t len)
{
    for (size_t at = 1; at < len; at++)
        if (text[at] == '\n' &&
            (text[at - 1] == '\n' || (at > 2 && memcmp(text + at - 3, "\r\n\r", 3) == 0)))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    enum status_page page = STATUS_METRICS, first = STATUS_METRICS;
    int answer = 0;

    for (size_t bytes = 1; bytes <= len && bytes <= STATUS_REQUEST_BYTES; bytes++) {
        char *text = exact_copy(data, bytes);
        int now = status_parse(text, bytes, &page);

        CHECK(now == 0 || now == 200 || now == 400 || now == 404 || now == 405);
        CHECK(!now == (bytes < STATUS_REQUEST_BYTES && !is_whole(text, bytes)));
        CHECK(!answer || (now == answer && page == first));
        if (now == 200)
            CHECK(bytes >= strlen(starts[page]) &&
                  memcmp(text, starts[page], strlen(starts[page])) == 0);
        answer = now;
        first = page;
        free(text);
    }
    return 0;
}
