/*
 * `ipsq why` about several runs. Merges the findings of all runs by kind,
 * object and procedure (without process ids, as `ipsq diff` does), and counts
 * in how many runs each was made and with which gain. A frequency of k in n
 * runs is shown with its 95% interval (Wilson 1927). Pure, except for
 * why_ask_and_retry_for_service and why_answer_several_runs.
 */
#ifndef IPS_CLIENT_COMMANDS_WHY_H
#define IPS_CLIENT_COMMANDS_WHY_H

#include "client/base/command.h"

#define WHY_RUNS_MAX 64u

struct why_merged_finding { /* one finding, merged over all runs */
    char *kind, *who, *procedure, *text;
    unsigned runs; /* number of runs that have the finding */
    /* numbers of the runs that have the finding, ascending */
    unsigned run[WHY_RUNS_MAX];
    /* gain of the finding in each of these runs, as a fraction of the run's
     * time */
    double share[WHY_RUNS_MAX];
};
struct why_merged_findings {
    unsigned runs;
    struct why_merged_finding *seen;
    size_t count, capacity;
};

/* Adds a finding of run number `run`; runs come in ascending order. A finding
 * made twice in one run counts once, with its greater gain. */
int why_merge_finding(struct why_merged_findings *w, unsigned run,
                      const char *kind, const char *object,
                      const char *procedure, const char *says, double share,
                      struct ips_err *err) IPS_MUST_USE;
/* Sorts the findings by their mean gain over all runs, greatest first; a run
 * without the finding counts as 0. */
void why_sort_merged_findings(struct why_merged_findings *w);
void why_release_merged_findings(struct why_merged_findings *w);
/* Computes the median, least and greatest gain in the runs that have the
 * finding. */
void why_compute_gain_statistics(const struct why_merged_finding *x,
                                 double *median, double *least,
                                 double *greatest);
/* Computes the 95% interval (Wilson) of a frequency that was observed as k in
 * n; n > 0. */
void why_compute_frequency_interval(unsigned k, unsigned n, double *low,
                                    double *high);

/* Sends the request rq->why about rq->run to the master. If rq->why->answer is
 * "" (no particular kind of answer) and the run is a service, asks about its
 * requests or, if none are known, about the elapsed time. *out belongs to the
 * session. */
int why_ask_and_retry_for_service(struct ipsq_session *s, Ips__Request *rq,
                                  const Ips__WhyAnswer **out,
                                  struct ips_err *err) IPS_MUST_USE;

/* Whether the command line names several runs. */
bool why_are_several_runs_named(const struct ipsq_options *o);
/* Runs `ipsq why` for several runs: sends the request `rq` for each, merges the
 * findings and prints them. Returns an exit status, or a negative code. */
int why_answer_several_runs(const struct ipsq_options *o,
                            struct ipsq_session *s, Ips__Request *rq,
                            struct ips_err *err) IPS_MUST_USE;

#endif
