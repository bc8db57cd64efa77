/* SPDX-License-Identifier: MIT */
/* tools/daemon/status.c: its requests, its bounds, its file. The time is the test's. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/status.h"

#define S 1000000000ULL
#define WHOLE "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

static uint64_t status_deadline_ns(const struct status *of, uint64_t now_ns)
{
    struct pollfd polled[STATUS_FDS];
    uint64_t until_ns = UINT64_MAX;

    (void)status_poll(of, polled, now_ns, &until_ns);
    return until_ns;
}

static char folder[] = "/tmp/autobuf-tests.XXXXXX", file[64];
static size_t page_bytes; /* of what the page prints */
static uint64_t now_ns = 5 * S;

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/status.sock", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void print_page(void *user, enum status_page page, FILE *out)
{
    char part[1000];

    assert_null(user);
    memset(part, "mf"[page], sizeof part);
    for (size_t left = page_bytes, now; left; left -= now) {
        now = left < sizeof part ? left : sizeof part;
        fwrite(part, 1, now, out);
    }
}

static struct status *opened(void)
{
    struct status *status;

    page_bytes = 3;
    assert_int_equal(status_open(&status, file, print_page, NULL), 0);
    return status;
}

static int client(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    strcpy(address.sun_path, file);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -errno;
}

