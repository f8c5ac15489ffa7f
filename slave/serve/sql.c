/*
 * Answers SqlAsk: an SQL question about the run's result tables (IRT), in
 * pieces. An error in the question is reported as an answer, not as a failure
 * of the slave.
 *
 * SQLite checks no limit inside one call of an SQL function. So a helper
 * process (`ips-slave --sql`), which a timer can kill, runs the query. The
 * worker never blocks on the helper, so it answers other requests meanwhile.
 * The helper's input is
 *
 *   database \n run \n time limit in ns \n maximum number of rows \n
 *   1 (the database has the procedures) or 0 \n the question
 *
 * and its output is a sequence of frames: struct sql_frame and a packed
 * SqlAnswer. Without a helper (in tests) the worker itself runs the query.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slave/base/helper.h"
#include "slave/serve/graph.h"
#include "slave/store/sql.h"

#define PIECE_SQL_ROWS 1024u
#define PIECE_SQL_BYTES (1u << 20)
/* when this time has passed, the rows read so far are sent as a piece */
#define PIECE_SQL_NS (200 * SLAVE_MS_NS)
#define SQL_FRAME_BYTES (IPS_FRAME_MAX_BYTES - 65536u)
/* The timer that kills the helper expires this long after the question's time
 * limit, so that SQLite, where it checks the limit, can report the excess
 * itself. */
#define SQL_GRACE_NS (500 * SLAVE_MS_NS)
#define SQL_HELPER_BYTES ((uint64_t)512 << 20)
#define SQL_HELPERS_MOST 16u

enum sql_frame_kind {
    SQL_MORE,
    SQL_LAST,
    /* the question needs the table of procedures: the worker makes it and runs
       a new helper */
    SQL_PROCEDURES
};
struct sql_frame {
    uint32_t kind, bytes; /* bytes: length of the message that follows */
};

/* ---- rows of an answer, as messages ----- */

struct sql_rows {
    struct slave_sql *q;
    uint64_t count, most; /* number of rows read so far, and its limit */
    Ips__SqlRow *row;
    Ips__SqlRow **row_ptr;
    Ips__SqlValue *value;
    Ips__SqlValue **value_ptr;
    char **columns;
    char *texts; /* texts of the rows of the current piece */
    size_t texts_len, texts_capacity;
    uint32_t column_count;
    /* error in the question, or the limit that it reached */
    struct ips_err error;
};

static void sql_rows_release(struct sql_rows *a)
{
    slave_sql_close(a->q);
    free(a->row);
    free(a->row_ptr);
    free(a->value);
    free(a->value_ptr);
    free(a->columns);
    free(a->texts);
    *a = (struct sql_rows){0};
}

static int allocate_sql_rows(struct sql_rows *a, struct ips_err *err)
{
    a->column_count = (uint32_t)sqlite3_column_count(slave_sql_stmt(a->q));
    size_t n = a->column_count, cells = n * PIECE_SQL_ROWS;
    a->row = calloc(PIECE_SQL_ROWS, sizeof(*a->row));
    a->row_ptr = calloc(PIECE_SQL_ROWS, sizeof(*a->row_ptr));
    a->value = calloc(cells, sizeof(*a->value));
    a->value_ptr = calloc(cells, sizeof(*a->value_ptr));
    a->columns = calloc(n, sizeof(*a->columns));
    if (!a->row || !a->row_ptr || !a->value || !a->value_ptr || !a->columns)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < PIECE_SQL_ROWS; i++)
        a->row_ptr[i] = &a->row[i];
    for (size_t i = 0; i < cells; i++)
        a->value_ptr[i] = &a->value[i];
    return 0;
}

/* Appends a copy of a row's text to a->texts, up to its first zero byte:
 * SQLite's own text becomes invalid at the statement's next step. */
