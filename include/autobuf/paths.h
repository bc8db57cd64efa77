/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/paths.h>: the path store: what is known of the paths from this host. tx and rx: <autobuf/autobuf.h> says
 * how directions are named.
 */
#ifndef AUTOBUF_PATHS_H
#define AUTOBUF_PATHS_H

#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/path.h>
#include <autobuf/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A store is one file, which is never changed: a writer makes a new one and renames it. Entries are sorted, and each
 * has a checksum, so a lookup reads a few of them, waits for nobody, and never returns a damaged one. A reader that
 * has a store open keeps the one that it opened.
 *
 * Two stores are looked for: that of the host, which its administrator or daemon writes (/var/lib/autobuf/paths), and
 * that of the user ($XDG_CACHE_HOME/autobuf/paths, or ~/.cache/autobuf/paths). AUTOBUF_PATHS=FILE in the environment
 * names another one instead of both; AUTOBUF_PATHS=off says that there is none. The environment is read once, when the
 * library is loaded; setuid programs ignore it, and have the host's store only.
 *
 * What the library itself measures it hands to autobufd(8), which keeps it in the host's store. If nobody takes it
 * there, or not from this user, it goes into the user's store.
 */
struct autobuf_paths;

#define AUTOBUF_INTERFACE_BYTES 16U /* of a name, with its NUL: IFNAMSIZ of the kernel */

/* The addresses of one version of IP that begin with the same bits. */
struct autobuf_prefix {
    uint8_t address[16]; /* network byte order; IPv4 in the first four. The bits behind the prefix are 0 */
    uint32_t version;    /* 4 or 6; 0: all addresses */
    uint32_t bits;       /* 0 to 32, or to 128 */
};

/* What is known of the path to some addresses. It counts as struct autobuf_path does. */
struct autobuf_paths_entry {
    uint32_t size;
    uint32_t method;                 /* AUTOBUF_METHOD_* */
    struct autobuf_prefix remote;    /* holds for these peers; version 4 or 6 */
    struct autobuf_prefix local;     /* and only from these addresses of this host; version 0: from all */
    char device[AUTOBUF_INTERFACE_BYTES]; /* and only through this interface; "": through all */
    uint32_t flags;                  /* AUTOBUF_PATH_* */
    uint32_t bottleneck;             /* AUTOBUF_BOTTLENECK_*: what limited the connection that it was learned from */
    uint32_t samples;
    uint32_t packet_bytes;
    uint32_t tx_unsure;
    uint32_t rx_unsure;
    uint64_t rtt_min_ns;
    uint64_t rtt_median_ns;
    uint64_t tx_rate_bit_per_s;
    uint64_t tx_rate_low_bit_per_s;
    uint64_t tx_rate_high_bit_per_s;
    uint64_t rx_rate_bit_per_s;
    uint64_t rx_rate_low_bit_per_s;
    uint64_t rx_rate_high_bit_per_s;
    uint64_t tx_bdp_bytes;
    uint64_t rx_bdp_bytes;
    uint64_t learned_s;              /* seconds since 1970-01-01 UTC */
    uint64_t expires_s;              /* no longer valid from this second on; UINT64_MAX: always valid */
};

#define AUTOBUF_PATHS_ENTRY_INIT                                                                             \
    {                                                                                                        \
        sizeof(struct autobuf_paths_entry), 0, { { 0 }, 0, 0 }, { { 0 }, 0, 0 }, { 0 }, 0, 0, 0, 0, 0, 0,    \
            AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET, 0, 0, 0, 0, 0, 0, 0, 0, 0, UINT64_MAX                        \
    }

/*
 * Reads a prefix such as "192.0.2.0/24", "2001:db8::/32" or, for one address, "192.0.2.1". Mapped IPv4
 * ("::ffff:192.0.2.1") is IPv4. Returns 0; -EINVAL: it is none, or bits behind the prefix are set, or NULL.
 */
AUTOBUF_API int autobuf_prefix_parse(const char *text, struct autobuf_prefix *prefix);

#define AUTOBUF_PREFIX_BYTES 50U /* of the longest text, with its NUL */

/* Writes such a text into text[AUTOBUF_PREFIX_BYTES]; "any" for version 0. Returns 0; -EINVAL: no prefix, or NULL. */
AUTOBUF_API int autobuf_prefix_print(const struct autobuf_prefix *prefix, char *text);

/* Fills *path with what an entry knows; path->measured_ns stays unset. Returns 0; -EINVAL: a struct's size, or NULL. */
AUTOBUF_API int autobuf_paths_path(const struct autobuf_paths_entry *entry, struct autobuf_path *path);

