/* SPDX-License-Identifier: MIT */
#include "withhold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RULES_BYTES (WITHHOLD_RULES * sizeof(struct withhold_rule))

_Static_assert(WITHHOLD_RANGES == RULE_PORTS, "one for each range of a rule");
_Static_assert(WITHHOLD_UNIT_WORDS * 8 > RULE_WORD_BYTES, "a longer unit must stay different");
_Static_assert(sizeof(struct withhold_rule) % 8 == 0,
               "the kernel's array of them must be this program's, also of 32 bits");

static void fill_ports(const struct ports *ports, bool none_is_all, struct withhold_ports *to)
{
    for (size_t i = 0; i < WITHHOLD_RANGES; i++) {
        to->first[i] = i < ports->count ? ports->ranges[i].first : 1;
        to->last[i] = i < ports->count ? ports->ranges[i].last : 0;
    }
    if (!ports->count && none_is_all) {
        to->first[0] = 0;
        to->last[0] = UINT16_MAX;
    }
}

static void fill_side(const struct autobuf_prefix *prefix, const struct ports *ports, struct withhold_side *to)
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

/* Sides that a rule gives to autotuning, or sets itself. */
static uint32_t sides_of(const struct rule *rule)
{
    uint32_t sides = rule->intent != AUTOBUF_INTENT_THROUGHPUT ? WITHHOLD_NEAR : 0;

    if (rule->dry_run || rule->divide_bytes || rule->mode == MODE_OFF)
        return 0;
    if (rule->mode != MODE_FIXED)
        return sides | WITHHOLD_SND | WITHHOLD_RCV;
    return (rule->snd_bytes ? WITHHOLD_SND : 0) | (rule->rcv_bytes ? WITHHOLD_RCV : 0);
}

void withhold_fill(const struct config *config, struct withhold_table *table, struct withhold_rule *rules)
{
    table->count = (uint32_t)(config->count < WITHHOLD_RULES ? config->count : WITHHOLD_RULES);
    fill_ports(&config->stop_ports, false, &table->stop_ports);
    for (size_t i = 0; i < table->count; i++) {
        const struct rule *rule = &config->rules[i];
        struct withhold_rule *to = &rules[i];

        memset(to, 0, sizeof *to);
        memcpy(to->unit, rule->unit, strlen(rule->unit));
        memcpy(to->program, rule->program, strnlen(rule->program, sizeof to->program - 1));
        fill_side(&rule->local, &rule->local_port, &to->local);
        fill_side(&rule->remote, &rule->remote_port, &to->remote);
        to->by_user = rule->by_user;
        to->user = rule->user;
        to->ends = rule->local.version || rule->remote.version || rule->local_port.count || rule->remote_port.count;
        to->sides = sides_of(rule);
    }
}

void withhold_fill_limits(const struct autobuf_limits *limits, struct withhold_table *table)
{
    bool tunes = limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING;

    table->settable_bytes[0] = (uint32_t)limits->snd_settable_bytes;
    table->settable_bytes[1] = (uint32_t)limits->rcv_settable_bytes;
    table->reach_bytes[0] = (uint32_t)limits->tcp_wmem_max_bytes;
    table->reach_bytes[1] = (uint32_t)(tunes ? limits->tcp_rmem_max_bytes : limits->tcp_rmem_default_bytes);
}

struct withhold {
    struct withhold_table *table; /* both are the kernel's, mapped */
    struct withhold_rule *rules;
};

static void *memory_of(int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    return memory;
}

struct withhold *withhold_open(struct broker_maps *maps)
{
    struct withhold *w = maps->ready ? malloc(sizeof *w) : NULL;

    if (maps->ready && !w)
        snprintf(maps->why, sizeof maps->why, "%s", strerror(ENOMEM));
    if (!w)
        return NULL;
    *w = (struct withhold){.table = memory_of(maps->fds[BROKER_TABLE], sizeof *w->table),
                           .rules = memory_of(maps->fds[BROKER_RULES], RULES_BYTES)};
    if (w->table != MAP_FAILED && w->rules != MAP_FAILED)
        return w;
    snprintf(maps->why, sizeof maps->why, "their memory: %s", strerror(errno));
    withhold_close(w);
    return NULL;
}

void withhold_rules(struct withhold *w, const struct config *config)
{
    if (!w)
        return;
    __atomic_add_fetch(&w->table->generation, 1, __ATOMIC_SEQ_CST); /* odd: nothing is withheld meanwhile */
    withhold_fill(config, w->table, w->rules);
    __atomic_add_fetch(&w->table->generation, 1, __ATOMIC_SEQ_CST);
}

void withhold_limits(struct withhold *w, const struct autobuf_limits *limits)
{
    if (w)
        withhold_fill_limits(limits, w->table);
}

uint64_t withhold_count(const struct withhold *w)
{
    return w ? __atomic_load_n(&w->table->withheld, __ATOMIC_RELAXED) : 0;
}

void withhold_close(struct withhold *w)
{
    if (!w)
        return;
    if (w->table != MAP_FAILED)
        munmap(w->table, sizeof *w->table);
    if (w->rules != MAP_FAILED)
        munmap(w->rules, RULES_BYTES);
    free(w);
}