static bool append_sql_text(struct sql_rows *a, const char *text, size_t bytes)
{
    size_t len = text ? strnlen(text, bytes) : 0;
    if (a->texts_capacity - a->texts_len <= len) {
        size_t more = (a->texts_capacity + len + 1) * 2;
        char *fresh = realloc(a->texts, more);
        if (!fresh)
            return false;
        a->texts = fresh;
        a->texts_capacity = more;
    }
    if (len)
        memcpy(a->texts + a->texts_len, text, len);
    a->texts[a->texts_len + len] = '\0';
    a->texts_len += len + 1;
    return true;
}

static bool copy_current_sql_row_to(struct sql_rows *a, size_t at)
{
    sqlite3_stmt *s = slave_sql_stmt(a->q);
    Ips__SqlRow *row = &a->row[at];
    ips__sql_row__init(row);
    row->values = &a->value_ptr[at * a->column_count];
    row->n_values = a->column_count;
    for (uint32_t c = 0; c < a->column_count; c++) {
        Ips__SqlValue *v = row->values[c];
        int i = (int)c;
        ips__sql_value__init(v);
        switch (sqlite3_column_type(s, i)) {
        case SQLITE_INTEGER:
            v->value_case = IPS__SQL_VALUE__VALUE_INTEGER;
            v->integer = sqlite3_column_int64(s, i);
            break;
        case SQLITE_FLOAT:
            v->value_case = IPS__SQL_VALUE__VALUE_REAL;
            v->real = sqlite3_column_double(s, i);
            break;
        case SQLITE_NULL:
            break;
        default: /* texts, and blobs, whose bytes are sent as a text */
            v->value_case = IPS__SQL_VALUE__VALUE_TEXT;
            v->text = NULL;
            if (!append_sql_text(a, sqlite3_column_blob(s, i),
                                 (size_t)sqlite3_column_bytes(s, i)))
                return false;
        }
    }
    return true;
}

/* Sets the values' pointers into a->texts after all rows of the piece were
 * read, because the buffer may move while it grows. */
static void set_text_pointers(struct sql_rows *a, size_t rows)
{
    char *text = a->texts;
    for (size_t i = 0; i < rows * a->column_count; i++)
        if (a->value[i].value_case == IPS__SQL_VALUE__VALUE_TEXT) {
            a->value[i].text = text;
            text += strlen(text) + 1;
        }
}

static void set_answer_column_names(struct sql_rows *a, Ips__SqlAnswer *r)
{
    r->columns = a->columns;
    r->n_columns = a->column_count;
    for (uint32_t c = 0; c < a->column_count; c++)
        a->columns[c] =
            ips_unconst_text(sqlite3_column_name(slave_sql_stmt(a->q), (int)c));
}

static void set_answer_error_or_cut_reason(struct sql_rows *a,
                                           Ips__SqlAnswer *r)
{
    if (a->error.code == IPS_E_LIMIT)
        r->cut = a->error.msg;
    else
        r->error = a->error.msg;
}

/* Reads the next rows into *r. Sets *last if these are the last ones, or if
 * there was an error. */
static int read_next_sql_rows(struct sql_rows *a, Ips__SqlAnswer *r, bool *last,
                              struct ips_err *err)
{
    uint64_t until_ns = slave_now_ns() + PIECE_SQL_NS;
    int rc = 1;
    set_answer_column_names(a, r);
    a->texts_len = 0;
    r->rows = a->row_ptr;
    while (r->n_rows < PIECE_SQL_ROWS && a->texts_len < PIECE_SQL_BYTES) {
        rc = slave_sql_step(a->q, &a->error);
        if (rc != 1)
            break;
        if (a->count == a->most) {
            rc = ips_err_set(&a->error, IPS_E_LIMIT,
                             "it has more than %llu rows",
                             (unsigned long long)a->most);
            break;
        }
        if (!copy_current_sql_row_to(a, r->n_rows))
            return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
        r->n_rows++;
        a->count++;
        if (slave_now_ns() >= until_ns)
            break;
    }
    set_text_pointers(a, r->n_rows);
    if (rc < 0)
        set_answer_error_or_cut_reason(a, r);
    *last = rc <= 0;
    return 0;
}

