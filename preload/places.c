/* SPDX-License-Identifier: MIT */
#include "places.h"

#include <sys/mman.h>

_Atomic(struct place *) run_pages[PAGES];
_Atomic bool places_share;

struct place *place_made(int fd)
{
    struct place *place = place_of(fd), *none = NULL;
    void *page;

    if (place || (unsigned)fd >= PLACES_MOST)
        return place;
    page = mmap(NULL, PLACES_A_PAGE * sizeof *place, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (!atomic_compare_exchange_strong(&run_pages[(unsigned)fd / PLACES_A_PAGE], &none, page))
        munmap(page, PLACES_A_PAGE * sizeof *place); /* another thread was first */
    return place_of(fd);
}

static bool is_other(const struct place *one, struct place *place)
{
    uint64_t cookie = atomic_load_explicit(&one->cookie, memory_order_relaxed);

    if (place == one || !cookie || atomic_load_explicit(&place->cookie, memory_order_relaxed) != cookie ||
        !spin_trylock(&place->locked))
        return false;
    if (atomic_load_explicit(&place->kind, memory_order_relaxed) == PLACE_TCP && place->generation == one->generation &&
        atomic_load_explicit(&place->cookie, memory_order_relaxed) == cookie)
        return true;
    spin_unlock(&place->locked);
    return false;
}

struct place *places_lock_other(const struct place *one)
{
    if (!atomic_load_explicit(&places_share, memory_order_relaxed))
        return NULL;
    for (unsigned i = 0; i < PAGES; i++) {
        struct place *page = atomic_load_explicit(&run_pages[i], memory_order_acquire);

        for (unsigned k = 0; page && k < PLACES_A_PAGE; k++)
            if (is_other(one, &page[k]))
                return &page[k];
    }
    return NULL;
}

void places_each(void (*call)(int fd, struct place *place))
{
    for (unsigned i = 0; i < PAGES; i++) {
        struct place *page = atomic_load_explicit(&run_pages[i], memory_order_acquire);

        for (unsigned k = 0; page && k < PLACES_A_PAGE; k++)
            if (atomic_load_explicit(&page[k].kind, memory_order_relaxed) == PLACE_TCP ||
                atomic_load_explicit(&page[k].locked, memory_order_relaxed))
                call((int)(i * PLACES_A_PAGE + k), &page[k]);
    }
}
