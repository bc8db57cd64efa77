/* SPDX-License-Identifier: MIT */
/*
 * What every fuzz target uses: its entry point, a check that ends the program, and numbers out of
 * the input. An input that is used up gives zeros.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Called by libFuzzer, or by replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct input {
    const uint8_t *data;
    size_t len;
};

static inline uint64_t take(struct input *in, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes && in->len > 0; i++, in->data++, in->len--)
        value |= (uint64_t)*in->data << 8 * i;
    return value;
}

/*
 * Any 64-bit number in 2, 3 or 9 bytes. Most are few bits, shifted, give or take 1: sizes and rates
 * of every magnitude, and the neighbours of the powers of two, which raw bytes would rarely hit.
 */
static inline uint64_t take_number(struct input *in)
{
    unsigned how = (unsigned)take(in, 1);

    if (how >= 192)
        return take(in, 8);
    if (how >= 128)
        return (take(in, 2) << how % 64) - 1;
    return (take(in, 1) << how % 64) + how / 64;
}

/*
 * A block of exactly len bytes, so that the address sanitizer sees any access beyond it. data: NULL
 * for zeros.
 */
static inline void *exact_copy(const void *data, size_t len)
{
    void *copy = calloc(1, len ? len : 1);

    CHECK(copy);
    if (data && len)
        memcpy(copy, data, len);
    return copy;
}

/* Makes a folder for a file, in memory if this host has a place there. template: 40 bytes. */
static inline void make_folder(char *template)
{
    strcpy(template, "/dev/shm/autobuf-fuzz.XXXXXX");
    if (mkdtemp(template))
        return;
    strcpy(template, "/tmp/autobuf-fuzz.XXXXXX");
    CHECK(mkdtemp(template));
}

#endif
