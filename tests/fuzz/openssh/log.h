/* SPDX-License-Identifier: MIT */
void logit(const char *format, ...) __attribute__((format(printf, 1, 2)));
