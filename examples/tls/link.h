/* SPDX-License-Identifier: MIT */
/*
 * A TLS connection whose ciphertext this program carries itself, between memory BIOs and the socket. So it sees
 * when each segment arrived, which is not visible above TLS, and can send a train of records with one write.
 */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <openssl/ssl.h>

#define NS_PER_S 1000000000ULL
#define IDLE_NS (10 * NS_PER_S) /* after which a silent peer is gone */

struct link {
    int fd;
    int prepared; /* what autobuf_inband_restore() takes */
    SSL *ssl;
    BIO *in, *out; /* ciphertext, received and to be sent. They belong to ssl */
    bool broken;   /* TLS failed, and cannot even say goodbye */
    size_t segment_bytes;  /* of a TCP segment */
    size_t record_bytes;   /* plaintext of a record, at most */
    size_t overhead_bytes; /* the framing of a record: header, type, tag */
    uint32_t facts_flags;  /* of the newest autobuf_inband_facts() */
    uint64_t stamp_ns;     /* when the segment arrived that completed the newest plaintext */
    size_t begin, end;     /* plaintext received, not taken yet */
    uint8_t plain[4096];
};

/* A server's has a certificate, signed by its own key. NULL: OpenSSL's error queue tells why. */
SSL_CTX *link_context(bool is_server);

/* The handshake, on a connected socket, which it takes over. 0, or -errno; then fd is closed. */
int link_open(struct link *link, SSL_CTX *context, int fd, bool is_server);

/* Sends close_notify, if it can do so without waiting, and closes the socket. */
void link_close(struct link *link);

/* Puts back the socket's options that were set for measuring. */
void link_restore(struct link *link);

/* Plaintext into records, for link_flush() to send. 0, or -errno. */
int link_write(struct link *link, const void *data, size_t len);

/* Sends what there is, without waiting. 1: all is sent; 0: the socket is full; or -errno. */
int link_flush(struct link *link);

/*
 * More plaintext behind what is there, of one record at most, without waiting. 1; 0: nothing came;
 * -ENOBUFS: there is no room; -ECONNRESET: the peer has closed; -EPROTO, -errno.
 */
int link_fill(struct link *link);

/* Drops the first len bytes of the plaintext. */
void link_take(struct link *link, size_t len);

/* Waits until it can go on reading, if that is wanted, or sending. 0, -ETIMEDOUT, -errno. */
int link_wait(const struct link *link, bool reads, uint64_t until_ns);

/* Sends all of a text. 0, or -errno. */
int link_say(struct link *link, const char *text, size_t len);

/* Waits for a whole line at link->plain + link->begin. Its length with the line feed, or -errno. */
int link_line(struct link *link);

#endif
