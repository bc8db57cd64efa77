/* SPDX-License-Identifier: MIT */
/*
 * A whole store as a file, read and then written by those who keep an entry in it. First byte: 1:
 * the checksums are made to fit; 2: the header, too; 252: so many entries are before that the file
 * is mapped. The next 6: what is kept. The rest is the file, or its records.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "paths/store.h"
#include "paths/record.h"

#define NOW_S 1000000U
#define BEFORE 360U /* more than 64 KB */

struct file {
    uint8_t *bytes;
    size_t len;
};

static char folder[40], name[64];
static uint8_t before[BEFORE * AB_PATHS_RECORD_BYTES];

static void remove_folder(void)
{
    char lock[80];

    snprintf(lock, sizeof lock, "%s.lock", name);
    unlink(lock);
    unlink(name);
    rmdir(folder);
}

static void begin(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    make_folder(folder);
    atexit(remove_folder);
    snprintf(name, sizeof name, "%s/paths", folder);
    e.remote.version = 4;
    e.remote.bits = 9;
    e.expires_s = UINT64_MAX;
    for (unsigned i = 0; i < BEFORE; i++) {
        e.remote.address[0] = (uint8_t)(i / 2);
        e.remote.address[1] = (uint8_t)(i << 7);
        CHECK(ab_paths_record_write(&e, before + i * AB_PATHS_RECORD_BYTES) == 0);
    }
}

static void seal(uint8_t *bytes, size_t at)
{
    uint32_t crc = ab_crc32(bytes, at);

    for (unsigned i = 0; i < 4; i++)
        bytes[at + i] = (uint8_t)(crc >> 8 * i);
}

/* The input, with what its first byte wants. */
static struct file make_file(unsigned how, const struct input *in)
{
    size_t head = how & 2 ? AB_PATHS_HEADER_BYTES : 0;
    size_t more = (how & 254) == 254 ? sizeof before : 0;
    size_t rest = how & 2 ? in->len - in->len % AB_PATHS_RECORD_BYTES : in->len;
    struct file file = {exact_copy(NULL, head + more + rest), head + more + rest};
    struct ab_paths_head good = {.count = (more + rest) / AB_PATHS_RECORD_BYTES, .local = true};

    memset(good.lengths, 0xff, sizeof good.lengths);
    if (head)
        ab_paths_head_write(&good, file.bytes);
    memcpy(file.bytes + head, before, more);
    memcpy(file.bytes + head + more, in->data, rest);
    if (how & 1 && file.len >= AB_PATHS_HEADER_BYTES) {
        seal(file.bytes, 124);
        for (size_t at = AB_PATHS_HEADER_BYTES; at + AB_PATHS_RECORD_BYTES <= file.len;
             at += AB_PATHS_RECORD_BYTES)
            seal(file.bytes + at, 176);
    }
    return file;
}

static void write_file(const struct file *file)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, file->bytes, file->len) == (ssize_t)file->len);
    close(fd);
}

static void check_unchanged(const struct file *file)
{
    uint8_t *now = exact_copy(NULL, file->len + 1);
    int fd = open(name, O_RDONLY);

    CHECK(fd >= 0 && read(fd, now, file->len + 1) == (ssize_t)file->len);
    CHECK(memcmp(now, file->bytes, file->len) == 0);
    close(fd);
    free(now);
}

/* Entries that are sound, whatever is between them, in any order. */
static uint64_t check_entries(const struct autobuf_paths *paths, bool ordered)
{
    struct autobuf_paths_entry last = AUTOBUF_PATHS_ENTRY_INIT, entry = AUTOBUF_PATHS_ENTRY_INIT;
    uint64_t by_hand = 0;

    for (uint64_t at = 0; at < ab_paths_count(paths); at++) {
        int error = ab_paths_at(paths, at, &entry);

        CHECK(error == 0 || (!ordered && error == AUTOBUF_E_DAMAGED));
        if (error < 0)
            continue;
        CHECK(ab_paths_check(&entry) == 0);
        CHECK(!ordered || !at || ab_paths_compare(&last, &entry) < 0);
        by_hand += entry.method == AUTOBUF_METHOD_GIVEN && entry.expires_s == UINT64_MAX;
        last = entry;
    }
    CHECK(ab_paths_at(paths, ab_paths_count(paths), &entry) == -ENOENT);
    return by_hand;
}

