/* SPDX-License-Identifier: MIT */
/*
 * Memory for what the library allocates in this object. The program's malloc() cannot serve here: a signal handler may
 * write() while the program is inside malloc(), and some programs bring a malloc() of their own. These two names are
 * hidden, so only the library that is linked into this object uses them.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "places.h"
#include "pool.h"

#define SMALLEST_BITS 10U /* blocks of 1 KB, 2 KB, ... */
#define CLASSES 12U
#define CHUNK_BYTES 65536U

struct block {
    union {
        struct block *next; /* of the free ones */
        size_t class;
    };
    max_align_t data[];
};

static struct block *free_blocks[CLASSES];
static char *_Atomic chunk; /* CHUNK_BYTES of memory, the first chunk_used of which are in blocks */
static atomic_size_t chunk_used = CHUNK_BYTES;
static _Atomic uint8_t locked;

void run_pool_forked(void)
{
    spin_unlock(&locked); /* a thread of the parent may have held it; lists and chunk are always whole */
}

static size_t class_bytes(size_t class)
{
    return (size_t)1 << (SMALLEST_BITS + class);
}

/* A block that was not used before. The rest of a chunk is not touched, so it takes no memory. */
static struct block *fresh(size_t class)
{
    size_t each = class_bytes(class), whole = each > CHUNK_BYTES ? each : CHUNK_BYTES, used = chunk_used;
    char *start = chunk;

    if (each > CHUNK_BYTES || CHUNK_BYTES - used < each) {
        start = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED)
            return NULL;
        if (each > CHUNK_BYTES)
            return (struct block *)(void *)start;
        chunk_used = CHUNK_BYTES; /* a child that is forked now takes a chunk of its own */
        chunk = start;
        used = 0;
    }
    chunk_used = used + each;
    return (struct block *)(void *)(start + used);
}

static struct block *take(size_t class)
{
    struct block *block;

    spin_lock(&locked);
    block = free_blocks[class];
    if (block)
        free_blocks[class] = block->next;
    else
        block = fresh(class);
    spin_unlock(&locked);
    return block;
}

void *calloc(size_t count, size_t bytes)
{
    struct block *block = NULL;
    size_t class = 0;

    if (!bytes || count <= SIZE_MAX / bytes) {
        while (class < CLASSES && class_bytes(class) - sizeof *block < count * bytes)
            class++;
        block = class < CLASSES ? take(class) : NULL;
    }
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    block->class = class;
    return memset(block->data, 0, count * bytes);
}

void free(void *data)
{
    struct block *block = (struct block *)(void *)((char *)data - offsetof(struct block, data));
    size_t class;

    if (!data)
        return;
    class = block->class;
    spin_lock(&locked);
    block->next = free_blocks[class];
    free_blocks[class] = block;
    spin_unlock(&locked);
}
