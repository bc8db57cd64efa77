/* SPDX-License-Identifier: MIT */
#include "sysctls.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "../lib/kernel/proc.h"
#include "arguments.h"
#include "print.h"

#define PATH_BYTES 512
#define LINE_BYTES 512
#define LINES_MOST 4096 /* of one file */
#define FILE_BYTES_MOST (1 << 20)
#define INCLUDES_MOST 8 /* a profile that includes one that includes ... */
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define BLANKS " \t\r\n"
#define ADVICE "/etc/sysctl.d/90-autobuf.conf"
#define SETTINGS_MOST 64 /* of one file of advice, which has four */
#define NUMBERS 3
#define INDENT 7

/* ------------------------------------------------------------------------------------ lines */

/* sysctl.d(5) takes dots or slashes between the parts. No part is empty, so none leads out of /proc/sys. */
static bool take_name(const char *text, size_t len, char name[SYSCTL_NAME_BYTES])
{
    char between = '\0';

    if (!len || len >= SYSCTL_NAME_BYTES || text[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool part = strchr(LETTERS, text[i]) != NULL;

        if (!part && ((text[i] != '.' && text[i] != '/') || (between && text[i] != between) || i == 0 || i + 1 == len ||
                      !strchr(LETTERS, text[i - 1])))
            return false;
        between = part ? between : text[i];
        name[i] = part ? text[i] : '.';
    }
    name[len] = '\0';
    return true;
}

/* Without quotes around it. Each run of blanks becomes one. */
static bool take_value(const char *text, char value[SYSCTL_VALUE_BYTES])
{
    size_t len = 0;

    text += strspn(text, BLANKS "\"");
    for (; *text; text++) {
        bool blank = strchr(BLANKS, *text) != NULL;

        if (!blank && (*text < ' ' || *text > '~'))
            return false;
        if (blank && len && value[len - 1] == ' ')
            continue;
        value[len++] = blank ? ' ' : *text;
        if (len == SYSCTL_VALUE_BYTES)
            return false;
    }
    while (len && strchr(BLANKS "\"", value[len - 1]))
        len--;
    value[len] = '\0';
    return len > 0;
}

enum sysctl_parsed sysctls_parse(const char *line, struct sysctl_setting *setting)
{
    const char *sign = strchr(line, '=');
    size_t len;

    line += strspn(line, BLANKS);
    if (!*line || *line == '#' || *line == ';')
        return SYSCTL_NOTHING;
    line += *line == '-'; /* before what may fail */
    len = sign > line ? (size_t)(sign - line) : 0;
    while (len && strchr(BLANKS, line[len - 1]))
        len--;
    return take_name(line, len, setting->name) && take_value(sign + 1, setting->value) ? SYSCTL_SET : SYSCTL_WRONG;
}

FILE *sysctls_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat facts;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &facts) < 0 || !S_ISREG(facts.st_mode) || facts.st_size > FILE_BYTES_MOST) {
        close(fd);
        errno = EINVAL;
        return NULL;
    }
    return fdopen(fd, "r");
}

bool sysctls_next(FILE *file, char *line, size_t cap)
{
    int c = '\0';

    if (!fgets(line, (int)cap, file))
        return false;
    if (strlen(line) + 1 < cap || line[cap - 2] == '\n')
        return true;
    while (c != '\n' && c != EOF)
        c = getc(file);
    strcpy(line, "=");
    return true;
}

/* The first line of a file; false: it cannot be opened. */
static bool first_line(const char *path, char line[LINE_BYTES])
{
    FILE *file = sysctls_open(path);

    line[0] = '\0';
    if (!file)
        return false;
    (void)sysctls_next(file, line, LINE_BYTES);
    fclose(file);
    return true;
}

/* The last line of the file, or of this section of it, that sets the name. *found stays if there is none. */
static bool find_line(const char *root, const char *path, const char *section, const char *name,
                      struct sysctl_setting *found)
{
    FILE *file = sysctls_open(path);
    bool any = false, inside = !section;
    struct sysctl_setting next;
    char line[LINE_BYTES];

    if (!file)
        return false;
    for (unsigned i = 1; i <= LINES_MOST && sysctls_next(file, line, sizeof line); i++) {
        if (section && line[0] == '[')
            inside = strncmp(line, section, strlen(section)) == 0;
        if (!inside || sysctls_parse(line, &next) != SYSCTL_SET || strcmp(next.name, name) != 0)
            continue;
        snprintf(next.file, sizeof next.file, "%.127s", path + strlen(root));
        next.line = i;
        *found = next;
        any = true;
    }
    fclose(file);
    return any;
}

/* --------------------------------------------------------------------------------- sysctl.d */

