/* SPDX-License-Identifier: MIT */
/* The functions that scp and sftp call to send requests before their turn, and to wait late for replies. */
#ifndef AUTOBUF_AHEAD_H
#define AUTOBUF_AHEAD_H

#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>

struct SFTP_DIRENT;
struct sftp_conn;
struct sshbuf;

/*
 * A request that scp or sftp will soon make is sent early, under an id of our own. When they make it, its reply is
 * perhaps here already. Only requests that change nothing on the server are sent early, and the one in
 * autobuf_ahead_put(). Replies that decide nothing more than a message are waited for late. All functions take NULL
 * for a connection on which nothing is sent early.
 */
struct autobuf_ahead;

/* The next connection begins with: scp of a file, or with recursive perhaps a folder, from a remote path. */
void autobuf_ahead_get(const char *path, int recursive);

/*
 * Likewise, to a remote path. With a local file that is the only source, the remote one may be opened before it is
 * known that the path is no folder. This is done only with OpenSSH's own server, which leaves a folder as it is.
 */
void autobuf_ahead_put(const char *path, const char *local, int preserve);

/* Likewise: sftp, which asks where it is. */
void autobuf_ahead_pwd(void);

/*
 * For a connection that reads from descriptor fd, and has just got the version. own_server: the extensions are those
 * of OpenSSH's own server. send() sends a message, and empties it; receive() waits for one. NULL: switched off.
 */
struct autobuf_ahead *autobuf_ahead_open(struct sftp_conn *conn, int fd, u_int version, int own_server,
    void (*send)(struct sftp_conn *, struct sshbuf *), void (*receive)(struct sftp_conn *, struct sshbuf *, int));

/* So many handles may be open on the server. 0: it does not tell. */
void autobuf_ahead_handles(struct autobuf_ahead *q, uint64_t most);

/* Returns 1 if a request that is about to be sent was sent already: its reply will have the id of this one. */
int autobuf_ahead_asked(struct autobuf_ahead *q, const struct sshbuf *msg);

/* Gets the reply that the caller waits for into msg, with the caller's id. Returns 0 with NULL: the caller gets it. */
int autobuf_ahead_reply(struct autobuf_ahead *q, struct sshbuf *msg);

/*
 * A file of known size is read now, from its first byte or another. OpenSSH's own server is asked for its end a round
 * trip before it is closed, and closes it behind the last data.
 */
void autobuf_ahead_download(struct autobuf_ahead *q, const u_char *handle, size_t handle_len, uint64_t size,
    u_int request_bytes);

/* The entry of a folder that is downloaded now. Those behind it are requested, as far as they are small files. */
void autobuf_ahead_files(struct autobuf_ahead *q, const char *folder, struct SFTP_DIRENT **entry,
    u_int request_bytes);

/* No more of the folder. Files that were opened and not asked for are closed. */
void autobuf_ahead_end(struct autobuf_ahead *q);

/*
 * The entry of a folder that is uploaded now. If it is a file, its replies are waited for late, but that to its
 * opening; if it is too large for one request, only those to what follows the data. autobuf_late_wait() ends this.
 */
void autobuf_late_file(struct autobuf_ahead *q, const char *from, const char *to);

/* The failure of this file was reported. */
void autobuf_late_told(struct autobuf_ahead *q);

/*
 * A request whose reply is a status was sent. Returns 1 if it is not to be waited for: when it comes, its error is
 * reported as that of what. A close is only waited for late if it is of the file above.
 */
int autobuf_late_status(struct autobuf_ahead *q, u_int id, const char *what, int closes);

/* Waits for all of them. Returns -1 if a file failed late since this was asked last. */
int autobuf_late_wait(struct autobuf_ahead *q);

#endif
