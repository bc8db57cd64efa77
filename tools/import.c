/* SPDX-License-Identifier: MIT */
#include "import.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000U
#define RATE_MOST 1e15
#define BDP_MOST 1099511627776.0
#define RTT_LEAST_S 1e-6
#define RTT_MOST_S 1000.0
#define V4_HEADERS 52U /* of IP and TCP, with the timestamp option, which the senders' MSS do not count */
#define V6_HEADERS 72U
#define MSS_LEAST 88.0
#define MSS_MOST 65483.0
#define MSS_USUAL 1448.0
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ------------------------------------------------------------------------------------ values */

/* The value at "key.key.key", or at a number for an array's; NULL: there is none. */
static const json_t *at(const json_t *value, const char *path)
{
    while (value && *path) {
        char key[32];
        size_t length = strcspn(path, ".");

        if (length >= sizeof key)
            return NULL;
        memcpy(key, path, length);
        key[length] = '\0';
        value = key[0] >= '0' && key[0] <= '9' ? json_array_get(value, (size_t)atoi(key)) : json_object_get(value, key);
        path += length + (path[length] == '.');
    }
    return value;
}

static const char *text_at(const json_t *value, const char *path)
{
    return json_string_value(at(value, path));
}

/* Whether there is a number from least to most. */
static bool number_at(const json_t *value, const char *path, double least, double most, double *number)
{
    const json_t *found = at(value, path);
    double n = json_number_value(found);

    if (!json_is_number(found) || !isfinite(n) || n < least || n > most)
        return false;
    *number = n;
    return true;
}

/* A time in seconds, or an ISO 8601 duration of hours at most: "PT0.0254S". */
static bool seconds_at(const json_t *value, const char *path, double *seconds)
{
    const char *text = text_at(value, path);
    double sum = 0;

    if (!text)
        return number_at(value, path, RTT_LEAST_S, RTT_MOST_S, seconds);
    if (strncmp(text, "PT", 2) != 0)
        return false;
    for (text += 2; *text; text++) {
        char *end;
        double part = *text >= '0' && *text <= '9' ? strtod(text, &end) : NAN;

        if (!isfinite(part) || !strchr("HMS", *end) || !*end)
            return false;
        sum += part * (*end == 'H' ? 3600 : *end == 'M' ? 60 : 1);
        text = end;
    }
    *seconds = sum;
    return sum >= RTT_LEAST_S && sum <= RTT_MOST_S;
}

/* "2026-11-20T10:00:00Z", also with a fraction of a second, and with an offset from UTC as +01:00 or +01. */
static bool time_at(const json_t *value, const char *path, uint64_t *at_s)
{
    const char *text = text_at(value, path);
    int used = 0, hours = 0, minutes = 0;
    struct tm tm = {.tm_isdst = 0};
    char sign = '+';
    time_t seconds;

    if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
                        &tm.tm_sec, &used) != 6)
        return false;
    text += used;
    if (*text == '.')
        text += 1 + strspn(text + 1, "0123456789");
    if (*text != 'Z' && *text && sscanf(text, "%c%2d:%2d", &sign, &hours, &minutes) < 2)
        return false;
    if (sign != '+' && sign != '-')
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    seconds = timegm(&tm) - (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    if (seconds < 0)
        return false;
    *at_s = (uint64_t)seconds;
    return true;
}

/* An address alone; of one that stands for IPv4, that. */
static bool address_of(const char *text, struct autobuf_prefix *address)
{
    static const char mapped[] = "::ffff:";
    struct in_addr v4;

    if (strncmp(text, mapped, sizeof mapped - 1) == 0 && inet_pton(AF_INET, text + sizeof mapped - 1, &v4) == 1)
        text += sizeof mapped - 1;
    return !strchr(text, '/') && autobuf_prefix_parse(text, address) == 0;
}

static bool is_this_host(const struct import_host *host, const struct autobuf_prefix *address)
{
    for (size_t i = 0; i < host->count; i++)
        if (host->addresses[i].version == address->version &&
            memcmp(host->addresses[i].address, address->address, sizeof address->address) == 0)
            return true;
    return false;
}

