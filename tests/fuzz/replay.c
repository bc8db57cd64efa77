/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target on every file of the folders, and on the files, given as arguments: the corpus
 * as an ordinary test, without libFuzzer. Says which file it is at, should that one end it.
 */
#include "fuzz.h"

#include <dirent.h>

#define LONGEST_BYTES (1U << 20)

static void replay_file(const char *path)
{
    static uint8_t buf[LONGEST_BYTES];
    FILE *file = fopen(path, "rb");
    uint8_t *copy;
    size_t len;

    if (!file) {
        perror(path);
        exit(1);
    }
    printf("%s\n", path);
    fflush(stdout);
    len = fread(buf, 1, sizeof buf, file);
    fclose(file);
    copy = exact_copy(buf, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static unsigned replay_folder(const char *folder, DIR *open)
{
    const struct dirent *entry;
    unsigned files = 0;
    char path[4096];

    while ((entry = readdir(open))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replay_file(path);
        files++;
    }
    return files;
}

int main(int argc, char **argv)
{
    unsigned files = 0;

    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);

        if (folder) {
            files += replay_folder(argv[i], folder);
            closedir(folder);
        } else {
            replay_file(argv[i]);
            files++;
        }
    }
    printf("%u inputs\n", files);
    return files ? 0 : 1; /* an empty corpus proves nothing */
}
