/* SPDX-License-Identifier: MIT */
/* Both ends of a stretch over loopback. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "paced.h"
#include "sockets.h"

#define MBIT 1000000ULL

static char payload[PACED_CHUNK_BYTES];
static struct paced sender, receiver;

static struct connection prepared(const struct ab_stretch *how)
{
    struct connection c = tcp_connection();

    assert_return_code(fcntl(c.client, F_SETFL, O_NONBLOCK), errno);
    assert_return_code(fcntl(c.accepted, F_SETFL, O_NONBLOCK), errno);
    assert_int_equal(paced_prepare(c.client), 0);
    assert_int_equal(paced_prepare(c.accepted), 0);
    assert_int_equal(paced_begin(&sender, c.client, true, how), 0);
    assert_int_equal(paced_begin(&receiver, c.accepted, false, how), 0);
    assert_true(paced_chunk(&receiver, sender.chunk_bytes));
    return c;
}

static void wait_for(const struct paced *p)
{
    uint64_t now_ns = autobuf_now_ns(), due_ns = ab_min(paced_deadline_ns(p), now_ns + AB_NS_PER_S / 100);
    struct timespec t = {0, due_ns > now_ns ? (long)(due_ns - now_ns) : 0};
    struct pollfd fd = {p->fd, (short)paced_events(p), 0};

    assert_true(ppoll(&fd, 1, &t, NULL) >= 0);
}

static void a_stretch_arrives(void **state)
{
    const struct ab_stretch how = {200 * MBIT, 400 * MBIT, 400 * MBIT};
    struct connection c = prepared(&how);
    struct autobuf_available found;
    int out = 0, in = 0;

    (void)state;
    for (unsigned i = 0; i < 1000000 && in == 0; i++) {
        if (out == 0)
            out = paced_step(&sender, payload, false);
        in = paced_step(&receiver, payload, false);
        assert_true(out >= 0 && in >= 0);
        if (out == 0)
            wait_for(&sender);
    }
    assert_int_equal(out, 1);
    assert_int_equal(in, 1);
    assert_int_equal(receiver.moved_bytes, sender.moved_bytes);
    assert_int_equal(receiver.ip_bytes, sender.ip_bytes);
    assert_in_range(sender.ip_bytes, 500000, 1000000);
    assert_int_equal(receiver.count, sender.ip_bytes / receiver.chunks[0].bytes);
    assert_int_equal(receiver.chunks[0].sent_ns, 0);
    assert_in_range(paced_sent_bit_per_s(&sender), 1, 210 * MBIT); /* however busy this host is, not faster */
    assert_int_equal(receiver.until_ns, AUTOBUF_NS_UNSET);
    ab_stretch_estimate(&receiver.room, receiver.chunks, receiver.count, receiver.until_ns, &how, &found);
    assert_true(found.tx_low_bit_per_s <= 400 * MBIT);
    close_connection(&c);
}

static void a_sender_that_may_not_send_waits(void **state)
{
    const struct ab_stretch how = {MBIT, MBIT, MBIT};
    struct connection c = prepared(&how);

    (void)state;
    assert_int_equal(paced_step(&sender, payload, true), 0);
    assert_int_equal(sender.moved_bytes, 0);
    assert_true(paced_deadline_ns(&sender) > 0);
    assert_int_equal(paced_events(&sender), 0);
    close_connection(&c);
}

static void chunks_are_bounded(void **state)
{
    static const uint64_t paces[] = {1, MBIT, 1000 * MBIT, 1000000 * MBIT, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof paces / sizeof *paces; i++) {
        const struct ab_stretch how = {paces[i], paces[i], 0};
        struct connection c = prepared(&how);

        assert_in_range(sender.chunk_bytes, PACED_HEADER_BYTES + 1, PACED_CHUNK_BYTES);
        assert_true(sender.most_bytes / sender.chunk_bytes < PACED_CHUNKS);
        assert_int_equal(sender.chunk_bytes % sender.segment_bytes, 0);
        close_connection(&c);
    }
    assert_false(paced_chunk(&receiver, 0) || paced_chunk(&receiver, PACED_HEADER_BYTES));
    assert_false(paced_chunk(&receiver, PACED_CHUNK_BYTES + 1) || paced_chunk(&receiver, UINT64_MAX));
}

/* Sends for so long as the receiver takes it. Returns what the receiver said in the end. */
static int receive_bytes(struct connection *c, const uint8_t *bytes, size_t len, size_t most)
{
    int result = 0;

    for (size_t sent = 0; sent < most && result == 0; sent += len) {
        struct pollfd p = {c->accepted, POLLIN, 0};

        assert_int_equal(send(c->client, bytes, len, MSG_NOSIGNAL), len);
        assert_int_equal(poll(&p, 1, 10000), 1);
        result = paced_step(&receiver, payload, false);
    }
    return result;
}

static void a_peer_that_never_ends_is_refused(void **state)
{
    static const uint8_t nothing[1000];
    const struct ab_stretch how = {MBIT, 8 * MBIT, 0};
    struct connection c = prepared(&how);

    (void)state;
    assert_true(paced_chunk(&receiver, 10)); /* too many chunks */
    assert_int_equal(receive_bytes(&c, nothing, sizeof nothing, 1000000), AUTOBUF_E_PROTOCOL);
    assert_true(receiver.count < PACED_CHUNKS);
    close_connection(&c);
    c = prepared(&how);
    assert_true(paced_chunk(&receiver, 1000)); /* too many bytes */
    assert_int_equal(receive_bytes(&c, nothing, sizeof nothing, 1000000), AUTOBUF_E_PROTOCOL);
    assert_true(receiver.ip_bytes <= receiver.most_bytes + 2 * PACED_CHUNK_BYTES);
    close_connection(&c);
}

static void the_end_says_what_counts(void **state)
{
    static const uint8_t lost[] = {0x80, 0, 0, 0, 0, 0, 1, 0}, whole[] = {255, 255, 255, 255, 255, 255, 255, 255};
    const struct ab_stretch how = {MBIT, 8 * MBIT, 0};
    struct connection c = prepared(&how);

    (void)state;
    assert_int_equal(receive_bytes(&c, lost, sizeof lost, 8), 1);
    assert_int_equal(receiver.until_ns, 256);
    close_connection(&c);
    c = prepared(&how);
    assert_int_equal(receive_bytes(&c, whole, sizeof whole, 8), 1);
    assert_int_equal(receiver.until_ns, AUTOBUF_NS_UNSET);
    assert_return_code(shutdown(c.client, SHUT_WR), errno);
    assert_int_equal(paced_begin(&receiver, c.accepted, false, &how), 0);
    assert_true(paced_chunk(&receiver, 1000));
    assert_int_equal(paced_step(&receiver, payload, false), -ECONNRESET);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stretch_arrives),
        cmocka_unit_test(a_sender_that_may_not_send_waits),
        cmocka_unit_test(chunks_are_bounded),
        cmocka_unit_test(a_peer_that_never_ends_is_refused),
        cmocka_unit_test(the_end_says_what_counts),
    };

    return cmocka_run_group_tests_name("paced", tests, NULL, NULL);
}
