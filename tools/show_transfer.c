/* SPDX-License-Identifier: MIT */
#include "show_transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "print.h"

#define INDENT 3
#define NOISE 0.05 /* of a rate: two transfers of the same kind may differ by so much */

static const char *const names[TRANSFERS] = {"sending, default", "sending, tuned", "receiving, default",
                                             "receiving, tuned"};

/* ----------------------------------------------------------------------------------- progress */

/* One character for each rate, as high as it is beside the highest one. */
static void draw(char line[PICTURE_COLUMNS + 1], const uint64_t rates[PICTURE_COLUMNS])
{
    static const char heights[] = " .:-=+*#%@";
    uint64_t most = 1;

    for (unsigned i = 0; i < PICTURE_COLUMNS; i++)
        most = rates[i] > most ? rates[i] : most;
    for (unsigned i = 0; i < PICTURE_COLUMNS; i++)
        line[i] = heights[(size_t)((double)rates[i] * (double)(sizeof heights - 2) / (double)most)];
    line[PICTURE_COLUMNS] = '\0';
}

void show_transfer_progress(FILE *out, struct transfer_picture *p, const struct transfer *t, uint64_t now_ns)
{
    uint64_t bytes = t->sends ? t->state.sent_bytes : t->moved_bytes, last_ns = p->shown_ns ? p->shown_ns : p->begin_ns;
    char line[PICTURE_COLUMNS + 1], rtt[64] = "";

    memmove(p->rates, p->rates + 1, sizeof p->rates - sizeof *p->rates);
    p->rates[PICTURE_COLUMNS - 1] = 0;
    if (now_ns > last_ns && bytes > p->bytes)
        p->rates[PICTURE_COLUMNS - 1] = (uint64_t)((double)(bytes - p->bytes) * 8e9 / (double)(now_ns - last_ns));
    p->bytes = bytes;
    p->shown_ns = now_ns;
    draw(line, p->rates);
    if (t->sends && t->state.rtt_ns != AUTOBUF_NS_UNSET)
        snprintf(rtt, sizeof rtt, ", %sB, %.1f ms", SCALED(t->state.in_flight_bytes), (double)t->state.rtt_ns / 1e6);
    fprintf(out, "\r\033[K%-18s %2.0f s |%s| %sbit/s%s", names[(t->sends ? 0 : 2) + t->tuned],
            (double)(now_ns - p->begin_ns) / 1e9, line, SCALED(p->rates[PICTURE_COLUMNS - 1]), rtt);
}

/* -------------------------------------------------------------------------------------- table */

const char *show_transfer_why(const struct transfer_result *r)
{
    if (r->error != AUTOBUF_E_UNSUPPORTED)
        return r->error == -ECONNRESET ? "the server closed the connection" : autobuf_strerror(r->error);
    switch (r->code) {
    case TRANSFER_BUSY:
        return "the server is busy with other transfers";
    case TRANSFER_REFUSED:
        return "the server allows no transfers (autobuf serve --transfer SECONDS does)";
    default:
        return "the server does not know transfers: its autobuf is older";
    }
}

static const char *limiter_words(uint64_t limiter)
{
    static const char *const words[] = {[AUTOBUF_LIMITER_PATH] = "path",
                                        [AUTOBUF_LIMITER_SND_BUFFER] = "send buffer",
                                        [AUTOBUF_LIMITER_PEER] = "peer's window",
                                        [AUTOBUF_LIMITER_SENDER] = "program"};

    return limiter < sizeof words / sizeof *words && words[limiter] ? words[limiter] : "-";
}

static void show_cell(FILE *out, int columns, const char *unit, uint64_t value)
{
    char text[40] = "-";

    if (value)
        snprintf(text, sizeof text, "%s%s", SCALED(value), unit);
    fprintf(out, "%*s", columns, text);
}

static void show_row(FILE *out, const char *name, const struct transfer_result *r)
{
    const uint64_t *seen = r->sender.values;
    char text[128];

    if (r->error < 0) {
        snprintf(text, sizeof text, "%-19s%s\n", name, show_transfer_why(r));
        print_folded(out, text, INDENT);
        return;
    }
    fprintf(out, "%-19s", name);
    show_cell(out, 13, "bit/s", r->rate_bit_per_s);
    show_cell(out, 10, "B", seen[TRANSFER_WINDOW]);
    snprintf(text, sizeof text, "%.*f/%.*f ms", seen[TRANSFER_RTT_MEAN] < 100000000 ? 1 : 0,
             (double)seen[TRANSFER_RTT_MEAN] / 1e6, seen[TRANSFER_RTT_LEAST] < 100000000 ? 1 : 0,
             (double)seen[TRANSFER_RTT_LEAST] / 1e6);
    fprintf(out, "%15s", seen[TRANSFER_RTT_MEAN] ? text : "-");
    scaled(text, seen[TRANSFER_RESENT]);
    text[strcspn(text, " ")] = seen[TRANSFER_RESENT] < 1000 ? '\0' : ' '; /* no unit follows */
    fprintf(out, "%8s  %s\n", seen[TRANSFER_RTT_MEAN] ? text : "-", limiter_words(seen[TRANSFER_LIMITER]));
}

