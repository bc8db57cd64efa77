/* SPDX-License-Identifier: MIT */
/* The daemon's file. Accepted rules are valid, refused ones are reported, and a rule that is found matches. */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>

#include "daemon/config.h"

static void wrong(void *user, unsigned line, const char *text)
{
    CHECK(line <= 1000000 && strlen(text) < 400);
    for (; *text; text++)
        CHECK(*text >= ' ' && *text <= '~');
    ++*(unsigned *)user;
}

static void check_rule(const struct rule *rule)
{
    CHECK(rule->mode <= MODE_OFF && strlen(rule->name) > 0 && strlen(rule->name) < RULE_NAME_BYTES);
    CHECK(rule->snd_bytes <= 0x3fffffff && rule->rcv_bytes <= 0x3fffffff && rule->most_bytes <= 0x3fffffff);
    CHECK((rule->snd_bytes == 0 && rule->rcv_bytes == 0) || rule->mode == MODE_FIXED);
    CHECK(rule->remote_port.count <= RULE_PORTS && rule->local_port.count <= RULE_PORTS);
    for (size_t i = 0; i < rule->remote_port.count; i++)
        CHECK(rule->remote_port.ranges[i].first >= 1 &&
              rule->remote_port.ranges[i].first <= rule->remote_port.ranges[i].last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct subject subject = {.remote = {{192, 0, 2, 1}, 4, 443}, .local = {{192, 0, 2, 2}, 4, 50000},
                              .program = "nginx", .unit = ""};
    FILE *file = len ? fmemopen((void *)(uintptr_t)data, len, "r") : NULL;
    const struct rule *found;
    struct config config;
    unsigned mistakes = 0;
    int error;

    if (!file)
        return 0;
    error = config_read(file, &config, wrong, &mistakes);
    fclose(file);
    CHECK((error == 0 && mistakes == 0) || (error == -EINVAL && mistakes > 0 && config.count == 0));
    for (size_t i = 0; i < config.count; i++)
        check_rule(&config.rules[i]);
    found = rules_find(&config, &subject);
    CHECK(!found || (found >= config.rules && found < config.rules + config.count));
    CHECK(!found || found->mode == MODE_OFF || rules_may_act(&config, &subject));
    config_free(&config);
    return 0;
}
