/* SPDX-License-Identifier: MIT */
/* Reads of libssh2 by larger buffers, in virtual time: what the program sees is what it would see without. */
#include "unit.h"

#include <pthread.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "../../../preload/places.h"
#include "../../../preload/self.h"
#include "../../../preload/ssh2.h"
#include "fake_ssh2.h"

#define EAGAIN_SSH2 (-37)
#define TIMEOUT_SSH2 (-9)
#define READ 1UL
#define WRITE 2UL
#define MB ((uint64_t)1 << 20)
#define OWN ((size_t)102400) /* curl's buffer */
#define MOST (8 * MB / 5)

struct run_settings self_settings;

_Atomic(struct place *) run_pages[PAGES];

static bool acts = true;

bool self_acts(void)
{
    return acts;
}

bool self_enter(struct stay *stay)
{
    (void)stay;
    return acts;
}

void self_leave(const struct stay *stay)
{
    (void)stay;
}

uint64_t __wrap_autobuf_now_ns(void);
uint64_t __wrap_autobuf_now_ns(void)
{
    return __atomic_load_n(&fake_now_ns, __ATOMIC_RELAXED);
}

static void *opened(struct fake_file *file, unsigned long flags)
{
    fake_next_file = file;
    return libssh2_sftp_open_ex(NULL, "file", 4, flags, 0, 0);
}

/* Reads on, and compares with the file from there. Returns what the read returned. */
static ssize_t reads(void *handle, uint64_t at, size_t bytes)
{
    static _Thread_local char data[4 << 20];
    ssize_t got = libssh2_sftp_read(handle, data, bytes);

    for (ssize_t i = 0; i < got; i++)
        if ((unsigned char)data[i] != fake_byte(at + (uint64_t)i))
            fail_msg("byte %llu", (unsigned long long)at + (unsigned long long)i);
    return got;
}

/* Reads to the end, or so many bytes. Returns how many there were. */
static uint64_t reads_on(void *handle, uint64_t from, uint64_t bytes, size_t each)
{
    uint64_t at = from;
    ssize_t got = 1;

    while (at - from < bytes && got > 0) {
        got = reads(handle, at, each);
        at += got > 0 ? (uint64_t)got : 0;
    }
    return at - from;
}

static void it_asks_for_as_much_as_the_path_holds(void **state)
{
    struct {
        const char *name;
        uint64_t bdp_bytes;
        size_t each, low, high; /* the largest buffer that libssh2 got */
    } rows[] = {
        {"a long path", 16 * MB, OWN, MOST - OWN, MOST},
        {"a long path, small reads", 16 * MB, 4096, MOST - 4096, MOST},
        {"5 MB", 5 * MB, OWN, 5 * MB / 4, MOST},
        {"a short path", 62500, OWN, OWN, 4 * OWN}, /* libssh2 itself makes a queue there */
        {"large reads", 16 * MB, 2 * MB, 2 * MB, 2 * MB},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fake_file file = {.size_bytes = 60 * MB + 77};
        void *handle = opened(&file, READ);

        fake_bdp_bytes = rows[i].bdp_bytes;
        CHECK_EQUAL(rows[i].name, reads(handle, 0, rows[i].each), rows[i].each);
        CHECK_EQUAL(rows[i].name, file.asked_bytes, rows[i].each); /* nothing is known yet */
        CHECK_EQUAL(rows[i].name, reads_on(handle, rows[i].each, UINT64_MAX, rows[i].each),
                    file.size_bytes - rows[i].each);
        CHECK(rows[i].name, file.asked_most_bytes >= rows[i].low && file.asked_most_bytes <= rows[i].high);
        CHECK_EQUAL(rows[i].name, file.asked_bytes % rows[i].each, 0);
        CHECK_EQUAL(rows[i].name, reads(handle, 0, OWN), 0);
        CHECK_EQUAL(rows[i].name, libssh2_sftp_close_handle(handle), 0);
        CHECK_EQUAL(rows[i].name, file.closed, 1);
    }
}

