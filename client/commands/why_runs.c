/* `ipsq why` for several runs (client/commands/why.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/top_n.h"
#include "client/base/units.h"
#include "client/commands/why.h"

#define TABLE_TOP 10u

static const struct ipsq_column run_columns[] = {
    {"run", "RUN", IPSQ_TEXT},    {"wall_ns", "PATH", IPSQ_NS},
    {"own_ns", "ALONE", IPSQ_NS}, {"findings", "FINDINGS", IPSQ_COUNT},
    {"sure", "SURE", IPSQ_TEXT},  {"complete", "COMPLETE", IPSQ_BOOL},
};
static const struct ipsq_column finding_columns[] = {
    {"kind", NULL, IPSQ_TEXT},        {"object", NULL, IPSQ_TEXT},
    {"procedure", NULL, IPSQ_TEXT},   {"runs_with", NULL, IPSQ_COUNT},
    {"runs", NULL, IPSQ_COUNT},       {"often_low", NULL, IPSQ_SHARE},
    {"often_high", NULL, IPSQ_SHARE}, {"gain_share", NULL, IPSQ_SHARE},
    {"gain_least", NULL, IPSQ_SHARE}, {"gain_greatest", NULL, IPSQ_SHARE},
    {"says", NULL, IPSQ_TEXT},
};

struct compared_run {
    const char *run;
    uint64_t wall_ns, own_ns, findings;
    char sure[8];
    bool complete;
};
struct whole {
    struct why_merged_findings set;
    struct compared_run run[WHY_RUNS_MAX];
};

bool why_are_several_runs_named(const struct ipsq_options *o)
{
    return o->arg_count == 1 && strchr(o->args[0], ',');
}

static int find_and_append_named_run(struct whole *w, struct ipsq_session *s,
                                     const char *word, struct ips_err *err)
{
    unsigned at = w->set.runs;
    if (at == WHY_RUNS_MAX)
        return ips_err_set(err, IPS_E_USAGE, "at most %u runs", WHY_RUNS_MAX);
    int rc = ipsq_session_find_run(s, word, &w->run[at].run, err);
    for (unsigned i = 0; rc == 0 && i < at; i++) {
        if (strcmp(w->run[i].run, w->run[at].run) == 0)
            rc = ips_err_set(err, IPS_E_USAGE, "run %.120s is named twice",
                             w->run[at].run);
    }
    w->set.runs += rc == 0;
    return rc;
}

static int add_named_runs(struct whole *w, const struct ipsq_options *o,
                          struct ipsq_session *s, struct ips_err *err)
{
    int rc = 0;
    for (const char *from = o->args[0]; rc == 0;) {
        char word[256];
        size_t len = strcspn(from, ",");
        if (len == 0 || len >= sizeof(word))
            return ips_err_set(
                err, IPS_E_USAGE,
                "'%.80s': expected names of runs separated by commas",
                o->args[0]);
        memcpy(word, from, len);
        word[len] = '\0';
        rc = find_and_append_named_run(w, s, word, err);
        if (!from[len])
            break;
        from += len + 1;
    }
    return rc;
}

static int ask_and_add_findings(struct whole *w, unsigned i,
                                struct ipsq_session *s, Ips__Request *rq,
                                struct ips_err *err)
{
    const Ips__WhyAnswer *a = NULL;
    struct compared_run *t = &w->run[i];
    rq->run = ips_unconst_text(t->run);
    int rc = why_ask_and_retry_for_service(s, rq, &a, err);
    if (rc < 0)
        return rc;
    t->wall_ns = a->wall_ns;
    t->own_ns = a->own_ns;
    t->findings = a->n_findings;
    t->complete = ipsq_certificate_exit_status(a->certificate) == IPSQ_OK;
    snprintf(t->sure, sizeof(t->sure), "%s", a->sure);
    for (size_t k = 0; rc == 0 && k < a->n_findings; k++) {
        const Ips__WhyRow *r = a->findings[k];
        rc = why_merge_finding(&w->set, i, r->kind, r->object, r->procedure,
                               r->says, (double)r->gain_ppm / 1e6, err);
    }
    return rc;
}

static void put_runs(struct ipsq_out *out, const struct whole *w)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "runs", run_columns, IPSQ_COUNT_OF(run_columns));
    for (unsigned i = 0; i < w->set.runs; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(w->run[i].run);
        *cell++ = ipsq_count_cell(w->run[i].wall_ns);
        *cell++ = ipsq_count_cell(w->run[i].own_ns);
        *cell++ = ipsq_count_cell(w->run[i].findings);
        *cell++ = ipsq_text_cell(w->run[i].sure);
        *cell++ = ipsq_bool_cell(w->run[i].complete);
    }
    ipsq_out_write_table(out, &t, "the runs");
    ipsq_table_release(&t);
}

static void put_findings(struct ipsq_out *out,
                         const struct why_merged_findings *w, uint64_t top)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "findings", finding_columns,
                    IPSQ_COUNT_OF(finding_columns));
    for (size_t i = 0; i < w->count && (!top || i < top); i++) {
        const struct why_merged_finding *x = &w->seen[i];
        double median, least, greatest, low, high;
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        why_compute_gain_statistics(x, &median, &least, &greatest);
        why_compute_frequency_interval(x->runs, w->runs, &low, &high);
        *cell++ = ipsq_text_cell(x->kind);
        *cell++ = ipsq_text_cell(x->who);
        *cell++ = ipsq_text_cell(x->procedure);
        *cell++ = ipsq_count_cell(x->runs);
        *cell++ = ipsq_count_cell(w->runs);
        *cell++ = ipsq_real_cell(low);
        *cell++ = ipsq_real_cell(high);
        *cell++ = ipsq_real_cell(median);
        *cell++ = ipsq_real_cell(least);
        *cell++ = ipsq_real_cell(greatest);
        *cell++ = ipsq_text_cell(x->text);
    }
    size_t shown = t.row_count;
    ipsq_out_write_table(out, &t, NULL);
    ipsq_put_left_out_count(out, "findings", w->count - shown);
    ipsq_table_release(&t);
}

static void put_merged_findings_as_text(struct ipsq_out *out,
                                        const struct why_merged_findings *w,
                                        uint64_t top)
{
    for (size_t i = 0; i < w->count && i < top; i++) {
        const struct why_merged_finding *x = &w->seen[i];
        double median, least, greatest, low, high;
        char head[32];
        why_compute_gain_statistics(x, &median, &least, &greatest);
        why_compute_frequency_interval(x->runs, w->runs, &low, &high);
        snprintf(head, sizeof(head), "\n%2zu. ", i + 1);
        ipsq_out_write_prose_if_table(out, head, x->text, 4);
        ipsq_out_write_line_if_table(out,
                                     "    gain:  %.0f%%, from %.0f%% to %.0f%%",
                                     100 * median, 100 * least, 100 * greatest);
        ipsq_out_write_line_if_table(
            out,
            "    sure:  in %u of %u runs (of more, 95%%: in %.0f%% "
            "to %.0f%%)",
            x->runs, w->runs, 100 * low, 100 * high);
    }
    if (w->count == 0)
        ipsq_out_write_line_if_table(out,
                                     "\nNothing stands out in any of them.");
    if (w->count > top)
        ipsq_out_write_line_if_table(out, "\n%zu more are left out",
                                     w->count - (size_t)top);
}

static int print_findings_of_several_runs(const struct ipsq_options *o,
                                          const struct whole *w,
                                          struct ips_err *err)
{
    struct ipsq_out out;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "run_count", "runs",
                                    ipsq_count_cell(w->set.runs));
    if (o->format == IPSQ_TABLE)
        put_merged_findings_as_text(&out, &w->set, o->top ? o->top : TABLE_TOP);
    else
        put_findings(&out, &w->set, o->top);
    put_runs(&out, w);
    return ipsq_out_end(&out, err);
}

int why_answer_several_runs(const struct ipsq_options *o,
                            struct ipsq_session *s, Ips__Request *rq,
                            struct ips_err *err)
{
    struct whole *w = calloc(1, sizeof(*w));
    bool complete = true;
    if (!w)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    /* ask for all findings (0), because a finding below the top of this run may
     * be among the top of another run */
    rq->why->top = 0;
    int rc = add_named_runs(w, o, s, err);
    for (unsigned i = 0; rc == 0 && i < w->set.runs; i++) {
        rc = ask_and_add_findings(w, i, s, rq, err);
        complete = complete && w->run[i].complete;
    }
    if (rc == 0) {
        why_sort_merged_findings(&w->set);
        rc = print_findings_of_several_runs(o, w, err);
    }
    why_release_merged_findings(&w->set);
    free(w);
    return rc < 0 ? rc : complete ? IPSQ_OK : IPSQ_INCOMPLETE;
}
