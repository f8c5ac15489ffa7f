#include <string.h>

#include "client/base/command.h"
#include "client/base/top_n.h"
#include "client/base/units.h"
#include "common/types.h"

/* rows of the ranking that the table shows without --top */
#define TABLE_TOP 20
/* default of --faster in the ranking, ppm: twice as fast */
#define RANK_PPM 500000

static const struct ipsq_column edit_columns[] = {
    {"faster_by", "FASTER BY", IPSQ_SHARE},
    {"gain_ns", "GAIN", IPSQ_NS},
    {"gain_share", "OF PATH", IPSQ_SHARE},
    {"bound_ns", "AT MOST", IPSQ_NS},
    {"t_max_ns", "PATH THEN", IPSQ_NS},
    {"share_ns", "ON PATH", IPSQ_NS},
    {"total_ns", "TOTAL", IPSQ_NS},
    {"any", "LOCKS", IPSQ_COUNT},
    {"kind", "KIND", IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},
    {"object", "WHAT", IPSQ_TEXT},
};

static void put_row(struct ipsq_table *t, const Ips__WhatifRow *r,
                    uint64_t t_max)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ =
        ipsq_real_cell(r->ppm ? (double)r->ppm / 1e6 : IPS_UNMEASURED_REAL);
    *cell++ = ipsq_count_cell(r->gain_ns);
    *cell++ = ipsq_real_cell(t_max ? (double)r->gain_ns / (double)t_max
                                   : IPS_UNMEASURED_REAL);
    *cell++ = ipsq_count_cell(r->bound_ns);
    *cell++ = ipsq_count_cell(r->t_max_ns);
    *cell++ = ipsq_count_cell(r->share_ns);
    *cell++ = ipsq_count_cell(r->total_ns);
    *cell++ = ipsq_count_cell(r->any);
    *cell++ = ipsq_text_cell(r->kind);
    *cell++ = ipsq_text_cell(r->place);
    *cell++ = ipsq_text_cell(r->object);
}

static void put_rows(struct ipsq_out *out, const char *name,
                     const char *heading, Ips__WhatifRow **rows, size_t count,
                     const Ips__WhatifRow *all, uint64_t t_max)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, edit_columns, IPSQ_COUNT_OF(edit_columns));
    t.spare_columns = "any total_ns t_max_ns faster_by kind";
    for (size_t i = 0; i < count; i++)
        put_row(&t, rows[i], t_max);
    if (all && count > 1)
        put_row(&t, all, t_max);
    ipsq_out_write_table(out, &t, heading);
    ipsq_table_release(&t);
}

static void print_whatif_summary(struct ipsq_out *out, const char *run_name,
                                 bool windowed, const Ips__WhatifAnswer *a)
{
    bool known = a->elapsed_ns && a->elapsed_ns != IPS_UNMEASURED;
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "open",
                                    a->open ? "still open" : NULL,
                                    ipsq_bool_cell(a->open));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "weighting", "weighting",
                                    ipsq_text_cell(a->weighting));
    bool goal = *a->goal;
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "goal",
                                    goal ? "ends with" : NULL,
                                    ipsq_text_cell(goal ? a->goal : NULL));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "category", NULL,
                                    ipsq_text_cell(a->category));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "t_max_ns", "critical path",
                                    ipsq_count_cell(a->t_max_ns));
    if (windowed)
        ipsq_out_write_or_collect_value(out, IPSQ_NS, "window_ns",
                                        "of it in the window",
                                        ipsq_count_cell(a->window_ns));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "elapsed_ns", "elapsed",
        ipsq_count_cell(known ? a->elapsed_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "total_cpu_ns", "total CPU",
                                    ipsq_count_cell(a->total_cpu_ns));
    if (a->all) {
        ipsq_out_write_or_collect_value(out, IPSQ_NS, "gain_ns", "gain",
                                        ipsq_count_cell(a->all->gain_ns));
        ipsq_out_write_or_collect_value(out, IPSQ_NS, "bound_ns", "at most",
                                        ipsq_count_cell(a->all->bound_ns));
        ipsq_out_write_or_collect_value(out, IPSQ_NS, "t_max_then_ns",
                                        "path then",
                                        ipsq_count_cell(a->all->t_max_ns));
    }
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "took_ns", NULL,
                                    ipsq_count_cell(a->took_ns));
}

