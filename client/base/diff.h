/*
 * Two sets of runs against each other: what each run's total is made of, item
 * by item, and which items the difference of the totals comes from. Pure.
 *
 * A run's items add up to its total (the caller sees to it), so the means of a
 * side's items add up to the mean of its totals, and the differences of the
 * means to the difference of the totals: in whole ns exactly, since what
 * rounding leaves is dealt out to the items it was taken from most.
 *
 * Is it chance? With `DIFF_RUNS_MIN` runs on each side: the runs are dealt to
 * the two sides anew, in all ways or, where there are too many, in 9999 drawn
 * ones, and `p` of an item is the share of ways in which any item at all
 * differs by as much as this one does (Westfall and Young 1993, of the
 * greatest): so p holds for all items together. The interval is the
 * bootstrap's, 95%, of the difference of the means. Both draw from a fixed
 * seed: equal runs, equal answers. With fewer runs neither is told, and nothing
 * is a cause. Source: DESIGN "Figures"; issue 5.
 */
#ifndef IPS_CLIENT_BASE_DIFF_H
#define IPS_CLIENT_BASE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DIFF_RUNS_MIN 5u  /* of a side, for a cause to be named */
#define DIFF_RUNS_MAX 64u /* of both */
#define DIFF_CHANCE 0.05
#define DIFF_PART 20 /* of the difference */

struct diff_item {
    char *kind, *name;
    uint64_t *v;      /* [runs] */
    int64_t a, b;     /* means, rounded; b - a is `change` */
    int64_t change;   /* of the mean from the first side to the second */
    double p;         /* NaN: not told */
    double low, high; /* of the change; NaN */
    bool cause;       /* of a difference that is none by chance */
};
struct diff {
    unsigned runs, first; /* of them the first side's; the others follow */
    struct diff_item *item;
    size_t count, capacity;
    uint64_t total[DIFF_RUNS_MAX];
    struct diff_item sum; /* of the totals; no v, kind or name */
};

int diff_init(struct diff *d, unsigned first_side, unsigned second_side,
              struct ips_err *err) IPS_MUST_USE;
void diff_release(struct diff *d);
/* Adds `v` to this item of run `run`, and to the run's total. */
int diff_add(struct diff *d, const char *kind, const char *name, unsigned run,
             uint64_t v, struct ips_err *err) IPS_MUST_USE;
/* Means, changes, p and intervals; items by the size of their change. */
int diff_solve(struct diff *d, struct ips_err *err) IPS_MUST_USE;

/* `text` without the numbers of processes: "/m1/a.812" is "/m1/a", "m1/a.3 ->
 * m1/b.7#2" "m1/a -> m1/b". They are others in every run. */
void diff_plain(const char *text, char *out, size_t size);

/* Median of `n` > 0 values, and 95% bootstrap interval of the difference of the
 * medians of two sides (NaN with fewer than DIFF_RUNS_MIN of either). */
double diff_median(const double *v, unsigned n);
void diff_medians(const double *a, unsigned na, const double *b, unsigned nb,
                  double *low, double *high);

#endif
