/* SPDX-License-Identifier: MIT */
#ifndef RUN_POOL_H
#define RUN_POOL_H

/* To be called in a forked child. */
void run_pool_forked(void);

/* In place of the C library's, for the code that is linked into this object. */
void *calloc(__SIZE_TYPE__ count, __SIZE_TYPE__ bytes);
void free(void *data);

#endif
