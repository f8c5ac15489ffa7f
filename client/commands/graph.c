#include <string.h>

#include "client/base/command.h"

static const struct ipsq_column columns[] = {
    {"id", "ID", IPSQ_COUNT},
    {"machine", "MACHINE", IPSQ_TEXT},
    {"pid", "PID", IPSQ_COUNT},
    {"tid", "TID", IPSQ_COUNT},
    {"kind", "KIND", IPSQ_TEXT},
    {"pred", "PRED", IPSQ_COUNT},
    {"arc_cpu_ns", "ARC NS", IPSQ_COUNT},
    {"arc_sched_ns", NULL, IPSQ_COUNT},
    {"arc_wall_ns", NULL, IPSQ_COUNT},
    {"arc_probe_ns", NULL, IPSQ_COUNT},
    {"xpred", "XPRED", IPSQ_COUNT},
    {"xarc_cpu_ns", "XARC NS", IPSQ_COUNT},
    {"xarc_sched_ns", NULL, IPSQ_COUNT},
    {"xarc_wall_ns", NULL, IPSQ_COUNT},
    {"xkind", "XKIND", IPSQ_TEXT},
    {"t_ns", NULL, IPSQ_COUNT},
    {"bytes", "BYTES", IPSQ_COUNT},
    {"channel", "CHANNEL", IPSQ_TEXT},
    {"arc_cut", NULL, IPSQ_TEXT},
    {"xarc_cut", NULL, IPSQ_TEXT},
};

struct stream {
    struct ipsq_out out;
    struct ipsq_table t;
    bool begun;
    const char *run;
    enum ipsq_format format;
    uint32_t phase;
    /* the window that the master reports; both 0: no window */
    uint64_t from_ns, to_ns;
};

static bool has_time_window(const struct stream *st)
{
    return st->from_ns || st->to_ns;
}

/* Writes the window; null: no window. A window without `to_ns` extends to the
 * end of the run. */
static void put_window(struct stream *st)
{
    ipsq_out_write_or_collect_value(
        &st->out, IPSQ_COUNT, "phase", st->phase ? "phase" : NULL,
        ipsq_count_cell(st->phase ? st->phase : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        &st->out, IPSQ_NS, "from_ns",
        has_time_window(st) ? "window from" : NULL,
        ipsq_count_cell(has_time_window(st) ? st->from_ns : IPS_UNMEASURED));
    ipsq_out_write_or_collect_value(
        &st->out, IPSQ_NS, "to_ns", st->to_ns ? "window to" : NULL,
        ipsq_count_cell(st->to_ns ? st->to_ns : IPS_UNMEASURED));
}

static void begin_output_once(struct stream *st)
{
    if (st->begun)
        return;
    st->begun = true;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&st->out, stdout, st->format, false);
    if (st->format == IPSQ_JSON)
        ipsq_out_write_or_collect_value(&st->out, IPSQ_TEXT, "run", NULL,
                                        ipsq_text_cell(st->run));
    if (st->format == IPSQ_JSON ||
        (st->format == IPSQ_TABLE && has_time_window(st)))
        put_window(st);
    ipsq_out_table_begin(&st->out, &st->t, NULL);
}

static void add_row(struct ipsq_table *t, const Ips__GraphNode *row)
{
    bool none = !row->xkind || strcmp(row->xkind, "none") == 0;
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_count_cell(row->id);
    *cell++ = ipsq_text_cell(row->machine);
    *cell++ = ipsq_count_cell(row->pid);
    *cell++ = ipsq_count_cell(row->tid);
    *cell++ = ipsq_text_cell(row->kind);
    *cell++ = ipsq_count_cell(row->pred);
    *cell++ = ipsq_count_cell(row->arc_cpu_ns);
    *cell++ = ipsq_count_cell(row->arc_sched_ns);
    *cell++ = ipsq_count_cell(row->arc_wall_ns);
    *cell++ = ipsq_count_cell(row->arc_probe_ns);
    *cell++ = ipsq_count_cell(row->xpred);
    *cell++ = ipsq_count_cell(row->xarc_cpu_ns);
    *cell++ = ipsq_count_cell(row->xarc_sched_ns);
    *cell++ = ipsq_count_cell(row->xarc_wall_ns);
    *cell++ = ipsq_text_cell(none ? NULL : row->xkind);
    *cell++ = ipsq_count_cell(row->t_ns);
    *cell++ = ipsq_count_cell(row->bytes);
    *cell++ = ipsq_text_cell(row->channel);
    *cell++ = ipsq_text_cell(*row->arc_cut ? row->arc_cut : NULL);
    *cell++ = ipsq_text_cell(*row->xarc_cut ? row->xarc_cut : NULL);
}

static int print_reply_nodes(const Ips__Reply *reply, void *arg,
                             struct ips_err *err)
{
    struct stream *st = arg;
    int rc = ipsq_check_answer_kind(reply, IPS__REPLY__ANSWER_GRAPH, err);
    if (rc < 0)
        return rc;
    st->from_ns = reply->graph->from_ns;
    st->to_ns = reply->graph->to_ns;
    begin_output_once(st);
    for (size_t i = 0; i < reply->graph->n_nodes; i++)
        add_row(&st->t, reply->graph->nodes[i]);
    ipsq_out_write_and_clear_rows(&st->out, &st->t);
    return 0;
}

static int run_graph(const struct ipsq_command *self,
                     const struct ipsq_options *o, struct ipsq_session *s,
                     struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__GraphAsk ask = IPS__GRAPH_ASK__INIT;
    struct stream st = {.format = o->format, .phase = o->phase};
    (void)self;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    rq.ask_case = IPS__REQUEST__ASK_GRAPH;
    rq.graph = &ask;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc < 0)
        return rc;
    st.run = rq.run;
    ipsq_table_init(&st.t, "nodes", columns, IPSQ_COUNT_OF(columns));
    rc = ipsq_session_ask(s, &rq, true, print_reply_nodes, &st, NULL, err);
    if (rc == 0) {
        begin_output_once(&st);
        ipsq_out_table_end(&st.out, &st.t);
        rc = ipsq_out_end(&st.out, err);
    }
    ipsq_table_release(&st.t);
    return rc;
}

const struct ipsq_command ipsq_cmd_graph = {
    .name = "graph",
    .usage = "[RUN] [--format jsonl] [--from TIME] [--to TIME] [--phase N]",
    .summary = "the activity graph, one node a line",
    .group = IPSQ_DRILL,
    .examples = "  ipsq graph run3 --phase 2\n"
                "  ipsq graph run3 --format jsonl > graph.jsonl\n",
    .help = "Use it to compute your own answers. A node is a point in the "
            "execution of "
            "a thread. PRED is the node before it in the same thread. XPRED is "
            "the node of another thread, or the external cause, on which it "
            "depends. The "
            "weight of a chain arc is CPU time; XARC is the time of "
            "the message or wait, with message times 0. A window has "
            "the nodes inside it and those with an arc that overlaps "
            "it; arc_cut and xarc_cut say which part of the arc is "
            "outside (none, begin, end, both, all).\n",
    .options = IPSQ_HAS(FROM) | IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_ALL,
    .max_args = 1,
    .run = run_graph,
};