/* What limited a direction, as seen from its sender. */
static const char *limit_words(bool receives, uint64_t limiter)
{
    switch (limiter) {
    case AUTOBUF_LIMITER_PATH:
        return "the path";
    case AUTOBUF_LIMITER_SND_BUFFER:
        return receives ? "the server's send buffer" : "the send buffer of this host";
    case AUTOBUF_LIMITER_PEER:
        return receives ? "the receive window of this host" : "the server's receive window";
    case AUTOBUF_LIMITER_SENDER:
        return receives ? "the server, by its rate (--rate) or its processor," : "this host's processor";
    default:
        return "something unknown";
    }
}

static bool is_window(uint64_t limiter)
{
    return limiter == AUTOBUF_LIMITER_SND_BUFFER || limiter == AUTOBUF_LIMITER_PEER;
}

/* "sending: 1.74 times the rate: the send buffer of this host was the limit of the default." Never rounds up. */
static void show_gain(FILE *out, const struct transfer_result *without, const struct transfer_result *with)
{
    uint64_t was = without->sender.values[TRANSFER_LIMITER], is = with->sender.values[TRANSFER_LIMITER];
    const char *way = without->receives ? "receiving" : "sending";
    double times, shown;
    char text[256];

    if (without->error < 0 || with->error < 0)
        return;
    times = (double)with->rate_bit_per_s / (double)without->rate_bit_per_s;
    shown = (double)(uint64_t)(times * 100) / 100;
    if (times <= 1 - NOISE)
        snprintf(text, sizeof text, "%s: %.2f times the rate: slower; other traffic or chance may be why: run it again\n", way, shown);
    else if (times < 1 + NOISE)
        snprintf(text, sizeof text, "%s: no gain: %s was the limit\n", way, limit_words(with->receives, is));
    else if (is_window(was))
        snprintf(text, sizeof text, "%s: %.2f times the rate: %s was the limit of the default\n", way, shown,
                 limit_words(without->receives, was));
    else
        snprintf(text, sizeof text, "%s: %.2f times the rate, but no window was the limit of the default: other traffic, "
                                    "or chance\n", way, shown);
    print_folded(out, text, INDENT);
}

void show_transfers(FILE *out, const struct transfer_result results[TRANSFERS], uint64_t seconds)
{
    char title[32];

    snprintf(title, sizeof title, "transfers of %" PRIu64 " s", seconds);
    fprintf(out, "%-19s%13s%10s%15s%8s  %s\n", title, "rate", "in flight", "rtt mean/least", "resent", "limited by");
    for (unsigned i = 0; i < TRANSFERS; i++)
        show_row(out, names[i], &results[i]);
    show_gain(out, &results[SENDING_DEFAULT], &results[SENDING_TUNED]);
    show_gain(out, &results[RECEIVING_DEFAULT], &results[RECEIVING_TUNED]);
}

void show_transfers_json(FILE *out, const struct transfer_result results[TRANSFERS])
{
    fputs("\"transfers\":[", out);
    for (unsigned i = 0; i < TRANSFERS; i++) {
        const struct transfer_result *r = &results[i];
        const uint64_t *seen = r->sender.values;

        fputs(i ? ",{" : "{", out);
        json_string(out, "direction", r->receives ? "receive" : "send");
        json_bool(out, "tuned", r->tuned);
        json_number(out, "rate_bit_per_s", r->rate_bit_per_s, r->error < 0);
        json_number(out, "bytes", r->bytes, r->error < 0);
        json_number(out, "elapsed_ns", r->elapsed_ns, r->error < 0);
        json_number(out, "in_flight_bytes", seen[TRANSFER_WINDOW], r->error < 0 || !seen[TRANSFER_WINDOW]);
        json_number(out, "rtt_mean_ns", seen[TRANSFER_RTT_MEAN], r->error < 0 || !seen[TRANSFER_RTT_MEAN]);
        json_number(out, "rtt_min_ns", seen[TRANSFER_RTT_LEAST], r->error < 0 || !seen[TRANSFER_RTT_LEAST]);
        json_number(out, "retransmits", seen[TRANSFER_RESENT], r->error < 0 || !seen[TRANSFER_RTT_MEAN]);
        json_string(out, "limited", r->error < 0 ? NULL : autobuf_limiter_name((uint32_t)seen[TRANSFER_LIMITER]));
        fputs("\"error\":", out);
        if (r->error < 0)
            json_text(out, show_transfer_why(r));
        else
            fputs("null", out);
        fputc('}', out);
    }
    fputs("],", out);
}
