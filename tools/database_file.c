/* SPDX-License-Identifier: MIT */
#include "database_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "database.h"
#include "database_row.h"

#define VERSION 1
#define APPLICATION 0x41425546 /* "ABUF" */
#define WAIT_MS 5000           /* for other processes' transactions, which take milliseconds */
#define VALUE_MOST_BYTES 4096  /* the longest row has 300 bytes */
#define ASIDE_MOST 9           /* damaged ones that are kept; the last of them is replaced */
#define END_BYTES 16           /* of the longest name beside it: ".damaged-9-wal" */
#define TEXT(value) TEXT_OF(value)
#define TEXT_OF(value) #value

/* The order of the rows is nearly that of the store: only those of one remote prefix have still to be sorted. */
#define PATH_TABLE "CREATE TABLE path(" DATABASE_COLUMNS ", PRIMARY KEY(" DATABASE_KEY ")) WITHOUT ROWID"
#define ID_TABLE "CREATE TABLE id(id)"

/* ------------------------------------------------------------------------------------- errors */

int database_file_error(sqlite3 *sql, int result)
{
    int system = sql ? sqlite3_system_errno(sql) : 0;

    switch (result & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_TOOBIG:
    case SQLITE_ERROR: /* a table or a column is not there */
    case SQLITE_CONSTRAINT:
    case SQLITE_SCHEMA:
        return AUTOBUF_E_DAMAGED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return -EBUSY;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EPERM;
    default:
        return system > 0 ? -system : -EIO;
    }
}

int database_file_run(sqlite3 *sql, const char *text)
{
    return database_file_error(sql, sqlite3_exec(sql, text, NULL, NULL, NULL));
}

int database_file_lock(const struct database_file *file, struct autobuf_paths_writer **writer)
{
    return autobuf_paths_write(writer, file->store, file->flags & DATABASE_TRY ? AUTOBUF_PATHS_TRY : 0);
}

/*
 * The folder must belong to this user or to root, and to nobody else: SQLite opens what is there by its name more than once, and
 * deletes the file that a journal names. A user may do so with its own files, and root with nobody else's.
 */
static int check_folder(const struct database_file *file)
{
    char name[PATH_MAX];
    struct stat folder;

    memcpy(name, file->store, sizeof name);
    if (stat(dirname(name), &folder) < 0)
        return -errno;
    return folder.st_mode & (S_IWGRP | S_IWOTH) || (folder.st_uid && folder.st_uid != geteuid()) ? -EPERM : 0;
}

/* ------------------------------------------------------------------------------------- making */

static void name_of(char name[PATH_MAX], const struct database_file *file, const char *end)
{
    size_t length = strlen(file->name);

    memcpy(name, file->name, length);
    memcpy(name + length, end, strlen(end) + 1); /* database_file_open() has left room for it */
}

static void remove_with(const struct database_file *file, const char *end)
{
    char name[PATH_MAX];

    name_of(name, file, end);
    (void)unlink(name);
}

static int make_tables(sqlite3 *sql)
{
    sqlite3_stmt *mode = NULL;
    int error = database_file_run(sql, "BEGIN; " PATH_TABLE "; " ID_TABLE "; INSERT INTO id VALUES(randomblob(16));"
                                       "PRAGMA application_id=" TEXT(APPLICATION) "; PRAGMA user_version=" TEXT(VERSION)
                                       "; COMMIT");

    if (error == 0)
        error = database_file_error(sql, sqlite3_prepare_v2(sql, "PRAGMA journal_mode=WAL", -1, &mode, NULL));
    if (error == 0 && sqlite3_step(mode) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(mode, 0), "wal") != 0)
        error = -ENOTSUP; /* a file system without shared memory */
    sqlite3_finalize(mode);
    return error;
}

