#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/base/command.h"
#include "client/base/placement.h"
#include "client/base/units.h"

/* number of rows of a table that are shown without --top */
#define TABLE_TOP 10

static const struct ipsq_column machine_columns[] = {
    {"machine", "MACHINE", IPSQ_TEXT}, {"cores", "CORES", IPSQ_COUNT},
    {"speed", "SPEED", IPSQ_REAL},     {"load", "LOAD", IPSQ_REAL},
    {"taken", "TAKEN", IPSQ_SHARE},    {"threads", "THREADS", IPSQ_COUNT},
    {"cpu_ns", "CPU", IPSQ_NS},        {"busy_share", "BUSY", IPSQ_SHARE},
    {"queued_ns", "QUEUED", IPSQ_NS},  {"idle_ns", "IDLE", IPSQ_NS},
    {"recorded", NULL, IPSQ_BOOL},
};

static const struct ipsq_column medium_columns[] = {
    {"medium", "MEDIUM", IPSQ_TEXT},
    {"busy_ns", "BUSY", IPSQ_NS},
    {"busy_share", "OF TIME", IPSQ_SHARE},
};

static const struct ipsq_column path_columns[] = {
    {"ns", "TIME", IPSQ_NS},          {"share", "OF PATH", IPSQ_SHARE},
    {"queued_ns", "QUEUED", IPSQ_NS}, {"count", "COUNT", IPSQ_COUNT},
    {"kind", "KIND", IPSQ_TEXT},      {"machine", "ON", IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},      {"object", "WHAT", IPSQ_TEXT},
};

static const struct ipsq_column order_columns[] = {
    {"pattern", "ORDER", IPSQ_TEXT},
    {"count", "COUNT", IPSQ_COUNT},
    {"threads", "THREADS", IPSQ_COUNT},
    {"process_count", "PROCESSES", IPSQ_COUNT},
    {"processes", NULL, IPSQ_LIST},
    {"text", "WHAT", IPSQ_TEXT},
};

static double compute_share_or_unmeasured(uint64_t ns, double all)
{
    return all > 0 ? (double)ns / all : IPS_UNMEASURED_REAL;
}

static void put_machines(struct ipsq_out *out, const Ips__PredictAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "machines", machine_columns,
                    IPSQ_COUNT_OF(machine_columns));
    for (size_t i = 0; i < a->n_machines; i++) {
        const Ips__PredictUse *m = a->machines[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(m->machine);
        *cell++ = ipsq_count_cell(m->cores);
        *cell++ = ipsq_real_cell(m->speed);
        *cell++ = ipsq_real_cell(m->load);
        *cell++ = ipsq_real_cell(m->taken);
        *cell++ = ipsq_count_cell(m->threads);
        *cell++ = ipsq_count_cell(m->cpu_ns);
        *cell++ = ipsq_real_cell(compute_share_or_unmeasured(
            m->cpu_ns, (double)a->makespan_ns * m->cores));
        *cell++ = ipsq_count_cell(m->queued_ns);
        *cell++ = ipsq_count_cell(m->idle_ns);
        *cell++ = ipsq_bool_cell(m->recorded);
    }
    ipsq_out_write_table(out, &t, "the machines then");
    ipsq_table_release(&t);
}

static void put_media(struct ipsq_out *out, const Ips__PredictAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "media", medium_columns, IPSQ_COUNT_OF(medium_columns));
    for (size_t i = 0; i < a->n_media; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(a->media[i]->medium);
        *cell++ = ipsq_count_cell(a->media[i]->busy_ns);
        *cell++ = ipsq_real_cell(compute_share_or_unmeasured(
            a->media[i]->busy_ns, (double)a->makespan_ns));
    }
    if (a->n_media || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, &t, "what messages share");
    ipsq_table_release(&t);
}

