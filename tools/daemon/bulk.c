/* SPDX-License-Identifier: MIT */
#include "bulk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/bpf.h>

#define MASK (BULK_EVENTS_BYTES - 1)

_Static_assert((BULK_EVENTS_BYTES & MASK) == 0, "the kernel takes a power of two");

/*
 * A BPF ring buffer: the place up to which it was read, which the kernel reads; behind it, in memory that only the
 * kernel writes to, the place up to which it is written, and, from the next page on, the records, twice in a row, so
 * that none is ever cut.
 */
struct bulk {
    int fd;
    size_t page_bytes;
    uint64_t *taken;
    const uint64_t *told;
    const uint8_t *records;
};

static size_t told_bytes(const struct bulk *bulk)
{
    return bulk->page_bytes + (size_t)2 * BULK_EVENTS_BYTES;
}

struct bulk *bulk_open(struct broker_maps *maps)
{
    struct bulk *bulk = maps->ready ? malloc(sizeof *bulk) : NULL;
    const uint8_t *told;

    if (!bulk)
        return NULL;
    *bulk = (struct bulk){.fd = maps->fds[BROKER_EVENTS], .page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
    bulk->taken = mmap(NULL, bulk->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bulk->fd, 0);
    told = mmap(NULL, told_bytes(bulk), PROT_READ, MAP_SHARED, bulk->fd, (off_t)bulk->page_bytes);
    bulk->told = (const void *)told;
    bulk->records = told + bulk->page_bytes;
    if (bulk->taken != MAP_FAILED && told != MAP_FAILED)
        return bulk;
    snprintf(maps->why, sizeof maps->why, "its events: %s", strerror(errno));
    bulk_close(bulk);
    return NULL;
}

int bulk_fd(const struct bulk *bulk)
{
    return bulk ? bulk->fd : -1;
}

static struct endpoint endpoint_of(const struct withhold_end *end)
{
    struct endpoint to = {.version = end->version, .port = (uint16_t)end->port};

    memcpy(to.address, end->address, end->version == 4 ? 4 : sizeof to.address);
    return to;
}

static struct seen seen_of(const struct bulk_event *event)
{
    return (struct seen){.who = {.local = endpoint_of(&event->local), .remote = endpoint_of(&event->remote),
                                 .user = event->user},
                         .cookie = event->cookie, .moved_bytes = event->moved_bytes, .inode = event->inode,
                         .snd_buf_bytes = event->snd_buf_bytes, .rcv_buf_bytes = event->rcv_buf_bytes};
}

bool bulk_read(struct bulk *bulk, size_t most, sweep_fn *take, void *user)
{
    uint64_t told = bulk ? __atomic_load_n(bulk->told, __ATOMIC_ACQUIRE) : 0, taken = bulk ? *bulk->taken : 0;
    bool readable = taken != told;

    for (size_t count = 0; taken != told && count < most; count++) {
        const uint8_t *record = bulk->records + (taken & MASK);
        uint32_t head = __atomic_load_n((const uint32_t *)(const void *)record, __ATOMIC_ACQUIRE);
        uint32_t bytes = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
        struct bulk_event event;
        struct seen seen;

        if (head & BPF_RINGBUF_BUSY_BIT)
            break;
        if (!(head & BPF_RINGBUF_DISCARD_BIT) && bytes == sizeof event) {
            memcpy(&event, record + BPF_RINGBUF_HDR_SZ, sizeof event);
            seen = seen_of(&event);
            take(user, &seen);
        }
        taken += (BPF_RINGBUF_HDR_SZ + bytes + 7) & ~7ULL;
        __atomic_store_n(bulk->taken, taken, __ATOMIC_RELEASE);
    }
    return readable;
}

void bulk_close(struct bulk *bulk)
{
    if (!bulk)
        return;
    if (bulk->taken != MAP_FAILED)
        munmap(bulk->taken, bulk->page_bytes);
    if ((const void *)bulk->told != MAP_FAILED)
        munmap((void *)(uintptr_t)bulk->told, told_bytes(bulk));
    close(bulk->fd);
    free(bulk);
}