/* A file that has grown to large buffers, read up to 30 MB; some of that waits in our buffer. */
static void *grown(struct fake_file *file)
{
    void *handle;

    *file = (struct fake_file){.size_bytes = 60 * MB};
    fake_bdp_bytes = 16 * MB;
    handle = opened(file, READ);
    assert_int_equal(reads_on(handle, 0, 300 * OWN, OWN), 300 * OWN);
    for (uint64_t at = 300 * OWN; file->at_bytes == at; at += OWN)
        assert_int_equal(reads(handle, at, OWN), OWN);
    assert_true(file->asked_most_bytes > MB);
    return handle;
}

static uint64_t waiting(const struct fake_file *file, void *handle)
{
    return file->at_bytes - libssh2_sftp_tell64(handle);
}

static void an_error_comes_after_what_was_read_before_it(void **state)
{
    static const int errors[] = {TIMEOUT_SSH2, -43, -13};
    struct fake_file file;

    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        void *handle = grown(&file);
        uint64_t at = libssh2_sftp_tell64(handle);

        file.error = errors[i];
        assert_int_equal(reads_on(handle, at, UINT64_MAX, OWN), file.at_bytes - at);
        assert_int_equal(file.error, 0); /* the program has had it */
        at = file.at_bytes;
        assert_int_equal(libssh2_sftp_tell64(handle), at);
        assert_int_equal(reads(handle, at, OWN), OWN);
        libssh2_sftp_close_handle(handle);
    }
}

/* libssh2 loses what it has read in a call that fails: no more than of the program's own calls. */
static void a_byte_that_cannot_be_read(void **state)
{
    struct fake_file file;
    void *handle = grown(&file);
    uint64_t at = libssh2_sftp_tell64(handle);

    (void)state;
    file.bad_at = 50 * MB;
    at += reads_on(handle, at, UINT64_MAX, OWN);
    assert_int_equal(at, file.bad_at / OWN * OWN);
    assert_int_equal(libssh2_sftp_tell64(handle), file.bad_at);
    libssh2_sftp_close_handle(handle);
}

/* Of a small buffer libssh2 has one request on its way, and copes with a server that gives less. */
static void an_end_that_larger_requests_made(void **state)
{
    struct fake_file file = {.size_bytes = 10 * MB, .ends_above = 65536};
    void *handle = opened(&file, READ);

    (void)state;
    fake_bdp_bytes = 16 * MB;
    assert_int_equal(reads_on(handle, 0, UINT64_MAX, 4096), 10 * MB);
    assert_true(file.asked_most_bytes > 65536 && file.asked_bytes == 4096);
    libssh2_sftp_close_handle(handle);
}

static void an_unfinished_call_is_repeated_with_the_same_size(void **state)
{
    struct fake_file file;
    void *handle = grown(&file);
    uint64_t at = libssh2_sftp_tell64(handle);
    size_t asked;

    (void)state;
    at += reads_on(handle, at, waiting(&file, handle), OWN);
    for (int i = 0; i < 5; i++) {
        file.error = EAGAIN_SSH2;
        assert_int_equal(reads(handle, at, i == 3 ? OWN / 2 : OWN), EAGAIN_SSH2);
        asked = i ? asked : file.asked_bytes;
        assert_int_equal(file.asked_bytes, asked);
        fake_now_ns += fake_rtt_ns;
    }
    assert_int_equal(reads(handle, at, OWN), OWN);
    assert_int_equal(file.asked_bytes, asked);
    libssh2_sftp_close_handle(handle);
}

