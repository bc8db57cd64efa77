/* SPDX-License-Identifier: MIT */
#include "ssh2.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include <autobuf/autobuf.h>

#include "places.h"
#include "pool.h"
#include "self.h"

/* Of <libssh2.h> and <libssh2_sftp.h> 1.10 and 1.11, which need not be there when this is built. */
#define ERROR_EAGAIN (-37)
#define ERROR_BAD_USE (-39)
#define ERROR_SFTP_PROTOCOL (-31)
#define FXF_READ 1UL
#define FXF_WRITE 2UL
#define OPENFILE 0
#define WINDOW_MOST (8UL * 1024 * 1024) /* sftp_read() asks for no more at once */
#define READ_AHEAD 4U                      /* sftp_read() asks for so many buffers at once, */
#define REQUEST_MOST 30000U                /* in requests of so many bytes at most */

/* What is asked for and what waits in our buffer are at most WINDOW_MOST together. */
#define BUFFER_MOST (WINDOW_MOST / (READ_AHEAD + 1))

/* Of <curl/curl.h>. From 7.78 on, libcurl keeps the handle of the present transfer with its session. */
#define CURL_KEEPS_HANDLE 0x074e00U
#define CURLOPT_UPLOAD_BUFFERSIZE 280
#define UPLOAD_BUFFER_MOST (2L * 1024 * 1024)

struct curl_version {
    int age;
    const char *text;
    unsigned number;
};

/* One copy of libssh2: a program may have it, or several of its modules each one of their own. */
struct ssh2_library {
    struct ssh2_library *next;
    void *user; /* where the object begins that calls it; NULL: all objects do */
#define SSH2_MEMBER(type, name, parameters) type(*name) parameters;
    SSH2_FUNCTIONS(SSH2_MEMBER)
    void **(*libssh2_session_abstract)(void *);
};

/*
 * An SFTP session, a file that is open for reading, or, with --report, an SSH session. It belongs to the thread that
 * uses the SSH session.
 */
struct ssh2_handle {
    struct ssh2_handle *next;
    const void *handle; /* libssh2's */
    void *session;      /* of an SFTP session */
    int fd;             /* that it talks over; -1: unknown. Only with --report */
    struct autobuf_rightsize *rightsize;
    char *buffer;            /* BUFFER_MOST; NULL: none yet */
    size_t start_bytes;      /* where in it the bytes begin that the program has not had yet */
    size_t left_bytes;       /* how many these are */
    size_t ask_bytes;        /* the next call's; the same until libssh2 has returned data */
    uint64_t requested_bytes; /* and not returned yet */
    bool plain;               /* the rest is read as the program asks */
};

static struct ssh2_handle *handles;
static struct ssh2_library *_Atomic libraries;
static _Atomic uint8_t locked;

void run_ssh2_forked(void)
{
    spin_unlock(&locked); /* a thread of the parent may have held it; the list is always whole */
}

/* ----------------------------------------------------------------------------------- libssh2 */

