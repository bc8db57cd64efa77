/* SPDX-License-Identifier: MIT */
/*
 * What patched sshbufs cost, counted: for test_openssh.py, which links it with a built tree. Prints a line
 * for each case: its name, how often the memory changed, how many bytes were moved within it or to other
 * memory for each byte that was appended or consumed (rounded up), the most memory beyond the data, in
 * percent, and the memory at the end.
 */
#include "includes.h"

#include <sys/types.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SSHBUF_INTERNAL
#include "sshbuf.h"

#define PIECE 32768U
#define MB (1024U * 1024U)

struct count {
	struct sshbuf *buf;
	size_t fit; /* 0: the buffer is not told */
	uint64_t in, out, moved;
	unsigned changes;
	size_t most_over; /* of the memory, in percent of the data, where that is a MB or more */
};

static void
need(int ok, const char *what)
{
	if (!ok) {
		printf("failed: %s\n", what);
		exit(1);
	}
}

/* Byte number at of what goes through the buffer. */
static u_char
byte_at(uint64_t at)
{
	return (u_char)((at * 0x9e3779b97f4a7c15ULL) >> 56);
}

/* The data moved if it does not begin where it has to. */
static void
sample(struct count *c, const u_char *expected, size_t alloc, size_t len)
{
	if (sshbuf_ptr(c->buf) != expected)
		c->moved += len;
	c->changes += sshbuf_alloc(c->buf) != alloc;
	need(c->changes < 500, "the memory changes with each piece");
	len = sshbuf_len(c->buf);
	if (len >= MB) {
		size_t over = (size_t)((uint64_t)sshbuf_alloc(c->buf) * 100 / len);

		c->most_over = over > c->most_over ? over : c->most_over;
	}
}

static void
append(struct count *c, size_t size)
{
	const u_char *before = sshbuf_ptr(c->buf);
	size_t alloc = sshbuf_alloc(c->buf), len = sshbuf_len(c->buf);
	u_char *p;

	need(sshbuf_reserve(c->buf, size, &p) == 0, "append");
	for (size_t i = 0; i < size; i++)
		p[i] = byte_at(c->in + i);
	c->in += size;
	sample(c, before, alloc, len);
}

static void
consume(struct count *c, size_t size)
{
	const u_char *before = sshbuf_ptr(c->buf);
	size_t alloc = sshbuf_alloc(c->buf), len = sshbuf_len(c->buf);

	for (size_t i = 0; i < size; i++)
		need(before[i] == byte_at(c->out + i), "the data are not those that went in");
	need(sshbuf_consume(c->buf, size) == 0, "consume");
	need(sshbuf_alloc(c->buf) == alloc, "consume gives memory back, into which others may point");
	c->out += size;
	if (c->fit)
		need(sshbuf_fit(c->buf, c->fit) == sshbuf_alloc(c->buf), "sshbuf_fit() tells the memory");
	sample(c, len == size ? sshbuf_ptr(c->buf) : before + size, alloc, len - size);
}

static struct count
begin(size_t fit)
{
	struct count c = {.buf = sshbuf_new(), .fit = fit};

	need(c.buf != NULL, "sshbuf_new");
	if (fit)
		(void)sshbuf_fit(c.buf, fit);
	return c;
}

static void
end(struct count *c, const char *name)
{
	uint64_t bytes = c->in + c->out;

	printf("%s %u %llu %zu %zu\n", name, c->changes, (unsigned long long)((c->moved + bytes - 1) / bytes),
	    c->most_over, sshbuf_alloc(c->buf));
	sshbuf_free(c->buf);
}

static void
fill(struct count *c, size_t size)
{
	while (sshbuf_len(c->buf) + PIECE <= size)
		append(c, PIECE);
}

/* A reader that is always behind by as much. */
static void
lag(const char *name, size_t fit, size_t behind)
{
	struct count c = begin(fit);

	fill(&c, behind);
	for (unsigned i = 0; i < 4096; i++) {
		consume(&c, PIECE);
		append(&c, PIECE);
	}
	end(&c, name);
}

/* A reader that comes to an end; and then once more. */
static void
drain(const char *name, size_t fit, size_t size, size_t left)
{
	struct count c = begin(fit);

	for (int i = 0; i < 2; i++) {
		fill(&c, size);
		while (sshbuf_len(c.buf) > left)
			consume(&c, sshbuf_len(c.buf) - left < PIECE ? sshbuf_len(c.buf) - left : PIECE);
	}
	end(&c, name);
}

/* A reader that goes back and forth over the sizes at which memory is taken and given back. */
static void
saw(const char *name, size_t fit, size_t low, size_t high)
{
	struct count c = begin(fit);

	for (int i = 0; i < 20; i++) {
		fill(&c, high);
		while (sshbuf_len(c.buf) > low)
			consume(&c, PIECE);
	}
	end(&c, name);
}

int
main(void)
{
	struct count c = begin(0);

	fill(&c, SSHBUF_SIZE_MAX);
	end(&c, "to the top");
	c = begin(2 * MB);
	fill(&c, 2 * MB);
	end(&c, "a window as in stock");
	lag("all of a window as in stock behind", 2 * MB, 2 * MB);
	lag("62 MB behind", 0, 62 * MB);
	lag("all of a window behind", 64 * MB, 64 * MB);
	lag("all of the largest window behind", 96 * MB, 96 * MB);
	drain("drained", 96 * MB, 96 * MB, 0);
	drain("drained but for a byte", 96 * MB, 96 * MB, 1);
	saw("back and forth", 64 * MB, PIECE, 6 * MB);
	saw("back and forth at a quarter", 64 * MB, 15 * MB, 64 * MB);
	return 0;
}