/* ---- functions of the helper process ------------ */

static void write_sql_frame(FILE *out, uint32_t kind, const Ips__SqlAnswer *r)
{
    const Ips__SqlAnswer none = IPS__SQL_ANSWER__INIT;
    struct sql_frame head = {.kind = kind};
    Ips__SqlAnswer cut = IPS__SQL_ANSWER__INIT;
    char why[100];
    r = r ? r : &none;
    size_t len = ips__sql_answer__get_packed_size(r);
    if (len > SQL_FRAME_BYTES) {
        snprintf(why, sizeof(why),
                 "one of its rows has more than about %u MB: select less",
                 SQL_FRAME_BYTES >> 20);
        cut.cut = why;
        r = &cut;
        len = ips__sql_answer__get_packed_size(r);
        head.kind = SQL_LAST;
    }
    uint8_t *data = malloc(len + 1);
    if (!data)
        /* the slave sees that the output ended early and reports it */
        _exit(1);
    head.bytes = (uint32_t)ips__sql_answer__pack(r, data);
    (void)fwrite(&head, sizeof(head), 1, out);
    (void)fwrite(data, 1, len, out);
    if (fflush(out) != 0 || head.kind != kind)
        _exit(1);
    free(data);
}

/* Starts a timer whose SIGALRM ends this process after `ns`; 0 stops the timer.
 */
static void start_or_stop_self_kill_timer(uint64_t ns)
{
    const struct itimerval t = {
        .it_value = {.tv_sec = (time_t)(ns / SLAVE_SECOND_NS),
                     .tv_usec = (suseconds_t)(ns % SLAVE_SECOND_NS / 1000)}};
    (void)setitimer(ITIMER_REAL, &t, NULL);
}

/* Writes the rows of the answer to `out`. left_ns: time limit for reading them;
 * it does not include the time for writing. */
static void read_sql_rows_and_write_frames(struct sql_rows *a, uint64_t left_ns,
                                           FILE *out)
{
    struct ips_err err = {0};
    Ips__SqlAnswer columns = IPS__SQL_ANSWER__INIT;
    bool last = false;
    if (allocate_sql_rows(a, &err) < 0)
        _exit(1);
    set_answer_column_names(a, &columns);
    write_sql_frame(out, SQL_MORE, &columns);
    while (!last) {
        Ips__SqlAnswer r = IPS__SQL_ANSWER__INIT;
        uint64_t began = slave_now_ns();
        start_or_stop_self_kill_timer(left_ns + SQL_GRACE_NS);
        int rc = read_next_sql_rows(a, &r, &last, &err);
        start_or_stop_self_kill_timer(0);
        left_ns = ips_sub_sat(left_ns, slave_now_ns() - began);
        if (rc < 0)
            _exit(1);
        write_sql_frame(out, last ? SQL_LAST : SQL_MORE, &r);
    }
}

int slave_sql_main(FILE *in, FILE *out)
{
    char db[IPS_PATH_BYTES];
    static char text[SQL_TEXT_BYTES + 1];
    struct sql_rows a = {0};
    struct slave_sql_limits limits = {0};
    Ips__SqlAnswer r = IPS__SQL_ANSWER__INIT;
    atomic_bool stop = false;
    int64_t run;
    int procedures;
    if (!fgets(db, sizeof(db), in) ||
        fscanf(in, "%" SCNd64 " %" SCNu64 " %" SCNu64 " %d", &run,
               &limits.time_ns, &a.most, &procedures) != 4 ||
        fgetc(in) != '\n')
        return 2;
    db[strcspn(db, "\n")] = '\0';
    text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
    slave_helper_confine(limits.time_ns / SLAVE_SECOND_NS + 5,
                         SQL_HELPER_BYTES);
    start_or_stop_self_kill_timer(limits.time_ns + SQL_GRACE_NS);
    int rc = slave_sql_open(db, run, &limits, &stop, &a.q, &a.error);
    if (rc == 0)
        rc = slave_sql_prepare(a.q, text, &a.error);
    start_or_stop_self_kill_timer(0);
    if (rc < 0) {
        set_answer_error_or_cut_reason(&a, &r);
        write_sql_frame(out, SQL_LAST, &r);
    } else if (slave_sql_wants_procedures(a.q) && !procedures) {
        write_sql_frame(out, SQL_PROCEDURES, NULL);
    } else {
        read_sql_rows_and_write_frames(&a, limits.time_ns, out);
    }
    sql_rows_release(&a);
    return 0;
}