/* Functions in the scope of an object. Returns false if libssh2 is not there. */
static bool find(void *scope, struct ssh2_library *library)
{
#define SSH2_FIND(type, name, parameters) SSH2_FIND_NAME(name)
#define SSH2_FIND_NAME(name)                                                                                           \
    {                                                                                                                  \
        void *found = dlsym(scope, #name);                                                                             \
        memcpy(&library->name, &found, sizeof found);                                                                  \
    }
    SSH2_FUNCTIONS(SSH2_FIND)
    SSH2_FIND_NAME(libssh2_session_abstract)
    return library->libssh2_sftp_read;
}

/* What was found for this object, else what was found for all. */
static struct ssh2_library *found_for(const void *user)
{
    struct ssh2_library *library = libraries, *of_all = NULL;

    for (; library && library->user != user; library = library->next)
        of_all = library->user ? of_all : library;
    return library ? library : of_all;
}

/* The copy that the caller would reach without us. It stays loaded from now on. NULL: there is none, or no memory. */
static struct ssh2_library *library_of(const void *caller)
{
    struct ssh2_library *library = libraries, found = {.user = NULL};
    Dl_info object;
    void *scope;

    if (library && !library->user && !library->next)
        return library;
    if (!dladdr(caller, &object))
        return NULL;
    library = found_for(object.dli_fbase);
    if (library)
        return library;
    if (!find(RTLD_NEXT, &found)) { /* a module has brought it, for itself alone */
        scope = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (!scope || !find(scope, &found))
            return NULL;
        found.user = object.dli_fbase;
    }
    memcpy(&scope, &found.libssh2_sftp_read, sizeof scope);
    if (dladdr(scope, &object))
        dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    library = mmap(NULL, sizeof *library, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (library == MAP_FAILED)
        return NULL;
    *library = found;
    library->next = libraries;
    while (!atomic_compare_exchange_weak(&libraries, &library->next, library)) {
    }
    return library;
}

/* Declares libssh2; without it, the call returns what is given here. */
#define SSH2_NEXT(...)                                                                                                 \
    const struct ssh2_library *libssh2 = library_of(__builtin_return_address(0));                                      \
                                                                                                                       \
    if (!libssh2)                                                                                                      \
        return __VA_ARGS__

/* ----------------------------------------------------------------------------------- handles */

/* Takes it from the list if it is there. */
static struct ssh2_handle *handle_of(const void *handle, bool takes)
{
    struct ssh2_handle **at = &handles, *found;

    spin_lock(&locked);
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    found = *at;
    if (found && takes)
        *at = found->next;
    spin_unlock(&locked);
    return found;
}

/* Has to be called before libssh2 frees the handle: another one may then have its address. */
static void forget(const void *handle)
{
    struct ssh2_handle *known = handle_of(handle, true);
    struct stay stay;

    if (!known || !self_enter(&stay)) /* once a filter of system calls is set, the memory is left */
        return;
    if (known->buffer)
        munmap(known->buffer, BUFFER_MOST);
    autobuf_rightsize_close(known->rightsize);
    free(known);
    self_leave(&stay);
}

/* Forgets a handle that had this address, and was freed with its session. */
static void *opened(void *handle, void *session, int fd)
{
    struct ssh2_handle *known = NULL;
    struct stay stay;

    forget(handle);
    if (handle && self_enter(&stay)) {
        known = calloc(1, sizeof *known);
        self_leave(&stay);
    }
    if (known) {
        known->handle = handle;
        known->session = session;
        known->fd = fd;
        spin_lock(&locked);
        known->next = handles;
        handles = known;
        spin_unlock(&locked);
    }
    return handle;
}

static int fd_of(const void *handle)
{
    const struct ssh2_handle *known = self_settings.report ? handle_of(handle, false) : NULL;

    return known ? known->fd : -1;
}

#define HANDSHAKE(name)                                                                                                \
    int name(void *session, int fd)                                                                                    \
    {                                                                                                                  \
        int result;                                                                                                    \
        SSH2_NEXT(ERROR_BAD_USE);                                                                                      \
                                                                                                                       \
        result = libssh2->name(session, fd);                                                                           \
        if (result == 0 && self_settings.report)                                                                       \
            opened(session, NULL, fd);                                                                                 \
        return result;                                                                                                 \
    }

HANDSHAKE(libssh2_session_handshake)
HANDSHAKE(libssh2_session_startup)

int libssh2_session_free(void *session)
{
    SSH2_NEXT(ERROR_BAD_USE);
    forget(session);
    return libssh2->libssh2_session_free(session);
}

void *libssh2_sftp_init(void *session)
{
    SSH2_NEXT(NULL);
    return opened(libssh2->libssh2_sftp_init(session), session, fd_of(session));
}

int libssh2_sftp_shutdown(void *sftp)
{
    SSH2_NEXT(ERROR_BAD_USE);
    forget(sftp);
    return libssh2->libssh2_sftp_shutdown(sftp);
}

/* ----------------------------------------------------------------------------------- uploads */

/*
 * libcurl writes one buffer a round trip. If it is about to upload, its buffer is enlarged: in this state it is empty,
 * and libcurl allocates the next one with the size of then.
 */
static void enlarge_upload(const struct ssh2_library *libssh2, const void *sftp, const void *caller)
{
    const struct ssh2_handle *known = handle_of(sftp, false);
    int (*set)(void *, int, ...);
    const struct curl_version *(*version)(int);
    void *curl, *found[2];
    const char *name;
    Dl_info object;

    if (!known || self_settings.keep_sizes || !self_acts() || !dladdr(caller, &object))
        return;
    name = strrchr(object.dli_fname, '/');
    if (strncmp(name ? name + 1 : object.dli_fname, "libcurl", 7) != 0)
        return;
    curl = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!curl)
        return;
    found[0] = dlsym(curl, "curl_easy_setopt");
    found[1] = dlsym(curl, "curl_version_info");
    memcpy(&set, &found[0], sizeof set);
    memcpy(&version, &found[1], sizeof version);
    if (set && version && version(0)->number >= CURL_KEEPS_HANDLE)
        set(*libssh2->libssh2_session_abstract(known->session), CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER_MOST);
    dlclose(curl);
}

/* A file that is also written has one position for both, and libssh2 knows it alone. */
#define OPEN(name, parameters, ...)                                                                                    \
    void *name parameters                                                                                              \
    {                                                                                                                  \
        void *handle;                                                                                                  \
        SSH2_NEXT(NULL);                                                                                               \
        if (!libssh2->name) /* of a later version */                                                                   \
            return NULL;                                                                                               \
        if (type == OPENFILE && flags & FXF_WRITE)                                                                     \
            enlarge_upload(libssh2, sftp, __builtin_return_address(0));                                                \
        handle = libssh2->name(__VA_ARGS__);                                                                           \
        if (type == OPENFILE && (flags & (FXF_READ | FXF_WRITE)) == FXF_READ)                                          \
            return opened(handle, NULL, fd_of(sftp));                                                                  \
        forget(handle);                                                                                                \
        return handle;                                                                                                 \
    }

OPEN(libssh2_sftp_open_ex, (void *sftp, const char *path, unsigned length, unsigned long flags, long mode,
                                      int type), sftp, path, length, flags, mode, type)
OPEN(libssh2_sftp_open_ex_r, (void *sftp, const char *path, size_t length, unsigned long flags, long mode,
                                      int type, void *attributes), sftp, path, length, flags, mode, type, attributes)

int libssh2_sftp_close_handle(void *handle)
{
    SSH2_NEXT(ERROR_BAD_USE);
    forget(handle);
    return libssh2->libssh2_sftp_close_handle(handle);
}

/* ------------------------------------------------------------------------------------- reads */

/* What libssh2 requests to have at least so much on its way. */
static uint64_t in_requests(uint64_t bytes, size_t buffer_bytes)
{
    uint64_t each = buffer_bytes < REQUEST_MOST ? buffer_bytes : REQUEST_MOST;

    return (bytes + each - 1) / each * each;
}

/* The read-ahead begins with what libssh2 does by itself. Returns false if there is no memory. */
static bool begin_reading(struct ssh2_handle *file, size_t bytes)
{
    struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
    struct stay stay;

    if (file->rightsize || bytes > BUFFER_MOST)
        return file->rightsize;
    file->ask_bytes = bytes;
    file->requested_bytes = options.window_bytes = in_requests(READ_AHEAD * bytes, bytes);
    options.cap_bytes = WINDOW_MOST;
    if (!self_enter(&stay))
        return false;
    autobuf_rightsize_open(&file->rightsize, &options);
    self_leave(&stay);
    return file->rightsize;
}

/* The next call's size: whole multiples of the program's, so that a full buffer does not end with a short read. */
static void size_next(struct ssh2_handle *file, size_t bytes, size_t got)
{
    uint64_t now_ns = autobuf_now_ns(), window;

    file->requested_bytes -= got < file->requested_bytes ? got : file->requested_bytes;
    autobuf_rightsize_received(file->rightsize, now_ns, got);
    window = autobuf_rightsize_consumed(file->rightsize, now_ns, got);
    window /= READ_AHEAD;
    file->ask_bytes = (size_t)(window < BUFFER_MOST ? window : BUFFER_MOST) / bytes * bytes;
}

static void request(struct ssh2_handle *file, size_t bytes)
{
    struct place *place;
    uint64_t more;

    if (READ_AHEAD * bytes <= file->requested_bytes)
        return;
    more = in_requests(READ_AHEAD * bytes - file->requested_bytes, bytes);
    autobuf_rightsize_granted(file->rightsize, autobuf_now_ns(), more);
    file->requested_bytes += more;
    place = file->fd < 0 ? NULL : place_of(file->fd);
    if (place && file->requested_bytes > atomic_load_explicit(&place->ahead_bytes, memory_order_relaxed))
        atomic_store_explicit(&place->ahead_bytes, file->requested_bytes, memory_order_relaxed);
}

static bool has_buffer(struct ssh2_handle *file)
{
    void *buffer;

    if (!file->buffer && self_acts()) {
        buffer = mmap(NULL, BUFFER_MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        file->buffer = buffer == MAP_FAILED ? NULL : buffer;
    }
    return file->buffer;
}

/* Hands out what waits in the buffer. */
static ssize_t hand_out(struct ssh2_handle *file, char *data, size_t bytes)
{
    size_t count = bytes < file->left_bytes ? bytes : file->left_bytes;

    memcpy(data, file->buffer + file->start_bytes, count);
    file->start_bytes += count;
    file->left_bytes -= count;
    return (ssize_t)count;
}

/*
 * A server's error: libssh2 has dropped what it had read in the same call, up to all of our larger buffer. Or the end
 * of a file of which a server gives less than is asked for: libssh2 copes with that only where it has one request on
 * its way, as for a small buffer.
 */
static bool is_due_to_size(ssize_t got, size_t bytes)
{
    return got == ERROR_SFTP_PROTOCOL || (got == 0 && READ_AHEAD * bytes < REQUEST_MOST);
}

ssize_t libssh2_sftp_read(void *handle, char *data, size_t bytes)
{
    struct ssh2_handle *file = handle_of(handle, false);
    uint64_t at;
    bool ours;
    ssize_t got;
    SSH2_NEXT(ERROR_BAD_USE);

    if (file && file->left_bytes)
        return hand_out(file, data, bytes);
    if (!file || !bytes || !begin_reading(file, bytes))
        return libssh2->libssh2_sftp_read(handle, data, bytes);
    ours = !file->plain && file->ask_bytes > bytes && has_buffer(file);
    at = ours ? libssh2->libssh2_sftp_tell64(handle) : 0;
    request(file, ours ? file->ask_bytes : bytes);
    got = libssh2->libssh2_sftp_read(handle, ours ? file->buffer : data, ours ? file->ask_bytes : bytes);
    if (ours && is_due_to_size(got, bytes)) {
        file->plain = true;
        libssh2->libssh2_sftp_seek64(handle, at);
        return libssh2->libssh2_sftp_read(handle, data, bytes);
    }
    if (got <= 0)
        return got;
    size_next(file, bytes, (size_t)got);
    if (!ours)
        return got;
    file->start_bytes = 0;
    file->left_bytes = (size_t)got;
    return hand_out(file, data, bytes);
}

/* The program goes on elsewhere in the file: libssh2 drops what it has requested, and begins anew. */
static void restart(const void *handle)
{
    struct ssh2_handle *file = handle_of(handle, false);
    struct stay stay;

    if (!file)
        return;
    file->left_bytes = 0;
    if (!self_enter(&stay))
        return;
    autobuf_rightsize_close(file->rightsize);
    file->rightsize = NULL;
    self_leave(&stay);
}

#define SEEK(name, offset_type)                                                                                        \
    void name(void *handle, offset_type offset)                                                                        \
    {                                                                                                                  \
        SSH2_NEXT();                                                                                                   \
                                                                                                                       \
        restart(handle);                                                                                               \
        libssh2->name(handle, offset);                                                                                 \
    }

SEEK(libssh2_sftp_seek, size_t)
SEEK(libssh2_sftp_seek64, uint64_t)

#define TELL(name, offset_type)                                                                                        \
    offset_type name(void *handle)                                                                                     \
    {                                                                                                                  \
        const struct ssh2_handle *file = handle_of(handle, false);                                                     \
        SSH2_NEXT(0);                                                                                                  \
                                                                                                                       \
        return libssh2->name(handle) - (offset_type)(file ? file->left_bytes : 0);                                     \
    }

TELL(libssh2_sftp_tell, size_t)
TELL(libssh2_sftp_tell64, uint64_t)
