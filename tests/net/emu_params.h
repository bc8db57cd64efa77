/* Parameters of a link from text such as "rate=400M,delay=50ms,queue=10M". No I/O. */
#ifndef EMU_PARAMS_H
#define EMU_PARAMS_H

#include <stddef.h>

#include "emu_link.h"

/* The keys that emu_params_parse() knows, for usage messages. */
extern const char emu_params_usage[];

/*
 * Apply comma-separated key=value pairs to *p; keys that are not named keep their value.
 * Returns 0, or -1 with *p unchanged and one line in err.
 */
int emu_params_parse(struct emu_params *p, const char *text, char *err, size_t err_size);

/* A byte count such as "256M" (decimal: K = 1000). Returns 0 or -1. */
int emu_params_bytes(const char *text, uint64_t *bytes);

#endif
