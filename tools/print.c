/* SPDX-License-Identifier: MIT */
#include "print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS 79

void json_number(FILE *out, const char *key, uint64_t value, bool absent)
{
    if (absent)
        fprintf(out, "\"%s\":null,", key);
    else
        fprintf(out, "\"%s\":%" PRIu64 ",", key, value);
}

void json_text(FILE *out, const char *value)
{
    if (!value) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', out);
        fputc(*value >= ' ' && *value <= '~' ? *value : '?', out);
    }
    fputc('"', out);
}

void json_string(FILE *out, const char *key, const char *value)
{
    fprintf(out, "\"%s\":", key);
    json_text(out, value);
    fputc(',', out);
}

void json_bool(FILE *out, const char *key, bool value)
{
    fprintf(out, "\"%s\":%s,", key, value ? "true" : "false");
}

void json_state(FILE *out, const struct autobuf_live_state *s)
{
    json_string(out, "limited", autobuf_bottleneck_name(s->bottleneck));
    json_number(out, "rtt_ns", s->rtt_ns, s->rtt_ns == AUTOBUF_NS_UNSET);
    json_number(out, "rtt_min_ns", s->rtt_min_ns, s->rtt_min_ns == AUTOBUF_NS_UNSET);
    json_number(out, "sent_bytes", s->sent_bytes, false);
    json_number(out, "received_bytes", s->received_bytes, false);
    json_number(out, "sent_bit_per_s", s->sent_bit_per_s, false);
    json_number(out, "received_bit_per_s", s->received_bit_per_s, false);
    json_number(out, "in_flight_bytes", s->in_flight_bytes, false);
    json_number(out, "cwnd_bytes", s->cwnd_bytes, false);
    json_number(out, "peer_window_bytes", s->peer_window_bytes, !s->peer_window_bytes);
    json_number(out, "notsent_bytes", s->notsent_bytes, false);
    json_number(out, "snd_buf_bytes", s->snd_buf_bytes, false);
    json_number(out, "rcv_buf_bytes", s->rcv_buf_bytes, false);
    json_number(out, "pacing_bit_per_s", s->pacing_bit_per_s, !s->pacing_bit_per_s);
    json_number(out, "mtu_bytes", s->packet_bytes, !s->packet_bytes);
    json_number(out, "loss_permille", s->resent_permille, false);
    json_number(out, "retransmits", s->retransmits, false);
    fprintf(out, "\"changes\":%u", s->changes);
}

void json_available(FILE *out, const struct autobuf_available *a)
{
    const char *kind = a->kind == AUTOBUF_KIND_SHARE ? "share" : "available";

    fputs("\"available\":{", out);
    json_string(out, "kind", a->kind == AUTOBUF_KIND_NONE ? NULL : kind);
    json_number(out, "tx_low_bit_per_s", a->tx_low_bit_per_s, !a->tx_low_bit_per_s);
    json_number(out, "tx_high_bit_per_s", a->tx_high_bit_per_s, !a->tx_high_bit_per_s);
    json_number(out, "rx_low_bit_per_s", a->rx_low_bit_per_s, !a->rx_low_bit_per_s);
    json_number(out, "rx_high_bit_per_s", a->rx_high_bit_per_s, !a->rx_high_bit_per_s);
    json_number(out, "over_ns", a->over_ns, !a->over_ns);
    json_number(out, "age_ns", a->age_ns, !a->over_ns);
    json_bool(out, "echoed", a->flags & AUTOBUF_AVAILABLE_ECHOED);
    fputs("\"cause\":", out);
    json_text(out, a->cause ? autobuf_cause_name(a->cause) : NULL);
    fputs("},", out);
}

const char *available_words(char text[AVAILABLE_BYTES], const struct autobuf_available *a)
{
    const char *share = a->kind == AUTOBUF_KIND_SHARE ? " as a new flow's share" : "";
    char low[SCALED_BYTES], high[SCALED_BYTES], range[4 * SCALED_BYTES];

    scaled(low, a->tx_low_bit_per_s);
    scaled(high, a->tx_high_bit_per_s);
    if (a->tx_low_bit_per_s && a->tx_high_bit_per_s)
        snprintf(range, sizeof range, "%sbit/s to %sbit/s%s", low, high, share);
    else if (a->tx_low_bit_per_s || a->tx_high_bit_per_s)
        snprintf(range, sizeof range, "at %s %sbit/s%s", a->tx_low_bit_per_s ? "least" : "most",
                 a->tx_low_bit_per_s ? low : high, share);
    else
        snprintf(range, sizeof range, "unknown (%s)", a->cause ? autobuf_cause_name(a->cause) : "too-short");
    snprintf(text, AVAILABLE_BYTES, a->over_ns ? "%.100s, over %.1f s" : "%.100s", range, (double)a->over_ns / 1e9);
    return text;
}

