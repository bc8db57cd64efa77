/* SPDX-License-Identifier: MIT */
#include "before_syn_table.h"

#include <string.h>

_Static_assert(BEFORE_SYN_RANGES == RULE_PORTS, "one for each range of a rule");
_Static_assert(BEFORE_SYN_UNIT_WORDS * 8 > RULE_WORD_BYTES, "a longer unit must stay different");
_Static_assert(sizeof(struct before_syn_rule) % 8 == 0,
               "the kernel's array of them must be this program's, also of 32 bits");

static void fill_ports(const struct ports *ports, bool none_is_all, struct before_syn_ports *to)
{
    for (size_t i = 0; i < BEFORE_SYN_RANGES; i++) {
        to->first[i] = i < ports->count ? ports->ranges[i].first : 1;
        to->last[i] = i < ports->count ? ports->ranges[i].last : 0;
    }
    if (!ports->count && none_is_all) {
        to->first[0] = 0;
        to->last[0] = UINT16_MAX;
    }
}

static void fill_side(const struct autobuf_prefix *prefix, const struct ports *ports, struct before_syn_side *to)
{
    uint8_t mask[sizeof to->mask] = {0};

    for (uint32_t bit = 0; prefix->version && bit < prefix->bits; bit++)
        mask[bit / 8] = (uint8_t)(mask[bit / 8] | 0x80U >> bit % 8);
    memset(to, 0, sizeof *to);
    to->version = prefix->version;
    memcpy(to->mask, mask, sizeof mask);
    if (prefix->version)
        memcpy(to->network, prefix->address, sizeof prefix->address);
    fill_ports(ports, true, &to->ports);
}

/* Those that give a receive buffer back to autotuning, or set it. */
static bool acts(const struct rule *rule)
{
    if (rule->dry_run || rule->divide_bytes)
        return false;
    return rule->mode == MODE_AUTO || rule->mode == MODE_PATH || (rule->mode == MODE_FIXED && rule->rcv_bytes);
}

void before_syn_fill(const struct config *config, bool dry_run, struct before_syn_table *table,
                     struct before_syn_rule *rules)
{
    table->count = (uint32_t)(config->count < BEFORE_SYN_RULES ? config->count : BEFORE_SYN_RULES);
    fill_ports(&config->stop_ports, false, &table->stop_ports);
    for (size_t i = 0; i < table->count; i++) {
        const struct rule *rule = &config->rules[i];
        struct before_syn_rule *to = &rules[i];

        memset(to, 0, sizeof *to);
        memcpy(to->unit, rule->unit, strlen(rule->unit));
        memcpy(to->program, rule->program, strnlen(rule->program, sizeof to->program - 1));
        fill_side(&rule->local, &rule->local_port, &to->local);
        fill_side(&rule->remote, &rule->remote_port, &to->remote);
        to->by_user = rule->by_user;
        to->user = rule->user;
        to->acts = !dry_run && !config->dry_run && acts(rule);
    }
}
