/*
 * The rows that the master keeps of each run (master/tables/summary.h), made of
 * a program in which one process gets messages of many. Would catch: a largest
 * pair that is left out, or the smallest kept, where there are too many; a sum
 * that is cut away with them; a limit off by one; rows of an answer without
 * some of its machines that are kept, or that are refused with an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "each_allocation.h"
#include "master/tables/summary.h"

#define MOST 1200u

struct made {
    struct query q;
    struct master m;
    struct machine_share part, *active[1];
    Ips__SyncAnswer sync;
    Ips__RunState state;
    char name[MOST + 1][16];
    Ips__ProcessRow process[MOST + 1], *processes[MOST + 1];
    Ips__ThreadRow thread[MOST + 1], *threads[MOST + 1];
    Ips__ChannelRow channel[MOST], *channels[MOST];
    struct summary s;
};

/* Two of each three send as many bytes as their neighbour. */
static uint64_t bytes_of(uint32_t sender)
{
    return 1000 + 10 * (uint64_t)(sender * 7 % MOST / 2);
}

static struct made *make(uint32_t senders)
{
    struct made *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    ips__sync_answer__init(&m->sync);
    ips__run_state__init(&m->state);
    m->sync.state = &m->state;
    m->state.events = 77;
    snprintf(m->part.machine, sizeof(m->part.machine), "m1");
    m->part.sync = &m->sync;
    m->part.expected = true;
    for (uint32_t i = 0; i <= senders; i++) {
        ips__process_row__init(&m->process[i]);
        ips__thread_row__init(&m->thread[i]);
        snprintf(m->name[i], sizeof(m->name[i]), "p.%04u", i);
        m->process[i].index = m->thread[i].chain = m->thread[i].process = i;
        m->process[i].name = m->name[i];
        m->process[i].parent = -1;
        m->process[i].start_ns = m->thread[i].start_ns = 10;
        m->process[i].end_ns = m->thread[i].end_ns = 20;
        m->processes[i] = &m->process[i];
        m->threads[i] = &m->thread[i];
    }
    for (uint32_t i = 0; i < senders; i++) {
        ips__channel_row__init(&m->channel[i]);
        m->channel[i].end = i;
        m->channel[i].process = i + 1;
        m->channel[i].sent_messages = 1;
        m->channel[i].sent_bytes = bytes_of(i + 1);
        m->channels[i] = &m->channel[i];
    }
    m->part.t = (struct machine_tables){.procs = m->processes,
                                        .proc_count = senders + 1,
                                        .threads = m->threads,
                                        .thread_count = senders + 1,
                                        .channels = m->channels,
                                        .channel_count = senders};
    m->active[0] = &m->part;
    m->q.m = &m->m;
    m->q.machines = &m->part;
    m->q.machine_count = 1;
    m->q.gather.active = m->active;
    m->q.gather.count = 1;
    snprintf(m->q.run, sizeof(m->q.run), "r");
    assert_int_equal(summary_make(&m->q, &m->s, NULL), 0);
    return m;
}

static void done(struct made *m)
{
    summary_release(&m->s);
    free(m);
}

/* ---- too many ------------------------------------------------------------ */

/* The sum of all is the last row, however many there are. */
static void check_sum(const struct made *m, uint32_t senders)
{
    const Ips__MetricsAnswer *a = &m->s.answer;
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= senders; i++)
        bytes += bytes_of(i);
    const Ips__MatrixTotal *all = a->process_totals[a->n_process_totals - 1];
    assert_string_equal(all->object, "");
    assert_int_equal(all->bytes_out, bytes);
    assert_int_equal(all->messages_out, senders);
}

static void check_few(uint32_t senders, size_t totals)
{
    struct made *m = make(senders);
    assert_int_equal(m->s.answer.n_process_matrix, senders);
    assert_int_equal(m->s.answer.n_process_totals, totals);
    assert_int_equal(m->s.certificate.msg.n_details, 0);
    check_sum(m, senders);
    done(m);
}

