/* SPDX-License-Identifier: MIT */
/* A row of the database behind the path store, of any values. What is read of it is sound, and comes back as it was. */
#include "fuzz.h"

#include <string.h>

#include "base/base.h"
#include "database_row.h"
#include "paths/record.h"

static sqlite3 *sql;
static sqlite3_stmt *values, *again;

static sqlite3_stmt *statement(void)
{
    char text[16 + 4 * DATABASE_ALL_COLUMNS] = "SELECT ?";
    sqlite3_stmt *made;

    for (int i = 1; i < DATABASE_ALL_COLUMNS; i++)
        strcat(text, ", ?");
    CHECK(sqlite3_prepare_v2(sql, text, -1, &made, NULL) == SQLITE_OK);
    return made;
}

/* One value: a number, text or bytes of up to 20, or none. */
static void bind_value(struct input *in, int at)
{
    char bytes[20];
    unsigned how = (unsigned)take(in, 1), length = how / 8 % 21;
    double real;
    uint64_t number;

    switch (how % 8) {
    case 0:
        sqlite3_bind_null(values, at);
        break;
    case 1:
        number = take(in, 8);
        memcpy(&real, &number, sizeof real);
        sqlite3_bind_double(values, at, real);
        break;
    case 2:
    case 3:
        for (unsigned i = 0; i < length; i++)
            bytes[i] = (char)take(in, 1);
        if (how % 8 == 2)
            sqlite3_bind_text(values, at, bytes, (int)length, SQLITE_TRANSIENT);
        else
            sqlite3_bind_blob(values, at, bytes, (int)length, SQLITE_TRANSIENT);
        break;
    default:
        sqlite3_bind_int64(values, at, (sqlite3_int64)take_number(in));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT, back = AUTOBUF_PATHS_ENTRY_INIT;
    struct input in = {data, len};
    uint8_t record[AB_PATHS_RECORD_BYTES];

    if (!sql) {
        CHECK(sqlite3_open(":memory:", &sql) == SQLITE_OK);
        values = statement();
        again = statement();
    }
    for (int i = 1; i <= DATABASE_ALL_COLUMNS; i++)
        bind_value(&in, i);
    CHECK(sqlite3_step(values) == SQLITE_ROW);
    if (database_row_read(values, &entry) == 0) {
        CHECK(ab_paths_record_write(&entry, record) == 0);
        CHECK(database_row_bind(again, &entry) == SQLITE_OK);
        CHECK(sqlite3_step(again) == SQLITE_ROW);
        CHECK(database_row_read(again, &back) == 0);
        CHECK(memcmp(&entry, &back, sizeof entry) == 0);
        sqlite3_reset(again);
    }
    sqlite3_reset(values);
    return 0;
}