/* An entry that is found for this address matches and is valid. */
static bool find(const struct autobuf_paths *paths, const struct autobuf_paths_entry *fresh,
                 struct autobuf_paths_entry *entry)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    uint8_t address[16];

    memcpy(&to.sin_addr, fresh->remote.address, 4);
    query.remote = (struct sockaddr *)&to;
    query.remote_len = sizeof to;
    query.now_s = NOW_S;
    if (autobuf_paths_find(paths, &query, entry) < 0)
        return false;
    memcpy(address, fresh->remote.address, sizeof address);
    ab_prefix_mask(address, entry->remote.bits);
    CHECK(entry->remote.version == 4 && memcmp(address, entry->remote.address, 16) == 0);
    CHECK(entry->expires_s > NOW_S && !entry->device[0] && !entry->local.version);
    return true;
}

static bool find_key(const struct autobuf_paths *paths, const struct autobuf_paths_entry *key,
                     struct autobuf_paths_entry *entry)
{
    for (uint64_t at = 0; at < ab_paths_count(paths); at++)
        if (ab_paths_at(paths, at, entry) == 0 && ab_paths_compare(entry, key) == 0)
            return true;
    return false;
}

/*
 * The old store's entries that were set by hand for ever are still there, and so is the new one,
 * which is not for ever, unless one that was set by hand is in its place.
 */
static void check_kept(const struct autobuf_paths_entry *fresh, uint64_t by_hand, bool ordered)
{
    bool given = fresh->method == AUTOBUF_METHOD_GIVEN, is_fresh;
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;
    uint64_t now;

    CHECK(autobuf_paths_open(&paths, name) == 0);
    now = check_entries(paths, true);
    CHECK(now <= by_hand && (!ordered || now + given >= by_hand));
    CHECK(find_key(paths, fresh, &entry));
    is_fresh = entry.method == fresh->method && entry.rtt_min_ns == fresh->rtt_min_ns;
    CHECK(is_fresh || (!given && entry.method == AUTOBUF_METHOD_GIVEN));
    if (is_fresh && entry.expires_s == fresh->expires_s)
        CHECK(find(paths, fresh, &entry) && entry.remote.bits == 32);
    autobuf_paths_close(paths);
}

/* Whether its entries are in order, none of them twice. */
static bool is_ordered(const struct autobuf_paths *paths)
{
    struct autobuf_paths_entry last = AUTOBUF_PATHS_ENTRY_INIT, entry = AUTOBUF_PATHS_ENTRY_INIT;
    bool any = false;

    for (uint64_t at = 0; at < ab_paths_count(paths); at++) {
        if (ab_paths_at(paths, at, &entry) < 0)
            continue;
        if (any && ab_paths_compare(&last, &entry) >= 0)
            return false;
        last = entry;
        any = true;
    }
    return true;
}

static void keep_in(const struct file *file, const struct autobuf_paths_entry *fresh)
{
    static const uint32_t flags = AUTOBUF_PATHS_TRY | AUTOBUF_PATHS_NO_SYNC;
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;
    int opened = autobuf_paths_open(&paths, name), error;
    uint64_t by_hand = 0;
    bool ordered = true;

    CHECK(opened == 0 || opened == AUTOBUF_E_DAMAGED || opened == AUTOBUF_E_NEWER);
    if (opened == 0) {
        by_hand = check_entries(paths, false);
        (void)find(paths, fresh, &entry);
        ordered = is_ordered(paths);
    }
    autobuf_paths_close(paths);
    check_unchanged(file);
    error = autobuf_paths_keep(name, fresh, NOW_S, flags);
    if (error == 0)
        check_kept(fresh, by_hand, ordered);
    else
        check_unchanged(file);
    CHECK(error == 0 || opened == AUTOBUF_E_NEWER || error == -E2BIG);
    CHECK(error == 0 || error == opened || opened == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    unsigned how = (unsigned)take(&in, 1);
    struct autobuf_paths_entry fresh = AUTOBUF_PATHS_ENTRY_INIT;
    struct file file;

    if (!name[0])
        begin();
    fresh.remote.version = 4;
    fresh.remote.bits = 32;
    for (unsigned i = 0; i < 4; i++)
        fresh.remote.address[i] = (uint8_t)take(&in, 1);
    fresh.method = take(&in, 1) & 1 ? AUTOBUF_METHOD_GIVEN : AUTOBUF_METHOD_PASSIVE;
    fresh.rtt_min_ns = 1 + take(&in, 1);
    fresh.learned_s = NOW_S;
    fresh.expires_s = NOW_S + 60;
    file = make_file(how, &in);
    write_file(&file);
    keep_in(&file, &fresh);
    free(file.bytes);
    return 0;
}
