/* The catalogue on disk. Catches: a run lost or doubled by opening again, a
 * change not written because it looked like the last one, a newer format
 * overwritten, a heartbeat that writes when nothing is new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <unistd.h>

#include "common/log.h"
#include "master/base/catalogue.h"
#include "proto/message.h"
#include "tests/support/live_blocks.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/ips-test-catalogue-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"master.db", "master.db-wal",
                                        "master.db-shm"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static struct catalogue *open_it(void)
{
    struct catalogue *c = NULL;
    struct ips_err err = {0};
    if (catalogue_open(dir, &c, &err) < 0)
        fail_msg("%s", err.msg);
    return c;
}

static void put(struct catalogue *c, const char *machine, const char *run,
                uint64_t created, uint64_t events, bool open)
{
    Ips__RunState state = IPS__RUN_STATE__INIT, *list = &state;
    uint64_t lost[] = {1, 0, 2};
    char *tags[] = {ips_unconst_text("k=v"), ips_unconst_text("x=y z")};
    state.run = ips_unconst_text(run);
    state.command = ips_unconst_text("a command");
    state.created_real_ns = created;
    state.events = events;
    state.open = open;
    state.n_lost = 3;
    state.lost = lost;
    state.n_tags = 2;
    state.tags = tags;
    assert_int_equal(catalogue_store_changed_runs(c, machine, &list, 1, NULL),
                     0);
}

struct seen {
    char text[1024];
    uint64_t events, lost;
    bool open;
};

static void on_row(const struct catalogue_row *row, void *arg)
{
    struct seen *s = arg;
    size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof(s->text) - at, "%s@%s ", row->run,
             row->machine);
    s->events += row->events;
    s->lost += row->lost;
    s->open = s->open || row->open;
    assert_string_equal(row->tags, "k=v\nx=y z\n");
}

static struct seen all(struct catalogue *c, const char *run)
{
    struct seen s = {0};
    assert_int_equal(catalogue_for_each_row(c, run, on_row, &s, NULL), 0);
    return s;
}

static void add_name(const struct catalogue_row *row, void *arg)
{
    char *text = arg;
    size_t at = strlen(text);
    snprintf(text + at, 200 - at, "%s@%s ", row->run, row->machine);
}

static const char *untagged(struct catalogue *c)
{
    static char text[200];
    text[0] = '\0';
    assert_int_equal(catalogue_for_each_row(c, NULL, add_name, text, NULL), 0);
    return text;
}

static void test_master_catalogue__survives(void **state)
{
    (void)state;
    struct catalogue *c = open_it();
    put(c, "m2", "old", 100, 5, false);
    put(c, "m1", "old", 101, 6, false);
    put(c, "m1", "new", 200, 7, true);
    catalogue_close(c);
    c = open_it();
    struct seen s = all(c, NULL);
    assert_string_equal(s.text, "new@m1 old@m1 old@m2 ");
    assert_int_equal(s.events, 18);
    assert_int_equal(s.lost, 9);
    assert_true(s.open);
    s = all(c, "old");
    assert_string_equal(s.text, "old@m1 old@m2 ");
    assert_false(s.open);
    assert_string_equal(all(c, "nosuch").text, "");
    catalogue_close(c);
}

static void test_master_catalogue__changes_are_written_once(void **state)
{
    (void)state;
    struct catalogue *c = open_it();
    put(c, "m1", "r", 1, 5, true);
    put(c, "m1", "r", 1, 9, false);
    put(c, "m1", "r", 1, 5, true); /* back again is a change too */
    assert_int_equal(all(c, "r").events, 5);
    assert_true(all(c, "r").open);
    /* The same again and again writes nothing: the file does not grow. */
    char path[128];
    snprintf(path, sizeof(path), "%s/master.db-wal", dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long before = ftell(f);
    for (int i = 0; i < 500; i++)
        put(c, "m1", "r", 1, 5, true);
    fseek(f, 0, SEEK_END);
    assert_int_equal(ftell(f), before);
    fclose(f);
    catalogue_close(c);
}

