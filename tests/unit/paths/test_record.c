/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "paths/record.h"

static struct autobuf_paths_entry sample(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.0/24", &e.remote), 0);
    assert_int_equal(autobuf_prefix_parse("10.0.0.0/8", &e.local), 0);
    strcpy(e.device, "eth0");
    e.method = AUTOBUF_METHOD_ICMP;
    e.flags = 1;
    e.bottleneck = 3;
    e.samples = 77;
    e.packet_bytes = 1500;
    e.tx_unsure = 2;
    e.rx_unsure = 3;
    e.rtt_min_ns = 50000000;
    e.rtt_median_ns = 51000000;
    e.tx_rate_bit_per_s = 1000000000;
    e.tx_rate_low_bit_per_s = 900000000;
    e.tx_rate_high_bit_per_s = 1100000000;
    e.rx_rate_bit_per_s = 20000000;
    e.rx_rate_low_bit_per_s = 19000000;
    e.rx_rate_high_bit_per_s = 21000000;
    e.tx_bdp_bytes = 6250000;
    e.rx_bdp_bytes = 125000;
    e.learned_s = 1800000000;
    e.expires_s = 1800086400;
    return e;
}

/* The value that each description of CRC-32 gives. */
static void the_checksum_is_that_of_the_standard(void **state)
{
    (void)state;
    assert_int_equal(ab_crc32((const uint8_t *)"123456789", 9), 0xcbf43926);
    assert_int_equal(ab_crc32(NULL, 0), 0);
}

static void what_is_written_is_read(void **state)
{
    struct autobuf_paths_entry e = sample(), got;
    uint8_t bytes[AB_PATHS_RECORD_BYTES];

    (void)state;
    assert_int_equal(ab_paths_record_write(&e, bytes), 0);
    assert_int_equal(ab_paths_record_read(bytes, &got), 0);
    assert_memory_equal(&got, &e, sizeof e);
    e.local = (struct autobuf_prefix){.version = 0};
    e.device[0] = '\0';
    memset(e.device, 0, sizeof e.device);
    e.expires_s = UINT64_MAX;
    e.rtt_min_ns = AUTOBUF_NS_UNSET;
    assert_int_equal(ab_paths_record_write(&e, bytes), 0);
    assert_int_equal(ab_paths_record_read(bytes, &got), 0);
    assert_memory_equal(&got, &e, sizeof e);
}

/* Byte for byte as record.h says: stores are carried between machines. */
static void the_layout_is_that_of_the_page(void **state)
{
    static const uint8_t key[AB_PATHS_KEY_BYTES] = {
        4, 24, 192, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 246, 10, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'e', 't', 'h', '0'};
    static const uint8_t rate[8] = {0, 0xca, 0x9a, 0x3b, 0, 0, 0, 0};
    struct autobuf_paths_entry e = sample();
    uint8_t bytes[AB_PATHS_RECORD_BYTES];

    (void)state;
    assert_int_equal(ab_paths_record_write(&e, bytes), 0);
    assert_memory_equal(bytes, key, sizeof key);
    assert_int_equal(bytes[52], AUTOBUF_METHOD_ICMP);
    assert_int_equal(bytes[64], 77);
    assert_memory_equal(bytes + 96, rate, sizeof rate);
    assert_int_equal(bytes[160] | bytes[161] << 8 | bytes[162] << 16 | (int64_t)bytes[163] << 24, 1800000000);
}

