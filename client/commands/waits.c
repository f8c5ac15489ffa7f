/* ipsq waits: where threads waited, for what, and which threads made them wait;
 * and how the machines' cores spent their idle time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/command.h"
#include "client/base/top_n.h"
#include "client/base/units.h"
#include "common/types.h"

#define TABLE_TOP 20 /* groups that the table shows without --top */
#define PLACE_BYTES 200
#define WHILE_BYTES 400
/* at most this many rows of a group's blame (what the peer did meanwhile)
 * are described in words */
#define WHILE_ROWS 3

static const struct ipsq_column wait_columns[] = {
    {"total_ns", "WAITED", IPSQ_NS},
    {"share", "SHARE", IPSQ_SHARE},
    {"count", "TIMES", IPSQ_COUNT},
    {"longest_ns", "LONGEST", IPSQ_NS},
    {"mean_ns", "MEAN", IPSQ_NS},
    {"cause", "FOR", IPSQ_TEXT},
    {"late", "LATE", IPSQ_TEXT},
    {"object", "WHO", IPSQ_TEXT},
    {"procedure", NULL, IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},
    {"file", NULL, IPSQ_TEXT},
    {"line", NULL, IPSQ_COUNT},
    {"peer", NULL, IPSQ_TEXT},
    {"stack", NULL, IPSQ_LIST},
    /* columns from here are in the table format only */
    {"place", "WHERE", IPSQ_TEXT},
    {"while", "MEANWHILE", IPSQ_TEXT},
};
#define TABLE_ALONE 2u /* number of columns that only the table format has */

static const struct ipsq_column blame_columns[] = {
    /* index of a row in the table "waits", from 0 */
    {"group", NULL, IPSQ_COUNT}, {"kind", NULL, IPSQ_TEXT},
    {"object", NULL, IPSQ_TEXT}, {"procedure", NULL, IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT}, {"cause", NULL, IPSQ_TEXT},
    {"ns", NULL, IPSQ_NS},
};
static const struct ipsq_column cause_columns[] = {
    {"cause", "FOR", IPSQ_TEXT},
    {"ns", "WAITED", IPSQ_NS},
    {"share", "SHARE", IPSQ_SHARE},
    {"count", "TIMES", IPSQ_COUNT},
};
static const struct ipsq_column idle_columns[] = {
    {"machine", "MACHINE", IPSQ_TEXT}, {"what", "CORES WERE", IPSQ_TEXT},
    {"cause", "FOR", IPSQ_TEXT},       {"ns", "TIME", IPSQ_NS},
    {"share", "SHARE", IPSQ_SHARE},
};
static const struct ipsq_column machine_columns[] = {
    {"machine", NULL, IPSQ_TEXT},
    {"cores", NULL, IPSQ_COUNT},
    {"elapsed_ns", NULL, IPSQ_NS},
    {"over_ns", NULL, IPSQ_NS},
};

static struct ipsq_cell cell_of_share(uint64_t part, uint64_t whole)
{
    return ipsq_real_cell(whole ? (double)part / (double)whole
                                : IPS_UNMEASURED_REAL);
}

/* ---- waits described in words ------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Formats a source location: "serve (server.c:40)" or "serve (server)". */
static void location_text(const Ips__WaitGroup *g, char out[PLACE_BYTES])
{
    if (*g->procedure && *g->file && g->line)
        snprintf(out, PLACE_BYTES, "%.90s (%.60s:%u)", g->procedure,
                 base_name(g->file), g->line);
    else if (*g->procedure && *g->module)
        snprintf(out, PLACE_BYTES, "%.90s (%.60s)", g->procedure,
                 base_name(g->module));
    else
        snprintf(out, PLACE_BYTES, "%.190s", g->procedure);
}

static void append_to_meanwhile_text(char out[WHILE_BYTES], const char *text)
{
    size_t at = strlen(out);
    snprintf(out + at, WHILE_BYTES - at, "%s", text);
}

/* Returns the name of an object, without its machine ("a.3" for "/m1/a.3") if
 * `other` is on the same machine. */
static const char *name_without_common_machine(const char *object,
                                               const char *other)
{
    const char *slash = *object ? strchr(object + 1, '/') : NULL;
    size_t n = slash ? (size_t)(slash - object) + 1 : 0;
    return n && strncmp(object, other, n) == 0 ? object + n : object;
}

/* Appends a text that says what another thread did during the wait: "a.3 in
 * qsort 3.0 s" or "a.3 waiting (disk) 1.1 s". */
