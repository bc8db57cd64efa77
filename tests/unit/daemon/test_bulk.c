/* SPDX-License-Identifier: MIT */
/* tools/daemon/bulk.c: when a connection moves bulk data, and what the kernel tells of it, here by a file. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/bpf.h>

#include "daemon/bulk.h"

#define NS_PER_MS 1000000ULL

/* Looks at a connection of a steady rate. The number of the look that finds it bulk; 0: none of a thousand. */
static unsigned found_by(uint64_t byte_per_s, uint64_t between_ms)
{
    struct bulk_mark mark = {0};

    for (unsigned sample = 1; sample <= 1000; sample++)
        if (bulk_since(&mark, sample * between_ms * byte_per_s / 1000, sample * between_ms * NS_PER_MS))
            return sample;
    return 0;
}

/* At full speed by the second look, of which the first set the mark, also where looks are rare. */
static void a_rate_is_found_however_rare_looks_are(void **state)
{
    static const uint64_t between_ms[] = {10, 100, 900, 1100, 1500, 3000, 10000, 600000};

    (void)state;
    for (size_t i = 0; i < sizeof between_ms / sizeof *between_ms; i++) {
        assert_int_equal(found_by(50000000, between_ms[i]), 1);
        assert_int_equal(found_by(700000, between_ms[i]), between_ms[i] < 100 ? 10 : 1);
        assert_int_equal(found_by(30000, between_ms[i]), 0);
        assert_int_equal(found_by(1, between_ms[i]), 0);
    }
}

/* One that was slow for long is found as soon as it is fast. */
static void the_past_does_not_count(void **state)
{
    struct bulk_mark mark = {0};
    uint64_t ns = 0, bytes = 1000000;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        ns += 2000 * NS_PER_MS;
        bytes += 1000;
        assert_int_equal(bulk_since(&mark, bytes, ns), i == 0); /* what it had moved before */
    }
    assert_true(bulk_since(&mark, bytes + 200000, ns + 2000 * NS_PER_MS));
}

static void bounds_of_bulk(void **state)
{
    struct bulk_mark mark = {0};

    (void)state;
    assert_true(bulk_since(&mark, 65536, 0)); /* younger than a look */
    assert_false(bulk_since(&mark, 65536 + 65535, 0));
    assert_true(bulk_since(&mark, 65536 + 65536, 1000 * NS_PER_MS));
    assert_false(bulk_since(&mark, 3 * 65536, 2002 * NS_PER_MS));
    assert_false(bulk_since(&mark, 1000, 2100 * NS_PER_MS)); /* the socket was connected once more */
    assert_true(bulk_since(&mark, 66536, 2200 * NS_PER_MS));
    assert_true(bulk_since(&mark, UINT64_MAX, UINT64_MAX));
}

/* ------------------------------------------------------------------------------ the ring */

#define RECORD_BYTES (BPF_RINGBUF_HDR_SZ + (sizeof(struct bulk_event) + 7) / 8 * 8)

/* What the kernel writes, and where the daemon has read to. */
static struct {
    struct bulk *bulk;
    uint64_t *taken, *told;
    uint8_t *records;
    size_t bytes;
    int fd;
} ring;

static int open_ring(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct broker_maps maps = {.ready = true};
    uint8_t *memory;

    (void)state;
    ring.bytes = 2 * page + (size_t)2 * BULK_EVENTS_BYTES;
    ring.fd = memfd_create("ring", 0);
    if (ring.fd < 0 || ftruncate(ring.fd, (off_t)ring.bytes) < 0)
        return -1;
    memory = mmap(NULL, ring.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, 0);
    maps.fds[BROKER_EVENTS] = dup(ring.fd);
    ring.bulk = bulk_open(&maps);
    if (memory == MAP_FAILED || !ring.bulk)
        return -1;
    ring.taken = (void *)memory;
    ring.told = (void *)(memory + page);
    ring.records = memory + 2 * page;
    return 0;
}

static int close_ring(void **state)
{
    (void)state;
    bulk_close(ring.bulk);
    munmap(ring.taken, ring.bytes);
    return close(ring.fd);
}

/* A record of that kind, which tells of this cookie. */
static void tell(uint32_t head, uint64_t cookie)
{
    struct bulk_event event = {.cookie = cookie, .moved_bytes = 70000, .local = {.version = 4, .port = 22},
                               .remote = {.address = {0xa, 0xb, 0xc, 0xd}, .version = 6, .port = 50000},
                               .inode = 7, .user = 1000, .snd_buf_bytes = 1, .rcv_buf_bytes = 2};
    uint8_t *record = ring.records + *ring.told % BULK_EVENTS_BYTES;
    uint32_t bytes = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

    memcpy(event.local.address, "\300\000\002\001", 4);
    memcpy(record, &head, sizeof head);
    memcpy(record + BPF_RINGBUF_HDR_SZ, &event, bytes < sizeof event ? bytes : sizeof event);
    *ring.told += BPF_RINGBUF_HDR_SZ + (bytes + 7) / 8 * 8;
}

