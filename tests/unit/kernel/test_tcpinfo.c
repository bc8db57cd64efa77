/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "kernel/tcpinfo.h"

#include "sockets.h"

/* What a kernel of this header's age would tell, each field another number. */
static struct tcp_info some_info(void)
{
    struct tcp_info t;

    memset(&t, 0, sizeof t);
    t.tcpi_state = AB_TCP_ESTABLISHED;
    t.tcpi_options = TCPI_OPT_WSCALE | TCPI_OPT_SACK;
    t.tcpi_snd_wscale = 7;
    t.tcpi_rcv_wscale = 10;
    t.tcpi_delivery_rate_app_limited = 1;
    t.tcpi_snd_mss = 1448;
    t.tcpi_unacked = 11;
    t.tcpi_sacked = 30;
    t.tcpi_lost = 12;
    t.tcpi_total_retrans = 13;
    t.tcpi_snd_cwnd = 14;
    t.tcpi_rtt = 15000;
    t.tcpi_rttvar = 15500;
    t.tcpi_min_rtt = 14000;
    t.tcpi_rcv_rtt = 16000;
    t.tcpi_pacing_rate = 17;
    t.tcpi_max_pacing_rate = 18;
    t.tcpi_bytes_acked = 1ULL << 40;
    t.tcpi_bytes_received = 1ULL << 41;
    t.tcpi_notsent_bytes = 18;
    t.tcpi_delivery_rate = 19;
    t.tcpi_busy_time = 20;
    t.tcpi_rwnd_limited = 21;
    t.tcpi_sndbuf_limited = 22;
    t.tcpi_snd_wnd = 23;
    t.tcpi_pmtu = 24;
    t.tcpi_bytes_sent = 25;
    t.tcpi_bytes_retrans = 26;
    t.tcpi_rcv_mss = 1400;
    t.tcpi_delivered = 27;
    t.tcpi_data_segs_in = 28;
    t.tcpi_rcv_ooopack = 29;
    return t;
}

static void every_field_is_where_the_kernel_puts_it(void **state)
{
    struct tcp_info t = some_info();
    struct ab_tcpinfo i;

    (void)state;
    assert_true(ab_tcpinfo_parse((const uint8_t *)&t, sizeof t, &i));
    assert_true(i.state == AB_TCP_ESTABLISHED && i.scaled && i.app_limited);
    assert_true(i.snd_scale == 7 && i.rcv_scale == 10);
    assert_true(i.mss_bytes == 1448 && i.unacked_packets == 11 && i.lost_packets == 12);
    assert_true(i.sacked_packets == 30 && i.retrans_packets == 13 && i.cwnd_packets == 14);
    assert_true(i.rtt_ns == 15000000 && i.rtt_min_ns == 14000000 && i.rcv_rtt_ns == 16000000);
    assert_true(i.rtt_deviation_ns == 15500000);
    assert_true(i.pacing_byte_per_s == 17 && i.max_pacing_byte_per_s == 18 && i.acked_bytes == 1ULL << 40);
    assert_true(i.received_bytes == 1ULL << 41 && i.notsent_bytes == 18);
    assert_true(i.delivery_byte_per_s == 19 && i.busy_ns == 20000 && i.rwnd_limited_ns == 21000);
    assert_true(i.sndbuf_limited_ns == 22000 && i.peer_window_bytes == 23);
    assert_true(i.packet_bytes == 24 && i.sent_bytes == 25 && i.resent_bytes == 26);
    assert_true(i.rcv_mss_bytes == 1400 && i.delivered_packets == 27 && i.received_packets == 28 &&
                i.out_of_order_packets == 29);
}

/* An older kernel's is shorter, a newer one's longer; less than the oldest told is refused. */
static void any_length(void **state)
{
    uint8_t bytes[AB_TCPINFO_BYTES + 64]; /* newer headers have a longer struct */
    struct tcp_info t = some_info();
    struct ab_tcpinfo whole;

    (void)state;
    assert_true(sizeof t <= sizeof bytes);
    memset(bytes, 0xff, sizeof bytes);
    memcpy(bytes, &t, sizeof t);
    assert_true(ab_tcpinfo_parse(bytes, sizeof t, &whole));
    for (size_t len = 0; len <= sizeof bytes; len++) {
        struct ab_tcpinfo i;
        bool known = ab_tcpinfo_parse(bytes, len, &i);

        assert_int_equal(known, len >= 104);
        assert_int_equal(i.mss_bytes, known ? 1448 : 0);
        assert_true(i.peer_window_bytes == (len >= 232 ? 23 : 0));
        assert_true(i.acked_bytes == (len >= 128 ? 1ULL << 40 : 0));
        if (len >= sizeof t)
            assert_memory_equal(&i, &whole, sizeof i);
    }
    t.tcpi_min_rtt = UINT32_MAX; /* none yet */
    assert_true(ab_tcpinfo_parse((const uint8_t *)&t, sizeof t, &whole));
    assert_int_equal(whole.rtt_min_ns, 0);
    t.tcpi_options = 0; /* the scales are what was offered, not agreed on */
    assert_true(ab_tcpinfo_parse((const uint8_t *)&t, sizeof t, &whole));
    assert_true(!whole.scaled && whole.snd_scale == 0 && whole.rcv_scale == 0);
}

static void of_a_real_connection(void **state)
{
    struct connection c = tcp_connection();
    uint8_t bytes[AB_TCPINFO_BYTES];
    socklen_t len = sizeof bytes;
    struct ab_tcpinfo i;
    char text[1000] = "";

    (void)state;
    assert_int_equal(write(c.client, text, sizeof text), sizeof text);
    assert_int_equal(read(c.accepted, text, sizeof text), sizeof text);
    assert_int_equal(getsockopt(c.accepted, IPPROTO_TCP, TCP_INFO, bytes, &len), 0);
    assert_true(ab_tcpinfo_parse(bytes, len, &i));
    assert_int_equal(i.state, AB_TCP_ESTABLISHED);
    assert_int_equal(i.received_bytes, sizeof text);
    assert_true(i.mss_bytes > 500 && i.cwnd_packets > 0);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_where_the_kernel_puts_it),
        cmocka_unit_test(any_length),
        cmocka_unit_test(of_a_real_connection),
    };

    return cmocka_run_group_tests_name("tcpinfo", tests, NULL, NULL);
}
