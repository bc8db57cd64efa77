/* SPDX-License-Identifier: MIT */
/*
 * sshd's autobuf.conf. First byte: how much memory the host has. The rest is the file. Settings
 * are in their bounds, a line that is ignored changes nothing, and the log is short and plain.
 */
#include "fuzz.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <unistd.h>

#include "atomicio.h"
#include "autobuf-settings.h"
#include "autobuf-ssh.h"
#include "log.h"
#include "misc.h"

#define TOLD_MOST 8U

static unsigned told;

/* In place of OpenSSH's. */
void logit(const char *format, ...)
{
    char line[512];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    CHECK(length > 0 && length < (int)sizeof line);
    for (const char *c = line; *c; c++)
        CHECK(*c >= ' ' && *c <= '~');
    told++;
}

size_t atomicio(ssize_t (*call)(int, void *, size_t), int fd, void *data, size_t bytes)
{
    ssize_t got = call(fd, data, bytes);

    return got < 0 ? 0 : (size_t)got;
}

/* Digits and a letter, as far as they go. */
int scan_scaled(char *text, long long *value)
{
    static const char letters[] = "BKMGTPE";
    const char *letter;
    char *end;
    long long number;

    errno = 0;
    number = strtoll(text, &end, 10);
    letter = *end ? strchr(letters, toupper((unsigned char)*end)) : letters;
    if (errno || end == text || !letter || (*end && end[1]))
        return -1;
    for (long i = letter - letters; i; i--)
        if (__builtin_mul_overflow(number, 1024, &number))
            return -1;
    *value = number;
    return 0;
}

static struct autobuf_sshd_config parse(const void *data, size_t len, uint64_t memory_bytes)
{
    struct autobuf_sshd_config settings = {-1, -1, 1};
    char *text = exact_copy(data, len);

    told = 0;
    autobuf_sshd_parse(&settings, "FILE", text, len, memory_bytes);
    free(text);
    CHECK(told <= TOLD_MOST && (settings.on == 0 || settings.on == 1));
    CHECK(settings.most_bytes > 0 && settings.most_bytes <= AUTOBUF_SSH_LIMIT_BYTES);
    CHECK(settings.host_bytes <= INT64_MAX);
    return settings;
}

static bool is_same(struct autobuf_sshd_config a, struct autobuf_sshd_config b)
{
    return a.on == b.on && a.most_bytes == b.most_bytes && a.host_bytes == b.host_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char before[] = "# AutoBuffer no\n\n  \t= AutoBuffer maybe\n";
    static const char after[] = "\nAutoBuffer no\nAutoBufferMax 1\nAutoBufferHost 1%\n";
    struct input in = {data, len};
    uint64_t memory_bytes = 1ULL << take(&in, 1) % 48;
    struct autobuf_sshd_config nothing = parse("", 0, memory_bytes);
    struct autobuf_sshd_config all = parse(in.data, in.len, memory_bytes), longer;
    size_t bytes = sizeof before - 1 + in.len + sizeof after - 1;
    char *text = exact_copy(NULL, bytes);

    CHECK(told || in.len || is_same(nothing, all));
    CHECK(is_same(all, parse(in.data, in.len, memory_bytes)));
    memcpy(text, before, sizeof before - 1);
    memcpy(text + sizeof before - 1, in.data, in.len);
    memcpy(text + sizeof before - 1 + in.len, after, sizeof after - 1);
    longer = parse(text, bytes - (sizeof after - 1), memory_bytes);
    CHECK(is_same(all, longer) && told); /* the second line before is wrong */
    longer = parse(text, bytes, memory_bytes); /* what was set stays */
    CHECK(longer.on == 0 || all.on == 1);
    CHECK(longer.most_bytes == all.most_bytes ||
          (longer.most_bytes == 1 && all.most_bytes == nothing.most_bytes));
    CHECK(longer.host_bytes == all.host_bytes ||
          (longer.host_bytes == memory_bytes / 100 && all.host_bytes == nothing.host_bytes));
    free(text);
    return 0;
}
