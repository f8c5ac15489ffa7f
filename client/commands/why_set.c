/* Merges the findings of several runs (client/commands/why.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/diff.h"
#include "client/commands/why.h"

#define Z95 1.959963984540054

void why_compute_frequency_interval(unsigned k, unsigned n, double *low,
                                    double *high)
{
    double p = (double)k / n, z2 = Z95 * Z95;
    double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
    double half =
        Z95 * sqrt(p * (1 - p) / n + z2 / (4.0 * n * n)) / (1 + z2 / n);
    *low = k == 0 ? 0 : middle - half;
    *high = k == n ? 1 : middle + half;
}

static bool is_same_finding(const struct why_merged_finding *x,
                            const char *kind, const char *who,
                            const char *procedure)
{
    return strcmp(x->kind, kind) == 0 && strcmp(x->who, who) == 0 &&
           strcmp(x->procedure, procedure) == 0;
}

static struct why_merged_finding *
find_merged_finding(struct why_merged_findings *w, const char *kind,
                    const char *who, const char *procedure)
{
    for (size_t i = 0; i < w->count; i++) {
        if (is_same_finding(&w->seen[i], kind, who, procedure))
            return &w->seen[i];
    }
    return NULL;
}

static struct why_merged_finding *append_finding(struct why_merged_findings *w,
                                                 const char *kind,
                                                 const char *who,
                                                 const char *procedure)
{
    if (w->count == w->capacity) {
        size_t room = w->capacity * 2 + 16;
        struct why_merged_finding *more =
            realloc(w->seen, room * sizeof(*more));
        if (!more)
            return NULL;
        w->seen = more;
        w->capacity = room;
    }
    struct why_merged_finding *x = &w->seen[w->count];
    memset(x, 0, sizeof(*x));
    x->kind = strdup(kind);
    x->who = strdup(who);
    x->procedure = strdup(procedure);
    x->text = strdup("");
    w->count++;
    return x->kind && x->who && x->procedure && x->text ? x : NULL;
}

int why_merge_finding(struct why_merged_findings *w, unsigned run,
                      const char *kind, const char *object,
                      const char *procedure, const char *says, double share,
                      struct ips_err *err)
{
    char who[1024];
    diff_strip_process_ids(object ? object : "", who, sizeof(who));
    procedure = procedure ? procedure : "";
    struct why_merged_finding *x = find_merged_finding(w, kind, who, procedure);
    if (!x)
        x = append_finding(w, kind, who, procedure);
    if (!x)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    bool again = x->runs && x->run[x->runs - 1] == run;
    if (again && x->share[x->runs - 1] >= share)
        return 0;
    double best = 0;
    for (unsigned i = 0; i < x->runs; i++)
        best = fmax(best, x->share[i]);
    x->runs += !again;
    x->run[x->runs - 1] = run;
    x->share[x->runs - 1] = share;
    if (x->runs > 1 && share <= best)
        return 0;
    char *text = strdup(says);
    if (!text)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    free(x->text);
    x->text = text;
    return 0;
}

static double sum_gains(const struct why_merged_finding *x)
{
    double all = 0;
    for (unsigned i = 0; i < x->runs; i++)
        all += x->share[i];
    return all;
}

static int compare_findings_by_gain(const void *a, const void *b)
{
    const struct why_merged_finding *x = a, *y = b;
    double p = sum_gains(x), q = sum_gains(y);
    if (p < q || p > q)
        return p > q ? -1 : 1;
    if (x->runs != y->runs)
        return x->runs > y->runs ? -1 : 1;
    int c = strcmp(x->kind, y->kind);
    if (c == 0)
        c = strcmp(x->who, y->who);
    return c ? c : strcmp(x->procedure, y->procedure);
}

void why_sort_merged_findings(struct why_merged_findings *w)
{
    if (w->count)
        qsort(w->seen, w->count, sizeof(*w->seen), compare_findings_by_gain);
}

static int compare_gains(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

void why_compute_gain_statistics(const struct why_merged_finding *x,
                                 double *median, double *least,
                                 double *greatest)
{
    double v[WHY_RUNS_MAX];
    memcpy(v, x->share, x->runs * sizeof(*v));
    qsort(v, x->runs, sizeof(*v), compare_gains);
    *least = v[0];
    *greatest = v[x->runs - 1];
    *median = diff_median_of_measured(v, x->runs);
}

void why_release_merged_findings(struct why_merged_findings *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->seen[i].kind);
        free(w->seen[i].who);
        free(w->seen[i].procedure);
        free(w->seen[i].text);
    }
    free(w->seen);
    memset(w, 0, sizeof(*w));
}
