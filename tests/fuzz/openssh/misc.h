/* SPDX-License-Identifier: MIT */
int scan_scaled(char *text, long long *value);