static void put_path(struct ipsq_out *out, const Ips__PredictAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "path", path_columns, IPSQ_COUNT_OF(path_columns));
    for (size_t i = 0; i < a->n_path; i++) {
        const Ips__PredictRow *r = a->path[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_count_cell(r->ns);
        *cell++ = ipsq_real_cell(
            compute_share_or_unmeasured(r->ns, (double)a->makespan_ns));
        *cell++ = ipsq_count_cell(r->queued_ns);
        *cell++ = ipsq_count_cell(r->count);
        *cell++ = ipsq_text_cell(r->kind);
        *cell++ = ipsq_text_cell(r->machine);
        *cell++ = ipsq_text_cell(r->place);
        *cell++ = ipsq_text_cell(r->object);
    }
    ipsq_out_write_table(out, &t, "the critical path then");
    ipsq_table_release(&t);
}

/* Writes where the program might behave differently from the replay, because
 * what it did depended on the order of events. */
static void put_order_dependence(struct ipsq_out *out,
                                 const Ips__PredictAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "order", order_columns, IPSQ_COUNT_OF(order_columns));
    for (size_t i = 0; i < a->n_order; i++) {
        const Ips__PredictOrder *r = a->order[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(r->pattern);
        *cell++ = ipsq_count_cell(r->count);
        *cell++ = ipsq_count_cell(r->threads);
        *cell++ = ipsq_count_cell(r->process_count);
        *cell++ = ipsq_list_cell(r->processes, r->n_processes);
        *cell++ = ipsq_text_cell(r->text);
    }
    if (a->n_order || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, &t, "what depended on order");
    ipsq_table_release(&t);
}

/* Returns by which fraction the predicted time `ns` exceeds the measured
 * elapsed time of the command (negative: is shorter); NaN if unknown. */
static double prediction_error_of(const Ips__PredictAnswer *a, uint64_t ns)
{
    bool known = a->elapsed_ns && a->elapsed_ns != IPS_UNMEASURED &&
                 ns != IPS_UNMEASURED;
    return known ? (double)ns / (double)a->elapsed_ns - 1 : IPS_UNMEASURED_REAL;
}

/* Writes the error of the model, if known. To measure the error, the master
 * replays the recorded run on its own machines and compares the result with the
 * measured time. */
static void put_model_error(struct ipsq_out *out, const Ips__PredictAnswer *a)
{
    char own[IPSQ_UNIT_BYTES], measured[IPSQ_UNIT_BYTES];
    char loaded[IPSQ_UNIT_BYTES];
    double error = prediction_error_of(a, a->own_command_ns);
    double loaded_error = prediction_error_of(a, a->own_loaded_ns);
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "own_makespan_ns", NULL,
                                    ipsq_count_cell(a->own_makespan_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "own_command_ns", NULL,
                                    ipsq_count_cell(a->own_command_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "elapsed_ns", NULL,
                                    ipsq_count_cell(a->elapsed_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "own_error", NULL,
                                    ipsq_real_cell(error));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "own_load", NULL,
                                    ipsq_real_cell(a->own_load));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "own_loaded_ns", NULL,
                                    ipsq_count_cell(a->own_loaded_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "own_loaded_error", NULL,
                                    ipsq_real_cell(loaded_error));
    ipsq_format_ns(a->own_command_ns, own);
    ipsq_format_ns(a->own_loaded_ns, loaded);
    ipsq_format_ns(a->elapsed_ns, measured);
    if (!isnan(error))
        ipsq_out_write_formatted_value_if_table(
            out, "the model",
            "a replay on the run's own machines takes %s, the run "
            "took %s (%+.1f%%)",
            own, measured, error * 100);
    if (!isnan(loaded_error) && a->own_load > 0)
        ipsq_out_write_formatted_value_if_table(
            out, "  with load",
            "with the load of other programs (%.2f, from the run "
            "delays): %s (%+.1f%%)",
            a->own_load, loaded, loaded_error * 100);
}

static void print_prediction_summary(struct ipsq_out *out, const char *run_name,
                                     const Ips__PredictAnswer *a)
{
    bool goal = *a->goal;
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "open",
                                    a->open ? "still open" : NULL,
                                    ipsq_bool_cell(a->open));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "goal",
                                    goal ? "ends with" : NULL,
                                    ipsq_text_cell(goal ? a->goal : NULL));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "category", NULL,
                                    ipsq_text_cell(a->category));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "makespan_ns", "makespan",
                                    ipsq_count_cell(a->makespan_ns));
    ipsq_out_write_or_collect_value(
        out, IPSQ_NS, "command_ns",
        a->command_ns == a->makespan_ns ? NULL : "the command",
        ipsq_count_cell(a->command_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "t_max_ns", "path, unshared",
                                    ipsq_count_cell(a->t_max_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "total_cpu_ns", "total CPU",
                                    ipsq_count_cell(a->total_cpu_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "recorded_cpu_ns", NULL,
                                    ipsq_count_cell(a->recorded_cpu_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "p", "parallelism",
                                    ipsq_real_cell(a->p));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "p_path", "  unshared",
                                    ipsq_real_cell(a->p_path));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "p_max", "  at most",
                                    ipsq_real_cell(a->p_max));
    ipsq_out_write_or_collect_value(out, IPSQ_REAL, "rho", "utilisation",
                                    ipsq_real_cell(a->rho));
    put_model_error(out, a);
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "valid", "valid",
                                    ipsq_text_cell(a->valid));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "arcs", NULL,
                                    ipsq_count_cell(a->arcs));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "marked_arcs", NULL,
                                    ipsq_count_cell(a->marked_arcs));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "order_unchecked", NULL,
                                    ipsq_count_cell(a->order_unchecked));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "locks", NULL,
                                    ipsq_text_cell(a->locks));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "queues", NULL,
                                    ipsq_text_cell(a->queues));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "pieces", NULL,
                                    ipsq_count_cell(a->pieces));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "pieces_anew", NULL,
                                    ipsq_count_cell(a->pieces_anew));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "events", NULL,
                                    ipsq_count_cell(a->events));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "took_ns", NULL,
                                    ipsq_count_cell(a->took_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_LIST, "assumed", NULL,
                                    ipsq_list_cell(a->assumed, a->n_assumed));
}

