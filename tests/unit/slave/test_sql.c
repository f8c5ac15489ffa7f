/*
 * Questions in SQL over a run's tables. Catches: a question that reads another
 * run, a table of the slave's own or its schema, in whatever disguise; one that
 * writes, attaches, sets or loads anything; one that never ends, or that takes
 * all memory; an error that is not told in SQLite's words.
 * EVIDENCE-OF: IPS-8, IPS-9
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "slave/build/build.h"
#include "slave/serve/job.h"
#include "slave/store/sql.h"
#include "slave/store/store.h"

#define LONG_NS 60000000000ULL

/* Two runs of one process and two threads each; the second's are called so. */
struct world {
    char dir[32], db[64];
    struct slave_store *store;
    int64_t run[2];
    atomic_bool stop;
    struct slave_sql *q;
    struct ips_err err;
};

static void put_run(struct world *w, int i)
{
    struct slave_run_row row = {.closed = true, .events = 7};
    struct ips_proc proc = {.pid = 5,
                            .parent = IPS_NONE,
                            .start_ns = 1000,
                            .end_ns = 2000,
                            .rusage_cpu_ns = IPS_CPU_UNKNOWN,
                            .cpu_ns = 300};
    struct ips_thread_row threads[2] = {
        {.tid = 5, .start_ns = 1000, .end_ns = 2000, .cpu_ns = 200},
        {.tid = 6, .chain = 1, .start_ns = 1100, .cpu_ns = 100}};
    struct ips_built b = {
        .procs = &proc, .proc_count = 1, .threads = threads, .first_ns = 1000};
    const struct slave_procedure_row procedure = {.process_name = proc.name,
                                                  .name = "work",
                                                  .module = "",
                                                  .name_len = 4,
                                                  .self_ns = 150};
    snprintf(row.name, sizeof(row.name), "run%d", i);
    snprintf(proc.name, sizeof(proc.name), "p%d.5", i);
    threads[0].wait_ns[IPS_WAIT_PEER] = 500;
    threads[0].wait_count[IPS_WAIT_PEER] = 3;
    threads[0].delay_ns = 50;
    threads[0].woken_ns = 20;
    threads[1].unknown_ns = 10;
    threads[0].messages_out = 3;
    threads[1].messages_out = 4;
    threads[1].bytes_in = 90;
    b.g.chain_count = 2;
    assert_int_equal(slave_store_insert_or_update_run(w->store, &row, NULL), 0);
    w->run[i] = row.id;
    assert_int_equal(
        slave_store_replace_summary_tables(w->store, row.id, 77, &b, NULL), 0);
    assert_int_equal(slave_store_replace_procedures(w->store, row.id, 77,
                                                    &procedure, 1, NULL),
                     0);
}

