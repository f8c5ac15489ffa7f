/*
 * `ipsq why` about several runs: the findings of each, put together by kind, by
 * who does it and by procedure (numbers of processes left out, as `ipsq diff`
 * does), with in how many of the runs they were made and their gain there. How
 * sure a frequency of k in n is says its 95% interval (Wilson 1927). Pure but
 * for why_ask and why_runs.
 */
#ifndef IPS_CLIENT_COMMANDS_WHY_H
#define IPS_CLIENT_COMMANDS_WHY_H

#include "client/base/command.h"

#define WHY_RUNS_MAX 64u

struct why_seen { /* one finding, of all runs */
    char *kind, *who, *procedure, *text;
    unsigned runs;              /* that have it */
    unsigned run[WHY_RUNS_MAX]; /* which, in order */
    double share[WHY_RUNS_MAX]; /* its gain there, of the run's own time */
};
struct why_set {
    unsigned runs;
    struct why_seen *seen;
    size_t count, capacity;
};

/* A finding of run number `run` (they come in order); one that the run has
 * twice counts once, with its greater gain. */
int why_set_add(struct why_set *w, unsigned run, const char *kind,
                const char *object, const char *procedure, const char *says,
                double share, struct ips_err *err) IPS_MUST_USE;
/* By the mean of the gains over all runs, 0 where it was not made. */
void why_set_sort(struct why_set *w);
void why_set_release(struct why_set *w);
/* Median, least and greatest gain of the runs that have it. */
void why_seen_gain(const struct why_seen *x, double *median, double *least,
                   double *greatest);
/* Where the frequency of k in n > 0 lies, 95%. */
void why_wilson(unsigned k, unsigned n, double *low, double *high);

/* Asks about rq->run as rq->why says; where that leaves it open (`answer` "")
 * and the run is a service, about its requests. *out is the session's. */
int why_ask(struct ipsq_session *s, Ips__Request *rq,
            const Ips__WhyAnswer **out, struct ips_err *err) IPS_MUST_USE;

/* Does the command line name more than one run? */
bool why_names_several(const struct ipsq_options *o);
int why_runs(const struct ipsq_options *o, struct ipsq_session *s,
             Ips__Request *rq, struct ips_err *err) IPS_MUST_USE;

#endif
