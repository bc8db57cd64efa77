/* SPDX-License-Identifier: MIT */
#include "sysctls.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PATH_BYTES 512
#define LINE_BYTES 512
#define LINES_MOST 4096 /* of one file */
#define FILE_BYTES_MOST (1 << 20)
#define INCLUDES_MOST 8 /* a profile that includes one that includes ... */
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define BLANKS " \t\r\n"

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
