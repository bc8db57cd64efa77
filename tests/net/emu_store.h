/*
 * Packets on their way: fixed slots in memory reserved once and touched only as needed. Nearly all
 * packets come out in the order in which they went in (a list); the few that are held back to be
 * overtaken are in a heap.
 */
#ifndef EMU_STORE_H
#define EMU_STORE_H

#include <stddef.h>
#include <stdint.h>

#define EMU_STORE_NONE UINT32_MAX

struct emu_packet {
    uint64_t depart_ns;
    uint64_t deliver_ns;
    uint32_t len_bytes;
    uint32_t next; /* in the list, or among the free slots */
    unsigned char data[];
};

struct emu_store {
    unsigned char *memory;
    size_t memory_bytes;
    size_t slot_bytes;
    uint32_t *heap;
    uint32_t heap_count;
    uint32_t slots;
    uint32_t untouched; /* slots from here on were never used */
    uint32_t free;
    uint32_t head;
    uint32_t tail;
};

/* Room for memory_bytes of packets of at most packet_bytes. Returns 0 or a negative errno. */
int emu_store_init(struct emu_store *s, size_t memory_bytes, size_t packet_bytes);
void emu_store_free(struct emu_store *s);

/* A slot to read the next packet into, or NULL when all are in use; the same one until added. */
struct emu_packet *emu_store_slot(struct emu_store *s);

/* Add the packet in the slot. Unless held, it comes out after all that were added before. */
void emu_store_add(struct emu_store *s, uint64_t depart_ns, uint64_t deliver_ns, uint32_t len_bytes,
                   int held);

/* The packet due first, or NULL; and away with it. */
struct emu_packet *emu_store_first(struct emu_store *s);
void emu_store_pop(struct emu_store *s);

/* Give each packet a new departure and move its delivery with it. */
void emu_store_retime(struct emu_store *s, uint64_t (*retime)(const void *arg, uint64_t depart_ns),
                      const void *arg);

#endif
