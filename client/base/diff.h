/*
 * Compares two sets of runs (two sides), item by item: how the items of each
 * run make up its total, and which items cause the difference of the totals.
 * Pure.
 *
 * A run's items add up to its total. So the means of a side's items add up to
 * the mean of its totals, and the changes of the items add up to the change of
 * the total. This holds exactly in whole ns: rounding errors are corrected in
 * the items that rounding changed most.
 *
 * Is a change due to chance? With `DIFF_RUNS_MIN` runs on each side, a
 * permutation test decides: the runs are assigned to the two sides in all
 * possible ways or, if there are too many, in 9999 random ways. `p` of an item
 * is the share of ways in which any item differs by at least as much as this
 * item does (maxT of Westfall and Young, 1993), so the p-values hold for all
 * items together. The interval is the 95% bootstrap interval of the difference
 * of the means. Both use a fixed seed, so the same runs give the same answer.
 * With fewer runs, p and interval are NaN and no item is called a cause.
 * Source: DESIGN "Figures"; issue 5.
 */
#ifndef IPS_CLIENT_BASE_DIFF_H
#define IPS_CLIENT_BASE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* with fewer runs on a side `ipsq diff` names no cause */
#define DIFF_RUNS_MIN 5u
#define DIFF_RUNS_MAX 64u /* most runs of both sides together */
#define DIFF_CHANCE 0.05  /* a cause has at most this p-value */
/* a cause makes up at least 1/20 of the difference */
#define DIFF_PART 20

struct diff_item {
    char *kind, *name;
    uint64_t *v;  /* [runs] the value of the item in each run */
    int64_t a, b; /* means of the first and second side, rounded */
    /* change of the mean from the first side to the second; may differ from b -
     * a by rounding */
    int64_t change;
    double p;         /* p-value of the change; NaN: not computed */
    double low, high; /* 95% interval of the change; NaN: not computed */
    bool cause;       /* a cause of a difference that is not due to chance */
};
struct diff {
    /* number of all runs; the first `first` of them are the first side */
    unsigned runs, first;
    struct diff_item *item;
    size_t count, capacity;
    uint64_t total[DIFF_RUNS_MAX];
    /* the totals; without v, kind and name. `cause`: the sides differ by more
     * than chance */
    struct diff_item sum;
};

int diff_init(struct diff *d, unsigned first_side, unsigned second_side,
              struct ips_err *err) IPS_MUST_USE;
void diff_release(struct diff *d);
/* Adds `v` to the value that the item has in run number `run`, and to the total
 * of that run. */
int diff_add_value_of_run(struct diff *d, const char *kind, const char *name,
                          unsigned run, uint64_t v,
                          struct ips_err *err) IPS_MUST_USE;
/* Computes means, changes, p-values and intervals; sorts the items by the size
 * of their change. */
int diff_compute_changes(struct diff *d, struct ips_err *err) IPS_MUST_USE;

/* Copies `text` without process ids, which differ in every run: "/m1/a.812"
 * becomes "/m1/a", and "m1/a.3 -> m1/b.7#2" becomes "m1/a -> m1/b". */
void diff_strip_process_ids(const char *text, char *out, size_t size);

/* Returns the median of the measured values (those that are not NaN), or NaN if
 * there is none. */
double diff_median_of_measured(const double *v, unsigned n);
/* Computes the 95% bootstrap interval of the difference of the medians of two
 * sides; NaN if a side has fewer than DIFF_RUNS_MIN measured values. */
void diff_interval_of_median_change(const double *a, unsigned na,
                                    const double *b, unsigned nb, double *low,
                                    double *high);

#endif