static void check(void *user, const struct seen *seen)
{
    static const uint8_t local[] = {192, 0, 2, 1};
    uint64_t *next = user;

    assert_int_equal(seen->cookie, (*next)++);
    assert_int_equal(seen->moved_bytes, 70000);
    assert_int_equal(seen->who.local.version, 4);
    assert_memory_equal(seen->who.local.address, local, sizeof local);
    assert_int_equal(seen->who.local.port, 22);
    assert_int_equal(seen->who.remote.version, 6);
    assert_memory_equal(seen->who.remote.address, ((uint32_t[]){0xa, 0xb, 0xc, 0xd}), 16);
    assert_int_equal(seen->who.remote.port, 50000);
    assert_int_equal(seen->who.user, 1000);
    assert_null(seen->who.program);
    assert_int_equal(seen->inode, 7);
    assert_int_equal(seen->snd_buf_bytes, 1);
    assert_int_equal(seen->rcv_buf_bytes, 2);
    assert_false(seen->half_closed);
}

static void each_is_told_once(void **state)
{
    uint64_t next = 1;

    (void)state;
    assert_false(bulk_read(ring.bulk, 9, check, &next));
    for (uint64_t cookie = 1; cookie <= 5; cookie++)
        tell(sizeof(struct bulk_event), cookie);
    assert_true(bulk_read(ring.bulk, 3, check, &next));
    assert_int_equal(*ring.taken, 3 * RECORD_BYTES);
    assert_int_equal(next, 4);
    assert_true(bulk_read(ring.bulk, 9, check, &next));
    assert_false(bulk_read(ring.bulk, 9, check, &next));
    assert_int_equal(next, 6);
}

/* In the memory that is there twice, so that no record is cut. */
static void beyond_the_end(void **state)
{
    uint64_t next = 1;

    (void)state;
    for (uint64_t cookie = 1; cookie <= 3ULL * BULK_EVENTS_BYTES / RECORD_BYTES; cookie++) {
        tell(sizeof(struct bulk_event), cookie);
        assert_true(bulk_read(ring.bulk, 9, check, &next));
        assert_int_equal(*ring.taken, *ring.told);
        assert_int_equal(next, cookie + 1);
    }
}

static void what_is_no_event_is_passed_over(void **state)
{
    uint64_t next = 1;

    (void)state;
    tell(sizeof(struct bulk_event) | BPF_RINGBUF_DISCARD_BIT, 9);
    tell(sizeof(struct bulk_event) - 8, 9);
    tell(3, 9);
    tell(sizeof(struct bulk_event), 1);
    assert_true(bulk_read(ring.bulk, 9, check, &next));
    assert_int_equal(next, 2);
    assert_int_equal(*ring.taken, *ring.told);
}

/* It waits for one that is being written, though later ones are there. */
static void one_that_is_being_written(void **state)
{
    uint32_t head = sizeof(struct bulk_event);
    uint64_t next = 1;

    (void)state;
    tell(head | BPF_RINGBUF_BUSY_BIT, 1);
    tell(head, 2);
    assert_true(bulk_read(ring.bulk, 9, check, &next));
    assert_int_equal(*ring.taken, 0);
    memcpy(ring.records, &head, sizeof head);
    assert_true(bulk_read(ring.bulk, 9, check, &next));
    assert_int_equal(next, 3);
}

static void where_nothing_is_loaded(void **state)
{
    struct broker_maps maps = {.ready = false}, closed = {.ready = true, .fds = {-1, -1, -1}};

    (void)state;
    assert_null(bulk_open(&maps));
    assert_null(bulk_open(&closed));
    assert_non_null(strstr(closed.why, "its events: "));
    assert_int_equal(bulk_fd(NULL), -1);
    assert_false(bulk_read(NULL, 1, check, NULL));
    bulk_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_found_however_rare_looks_are),
        cmocka_unit_test(the_past_does_not_count),
        cmocka_unit_test(bounds_of_bulk),
        cmocka_unit_test_setup_teardown(each_is_told_once, open_ring, close_ring),
        cmocka_unit_test_setup_teardown(beyond_the_end, open_ring, close_ring),
        cmocka_unit_test_setup_teardown(what_is_no_event_is_passed_over, open_ring, close_ring),
        cmocka_unit_test_setup_teardown(one_that_is_being_written, open_ring, close_ring),
        cmocka_unit_test(where_nothing_is_loaded),
    };

    return cmocka_run_group_tests_name("bulk", tests, NULL, NULL);
}
