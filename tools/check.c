/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <errno.h>
#include <string.h>

#include "../lib/kernel/proc.h"
#include "print.h"
#include "sysctls.h"

#define ADVICE "/etc/sysctl.d/90-autobuf.conf"
#define SETTINGS_MOST 64 /* of one file of advice, which has four */
#define LINE_BYTES 512
#define NUMBERS 3
#define INDENT 7

enum cause { NO_CAUSE, LATER_FILE, NO_FILE, TUNED, READ_ONLY, NO_SYSCTL, HIDDEN, NAMESPACE, NOT_APPLIED };

struct verdict {
    struct sysctl_setting wanted;
    char now[SYSCTL_VALUE_BYTES]; /* "": it cannot be read */
    bool holds;                   /* now */
    enum cause cause;
    struct sysctl_setting by; /* the line of another file that is the cause */
};

/* What each cause is called in JSON, what it means, and what ends it. */
static const struct {
    const char *token, *what, *change;
} words[] = {
    [NO_CAUSE] = {NULL, "", ""},
    [LATER_FILE] = {"later-file", "another line sets it", "take that line out, then run sysctl --system"},
    [NO_FILE] = {"no-file", "no file of sysctl.d sets it", "copy the line to " ADVICE ", then run sysctl --system"},
    [TUNED] = {"tuned", "tuned sets it",
               "put the line into a profile of your own below /etc/tuned, or run tuned-adm off"},
    [READ_ONLY] = {"read-only", "it cannot be written here, as in a container",
                   "set it on the host, or where the container is made"},
    [NO_SYSCTL] = {"no-sysctl", "this kernel does not show it here, as in a container", "set it on the host"},
    [HIDDEN] = {"hidden", "/proc/sys is not here", "look on the host"},
    [NAMESPACE] = {"namespace",
                   "a network namespace, as of a container, has its own value, which these files do not set",
                   "set it where the container is made: docker run --sysctl, for instance"},
    [NOT_APPLIED] = {"not-applied", "the files set it, but were not applied, or it was changed later",
                     "run sysctl --system"},
};

/* Sizes of buffers may be larger. */
static bool holds(const struct sysctl_setting *wanted, const char *value)
{
    uint64_t a[NUMBERS], b[NUMBERS];
    size_t count = ab_proc_parse(wanted->value, a, NUMBERS);
    bool size = strncmp(wanted->name, "net.", 4) == 0 && strstr(wanted->name, "mem");

    if (!count || ab_proc_parse(value, b, NUMBERS) != count)
        return strcmp(wanted->value, value) == 0;
    while (count-- > 0)
        if (size ? b[count] < a[count] : b[count] != a[count])
            return false;
    return true;
}

/* Why this value is not what is wanted, or will not be after the next start. */
static enum cause cause_of(const char *root, struct verdict *v)
{
    const char *name = v->wanted.name;
    char any[SYSCTL_VALUE_BYTES];
    struct sysctl_setting last;
    bool found = sysctls_last(root, name, &last), tcp = sysctls_now(root, "net.ipv4.tcp_wmem", any);

    if (!v->now[0])
        return tcp || sysctls_now(root, "kernel.ostype", any) ? NO_SYSCTL : HIDDEN;
    if (!v->holds && sysctls_fixed(root, name))
        return READ_ONLY;
    if (!found)
        return NO_FILE;
    v->by = last;
    if (!holds(&v->wanted, last.value))
        return LATER_FILE;
    if (v->holds)
        return NO_CAUSE;
    if (sysctls_tuned(root, name, &v->by) && strcmp(v->by.value, v->now) == 0)
        return TUNED;
    v->by = last;
    /* All network namespaces have net.ipv4.tcp_wmem, the first one alone net.ipv4.tcp_mem. */
    return tcp && !sysctls_now(root, "net.ipv4.tcp_mem", any) ? NAMESPACE : NOT_APPLIED;
}

static struct verdict judge(const char *root, const struct sysctl_setting *wanted)
{
    struct verdict v = {.wanted = *wanted};

    if (!sysctls_now(root, wanted->name, v.now))
        v.now[0] = '\0';
    v.holds = v.now[0] && holds(wanted, v.now);
    v.cause = cause_of(root, &v);
    return v;
}

/* A value that no file sets may come from what made the container, so it is in force. */
static bool in_force(const struct verdict *v)
{
    return v->holds && v->cause != LATER_FILE;
}

