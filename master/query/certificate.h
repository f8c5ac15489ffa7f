/*
 * What every analytic answer says about itself: what it used, what is lost or
 * missing, what cannot be seen. `complete` is false where a machine is
 * missing, a slave failed, or data was lost or damaged.
 * Source: DESIGN "The certificate".
 */
#ifndef IPS_MASTER_QUERY_CERTIFICATE_H
#define IPS_MASTER_QUERY_CERTIFICATE_H

#include "master/base/arena.h"
#include "master/query/query.h"

struct certificate {
    Ips__Certificate msg;
    size_t note_cap, detail_cap, gap_cap, scenario_cap, untraced_cap, load_cap;
};

/* From the parts' SyncAnswers (and PeersAnswers where there are). Everything
 * lives in the arena. */
void certificate_fill(const struct query *q, struct arena *a,
                      struct certificate *c);
void certificate_note(struct arena *a, struct certificate *c, const char *text);
/* A note that changes no decision. */
void certificate_detail(struct arena *a, struct certificate *c,
                        const char *text);
/* The answer lacks something: it is not complete, for the reason `text`. */
void certificate_gap(struct arena *a, struct certificate *c, const char *text);

/* ns of waits whose end has no arc. in_path: the path, over time, has them in
 * it; else the longest path, of computing, may be too short by up to so much. A
 * gap from a hundredth of the path and 10 ms on, else a note. */
void certificate_unended(struct arena *a, struct certificate *c, uint64_t ns,
                         uint64_t path_ns, bool in_path);

/* Is this cause of loss one that ipsrun --on-full=block avoids? */
bool certificate_lost_space(const char *cause);

/* How it was answered: the category of IPS-9, in words, and the time that the
 * master has taken. Call it last. */
void certificate_plan(const struct query *q, struct arena *a,
                      struct certificate *c, uint32_t category,
                      const char *plan);

/* A machine that answered has not closed the run: its answer is not kept. */
bool certificate_open(const struct query *q);
/* Some process of the run still lives on a machine that answered. */
bool certificate_goes_on(const struct query *q);

#endif