static int print_whatif(const struct ipsq_options *o, const char *run_name,
                        bool rank, const Ips__WhatifAnswer *a,
                        struct ips_err *err)
{
    struct ipsq_out out;
    char by[IPSQ_UNIT_BYTES], heading[160];
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    print_whatif_summary(&out, run_name, ipsq_has_window(o), a);
    if (rank) {
        ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "candidates", NULL,
                                        ipsq_count_cell(a->candidates));
        ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "computed", NULL,
                                        ipsq_count_cell(a->computed));
    }
    /* puts a blank line between the values and the first table */
    out.parts_written = 1;
    if (a->n_edits)
        put_rows(&out, "edits",
                 "the effect of each change alone, then of all together",
                 a->edits, a->n_edits, a->all, a->t_max_ns);
    if (rank && (a->n_ranking || o->format != IPSQ_TABLE)) {
        ipsq_format_share(a->n_ranking ? (double)a->ranking[0]->ppm / 1e6 : 0,
                          by);
        snprintf(heading, sizeof(heading),
                 "what would help most if it were faster by %s", by);
        put_rows(&out, "ranking", heading, a->ranking, a->n_ranking, NULL,
                 a->t_max_ns);
        ipsq_put_left_out_count(&out, "ranking",
                                ips_sub_sat(a->candidates, a->n_ranking));
    } else if (rank) {
        ipsq_out_write_line_if_table(&out, "\nno single change would help");
    }
    int rc = ipsq_out_end(&out, err);
    return rc < 0 ? rc : ipsq_certificate_exit_status(a->certificate);
}

static void fill_edits(const struct ipsq_options *o, Ips__WhatifEdit *rows,
                       Ips__WhatifEdit **list, Ips__WhatifAsk *ask)
{
    for (unsigned i = 0; i < o->edit_count; i++) {
        const struct ipsq_edit *e = &o->edit[i];
        ips__whatif_edit__init(&rows[i]);
        rows[i].procedure = ips_unconst_text(e->procedure ? e->procedure : "");
        rows[i].process = ips_unconst_text(e->process ? e->process : "");
        rows[i].message = ips_unconst_text(e->message ? e->message : "");
        rows[i].object = ips_unconst_text(e->object ? e->object : "");
        rows[i].ppm = e->ppm ? e->ppm : IPSQ_GONE;
        list[i] = &rows[i];
    }
    ask->n_edits = o->edit_count;
    ask->edits = list;
}

static int run_whatif(const struct ipsq_command *self,
                      const struct ipsq_options *o, struct ipsq_session *s,
                      struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__WhatifAsk ask = IPS__WHATIF_ASK__INIT;
    Ips__WhatifEdit rows[IPSQ_EDITS_MAX], *list[IPSQ_EDITS_MAX];
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    (void)self;
    ipsq_fill_scenario(o, &scenario);
    ask.lane = &scenario;
    ask.weighting = ips_unconst_text(o->weighting);
    ask.goal = ips_unconst_text(o->goal ? o->goal : "");
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    fill_edits(o, rows, list, &ask);
    ask.rank = o->rank || o->edit_count == 0;
    ask.rank_ppm = o->faster_ppm ? o->faster_ppm : RANK_PPM;
    ask.top = o->top || o->format != IPSQ_TABLE ? o->top : TABLE_TOP;
    rq.ask_case = IPS__REQUEST__ASK_WHATIF;
    rq.whatif = &ask;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_WHATIF, err);
    return rc < 0 ? rc : print_whatif(o, rq.run, ask.rank, last->whatif, err);
}

const struct ipsq_command ipsq_cmd_whatif = {
    .name = "whatif",
    .usage =
        "[RUN] [WHAT... [--faster BY | --gone]]... [--rank]\n"
        "                   [--weighting W] [--goal OBJECT] [--mtime SPEC]\n"
        "                   [--external WHICH] [--top N] [--from TIME] [--to "
        "TIME]\n"
        "                   [--phase N]",
    .summary = "the gain if something were faster",
    .group = IPSQ_PREDICT,
    .examples = "  ipsq whatif run3\n"
                "  ipsq whatif run3 --procedure parse --faster 2x\n",
    .help = "WHAT is --procedure, --process, --message or --object. Options of "
            "different kinds narrow the same edit; an option of the same kind "
            "begins another edit. --faster or --gone (the default) applies to "
            "all edits since the last one of these. The answer has all edits "
            "made together, and each alone.\n"
            "GAIN is how much shorter the critical path becomes. AT MOST is "
            "the time saved on the present path; if GAIN is less, another path "
            "becomes critical. Without WHAT, or with --rank, the answer lists "
            "what would help most by machine, process, procedure and message, "
            "each 50% faster or as --faster says.\n"
            "With --from, --to or --phase, the prediction makes only the work "
            "in that window faster. ON PATH, TOTAL and AT MOST then count the "
            "window only; GAIN is still the time saved in the whole run. Gains "
            "assume a core for each thread and "
            "the recorded order of locks; the certificate says where that "
            "order could change.\n",
    .options = IPSQ_HAS(FRESH) | IPSQ_HAS(PROCEDURE) | IPSQ_HAS(PROCESS) |
               IPSQ_HAS(MESSAGE) | IPSQ_HAS(OBJECT) | IPSQ_HAS(FASTER) |
               IPSQ_HAS(GONE) | IPSQ_HAS(RANK) | IPSQ_HAS(MTIME) |
               IPSQ_HAS(EXTERNAL) | IPSQ_HAS(TOP) | IPSQ_HAS(WEIGHTING) |
               IPSQ_HAS(GOAL) | IPSQ_HAS(FROM) | IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = 1,
    .run = run_whatif,
};
