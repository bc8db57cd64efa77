#include "emu_params.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char emu_params_usage[] =
    "rate=BIT/S[k|M|G] delay=TIME queue=BYTES[K|M|G] loss=0..1 jitter=TIME reorder=0..1 "
    "reorder_by=TIME burst=BYTES peak=BIT/S cross=0..1 cross_size=BYTES "
    "cross_spacing=poisson|constant wake=TIME forward=TIME stall=TIME stall_every=TIME batch=TIME "
    "(TIME: ns|us|ms|s)";

struct unit {
    const char *suffix;
    double factor;
};

/* Decimal for bytes too: a rate times a time should give a round queue. */
static const struct unit count_units[] = {
    {"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {NULL, 0},
};
/* A time without its unit would be a guess; only 0 needs none. */
static const struct unit time_units[] = {
    {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0},
};
static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};

static int number(const char *text, const struct unit *units, double max, double *out)
{
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double value = strtod(text, &end);

    /* strtod() also reads signs, hex, exponents, inf and nan. */
    if (digits == 0 || end != text + digits)
        return -1;
    if (value == 0.0 && *end == '\0') {
        *out = 0.0;
        return 0;
    }
    for (; units->suffix; units++) {
        if (strcmp(end, units->suffix) == 0) {
            *out = value * units->factor;
            return *out <= max ? 0 : -1;
        }
    }
    return -1;
}

static int whole(const char *text, const struct unit *units, double max, uint64_t *out)
{
    double value;

    if (number(text, units, max, &value) < 0)
        return -1;
    /* 0 means "infinite" or "none": nothing small may become it. */
    if (value > 0.0 && value < 1.0)
        return -1;
    *out = (uint64_t)(value + 0.5);
    return 0;
}

static int get_rate(const char *text, uint64_t *out)
{
    return whole(text, count_units, 1e13, out);
}

static int get_time(const char *text, uint64_t *out)
{
    return whole(text, time_units, 1e13, out);
}

int emu_params_bytes(const char *text, uint64_t *bytes)
{
    return whole(text, count_units, 1e13, bytes);
}

static int get_share(const char *text, double *out)
{
    return number(text, plain_units, 1.0, out);
}

static int get_spacing(const char *text, uint32_t *constant)
{
    *constant = strcmp(text, "constant") == 0;
    return *constant || strcmp(text, "poisson") == 0 ? 0 : -1;
}

static int get_packet(const char *text, uint32_t *bytes)
{
    uint64_t value;

    if (whole(text, count_units, 65535, &value) < 0 || value == 0)
        return -1;
    *bytes = (uint32_t)value;
    return 0;
}

static int set_one(struct emu_params *p, const char *key, const char *value)
{
    if (!strcmp(key, "rate"))
        return get_rate(value, &p->rate_bit_per_s);
    if (!strcmp(key, "peak"))
        return get_rate(value, &p->peak_bit_per_s);
    if (!strcmp(key, "delay"))
        return get_time(value, &p->delay_ns);
    if (!strcmp(key, "jitter"))
        return get_time(value, &p->jitter_ns);
    if (!strcmp(key, "reorder_by"))
        return get_time(value, &p->reorder_by_ns);
    if (!strcmp(key, "wake"))
        return get_time(value, &p->wake_ns);
    if (!strcmp(key, "forward"))
        return get_time(value, &p->forward_ns);
    if (!strcmp(key, "stall"))
        return get_time(value, &p->stall_ns);
    if (!strcmp(key, "stall_every"))
        return get_time(value, &p->stall_every_ns);
    if (!strcmp(key, "batch"))
        return get_time(value, &p->batch_ns);
    if (!strcmp(key, "queue"))
        return emu_params_bytes(value, &p->queue_bytes);
    if (!strcmp(key, "burst"))
        return emu_params_bytes(value, &p->burst_bytes);
    if (!strcmp(key, "loss"))
        return get_share(value, &p->loss);
    if (!strcmp(key, "reorder"))
        return get_share(value, &p->reorder);
    if (!strcmp(key, "cross"))
        return get_share(value, &p->cross);
    if (!strcmp(key, "cross_size"))
        return get_packet(value, &p->cross_size_bytes);
    if (!strcmp(key, "cross_spacing"))
        return get_spacing(value, &p->cross_constant);
    return 1;
}

__attribute__((format(printf, 3, 4))) static int fail(char *err, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err, size, fmt, ap);
    va_end(ap);
    return -1;
}

static int check(const struct emu_params *p, char *err, size_t size)
{
    if (!p->rate_bit_per_s && (p->burst_bytes || p->peak_bit_per_s || p->cross > 0.0))
        return fail(err, size, "burst, peak and cross need a rate");
    if (p->peak_bit_per_s && p->peak_bit_per_s < p->rate_bit_per_s)
        return fail(err, size, "peak is below rate");
    if (p->peak_bit_per_s && !p->burst_bytes)
        return fail(err, size, "peak needs a burst");
    if (p->reorder > 0.0 && !p->reorder_by_ns)
        return fail(err, size, "reorder needs reorder_by");
    if (p->stall_ns && p->stall_ns >= p->stall_every_ns)
        return fail(err, size, "stall needs a longer stall_every");
    return 0;
}

int emu_params_parse(struct emu_params *p, const char *text, char *err, size_t err_size)
{
    struct emu_params parsed = *p;

    while (*text) {
        char pair[64], *value;
        size_t len = strcspn(text, ",");
        int rc;

        if (len >= sizeof(pair))
            return fail(err, err_size, "parameter too long");
        memcpy(pair, text, len);
        pair[len] = '\0';
        text += len;
        if (*text == ',')
            text++;
        value = strchr(pair, '=');
        if (!value)
            return fail(err, err_size, "not key=value: %s", pair);
        *value++ = '\0';
        rc = set_one(&parsed, pair, value);
        if (rc)
            return fail(err, err_size, "%s: %s=%s", rc > 0 ? "unknown key" : "bad value", pair,
                        value);
    }
    if (check(&parsed, err, err_size) < 0)
        return -1;
    *p = parsed;
    return 0;
}
