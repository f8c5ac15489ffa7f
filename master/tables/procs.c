#include "master/tables/procs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"

#define Z95 1.959963984540054 /* 97.5% quantile of the normal distribution */

static int compare_procedures_by_key(const void *va, const void *vb)
{
    const Ips__ProcedureRow *a = *(Ips__ProcedureRow *const *)va;
    const Ips__ProcedureRow *b = *(Ips__ProcedureRow *const *)vb;
    int d = strcmp(a->object, b->object);
    if (d == 0)
        d = strcmp(a->procedure, b->procedure);
    if (d == 0)
        d = strcmp(a->module, b->module);
    if (d == 0)
        d = strcmp(a->file, b->file);
    return d ? d : (a->line > b->line) - (a->line < b->line);
}

static int compare_procedures_by_time(const void *va, const void *vb)
{
    const Ips__ProcedureRow *a = *(Ips__ProcedureRow *const *)va;
    const Ips__ProcedureRow *b = *(Ips__ProcedureRow *const *)vb;
    if (a->self_ns != b->self_ns)
        return a->self_ns < b->self_ns ? 1 : -1;
    if (a->total_ns != b->total_ns)
        return a->total_ns < b->total_ns ? 1 : -1;
    return compare_procedures_by_key(va, vb);
}

static void add_values_to_procedure_row(Ips__ProcedureRow *into,
                                        const Ips__ProcedureRow *r)
{
    into->self_ns = ips_add_sat(into->self_ns, r->self_ns);
    into->total_ns = ips_add_sat(into->total_ns, r->total_ns);
    into->samples = ips_add_sat(into->samples, r->samples);
    if (into->calls == IPS_UNMEASURED)
        into->calls = r->calls;
    else if (r->calls != IPS_UNMEASURED)
        into->calls = ips_add_sat(into->calls, r->calls);
    into->exact = into->exact || r->exact;
    if (r->counted_from_ns &&
        (!into->counted_from_ns || r->counted_from_ns < into->counted_from_ns))
        into->counted_from_ns = r->counted_from_ns;
}

size_t procs_merge(Ips__ProcedureRow **rows, size_t count)
{
    size_t n = 0;
    if (count == 0)
        return 0;
    qsort(rows, count, sizeof(Ips__ProcedureRow *), compare_procedures_by_key);
    for (size_t i = 0; i < count; i++) {
        if (n > 0 && compare_procedures_by_key(&rows[n - 1], &rows[i]) == 0)
            add_values_to_procedure_row(rows[n - 1], rows[i]);
        else
            rows[n++] = rows[i];
    }
    qsort(rows, n, sizeof(Ips__ProcedureRow *), compare_procedures_by_time);
    return n;
}

bool procs_set_path_ns(Ips__ProcedureRow **rows, size_t count,
                       Ips__ProcedureRow *const *path, size_t path_count)
{
    Ips__ProcedureRow **a = malloc((count + 1) * sizeof(*a));
    Ips__ProcedureRow **b = malloc((path_count + 1) * sizeof(*b));
    bool fine = a && b;
    if (fine && count) {
        memcpy(a, rows, count * sizeof(*a));
        qsort(a, count, sizeof(*a), compare_procedures_by_key);
    }
    if (fine && path_count) {
        memcpy(b, path, path_count * sizeof(*b));
        qsort(b, path_count, sizeof(*b), compare_procedures_by_key);
    }
    for (size_t i = 0, k = 0; fine && i < count; i++) {
        while (k < path_count && compare_procedures_by_key(&b[k], &a[i]) < 0)
            k++;
        a[i]->path_ns =
            k < path_count && compare_procedures_by_key(&b[k], &a[i]) == 0
                ? b[k]->self_ns
                : 0;
    }
    free(a);
    free(b);
    return fine;
}

void procs_wilson_interval(double p, double n, double *low, double *high)
{
    *low = 0;
    *high = 1;
    if (!(n > 0) || !(p >= 0) || !(p <= 1))
        return;
    double z2 = Z95 * Z95;
    double middle = p + z2 / (2 * n);
    double spread = Z95 * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    *low = fmax(0, (middle - spread) / (1 + z2 / n));
    *high = fmin(1, (middle + spread) / (1 + z2 / n));
}

/* Rounds `ns`, and limits it to the range of the type. */
static uint64_t round_to_ns(double ns)
{
    return ns >= 9e18 ? UINT64_MAX : (uint64_t)llround(ns);
}

void procs_compute_intervals(Ips__ProcedureRow **rows, size_t count,
                             const Ips__ProcedureTotals *t)
{
    double sampled = (double)ips_sub_sat(t->sampled_ns, t->exact_ns);
    /* CPU time without a sample may belong to any procedure, so it is added to
     * every upper limit. */
    const uint64_t unsampled = t->unsampled_ns;
    double n = t->squares > 0 ? sampled * sampled / t->squares : 0;
    for (size_t i = 0; i < count; i++) {
        Ips__ProcedureRow *r = rows[i];
        double low, high;
        r->self_low_ns = r->self_high_ns =
            r->exact ? r->self_ns : IPS_UNMEASURED;
        r->total_low_ns = r->total_high_ns =
            r->exact ? r->total_ns : IPS_UNMEASURED;
        if (r->total_ns && !r->exact && sampled > 0) {
            double p = fmin(1, (double)r->total_ns / sampled);
            procs_wilson_interval(p, n, &low, &high);
            r->total_low_ns =
                ips_min_u64(r->total_ns, round_to_ns(low * sampled));
            r->total_high_ns = ips_max_u64(
                r->total_ns,
                ips_add_sat(round_to_ns(high * sampled), unsampled));
        }
        if (r->samples == 0 || r->exact || !(sampled > 0))
            continue;
        procs_wilson_interval((double)r->self_ns / sampled, n, &low, &high);
        r->self_low_ns = ips_min_u64(r->self_ns, round_to_ns(low * sampled));
        r->self_high_ns = ips_max_u64(
            r->self_ns, ips_add_sat(round_to_ns(high * sampled), unsampled));
    }
}

void procs_add_up_totals(Ips__ProcedureTotals *sum,
                         const Ips__ProcedureTotals *more)
{
    sum->cpu_ns = ips_add_sat(sum->cpu_ns, more->cpu_ns);
    sum->sampled_ns = ips_add_sat(sum->sampled_ns, more->sampled_ns);
    sum->unsampled_ns = ips_add_sat(sum->unsampled_ns, more->unsampled_ns);
    sum->samples = ips_add_sat(sum->samples, more->samples);
    sum->asked_ns = ips_add_sat(sum->asked_ns, more->asked_ns);
    sum->exact_ns = ips_add_sat(sum->exact_ns, more->exact_ns);
    sum->squares += more->squares;
    sum->threads = ips_add_sat(sum->threads, more->threads);
    sum->calls = ips_add_sat(sum->calls, more->calls);
    sum->called = ips_add_sat(sum->called, more->called);
    sum->exact_threads = ips_add_sat(sum->exact_threads, more->exact_threads);
}

void procs_explain_missing_procedures(uint64_t sample_ns,
                                      char out[PROCS_NONE_BYTES])
{
    unsigned ms = (unsigned)(sample_ns / 1000000);
    if (sample_ns == 0)
        snprintf(
            out, PROCS_NONE_BYTES,
            "procedures were not recorded: use ipsrun --procedures=sample");
    else
        snprintf(out, PROCS_NONE_BYTES,
                 "no thread used enough CPU time for a sample, taken every %u "
                 "ms%s",
                 ms, ms > 1 ? " (ipsrun --rate 1 samples every 1 ms)" : "");
}
