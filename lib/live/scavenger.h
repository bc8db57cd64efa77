/* SPDX-License-Identifier: MIT */
/*
 * The rate of a transfer that takes what others leave, after LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus) and rLEDBAT
 * (draft-irtf-iccrg-rledbat). Pure. It differs where LEDBAT is known to fail:
 *   target         of 60 ms: others' queues are often shorter. Here it is a tenth of the base delay.
 *   late-comer     takes the first one's queue for the path. Here each one empties its own queue whenever it is above
 *                  the target, and pauses for two round trips each 10 s, so both see the path.
 *   base delay     drifts with others' queues, and a longer path starves LEDBAT for ten minutes. Here it is the
 *                  minimum of the last 20 to 40 s: longer than a period of cubic on most paths.
 * A queue that is its own is gone two round trips after a cut. One that stays is somebody else's, and the rate is
 * halved until it is gone. Loss halves it, too. Without a queue the rate rises by a packet in a round trip, and by
 * twice as many every four: equally for all that share the path, so that their shares become equal.
 */
#ifndef AB_SCAVENGER_H
#define AB_SCAVENGER_H

#include "../base/base.h"

#define AB_SCAVENGER_RATES 6U /* three round trips, of two samples each */

struct ab_scavenger_sample {
    uint64_t now_ns;
    uint64_t srtt_ns;     /* smoothed by 1/8 with each acknowledgement, as TCP does (RFC 6298) */
    uint64_t rtt_min_ns;  /* as TCP has seen it, ever */
    uint64_t moved_bytes; /* since the connection began */
    uint64_t byte_per_s;  /* over the last round trip */
    uint64_t lost;        /* packets since the connection began */
    uint32_t mss_bytes;
    bool app_limited;     /* the program has nothing more to send: no reason to go faster */
};

struct ab_scavenger {
    uint64_t byte_per_s;      /* 0: none yet */
    uint64_t srtt_ns, moved_bytes, lost; /* of the sample before */
    uint64_t rtt_ns[2];       /* not smoothed: of the newest sample, and of the one before; 0: none */
    uint64_t base_ns[2];      /* minimum of the running and of the last span of time; 0: none */
    uint64_t base_begin_ns;
    uint64_t most_byte_per_s; /* the largest rate seen */
    uint64_t rates[AB_SCAVENGER_RATES];
    unsigned samples;
    unsigned hold;            /* samples until a change shows its effect */
    unsigned clear;           /* samples without a queue, since the last one */
    uint64_t cut_ns;          /* the queue for which the rate was cut; 0: none stands */
    uint64_t saved_byte_per_s; /* the rate before a cut or a pause, to go on with; 0: none */
    bool pauses;
    uint64_t again_byte_per_s; /* half of the rate before it yielded; 0: it has that again */
    uint64_t pause_ns;        /* when the next pause is due; 0: slow start goes on */
};

/* Forgets what was seen, because the clock has jumped. The rate stays. */
void ab_scavenger_forget(struct ab_scavenger *scavenger);

/*
 * Takes in a sample; there are two in a round trip, at least 10 ms apart. Returns true if byte_per_s has changed; *why
 * then says the reason.
 */
bool ab_scavenger_sample(struct ab_scavenger *scavenger, const struct ab_scavenger_sample *sample, const char **why);

#endif
