#include <string.h>

#include "client/base/command.h"
#include "client/base/top_n.h"

static const struct ipsq_column columns[] = {
    {"object", "OBJECT", IPSQ_TEXT},    {"level", NULL, IPSQ_TEXT},
    {"name", NULL, IPSQ_TEXT},          {"pid", NULL, IPSQ_COUNT},
    {"parent_pid", NULL, IPSQ_COUNT},   {"tid", NULL, IPSQ_COUNT},
    {"children", NULL, IPSQ_COUNT},     {"start_ns", "START", IPSQ_NS},
    {"elapsed_ns", "ELAPSED", IPSQ_NS}, {"cpu_ns", "CPU", IPSQ_NS},
    {"open", NULL, IPSQ_BOOL},          {"end", "END", IPSQ_TEXT},
    {"command", "COMMAND", IPSQ_TEXT},
};
enum { CPU_COLUMN = 9 };

static struct ipsq_columns
list_object_sort_columns(const struct ipsq_options *o)
{
    (void)o;
    return (struct ipsq_columns){columns, IPSQ_COUNT_OF(columns)};
}

/* Returns the last component of the object's name: "a.3" of "/m1/a.3". */
static const char *last_part_of_object_name(const char *object)
{
    const char *slash = object ? strrchr(object, '/') : NULL;
    return slash && slash[1] ? slash + 1 : object;
}

/* Makes the cell of a process or thread id. 0: objects of this level have no
 * id. */
static struct ipsq_cell pid_cell(uint64_t pid)
{
    return ipsq_count_cell(pid ? pid : IPS_UNMEASURED);
}

static void add_row(struct ipsq_table *t, const Ips__ObjectRow *row)
{
    bool is_thread = strcmp(row->level, "thread") == 0;
    bool is_process = strcmp(row->level, "process") == 0;
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(row->object);
    *cell++ = ipsq_text_cell(row->level);
    *cell++ = ipsq_text_cell(is_thread ? row->name
                                       : last_part_of_object_name(row->object));
    *cell++ = pid_cell(row->pid);
    *cell++ = pid_cell(row->parent_pid);
    *cell++ = pid_cell(is_process ? 0 : row->tid);
    *cell++ = ipsq_count_cell(row->children);
    *cell++ = ipsq_count_cell(row->start_ns);
    *cell++ = ipsq_count_cell(row->elapsed_ns);
    *cell++ = ipsq_count_cell(row->cpu_ns);
    *cell++ = ipsq_bool_cell(row->open);
    *cell++ = ipsq_text_cell(row->end);
    bool has_command = is_process || strcmp(row->level, "run") == 0;
    *cell++ = ipsq_text_cell(has_command ? row->name : NULL);
}

/* Whether the rows of all levels are in one table. Otherwise each level has its
 * own table. */
static bool has_one_table_for_all_levels(const struct ipsq_options *o)
{
    return o->format == IPSQ_TABLE || o->format == IPSQ_TSV;
}

static int print_objects(const struct ipsq_options *o, const char *run_name,
                         const Ips__LsAnswer *a, struct ips_err *err)
{
    static const char *const levels[] = {"run", "machine", "process", "thread"};
    static const char *const names[] = {"runs", "machines", "processes",
                                        "threads"};
    struct ipsq_table t;
    struct ipsq_out out;
    uint64_t left_out = 0;
    int rc = 0;
    bool tree = has_one_table_for_all_levels(o);
    for (size_t level = 0; level < (tree ? 1 : IPSQ_COUNT_OF(levels));
         level++) {
        ipsq_table_init(&t, tree ? "objects" : names[level], columns,
                        IPSQ_COUNT_OF(columns));
        for (size_t i = 0; i < a->n_rows; i++) {
            if (tree || strcmp(a->rows[i]->level, levels[level]) == 0)
                add_row(&t, a->rows[i]);
        }
        /* The columns of all levels are the same, so an error can only occur at
         * the first level. */
        rc = ipsq_sort_and_keep_top(&t, o, CPU_COLUMN, &left_out, err);
        if (a->left_out && level < a->left_out->n_rows)
            left_out += a->left_out->rows[level];
        if (rc < 0) {
            ipsq_table_release(&t);
            return rc;
        }
        if (level == 0) {
            ipsq_progress_stop_and_erase_line();
            ipsq_out_begin(&out, stdout, o->format, false);
            ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                                       o->verbose);
            ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", "run",
                                            ipsq_text_cell(run_name));
            ipsq_out_write_or_collect_value(
                &out, IPSQ_TEXT, "object", NULL,
                ipsq_text_cell(o->object ? o->object : "/"));
        }
        if (tree || level > 0) {
            ipsq_out_write_table(&out, &t, "");
            ipsq_put_left_out_count(&out, tree ? "objects" : names[level],
                                    left_out);
        }
        ipsq_table_release(&t);
    }
    return ipsq_out_end(&out, err);
}

static int collect_objects(const Ips__Reply *reply, void *arg,
                           struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_LS)
        return 0; /* ipsq_check_answer_kind later reports the wrong kind of
                     answer */
    return ipsq_rows_append_array(arg, reply->ls->rows, reply->ls->n_rows, err);
}

static int run_ls(const struct ipsq_command *self, const struct ipsq_options *o,
                  struct ipsq_session *s, struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__LsAsk ask = IPS__LS_ASK__INIT;
    const Ips__Reply *last = NULL;
    struct ipsq_rows rows = {0};
    Ips__Select select;
    (void)self;
    rq.ask_case = IPS__REQUEST__ASK_LS;
    rq.ls = &ask;
    ask.object = ips_unconst_text(o->object ? o->object : "/");
    ask.select = ipsq_top_n_fill_select(o, &select);
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    select.per_level = !has_one_table_for_all_levels(o);
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc =
            ipsq_session_ask(s, &rq, false, collect_objects, &rows, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_LS, err);
    if (rc == 0) {
        Ips__LsAnswer whole = *last->ls;
        whole.rows = (Ips__ObjectRow **)rows.row;
        whole.n_rows = rows.count;
        rc = print_objects(o, rq.run, &whole, err);
    }
    ipsq_rows_release(&rows);
    return rc < 0 ? rc : ipsq_certificate_exit_status(last->ls->certificate);
}

const struct ipsq_command ipsq_cmd_ls = {
    .name = "ls",
    .usage =
        "[RUN] [--object OBJECT] [--sort COLUMN] [--per machine] [--top N]\n"
        "               [--phase N | --from TIME --to TIME]",
    .summary = "machines, processes and threads of a run",
    .group = IPSQ_DRILL,
    .examples = "  ipsq ls run3\n"
                "  ipsq ls run3 --object \"/m1/*\" --sort cpu_ns --top 5\n",
    .help = "START is the time since the run's first event on that machine. "
            "--top N shows the N rows with the most CPU time (in JSON the N "
            "of each level: machines, processes, threads).\n",
    .options = IPSQ_HAS(OBJECT) | IPSQ_HAS(SORT) | IPSQ_HAS(PER) |
               IPSQ_HAS(TOP) | IPSQ_HAS(FROM) | IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .sort_columns = list_object_sort_columns,
    .max_args = 1,
    .run = run_ls,
};