/* ---- the job: the run's tables ---- */

struct sql_ask {
    int64_t run;
    struct sql_rows own; /* rows, if the worker answers without a helper */
    pid_t helper;        /* pid of the helper; 0: none */
    int fd;              /* descriptor from which the helper's output is read */
    bool procedures;     /* true: the procedures are in the database already */
    /* the bytes received of the frame that is being read */
    uint8_t *data;
    size_t len, capacity;
    /* columns: the answer in the first frame, which has the column names;
     * piece: the answer sent last */
    Ips__SqlAnswer *columns, *piece;
    char why[200];
};

/* Makes sure that the database has the procedures of the graph that the IRT
 * rows belong to. */
static int ensure_procedures_stored(struct slave_graph_ask *j,
                                    struct slave_graphs *gs)
{
    struct slave_irt_row irt;
    struct slave_store *store = slave_graphs_get_or_open_store(gs, &j->job.err);
    if (!store)
        return j->job.err.code;
    if (slave_store_get_summary_tables_state(store, j->sql->run, &irt) &&
        irt.procedures)
        return 0;
    int rc = slave_graph_get_or_build_newest_and_verify(j, gs);
    return rc < 0 ? rc
                  : slave_graph_make_profile_cache_if_missing(gs, j->graph,
                                                              &j->job.err);
}

/* Makes sure that the run's IRT tables exist. If no SyncAsk came before, tables
 * may exist from an older build of the graph. Then those of a closed run are
 * made again; those of an open run are used as they are. */
static int ensure_summary_tables_stored(struct slave_graph_ask *j,
                                        struct slave_graphs *gs)
{
    struct slave_irt_row irt;
    struct slave_store *store = slave_graphs_get_or_open_store(gs, &j->job.err);
    if (!store)
        return j->job.err.code;
    if (!slave_store_get_summary_tables_state(store, j->sql->run, &irt) ||
        (j->snap->closed && irt.key != j->snap->key))
        return slave_graph_get_or_build_newest_and_verify(j, gs);
    j->sql->procedures = irt.procedures;
    return 0;
}

/* ---- without a helper ---- */

/* Prepares to answer without a helper. Returns 0 with j->sql->own.error set if
 * the question is wrong. */
static int open_and_prepare_sql_without_helper(struct slave_graph_ask *j,
                                               struct slave_graphs *gs)
{
    const Ips__SqlAsk *ask = slave_graph_get_request(j)->sql;
    const struct slave_sql_limits limits = {.time_ns = ask->time_ns};
    struct sql_rows *a = &j->sql->own;
    a->most = ask->rows;
    int rc = slave_sql_open(gs->db, j->sql->run, &limits, &j->job.stop, &a->q,
                            &j->job.err);
    if (rc < 0)
        return rc;
    rc = slave_sql_prepare(a->q, ask->text, &a->error);
    if (rc == 0 && slave_sql_wants_procedures(a->q)) {
        rc = ensure_procedures_stored(j, gs);
        if (rc < 0)
            return rc;
        rc = slave_sql_prepare(a->q, ask->text, &a->error);
    }
    return rc < 0 ? 0 : allocate_sql_rows(a, &j->job.err);
}