static struct world *world(uint64_t time_ns)
{
    struct world *w = calloc(1, sizeof(*w));
    const struct slave_sql_limits limits = {.time_ns = time_ns};
    strcpy(w->dir, "/tmp/ips-sql-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    /* A name that a URI has to have in other words. */
    snprintf(w->db, sizeof(w->db), "%s/a%%20b?c#d.db", w->dir);
    assert_int_equal(slave_store_open(w->db, &w->store, NULL), 0);
    put_run(w, 0);
    put_run(w, 1);
    assert_int_equal(
        slave_sql_open(w->db, w->run[0], &limits, &w->stop, &w->q, &w->err), 0);
    return w;
}

static void end(struct world *w)
{
    char path[80];
    slave_sql_close(w->q);
    slave_store_close(w->store);
    static const char *const tails[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%s", w->db, tails[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(w->dir), 0); /* and nothing else was made */
    free(w);
}

/* The rows as text, "a|b;c|d;". */
static const char *ask(struct world *w, const char *text)
{
    static char out[4096];
    size_t at = 0;
    int rc = slave_sql_prepare(w->q, text, &w->err);
    out[0] = '\0';
    while (rc == 0 && (rc = slave_sql_step(w->q, &w->err)) == 1) {
        sqlite3_stmt *s = slave_sql_stmt(w->q);
        int n = sqlite3_column_count(s);
        for (int i = 0; i < n && at < sizeof(out) - 1; i++) {
            const unsigned char *v = sqlite3_column_text(s, i);
            at += (size_t)snprintf(out + at, sizeof(out) - at, "%s%s",
                                   v ? (const char *)v : "NULL",
                                   i + 1 < n ? "|" : ";");
        }
        rc = 0;
    }
    if (rc < 0)
        fail_msg("%s: %s", text, w->err.msg);
    return out;
}

static void test_sql__views(void **state)
{
    (void)state;
    struct world *w = world(LONG_NS);
    assert_string_equal(
        ask(w, "SELECT process, parent, start_ns, end_ns, elapsed_ns,"
               " rusage_cpu_ns, cpu_ns FROM processes"),
        "p0.5|NULL|0|1000|1000|NULL|300;");
    assert_string_equal(ask(w, "SELECT messages_out, bytes_out, messages_in,"
                               " bytes_in FROM processes"),
                        "7|0|0|90;");
    assert_string_equal(
        ask(w, "SELECT tid, elapsed_ns, cpu_ns, blocked_ns, queued_ns, end_ns"
               " FROM threads ORDER BY tid"),
        "5|1000|200|480|50|1000;6|900|100|0|NULL|NULL;");
    assert_string_equal(ask(w, "SELECT * FROM waits"), "p0.5|5|peer|500|3;");
    assert_string_equal(ask(w, "SELECT run, events FROM run_info"), "run0|7;");
    assert_string_equal(ask(w, "SELECT count(*) FROM channels"), "0;");
    assert_string_equal(ask(w, "SELECT count(*) FROM traffics"), "0;");
    assert_false(slave_sql_wants_procedures(w->q));
    assert_string_equal(
        ask(w, "SELECT process, procedure, self_ns FROM procedures"),
        "p0.5|work|150;");
    assert_true(slave_sql_wants_procedures(w->q));
    assert_string_equal(ask(w, "SELECT count(*) FROM procedures"), "1;");
    assert_true(slave_sql_wants_procedures(w->q));
    end(w);
}

/* What the query planner makes of views must not be taken for a disguise. */
static void test_sql__any_shape(void **state)
{
    (void)state;
    struct world *w = world(LONG_NS);
    assert_string_equal(ask(w, "SELECT process, sum(cpu_ns) AS c FROM threads"
                               " GROUP BY process ORDER BY 2 DESC"),
                        "p0.5|300;");
    assert_string_equal(
        ask(w, "WITH x AS (SELECT * FROM processes) SELECT process FROM x"),
        "p0.5;");
    assert_string_equal(
        ask(w, "WITH x AS (SELECT * FROM threads) SELECT count(*) FROM x"),
        "2;");
    assert_string_equal(ask(w, "SELECT (SELECT count(*) FROM waits), tid FROM"
                               " (SELECT * FROM threads) WHERE tid > 5"),
                        "1|6;");
    assert_string_equal(
        ask(w, "SELECT t.tid, w.cause FROM threads t LEFT JOIN waits w"
               " USING (process, tid) ORDER BY 1"),
        "5|peer;6|NULL;");
    assert_string_equal(ask(w, "SELECT tid, rank() OVER (ORDER BY cpu_ns DESC)"
                               " FROM threads"),
                        "5|1;6|2;");
    assert_string_equal(
        ask(w, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c"
               " WHERE x < 3) SELECT x FROM c -- and a comment"),
        "1;2;3;");
    assert_string_equal(ask(w, "SELECT 1 WHERE EXISTS (SELECT 1 FROM threads)"
                               ";"),
                        "1;");
    end(w);
}

static void refused(struct world *w, const char *text, const char *why)
{
    struct ips_err err = {0};
    int rc = slave_sql_prepare(w->q, text, &err);
    if (rc == 0)
        rc = slave_sql_step(w->q, &err);
    if (rc != IPS_E_USAGE || !strstr(err.msg, why))
        fail_msg("%s: %d %s", text, rc, err.msg);
}

static void test_sql__hostile(void **state)
{
    (void)state;
    struct world *w = world(LONG_NS);
    static const char *const not_allowed[] = {
        "ATTACH '/tmp/ips-sql-other' AS o",
        "DETACH main",
        "PRAGMA user_version",
        "PRAGMA writable_schema=1",
        "INSERT INTO processes(process) VALUES('x')",
        "DELETE FROM threads",
        "UPDATE processes SET pid=1",
        "DROP VIEW processes",
        "CREATE TABLE t(a)",
        "CREATE TEMP TABLE t(a)",
        "CREATE VIRTUAL TABLE temp.t USING fts5(a)",
        "CREATE TEMP VIEW v AS SELECT 1",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT a",
        "VACUUM INTO '/tmp/ips-sql-copy'",
        "ANALYZE",
        "REINDEX",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT * FROM process",
        "SELECT count(*) FROM process",
        "SELECT 1 FROM run",
        "SELECT name FROM run",
        "SELECT (SELECT max(name) FROM run)",
        "SELECT * FROM meta",
        "SELECT * FROM sqlite_master",
        "SELECT count(*) FROM sqlite_schema",
        "SELECT * FROM temp.sqlite_temp_master",
        "SELECT * FROM pragma_database_list",
        "SELECT count(*) FROM pragma_table_list",
        "SELECT count(*) FROM dbstat",
        "SELECT * FROM processes WHERE pid IN (SELECT id FROM run)",
        "SELECT * FROM processes UNION SELECT * FROM symbol",
        /* A name is no right to read. */
        "WITH threads AS (SELECT * FROM thread) SELECT * FROM threads",
        "WITH threads AS (SELECT count(*) FROM run) SELECT * FROM threads",
        "WITH ips AS (SELECT name FROM run) SELECT * FROM ips",
        "SELECT * FROM (SELECT * FROM run) AS threads",
    };
    for (size_t i = 0; i < sizeof(not_allowed) / sizeof(*not_allowed); i++) {
        struct ips_err err = {0};
        int rc = slave_sql_prepare(w->q, not_allowed[i], &err);
        if (rc == 0)
            rc = slave_sql_step(w->q, &err);
        if (rc != IPS_E_USAGE)
            fail_msg("%s: %d %s", not_allowed[i], rc, err.msg);
    }
    refused(w, "SELECT * FROM main.run", "");
    refused(w, "EXPLAIN SELECT 1", "only SELECT");
    refused(w, "SELECT 1; SELECT 2", "one statement at a time");
    refused(w, "", "expected a SELECT; the views are");
    refused(w, "SELEC 1", "near \"SELEC\": syntax error");
    refused(w, "SELECT nope FROM processes", "no such column: nope");
    refused(w, "SELECT \"nope\" FROM processes", "no such column: nope");
    refused(w, "SELECT zeroblob(1000000000)", "string or blob too big");
    assert_string_equal(ask(w, "SELECT process FROM processes"), "p0.5;");
    end(w);
}

/* A recursion without an end, by each of its limits. */
#define ENDLESS "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) "

static void stopped(struct world *w, const char *text, const char *why)
{
    struct ips_err err = {0};
    assert_int_equal(slave_sql_prepare(w->q, text, &err), 0);
    assert_int_equal(slave_sql_step(w->q, &err), IPS_E_LIMIT);
    assert_non_null(strstr(err.msg, why));
}

static void test_sql__no_end(void **state)
{
    (void)state;
    struct world *w = world(50000000);
    stopped(w, ENDLESS "SELECT count(*) FROM c", "time");
    end(w);
    w = world(LONG_NS);
    stopped(w, ENDLESS "SELECT x, hex(zeroblob(500)) AS y FROM c ORDER BY y, x",
            "memory");
    atomic_store(&w->stop, true);
    stopped(w, ENDLESS "SELECT count(*) FROM c", "cancelled");
    atomic_store(&w->stop, false);
    assert_string_equal(ask(w, "SELECT process FROM processes"), "p0.5;");
    end(w);
}

/* ---- the helper that answers a question ---------------------------------- */

/* What the helper asked of the timer that would end it, in its order; shared
 * with the helper. */
static struct timers {
    unsigned count;
    struct itimerval set[8];
} * timers;

int __wrap_setitimer(__itimer_which_t which, const struct itimerval *to,
                     struct itimerval *old);
int __wrap_setitimer(__itimer_which_t which, const struct itimerval *to,
                     struct itimerval *old)
{
    assert_int_equal(which, ITIMER_REAL);
    assert_null(old);
    if (timers->count < 8)
        timers->set[timers->count++] = *to;
    return 0;
}

static struct world *world_for_helper(void)
{
    struct world *w = world(LONG_NS);
    timers = mmap(NULL, sizeof(*timers), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(timers != MAP_FAILED);
    /* SQLite's connections do not survive a fork. */
    slave_sql_close(w->q);
    slave_store_close(w->store);
    w->q = NULL;
    w->store = NULL;
    return w;
}

static void end_for_helper(struct world *w)
{
    end(w);
    munmap(timers, sizeof(*timers));
}

/* Returns what the helper writes, which the caller closes. */
static FILE *run_helper(const struct world *w, uint64_t time_ns, unsigned rows,
                        bool procedures, const char *text)
{
    FILE *in = tmpfile(), *out = tmpfile();
    int status;
    assert_true(in && out);
    fprintf(in, "%s\n%lld %llu %u %d\n%s", w->db, (long long)w->run[0],
            (unsigned long long)time_ns, rows, procedures, text);
    rewind(in);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        /* it closes all descriptors but the first three */
        if (dup2(fileno(in), 0) != 0 || dup2(fileno(out), 1) != 1)
            _exit(90);
        _exit(slave_sql_main(stdin, stdout));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fclose(in);
    rewind(out);
    return out;
}

/* The timer that ends a helper: half a second after the question's time, while
 * it prepares and while it reads rows, and stopped between. Would catch: a
 * fraction of a second in another unit (too small ends the helper before its
 * time; the kernel refuses a million microseconds, and no timer is set), one
 * that goes on while the helper waits for its reader. */
static void test_sql__helper_is_timed(void **state)
{
    static const struct {
        uint64_t ns;
        struct timeval at;
    } rows[] = {{1250000000, {1, 750000}}, {700001000, {1, 200001}}};
    (void)state;
    struct world *w = world_for_helper();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        timers->count = 0;
        fclose(run_helper(w, rows[i].ns, 100, true, "SELECT tid FROM threads"));
        assert_int_equal(timers->count, 4);
        for (unsigned k = 0; k < 4; k++) {
            const struct itimerval *t = &timers->set[k];
            bool starts = k % 2 == 0;
            assert_int_equal(t->it_value.tv_sec,
                             starts ? rows[i].at.tv_sec : 0);
            assert_int_equal(t->it_value.tv_usec,
                             starts ? rows[i].at.tv_usec : 0);
            assert_false(timerisset(&t->it_interval));
        }
    }
    end_for_helper(w);
}

enum { MORE, LAST, PROCEDURES }; /* kinds of frames */

/* The next message of the helper; the caller frees it. */
static Ips__SqlAnswer *next_frame(FILE *out, uint32_t kind)
{
    uint32_t head[2]; /* kind, bytes */
    assert_int_equal(fread(head, 1, sizeof(head), out), sizeof(head));
    assert_int_equal(head[0], kind);
    uint8_t *data = malloc(head[1] + (size_t)1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, head[1], out), head[1]);
    Ips__SqlAnswer *a = ips__sql_answer__unpack(NULL, head[1], data);
    assert_non_null(a);
    free(data);
    return a;
}

static void no_more(FILE *out)
{
    assert_int_equal(fgetc(out), EOF);
    fclose(out);
}

/* The only frame of an answer without rows. */
static void helper_says(const struct world *w, unsigned rows, const char *text,
                        const char *error, const char *cut)
{
    FILE *out = run_helper(w, LONG_NS, rows, true, text);
    Ips__SqlAnswer *a = next_frame(out, error ? LAST : MORE);
    if (!error) { /* it has the columns */
        ips__sql_answer__free_unpacked(a, NULL);
        a = next_frame(out, LAST);
    }
    assert_non_null(strstr(error ? a->error : a->cut, error ? error : cut));
    assert_string_equal(error ? a->cut : a->error, "");
    ips__sql_answer__free_unpacked(a, NULL);
    no_more(out);
}

/* Would catch: values of another type or row, an error or a limit that the
 * slave does not hear of, rows beyond the limit, and procedures that are asked
 * for before they are there. */
static void test_sql__helper_answers(void **state)
{
    (void)state;
    struct world *w = world_for_helper();
    FILE *out = run_helper(w, LONG_NS, 2, false,
                           "SELECT tid, 'a' || tid AS name, 0.5, NULL FROM"
                           " threads ORDER BY tid");
    Ips__SqlAnswer *a = next_frame(out, MORE);
    assert_int_equal(a->n_columns, 4);
    assert_string_equal(a->columns[0], "tid");
    assert_string_equal(a->columns[1], "name");
    assert_int_equal(a->n_rows, 0);
    ips__sql_answer__free_unpacked(a, NULL);
    a = next_frame(out, LAST);
    assert_int_equal(a->n_rows, 2);
    for (int i = 0; i < 2; i++) {
        const char *const name[] = {"a5", "a6"};
        Ips__SqlValue **v = a->rows[i]->values;
        assert_int_equal(a->rows[i]->n_values, 4);
        assert_int_equal(v[0]->integer, 5 + i);
        assert_string_equal(v[1]->text, name[i]);
        assert_true(v[2]->real == 0.5);
        assert_int_equal(v[3]->value_case, IPS__SQL_VALUE__VALUE__NOT_SET);
    }
    assert_string_equal(a->error, "");
    assert_string_equal(a->cut, "");
    ips__sql_answer__free_unpacked(a, NULL);
    no_more(out);
    helper_says(w, 1, "SELECT tid FROM threads", NULL, "more than 1 rows");
    helper_says(w, 9, "SELEC", "syntax error", NULL);
    helper_says(w, 9, "SELECT name FROM run", "not", NULL);
    out = run_helper(w, LONG_NS, 9, false, "SELECT * FROM procedures");
    ips__sql_answer__free_unpacked(next_frame(out, PROCEDURES), NULL);
    no_more(out);
    out = run_helper(w, LONG_NS, 9, true, "SELECT self_ns FROM procedures");
    ips__sql_answer__free_unpacked(next_frame(out, MORE), NULL);
    a = next_frame(out, LAST);
    assert_int_equal(a->n_rows, 1);
    assert_int_equal(a->rows[0]->values[0]->integer, 150);
    ips__sql_answer__free_unpacked(a, NULL);
    no_more(out);
    end_for_helper(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sql__views),
        cmocka_unit_test(test_sql__any_shape),
        cmocka_unit_test(test_sql__hostile),
        cmocka_unit_test(test_sql__no_end),
        cmocka_unit_test(test_sql__helper_is_timed),
        cmocka_unit_test(test_sql__helper_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
