/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "preload/places.h"

static unsigned calls;
static int last;

static void count(int fd, struct place *place)
{
    assert_ptr_equal(place, place_of(fd));
    calls++;
    last = fd;
}

static void a_place_is_made_once(void **state)
{
    struct place *place;

    (void)state;
    assert_null(place_of(300));
    place = place_made(300);
    assert_non_null(place);
    assert_ptr_equal(place_made(300), place);
    assert_ptr_equal(place_of(300), place);
    assert_ptr_equal(place_of(301), place + 1);
    assert_int_equal(place->kind, PLACE_UNKNOWN);
    assert_null(place_of(255));
    assert_null(place_of(512));
}

static void numbers_out_of_range_have_none(void **state)
{
    (void)state;
    assert_null(place_of(-1));
    assert_null(place_made(-1));
    assert_null(place_made((int)PLACES_MOST));
    assert_null(place_made(INT32_MAX));
    assert_null(place_made(INT32_MIN));
    assert_non_null(place_made((int)PLACES_MOST - 1));
}

static void only_connections_are_gone_through(void **state)
{
    (void)state;
    calls = 0;
    places_each(count);
    assert_int_equal(calls, 0);
    atomic_store(&place_made(5)->kind, PLACE_OTHER);
    atomic_store(&place_made(700)->kind, PLACE_TCP);
    places_each(count);
    assert_int_equal(calls, 1);
    assert_int_equal(last, 700);
}

static void one_holds_it(void **state)
{
    struct place *place = place_made(9);

    (void)state;
    assert_true(spin_trylock(&place->locked));
    assert_false(spin_trylock(&place->locked));
    spin_unlock(&place->locked);
    spin_lock(&place->locked);
    assert_false(spin_trylock(&place->locked));
    spin_unlock(&place->locked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_made_once),
        cmocka_unit_test(numbers_out_of_range_have_none),
        cmocka_unit_test(only_connections_are_gone_through),
        cmocka_unit_test(one_holds_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