static void no_changed_bit_goes_unseen(void **state)
{
    struct autobuf_paths_entry e = sample(), got;
    uint8_t bytes[AB_PATHS_RECORD_BYTES];
    struct ab_paths_head head = {.count = 0, .local = true, .lengths = {1, 2, 3}}, read;
    uint8_t header[AB_PATHS_HEADER_BYTES];

    (void)state;
    assert_int_equal(ab_paths_record_write(&e, bytes), 0);
    for (unsigned bit = 0; bit < 8 * 180; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(ab_paths_record_read(bytes, &got), AUTOBUF_E_DAMAGED);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    ab_paths_head_write(&head, header);
    assert_int_equal(ab_paths_head_read(header, sizeof header, &read), 0);
    assert_true(read.local);
    assert_memory_equal(read.lengths, head.lengths, sizeof head.lengths);
    for (unsigned bit = 0; bit < 8 * sizeof header; bit++) {
        header[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(ab_paths_head_read(header, sizeof header, &read), AUTOBUF_E_DAMAGED);
        header[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

static void seal(uint8_t *bytes, size_t at)
{
    uint32_t crc = ab_crc32(bytes, at);

    for (unsigned i = 0; i < 4; i++)
        bytes[at + i] = (uint8_t)(crc >> 8 * i);
}

/* With a checksum that fits, so that somebody wrote it that way. */
static void what_a_record_says_is_checked(void **state)
{
    static const struct {
        const char *name;
        unsigned at;
        uint8_t value;
    } rows[] = {
        {"another version of IP", 0, 5},     {"no version", 0, 0},           {"more bits than there are", 1, 33},
        {"bits behind the prefix", 5, 1},    {"IPv4 is shorter", 6, 1},      {"a device's mark", 18, 1},
        {"a mark of 2", 18, 2},              {"a longer local prefix", 19, 200}, {"its bits", 22, 1},
        {"a control character", 36, 7},      {"a slash", 37, '/'},           {"a name behind its end", 45, 'x'},
        {"a round trip of years", 87, 0x20}, {"a rate of 10^18", 103, 0x20}, {"a product", 151, 1},
        {"a packet of 4 GB", 71, 0xff},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_paths_entry e = sample(), got;
        uint8_t bytes[AB_PATHS_RECORD_BYTES];

        assert_int_equal(ab_paths_record_write(&e, bytes), 0);
        CHECK(rows[i].name, bytes[rows[i].at] != rows[i].value);
        bytes[rows[i].at] = rows[i].value;
        seal(bytes, 176);
        CHECK_EQUAL(rows[i].name, ab_paths_record_read(bytes, &got), AUTOBUF_E_DAMAGED);
    }
}

static void what_a_header_says_is_checked(void **state)
{
    static const struct {
        const char *name;
        unsigned at;
        uint8_t value;
        int expected;
    } rows[] = {
        {"a later version", 8, 2, AUTOBUF_E_NEWER},
        {"another header", 12, 64, AUTOBUF_E_DAMAGED},
        {"smaller records", 16, 16, AUTOBUF_E_DAMAGED},
        {"larger records, for which the file is too short", 16, 192, AUTOBUF_E_DAMAGED},
        {"huge records", 18, 1, AUTOBUF_E_DAMAGED},
        {"more records", 24, 2, AUTOBUF_E_DAMAGED},
        {"fewer records", 24, 0, AUTOBUF_E_DAMAGED},
        {"so many that their bytes wrap", 31, 0x40, AUTOBUF_E_DAMAGED},
        {"a flag of later", 20, 3, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_paths_head head = {.count = 1, .local = true}, read;
        uint8_t header[AB_PATHS_HEADER_BYTES];

        ab_paths_head_write(&head, header);
        CHECK(rows[i].name, header[rows[i].at] != rows[i].value);
        header[rows[i].at] = rows[i].value;
        seal(header, 124);
        CHECK_EQUAL(rows[i].name, ab_paths_head_read(header, AB_PATHS_HEADER_BYTES + AB_PATHS_RECORD_BYTES, &read),
                    rows[i].expected);
    }
}

static void the_order_is_that_of_the_keys(void **state)
{
    /* remote, local, device: each is before the next one. */
    static const char *const rows[][3] = {
        {"0.0.0.0/0", NULL, ""},        {"10.0.0.0/8", NULL, ""},
        {"192.0.2.0/24", NULL, "eth0"}, {"192.0.2.0/24", NULL, "eth1"},
        {"192.0.2.0/24", "10.0.0.1", ""}, {"192.0.2.0/24", "10.0.0.2", ""},
        {"192.0.2.0/24", "10.0.0.0/8", ""}, {"192.0.2.0/24", NULL, ""},
        {"198.51.100.0/24", NULL, ""},  {"192.0.2.1", NULL, ""},
        {"::/0", NULL, ""},             {"2001:db8::/32", NULL, ""},
    };
    struct autobuf_paths_entry entries[COUNT(rows)], none = AUTOBUF_PATHS_ENTRY_INIT;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        entries[i] = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
        assert_int_equal(autobuf_prefix_parse(rows[i][0], &entries[i].remote), 0);
        if (rows[i][1])
            assert_int_equal(autobuf_prefix_parse(rows[i][1], &entries[i].local), 0);
        strcpy(entries[i].device, rows[i][2]);
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t k = 0; k < COUNT(rows); k++) {
            int order = ab_paths_compare(&entries[i], &entries[k]);

            CHECK_EQUAL(rows[i][0], (order > 0) - (order < 0), (i > k) - (i < k));
        }
        CHECK(rows[i][0], ab_paths_compare(&entries[i], &none) < 0);
    }
}

static struct autobuf_paths_entry of_host(uint8_t last)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    e.remote = (struct autobuf_prefix){.version = 4, .bits = 32, .address = {192, 0, 2, last}};
    return e;
}

static void entries_have_an_order(void **state)
{
    struct autobuf_paths_entry one = of_host(1), two = of_host(2), none = of_host(1);

    (void)state;
    none.remote.version = 5;
    assert_true(ab_paths_compare(&one, &two) < 0);
    assert_true(ab_paths_compare(&two, &one) > 0);
    assert_int_equal(ab_paths_compare(&one, &one), 0);
    assert_true(ab_paths_compare(&two, &none) < 0); /* what is no entry comes last */
    assert_true(ab_paths_compare(&none, &two) > 0);
    assert_int_equal(ab_paths_check(&none), -EINVAL);
}

static void a_path_comes_back_as_it_went_in(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT, again = AUTOBUF_PATH_INIT;
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    uint8_t *bytes = (uint8_t *)&path;

    (void)state;
    for (size_t i = sizeof path.size; i < sizeof path; i++)
        bytes[i] = (uint8_t)i;
    path.cost_bytes = path.elapsed_ns = path.loss_permille = 0; /* of the measurement, not of the path */
    path.measured_ns = AUTOBUF_NS_UNSET;
    assert_int_equal(autobuf_paths_learn(&e, &path), 0);
    assert_int_equal(autobuf_paths_path(&e, &again), 0);
    assert_memory_equal(&again, &path, sizeof path);
    assert_int_equal(autobuf_paths_learn(NULL, &path), -EINVAL);
    assert_int_equal(autobuf_paths_path(&e, NULL), -EINVAL);
}

static struct autobuf_paths_entry in_message(void)
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
    struct autobuf_paths_entry e = in_message(), found = AUTOBUF_PATHS_ENTRY_INIT;
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
    struct autobuf_paths_entry e = in_message();
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
    struct autobuf_paths_entry e = in_message(), found = AUTOBUF_PATHS_ENTRY_INIT;
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
        cmocka_unit_test(entries_have_an_order),
        cmocka_unit_test(the_checksum_is_that_of_the_standard),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_layout_is_that_of_the_page),
        cmocka_unit_test(no_changed_bit_goes_unseen),
        cmocka_unit_test(what_a_record_says_is_checked),
        cmocka_unit_test(what_a_header_says_is_checked),
        cmocka_unit_test(the_order_is_that_of_the_keys),
        cmocka_unit_test(a_path_comes_back_as_it_went_in),
        cmocka_unit_test(it_comes_back_as_it_went_in),
        cmocka_unit_test(what_cannot_be_a_message),
        cmocka_unit_test(what_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