static void append_blame_text(const Ips__BlameRow *b, const char *waiter,
                              char out[WHILE_BYTES])
{
    char ns[IPSQ_UNIT_BYTES], one[300];
    const char *who = strcmp(b->object, waiter) == 0
                          ? ""
                          : name_without_common_machine(b->object, waiter);
    const char *space = *who ? " " : "";
    ipsq_format_ns(b->ns, ns);
    if (!*b->kind)
        snprintf(one, sizeof(one), "others %s", ns);
    else if (*b->procedure)
        snprintf(one, sizeof(one), "%.120s%sin %.100s %s", who, space,
                 b->procedure, ns);
    else if (*b->cause && *who)
        snprintf(one, sizeof(one), "%.120s %s (%s) %s", who, b->kind, b->cause,
                 ns);
    else if (*b->cause) /* the waiting thread itself: not named again */
        snprintf(one, sizeof(one), "%s %s", b->cause, ns);
    else
        snprintf(one, sizeof(one), "%.120s%s%s %s", who, space, b->kind, ns);
    append_to_meanwhile_text(out, one);
}

static void format_meanwhile_text(const Ips__WaitGroup *g,
                                  char out[WHILE_BYTES])
{
    size_t shown = g->n_blame < WHILE_ROWS ? g->n_blame : WHILE_ROWS;
    out[0] = '\0';
    if (*g->peer) {
        append_to_meanwhile_text(out, "for ");
        append_to_meanwhile_text(
            out, name_without_common_machine(g->peer, g->object));
    }
    for (size_t i = 0; i < shown; i++) {
        append_to_meanwhile_text(out, i ? ", " : *out ? ": " : "");
        append_blame_text(g->blame[i], g->object, out);
    }
    if (g->n_blame > shown)
        append_to_meanwhile_text(out, ", ...");
}

/* ---- tables ------------------------------------------------------------- */

struct texts {
    char location[PLACE_BYTES], meanwhile[WHILE_BYTES];
};

static void add_group(struct ipsq_table *t, const Ips__WaitGroup *g,
                      uint64_t total, struct texts *x)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_count_cell(g->total_ns);
    *cell++ = cell_of_share(g->total_ns, total);
    *cell++ = ipsq_count_cell(g->count);
    *cell++ = ipsq_count_cell(g->longest_ns);
    *cell++ =
        ipsq_count_cell(g->count ? g->total_ns / g->count : IPS_UNMEASURED);
    *cell++ = ipsq_text_cell(g->cause);
    *cell++ = ipsq_text_cell(g->late);
    *cell++ = ipsq_text_cell(g->object);
    *cell++ = ipsq_text_cell(g->procedure);
    *cell++ = ipsq_text_cell(g->module);
    *cell++ = ipsq_text_cell(g->file);
    *cell++ = ipsq_count_cell(g->line ? g->line : IPS_UNMEASURED);
    *cell++ = ipsq_text_cell(g->peer);
    *cell++ = ipsq_list_cell(g->stack, g->n_stack);
    if (!x)
        return;
    location_text(g, x->location);
    format_meanwhile_text(g, x->meanwhile);
    *cell++ = ipsq_text_cell(x->location);
    *cell++ = ipsq_text_cell(x->meanwhile);
}

static void put_blame(struct ipsq_out *out, const struct ipsq_rows *groups)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "blame", blame_columns, IPSQ_COUNT_OF(blame_columns));
    for (size_t i = 0; i < groups->count; i++) {
        const Ips__WaitGroup *g = groups->row[i];
        for (size_t k = 0; k < g->n_blame; k++) {
            const Ips__BlameRow *b = g->blame[k];
            struct ipsq_cell *cell = ipsq_table_add_row(&t);
            *cell++ = ipsq_count_cell(i);
            *cell++ = ipsq_text_cell(b->kind);
            *cell++ = ipsq_text_cell(b->object);
            *cell++ = ipsq_text_cell(b->procedure);
            *cell++ = ipsq_text_cell(b->module);
            *cell++ = ipsq_text_cell(b->cause);
            *cell++ = ipsq_count_cell(b->ns);
        }
    }
    ipsq_out_write_table(out, &t, NULL);
    ipsq_table_release(&t);
}

static void put_causes(struct ipsq_out *out, const Ips__WaitsAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "causes", cause_columns, IPSQ_COUNT_OF(cause_columns));
    for (size_t i = 0; i < a->n_causes; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(a->causes[i]->cause);
        *cell++ = ipsq_count_cell(a->causes[i]->ns);
        *cell++ = cell_of_share(a->causes[i]->ns, a->total_ns);
        *cell++ = ipsq_count_cell(a->causes[i]->count);
    }
    ipsq_table_sort_and_keep_top(&t, 1, 0);
    ipsq_out_write_table(out, &t, "what they waited for");
    ipsq_table_release(&t);
}

struct idle_sum {
    struct ipsq_table t;
    const Ips__IdleRow *r;
    bool table;
};

/* Adds a row for the time in which the machine's cores were in the state
 * `what`. */