static const struct ipsq_column map_columns[] = {
    {"rank", "RANK", IPSQ_COUNT},
    {"makespan_ns", "MAKESPAN", IPSQ_NS},
    {"machines", NULL, IPSQ_COUNT},
    {"machine", "MACHINE", IPSQ_TEXT},
    {"process_count", "PROCESSES", IPSQ_COUNT},
    {"processes", "WHICH", IPSQ_LIST},
};

static const char *search_end_text(const Ips__PredictFound *f)
{
    if (strcmp(f->end, "all") == 0)
        return "all placements were tried: none is better";
    if (f->best)
        return "the bound is reached: no placement is better";
    if (strcmp(f->end, "settled") == 0)
        return "the search found nothing new: better placements may exist";
    return "all tries are used (--tries): better placements may exist";
}

static void put_bound(struct ipsq_out *out, const Ips__PredictFound *f)
{
    char bound[IPSQ_UNIT_BYTES];
    const char *by = "one process's work";
    if (f->bound_ns == f->path_bound_ns)
        by = "the longest path";
    else if (f->bound_ns == f->capacity_bound_ns)
        by = "all work on all machines";
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "bound_ns", NULL,
                                    ipsq_count_cell(f->bound_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "path_bound_ns", NULL,
                                    ipsq_count_cell(f->path_bound_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "capacity_bound_ns", NULL,
                                    ipsq_count_cell(f->capacity_bound_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "process_bound_ns", NULL,
                                    ipsq_count_cell(f->process_bound_ns));
    ipsq_out_write_or_collect_value(
        out, IPSQ_TEXT, "bound_process", NULL,
        ipsq_text_cell(*f->bound_process ? f->bound_process : NULL));
    ipsq_format_ns(f->bound_ns, bound);
    ipsq_out_write_line_if_table(
        out,
        "%-15s no placement on these machines takes less than %s "
        "(%s)",
        "the bound", bound, by);
}

static void put_search(struct ipsq_out *out, const Ips__PredictFound *f)
{
    put_bound(out, f);
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "proved", NULL,
                                    ipsq_bool_cell(f->best));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "search_end", NULL,
                                    ipsq_text_cell(f->end));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "search_tries", NULL,
                                    ipsq_count_cell(f->tries));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "search_tries_most", NULL,
                                    ipsq_count_cell(f->tries_most));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "search_starts", NULL,
                                    ipsq_count_cell(f->starts));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "search_seed", NULL,
                                    ipsq_count_cell(f->seed));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "search_processes", NULL,
                                    ipsq_count_cell(f->free_processes));
    ipsq_out_write_line_if_table(
        out, "%-15s %llu placements of %llu processes tried; %s", "the search",
        (unsigned long long)f->tries, (unsigned long long)f->free_processes,
        search_end_text(f));
}