static void test_master_catalogue__own_table(void **state)
{
    (void)state;
    struct catalogue *c = open_it();
    Ips__MetricsAnswer answer = IPS__METRICS_ANSWER__INIT;
    Ips__MetricsRow row = IPS__METRICS_ROW__INIT, *list = &row;
    uint64_t events = 0;
    row.object = ips_unconst_text("/");
    row.cpu_ns = 77;
    answer.n_rows = 1;
    answer.rows = &list;
    assert_null(catalogue_load_metrics_answer(c, "r", &events));
    assert_int_equal(catalogue_store_metrics_answer(c, "r", 12, &answer, NULL),
                     0);
    row.cpu_ns = 78;
    assert_int_equal(catalogue_store_metrics_answer(c, "r", 13, &answer, NULL),
                     0);
    catalogue_close(c);
    c = open_it();
    Ips__MetricsAnswer *kept = catalogue_load_metrics_answer(c, "r", &events);
    assert_non_null(kept);
    assert_int_equal(events, 13);
    assert_int_equal(kept->rows[0]->cpu_ns, 78);
    ips__metrics_answer__free_unpacked(kept, NULL);
    /* A row of the same run leaves the results; one of a run that was created
     * at another time, on the same machine, is of another run of that name. */
    Ips__RunState run = IPS__RUN_STATE__INIT, *runs = &run;
    run.run = ips_unconst_text("r");
    run.created_real_ns = 5;
    for (int i = 0; i < 2; i++) {
        run.events++;
        assert_int_equal(catalogue_store_changed_runs(c, "m1", &runs, 1, NULL),
                         0);
        assert_int_equal(catalogue_store_changed_runs(c, "m2", &runs, 1, NULL),
                         0);
        kept = catalogue_load_metrics_answer(c, "r", &events);
        assert_non_null(kept);
        ips__metrics_answer__free_unpacked(kept, NULL);
    }
    run.created_real_ns = 6;
    assert_int_equal(catalogue_store_changed_runs(c, "m1", &runs, 1, NULL), 0);
    assert_null(catalogue_load_metrics_answer(c, "r", &events));
    catalogue_close(c);
}

static void test_master_catalogue__newer_format_is_left_alone(void **state)
{
    (void)state;
    char path[128];
    sqlite3 *db;
    struct catalogue *c = NULL;
    struct ips_err err = {0};
    catalogue_close(open_it());
    snprintf(path, sizeof(path), "%s/master.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(catalogue_open(dir, &c, &err), IPS_E_VERSION);
    assert_non_null(strstr(err.msg, "99"));
    /* And what is no database is not taken for one. */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 1000; i++)
        fputs("not a database", f);
    fclose(f);
    assert_int_equal(catalogue_open(dir, &c, &err), IPS_E_DB);
}

static void see_figures(const struct catalogue_row *row, void *arg)
{
    const bool other = *(unsigned *)arg;
    *(unsigned *)arg += 1;
    assert_string_equal(row->machine, other ? "m2" : "m1");
    assert_string_equal(row->command, other ? "" : "sleep 1");
    assert_string_equal(row->tags, other ? "" : "a=b\n");
    assert_int_equal(row->created_real_ns, other ? 50 : 40);
    assert_int_equal(row->open, other);
    assert_int_equal(row->has_root, !other);
    assert_int_equal(row->processes, other ? 21 : 11);
    assert_int_equal(row->threads, other ? 0 : 12);
    assert_int_equal(row->events, other ? UINT64_MAX / 4 : 13);
    assert_int_equal(row->lost, other ? 0 : 3 + 4);
    assert_int_equal(row->untraced, other ? 0 : 15);
    assert_int_equal(row->torn, other ? 0 : 16);
}

/* Would catch: a figure in another one's place, machines that are not added up,
 * the first of two runs of that name taken for the last. */