static void add_core_time_row(struct idle_sum *s, const char *what,
                              const char *cause, uint64_t ns)
{
    if (s->table && ns == 0)
        return;
    struct ipsq_cell *cell = ipsq_table_add_row(&s->t);
    *cell++ = ipsq_text_cell(s->r->machine);
    *cell++ = ipsq_text_cell(what);
    *cell++ = ipsq_text_cell(cause);
    *cell++ = ipsq_count_cell(ns);
    *cell++ = cell_of_share(ns, s->r->cores * s->r->elapsed_ns);
}

static void put_core_times(struct ipsq_out *out, const struct ipsq_options *o,
                           const Ips__WaitsAnswer *a)
{
    struct idle_sum s = {.table = o->format == IPSQ_TABLE};
    struct ipsq_table m;
    ipsq_table_init(&s.t, "idle", idle_columns, IPSQ_COUNT_OF(idle_columns));
    ipsq_table_init(&m, "machines", machine_columns,
                    IPSQ_COUNT_OF(machine_columns));
    for (size_t i = 0; i < a->n_idle; i++) {
        const Ips__IdleRow *r = s.r = a->idle[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&m);
        *cell++ = ipsq_text_cell(r->machine);
        *cell++ = ipsq_count_cell(r->cores);
        *cell++ = ipsq_count_cell(r->elapsed_ns);
        *cell++ = ipsq_count_cell(r->over_ns);
        add_core_time_row(&s, "running", "", r->running_ns);
        add_core_time_row(&s, "spinning", "", r->spun_ns);
        add_core_time_row(&s, "others'", "", r->others_ns);
        add_core_time_row(&s, "unknown", "", r->unknown_ns);
        for (size_t k = 0; k < r->n_waiting; k++)
            add_core_time_row(&s, "idle", r->waiting[k]->cause,
                              r->waiting[k]->ns);
        add_core_time_row(&s, "idle, no more threads", "", r->nobody_ns);
        add_core_time_row(&s, "not begun", "", r->before_ns);
        add_core_time_row(&s, "ended", "", r->after_ns);
    }
    if (!s.table)
        ipsq_out_write_table(out, &m, NULL);
    ipsq_out_write_table(
        out, &s.t,
        "the cores of the machines during the elapsed time (idle: "
        "by what threads waited for)");
    ipsq_table_release(&m);
    ipsq_table_release(&s.t);
}

/* ---- printing the answer ------------------------------------------------ */

static void print_waits_summary(struct ipsq_out *out,
                                const struct ipsq_options *o,
                                const char *run_name, const Ips__WaitsAnswer *a)
{
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "open",
                                    a->open ? "still open" : NULL,
                                    ipsq_bool_cell(a->open));
    ipsq_out_write_or_collect_value(
        out, IPSQ_TEXT, "object", NULL,
        ipsq_text_cell(o->object ? o->object : "/"));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "by", NULL,
                                    ipsq_text_cell(o->by ? o->by : "place"));
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "category", NULL,
                                    ipsq_text_cell(a->category));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "total_ns", "waited",
                                    ipsq_count_cell(a->total_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "wait_count", "waits",
                                    ipsq_count_cell(a->waits));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "late_sender_ns",
                                    "for late senders",
                                    ipsq_count_cell(a->late_sender_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "late_receiver_ns",
                                    "for late receivers",
                                    ipsq_count_cell(a->late_receiver_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_COUNT, "group_count", NULL,
                                    ipsq_count_cell(a->group_count));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "left_out_ns", NULL,
                                    ipsq_count_cell(a->left_out_ns));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "cut_ns", NULL,
                                    ipsq_count_cell(a->cut_ns));
    bool clock = *a->clock;
    ipsq_out_write_or_collect_value(out, IPSQ_TEXT, "clock",
                                    clock ? "clocks" : NULL,
                                    ipsq_text_cell(a->clock));
    ipsq_out_write_or_collect_value(out, IPSQ_NS, "took_ns", NULL,
                                    ipsq_count_cell(a->took_ns));
}

static int print_waits(const struct ipsq_options *o, const char *run_name,
                       const Ips__WaitsAnswer *a,
                       const struct ipsq_rows *groups, struct ips_err *err)
{
    struct ipsq_out out;
    struct ipsq_table t;
    bool table = o->format == IPSQ_TABLE;
    struct texts *texts = calloc(groups->count + 1, sizeof(*texts));
    if (!texts)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    print_waits_summary(&out, o, run_name, a);
    /* puts a blank line between the values and the first table */
    out.parts_written = 1;
    ipsq_table_init(&t, "waits", wait_columns,
                    IPSQ_COUNT_OF(wait_columns) - (table ? 0 : TABLE_ALONE));
    t.spare_columns = "late mean_ns longest_ns count cause";
    for (size_t i = 0; i < groups->count; i++)
        add_group(&t, groups->row[i], a->total_ns, table ? &texts[i] : NULL);
    ipsq_out_write_table(&out, &t, NULL);
    ipsq_table_release(&t);
    if (groups->count < a->group_count) {
        char ns[IPSQ_UNIT_BYTES];
        ipsq_format_ns(a->left_out_ns, ns);
        ipsq_out_write_line_if_table(&out, "%zu of %llu; the others waited %s",
                                     groups->count,
                                     (unsigned long long)a->group_count, ns);
    }
    if (!table)
        put_blame(&out, groups);
    put_causes(&out, a);
    put_core_times(&out, o, a);
    free(texts);
    return ipsq_out_end(&out, err);
}