static void put_best_placements(struct ipsq_out *out,
                                const Ips__PredictFound *f)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "maps", map_columns, IPSQ_COUNT_OF(map_columns));
    for (size_t i = 0; i < f->n_maps; i++) {
        for (size_t k = 0; k < f->maps[i]->n_groups; k++) {
            const Ips__PredictGroup *g = f->maps[i]->groups[k];
            struct ipsq_cell *cell = ipsq_table_add_row(&t);
            *cell++ = ipsq_count_cell(i + 1);
            *cell++ = ipsq_count_cell(f->maps[i]->makespan_ns);
            *cell++ = ipsq_count_cell(f->maps[i]->machines);
            *cell++ = ipsq_text_cell(g->machine);
            *cell++ = ipsq_count_cell(g->n_processes);
            *cell++ = ipsq_list_cell(g->processes, g->n_processes);
        }
    }
    ipsq_out_write_table(out, &t, "the best maps found");
    ipsq_table_release(&t);
}

/* Shows the progress of a search, which the master reports before the
 * answer. */
static int show_search_progress(const Ips__Reply *reply, void *arg,
                                struct ips_err *err)
{
    char best[IPSQ_UNIT_BYTES], text[120];
    (void)arg, (void)err;
    if (reply->answer_case != IPS__REPLY__ANSWER_PREDICT_PROGRESS)
        return 0;
    ipsq_format_ns(reply->predict_progress->best_ns, best);
    snprintf(text, sizeof(text),
             "ipsq: %llu placements tried, the best so far %s",
             (unsigned long long)reply->predict_progress->tries, best);
    ipsq_progress_replace_line(text);
    return 0;
}

static int print_prediction(const struct ipsq_options *o, const char *run_name,
                            const Ips__PredictAnswer *a, struct ips_err *err)
{
    struct ipsq_out out;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    print_prediction_summary(&out, run_name, a);
    if (a->found)
        put_search(&out, a->found);
    /* puts a blank line between the values and the first table */
    out.parts_written = 1;
    if (a->found)
        put_best_placements(&out, a->found);
    put_machines(&out, a);
    put_media(&out, a);
    put_path(&out, a);
    put_order_dependence(&out, a);
    ipsq_out_write_line_if_table(&out, "\nassumed");
    for (size_t i = 0; i < a->n_assumed; i++)
        ipsq_out_write_prose_if_table(&out, "  ", a->assumed[i], 4);
    int rc = ipsq_out_end(&out, err);
    return rc < 0 ? rc : ipsq_certificate_exit_status(a->certificate);
}

static int ask_and_print_prediction(const struct ipsq_options *o,
                                    struct ipsq_session *s,
                                    const struct ipsq_placing *p,
                                    struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__PredictAsk ask = IPS__PREDICT_ASK__INIT;
    Ips__PredictSearch search = IPS__PREDICT_SEARCH__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    ipsq_fill_scenario(o, &scenario);
    ask.lane = &scenario;
    ask.external = (o->options_set & IPSQ_HAS(EXTERNAL)) != 0;
    ask.goal = ips_unconst_text(o->goal ? o->goal : "");
    ask.top = o->top || o->format != IPSQ_TABLE ? o->top : TABLE_TOP;
    ask.n_machines = p->machine_count;
    ask.machines = p->machine;
    ask.n_map = p->placement_count;
    ask.map = p->placement;
    search.seed = o->seed;
    search.tries = o->tries;
    search.top = o->top;
    ask.search = o->search ? &search : NULL;
    ask.n_nets = p->net_count;
    ask.nets = p->net;
    ask.n_moves = p->move_count;
    ask.moves = p->move;
    rq.ask_case = IPS__REQUEST__ASK_PREDICT;
    rq.predict = &ask;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, show_search_progress, NULL, &last,
                              err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_PREDICT, err);
    return rc < 0 ? rc : print_prediction(o, rq.run, last->predict, err);
}

