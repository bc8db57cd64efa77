/* SPDX-License-Identifier: MIT */
/* In place of wu-ftpd's, for the test of wuftp-patch/autobuf-wuftpd.c: nothing of it is needed. */
