/* SPDX-License-Identifier: MIT */
#ifndef AB_FILE_H
#define AB_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a file may become so long: beyond RLIMIT_FSIZE write() raises SIGXFSZ. */
bool ab_file_may_have(uint64_t bytes);

#endif
