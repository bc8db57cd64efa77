/* SPDX-License-Identifier: MIT */
/* Arrays that grow, and those in the order of a key. */
#ifndef ARRAY_H
#define ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room in the array at *array for one more element of so many bytes. false: there is no memory. */
static inline bool array_grow(void *array, size_t count, size_t *room, size_t bytes)
{
    size_t wanted = *room ? 2 * *room : 64;
    void *now, *more;

    if (count < *room)
        return true;
    memcpy(&now, array, sizeof now);
    more = reallocarray(now, wanted, bytes);
    if (!more)
        return false;
    memcpy(array, &more, sizeof more);
    *room = wanted;
    return true;
}

/* Where the element with this key is, or belongs. Each begins with its key, of 64 bits. */
static inline size_t array_place(const void *elements, size_t count, size_t bytes, uint64_t key)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t here;

        memcpy(&here, (const char *)elements + middle * bytes, sizeof here);
        if (here < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* For qsort(3), of uint64_t. */
static inline int array_by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

#endif
