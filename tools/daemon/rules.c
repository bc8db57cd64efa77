/* SPDX-License-Identifier: MIT */
/* Which rule a socket has. Pure: opens nothing, reads no clock. */
#include "config.h"

#include <string.h>

#define PROGRAM_CHARS 15U /* of a name that the kernel keeps */

const char *const rule_modes[MODES] = {
    [MODE_AUTO] = "auto", [MODE_PATH] = "path", [MODE_FIXED] = "fixed", [MODE_OFF] = "off"};

static bool in_prefix(const struct autobuf_prefix *prefix, const struct endpoint *end)
{
    uint32_t bytes = prefix->bits / 8, rest = prefix->bits % 8;

    if (prefix->version == 0)
        return true;
    if (prefix->version != end->version || memcmp(prefix->address, end->address, bytes) != 0)
        return false;
    return !rest || (prefix->address[bytes] ^ end->address[bytes]) >> (8 - rest) == 0;
}

static bool is_among(const struct ports *ports, uint16_t port)
{
    for (size_t i = 0; i < ports->count; i++)
        if (port >= ports->ranges[i].first && port <= ports->ranges[i].last)
            return true;
    return false;
}

static bool is_end(const struct autobuf_prefix *prefix, const struct ports *ports, const struct endpoint *end)
{
    return in_prefix(prefix, end) && (!ports->count || is_among(ports, end->port));
}

static bool matches_ends(const struct rule *rule, const struct subject *s)
{
    return is_end(&rule->local, &rule->local_port, &s->local) &&
           (!s->remote.version || is_end(&rule->remote, &rule->remote_port, &s->remote)) &&
           (!rule->by_user || rule->user == s->user);
}

static bool matches_process(const struct rule *rule, const struct subject *s)
{
    return (!rule->program[0] || (s->program && strncmp(rule->program, s->program, PROGRAM_CHARS) == 0)) &&
           (!rule->unit[0] || (s->unit && strcmp(rule->unit, s->unit) == 0));
}

static bool is_stopped(const struct config *config, const struct subject *s)
{
    return is_among(&config->stop_ports, s->local.port) || is_among(&config->stop_ports, s->remote.port);
}

const struct rule *rules_find(const struct config *config, const struct subject *subject)
{
    if (is_stopped(config, subject))
        return NULL;
    for (size_t i = 0; i < config->count; i++)
        if (matches_ends(&config->rules[i], subject) && matches_process(&config->rules[i], subject))
            return &config->rules[i];
    return NULL;
}

bool rules_may_act(const struct config *config, const struct subject *subject)
{
    if (is_stopped(config, subject))
        return false;
    for (size_t i = 0; i < config->count; i++) {
        const struct rule *rule = &config->rules[i];
        bool certain = !rule->program[0] && !rule->unit[0];

        if (matches_ends(rule, subject) && (rule->mode != MODE_OFF || certain))
            return rule->mode != MODE_OFF;
    }
    return false;
}

bool rule_covers_all(const struct rule *rule)
{
    return !rule->remote.version && !rule->local.version && !rule->remote_port.count && !rule->local_port.count &&
           !rule->unit[0] && !rule->program[0] && !rule->by_user;
}