static void a_seek_begins_anew(void **state)
{
    static const uint64_t places[] = {0, 1, 7 * MB, 59 * MB, 60 * MB, 61 * MB};
    struct fake_file file;
    unsigned calls;

    (void)state;
    for (size_t i = 0; i < COUNT(places); i++) {
        void *handle = grown(&file);

        assert_int_not_equal(waiting(&file, handle), 0);
        if (i % 2)
            libssh2_sftp_seek(handle, (size_t)places[i]);
        else
            libssh2_sftp_seek64(handle, places[i]);
        assert_int_equal(libssh2_sftp_tell(handle), places[i]);
        file.size_bytes = 61 * MB;
        calls = file.calls;
        assert_int_equal(reads(handle, places[i], 1000), places[i] == 61 * MB ? 0 : 1000);
        assert_int_equal(file.asked_bytes, 1000);
        assert_int_equal(file.calls, calls + 1);
        libssh2_sftp_close_handle(handle);
    }
}

static void short_reads_and_other_sizes(void **state)
{
    static const size_t sizes[] = {1, 77, OWN, 30000, 3 * MB, 4096};
    struct fake_file file;
    void *handle = grown(&file);
    uint64_t at = libssh2_sftp_tell64(handle);
    ssize_t got = 1;

    (void)state;
    file.most_bytes = 150001;
    for (size_t i = 0; got > 0; i++) {
        assert_int_equal(libssh2_sftp_tell64(handle), at);
        got = reads(handle, at, sizes[i % COUNT(sizes)]);
        assert_true(got <= (ssize_t)sizes[i % COUNT(sizes)]);
        at += (uint64_t)got;
    }
    assert_int_equal(got, 0);
    assert_int_equal(at, file.size_bytes);
    assert_int_equal(reads(handle, at, 0), 0);
    libssh2_sftp_close_handle(handle);
}

static void another_handle_at_the_address_has_none_of_its_bytes(void **state)
{
    struct fake_file file;
    void *handle = grown(&file);

    (void)state;
    file.at_bytes = 0; /* freed with its session */
    handle = opened(&file, READ);
    assert_int_equal(reads(handle, 0, OWN), OWN);
    assert_int_equal(file.asked_bytes, OWN);
    handle = grown(&file);
    file.at_bytes = 0;
    handle = opened(&file, READ | WRITE);
    assert_int_equal(reads_on(handle, 0, 50 * MB, OWN), 50 * MB);
    assert_int_equal(file.asked_bytes, OWN);
    libssh2_sftp_close_handle(handle);
}

static void a_process_that_is_left_alone(void **state)
{
    struct fake_file file, other = {.size_bytes = 50 * MB};
    void *handle = grown(&file);
    uint64_t at = libssh2_sftp_tell64(handle);

    (void)state;
    acts = false; /* from here on; what waits is handed out */
    assert_int_equal(reads_on(handle, at, UINT64_MAX, OWN), file.size_bytes - at);
    acts = true; /* or its memory is left */
    libssh2_sftp_close_handle(handle);
    acts = false;
    handle = opened(&other, READ);
    assert_int_equal(reads_on(handle, 0, UINT64_MAX, OWN), 50 * MB);
    assert_int_equal(other.asked_most_bytes, OWN);
    libssh2_sftp_close_handle(handle);
    acts = true;
}

static void a_report_tells_what_is_requested_ahead(void **state)
{
    static struct place page[PLACES_A_PAGE];
    struct fake_file file = {.size_bytes = 20 * MB};
    int session;
    void *handle;

    (void)state;
    fake_bdp_bytes = 16 * MB;
    atomic_store(&run_pages[0], page);
    self_settings.report = true;
    assert_int_equal(libssh2_session_handshake(&session, 7), 0);
    fake_next_file = &file;
    handle = libssh2_sftp_open_ex(libssh2_sftp_init(&session), "file", 4, READ, 0, 0);
    assert_int_equal(reads(handle, 0, OWN), OWN);
    assert_int_equal(page[7].ahead_bytes, 0); /* what libssh2 does by itself */
    assert_int_equal(reads_on(handle, OWN, UINT64_MAX, OWN), 20 * MB - OWN);
    assert_in_range(page[7].ahead_bytes, 2 * MB, 8 * MB);
    assert_int_equal(page[6].ahead_bytes, 0);
    libssh2_sftp_close_handle(handle);
    libssh2_session_free(&session);
    page[7].ahead_bytes = 0;
    handle = libssh2_sftp_open_ex(libssh2_sftp_init(&session), "file", 4, READ, 0, 0);
    file.at_bytes = 0;
    assert_int_equal(reads_on(handle, 0, UINT64_MAX, OWN), 20 * MB);
    assert_int_equal(page[7].ahead_bytes, 0);
    libssh2_sftp_close_handle(handle);
    self_settings.report = false;
}

