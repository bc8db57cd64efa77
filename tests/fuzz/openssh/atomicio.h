/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <sys/types.h>

size_t atomicio(ssize_t (*call)(int, void *, size_t), int fd, void *data, size_t bytes);
