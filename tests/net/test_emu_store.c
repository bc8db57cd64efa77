#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "emu_store.h"

/* A packet is known by its length here. */
static void add(struct emu_store *s, uint32_t id, uint64_t deliver_ns, int held)
{
    assert_non_null(emu_store_slot(s));
    emu_store_add(s, deliver_ns, deliver_ns, id, held);
}

static void expect(struct emu_store *s, uint32_t id, uint64_t deliver_ns)
{
    struct emu_packet *p = emu_store_first(s);

    assert_non_null(p);
    assert_int_equal(p->len_bytes, id);
    assert_int_equal(p->deliver_ns, deliver_ns);
    emu_store_pop(s);
}

static void test_held_packets_are_overtaken(void **state)
{
    struct emu_store s;

    (void)state;
    assert_int_equal(emu_store_init(&s, 100000, 1500), 0);
    assert_null(emu_store_first(&s));
    add(&s, 1, 10, 0);
    add(&s, 2, 90, 1);
    add(&s, 3, 20, 0);
    add(&s, 4, 25, 1);
    add(&s, 5, 30, 0);
    add(&s, 6, 50, 1);
    add(&s, 7, 29, 0); /* not held: comes no earlier than the one before */
    expect(&s, 1, 10);
    expect(&s, 3, 20);
    expect(&s, 4, 25);
    expect(&s, 5, 30);
    expect(&s, 7, 30);
    expect(&s, 6, 50);
    expect(&s, 2, 90);
    assert_null(emu_store_first(&s));
    emu_store_free(&s);
}

static void test_full_then_used_again(void **state)
{
    struct emu_store s;
    uint32_t i, n = 0;
    uint32_t slots;

    (void)state;
    assert_int_equal(emu_store_init(&s, 10000, 1500), 0);
    while (emu_store_slot(&s))
        add(&s, n++, 1, 0);
    slots = n;
    assert_int_equal(slots, s.slots);
    for (i = 0; i < 3 * slots; i++) {
        expect(&s, i, 1 + i / slots);
        add(&s, n, 1 + n / slots, 0);
        n++;
        assert_null(emu_store_slot(&s));
    }
    emu_store_free(&s);
    assert_int_equal(emu_store_init(&s, 1000, 1500), -EINVAL);
}

static uint64_t halve_after_100(const void *arg, uint64_t depart_ns)
{
    (void)arg;
    return depart_ns > 100 ? 100 + (depart_ns - 100) / 2 : depart_ns;
}

static void test_retime(void **state)
{
    struct emu_store s;

    (void)state;
    assert_int_equal(emu_store_init(&s, 100000, 1500), 0);
    assert_non_null(emu_store_slot(&s));
    emu_store_add(&s, 50, 150, 1, 0);
    assert_non_null(emu_store_slot(&s));
    emu_store_add(&s, 120, 320, 2, 0);
    assert_non_null(emu_store_slot(&s));
    emu_store_add(&s, 200, 330, 3, 0);
    assert_non_null(emu_store_slot(&s));
    emu_store_add(&s, 300, 340, 4, 1);
    emu_store_retime(&s, halve_after_100, NULL);
    expect(&s, 1, 150);
    expect(&s, 4, 240);
    expect(&s, 2, 310);
    expect(&s, 3, 310); /* would be 280: the order is kept */
    emu_store_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_packets_are_overtaken),
        cmocka_unit_test(test_full_then_used_again),
        cmocka_unit_test(test_retime),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
