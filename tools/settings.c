/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 512
#define LINES_MOST 4096 /* of one file */

static const char *const folders[] = {"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d",
                                      "/usr/lib/sysctl.d", "/etc"};

/* sysctl.d(5) takes dots or slashes between the parts, and a dash before what may fail. */
static const char *after_name(const char *line, const char *name)
{
    while (isspace((unsigned char)*line) || *line == '-')
        line++;
    for (; *name; name++, line++)
        if (*line != *name && !(*name == '.' && *line == '/'))
            return NULL;
    while (isspace((unsigned char)*line))
        line++;
    return *line == '=' ? line + 1 : NULL;
}

int64_t settings_third(const char *line, const char *name)
{
    const char *values = after_name(line, name);
    long long first, second, third;

    if (!values)
        return -1;
    values += strspn(values, " \t\"");
    return sscanf(values, "%lld %lld %lld", &first, &second, &third) == 3 ? (int64_t)third : -1;
}

static void read_file(const char *path, const char *name, int64_t third_bytes, struct setting *setting)
{
    FILE *file = fopen(path, "re");
    char line[LINE_BYTES];

    if (!file)
        return;
    for (unsigned i = 0; i < LINES_MOST && fgets(line, sizeof line, file); i++) {
        if (settings_third(line, name) != third_bytes)
            continue;
        setting->third_bytes = third_bytes;
        snprintf(setting->file, sizeof setting->file, "%s", path);
    }
    fclose(file);
}

/* /etc holds sysctl.conf alone. */
static bool is_settings(const char *folder, const char *name)
{
    size_t length = strlen(name);

    if (strcmp(folder, "/etc") == 0)
        return strcmp(name, "sysctl.conf") == 0;
    return length > 5 && strcmp(name + length - 5, ".conf") == 0;
}

void settings_find(const char *name, int64_t third_bytes, struct setting *setting)
{
    setting->file[0] = '\0';
    setting->third_bytes = UNKNOWN;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !setting->file[0]; i++) {
        DIR *folder = opendir(folders[i]);
        const struct dirent *entry;
        char path[sizeof setting->file];

        while (folder && (entry = readdir(folder)) != NULL)
            if (is_settings(folders[i], entry->d_name) &&
                (size_t)snprintf(path, sizeof path, "%s/%s", folders[i], entry->d_name) < sizeof path)
                read_file(path, name, third_bytes, setting);
        if (folder)
            closedir(folder);
    }
}