static int collect_wait_groups(const Ips__Reply *reply, void *arg,
                               struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_WAITS)
        return 0; /* ipsq_check_answer_kind later reports the wrong kind of
                     answer */
    return ipsq_rows_append_array(arg, reply->waits->groups,
                                  reply->waits->n_groups, err);
}

/* The columns that --sort accepts. The master sorts, and can sort only by
 * these. */
static struct ipsq_columns list_wait_sort_columns(const struct ipsq_options *o)
{
    static const struct ipsq_column columns[] = {
        {"total_ns", "WAITED", IPSQ_NS},
        {"count", "TIMES", IPSQ_COUNT},
        {"longest_ns", "LONGEST", IPSQ_NS},
        {"mean_ns", "MEAN", IPSQ_NS},
    };
    (void)o;
    return (struct ipsq_columns){columns, IPSQ_COUNT_OF(columns)};
}

static int check_sort(const struct ipsq_options *o, struct ips_err *err)
{
    const struct ipsq_columns columns = list_wait_sort_columns(o);
    size_t ignored;
    return o->sort ? ipsq_find_column(&columns, o->sort + (*o->sort == '-'),
                                      &ignored, err)
                   : 0;
}

static int run_waits(const struct ipsq_command *self,
                     const struct ipsq_options *o, struct ipsq_session *s,
                     struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__WaitsAsk ask = IPS__WAITS_ASK__INIT;
    const Ips__Reply *last = NULL;
    struct ipsq_rows groups = {0};
    (void)self;
    rq.ask_case = IPS__REQUEST__ASK_WAITS;
    rq.waits = &ask;
    ask.object = ips_unconst_text(o->object ? o->object : "");
    ask.by = ips_unconst_text(o->by ? o->by : "place");
    ask.order = ips_unconst_text(o->sort ? o->sort : "total_ns");
    ask.top = o->top || o->format != IPSQ_TABLE ? o->top : TABLE_TOP;
    ask.stacks = o->stacks;
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    int rc = check_sort(o, err);
    if (rc == 0)
        rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, collect_wait_groups, &groups,
                              &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_WAITS, err);
    if (rc == 0)
        rc = print_waits(o, rq.run, last->waits, &groups, err);
    ipsq_rows_release(&groups);
    return rc < 0 ? rc : ipsq_certificate_exit_status(last->waits->certificate);
}

const struct ipsq_command ipsq_cmd_waits = {
    .name = "waits",
    .usage = "[RUN] [--object OBJECT] [--by WHAT] [--sort COLUMN] [--top N]\n"
             "                  [--stacks] [--phase N | --from TIME --to TIME]",
    .summary = "where threads waited, for what, and for whom",
    .group = IPSQ_ASK,
    .examples = "  ipsq waits run3 --top 10\n"
                "  ipsq waits run3 --by cause --object /m1\n",
    .help = "One row for each call site, cause and process that ended the "
            "waits (with --by: for each cause, peer, process or thread). "
            "MEANWHILE says what the thread that ended a wait did during the "
            "wait; if that thread waited too, what the next one did, and so "
            "on. The parts add up to the waits. LATE names the sender if a "
            "receive waited, and the receiver if a send waited for room.\n"
            "Below the rows: all waits by cause, and what the cores of each "
            "machine did during the elapsed time. OBJECT is "
            "/machine/process/thread/procedure; each part is a pattern (* ? "
            "[]).\n",
    .options = IPSQ_HAS(FRESH) | IPSQ_HAS(OBJECT) | IPSQ_HAS(BY) |
               IPSQ_HAS(TOP) | IPSQ_HAS(SORT) | IPSQ_HAS(STACKS) |
               IPSQ_HAS(FROM) | IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .bys = IPSQ_IS_BY(PLACE) | IPSQ_IS_BY(CAUSE) | IPSQ_IS_BY(PEER) |
           IPSQ_IS_BY(PROCESS) | IPSQ_IS_BY(THREAD),
    .sort_columns = list_wait_sort_columns,
    .max_args = 1,
    .run = run_waits,
};