static int open_sql(const char *name, sqlite3 **sql)
{
    int result = sqlite3_open_v2(name, sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    return database_file_error(*sql, result);
}

/* A whole new database under another name, which then takes its name: nobody sees half of one. */
static int make_locked(struct database_file *file)
{
    char fresh[PATH_MAX];
    sqlite3 *sql = NULL;
    int error, fd;

    name_of(fresh, file, ".new");
    remove_with(file, ".new");
    remove_with(file, ".new-journal");
    remove_with(file, ".new-wal");
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    error = open_sql(fresh, &sql);
    if (error == 0)
        error = make_tables(sql);
    sqlite3_close(sql);
    remove_with(file, "-wal"); /* of a database that is no more */
    remove_with(file, "-shm");
    if (error == 0 && rename(fresh, file->name) < 0)
        error = -errno;
    if (error < 0)
        remove_with(file, ".new");
    return error;
}

static int make(struct database_file *file)
{
    struct autobuf_paths_writer *lock;
    int error = database_file_lock(file, &lock);

    if (error < 0)
        return error;
    if (access(file->name, F_OK) < 0)
        error = errno == ENOENT ? make_locked(file) : -errno;
    autobuf_paths_abort(lock);
    return error;
}

/* ----------------------------------------------------------------------------------- checking */

/* Only this user and root may have written it, and it is where it seems to be. */
static int check_file(const struct database_file *file, const char *end)
{
    char name[PATH_MAX];
    struct stat found;

    name_of(name, file, end);
    if (lstat(name, &found) < 0)
        return -errno;
    if (S_ISLNK(found.st_mode))
        return -ELOOP;
    if (!S_ISREG(found.st_mode) || found.st_nlink != 1 || found.st_mode & (S_IWGRP | S_IWOTH) ||
        (found.st_uid && found.st_uid != geteuid()))
        return -EPERM;
    return faccessat(AT_FDCWD, name, R_OK | W_OK, AT_EACCESS) < 0 ? -errno : 0;
}

static int check_files(const struct database_file *file)
{
    int error = check_file(file, "");

    for (int i = 0; i < 3 && error == 0; i++) {
        error = check_file(file, (const char *const[]){"-wal", "-shm", "-journal"}[i]);
        error = error == -ENOENT ? 0 : error;
    }
    return error;
}

/* What the file says is not believed until it was checked, and runs nothing. */
static void distrust(sqlite3 *sql)
{
    static const int off[] = {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                              SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_DBCONFIG_DQS_DML, SQLITE_DBCONFIG_DQS_DDL};

    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        (void)sqlite3_db_config(sql, off[i], 0, NULL);
    (void)sqlite3_db_config(sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_limit(sql, SQLITE_LIMIT_LENGTH, VALUE_MOST_BYTES);
    (void)sqlite3_limit(sql, SQLITE_LIMIT_ATTACHED, 0);
}

static int number(sqlite3 *sql, const char *text, int64_t *value)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(sql, text, -1, &statement, NULL);

    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return result == SQLITE_ROW ? 0 : result == SQLITE_DONE ? AUTOBUF_E_DAMAGED : database_file_error(sql, result);
}

static int read_id(sqlite3 *sql, uint8_t id[AUTOBUF_PATHS_STAMP_BYTES])
{
    sqlite3_stmt *statement = NULL;
    int error = database_file_error(sql, sqlite3_prepare_v2(sql, "SELECT id FROM id", -1, &statement, NULL));
    int result = error == 0 ? sqlite3_step(statement) : SQLITE_OK;

    if (result == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_BLOB &&
        sqlite3_column_bytes(statement, 0) == AUTOBUF_PATHS_STAMP_BYTES)
        memcpy(id, sqlite3_column_blob(statement, 0), AUTOBUF_PATHS_STAMP_BYTES);
    else if (error == 0)
        error = result == SQLITE_ROW || result == SQLITE_DONE ? AUTOBUF_E_DAMAGED : database_file_error(sql, result);
    sqlite3_finalize(statement);
    return error;
}

/* The tables must be those that make_tables() makes, letter by letter, and nothing else. */
static int check_tables(struct database_file *file)
{
    int64_t version = 0, application = 0, good = 0, all = 0;
    int error = number(file->sql, "PRAGMA user_version", &version);

    if (error == 0)
        error = number(file->sql, "PRAGMA application_id", &application);
    if (error < 0)
        return error;
    if (application != APPLICATION || version < VERSION)
        return AUTOBUF_E_DAMAGED;
    if (version > VERSION)
        return AUTOBUF_E_NEWER;
    error = number(file->sql, "SELECT count(*) FROM sqlite_master", &all);
    if (error == 0)
        error = number(file->sql, "SELECT count(*) FROM sqlite_master WHERE sql IN ('" PATH_TABLE "', '" ID_TABLE "')", &good);
    if (error == 0 && (all != 2 || good != 2))
        error = AUTOBUF_E_DAMAGED;
    return error == 0 ? read_id(file->sql, file->id) : error;
}

/* ------------------------------------------------------------------------------------ opening */

static int prepare(const struct database_file *file)
{
    distrust(file->sql);
    (void)sqlite3_busy_timeout(file->sql, file->flags & DATABASE_TRY ? 0 : WAIT_MS);
    return database_file_run(file->sql, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;"
                                  "PRAGMA journal_size_limit=4194304");
}

int database_file_open(struct database_file *file)
{
    struct stat opened;
    int error;

    if (snprintf(file->name, sizeof file->name, "%s.db", file->store) + END_BYTES > (int)sizeof file->name)
        return -ENAMETOOLONG;
    error = check_folder(file);
    if (error == 0)
        error = check_files(file);
    if (error == -ENOENT)
        error = make(file);
    if (error == 0 && stat(file->name, &opened) < 0)
        error = -errno;
    if (error < 0)
        return error;
    file->device = opened.st_dev;
    file->inode = opened.st_ino;
    error = open_sql(file->name, &file->sql);
    if (error == 0)
        error = prepare(file);
    if (error == 0)
        error = check_tables(file);
    if (error < 0)
        database_file_close(file);
    return error;
}

bool database_file_is_replaced(const struct database_file *file)
{
    struct stat now;

    return !file->sql || stat(file->name, &now) < 0 || now.st_dev != file->device || now.st_ino != file->inode;
}

void database_file_close(struct database_file *file)
{
    (void)sqlite3_close(file->sql);
    file->sql = NULL;
}

/* The first ones stay: they know what the later ones, which were begun with the published store, do not. */
static int rename_locked(const struct database_file *file)
{
    char from[PATH_MAX], to[PATH_MAX], wal[PATH_MAX], end[END_BYTES] = ".damaged";
    int n = 1;

    for (name_of(to, file, end); n < ASIDE_MOST && faccessat(AT_FDCWD, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0; name_of(to, file, end))
        snprintf(end, sizeof end, ".damaged-%d", ++n);
    strcat(end, "-wal");
    name_of(wal, file, end);
    name_of(from, file, "-wal"); /* first: alone it would be taken for the new database's */
    if (rename(from, wal) < 0 && errno != ENOENT)
        return -errno;
    return rename(file->name, to) < 0 ? -errno : 0;
}

int database_file_set_aside(struct database_file *file)
{
    struct autobuf_paths_writer *lock;
    struct stat now;
    int error = database_file_lock(file, &lock);

    if (error < 0)
        return error;
    if (stat(file->name, &now) == 0 && now.st_dev == file->device && now.st_ino == file->inode) {
        error = rename_locked(file);
        if (error == 0)
            error = make_locked(file);
    }
    autobuf_paths_abort(lock);
    return error;
}
