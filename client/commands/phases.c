#include <stdlib.h>

#include "client/base/command.h"
#include "client/base/strip.h"
#include "client/base/terminal.h"
#include "client/base/units.h"
#include "common/types.h"

static const struct ipsq_column columns[] = {
    {"phase", "PHASE", IPSQ_COUNT},
    {"from_ns", "FROM", IPSQ_NS},
    {"to_ns", "TO", IPSQ_NS},
    {"length_ns", "LENGTH", IPSQ_NS},
    {"cpu_ns", NULL, IPSQ_NS},
    {"cores_used", "CORES", IPSQ_REAL},
    {"messages", NULL, IPSQ_COUNT},
    {"messages_per_s", "MESSAGES/S", IPSQ_REAL},
    {"bytes", NULL, IPSQ_BYTES},
    {"bytes_per_s", "BYTES/S", IPSQ_BYTES},
    {"wait_ns", NULL, IPSQ_NS},
    {"threads_waiting", "WAITING", IPSQ_REAL},
    {"process", "MOST CPU", IPSQ_TEXT},
    {"process_ns", NULL, IPSQ_NS},
    {"procedure", "IN", IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},
    {"procedure_ns", NULL, IPSQ_NS},
};
static const struct ipsq_column bin_columns[] = {
    {"from_ns", NULL, IPSQ_NS},     {"cpu_ns", NULL, IPSQ_NS},
    {"messages", NULL, IPSQ_COUNT}, {"bytes", NULL, IPSQ_BYTES},
    {"wait_ns", NULL, IPSQ_NS},
};
static const struct ipsq_column end_columns[] = {{"to_ns", NULL, IPSQ_NS}};

static double compute_rate(uint64_t n, uint64_t ns)
{
    return ns ? (double)n / (double)ns * 1e9 : IPS_UNMEASURED_REAL;
}

static void add_phase(struct ipsq_table *t, const Ips__PhaseRow *r)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    uint64_t ns = ips_sub_sat(r->to_ns, r->from_ns);
    *cell++ = ipsq_count_cell(r->number);
    *cell++ = ipsq_count_cell(r->from_ns);
    *cell++ = ipsq_count_cell(r->to_ns);
    *cell++ = ipsq_count_cell(ns);
    *cell++ = ipsq_count_cell(r->cpu_ns);
    *cell++ = ipsq_real_cell(compute_rate(r->cpu_ns, ns) / 1e9);
    *cell++ = ipsq_count_cell(r->messages);
    *cell++ = ipsq_real_cell(compute_rate(r->messages, ns));
    *cell++ = ipsq_count_cell(r->bytes);
    *cell++ = ipsq_count_cell_of_double(compute_rate(r->bytes, ns));
    *cell++ = ipsq_count_cell(r->wait_ns);
    *cell++ = ipsq_real_cell(compute_rate(r->wait_ns, ns) / 1e9);
    *cell++ = ipsq_text_cell(r->process);
    *cell++ = ipsq_count_cell(*r->process ? r->process_ns : IPS_UNMEASURED);
    *cell++ = ipsq_text_cell(r->procedure);
    *cell++ = ipsq_text_cell(r->module);
    *cell++ = ipsq_count_cell(*r->procedure ? r->procedure_ns : IPS_UNMEASURED);
}

/* ---- series as lines of characters ---- */

static void print_sparkline(struct ipsq_out *out, const char *name,
                            const uint64_t *v, size_t n, uint64_t bin_ns,
                            bool cpu)
{
    char line[IPSQ_STRIP_BYTES], text[IPSQ_UNIT_BYTES];
    uint64_t top;
    ipsq_draw_sparkline(v, n, ipsq_is_utf8(), line, &top);
    ipsq_format_real(cpu ? compute_rate(top, bin_ns) / 1e9
                         : compute_rate(top, bin_ns),
                     text);
    ipsq_out_write_line_if_table(out, "%-9s %s  up to %s%s", name, line, text,
                                 cpu ? " cores" : "/s");
}

static int print_sparklines(struct ipsq_out *out, const Ips__PhasesAnswer *a,
                            struct ips_err *err)
{
    char line[IPSQ_STRIP_BYTES];
    size_t *ends = calloc(a->n_phases + 1, sizeof(*ends));
    if (!ends)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < a->n_phases; i++)
        ends[i] =
            (ips_sub_sat(a->phases[i]->to_ns, a->from_ns) + a->bin_ns - 1) /
            a->bin_ns;
    ipsq_draw_interval_numbers(ends, a->n_phases, a->n_cpu_ns, line);
    free(ends);
    ipsq_out_write_line_if_table(out, "%-9s %s", "phase", line);
    print_sparkline(out, "CPU", a->cpu_ns, a->n_cpu_ns, a->bin_ns, true);
    print_sparkline(out, "messages", a->messages, a->n_messages, a->bin_ns,
                    false);
    return 0;
}