/* ------------------------------------------------------------------------------------ results */

/* One end of a reading is sought by its address, and the rate is of what went from the first to the second. */
struct reading {
    const char *from, *to;
    uint64_t at_s;
    double tx_bit_per_s; /* what arrived, payload of TCP; 0: not known */
    double rx_bit_per_s; /* the same, of what went from the second to the first */
    double mss;          /* 0: not known */
    double rtt_s;        /* 0: not known */
};

static int leave_out(struct imported *into, enum import_reason reason)
{
    into->left_out[reason]++;
    return 0;
}

/* One that the store would refuse is left out here, and does not end the writing of all. */
static int add(struct imported *into, const struct autobuf_paths_entry *entry)
{
    if (autobuf_paths_check(entry) < 0)
        return leave_out(into, IMPORT_NOT_UNDERSTOOD);
    if (into->count == into->room) {
        size_t room = into->room ? 2 * into->room : 64;
        struct autobuf_paths_entry *grown = reallocarray(into->entries, room, sizeof *grown);

        if (!grown)
            return -ENOMEM;
        into->entries = grown;
        into->room = room;
    }
    into->entries[into->count++] = *entry;
    return 0;
}

/* In IP bytes, as the store has it. */
static uint64_t ip_rate(double bit_per_s, double mss, double headers)
{
    double rate = bit_per_s * (mss + headers) / mss;

    return rate > RATE_MOST ? (uint64_t)RATE_MOST : (uint64_t)rate;
}

static int add_reading(const struct reading *r, const struct import_host *host, struct imported *into)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_prefix from, to;
    double mss = r->mss > 0 ? r->mss : MSS_USUAL, headers;
    uint64_t tx, rx;
    bool here;

    if (!r->from || !r->to)
        return leave_out(into, IMPORT_NOT_UNDERSTOOD);
    if (!address_of(r->from, &from) || !address_of(r->to, &to) || from.version != to.version)
        return leave_out(into, IMPORT_NO_ADDRESS);
    here = is_this_host(host, &from);
    if (here == is_this_host(host, &to))
        return leave_out(into, IMPORT_ELSEWHERE);
    entry.learned_s = r->at_s < host->now_s ? r->at_s : host->now_s; /* another host's clock may be ahead */
    entry.expires_s = entry.learned_s + host->holds_s;
    if (entry.expires_s <= host->now_s)
        return leave_out(into, IMPORT_OLD);
    headers = from.version == 4 ? V4_HEADERS : V6_HEADERS;
    tx = ip_rate(here ? r->tx_bit_per_s : r->rx_bit_per_s, mss, headers);
    rx = ip_rate(here ? r->rx_bit_per_s : r->tx_bit_per_s, mss, headers);
    entry.method = AUTOBUF_METHOD_IMPORTED;
    entry.remote = here ? to : from;
    entry.flags = (tx ? AUTOBUF_PATH_TX_AT_LEAST : 0) | (rx ? AUTOBUF_PATH_RX_AT_LEAST : 0);
    entry.samples = 1;
    entry.packet_bytes = r->mss > 0 ? (uint32_t)(r->mss + headers < UINT16_MAX ? r->mss + headers : UINT16_MAX) : 0;
    entry.rtt_min_ns = r->rtt_s > 0 ? (uint64_t)(r->rtt_s * NS_PER_S) : AUTOBUF_NS_UNSET;
    entry.tx_rate_bit_per_s = entry.tx_rate_low_bit_per_s = entry.tx_rate_high_bit_per_s = tx;
    entry.rx_rate_bit_per_s = entry.rx_rate_low_bit_per_s = entry.rx_rate_high_bit_per_s = rx;
    return add(into, &entry);
}

/* Keeps the lesser of two times, of which 0 is none. */
static void least(double *known, double seconds)
{
    if (seconds > 0 && (*known <= 0 || seconds < *known))
        *known = seconds;
}

