/* SPDX-License-Identifier: MIT */
/* sshd's settings. */
#include "includes.h"

#include <sys/types.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "atomicio.h"
#include "autobuf-settings.h"
#include "autobuf-ssh.h"
#include "log.h"
#include "misc.h"

#define FILE_BYTES 16384 /* the largest that is read */
#define LINE_BYTES 256
#define TOLD_MOST 8 /* wrong lines, of one reading */
#define HOST_PERCENT 25

enum { ON, MOST, HOST, KEYWORDS };

struct parser {
	struct autobuf_sshd_config *settings;
	uint64_t memory_bytes;
	int given[KEYWORDS];
};

/* ------------------------------------------------------------------------------------- values */

int
autobuf_ssh_size(const char *text, long long *bytes)
{
	long long value;

	if (scan_scaled((char *)(uintptr_t)text, &value) == -1 || value <= 0 ||
	    value > AUTOBUF_SSH_LIMIT_BYTES)
		return -1;
	*bytes = value;
	return 0;
}

static int
set_on(struct parser *p, const char *value)
{
	if (strcasecmp(value, "yes") != 0 && strcasecmp(value, "no") != 0)
		return -1;
	p->settings->on = strcasecmp(value, "yes") == 0;
	return 0;
}

static int
set_most(struct parser *p, const char *value)
{
	return autobuf_ssh_size(value, &p->settings->most_bytes);
}

static uint64_t
share_of(uint64_t bytes, unsigned percent)
{
	return bytes / 100 * percent;
}

static int
set_host(struct parser *p, const char *value)
{
	size_t digits = strspn(value, "0123456789");
	long long bytes;

	if (digits > 0 && digits <= 3 && strcmp(value + digits, "%") == 0) {
		int percent = atoi(value);

		if (percent < 1 || percent > 100)
			return -1;
		p->settings->host_bytes =
		    share_of(p->memory_bytes, (unsigned)percent);
		return 0;
	}
	if (scan_scaled((char *)(uintptr_t)value, &bytes) == -1 || bytes <= 0)
		return -1;
	p->settings->host_bytes = (uint64_t)bytes;
	return 0;
}

static const struct keyword {
	const char *name;
	int (*set)(struct parser *, const char *);
	const char *wanted;
} keywords[KEYWORDS] = {
	[ON] = { "AutoBuffer", set_on, "its value is neither yes nor no" },
	[MOST] = { "AutoBufferMax", set_most, "its value is no size of 1 to 1G bytes" },
	[HOST] = { "AutoBufferHost", set_host,
	    "its value is neither a size nor 1% to 100%" },
};

/* -------------------------------------------------------------------------------------- lines */

/* Returns NULL, or what is wrong with the line. */
static const char *
parse_line(struct parser *p, char *line)
{
	static const char space[] = " \t\r\f\v=";
	char *state = NULL, *name, *value;
	int i = 0;

	line[strcspn(line, "#")] = '\0';
	if ((name = strtok_r(line, space, &state)) == NULL)
		return NULL;
	while (i < KEYWORDS && strcasecmp(name, keywords[i].name) != 0)
		i++;
	if (i == KEYWORDS)
		return "unknown keyword";
	if ((value = strtok_r(NULL, space, &state)) == NULL)
		return "there is no value";
	if (strtok_r(NULL, space, &state) != NULL)
		return "there is more than one value";
	if (p->given[i])
		return "it is set in a line before";
	if (keywords[i].set(p, value) == -1)
		return keywords[i].wanted;
	p->given[i] = 1;
	return NULL;
}

void
autobuf_sshd_parse(struct autobuf_sshd_config *settings, const char *name,
    const char *text, size_t bytes, uint64_t memory_bytes)
{
	struct parser parser = { settings, memory_bytes, { 0 } };
	const char *end = text + bytes, *next;
	int number = 0, told = 0;

	settings->on = 1;
	settings->most_bytes = AUTOBUF_SSH_MOST_BYTES;
	settings->host_bytes = share_of(memory_bytes, HOST_PERCENT);
	for (; text < end; text = next) {
		const char *feed = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((feed != NULL ? feed : end) - text);
		const char *wrong = "it is too long, or no text";
		char line[LINE_BYTES];

		next = text + length + (feed != NULL);
		number++;
		if (length < sizeof line && memchr(text, '\0', length) == NULL) {
			memcpy(line, text, length);
			line[length] = '\0';
			wrong = parse_line(&parser, line);
		}
		if (wrong != NULL && told++ < TOLD_MOST)
			logit("%s line %d is ignored: %s", name, number, wrong);
	}
}

/* --------------------------------------------------------------------------------------- file */

/* A number after a word, in the first line of a file of the kernel. 0: there is none. */
static uint64_t
number_in(const char *file, const char *format)
{
	unsigned long long number = 0;
	FILE *f = fopen(file, "re");

	if (f == NULL)
		return 0;
	if (fscanf(f, format, &number) != 1)
		number = 0;
	fclose(f);
	return number;
}

/* The host's, or the container's, if that has less. */
static uint64_t
memory_of_host(void)
{
	uint64_t host = number_in("/proc/meminfo", "MemTotal: %llu") * 1024;
	uint64_t container = number_in("/sys/fs/cgroup/memory.max", "%llu");

	return container > 0 && container < host ? container : host;
}

static const char *
read_file(const char *name, char *text, size_t *bytes)
{
	struct stat st;
	const char *wrong = NULL;
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*bytes = 0;
	if (fd == -1)
		return errno == ENOENT ? NULL : strerror(errno);
	if (fstat(fd, &st) == -1)
		wrong = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		wrong = "it is no plain file";
	else if ((st.st_uid != 0 && st.st_uid != geteuid()) ||
	    (st.st_mode & 022) != 0)
		wrong = "others than root can write it";
	else if ((*bytes = atomicio(read, fd, text, FILE_BYTES)) == FILE_BYTES) {
		wrong = "it is too large";
		*bytes = 0;
	}
	close(fd);
	return wrong;
}

void
autobuf_sshd_read(struct autobuf_sshd_config *settings, const char *name)
{
	char text[FILE_BYTES];
	size_t bytes;
	const char *wrong = read_file(name, text, &bytes);

	if (wrong != NULL)
		logit("%s is ignored: %s", name, wrong);
	autobuf_sshd_parse(settings, name, text, bytes, memory_of_host());
}