static int read_sql_rows_without_helper(struct slave_graph_ask *j)
{
    struct sql_rows *a = &j->sql->own;
    if (!a->error.code)
        return read_next_sql_rows(a, &j->answer.sql, &j->job.finished,
                                  &j->job.err);
    set_answer_error_or_cut_reason(a, &j->answer.sql);
    j->job.finished = true;
    return 0;
}

/* ---- with a helper ---- */

static void kill_sql_helper(struct sql_ask *a, struct slave_graphs *gs)
{
    if (!a->helper)
        return;
    (void)slave_helper_kill_if_asked_and_wait(a->helper, true);
    close(a->fd);
    a->helper = 0;
    a->len = 0;
    gs->sql_helpers--;
}

static int start_sql_helper(struct slave_graph_ask *j, struct slave_graphs *gs)
{
    const Ips__SqlAsk *ask = slave_graph_get_request(j)->sql;
    struct sql_ask *a = j->sql;
    if (gs->sql_helpers >= SQL_HELPERS_MOST)
        return ips_err_set(
            &j->job.err, IPS_E_LIMIT,
            "%u SQL queries are in progress: ask again when one has "
            "ended",
            SQL_HELPERS_MOST);
    FILE *f = slave_helper_create_input(&j->job.err);
    if (!f)
        return j->job.err.code;
    fprintf(f, "%s\n%" PRId64 "\n%" PRIu64 "\n%" PRIu64 "\n%d\n%s", gs->db,
            a->run, ask->time_ns, ask->rows, a->procedures, ask->text);
    int rc = slave_helper_start(gs->helper, "--sql", f, &a->helper, &a->fd,
                                &j->job.err);
    if (rc < 0)
        return rc;
    gs->sql_helpers++;
    (void)fcntl(a->fd, F_SETFL, O_NONBLOCK);
    return 0;
}

/* Answers with the reason why the helper ended before it sent the last frame.
 */
static void reap_sql_helper_and_report_reason(struct slave_graph_ask *j,
                                              struct slave_graphs *gs)
{
    struct sql_ask *a = j->sql;
    int status = slave_helper_kill_if_asked_and_wait(a->helper, false);
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    a->helper = 0;
    close(a->fd);
    gs->sql_helpers--;
    if (signal == SIGALRM || signal == SIGXCPU)
        snprintf(a->why, sizeof(a->why),
                 "the query took longer than %llu s: select less, with "
                 "WHERE or LIMIT",
                 slave_graph_get_request(j)->sql->time_ns / SLAVE_SECOND_NS);
    else
        snprintf(a->why, sizeof(a->why),
                 "its process ended (%s %d): if it needs more than %u MB of "
                 "memory, select less, with WHERE or LIMIT",
                 signal ? "signal" : "status",
                 signal ? signal : WEXITSTATUS(status),
                 (unsigned)(SQL_HELPER_BYTES >> 20));
    j->answer.sql.cut = a->why;
    j->job.finished = true;
}

/* Reads more of the helper's output. Returns 1: a frame is complete; 0: not
 * yet; IPS_E_NOT_FOUND: the output has ended, or is invalid. */