/* The least round-trip time of an array of streams, in microseconds there. */
static void least_of_streams(const json_t *streams, const char *path, double *rtt_s)
{
    for (size_t i = 0; i < json_array_size(streams); i++) {
        double us;

        if (number_at(json_array_get(streams, i), path, RTT_LEAST_S * 1e6, RTT_MOST_S * 1e6, &us))
            least(rtt_s, us / 1e6);
    }
}

/* --------------------------------------------------------------------------------------- iperf3 */

/*
 * What arrived. What the sender counted is no lower bound of what the path carries: at its end a part of that still
 * waits at the sender.
 */
static double iperf_rate(const json_t *result, const char *received)
{
    double rate = 0;

    (void)number_at(result, received, 1, RATE_MOST, &rate);
    return rate;
}

static int add_iperf(const json_t *result, const struct import_host *host, struct imported *into)
{
    const char *protocol = text_at(result, "start.test_start.protocol");
    double reverse = 0, timestamp_s;
    struct reading r = {.from = text_at(result, "start.connected.0.local_host"),
                        .to = text_at(result, "start.connected.0.remote_host")};
    bool is_server = at(result, "start.accepted_connection"), sends;

    if (at(result, "error"))
        return leave_out(into, IMPORT_FAILED);
    if (!protocol || !number_at(result, "start.timestamp.timesecs", 0, 1e12, &timestamp_s))
        return leave_out(into, IMPORT_NOT_UNDERSTOOD);
    if (strcmp(protocol, "TCP") != 0)
        return leave_out(into, IMPORT_OTHER_TEST);
    (void)number_at(result, "start.test_start.reverse", 0, 1, &reverse);
    (void)number_at(result, "start.tcp_mss_default", MSS_LEAST, MSS_MOST, &r.mss);
    sends = is_server == (reverse > 0);
    *(sends ? &r.tx_bit_per_s : &r.rx_bit_per_s) =
        iperf_rate(result, "end.sum_received.bits_per_second");
    *(sends ? &r.rx_bit_per_s : &r.tx_bit_per_s) =
        iperf_rate(result, "end.sum_received_bidir_reverse.bits_per_second"); /* 0: one way only */
    r.at_s = (uint64_t)timestamp_s;
    least_of_streams(at(result, "end.streams"), "sender.min_rtt", &r.rtt_s);
    return add_reading(&r, host, into);
}

/* ------------------------------------------------------------------------------------ perfSONAR */

static const char *first_text(const json_t *document, const char *const *paths, size_t count)
{
    const char *text = NULL;

    for (size_t i = 0; i < count && !text; i++)
        text = text_at(document, paths[i]);
    return text;
}

/* The round-trip times that iperf3 told pScheduler, in microseconds. Other tools' have other units. */
static void streams_of_test(const json_t *document, double *rtt_s)
{
    static const char *const totals[] = {"result.streams.json", "result.summary.streams"},
                             *const all_intervals[] = {"result.intervals.json", "result.intervals"},
                             *const tools[] = {"pscheduler.tool", "tool.name", "tool"};
    const char *tool = first_text(document, tools, COUNT(tools));

    if (!tool || strcmp(tool, "iperf3") != 0)
        return;
    for (size_t i = 0; i < COUNT(totals); i++)
        least_of_streams(at(document, totals[i]), "rtt", rtt_s);
    for (size_t i = 0; i < COUNT(all_intervals); i++)
        for (size_t j = 0; j < json_array_size(at(document, all_intervals[i])); j++)
            least_of_streams(at(json_array_get(at(document, all_intervals[i]), j), "streams"), "rtt", rtt_s);
}

static bool throughput_of_test(const json_t *document, double *bit_per_s)
{
    static const char *const paths[] = {"result.summary.summary.receiver-throughput-bits",
                                        "result.summary.summary.throughput-bits", "result.throughput"};

    for (size_t i = 0; i < COUNT(paths); i++)
        if (number_at(document, paths[i], 1, RATE_MOST, bit_per_s))
            return true;
    return false;
}

static bool when_of_test(const json_t *document, uint64_t *at_s)
{
    static const char *const paths[] = {"pscheduler.start_time", "run.start-time", "schedule.start", "@timestamp"};

    for (size_t i = 0; i < COUNT(paths); i++)
        if (time_at(document, paths[i], at_s))
            return true;
    return false;
}

