/* SPDX-License-Identifier: MIT */
/* A wad.conf. What is written can be read as rules, but for a rule that none reaches; what is refused writes nothing. */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>

#include "daemon/config.h"
#include "daemon/wad.h"

static void wrong(void *user, unsigned line, const char *text)
{
    CHECK(line <= 1000000 && strlen(text) < 400);
    ++*(unsigned *)user;
}

static void wrong_again(void *user, unsigned line, const char *text)
{
    (void)user;
    (void)line;
    CHECK(strstr(text, "is never reached"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    FILE *file = len ? fmemopen((void *)(uintptr_t)data, len, "r") : NULL;
    struct config config;
    unsigned mistakes = 0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;
    int error;

    if (!file)
        return 0;
    out = open_memstream(&text, &bytes);
    error = wad_convert(file, out, wrong, &mistakes);
    fclose(file);
    fclose(out);
    CHECK((error == 0 && mistakes == 0) || (error == -EINVAL && mistakes > 0 && bytes == 0));
    if (bytes) {
        file = fmemopen(text, bytes, "r");
        error = config_read(file, &config, wrong_again, NULL);
        CHECK(error == 0 || error == -EINVAL);
        fclose(file);
        config_free(&config);
    }
    free(text);
    return 0;
}
