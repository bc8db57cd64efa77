/* SPDX-License-Identifier: MIT */
/* lib/paths/message.c: an entry as a message, and messages that are none. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "paths/record.h"

static struct autobuf_paths_entry sample(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("2001:db8::7", &e.remote), 0);
    e.method = AUTOBUF_METHOD_PASSIVE;
    e.flags = AUTOBUF_PATH_TX_AT_LEAST;
    e.rtt_min_ns = 40000000;
    e.tx_rate_bit_per_s = 400000000;
    e.learned_s = 1700000000;
    e.expires_s = 1700086400;
    return e;
}

static void it_comes_back_as_it_went_in(void **state)
{
    struct autobuf_paths_entry e = sample(), found = AUTOBUF_PATHS_ENTRY_INIT;
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES + 1] = {[AUTOBUF_PATHS_MESSAGE_BYTES] = 0x5a};

    (void)state;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, AUTOBUF_PATHS_MESSAGE_BYTES), AUTOBUF_PATHS_MESSAGE_BYTES);
    assert_int_equal(message[AUTOBUF_PATHS_MESSAGE_BYTES], 0x5a);
    assert_memory_equal(message, "AUTOBUFL\1\0\0\0\270\0\0\0", 16);
    assert_int_equal(ab_paths_entry_decode(message, AUTOBUF_PATHS_MESSAGE_BYTES, &found), 0);
    assert_memory_equal(&found, &e, sizeof e);
}

static void what_cannot_be_a_message(void **state)
{
    struct autobuf_paths_entry e = sample();
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];

    (void)state;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, AUTOBUF_PATHS_MESSAGE_BYTES - 1), -EINVAL);
    assert_int_equal(autobuf_paths_entry_encode(&e, NULL, AUTOBUF_PATHS_MESSAGE_BYTES), -EINVAL);
    assert_int_equal(autobuf_paths_entry_encode(NULL, message, AUTOBUF_PATHS_MESSAGE_BYTES), -EINVAL);
    e.remote.version = 0;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, AUTOBUF_PATHS_MESSAGE_BYTES), -EINVAL);
}

/* Each bit of it counts, and so does its length. */
static void what_is_none(void **state)
{
    struct autobuf_paths_entry e = sample(), found = AUTOBUF_PATHS_ENTRY_INIT;
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES + 1] = {0};

    (void)state;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), AUTOBUF_PATHS_MESSAGE_BYTES);
    for (uint32_t bytes = 0; bytes <= sizeof message; bytes++)
        assert_int_equal(ab_paths_entry_decode(message, bytes, &found),
                         bytes == AUTOBUF_PATHS_MESSAGE_BYTES ? 0 : AUTOBUF_E_DAMAGED);
    for (unsigned bit = 0; bit < 8 * (AUTOBUF_PATHS_MESSAGE_BYTES - 4); bit++) { /* the last four mean nothing yet */
        int wanted = bit / 8 >= 8 && bit / 8 < 12 ? AUTOBUF_E_NEWER : AUTOBUF_E_DAMAGED;

        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(ab_paths_entry_decode(message, AUTOBUF_PATHS_MESSAGE_BYTES, &found), wanted);
        message[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_as_it_went_in),
        cmocka_unit_test(what_cannot_be_a_message),
        cmocka_unit_test(what_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