static int run_predict(const struct ipsq_command *self,
                       const struct ipsq_options *o, struct ipsq_session *s,
                       struct ips_err *err)
{
    struct ipsq_placing p = {0};
    int rc = 0;
    (void)self;
    if (!o->search && o->options_set & (IPSQ_HAS(TRIES) | IPSQ_HAS(SEED)))
        return ips_err_set(err, IPS_E_USAGE,
                           "--tries and --seed need --search");
    for (unsigned i = 0; i < o->machines_count && rc == 0; i++)
        rc = ipsq_placing_parse_machines(&p, o->machines[i], err);
    for (unsigned i = 0; i < o->map_count && rc == 0; i++)
        rc = ipsq_placing_parse_map(&p, o->map[i], err);
    for (unsigned i = 0; i < o->network_count && rc == 0; i++)
        rc = ipsq_placing_parse_network(&p, o->network[i], err);
    for (unsigned i = 0; i < o->move_count && rc == 0; i++)
        rc = ipsq_placing_parse_moves(&p, o->move[i], err);
    if (rc == 0)
        rc = ask_and_print_prediction(o, s, &p, err);
    ipsq_placing_release(&p);
    return rc;
}

const struct ipsq_command ipsq_cmd_predict = {
    .name = "predict",
    .usage = "[RUN] [--map MAP]... [--machines SPEC]... [--mtime SPEC]\n"
             "                    [--external WHICH] [--network SPEC]... "
             "[--move MOVES]...\n"
             "                    [--goal OBJECT] [--top N] [--search [--tries "
             "N] [--seed N]]",
    .summary = "simulate the run on other machines or placements",
    .group = IPSQ_PREDICT,
    .examples = "  ipsq predict run3 --machines 'big:cores=16' --map '*=big'\n"
                "  ipsq predict run3 --machines 'a;b' --search\n",
    .help = "Replays the CPU times, messages and waits of the run on other "
            "machines, whose cores the threads share. SPEC is "
            "'NAME:cores=N,speed=X,load=B;...': speed is relative to a core of "
            "the recorded machines; load is the number of other threads that "
            "want a core, with % the share of the cycles that other programs "
            "use, or `recorded`, the load that the run's machine had. "
            "turn=TIME is the time slice of threads and load. Name a machine "
            "of the run to change it. MAP is 'WHAT=MACHINE,...' or a file of "
            "such lines; WHAT is a process (a.3, a, a pid, /m1/a.3) or a "
            "thread (/m1/a.3/TID) and may contain * and ?. The last entry that "
            "matches decides; other processes stay where they were. --network "
            "gives message times between machines (patterns), as a time or a "
            "factor; pairs with the same @NAME share the bandwidth of one "
            "medium. --move moves threads to another machine at a time after "
            "their machine's first event.\n"
            "--search looks for the best placement of the processes that --map "
            "does not name, on the machines that --machines names (default: "
            "the run's own). No placement can be better than the printed "
            "bound. `valid: marked` is a warning: what the program did "
            "depended on the order of events, which may be another on other "
            "machines.\n"
            "MAKESPAN is when the last thread ends; QUEUED is time waiting for "
            "a core. `the model` compares a replay on the run's own machines "
            "with the recorded run.\n",
    .options = IPSQ_HAS(MACHINES) | IPSQ_HAS(MAP) | IPSQ_HAS(NETWORK) |
               IPSQ_HAS(MOVE) | IPSQ_HAS(MTIME) | IPSQ_HAS(EXTERNAL) |
               IPSQ_HAS(GOAL) | IPSQ_HAS(TOP) | IPSQ_HAS(SEARCH) |
               IPSQ_HAS(TRIES) | IPSQ_HAS(SEED),
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = 1,
    .run = run_predict,
};