static void ask(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Steps as the daemon would, so much later if asked; at once when it has rested from the step before. */
static void step(struct status *status, uint64_t later_ns)
{
    struct pollfd fds[STATUS_FDS];

    now_ns += later_ns;
    if (status_poll(status, fds, now_ns, &(uint64_t){UINT64_MAX}) == 0)
        now_ns = status_deadline_ns(status, now_ns);
    status_step(status, now_ns);
}

/* What has come so far; *ended: and no more will. */
static size_t taken(int fd, char *text, size_t cap, bool *ended)
{
    size_t used = 0;
    ssize_t got = 1;

    while (got > 0 && used < cap - 1) {
        got = recv(fd, text + used, cap - 1 - used, MSG_DONTWAIT);
        if (got > 0)
            used += (size_t)got;
    }
    text[used] = '\0';
    *ended = got == 0;
    return used;
}

static void requests(void **state)
{
    char full[STATUS_REQUEST_BYTES];
    static const struct {
        const char *text;
        int number;
        enum status_page page;
    } rows[] = {
        {"", 0, 0},
        {"GET /metrics HTTP/1.0\r\n", 0, 0},
        {"GET /metrics HTTP/1.0\r\n\r", 0, 0},
        {"GET /metrics HTTP/1.0\r\n\r\n", 200, STATUS_METRICS},
        {"GET /flows HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n", 200, STATUS_FLOWS},
        {"GET /flows HTTP/1.0\n\n", 200, STATUS_FLOWS},
        {"GET /flows HTTP/1.0\r\n\r\nmore", 200, STATUS_FLOWS},
        {"GET / HTTP/1.0\r\n\r\n", 404, 0},
        {"GET /metrics/ HTTP/1.0\r\n\r\n", 404, 0},
        {"GET /metric HTTP/1.0\r\n\r\n", 404, 0},
        {"GET /../metrics HTTP/1.0\r\n\r\n", 404, 0},
        {"POST /metrics HTTP/1.0\r\n\r\n", 405, 0},
        {"HEAD /flows HTTP/1.0\r\n\r\n", 405, 0},
        {"GETT /flows HTTP/1.0\r\n\r\n", 405, 0},
        {"get /flows HTTP/1.0\r\n\r\n", 400, 0},
        {"GET  /flows HTTP/1.0\r\n\r\n", 400, 0},
        {"GET flows HTTP/1.0\r\n\r\n", 400, 0},
        {"GET /flows\r\n\r\n", 400, 0},
        {"GET /flows HTTP/2\r\n\r\n", 400, 0},
        {"GET /flows HTTP/1\n\n", 400, 0},
        {"GET\r\n\r\n", 400, 0},
        {"GET \r\n\r\n", 400, 0},
        {" \r\n\r\n", 400, 0},
        {"\n\n", 400, 0},
        {"\r\n\r\n", 400, 0},
        {"\n\nGET /flows HTTP/1.0\r\n\r\n", 400, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t length = strlen(rows[i].text);
        char *exact = malloc(length + 1); /* for the sanitizers: no byte behind it */
        enum status_page page = STATUS_METRICS;

        assert_non_null(exact);
        memcpy(exact, rows[i].text, length);
        exact = realloc(exact, length ? length : 1);
        CHECK_EQUAL(rows[i].text, status_parse(exact, length, &page), rows[i].number);
        if (rows[i].number == 200)
            CHECK_EQUAL(rows[i].text, page, rows[i].page);
        free(exact);
    }
    memset(full, 'x', sizeof full);
    assert_int_equal(status_parse(full, sizeof full - 1, &(enum status_page){0}), 0);
    assert_int_equal(status_parse(full, sizeof full, &(enum status_page){0}), 400);
}

static void any_bytes(void **state)
{
    static const char letters[] = "GET /flowsmtHTP1.\r\n\r\n \n\xff";
    uint64_t random = 88172645463325252ULL;

    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        size_t length = unit_random(&random) % 24;
        char *text = malloc(length + 1);
        enum status_page page;
        int number;

        assert_non_null(text);
        for (size_t c = 0; c < length; c++)
            text[c] = letters[unit_random(&random) % sizeof letters];
        number = status_parse(text, length, &page);
        assert_true(number == 0 || number == 200 || number == 400 || number == 404 || number == 405);
        free(text);
    }
}

static void answers(void **state)
{
    static const struct {
        const char *request, *begin, *end;
    } rows[] = {
        {WHOLE, "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 3\r\n",
         "\r\n\r\nmmm"},
        {"GET /flows HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n",
         "\r\n\r\nfff"},
        {"GET /x HTTP/1.0\r\n\r\n", "HTTP/1.0 404 Not Found\r\n", "there are /metrics and /flows\n"},
        {"PUT /flows HTTP/1.0\r\n\r\n", "HTTP/1.0 405 Method Not Allowed\r\n", "there are /metrics and /flows\n"},
        {"nonsense\n\n", "HTTP/1.0 400 Bad Request\r\n", "there are /metrics and /flows\n"},
    };
    struct status *status = opened();
    char text[1024];
    bool ended;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd = client();
        size_t half = strlen(rows[i].request) / 2, length;

        assert_true(fd >= 0);
        assert_int_equal(send(fd, rows[i].request, half, 0), half);
        step(status, 0);
        assert_int_equal(taken(fd, text, sizeof text, &ended), 0);
        assert_false(ended);
        ask(fd, rows[i].request + half);
        step(status, 0);
        length = taken(fd, text, sizeof text, &ended);
        assert_true(ended);
        CHECK(text, strncmp(text, rows[i].begin, strlen(rows[i].begin)) == 0);
        CHECK(text, length > strlen(rows[i].end) && strcmp(text + length - strlen(rows[i].end), rows[i].end) == 0);
        close(fd);
    }
    assert_int_equal(status_counts(status).answered, COUNT(rows));
    status_close(status);
}

