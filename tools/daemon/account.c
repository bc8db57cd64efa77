/* SPDX-License-Identifier: MIT */
#include "account.h"

#include <stdio.h>
#include <string.h>

static void say(struct account *account, const char *text)
{
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES], line[768];

    process_addresses(account->copy, local, peer);
    snprintf(line, sizeof line, "%s[%d]:%d %s -> %s: [%s] %s%s", account->place->program, (int)account->place->pid,
             account->place->fd, local, peer, account->rule->name, account->dry_run ? "dry run: " : "", text);
    account_later(account, line);
}

void account_later(struct account *account, const char *line)
{
    size_t used = strlen(account->told), length = strlen(line);

    if (used + length + 2 > sizeof account->told)
        account_say(account);
    used = strlen(account->told);
    snprintf(account->told + used, sizeof account->told - used, "%s\n", line);
}

void account_say(struct account *account)
{
    char *rest = account->told, *line;

    while ((line = strsep(&rest, "\n")))
        if (line[0])
            account->say(line);
    account->told[0] = '\0';
}

void account_about(struct account *account, int copy, const struct place *place, const struct rule *rule, bool dry_run)
{
    account->place = place;
    account->rule = rule;
    account->copy = copy;
    account->dry_run = dry_run;
    account->text[0] = '\0';
}

static void add(struct account *account, const char *between, const char *text)
{
    size_t used = strlen(account->text);

    snprintf(account->text + used, sizeof account->text - used, "%s%s", used ? between : "", text);
}

void account_part(void *account, const char *text)
{
    add(account, "; ", text);
}

void account_line(void *account, const char *text)
{
    add(account, "\n", text);
}

void account_tell(struct account *account)
{
    char lines[sizeof account->text], *rest = lines, *line;

    memcpy(lines, account->text, sizeof lines);
    while ((line = strsep(&rest, "\n"))) {
        if (!line[0])
            continue;
        if (!account->dry_run)
            report_count(account->counts, line);
        say(account, line);
    }
}

void account_failed(struct account *account, int error)
{
    account->counts->failed_actions++;
    say(account, autobuf_strerror(error));
}
