/* SPDX-License-Identifier: MIT */
/* A line of a transfer, as either end gets it from its peer. */
#include "fuzz.h"

#include <stdbool.h>

#include "transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *copy = exact_copy(data, len), text[TRANSFER_LINE_BYTES], *exact;
    struct transfer_line line, again;
    bool good = transfer_line_parse(copy, len, &line);

    free(copy);
    if (!good)
        return 0;
    CHECK(len <= TRANSFER_LINE_BYTES);
    CHECK(line.verb != TRANSFER_ASK || line.number <= TRANSFER_SECONDS_MOST);
    CHECK(line.verb != TRANSFER_ASK || !line.number == !!line.values[TRANSFER_PACE]);
    CHECK(line.number <= 999 && line.values[TRANSFER_RECEIVE] <= 1 && line.values[TRANSFER_TUNED] <= 1);
    len = transfer_line_format(&line, text);
    CHECK(len > 2 && len < TRANSFER_LINE_BYTES && text[len - 2] == '\r' && text[len - 1] == '\n');
    exact = exact_copy(text, len);
    CHECK(transfer_line_parse(exact, len, &again));
    free(exact);
    CHECK(memcmp(&line, &again, sizeof line) == 0);
    return 0;
}