static void those_that_dawdle(void **state)
{
    struct status *status = opened();
    struct pollfd fds[STATUS_FDS];
    int silent = client(), gone = client(), many = client(), slow = client();
    char text[1024];
    uint64_t began_ns;
    bool ended;

    (void)state;
    page_bytes = 1000000; /* more than a socket holds */
    ask(slow, WHOLE);
    for (size_t i = 0; i < STATUS_REQUEST_BYTES / 16; i++)
        ask(many, "0123456789abcdef");
    close(gone);
    step(status, 0);
    began_ns = now_ns;
    assert_int_equal(status_counts(status).dropped, 1); /* the one that has gone */
    assert_int_equal(status_counts(status).answered, 1); /* 400 */
    assert_true(taken(many, text, sizeof text, &ended) > 0);
    assert_memory_equal(text, "HTTP/1.0 400", 12);
    step(status, 0);
    /* both, and the listener */
    assert_int_equal(status_poll(status, fds, now_ns + 60 * S, &(uint64_t){UINT64_MAX}), 3);
    assert_int_equal(status_deadline_ns(status, now_ns + 60 * S), began_ns + STATUS_NS);
    step(status, STATUS_NS);
    assert_int_equal(status_counts(status).dropped, 3);
    assert_int_equal(taken(silent, text, sizeof text, &ended), 0);
    assert_true(ended);
    close(silent);
    close(slow);
    close(many);
    page_bytes = 3;
    slow = client();
    ask(slow, WHOLE);
    step(status, 0);
    assert_true(taken(slow, text, sizeof text, &ended) > 3);
    close(slow);
    assert_int_equal(status_deadline_ns(status, now_ns + 60 * S), UINT64_MAX);
    status_close(status);
}

static void more_than_its_places(void **state)
{
    struct status *status = opened();
    struct pollfd fds[STATUS_FDS];
    int clients[3 * STATUS_CLIENTS];
    size_t count = 0;
    char text[1024];
    bool ended;

    (void)state;
    for (size_t i = 0; i < COUNT(clients); i++)
        clients[i] = client();
    step(status, 0);
    /* the listener waits */
    assert_int_equal(status_poll(status, fds, now_ns + 60 * S, &(uint64_t){UINT64_MAX}), STATUS_CLIENTS);
    for (unsigned i = 0; i < 10; i++)
        step(status, STATUS_NS);
    for (size_t i = 0; i < COUNT(clients); i++) {
        if (clients[i] < 0) /* the backlog was full */
            continue;
        count++;
        assert_int_equal(taken(clients[i], text, sizeof text, &ended), 0);
        assert_true(ended);
        close(clients[i]);
    }
    assert_true(count >= 2 * STATUS_CLIENTS);
    assert_int_equal(status_counts(status).dropped, count);
    status_close(status);
}

static void what_is_held_is_bounded(void **state)
{
    struct status *status = opened();
    int clients[STATUS_CLIENTS];
    size_t refused = 0;
    char text[1024];
    bool ended;

    (void)state;
    page_bytes = 3000000;
    for (size_t i = 0; i < COUNT(clients); i++) {
        clients[i] = client();
        ask(clients[i], WHOLE);
    }
    step(status, 0);
    for (size_t i = 0; i < COUNT(clients); i++) {
        taken(clients[i], text, 32, &ended);
        refused += strncmp(text, "HTTP/1.0 503", 12) == 0;
        close(clients[i]);
    }
    assert_int_equal(refused, STATUS_CLIENTS - 3);
    status_close(status);
}

/* After each step it rests for a multiple of its processor time, and nobody can wake it. */
static void its_cost_is_bounded(void **state)
{
    struct status *status = opened();
    struct pollfd fds[STATUS_FDS];
    struct status_counts before;
    int fd = client();

    (void)state;
    step(status, 0);
    before = status_counts(status);
    assert_true(before.cpu_ns > 0);
    assert_int_equal(status_deadline_ns(status, now_ns), now_ns + 40 * before.cpu_ns);
    assert_int_equal(status_poll(status, fds, now_ns, &(uint64_t){UINT64_MAX}), 0);
    ask(fd, WHOLE);
    status_step(status, now_ns + 40 * before.cpu_ns - 1);
    assert_int_equal(status_counts(status).answered, 0);
    status_step(status, now_ns + 40 * before.cpu_ns);
    assert_int_equal(status_counts(status).answered, 1);
    close(fd);
    status_close(status);
}