static void *reads_whole(void *unused)
{
    for (int i = 0; i < 3; i++) {
        struct fake_file file = {.size_bytes = 20 * MB};
        void *handle;
        static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

        pthread_mutex_lock(&opening); /* what is opened is a variable of the fake */
        handle = opened(&file, READ);
        pthread_mutex_unlock(&opening);
        if (reads_on(handle, 0, UINT64_MAX, OWN + (size_t)i) != 20 * MB || libssh2_sftp_tell64(handle) != 20 * MB)
            return NULL;
        libssh2_sftp_close_handle(handle);
    }
    return unused;
}

static void threads_with_files_of_their_own(void **state)
{
    pthread_t threads[4];
    void *done;

    (void)state;
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reads_whole, threads), 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], &done);
        assert_ptr_equal(done, threads);
    }
}

static void uploads_of_libcurl(void **state)
{
    struct {
        const char *name;
        unsigned version;
        unsigned long flags;
        bool keep, others;
        long bytes;
    } rows[] = {
        {"Debian 12's", 0x075801, WRITE, false, false, 2 * MB},
        {"the first that keeps its handle", 0x074e00, WRITE | 8, false, false, 2 * MB},
        {"one that does not", 0x074d00, WRITE, false, false, 0},
        {"a download", 0x075801, READ, false, false, 0},
        {"--keep-sizes", 0x075801, WRITE, true, false, 0},
        {"another program", 0x075801, WRITE, false, true, 0},
    };
    struct fake_file file = {.size_bytes = 0};
    int session, easy;
    void *sftp = libssh2_sftp_init(&session), *handle;

    (void)state;
    fake_abstract = &easy;
    for (size_t i = 0; i < COUNT(rows); i++) {
        fake_next_file = &file;
        fake_curl_version = rows[i].version;
        fake_curl_upload_bytes = 0;
        self_settings.keep_sizes = rows[i].keep;
        handle = rows[i].others ? opened(&file, rows[i].flags) : fake_curl_open(sftp, rows[i].flags);
        CHECK(rows[i].name, handle == &file);
        CHECK_EQUAL(rows[i].name, fake_curl_upload_bytes, rows[i].bytes);
        CHECK(rows[i].name, !rows[i].bytes || fake_curl_handle == &easy);
    }
    self_settings.keep_sizes = false;
    assert_int_equal(libssh2_sftp_shutdown(sftp), 0);
    fake_curl_upload_bytes = 0;
    fake_curl_open(sftp, WRITE);
    assert_int_equal(fake_curl_upload_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_asks_for_as_much_as_the_path_holds),
        cmocka_unit_test(an_error_comes_after_what_was_read_before_it),
        cmocka_unit_test(a_byte_that_cannot_be_read),
        cmocka_unit_test(an_end_that_larger_requests_made),
        cmocka_unit_test(an_unfinished_call_is_repeated_with_the_same_size),
        cmocka_unit_test(a_seek_begins_anew),
        cmocka_unit_test(short_reads_and_other_sizes),
        cmocka_unit_test(another_handle_at_the_address_has_none_of_its_bytes),
        cmocka_unit_test(a_process_that_is_left_alone),
        cmocka_unit_test(a_report_tells_what_is_requested_ahead),
        cmocka_unit_test(threads_with_files_of_their_own),
        cmocka_unit_test(uploads_of_libcurl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
