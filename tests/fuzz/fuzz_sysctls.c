/* SPDX-License-Identifier: MIT */
/* A line of a file of sysctl.d(5), which anybody may hand to explain --check. */
#include "fuzz.h"

#include "sysctls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct sysctl_setting found, again;
    char *line = exact_copy(NULL, len + 1), text[SYSCTL_NAME_BYTES + SYSCTL_VALUE_BYTES + 4];

    if (len)
        memcpy(line, data, len);
    if (sysctls_parse(line, &found) == SYSCTL_SET) {
        CHECK(found.name[0] != '.' && !strstr(found.name, "..") && !strchr(found.name, '/'));
        for (const char *c = found.value; *c; c++)
            CHECK(*c >= ' ' && *c <= '~');
        snprintf(text, sizeof text, "%s = %s", found.name, found.value); /* read, and written down, it reads the same */
        CHECK(sysctls_parse(text, &again) == SYSCTL_SET);
        CHECK(strcmp(found.name, again.name) == 0 && strcmp(found.value, again.value) == 0);
    }
    free(line);
    return 0;
}