static void test_master_catalogue__every_figure(void **state)
{
    Ips__RunState one = IPS__RUN_STATE__INIT, two = IPS__RUN_STATE__INIT;
    Ips__RunState *first = &one, *second = &two;
    uint64_t lost[] = {3, 0, 4};
    char *tags[] = {ips_unconst_text("a=b")};
    struct catalogue_run_sum known;
    unsigned rows = 0;
    (void)state;
    one.run = two.run = ips_unconst_text("r");
    one.command = ips_unconst_text("sleep 1");
    one.created_real_ns = 40;
    one.has_root = true;
    one.processes = 11;
    one.threads = 12;
    one.events = 13;
    one.n_lost = 3;
    one.lost = lost;
    one.untraced = 15;
    one.torn = 16;
    one.n_tags = 1;
    one.tags = tags;
    two.created_real_ns = 50;
    two.open = true;
    two.processes = 21;
    two.events = UINT64_MAX / 4;
    struct catalogue *c = open_it();
    assert_int_equal(catalogue_store_changed_runs(c, "m1", &first, 1, NULL), 0);
    assert_int_equal(catalogue_store_changed_runs(c, "m2", &second, 1, NULL),
                     0);
    assert_int_equal(catalogue_for_each_row(c, "r", see_figures, &rows, NULL),
                     0);
    assert_int_equal(rows, 2);
    assert_int_equal(catalogue_sum_run(c, "r", &known, NULL), 0);
    assert_int_equal(known.events, UINT64_MAX / 4 + 13);
    assert_int_equal(known.created_real_ns, 50);
    assert_true(known.open);
    assert_int_equal(catalogue_sum_run(c, "none", &known, NULL), 0);
    assert_int_equal(known.events | known.created_real_ns | known.open, 0);
    catalogue_close(c);
}

static void by_hand(const char *sql)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/master.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The second of two runs of a report cannot be written. Would catch: the first
 * one that stays though the report was refused, a report that is taken for
 * written when it comes again, a transaction that is never ended. */
static void test_master_catalogue__a_failed_report_leaves_nothing(void **state)
{
    Ips__RunState good = IPS__RUN_STATE__INIT, bad = IPS__RUN_STATE__INIT;
    Ips__RunState *report[] = {&good, &bad};
    struct ips_err err = {0};
    (void)state;
    good.run = ips_unconst_text("good");
    bad.run = ips_unconst_text("bad");
    struct catalogue *c = open_it();
    put(c, "m0", "before", 1, 5, false);
    by_hand(
        "CREATE TRIGGER t BEFORE INSERT ON run_machine WHEN NEW.run = 'bad' "
        "BEGIN SELECT RAISE(ABORT, 'not that one'); END");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(catalogue_store_changed_runs(c, "m1", report, 2, &err),
                         IPS_E_DB);
        assert_string_equal(all(c, NULL).text, "before@m0 ");
    }
    by_hand("DROP TRIGGER t");
    assert_int_equal(catalogue_store_changed_runs(c, "m1", report, 2, &err), 0);
    assert_non_null(strstr(untagged(c), "good@m1 "));
    assert_non_null(strstr(untagged(c), "bad@m1 "));
    catalogue_close(c);
}

static void open_and_use(void)
{
    Ips__MetricsAnswer answer = IPS__METRICS_ANSWER__INIT;
    uint64_t events;
    struct catalogue *c = open_it();
    put(c, "m1", "r", 1, 5, true);
    (void)all(c, NULL);
    assert_int_equal(catalogue_store_metrics_answer(c, "r", 12, &answer, NULL),
                     0);
    ips__metrics_answer__free_unpacked(
        catalogue_load_metrics_answer(c, "r", &events), NULL);
    catalogue_close(c);
}

/* Would catch: a statement that is not ended, so that the database stays open;
 * blocks that are left by each use. */
static void test_master_catalogue__closing_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        open_and_use();
    long before = live_blocks();
    for (int i = 0; i < 4; i++)
        open_and_use();
    assert_int_equal(live_blocks(), before);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_master_catalogue__survives),
        CASE(test_master_catalogue__changes_are_written_once),
        CASE(test_master_catalogue__own_table),
        CASE(test_master_catalogue__newer_format_is_left_alone),
        CASE(test_master_catalogue__every_figure),
        CASE(test_master_catalogue__a_failed_report_leaves_nothing),
        CASE(test_master_catalogue__closing_leaves_nothing),
    };
    setenv("IPS_LOG", "error", 0);
    ips_log_init("test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