static const char *base_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* A file hides those of its name in later folders. */
static bool is_hidden(const glob_t *files, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(base_of(files->gl_pathv[i]), base_of(files->gl_pathv[at])) == 0)
            return true;
    return false;
}

/* The order of the files is that of their names, whatever their folders; /etc/sysctl.conf comes last. */
bool sysctls_last(const char *root, const char *name, struct sysctl_setting *last)
{
    static const char *const folders[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"};
    const char *best = NULL;
    char path[PATH_BYTES];
    glob_t files = {0};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s/sysctl.d/*.conf", root, folders[i]);
        (void)glob(path, files.gl_pathc ? GLOB_APPEND : 0, NULL, &files);
    }
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *file = files.gl_pathv[i];

        if (!is_hidden(&files, i) && (!best || strcmp(base_of(file), base_of(best)) > 0) &&
            find_line(root, file, NULL, name, last))
            best = file;
    }
    snprintf(path, sizeof path, "%s/etc/sysctl.conf", root);
    if (find_line(root, path, NULL, name, last))
        best = path;
    globfree(&files);
    return best != NULL;
}

/* ------------------------------------------------------------------------------------ tuned */

/* A profile's own line goes before those of the profiles that it includes. */
static bool find_profile(const char *root, const char *profile, const char *name, unsigned depth,
                         struct sysctl_setting *found)
{
    static const char *const folders[] = {"/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles",
                                          "/usr/lib/tuned"};
    struct sysctl_setting include;
    char path[PATH_BYTES], *rest = NULL;
    size_t i = 0;
    bool any = false;

    if (strchr(profile, '/') || depth > INCLUDES_MOST)
        return false;
    do
        snprintf(path, sizeof path, "%s%s/%s/tuned.conf", root, folders[i], profile);
    while (access(path, R_OK) != 0 && ++i < sizeof folders / sizeof *folders);
    if (find_line(root, path, "[main]", "include", &include))
        for (char *one = strtok_r(include.value, ", ", &rest); one; one = strtok_r(NULL, ", ", &rest))
            any |= find_profile(root, one, name, depth + 1, found);
    return find_line(root, path, "[sysctl]", name, found) || any;
}

bool sysctls_tuned(const char *root, const char *name, struct sysctl_setting *found)
{
    char path[PATH_BYTES], line[LINE_BYTES], *rest = NULL;
    bool any = false;

    snprintf(path, sizeof path, "%s/etc/tuned/active_profile", root);
    if (!first_line(path, line))
        return false;
    for (char *profile = strtok_r(line, BLANKS, &rest); profile; profile = strtok_r(NULL, BLANKS, &rest))
        any |= find_profile(root, profile, name, 0, found);
    return any;
}

/* -------------------------------------------------------------------------------- /proc/sys */

static void path_of(const char *root, const char *name, char path[PATH_BYTES])
{
    int begin = snprintf(path, PATH_BYTES, "%s/proc/sys/", root);

    snprintf(path + begin, PATH_BYTES - (size_t)begin, "%s", name);
    for (char *at = path + begin; *at; at++)
        *at = *at == '.' ? '/' : *at;
}

bool sysctls_now(const char *root, const char *name, char value[SYSCTL_VALUE_BYTES])
{
    char path[PATH_BYTES], line[LINE_BYTES];

    path_of(root, name, path);
    return first_line(path, line) && take_value(line, value);
}

bool sysctls_fixed(const char *root, const char *name)
{
    char path[PATH_BYTES];
    struct statvfs mount;
    struct stat facts;

    path_of(root, name, path);
    return (statvfs(path, &mount) == 0 && mount.f_flag & ST_RDONLY) ||
           (stat(path, &facts) == 0 && !(facts.st_mode & 0222));
}

/* ------------------------------------------------------------------------- explain --check */

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
    [NO_SYSCTL] = {"no-sysctl",
                   "there is no such setting here: its name is wrong, its module is not loaded, or this is a container",
                   "look at the name; in a container, set it on the host"},
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

/* A value that no file sets may come from what made the container, so it is in force. */
static bool in_force(const struct verdict *v)
{
    return v->holds && v->cause != LATER_FILE;
}

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
        struct verdict *v = &verdicts[i];

        *v = (struct verdict){.wanted = settings[i]};
        if (!sysctls_now(root, v->wanted.name, v->now))
            v->now[0] = '\0';
        v->holds = v->now[0] && holds(&v->wanted, v->now);
        v->cause = cause_of(root, v);
        good += in_force(v);
    }
    show(out, json, file ? file : ADVICE, verdicts, (size_t)count, good);
    return good == (size_t)count ? EXIT_RESULT : EXIT_NOTHING;
}
