/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <errno.h>
#include <string.h>

#define VERSION 1U
#define FLAG_LOCAL 1U
#define HEADER_CRC 124U
#define RECORD_CRC 176U
#define MESSAGE_HEAD_BYTES 16U

/* A record beyond these is damaged, whatever its checksum. */
#define RATE_MAX 1000000000000000ULL /* 1 Pbit/s */
#define RTT_MAX_NS (1000 * AB_NS_PER_S)
#define BDP_MAX_BYTES (1ULL << 40)

const uint8_t ab_paths_magic[8] = {'A', 'U', 'T', 'O', 'B', 'U', 'F', 'P'};

/* ------------------------------------------------------------------------------------ bytes */

static void put32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static void put64(uint8_t *to, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t get64(const uint8_t *from)
{
    return get32(from) | (uint64_t)get32(from + 4) << 32;
}

/* What four bits make of the checksum, with so many times four bits of zeros behind them. */
static const uint32_t crc_table[8][16] = {
    {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
     0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c},
    {0x00000000, 0x77073096, 0xee0e612c, 0x990951ba, 0x076dc419, 0x706af48f, 0xe963a535, 0x9e6495a3,
     0x0edb8832, 0x79dcb8a4, 0xe0d5e91e, 0x97d2d988, 0x09b64c2b, 0x7eb17cbd, 0xe7b82d07, 0x90bf1d91},
    {0x00000000, 0x4ac21251, 0x958424a2, 0xdf4636f3, 0xf0794f05, 0xbabb5d54, 0x65fd6ba7, 0x2f3f79f6,
     0x3b83984b, 0x71418a1a, 0xae07bce9, 0xe4c5aeb8, 0xcbfad74e, 0x8138c51f, 0x5e7ef3ec, 0x14bce1bd},
    {0x00000000, 0x191b3141, 0x32366282, 0x2b2d53c3, 0x646cc504, 0x7d77f445, 0x565aa786, 0x4f4196c7,
     0xc8d98a08, 0xd1c2bb49, 0xfaefe88a, 0xe3f4d9cb, 0xacb54f0c, 0xb5ae7e4d, 0x9e832d8e, 0x87981ccf},
    {0x00000000, 0x1c26a370, 0x384d46e0, 0x246be590, 0x709a8dc0, 0x6cbc2eb0, 0x48d7cb20, 0x54f16850,
     0xe1351b80, 0xfd13b8f0, 0xd9785d60, 0xc55efe10, 0x91af9640, 0x8d893530, 0xa9e2d0a0, 0xb5c473d0},
    {0x00000000, 0x01c26a37, 0x0384d46e, 0x0246be59, 0x0709a8dc, 0x06cbc2eb, 0x048d7cb2, 0x054f1685,
     0x0e1351b8, 0x0fd13b8f, 0x0d9785d6, 0x0c55efe1, 0x091af964, 0x08d89353, 0x0a9e2d0a, 0x0b5c473d},
    {0x00000000, 0x5019579f, 0xa032af3e, 0xf02bf8a1, 0x9b14583d, 0xcb0d0fa2, 0x3b26f703, 0x6b3fa09c,
     0xed59b63b, 0xbd40e1a4, 0x4d6b1905, 0x1d724e9a, 0x764dee06, 0x2654b999, 0xd67f4138, 0x866616a7},
    {0x00000000, 0xb8bc6765, 0xaa09c88b, 0x12b5afee, 0x8f629757, 0x37def032, 0x256b5fdc, 0x9dd738b9,
     0xc5b428ef, 0x7d084f8a, 0x6fbde064, 0xd7018701, 0x4ad6bfb8, 0xf26ad8dd, 0xe0df7733, 0x58631056},
};

uint32_t ab_crc32(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;

    for (; count >= 4; bytes += 4, count -= 4) {
        crc ^= get32(bytes);
        crc = crc_table[7][crc & 15] ^ crc_table[6][crc >> 4 & 15] ^ crc_table[5][crc >> 8 & 15] ^
              crc_table[4][crc >> 12 & 15] ^ crc_table[3][crc >> 16 & 15] ^ crc_table[2][crc >> 20 & 15] ^
              crc_table[1][crc >> 24 & 15] ^ crc_table[0][crc >> 28];
    }
    for (; count; bytes++, count--) {
        crc = crc_table[0][(crc ^ *bytes) & 15] ^ crc >> 4;
        crc = crc_table[0][(crc ^ *bytes >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}

/* ----------------------------------------------------------------------------------- header */

void ab_paths_head_write(const struct ab_paths_head *head, uint8_t bytes[AB_PATHS_HEADER_BYTES])
{
    memset(bytes, 0, AB_PATHS_HEADER_BYTES);
    memcpy(bytes, ab_paths_magic, sizeof ab_paths_magic);
    put32(bytes + 8, VERSION);
    put32(bytes + 12, AB_PATHS_HEADER_BYTES);
    put32(bytes + 16, AB_PATHS_RECORD_BYTES);
    put32(bytes + 20, head->local ? FLAG_LOCAL : 0);
    put64(bytes + 24, head->count);
    memcpy(bytes + 32, head->lengths, sizeof head->lengths);
    put32(bytes + HEADER_CRC, ab_crc32(bytes, HEADER_CRC));
}

int ab_paths_head_read(const uint8_t *bytes, uint64_t size, struct ab_paths_head *head)
{
    if (size < AB_PATHS_HEADER_BYTES || memcmp(bytes, ab_paths_magic, sizeof ab_paths_magic) != 0 ||
        get32(bytes + HEADER_CRC) != ab_crc32(bytes, HEADER_CRC))
        return AUTOBUF_E_DAMAGED;
    if (get32(bytes + 8) != VERSION)
        return AUTOBUF_E_NEWER;
    *head = (struct ab_paths_head){
        .count = get64(bytes + 24),
        .record_bytes = get32(bytes + 16),
        .local = get32(bytes + 20) & FLAG_LOCAL,
    };
    memcpy(head->lengths, bytes + 32, sizeof head->lengths);
    if (get32(bytes + 12) != AB_PATHS_HEADER_BYTES || head->record_bytes < AB_PATHS_RECORD_BYTES ||
        head->record_bytes > UINT16_MAX || head->count > AB_PATHS_COUNT_MOST ||
        size != AB_PATHS_HEADER_BYTES + head->count * head->record_bytes)
        return AUTOBUF_E_DAMAGED;
    return 0;
}

/* -------------------------------------------------------------------------------------- key */

void ab_prefix_mask(uint8_t address[16], uint32_t bits)
{
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t left = bits > 8 * i ? bits - 8 * i : 0;

        if (left < 8)
            address[i] &= (uint8_t)(0xff00U >> left);
    }
}

static bool prefix_is_valid(const struct autobuf_prefix *prefix)
{
    struct autobuf_prefix masked = *prefix;

    ab_prefix_mask(masked.address, prefix->bits);
    if (prefix->version == 0 && prefix->bits)
        return false;
    return (prefix->version == 0 || prefix->version == 4 || prefix->version == 6) &&
           prefix->bits <= (prefix->version == 4 ? 32U : 128U) &&
           memcmp(masked.address, prefix->address, sizeof masked.address) == 0;
}

/* Printable characters, then NULs only. */
static bool device_is_valid(const char device[AUTOBUF_INTERFACE_BYTES])
{
    size_t length = strnlen(device, AUTOBUF_INTERFACE_BYTES);

    for (size_t i = 0; i < AUTOBUF_INTERFACE_BYTES; i++)
        if (i < length ? device[i] <= ' ' || device[i] > '~' || device[i] == '/' : device[i] != '\0')
            return false;
    return length < AUTOBUF_INTERFACE_BYTES;
}

int ab_paths_key(const struct autobuf_paths_entry *entry, uint8_t key[AB_PATHS_KEY_BYTES])
{
    const struct autobuf_prefix *remote = &entry->remote, *local = &entry->local;

    if (!prefix_is_valid(remote) || !remote->version || !prefix_is_valid(local) ||
        (local->version && local->version != remote->version) || !device_is_valid(entry->device))
        return -EINVAL;
    key[0] = (uint8_t)remote->version;
    key[1] = (uint8_t)remote->bits;
    memcpy(key + 2, remote->address, 16);
    key[18] = entry->device[0] == '\0';
    key[19] = (uint8_t)(local->version ? 254 - local->bits : 255);
    memcpy(key + 20, local->address, 16);
    memcpy(key + 36, entry->device, AUTOBUF_INTERFACE_BYTES);
    return 0;
}

static void key_read(const uint8_t key[AB_PATHS_KEY_BYTES], struct autobuf_paths_entry *entry)
{
    entry->remote.version = key[0];
    entry->remote.bits = key[1];
    memcpy(entry->remote.address, key + 2, 16);
    entry->local.version = key[19] == 255 ? 0 : key[0];
    entry->local.bits = key[19] == 255 ? 0 : 254U - key[19];
    memcpy(entry->local.address, key + 20, 16);
    memcpy(entry->device, key + 36, AUTOBUF_INTERFACE_BYTES);
}

int ab_paths_compare(const struct autobuf_paths_entry *a, const struct autobuf_paths_entry *b)
{
    uint8_t x[AB_PATHS_KEY_BYTES], y[AB_PATHS_KEY_BYTES];

    if (ab_paths_key(a, x) < 0)
        memset(x, 0xff, sizeof x);
    if (ab_paths_key(b, y) < 0)
        memset(y, 0xff, sizeof y);
    return memcmp(x, y, sizeof x);
}

/* ----------------------------------------------------------------------------------- record */

static bool rtt_is_valid(uint64_t ns)
{
    return ns <= RTT_MAX_NS || ns == AUTOBUF_NS_UNSET;
}

static bool entry_is_valid(const struct autobuf_paths_entry *e)
{
    return rtt_is_valid(e->rtt_min_ns) && rtt_is_valid(e->rtt_median_ns) && e->tx_rate_bit_per_s <= RATE_MAX &&
           e->tx_rate_low_bit_per_s <= RATE_MAX && e->tx_rate_high_bit_per_s <= RATE_MAX &&
           e->rx_rate_bit_per_s <= RATE_MAX && e->rx_rate_low_bit_per_s <= RATE_MAX &&
           e->rx_rate_high_bit_per_s <= RATE_MAX && e->tx_bdp_bytes <= BDP_MAX_BYTES &&
           e->rx_bdp_bytes <= BDP_MAX_BYTES && e->packet_bytes <= UINT16_MAX;
}

int ab_paths_check(const struct autobuf_paths_entry *e)
{
    uint8_t key[AB_PATHS_KEY_BYTES];

    return entry_is_valid(e) ? ab_paths_key(e, key) : -EINVAL;
}

int ab_paths_record_write(const struct autobuf_paths_entry *e, uint8_t bytes[AB_PATHS_RECORD_BYTES])
{
    const uint32_t small[] = {e->method,       e->flags,     e->bottleneck, e->samples,
                              e->packet_bytes, e->tx_unsure, e->rx_unsure};
    const uint64_t large[] = {e->rtt_min_ns, e->rtt_median_ns, e->tx_rate_bit_per_s, e->tx_rate_low_bit_per_s,
                              e->tx_rate_high_bit_per_s, e->rx_rate_bit_per_s, e->rx_rate_low_bit_per_s,
                              e->rx_rate_high_bit_per_s, e->tx_bdp_bytes, e->rx_bdp_bytes, e->learned_s, e->expires_s};

    memset(bytes, 0, AB_PATHS_RECORD_BYTES);
    if (!entry_is_valid(e) || ab_paths_key(e, bytes) < 0)
        return -EINVAL;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        put32(bytes + AB_PATHS_KEY_BYTES + 4 * i, small[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        put64(bytes + 80 + 8 * i, large[i]);
    put32(bytes + RECORD_CRC, ab_crc32(bytes, RECORD_CRC));
    return 0;
}

int ab_paths_record_read(const uint8_t bytes[AB_PATHS_RECORD_BYTES], struct autobuf_paths_entry *e)
{
    uint32_t *small[] = {&e->method, &e->flags, &e->bottleneck, &e->samples, &e->packet_bytes,
                         &e->tx_unsure, &e->rx_unsure};
    uint64_t *large[] = {&e->rtt_min_ns, &e->rtt_median_ns, &e->tx_rate_bit_per_s, &e->tx_rate_low_bit_per_s,
                         &e->tx_rate_high_bit_per_s, &e->rx_rate_bit_per_s, &e->rx_rate_low_bit_per_s,
                         &e->rx_rate_high_bit_per_s, &e->tx_bdp_bytes, &e->rx_bdp_bytes, &e->learned_s, &e->expires_s};
    uint8_t key[AB_PATHS_KEY_BYTES];

    *e = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
    if (get32(bytes + RECORD_CRC) != ab_crc32(bytes, RECORD_CRC))
        return AUTOBUF_E_DAMAGED;
    key_read(bytes, e);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        *small[i] = get32(bytes + AB_PATHS_KEY_BYTES + 4 * i);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        *large[i] = get64(bytes + 80 + 8 * i);
    if (!entry_is_valid(e) || ab_paths_key(e, key) < 0 || memcmp(key, bytes, sizeof key) != 0)
        return AUTOBUF_E_DAMAGED;
    return 0;
}

/* ----------------------------------------------------------------------------- entry and path */

#define FIELD(name)                                                                                \
    {offsetof(struct autobuf_paths_entry, name), offsetof(struct autobuf_path, name),              \
     sizeof((struct autobuf_path *)0)->name}

/* The fields of both structs. */
static const struct field {
    size_t in_entry, in_path, bytes;
} fields[] = {
    FIELD(method), FIELD(flags), FIELD(samples), FIELD(packet_bytes), FIELD(tx_unsure), FIELD(rx_unsure),
    FIELD(rtt_min_ns), FIELD(rtt_median_ns), FIELD(tx_rate_bit_per_s), FIELD(tx_rate_low_bit_per_s),
    FIELD(tx_rate_high_bit_per_s), FIELD(rx_rate_bit_per_s), FIELD(rx_rate_low_bit_per_s),
    FIELD(rx_rate_high_bit_per_s), FIELD(tx_bdp_bytes), FIELD(rx_bdp_bytes),
};

int autobuf_paths_path(const struct autobuf_paths_entry *theirs, struct autobuf_path *path)
{
    struct autobuf_path known = {.size = sizeof known, .measured_ns = AUTOBUF_NS_UNSET};
    struct autobuf_paths_entry e;

    if (!ab_struct_in(&e, sizeof e, theirs))
        return -EINVAL;
    for (const struct field *f = fields; f < fields + sizeof fields / sizeof *fields; f++)
        memcpy((char *)&known + f->in_path, (const char *)&e + f->in_entry, f->bytes);
    return ab_struct_out(path, &known, sizeof known) ? 0 : -EINVAL;
}

int autobuf_paths_learn(struct autobuf_paths_entry *theirs, const struct autobuf_path *path)
{
    struct autobuf_paths_entry e;
    struct autobuf_path known;

    if (!ab_struct_in(&e, sizeof e, theirs) || !ab_struct_in(&known, sizeof known, path))
        return -EINVAL;
    for (const struct field *f = fields; f < fields + sizeof fields / sizeof *fields; f++)
        memcpy((char *)&e + f->in_entry, (const char *)&known + f->in_path, f->bytes);
    return ab_struct_out(theirs, &e, sizeof e) ? 0 : -EINVAL;
}

/* --------------------------------------------------------------------------------- message */

/* As in the header. C99 has no _Static_assert. */
typedef char head_and_record[MESSAGE_HEAD_BYTES + AB_PATHS_RECORD_BYTES == AUTOBUF_PATHS_MESSAGE_BYTES ? 1 : -1];

static const uint8_t message_head[MESSAGE_HEAD_BYTES] = {'A', 'U', 'T', 'O', 'B', 'U', 'F', 'L', 1, 0, 0, 0,
                                                         AB_PATHS_RECORD_BYTES};

int autobuf_paths_entry_encode(const struct autobuf_paths_entry *theirs, void *message, uint32_t room_bytes)
{
    struct autobuf_paths_entry entry;

    if (!message || room_bytes < AUTOBUF_PATHS_MESSAGE_BYTES || !ab_struct_in(&entry, sizeof entry, theirs) ||
        ab_paths_record_write(&entry, (uint8_t *)message + MESSAGE_HEAD_BYTES) < 0)
        return -EINVAL;
    memcpy(message, message_head, sizeof message_head);
    return (int)AUTOBUF_PATHS_MESSAGE_BYTES;
}

int ab_paths_entry_decode(const void *message, uint32_t bytes, struct autobuf_paths_entry *entry)
{
    if (bytes < MESSAGE_HEAD_BYTES || memcmp(message, message_head, 8) != 0)
        return AUTOBUF_E_DAMAGED;
    if (memcmp((const uint8_t *)message + 8, message_head + 8, 4) != 0)
        return AUTOBUF_E_NEWER;
    if (bytes != AUTOBUF_PATHS_MESSAGE_BYTES || memcmp(message, message_head, sizeof message_head) != 0)
        return AUTOBUF_E_DAMAGED;
    return ab_paths_record_read((const uint8_t *)message + MESSAGE_HEAD_BYTES, entry);
}