const char *scaled(char text[SCALED_BYTES], uint64_t value)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    double rest = (double)value;
    size_t i = 0;

    for (; rest >= 999.95 && i + 1 < sizeof prefixes / sizeof *prefixes; i++)
        rest /= 1000;
    snprintf(text, SCALED_BYTES, i ? "%.1f %s" : "%.0f %s", rest, prefixes[i]);
    return text;
}

/* Three digits, or whole seconds. */
static const char *seconds_words(char text[32], uint64_t ns)
{
    double s = (double)ns / 1e9;

    snprintf(text, 32, "%.*f s", s < 1 ? 3 : s < 10 ? 2 : s < 100 ? 1 : 0, s);
    return text;
}

const char *duration_words(char text[DURATION_BYTES], uint64_t low_ns, uint64_t high_ns)
{
    const char *bound = high_ns == AUTOBUF_NS_UNSET ? "at least " : low_ns == AUTOBUF_NS_UNSET ? "at most " : "";
    char low[32], high[32];

    seconds_words(low, low_ns);
    seconds_words(high, high_ns);
    if (low_ns == AUTOBUF_NS_UNSET && high_ns == AUTOBUF_NS_UNSET)
        return "unknown";
    if (bound[0])
        snprintf(text, DURATION_BYTES, "%s%s", bound, low_ns == AUTOBUF_NS_UNSET ? high : low);
    else if (strcmp(low, high) == 0)
        snprintf(text, DURATION_BYTES, "%s", low);
    else
        snprintf(text, DURATION_BYTES, "%s to %s", low, high);
    return text;
}

const char *intent_name(uint32_t intent)
{
    return intent == AUTOBUF_INTENT_LOW_DELAY   ? "low-delay"
           : intent == AUTOBUF_INTENT_SCAVENGER ? "scavenger"
                                                : "throughput";
}

bool intent_parse(const char *text, uint32_t *intent)
{
    *intent = strcmp(text, "low-delay") == 0   ? AUTOBUF_INTENT_LOW_DELAY
              : strcmp(text, "scavenger") == 0 ? AUTOBUF_INTENT_SCAVENGER
                                               : AUTOBUF_INTENT_THROUGHPUT;
    return strcmp(text, intent_name(*intent)) == 0;
}

int output_end(const char *program, int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    /* It may have failed some lines ago. */
    fprintf(stderr, "%s: cannot write all of the output%s%s\n", program, errno ? ": " : "",
            errno ? strerror(errno) : "");
    return status ? status : 1;
}

const char *unscaled(const char *text, const char *prefixes, double *value)
{
    char *end;

    *value = strtod(text, &end);
    for (const char *p = end > text && *end ? strchr(prefixes, *end) : NULL; p && p >= prefixes; p--) {
        *value *= 1000;
        end += p == prefixes;
    }
    return end;
}

struct screen screen_begin(FILE *out, unsigned rows, unsigned columns)
{
    if (columns)
        fputs("\033[H", out); /* to its first character */
    return (struct screen){out, rows, columns, 0};
}

void screen_line(struct screen *s, const char *format, ...)
{
    char line[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (!s->columns)
        fprintf(s->out, "%s\n", line);
    else if (s->row + 1 < s->rows)
        fprintf(s->out, "%.*s\033[K\n", (int)s->columns, line); /* clears the rest of the line */
    s->row++;
}

void screen_end(const struct screen *s)
{
    if (s->columns)
        fputs("\033[J", s->out); /* clears what is below */
}

void screen_size(unsigned *rows, unsigned *columns)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;

    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
}

void print_folded(FILE *out, const char *text, int indent)
{
    size_t column = 0;

    while (*text) {
        size_t spaces = strspn(text, " "), word = strcspn(text + spaces, " \n");

        if (column > (size_t)indent && column + spaces + word > COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = (size_t)indent;
            text += spaces;
            spaces = 0;
        }
        fprintf(out, "%.*s", (int)(spaces + word), text);
        column += spaces + word;
        text += spaces + word;
        if (*text == '\n') {
            fputc('\n', out);
            column = 0;
            text++;
        }
    }
}