static void test_summary__at_the_limit(void **state)
{
    (void)state;
    check_few(1, 3);
    /* a row of each process, and that of all */
    check_few(SUMMARY_PAIRS - 2, SUMMARY_PAIRS);
    check_few(SUMMARY_PAIRS - 1, SUMMARY_PAIRS + 1);
    check_few(SUMMARY_PAIRS, SUMMARY_PAIRS + 1);
}

static void test_summary__the_largest(void **state)
{
    struct made *m = make(MOST);
    const Ips__MetricsAnswer *a = &m->s.answer;
    (void)state;
    assert_int_equal(a->n_process_matrix, SUMMARY_PAIRS);
    assert_int_equal(a->n_process_totals, SUMMARY_PAIRS + 1);
    check_sum(m, MOST);
    const Ips__Certificate *c = &m->s.certificate.msg;
    assert_ptr_equal(a->certificate, c);
    assert_int_equal(c->n_details, 1);
    assert_string_equal(c->details[0],
                        "the 1024 of 1200 pairs of processes with the most "
                        "bytes: --level process lists all");
    for (size_t i = 1; i < a->n_process_matrix; i++) {
        const Ips__MatrixCell *x = a->process_matrix[i - 1],
                              *y = a->process_matrix[i];
        assert_true(x->bytes > y->bytes ||
                    (x->bytes == y->bytes && strcmp(x->from, y->from) < 0));
    }
    for (size_t i = 1; i + 1 < a->n_process_totals; i++) {
        const Ips__MatrixTotal *x = a->process_totals[i - 1],
                               *y = a->process_totals[i];
        uint64_t p = x->bytes_in + x->bytes_out, q = y->bytes_in + y->bytes_out;
        assert_true(p > q || (p == q && strcmp(x->object, y->object) < 0));
    }
    uint64_t least = a->process_matrix[SUMMARY_PAIRS - 1]->bytes;
    uint32_t more = 0;
    for (uint32_t i = 1; i <= MOST; i++)
        more += bytes_of(i) > least;
    assert_true(more < SUMMARY_PAIRS);
    done(m);
}

/* ---- keeping ------------------------------------------------------------- */

static void test_summary__kept_if_whole(void **state)
{
    char dir[] = "/tmp/ips-test-summary-XXXXXX", command[80];
    struct ips_err err = {0};
    uint64_t events = 5;
    (void)state;
    assert_non_null(mkdtemp(dir));
    struct made *m = make(3);
    assert_int_equal(catalogue_open(dir, &m->m.catalogue, &err), 0);
    /* Without a machine that belongs to it: nothing is kept, and nobody is to
     * blame. */
    m->part.state = MACHINE_MISSING;
    assert_int_equal(summary_store_unless_machines_missing(&m->q, &m->s, &err),
                     0);
    assert_null(catalogue_load_metrics_answer(m->m.catalogue, "r", &events));
    m->part.state = MACHINE_ACTIVE;
    assert_int_equal(summary_store_unless_machines_missing(&m->q, &m->s, &err),
                     0);
    Ips__MetricsAnswer *kept =
        catalogue_load_metrics_answer(m->m.catalogue, "r", &events);
    assert_non_null(kept);
    assert_int_equal(events, 77);
    assert_int_equal(kept->n_process_matrix, 3);
    assert_string_equal(kept->certificate->machines[0], "m1");
    ips__metrics_answer__free_unpacked(kept, NULL);
    assert_int_equal(err.code, 0);
    catalogue_close(m->m.catalogue);
    done(m);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static int make_again(void *arg)
{
    struct made *m = arg;
    struct summary s;
    int rc = summary_make(&m->q, &s, NULL);
    summary_release(&s);
    return rc;
}

static void test_summary__no_memory(void **state)
{
    struct made *m = make(SUMMARY_PAIRS + 1);
    (void)state;
    assert_true(each_allocation(make_again, m) > 8);
    done(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary__at_the_limit),
        cmocka_unit_test(test_summary__the_largest),
        cmocka_unit_test(test_summary__kept_if_whole),
        cmocka_unit_test(test_summary__no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