/*
 * Fills all of *entry but the prefixes, the device, the bottleneck and the times with what is known of a path. Returns
 * 0; -EINVAL: a struct's size, or NULL.
 */
AUTOBUF_API int autobuf_paths_learn(struct autobuf_paths_entry *entry, const struct autobuf_path *path);

/* -------------------------------------------------------------------------------- handing on */

#define AUTOBUF_PATHS_MESSAGE_BYTES 200U /* of an entry that is handed on */

/*
 * Writes an entry as one message of AUTOBUF_PATHS_MESSAGE_BYTES, for a datagram to autobufd(8) or for another host: a
 * magic number, a version, and the entry with a checksum; numbers are little-endian. Returns the message's bytes;
 * -EINVAL: the entry is not valid, room_bytes is too small, or NULL.
 */
AUTOBUF_API int autobuf_paths_entry_encode(const struct autobuf_paths_entry *entry, void *message, uint32_t room_bytes);

/* ---------------------------------------------------------------------------------- reading */

/*
 * Opens a store. file: NULL for the host's store, or where there is none, the user's. A store of up to 64 KB is copied;
 * a larger one is mapped, and must not be overwritten in place.
 *
 * Returns 0; -ENOENT: there is none; -EPERM: the file belongs to another user (and not to root, or, for the host's
 * store, to whom its folder belongs), others may write it, or it is no plain file; AUTOBUF_E_DAMAGED; AUTOBUF_E_NEWER;
 * -ENOMEM; or the error of open(2), fstat(2), read(2) or mmap(2).
 */
AUTOBUF_API int autobuf_paths_open(struct autobuf_paths **paths, const char *file);

/* For whom a path is looked for. */
struct autobuf_paths_query {
    uint32_t size;
    uint32_t remote_len;           /* of remote */
    const struct sockaddr *remote; /* the peer; its port does not matter */
    /* the address that this host uses; NULL: not known, so that only entries for all match */
    const struct sockaddr *local;
    uint32_t local_len;
    uint32_t intent; /* AUTOBUF_INTENT_*: an entry that knows one direction does not match one that names the
                        other, unless it was set by hand */
    const char *device;            /* the interface; NULL or "": not known */
    uint64_t now_s;                /* seconds since 1970-01-01 UTC; 0: an entry of any age is taken */
};

#define AUTOBUF_PATHS_QUERY_INIT AUTOBUF_INIT(autobuf_paths_query)

/*
 * Finds the entry with the longest remote prefix that matches and has not expired; of several, one for this interface
 * before one for this local prefix, and the longer prefix first. Returns 0; -ENOENT: there is none, or only damaged
 * ones; -EINVAL: an address, the intent, a struct's size, or NULL.
 */
AUTOBUF_API int autobuf_paths_find(const struct autobuf_paths *paths, const struct autobuf_paths_query *query,
                                   struct autobuf_paths_entry *entry);

/* NULL is allowed. */
AUTOBUF_API void autobuf_paths_close(struct autobuf_paths *paths);

/* ---------------------------------------------------------------------------------- writing */

#define AUTOBUF_PATHS_TRY 1U     /* do not wait for another writer */
/* do not wait for the disk, unless an entry was set by hand: a crash of the host may damage the new store */
#define AUTOBUF_PATHS_NO_SYNC 2U

/*
 * Adds one entry to a store, or makes one: an entry with the same key is replaced, unless it was set by hand and the
 * new one was not; those go that had expired when another was learned, a day or more ago. A damaged store becomes
 * FILE.damaged, unless an earlier one is there, and this entry begins a new one. file: NULL for the user's own store,
 * whose folder is made, and of which the oldest entry goes once there are 4,096, but none that was set by hand
 * (AUTOBUF_METHOD_GIVEN). flags: AUTOBUF_PATHS_TRY, AUTOBUF_PATHS_NO_SYNC. Returns 0; -EAGAIN: another writer is open;
 * -EINVAL: the entry, the flags, or a name that is too long; -ENOENT: there is no user's store; -EPERM: the lock or the
 * old store is not this user's; AUTOBUF_E_DAMAGED: the file is no store, and stays; AUTOBUF_E_NEWER; -E2BIG: more than
 * 64 entries have the same remote prefix; -ENOMEM; or the error of open(2), flock(2) or write(2).
 */
AUTOBUF_API int autobuf_paths_keep(const char *file, const struct autobuf_paths_entry *entry, uint64_t now_s,
                                   uint32_t flags);

#ifdef __cplusplus
}
#endif

#endif
