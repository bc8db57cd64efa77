/* SPDX-License-Identifier: MIT */
/*
 * sshd's settings. They are in a file of their own, because an sshd without libautobuf would not start with an
 * sshd_config that has an option unknown to it. Nothing in this file keeps sshd from going on either.
 */
#ifndef AUTOBUF_SETTINGS_H
#define AUTOBUF_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

struct autobuf_sshd_config {
	int on;              /* AutoBuffer */
	long long most_bytes; /* AutoBufferMax */
	uint64_t host_bytes; /* AutoBufferHost */
};

/*
 * Reads lines of a keyword and a value. name is the file's, for the log, which tells what is wrong with a line. A
 * line that is wrong has no other effect. memory_bytes: what AutoBufferHost is a share of.
 */
void autobuf_sshd_parse(struct autobuf_sshd_config *settings, const char *name,
    const char *text, size_t bytes, uint64_t memory_bytes);

/*
 * Reads the file. A file that belongs to another user than root (or us), that others may write, or that is large is
 * ignored, which the log tells. If there is no file, the settings are the defaults.
 */
void autobuf_sshd_read(struct autobuf_sshd_config *settings, const char *name);

#endif