/* ---- printing the answer ---- */

static void put_bins(struct ipsq_out *out, const Ips__PhasesAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "bins", bin_columns, IPSQ_COUNT_OF(bin_columns));
    for (size_t i = 0; i < a->n_cpu_ns; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        cell[0] = ipsq_count_cell(a->from_ns + i * a->bin_ns);
        cell[1] = ipsq_count_cell(a->cpu_ns[i]);
        cell[2] = ipsq_count_cell(a->messages[i]);
        cell[3] = ipsq_count_cell(a->bytes[i]);
        cell[4] = ipsq_count_cell(a->wait_ns[i]);
    }
    ipsq_out_write_table(out, &t, NULL);
    ipsq_table_release(&t);
}

static void put_phase_ends(struct ipsq_out *out, const char *name,
                           const uint64_t *ends, size_t n)
{
    struct ipsq_table t;
    ipsq_table_init(&t, name, end_columns, IPSQ_COUNT_OF(end_columns));
    for (size_t i = 0; i < n; i++)
        *ipsq_table_add_row(&t) = ipsq_count_cell(ends[i]);
    ipsq_out_write_table(out, &t, NULL);
    ipsq_table_release(&t);
}

static void print_run_window_and_bins(struct ipsq_out *out,
                                      const char *run_name,
                                      const Ips__PhasesAnswer *a)
{
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "from_ns",
                                    a->from_ns ? "from" : NULL,
                                    ipsq_count_cell(a->from_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "to_ns", "to",
                                    ipsq_count_cell(a->to_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "bin_ns", "bins of",
                                    ipsq_count_cell(a->bin_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "cores", "cores",
                                    ipsq_count_cell(a->cores));
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "open", NULL,
                                    ipsq_bool_cell(a->open));
}

static int print_phases(const struct ipsq_options *o, const char *run_name,
                        const Ips__PhasesAnswer *a, struct ips_err *err)
{
    struct ipsq_table t;
    struct ipsq_out out;
    int rc = 0;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    print_run_window_and_bins(&out, run_name, a);
    if (o->format == IPSQ_TABLE) {
        ipsq_out_write_line_if_table(&out, "%s", "");
        rc = print_sparklines(&out, a, err);
        out.parts_written++;
    }
    ipsq_table_init(&t, "phases", columns, IPSQ_COUNT_OF(columns));
    for (size_t i = 0; i < a->n_phases; i++)
        add_phase(&t, a->phases[i]);
    ipsq_out_write_table(&out, &t, NULL);
    ipsq_table_release(&t);
    if (o->format != IPSQ_TABLE) {
        put_phase_ends(&out, "cpu_phases", a->cpu_phase_ends,
                       a->n_cpu_phase_ends);
        put_phase_ends(&out, "message_phases", a->message_phase_ends,
                       a->n_message_phase_ends);
        put_bins(&out, a);
    }
    ipsq_out_write_line_if_table(
        &out, "phases of CPU use alone: %zu, of messages alone: %zu",
        a->n_cpu_phase_ends, a->n_message_phase_ends);
    return rc < 0 ? rc : ipsq_out_end(&out, err);
}

static int run_phases(const struct ipsq_command *self,
                      const struct ipsq_options *o, struct ipsq_session *s,
                      struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__PhasesAsk ask = IPS__PHASES_ASK__INIT;
    const Ips__Reply *last = NULL;
    (void)self;
    rq.ask_case = IPS__REQUEST__ASK_PHASES;
    rq.phases = &ask;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_PHASES, err);
    const Ips__PhasesAnswer *a = rc == 0 ? last->phases : NULL;
    if (a && (a->bin_ns == 0 || a->n_messages != a->n_cpu_ns ||
              a->n_bytes != a->n_cpu_ns || a->n_wait_ns != a->n_cpu_ns))
        rc = ips_err_set(err, IPS_E_PROTOCOL,
                         "the master sent series of different lengths");
    if (rc == 0)
        rc = print_phases(o, rq.run, a, err);
    return rc < 0 ? rc : ipsq_certificate_exit_status(a->certificate);
}

const struct ipsq_command ipsq_cmd_phases = {
    .name = "phases",
    .usage = "[RUN] [--phase N | --from TIME --to TIME]",
    .summary = "phases in which CPU use or traffic differ",
    .group = IPSQ_DRILL,
    .examples = "  ipsq phases run3\n"
                "  ipsq phases run3 --format json\n",
    .help = "A phase ends where CPU use, message frequency or both "
            "change. CORES is the average number of busy cores and "
            "WAITING the average number of blocked threads. MOST CPU "
            "is the process that used most CPU time; IN is the "
            "procedure in which it used most. --phase N of other "
            "commands selects a phase; here it shows the phases within "
            "phase N. Times count from the run's first event.\n",
    .options = IPSQ_HAS(FROM) | IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = 1,
    .run = run_phases,
};
