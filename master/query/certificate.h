/*
 * The statement that comes with every analytic answer: what data was used,
 * what is lost or missing, and what cannot be seen. `complete` is false if a
 * machine is missing, a slave failed, or data was lost or damaged. Source:
 * DESIGN "The certificate".
 */
#ifndef IPS_MASTER_QUERY_CERTIFICATE_H
#define IPS_MASTER_QUERY_CERTIFICATE_H

#include "master/base/arena.h"
#include "master/query/query.h"

struct certificate {
    Ips__Certificate msg;
    size_t note_cap, detail_cap, gap_cap, scenario_cap, untraced_cap, load_cap;
};

/* Fills the certificate from the SyncAnswers of the machines of `q` and, where
 * present, their PeersAnswers. Everything is allocated in the arena. */
void certificate_fill(const struct query *q, struct arena *a,
                      struct certificate *c);
void certificate_add_note(struct arena *a, struct certificate *c,
                          const char *text);
/* Adds a note of less importance, which changes no decision of the reader. */
void certificate_add_detail(struct arena *a, struct certificate *c,
                            const char *text);
/* Marks the answer incomplete, for the reason `text`. */
void certificate_add_gap_and_mark_incomplete(struct arena *a,
                                             struct certificate *c,
                                             const char *text);

/* Reports `ns` of waits that ended without a known waker (no arc). in_path:
 * the path follows elapsed time and contains these waits; otherwise the
 * longest path, which counts only computing, may be up to `ns` too short. They
 * make the answer incomplete from 1% of the path and 10 ms upwards; smaller
 * amounts are a note. */
void certificate_report_waits_with_unknown_waker(struct arena *a,
                                                 struct certificate *c,
                                                 uint64_t ns, uint64_t path_ns,
                                                 bool in_path);

/* Whether ipsrun --on-full=block avoids this cause of loss. */
bool certificate_is_cause_lack_of_space(const char *cause);

/* Sets how the question was answered: its category of IPS-9, the source of the
 * data in words (`plan`), and the time that the master took. To be called last.
 */
void certificate_set_category_and_source(const struct query *q, struct arena *a,
                                         struct certificate *c,
                                         uint32_t category, const char *plan);

/* Whether the run is still open on a machine that answered; then the answer is
 * not cached. */
bool certificate_run_is_open(const struct query *q);
/* Whether a process of the run is still alive on a machine that answered. */
bool certificate_has_live_process(const struct query *q);

#endif