static int add_perfsonar(const json_t *document, const struct import_host *host, struct imported *into)
{
    static const char *const sources[] = {"meta.source.ip", "test.spec.source"},
                             *const destinations[] = {"meta.destination.ip", "test.spec.dest"};
    const char *type = text_at(document, "test.type");
    struct reading r = {.from = first_text(document, sources, COUNT(sources)),
                        .to = first_text(document, destinations, COUNT(destinations))};
    double bit_per_s = 0;

    if (!type)
        return leave_out(into, IMPORT_NOT_UNDERSTOOD);
    if (strcmp(type, "throughput") != 0 && strcmp(type, "rtt") != 0)
        return leave_out(into, IMPORT_OTHER_TEST);
    if (json_is_true(at(document, "test.spec.udp")))
        return leave_out(into, IMPORT_OTHER_TEST);
    if (json_is_false(at(document, "result.succeeded")))
        return leave_out(into, IMPORT_FAILED);
    if (!when_of_test(document, &r.at_s))
        return leave_out(into, IMPORT_NOT_UNDERSTOOD);
    if (strcmp(type, "rtt") == 0) {
        if (!seconds_at(document, "result.rtt.min", &r.rtt_s) && !seconds_at(document, "result.min", &r.rtt_s))
            return leave_out(into, IMPORT_NOT_UNDERSTOOD);
        return add_reading(&r, host, into);
    }
    if (!throughput_of_test(document, &bit_per_s))
        return leave_out(into, IMPORT_NOT_UNDERSTOOD);
    *(json_is_true(at(document, "test.spec.reverse")) ? &r.rx_bit_per_s : &r.tx_bit_per_s) = bit_per_s;
    (void)number_at(document, "result.mss", MSS_LEAST, MSS_MOST, &r.mss);
    streams_of_test(document, &r.rtt_s);
    return add_reading(&r, host, into);
}

/* -------------------------------------------------------------------------------------- autobuf */

static bool whole_at(const json_t *value, const char *path, double most, uint64_t *number)
{
    double n;

    if (!number_at(value, path, 0, most, &n))
        return json_is_null(at(value, path)); /* unknown: as it was */
    *number = (uint64_t)n;
    return true;
}

static bool small_at(const json_t *value, const char *path, double most, uint32_t *number)
{
    uint64_t n = *number;

    if (!whole_at(value, path, most, &n))
        return false;
    *number = (uint32_t)n;
    return true;
}

static bool prefix_at(const json_t *value, const char *path, bool needed, struct autobuf_prefix *prefix)
{
    const char *text = text_at(value, path);

    return text ? autobuf_prefix_parse(text, prefix) == 0 : !needed && json_is_null(at(value, path));
}

static bool device_at(const json_t *value, char device[AUTOBUF_INTERFACE_BYTES])
{
    const char *text = text_at(value, "device");

    if (!text)
        return json_is_null(at(value, "device"));
    return (size_t)snprintf(device, AUTOBUF_INTERFACE_BYTES, "%s", text) < AUTOBUF_INTERFACE_BYTES;
}

/* The number that has a name; 0: none. */
static uint32_t numbered(const char *(*name_of)(uint32_t), uint32_t most, const char *name)
{
    for (uint32_t i = 1; name && i <= most; i++)
        if (name_of(i) && strcmp(name_of(i), name) == 0)
            return i;
    return 0;
}

