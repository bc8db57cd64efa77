/* SPDX-License-Identifier: MIT */
/* How much memory all processes of a host may take together. */
#include "includes.h"

#include <sys/types.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "autobuf-host.h"
#include "defines.h"
#include "misc.h"

#define UNIT AUTOBUF_HOST_UNIT_BYTES
#define UNITS_MOST (1 << 20) /* 4 TB */

/*
 * How many units of others are met before a process gives up for a while. Each has a pause of its own, so that a
 * thousand connections that want more, while all is taken, cost some per cent of a processor.
 */
#define TRIES 64
#define TRIES_IN_A_ROW 8
#define AGAIN_NS 1000000000ULL
#define AGAIN_MOST_NS (16 * AGAIN_NS)

struct autobuf_host {
	int fd;
	u_int units;   /* that there are */
	u_int held;    /* that we have */
	u_int next;    /* where to try next */
	uint64_t again_ns; /* if that failed: not before */
	uint64_t pause_ns;
	u_char mine[]; /* a bit for each unit */
};

static int
is_mine(const struct autobuf_host *host, u_int unit)
{
	return host->mine[unit / 8] >> unit % 8 & 1;
}

static struct flock
range_of(u_int unit, short type)
{
	struct flock range;

	memset(&range, 0, sizeof range);
	range.l_type = type;
	range.l_whence = SEEK_SET;
	range.l_start = unit;
	range.l_len = 1;
	return range;
}

/* type: F_WRLCK or F_UNLCK. Returns whether it could be done. */
static int
lock(struct autobuf_host *host, u_int unit, short type)
{
	struct flock range = range_of(unit, type);

	if (fcntl(host->fd, F_SETLK, &range) == -1)
		return 0;
	host->mine[unit / 8] ^= 1 << unit % 8;
	host->held += type == F_WRLCK ? 1 : -1;
	return 1;
}

static int
open_file(const char *file)
{
	struct stat st;
	int fd = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC |
	    O_NONBLOCK | O_NOCTTY, 0600);

	if (fd == -1)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	    st.st_uid == geteuid() && (st.st_mode & 077) == 0)
		return fd;
	close(fd);
	return -EPERM;
}

int
autobuf_host_open(struct autobuf_host **out, const char *file,
    uint64_t most_bytes)
{
	struct autobuf_host *host;
	uint64_t units = MINIMUM(most_bytes / UNIT, UNITS_MOST);
	int fd = open_file(file);

	if (fd < 0)
		return fd;
	if ((host = calloc(1, sizeof *host + units / 8 + 1)) == NULL) {
		close(fd);
		return -ENOMEM;
	}
	host->fd = fd;
	host->units = (u_int)units;
	host->next = units > 0 ? arc4random_uniform(host->units) : 0;
	host->pause_ns = AGAIN_NS;
	*out = host;
	return 0;
}

/* The first unit behind those of the process that has this one. */
static u_int
behind(const struct autobuf_host *host, u_int unit)
{
	struct flock range = range_of(unit, F_WRLCK);
	uint64_t end = (uint64_t)unit + 1;

	if (fcntl(host->fd, F_GETLK, &range) == 0 && range.l_type != F_UNLCK)
		end = (uint64_t)range.l_start + (uint64_t)range.l_len;
	return end > unit && end < host->units ? (u_int)end : 0;
}

/*
 * A process begins anywhere and goes on from there, so that its units lie side by side and are one lock for the
 * kernel. So one query tells how many units of another process to pass over. After some of them it begins elsewhere; a
 * small file is tried whole.
 */
static void
take(struct autobuf_host *host, u_int wanted, uint64_t now)
{
	u_int tries = TRIES;

	while (host->held < wanted && tries > 0) {
		u_int unit = host->next;

		host->next = (unit + 1) % host->units;
		if (!is_mine(host, unit) && !lock(host, unit, F_WRLCK)) {
			tries--;
			host->next = behind(host, unit);
			if (host->units > TRIES && tries % TRIES_IN_A_ROW == 0)
				host->next = arc4random_uniform(host->units);
		}
	}
	if (host->held >= wanted) {
		host->pause_ns = AGAIN_NS;
		return;
	}
	host->again_ns = now + host->pause_ns;
	host->pause_ns = MINIMUM(2 * host->pause_ns, AGAIN_MOST_NS);
}

uint64_t
autobuf_host_have(struct autobuf_host *host, uint64_t wanted_bytes,
    uint64_t now)
{
	uint64_t wanted = wanted_bytes / UNIT + (wanted_bytes % UNIT != 0);

	if (wanted > host->held && host->held < host->units &&
	    now >= host->again_ns)
		take(host, (u_int)MINIMUM(wanted, host->units), now);
	return (uint64_t)host->held * UNIT;
}

void
autobuf_host_keep(struct autobuf_host *host, uint64_t needed_bytes)
{
	uint64_t needed = needed_bytes / UNIT + (needed_bytes % UNIT != 0);
	u_int unit;

	if (host->held <= needed + 1)
		return;
	for (unit = 0; unit < host->units && host->held > needed; unit++)
		if (is_mine(host, unit) && !lock(host, unit, F_UNLCK))
			return;
}

void
autobuf_host_close(struct autobuf_host *host)
{
	if (host == NULL)
		return;
	close(host->fd);
	free(host);
}
