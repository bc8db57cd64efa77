/* SPDX-License-Identifier: MIT */
/* What stands in for libssh2 and libcurl in test_ssh2.c: answers by a script, and counts. */
#ifndef FAKE_SSH2_H
#define FAKE_SSH2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

struct fake_file {
    uint64_t size_bytes;
    uint64_t at_bytes;     /* libssh2's position */
    uint64_t most_bytes;   /* a call returns no more; 0: as much as it may */
    int error;             /* of the next call, once; 0: none */
    uint64_t bad_at;       /* a byte that cannot be read: a call up to it loses what it has read; 0: none */
    size_t ends_above;     /* a call that asks for more ends the file; 0: none does */
    unsigned calls;
    size_t asked_bytes;    /* by the last call, */
    size_t asked_most_bytes; /* and the largest */
    unsigned closed;
};

/* The link that the files come over, in virtual time. */
extern FAKE_EXPORT uint64_t fake_now_ns;
extern FAKE_EXPORT uint64_t fake_rtt_ns, fake_bdp_bytes;
extern FAKE_EXPORT struct fake_file *fake_next_file; /* what the next open returns */
extern FAKE_EXPORT void *fake_abstract;              /* of each session */

static inline unsigned char fake_byte(uint64_t offset)
{
    return (unsigned char)(offset * 0x9e3779b97f4a7c15 >> 56);
}

/* The libcurl: opens a file as it does, and notes what was set. */
FAKE_EXPORT void *fake_curl_open(void *sftp, unsigned long flags);
extern FAKE_EXPORT void *fake_curl_handle;
extern FAKE_EXPORT long fake_curl_upload_bytes;
extern FAKE_EXPORT unsigned fake_curl_version;

#endif