static bool read_entry(const json_t *value, struct autobuf_paths_entry *e)
{
    bool ok = prefix_at(value, "remote", true, &e->remote) && prefix_at(value, "local", false, &e->local) &&
              device_at(value, e->device) && whole_at(value, "rtt_min_ns", RTT_MOST_S * NS_PER_S, &e->rtt_min_ns) &&
              whole_at(value, "rtt_median_ns", RTT_MOST_S * NS_PER_S, &e->rtt_median_ns) &&
              whole_at(value, "tx_rate_bit_per_s", RATE_MOST, &e->tx_rate_bit_per_s) &&
              whole_at(value, "tx_rate_low_bit_per_s", RATE_MOST, &e->tx_rate_low_bit_per_s) &&
              whole_at(value, "tx_rate_high_bit_per_s", RATE_MOST, &e->tx_rate_high_bit_per_s) &&
              whole_at(value, "rx_rate_bit_per_s", RATE_MOST, &e->rx_rate_bit_per_s) &&
              whole_at(value, "rx_rate_low_bit_per_s", RATE_MOST, &e->rx_rate_low_bit_per_s) &&
              whole_at(value, "rx_rate_high_bit_per_s", RATE_MOST, &e->rx_rate_high_bit_per_s) &&
              whole_at(value, "tx_bdp_bytes", BDP_MOST, &e->tx_bdp_bytes) &&
              whole_at(value, "rx_bdp_bytes", BDP_MOST, &e->rx_bdp_bytes) &&
              small_at(value, "samples", UINT32_MAX, &e->samples) &&
              small_at(value, "packet_bytes", UINT16_MAX, &e->packet_bytes) &&
              whole_at(value, "learned_s", 1e12, &e->learned_s) && whole_at(value, "expires_s", 1e12, &e->expires_s);

    e->method = numbered(autobuf_method_name, AUTOBUF_METHOD_PASSIVE, text_at(value, "method"));
    e->limiter = numbered(autobuf_limiter_name, UINT8_MAX, text_at(value, "limiter"));
    e->tx_unsure = numbered(autobuf_unsure_name, AUTOBUF_UNSURE_PAUSES, text_at(value, "tx_unsure"));
    e->rx_unsure = numbered(autobuf_unsure_name, AUTOBUF_UNSURE_PAUSES, text_at(value, "rx_unsure"));
    e->flags = (json_is_true(at(value, "tx_at_least")) ? AUTOBUF_PATH_TX_AT_LEAST : 0) |
               (json_is_true(at(value, "rx_at_least")) ? AUTOBUF_PATH_RX_AT_LEAST : 0);
    return ok && e->method;
}

static int add_entries(const json_t *entries, const struct import_host *host, struct imported *into)
{
    int error = 0;

    for (size_t i = 0; i < json_array_size(entries) && error == 0; i++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (!read_entry(json_array_get(entries, i), &entry)) {
            leave_out(into, IMPORT_NOT_UNDERSTOOD);
        } else if (entry.expires_s <= host->now_s) {
            leave_out(into, IMPORT_OLD);
        } else {
            if (entry.learned_s > host->now_s)
                entry.learned_s = host->now_s;
            error = add(into, &entry);
        }
    }
    return error;
}

/* ---------------------------------------------------------------------------------------- all */

static int add_value(const json_t *value, const struct import_host *host, struct imported *into)
{
    const json_t *source = at(value, "_source"); /* how a search answers with a document */

    if (json_is_array(at(value, "paths")))
        return leave_out(into, IMPORT_EXPORTED);
    if (source)
        value = source;
    if (json_is_object(at(value, "test")) && json_is_object(at(value, "result")))
        return add_perfsonar(value, host, into);
    if (json_is_object(at(value, "start")) && (json_is_object(at(value, "end")) || at(value, "error")))
        return add_iperf(value, host, into);
    return leave_out(into, IMPORT_NOT_UNDERSTOOD);
}

static int add_values(const json_t *value, const struct import_host *host, struct imported *into)
{
    const json_t *hits = at(value, "hits.hits"), *entries = at(value, "paths");
    int error = 0;

    if (host->exported)
        return json_is_array(entries) ? add_entries(entries, host, into) : leave_out(into, IMPORT_NOT_UNDERSTOOD);
    if (json_is_array(hits))
        value = hits;
    if (!json_is_array(value))
        return add_value(value, host, into);
    for (size_t i = 0; i < json_array_size(value) && error == 0; i++)
        error = add_value(json_array_get(value, i), host, into);
    return error;
}