/* Whether another line is the cause. */
static bool undone(const struct verdict *v)
{
    return v->cause == LATER_FILE || v->cause == TUNED;
}

static void show_text(FILE *out, const struct verdict *v)
{
    char text[1024], by[256] = "";

    if (undone(v))
        snprintf(by, sizeof by, " to %s (%s, line %u)", v->by.value, v->by.file, v->by.line);
    fprintf(out, "  %s = %s\n", v->wanted.name, v->wanted.value);
    snprintf(text, sizeof text, "%*s%s%s%s%s%s%s\n", INDENT, "",
             in_force(v) ? "in force"
             : v->holds  ? "in force until the next start"
             : v->now[0] ? "now "
                         : "unknown",
             v->holds ? "" : v->now, v->cause ? ": " : "", words[v->cause].what, by,
             in_force(v) && v->cause ? ", so it may end with the next start" : "");
    print_folded(out, text, INDENT);
    if (v->cause && !in_force(v)) {
        snprintf(text, sizeof text, "%*s%s\n", INDENT, "", words[v->cause].change);
        print_folded(out, text, INDENT);
    }
}

static void show_json(FILE *out, const struct verdict *v)
{
    fputc('{', out);
    json_string(out, "name", v->wanted.name);
    json_string(out, "wanted", v->wanted.value);
    json_string(out, "now", v->now[0] ? v->now : NULL);
    json_string(out, "state", in_force(v) ? "in-force" : undone(v) ? "undone" : "missing");
    json_string(out, "cause", words[v->cause].token);
    json_string(out, "file", undone(v) ? v->by.file : NULL);
    json_number(out, "line", v->by.line, !undone(v));
    fputs("\"change\":", out);
    json_text(out, in_force(v) ? NULL : words[v->cause].change);
    fputc('}', out);
}

static void show(FILE *out, bool json, const char *file, const struct verdict *verdicts, size_t count, size_t good)
{
    if (!json)
        fprintf(out, "%s: %zu of %zu lines in force\n", file, good, count);
    else {
        fputc('{', out);
        json_string(out, "version", autobuf_version());
        json_string(out, "checked", file);
        json_bool(out, "in_force", good == count);
        fputs("\"lines\":[", out);
    }
    for (size_t i = 0; i < count; i++) {
        if (json && i)
            fputc(',', out);
        (json ? show_json : show_text)(out, verdicts + i);
    }
    if (json)
        fputs("]}\n", out);
}

/* Reads the settings of a file. Whoever wrote it: a line that is none ends it. Returns how many; -1: said on err. */
static int read_advice(const char *path, struct sysctl_setting settings[SETTINGS_MOST], FILE *err)
{
    FILE *file = sysctls_open(path);
    char line[LINE_BYTES];
    int count = 0;

    if (!file) {
        fprintf(err, "autobuf: %s: %s: --check reads what explain --sysctl has printed\n", path,
                errno == EINVAL ? "no ordinary file, or too large" : strerror(errno));
        return -1;
    }
    for (unsigned i = 1; count >= 0 && sysctls_next(file, line, sizeof line); i++) {
        struct sysctl_setting next = {0};
        enum sysctl_parsed is = sysctls_parse(line, &next);

        if (is == SYSCTL_WRONG || (is == SYSCTL_SET && count == SETTINGS_MOST)) {
            fprintf(err, "autobuf: %s: line %u is none of explain --sysctl's\n", path, i);
            count = -1;
        } else if (is == SYSCTL_SET) {
            settings[count++] = next;
        }
    }
    fclose(file);
    return count;
}

int check_file(const char *root, const char *file, bool json, FILE *out, FILE *err)
{
    static struct sysctl_setting settings[SETTINGS_MOST];
    static struct verdict verdicts[SETTINGS_MOST];
    char path[512];
    int count;
    size_t good = 0;

    snprintf(path, sizeof path, "%s" ADVICE, root);
    count = read_advice(file ? file : path, settings, err);
    if (count < 0)
        return EXIT_NOTHING;
    for (int i = 0; i < count; i++) {
        verdicts[i] = judge(root, &settings[i]);
        good += in_force(&verdicts[i]);
    }
    show(out, json, file ? file : ADVICE, verdicts, (size_t)count, good);
    return good == (size_t)count ? EXIT_RESULT : EXIT_NOTHING;
}
