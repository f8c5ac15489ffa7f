/* `ipsq sql [RUN] "SELECT ..."`; docs/metrics.md describes the views. */
#include <stdlib.h>
#include <string.h>

#include "client/base/command.h"
#include "client/base/top_n.h"

/* The first column of every answer; the query gives the others. */
static const struct ipsq_column machine_column = {"machine", "machine",
                                                  IPSQ_VALUE};

/* The columns that --sort accepts, as far as they are known before the answer.
 * The columns of the query are not known yet. */
static struct ipsq_columns
list_sort_columns_known_before_query(const struct ipsq_options *o)
{
    (void)o;
    return (struct ipsq_columns){&machine_column, 1};
}

struct whole {
    struct ipsq_rows pieces; /* the replies, of type Ips__SqlAnswer */
    /* names of the query's columns, borrowed from the first reply that has
     * them */
    char **columns;
    size_t column_count;
};

static int collect_sql_pieces(const Ips__Reply *reply, void *arg,
                              struct ips_err *err)
{
    struct whole *w = arg;
    if (reply->answer_case != IPS__REPLY__ANSWER_SQL)
        return 0; /* ipsq_check_answer_kind later reports the wrong kind of
                     answer */
    if (reply->sql->n_columns > 0 && !w->columns) {
        w->columns = reply->sql->columns;
        w->column_count = reply->sql->n_columns;
    }
    void *piece = reply->sql;
    return ipsq_rows_append_array(&w->pieces, &piece, 1, err);
}

static struct ipsq_cell value_cell(const Ips__SqlValue *v)
{
    struct ipsq_cell cell = {0};
    if (v->value_case == IPS__SQL_VALUE__VALUE_INTEGER) {
        cell.value.type = 'i';
        cell.value.i = v->integer;
    } else if (v->value_case == IPS__SQL_VALUE__VALUE_REAL) {
        cell.value.type = 'r';
        cell.value.r = v->real;
    } else if (v->value_case == IPS__SQL_VALUE__VALUE_TEXT) {
        cell.value.type = 't';
        cell.value.text = v->text;
    }
    return cell;
}

/* Column names must be unique, because they become keys in JSON. */
static int check_unique_columns(const struct whole *w, struct ips_err *err)
{
    for (size_t i = 0; i < w->column_count; i++) {
        bool again = strcmp(w->columns[i], "machine") == 0;
        for (size_t k = 0; k < i; k++)
            again = again || strcmp(w->columns[i], w->columns[k]) == 0;
        if (again)
            return ips_err_set(
                err, IPS_E_USAGE,
                "two columns are called %.80s (the answer always has a "
                "column 'machine'): rename one with AS",
                w->columns[i]);
    }
    return 0;
}

static int fill_table(struct ipsq_table *t, const struct whole *w,
                      struct ips_err *err)
{
    for (size_t p = 0; p < w->pieces.count; p++) {
        const Ips__SqlAnswer *a = w->pieces.row[p];
        for (size_t i = 0; i < a->n_rows; i++) {
            if (a->rows[i]->n_values != w->column_count)
                return ips_err_set(err, IPS_E_PROTOCOL, "a row lacks columns");
            struct ipsq_cell *cell = ipsq_table_add_row(t);
            cell->value.type = 't';
            cell->value.text = a->machine;
            for (size_t c = 0; c < w->column_count; c++)
                cell[c + 1] = value_cell(a->rows[i]->values[c]);
        }
    }
    return 0;
}

static int print_sql(const struct ipsq_options *o, const char *run_name,
                     const struct whole *w, const Ips__Certificate *certificate,
                     struct ips_err *err)
{
    struct ipsq_table t;
    struct ipsq_out out;
    uint64_t left_out = 0;
    struct ipsq_column *columns = calloc(w->column_count + 1, sizeof(*columns));
    if (!columns)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    columns[0] = machine_column;
    for (size_t c = 0; c < w->column_count; c++)
        columns[c + 1] =
            (struct ipsq_column){w->columns[c], w->columns[c], IPSQ_VALUE};
    ipsq_table_init(&t, "rows", columns, w->column_count + 1);
    int rc = check_unique_columns(w, err);
    if (rc == 0)
        rc = fill_table(&t, w, err);
    /* Without --sort the rows stay in the order of the query. */
    if (rc == 0 && (o->sort || o->per_machine)) {
        rc = ipsq_sort_and_keep_top(&t, o, 0, &left_out, err);
    } else if (rc == 0 && o->top && o->top < t.row_count) {
        left_out = t.row_count - o->top;
        t.row_count = (size_t)o->top;
    }
    if (rc == 0) {
        ipsq_progress_stop_and_erase_line();
        ipsq_out_begin(&out, stdout, o->format, false);
        ipsq_out_set_certificate_write_limitations(&out, certificate,
                                                   o->verbose);
        ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", NULL,
                                        ipsq_text_cell(run_name));
        ipsq_out_write_table(&out, &t, NULL);
        ipsq_put_left_out_count(&out, "rows", left_out);
        rc = ipsq_out_end(&out, err);
    }
    ipsq_table_release(&t);
    free(columns);
    return rc;
}

static int run_sql(const struct ipsq_command *self,
                   const struct ipsq_options *o, struct ipsq_session *s,
                   struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__SqlAsk ask = IPS__SQL_ASK__INIT;
    const Ips__Reply *last = NULL;
    const char *run_name = NULL, *word = o->arg_count ? o->args[0] : NULL;
    struct whole w = {0};
    (void)self;
    rq.ask_case = IPS__REQUEST__ASK_SQL;
    rq.sql = &ask;
    ask.text = ips_unconst_text("");
    if (o->arg_count == 2) {
        ask.text = ips_unconst_text(o->args[1]);
    } else if (word &&
               /* a query: no run's name has one of these characters */
               strpbrk(word, " \t\n*;(")) {
        ask.text = ips_unconst_text(word);
        word = NULL;
    }
    int rc = ipsq_find_run_or_newest(s, word, &run_name, err);
    rq.run = ips_unconst_text(run_name ? run_name : "");
    if (rc == 0)
        rc =
            ipsq_session_ask(s, &rq, false, collect_sql_pieces, &w, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_SQL, err);
    if (rc == 0)
        rc = print_sql(o, run_name, &w, last->sql->certificate, err);
    ipsq_rows_release(&w.pieces);
    return rc < 0 ? rc : ipsq_certificate_exit_status(last->sql->certificate);
}

const struct ipsq_command ipsq_cmd_sql = {
    .name = "sql",
    .usage = "[RUN] 'SELECT ...' [--sort COLUMN] [--per machine] [--top N]",
    .summary = "an SQL query on a run's tables",
    .group = IPSQ_DRILL,
    .examples =
        "  ipsq sql run3 \"select process, cpu_ns from processes\"\n"
        "  ipsq sql run3 \"select cause, sum(ns) from waits group by 1\"\n",
    .help =
        "Each machine answers from its own tables of the run; rows are "
        "grouped by machine. An empty query ('') lists the views and their "
        "columns (docs/metrics.md). Only SELECT is allowed. A machine "
        "returns at most 100000 rows and computes for at most 10 seconds.\n",
    .options = IPSQ_HAS(TOP) | IPSQ_HAS(SORT) | IPSQ_HAS(PER),
    .formats = IPSQ_FORMATS_USUAL,
    .sort_columns = list_sort_columns_known_before_query,
    .max_args = 2,
    .run = run_sql,
};