static int by_key(const void *a, const void *b)
{
    return autobuf_paths_compare(a, b);
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Two of the same key become one, the first: of lower bounds the highest, else what was learned last. */
static void combine(struct autobuf_paths_entry *e, const struct autobuf_paths_entry *other)
{
    if (e->method != AUTOBUF_METHOD_IMPORTED || other->method != AUTOBUF_METHOD_IMPORTED) {
        if (other->learned_s > e->learned_s)
            *e = *other;
        return;
    }
    if (other->rtt_min_ns < e->rtt_min_ns) /* AUTOBUF_NS_UNSET is above all */
        e->rtt_min_ns = other->rtt_min_ns;
    e->tx_rate_bit_per_s = most(e->tx_rate_bit_per_s, other->tx_rate_bit_per_s);
    e->rx_rate_bit_per_s = most(e->rx_rate_bit_per_s, other->rx_rate_bit_per_s);
    e->tx_rate_low_bit_per_s = e->tx_rate_high_bit_per_s = e->tx_rate_bit_per_s;
    e->rx_rate_low_bit_per_s = e->rx_rate_high_bit_per_s = e->rx_rate_bit_per_s;
    e->packet_bytes = (uint32_t)most(e->packet_bytes, other->packet_bytes);
    e->flags |= other->flags;
    e->samples += other->samples < UINT32_MAX - e->samples ? other->samples : 0;
    e->learned_s = most(e->learned_s, other->learned_s);
    e->expires_s = most(e->expires_s, other->expires_s);
}

/* rate x time, in bytes, at most what the store takes. */
static uint64_t product(uint64_t bit_per_s, uint64_t ns)
{
    double bytes = (double)bit_per_s * (double)ns / (8.0 * NS_PER_S);

    return bytes < BDP_MOST ? (uint64_t)bytes : (uint64_t)BDP_MOST;
}

/* One entry for each path, with what it needs to be of use. */
static void merge(struct imported *into)
{
    size_t kept = 0;

    if (!into->count)
        return;
    qsort(into->entries, into->count, sizeof *into->entries, by_key);
    for (size_t i = 1; i < into->count; i++)
        if (autobuf_paths_compare(&into->entries[kept], &into->entries[i]) == 0)
            combine(&into->entries[kept], &into->entries[i]);
        else
            into->entries[++kept] = into->entries[i];
    into->count = kept + 1;
    kept = 0;
    for (size_t i = 0; i < into->count; i++) {
        struct autobuf_paths_entry *e = &into->entries[i];

        if (!e->tx_rate_bit_per_s && !e->rx_rate_bit_per_s) {
            leave_out(into, IMPORT_NO_RATE);
        } else if (e->rtt_min_ns == AUTOBUF_NS_UNSET) {
            leave_out(into, IMPORT_NO_RTT);
        } else {
            if (e->method == AUTOBUF_METHOD_IMPORTED) {
                e->tx_bdp_bytes = product(e->tx_rate_bit_per_s, e->rtt_min_ns);
                e->rx_bdp_bytes = product(e->rx_rate_bit_per_s, e->rtt_min_ns);
            }
            into->entries[kept++] = *e;
        }
    }
    into->count = kept;
}

static size_t blanks(const char *text, size_t bytes)
{
    size_t count = 0;

    while (count < bytes && strchr(" \t\r\n", text[count]) && text[count])
        count++;
    return count;
}

int import_read(const char *text, size_t bytes, const struct import_host *host, struct imported *into,
                char why[IMPORT_WHY_BYTES])
{
    size_t from = 0;
    int error = 0;

    *into = (struct imported){.entries = NULL};
    why[0] = '\0';
    if (bytes > IMPORT_MOST_BYTES)
        return -E2BIG;
    do {
        json_error_t wrong;
        json_t *value = json_loadb(text + from, bytes - from, JSON_DISABLE_EOF_CHECK | JSON_DECODE_INT_AS_REAL, &wrong);

        if (!value) {
            snprintf(why, IMPORT_WHY_BYTES, "line %d: %s", wrong.line, wrong.text);
            return -EINVAL;
        }
        from += (size_t)wrong.position;
        from += blanks(text + from, bytes - from);
        error = add_values(value, host, into);
        json_decref(value);
    } while (error == 0 && from < bytes);
    if (error == 0)
        merge(into);
    return error;
}