/* A look at a silent client is no work: the next deadline is when the client has to leave, not the end of a rest. */
static void one_that_says_nothing(void **state)
{
    struct status *status = opened();
    struct pollfd fds[STATUS_FDS];
    int fd = client();
    uint64_t came_ns = now_ns;

    (void)state;
    step(status, 0);
    step(status, 0);
    assert_int_equal(status_deadline_ns(status, now_ns), came_ns + STATUS_NS);
    assert_int_equal(status_poll(status, fds, now_ns, &(uint64_t){UINT64_MAX}), 2);
    close(fd);
    status_close(status);
}

/* Whoever cannot be accepted waits on. That is no reason to wake all the time. */
static void no_descriptor_is_left(void **state)
{
    struct rlimit limit, least;
    struct status *status = opened();
    struct pollfd fds[STATUS_FDS];
    int fd = client();

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    least = limit;
    least.rlim_cur = (rlim_t)fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &least), 0);
    step(status, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(status_poll(status, fds, now_ns, &(uint64_t){UINT64_MAX}), 0);
    assert_in_range(status_deadline_ns(status, now_ns), now_ns + 100000000, now_ns + 1000000000);
    close(fd);
    status_close(status);
}

/* Without a client there is no deadline at all. */
static void nobody_asks(void **state)
{
    struct status *status = opened();
    struct pollfd fds[STATUS_FDS];

    (void)state;
    status_step(status, now_ns);
    assert_int_equal(status_deadline_ns(status, now_ns), UINT64_MAX);
    assert_int_equal(status_poll(status, fds, now_ns, &(uint64_t){UINT64_MAX}), 1);
    status_close(status);
}

static void its_file(void **state)
{
    struct status *status = opened(), *other;
    struct stat first, now;

    (void)state;
    assert_int_equal(lstat(file, &first), 0);
    assert_int_equal(first.st_mode, S_IFSOCK | 0660);
    assert_int_equal(status_open(&other, file, print_page, NULL), -EADDRINUSE);
    assert_null(other);
    status_close(status);
    assert_int_equal(lstat(file, &now), -1);
}

/* A socket that nobody listens on any more. */
static void leave_one(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(address.sun_path, file);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

static void what_stands_there(void **state)
{
    struct status *status;
    struct stat now;
    char long_name[200] = "/";
    int fd;

    (void)state;
    leave_one();
    status = opened();
    fd = client();
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(unlink(file), 0);
    leave_one();
    status_close(status); /* it is another one's by now */
    assert_int_equal(lstat(file, &now), 0);
    assert_int_equal(unlink(file), 0);

    fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(status_open(&status, file, print_page, NULL), -EEXIST);
    assert_int_equal(lstat(file, &now), 0);
    assert_true(S_ISREG(now.st_mode));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink("elsewhere", file), 0);
    assert_int_equal(status_open(&status, file, print_page, NULL), -EEXIST);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(status_open(&status, "/no/such/folder/s", print_page, NULL), -ENOENT);
    memset(long_name + 1, 'x', sizeof long_name - 2);
    assert_int_equal(status_open(&status, long_name, print_page, NULL), -ENAMETOOLONG);
    assert_int_equal(status_poll(NULL, NULL, 0, &(uint64_t){UINT64_MAX}), 0);
    assert_int_equal(status_deadline_ns(NULL, 0), UINT64_MAX);
    status_step(NULL, 0);
    status_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests),
        cmocka_unit_test(any_bytes),
        cmocka_unit_test(answers),
        cmocka_unit_test(those_that_dawdle),
        cmocka_unit_test(more_than_its_places),
        cmocka_unit_test(what_is_held_is_bounded),
        cmocka_unit_test(its_cost_is_bounded),
        cmocka_unit_test(one_that_says_nothing),
        cmocka_unit_test(nobody_asks),
        cmocka_unit_test(no_descriptor_is_left),
        cmocka_unit_test(its_file),
        cmocka_unit_test(what_stands_there),
    };

    return cmocka_run_group_tests_name("status", tests, make_folder, remove_folder);
}
