/* SPDX-License-Identifier: MIT */
#include "account.h"

#include <stdio.h>
#include <string.h>

#include "../../lib/base/event.h"
#include "log.h"

#define CUT "..."

static void say(struct account *account, const char *text)
{
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES];

    process_addresses(account->copy, local, peer);
    log_line("%s[%d]:%d %s -> %s: [%s] %s%s", account->owner->program, (int)account->owner->pid, account->owner->fd,
             local, peer, account->rule->name, account->dry_run ? "dry run: " : "", text);
}

void account_about(struct account *account, int copy, const struct owner *owner, const struct rule *rule, bool dry_run)
{
    log_wait();
    account->owner = owner;
    account->rule = rule;
    account->copy = copy;
    account->dry_run = dry_run;
    account->text[0] = '\0';
    account->kinds = account->failed = 0;
}

/* Of events that only say what is known, and of plans that leave a side as it is: none. */
static unsigned kind_of(const struct autobuf_event *event)
{
    static const enum report_kind kinds[] = {
        [AUTOBUF_EVENT_SET] = REPORT_BUFFERS,         [AUTOBUF_EVENT_RESIZED] = REPORT_BUFFERS,
        [AUTOBUF_EVENT_GIVEN_BACK] = REPORT_GIVEN_BACK, [AUTOBUF_EVENT_PACED] = REPORT_PACE,
        [AUTOBUF_EVENT_UNSENT] = REPORT_OTHER,
    };

    if (event->what == ACT_CONTROL)
        return event->error ? 0 : 1U << REPORT_CONTROL;
    return event->what > AUTOBUF_EVENT_LEFT && event->what <= AUTOBUF_EVENT_UNSENT ? 1U << kinds[event->what] : 0;
}

/* Adds to it as much as there is room for, and cuts the rest off behind a word. */
static void append(char text[REPORT_TEXT_BYTES], const char *between, const char *more)
{
    size_t used = strlen(text);
    char *end = text + REPORT_TEXT_BYTES - sizeof CUT, *word;

    if (used + 1 >= sizeof CUT && strcmp(text + used + 1 - sizeof CUT, CUT) == 0)
        return;
    if (snprintf(text + used, REPORT_TEXT_BYTES - used, "%s%s", used ? between : "", more) <
        (int)(REPORT_TEXT_BYTES - used))
        return;
    *end = '\0';
    word = strrchr(text, ' ');
    strcpy(word ? word : end, CUT);
}

static void add(struct account *account, const char *between, const struct autobuf_event *event)
{
    char text[AB_LOG_BYTES];

    if (!event->text)
        ab_event_say(event, text, sizeof text);
    append(account->text, between, event->text ? event->text : text);
    account->kinds |= kind_of(event);
    account->failed += event->what == ACT_CONTROL && event->error;
}

void account_part(void *account, const struct autobuf_event *event)
{
    add(account, "; ", event);
}

void account_line(void *account, const struct autobuf_event *event)
{
    add(account, "\n", event);
}

void account_tell(struct account *account)
{
    char lines[sizeof account->text], *rest = lines, *line;

    memcpy(lines, account->text, sizeof lines);
    while ((line = strsep(&rest, "\n")))
        if (line[0])
            say(account, line);
    for (unsigned kind = 0; !account->dry_run && kind < REPORT_KINDS; kind++)
        account->counts->actions[kind] += account->kinds >> kind & 1;
    account->counts->failed_actions += account->dry_run ? 0 : account->failed;
    account->kinds = account->failed = 0;
}

void account_failed(struct account *account, int error)
{
    account->counts->failed_actions++;
    say(account, autobuf_strerror(error));
}
