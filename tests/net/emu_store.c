#include "emu_store.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static struct emu_packet *at(struct emu_store *s, uint32_t slot)
{
    return (struct emu_packet *)(void *)(s->memory + slot * s->slot_bytes);
}

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

int emu_store_init(struct emu_store *s, size_t memory_bytes, size_t packet_bytes)
{
    memset(s, 0, sizeof(*s));
    s->slot_bytes = (offsetof(struct emu_packet, data) + packet_bytes + 63) & ~(size_t)63;
    if (memory_bytes / s->slot_bytes < 2 || memory_bytes / s->slot_bytes >= EMU_STORE_NONE)
        return -EINVAL;
    s->slots = (uint32_t)(memory_bytes / s->slot_bytes);
    s->memory_bytes = memory_bytes;
    s->free = s->head = s->tail = EMU_STORE_NONE;
    s->memory = reserve(memory_bytes);
    s->heap = reserve(s->slots * sizeof(*s->heap));
    if (!s->memory || !s->heap) {
        emu_store_free(s);
        return -ENOMEM;
    }
    return 0;
}

void emu_store_free(struct emu_store *s)
{
    if (s->memory)
        munmap(s->memory, s->memory_bytes);
    if (s->heap)
        munmap(s->heap, s->slots * sizeof(*s->heap));
    memset(s, 0, sizeof(*s));
}

/* The slot freed last is used first: memory and cache hold what is on its way, not more. */
struct emu_packet *emu_store_slot(struct emu_store *s)
{
    if (s->free == EMU_STORE_NONE) {
        if (s->untouched == s->slots)
            return NULL;
        at(s, s->untouched)->next = EMU_STORE_NONE;
        s->free = s->untouched++;
    }
    return at(s, s->free);
}

static uint64_t heap_key(struct emu_store *s, uint32_t i)
{
    return at(s, s->heap[i])->deliver_ns;
}

static void heap_swap(struct emu_store *s, uint32_t i, uint32_t j)
{
    uint32_t slot = s->heap[i];

    s->heap[i] = s->heap[j];
    s->heap[j] = slot;
}

static void heap_up(struct emu_store *s, uint32_t i)
{
    while (i > 0 && heap_key(s, i) < heap_key(s, (i - 1) / 2)) {
        heap_swap(s, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void heap_down(struct emu_store *s, uint32_t i)
{
    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= s->heap_count)
            return;
        if (child + 1 < s->heap_count && heap_key(s, child + 1) < heap_key(s, child))
            child++;
        if (heap_key(s, i) <= heap_key(s, child))
            return;
        heap_swap(s, i, child);
        i = child;
    }
}

void emu_store_add(struct emu_store *s, uint64_t depart_ns, uint64_t deliver_ns, uint32_t len_bytes,
                   int held)
{
    uint32_t slot = s->free;
    struct emu_packet *p = at(s, slot);

    s->free = p->next;
    p->depart_ns = depart_ns;
    p->deliver_ns = deliver_ns;
    p->len_bytes = len_bytes;
    p->next = EMU_STORE_NONE;
    if (held) {
        s->heap[s->heap_count] = slot;
        heap_up(s, s->heap_count++);
        return;
    }
    if (s->head == EMU_STORE_NONE) {
        s->head = slot;
    } else {
        struct emu_packet *tail = at(s, s->tail);

        if (p->deliver_ns < tail->deliver_ns)
            p->deliver_ns = tail->deliver_ns;
        tail->next = slot;
    }
    s->tail = slot;
}

static int heap_is_first(struct emu_store *s)
{
    if (s->heap_count == 0)
        return 0;
    return s->head == EMU_STORE_NONE || heap_key(s, 0) < at(s, s->head)->deliver_ns;
}

struct emu_packet *emu_store_first(struct emu_store *s)
{
    if (heap_is_first(s))
        return at(s, s->heap[0]);
    return s->head == EMU_STORE_NONE ? NULL : at(s, s->head);
}

void emu_store_pop(struct emu_store *s)
{
    uint32_t slot;

    if (heap_is_first(s)) {
        slot = s->heap[0];
        s->heap[0] = s->heap[--s->heap_count];
        heap_down(s, 0);
    } else {
        slot = s->head;
        s->head = at(s, slot)->next;
    }
    at(s, slot)->next = s->free;
    s->free = slot;
}

static void move(struct emu_packet *p, uint64_t depart_ns)
{
    p->deliver_ns = depart_ns + (p->deliver_ns - p->depart_ns);
    p->depart_ns = depart_ns;
}

void emu_store_retime(struct emu_store *s, uint64_t (*retime)(const void *arg, uint64_t depart_ns),
                      const void *arg)
{
    uint64_t last_ns = 0;
    uint32_t i;

    for (i = s->head; i != EMU_STORE_NONE; i = at(s, i)->next) {
        struct emu_packet *p = at(s, i);

        move(p, retime(arg, p->depart_ns));
        if (p->deliver_ns < last_ns)
            p->deliver_ns = last_ns;
        last_ns = p->deliver_ns;
    }
    for (i = 0; i < s->heap_count; i++)
        move(at(s, s->heap[i]), retime(arg, at(s, s->heap[i])->depart_ns));
    for (i = s->heap_count / 2; i-- > 0;)
        heap_down(s, i);
}