static int read_helper_output_up_to_frame(struct sql_ask *a,
                                          struct sql_frame *head,
                                          struct ips_err *err)
{
    for (;;) {
        size_t want = sizeof(*head);
        if (a->len >= want) {
            memcpy(head, a->data, sizeof(*head));
            if (head->bytes > SQL_FRAME_BYTES)
                return IPS_E_NOT_FOUND;
            want += head->bytes;
        }
        if (a->len >= sizeof(*head) && a->len == want)
            return 1;
        if (want > a->capacity) {
            uint8_t *grown = realloc(a->data, want);
            if (!grown)
                return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
            a->data = grown;
            a->capacity = want;
        }
        ssize_t n = read(a->fd, a->data + a->len, want - a->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return IPS_E_NOT_FOUND;
        a->len += (size_t)n;
    }
}

/* Handles a complete frame from the helper. */
static int
unpack_frame_or_store_procedures_and_restart(struct slave_graph_ask *j,
                                             struct slave_graphs *gs,
                                             const struct sql_frame *head)
{
    struct sql_ask *a = j->sql;
    if (head->kind == SQL_PROCEDURES && !a->procedures) {
        kill_sql_helper(a, gs);
        a->procedures = true;
        int rc = ensure_procedures_stored(j, gs);
        j->job.silent = rc == 0;
        return rc == 0 ? start_sql_helper(j, gs) : rc;
    }
    Ips__SqlAnswer *r =
        ips__sql_answer__unpack(NULL, head->bytes, a->data + sizeof(*head));
    a->len = 0;
    if (!r)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    if (a->piece != a->columns)
        ips__sql_answer__free_unpacked(a->piece, NULL);
    a->piece = r;
    j->job.finished = head->kind == SQL_LAST;
    /* A frame with only column names is not sent; they go with the first
     * rows. */
    j->job.silent = !j->job.finished && r->n_rows == 0;
    if (!a->columns)
        a->columns = r;
    j->answer.sql = *r;
    return 0;
}

static int read_sql_rows_from_helper(struct slave_graph_ask *j,
                                     struct slave_graphs *gs)
{
    struct sql_ask *a = j->sql;
    struct sql_frame head;
    int rc;
    do {
        j->job.silent = false;
        rc = read_helper_output_up_to_frame(a, &head, &j->job.err);
        if (rc == IPS_E_NOT_FOUND) {
            reap_sql_helper_and_report_reason(j, gs);
            rc = 0;
        } else if (rc == 1) {
            rc = unpack_frame_or_store_procedures_and_restart(j, gs, &head);
        } else if (rc == 0) {
            j->job.silent = true;
            j->job.wait_fd = a->fd;
            return 0;
        }
    } while (rc == 0 && j->job.silent);
    if (rc == 0 && a->columns) {
        j->answer.sql.columns = a->columns->columns;
        j->answer.sql.n_columns = a->columns->n_columns;
    }
    return rc;
}

/* ---- with and without a helper ---- */

static int ensure_tables_and_start_sql_query(struct slave_graph_ask *j,
                                             struct slave_graphs *gs)
{
    struct sql_ask *a = j->sql = calloc(1, sizeof(*a));
    if (!a)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    /* copied now, because a build takes ownership of the snapshot */
    a->run = j->snap->run_id;
    int rc = ensure_summary_tables_stored(j, gs);
    if (rc < 0)
        return rc;
    return gs->helper[0] ? start_sql_helper(j, gs)
                         : open_and_prepare_sql_without_helper(j, gs);
}

void slave_sql_kill_helper_and_release(struct slave_graph_ask *j,
                                       struct slave_graphs *gs)
{
    struct sql_ask *a = j->sql;
    if (!a)
        return;
    kill_sql_helper(a, gs);
    sql_rows_release(&a->own);
    if (a->piece != a->columns)
        ips__sql_answer__free_unpacked(a->piece, NULL);
    ips__sql_answer__free_unpacked(a->columns, NULL);
    free(a->data);
    free(a);
}

void slave_answer_sql_request(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    int rc = 0;
    ips__sql_answer__init(&j->answer.sql);
    if (!j->sql)
        rc = ensure_tables_and_start_sql_query(j, gs);
    if (rc == 0)
        rc = gs->helper[0] ? read_sql_rows_from_helper(j, gs)
                           : read_sql_rows_without_helper(j);
    if (rc < 0) {
        job->silent = false;
        slave_job_fail(job);
        return;
    }
    job->reply.answer_case = IPS__REPLY__ANSWER_SQL;
    job->reply.sql = &j->answer.sql;
}
