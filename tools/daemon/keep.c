/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cost.h"

#define NS_PER_S 1000000000ULL
#define WRITE_NS NS_PER_S /* between two writings, at least */

/* ------------------------------------------------------------------------------- combining */

/* TCP reached it: a lower bound. */
static bool is_bound(const struct autobuf_paths_entry *e)
{
    return e->method == AUTOBUF_METHOD_PASSIVE || e->method == AUTOBUF_METHOD_IMPORTED;
}

/* Whether the rate that is known of a direction stays. One that a new one comes near is confirmed by it. */
static bool stays(uint64_t known_bit_per_s, uint64_t fresh_bit_per_s)
{
    return known_bit_per_s > fresh_bit_per_s + fresh_bit_per_s / 4;
}

static bool adds_nothing(const struct autobuf_paths_entry *known, const struct autobuf_paths_entry *fresh)
{
    if (known->method == AUTOBUF_METHOD_GIVEN)
        return true;
    return is_bound(fresh) && !is_bound(known) && fresh->tx_rate_bit_per_s <= known->tx_rate_bit_per_s &&
           fresh->rx_rate_bit_per_s <= known->rx_rate_bit_per_s;
}

/*
 * What is known becomes part of what is new about the same path. false: it is better than that. Of two lower bounds the
 * higher one counts, each direction by itself; one that nothing confirms still expires when it would have.
 */
static bool combine(struct autobuf_paths_entry *fresh, const struct autobuf_paths_entry *known)
{
    if (adds_nothing(known, fresh))
        return false;
    if (!is_bound(fresh) || !is_bound(known))
        return true;
    if (stays(known->tx_rate_bit_per_s, fresh->tx_rate_bit_per_s)) {
        fresh->tx_rate_bit_per_s = known->tx_rate_bit_per_s;
        fresh->tx_rate_low_bit_per_s = known->tx_rate_low_bit_per_s;
        fresh->tx_rate_high_bit_per_s = known->tx_rate_high_bit_per_s;
        fresh->tx_bdp_bytes = known->tx_bdp_bytes;
        fresh->expires_s = known->expires_s;
    }
    if (stays(known->rx_rate_bit_per_s, fresh->rx_rate_bit_per_s)) {
        fresh->rx_rate_bit_per_s = known->rx_rate_bit_per_s;
        fresh->rx_rate_low_bit_per_s = known->rx_rate_low_bit_per_s;
        fresh->rx_rate_high_bit_per_s = known->rx_rate_high_bit_per_s;
        fresh->rx_bdp_bytes = known->rx_bdp_bytes;
        fresh->expires_s = known->expires_s < fresh->expires_s ? known->expires_s : fresh->expires_s;
    }
    fresh->flags |= known->flags & (AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST);
    if (known->rtt_min_ns < fresh->rtt_min_ns)
        fresh->rtt_min_ns = known->rtt_min_ns;
    return true;
}

void keep_learned(struct keep *keep, const struct autobuf_paths_entry *entry)
{
    struct autobuf_paths_entry fresh = *entry;
    size_t at = 0;

    if (!keep->file[0])
        return;
    while (at < keep->count && autobuf_paths_compare(&keep->waiting[at], entry) != 0)
        at++;
    if (at == KEEP_MOST) {
        keep->counts.lost++;
        return;
    }
    if (at == keep->count)
        keep->count++;
    else if (!combine(&fresh, &keep->waiting[at]))
        return;
    keep->waiting[at] = fresh;
}

/* --------------------------------------------------------------------------------- writing */

/* What the store knows of the same path becomes part of the entry. false: it is better than that. */
static bool combine_with_store(const struct keep *keep, struct autobuf_paths_entry *entry, uint64_t now_s)
{
    struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;
    bool worth = true;

    if (autobuf_paths_open(&paths, keep->file) < 0)
        return true; /* autobuf_paths_keep() says why, if that is an error */
    for (uint64_t at = 0; at < autobuf_paths_count(paths); at++) {
        if (autobuf_paths_at(paths, at, &known) < 0 || autobuf_paths_compare(&known, entry) != 0)
            continue;
        worth = known.expires_s <= now_s || combine(entry, &known);
        break;
    }
    autobuf_paths_close(paths);
    return worth;
}

static void say_failed(struct keep *keep, int error)
{
    char line[FILE_BYTES + 160];

    keep->counts.failed++;
    snprintf(line, sizeof line, "%s: %s: what is learned is not kept", keep->file, autobuf_strerror(error));
    if (!keep->said)
        keep->say(line);
    keep->said = true;
}

/* Everybody may read it, whatever this process's umask is. Only the last entry waits for the disk. */
static int put(const struct keep *keep, size_t at, const struct autobuf_paths_entry *entry, uint64_t now_s)
{
    uint32_t flags = AUTOBUF_PATHS_TRY | (at + 1 < keep->count ? AUTOBUF_PATHS_NO_SYNC : 0);
    mode_t mask = umask(S_IWGRP | S_IWOTH);
    int error = autobuf_paths_keep(keep->file, entry, now_s, flags);

    umask(mask);
    return error;
}

/* If another one writes, what waits goes on waiting. */
static void write_all(struct keep *keep)
{
    uint64_t now_s = (uint64_t)time(NULL);
    size_t done = 0;
    int error = 0;

    for (; done < keep->count && error == 0; done++) {
        struct autobuf_paths_entry entry = keep->waiting[done];

        if (combine_with_store(keep, &entry, now_s))
            error = put(keep, done, &entry, now_s);
    }
    if (error == -EAGAIN) {
        done--;
        keep->count -= done;
        memmove(keep->waiting, keep->waiting + done, keep->count * sizeof *keep->waiting);
        return;
    }
    if (error < 0)
        say_failed(keep, error);
    else
        keep->said = false;
    keep->count = 0;
}

/* ------------------------------------------------------------------------------- the whole */

void keep_in(struct keep *keep, const char *file)
{
    if (strcmp(keep->file, file) == 0)
        return;
    keep_close(keep);
    keep->count = 0;
    keep->said = false;
    snprintf(keep->file, sizeof keep->file, "%s", file);
}

/* A disk that takes long rests long. */
void keep_step(struct keep *keep, uint64_t now_ns)
{
    uint64_t began_ns, rest_ns;

    if (!keep->count || now_ns < keep->write_ns)
        return;
    began_ns = autobuf_now_ns();
    write_all(keep);
    rest_ns = (autobuf_now_ns() - began_ns) * COST_PART;
    keep->write_ns = now_ns + (rest_ns > WRITE_NS ? rest_ns : WRITE_NS);
}

uint64_t keep_deadline_ns(const struct keep *keep)
{
    return keep->count ? keep->write_ns : UINT64_MAX;
}

void keep_close(struct keep *keep)
{
    if (keep->count)
        write_all(keep);
}
