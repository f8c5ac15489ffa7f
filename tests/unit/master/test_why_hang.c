/*
 * Waits that never end (master/why/hang.c), in tables made by hand: threads
 * that wait for each other, for themselves, for what one of them could give.
 * Would catch: a thread that is left out of the circle, or one that only waits
 * for it put in; a hang said of a program of which a thread is at work, has
 * ended, or may be called from outside; a time since another moment than the
 * run's start; a limit off by one; another thread said to have the lock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "master/query/machine_share.h"
#include "master/why/facts.h"

#define MS UINT64_C(1000000)
#define SAME(a, b) assert_string_equal(a, b)

enum { MACHINES = 2, PROCESSES = 3, THREADS = 7, CALLS = 7 };

/* Of each machine: p.0 with threads 0 to 4, p.1 with 5, p.2 with 6; number i
 * is tid 10 + i. They began at 1000 ms and more, and were killed at 5000 ms.
 */
struct machine {
    struct machine_share part;
    Ips__ProcessRow process[PROCESSES], *processes[PROCESSES];
    Ips__ThreadRow thread[THREADS], *threads[THREADS];
    char name[PROCESSES][8];
    Ips__BlockedCall call[CALLS], *calls[CALLS];
};

static struct {
    struct query q;
    struct why_data d;
    struct machine m[MACHINES];
    struct machine_share *active[MACHINES];
    struct waits_rows rows[MACHINES];
    Ips__WaitPlace place[3], *places[3];
} w;

static const struct why_hang *hang = &w.d.facts.hang;

static void make_machine(uint32_t number)
{
    struct machine *m = &w.m[number];
    for (uint32_t i = 0; i < PROCESSES; i++) {
        Ips__ProcessRow *p = m->processes[i] = &m->process[i];
        ips__process_row__init(p);
        p->index = i;
        snprintf(m->name[i], sizeof(m->name[i]), "p.%u", i);
        p->name = m->name[i];
        p->parent = -1;
        p->start_ns = 1000 * MS + i;
        p->end_ns = 5000 * MS;
        p->end = ips_unconst_text("signal 15");
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        Ips__ThreadRow *t = m->threads[i] = &m->thread[i];
        ips__thread_row__init(t);
        t->chain = i;
        t->process = i < 5 ? 0 : i - 4;
        t->tid = 10 + i;
        t->ended = true; /* until it is blocked */
    }
    snprintf(m->part.machine, sizeof(m->part.machine), "m%u", number);
    m->part.number = number;
    m->part.t = (struct machine_tables){.procs = m->processes,
                                        .proc_count = PROCESSES,
                                        .threads = m->threads,
                                        .thread_count = THREADS};
    w.active[number] = &m->part;
    w.rows[number] = (struct waits_rows){
        .call_site = w.places, .call_site_count = 3, .blocked = m->calls};
}

static void begin(void)
{
    arena_release(&w.d.a);
    memset(&w, 0, sizeof(w));
    for (uint32_t i = 0; i < 3; i++) {
        w.places[i] = &w.place[i];
        ips__wait_place__init(&w.place[i]);
    }
    w.place[1].procedure = ips_unconst_text("dine");
    w.place[1].module = ips_unconst_text("/bin/table");
    w.place[1].file = ips_unconst_text("table.c");
    w.place[1].line = 7;
    w.place[2].procedure = ips_unconst_text("poll");
    for (uint32_t i = 0; i < MACHINES; i++)
        make_machine(i);
    w.d.waits.machine = w.rows;
    w.d.waits.machine_count = MACHINES;
    w.q.data = &w.d;
    w.q.gather.active = w.active;
    w.q.gather.count = MACHINES;
    w.d.facts.elapsed_ns = 4000 * MS;
}

/* Thread `chain` waits since so many ms of the clock; `by`: for what that
 * thread has, -1 it is not known. */
static Ips__BlockedCall *block(uint32_t machine, uint32_t chain, int by,
                               uint64_t since_ms, const char *what)
{
    struct machine *m = &w.m[machine];
    struct waits_rows *r = &w.rows[machine];
    Ips__BlockedCall *c = &m->call[r->blocked_count];
    ips__blocked_call__init(c);
    c->chain = chain;
    c->by = (uint32_t)(by + 1);
    c->since_ns = since_ms * MS;
    c->what = ips_unconst_text(what);
    c->within = true;
    c->place = 1;
    m->thread[chain].ended = false;
    m->calls[r->blocked_count++] = c;
    return c;
}

static void find(void)
{
    memset(&w.d.facts.hang, 0, sizeof(w.d.facts.hang));
    why_find_hang(&w.q);
    assert_false(w.d.a.failed);
}

static void none(void)
{
    find();
    assert_int_equal(hang->ns, 0);
}

/* ---- circles ------------------------------------------------------------- */

/* A thread that waits for one of a circle is not part of it; who works does
 * not matter. */
static void test_hang__a_circle(void **state)
{
    (void)state;
    begin();
    block(0, 6, 1, 1100, "the mutex at 0x70");
    block(0, 1, 2, 1500, "the mutex at 0x40");
    block(0, 2, 1, 2500, "the mutex at 0x50");
    w.m[0].thread[3].ended = false;
    find();
    assert_true(hang->circle);
    assert_false(hang->alive);
    assert_int_equal(hang->threads, 2);
    assert_int_equal(hang->since_ns, 1500 * MS); /* since both wait */
    assert_int_equal(hang->ns, 2500 * MS);
    SAME(hang->waits,
         "/m0/p.0/11 in dine (table.c:7) waits for the mutex at 0x40, which "
         "thread 12 has, since 500.00 ms; /m0/p.0/12 in dine (table.c:7) waits "
         "for the mutex at 0x50, which thread 11 has, since 1.50 s");
    SAME(hang->location.object, "/m0/p.0");
    SAME(hang->location.procedure, "dine");
    SAME(hang->location.module, "/bin/table");
    SAME(hang->location.file, "table.c");
    assert_int_equal(hang->location.source_line, 7);
    SAME(hang->other, "/m0/p.0/12");
}

static void test_hang__of_itself(void **state)
{
    (void)state;
    begin();
    Ips__BlockedCall *c = block(1, 5, 5, 4000, "the mutex at 0x40");
    c->place = 0; /* where is not known */
    find();
    assert_true(hang->circle);
    assert_int_equal(hang->threads, 1);
    assert_int_equal(hang->ns, 1000 * MS);
    SAME(hang->waits, "/m1/p.1/15 waits for the mutex at 0x40, which it has "
                      "itself, since 3.00 s");
    SAME(hang->other, "/m1/p.1/15");
    c->place = 2; /* no line */
    w.place[2].file = ips_unconst_text("poll.c");
    find();
    SAME(hang->waits, "/m1/p.1/15 in poll waits for the mutex at 0x40, which "
                      "it has itself, since 3.00 s");
    c->place = 3; /* there is no such place */
    none();
}

/* The ends of threads and processes are waited for, too. */
static void test_hang__ends(void **state)
{
    (void)state;
    begin();
    block(0, 0, 1, 2000, "the end of a thread");
    block(0, 1, 5, 2000, "the end of a process");
    block(0, 5, 0, 2000, "a semaphore");
    find();
    assert_true(hang->circle);
    assert_int_equal(hang->threads, 3);
    SAME(hang->waits,
         "/m0/p.0/10 in dine (table.c:7) waits for the end of a thread, 11, "
         "since 1.00 s; /m0/p.0/11 in dine (table.c:7) waits for the end of a "
         "process (p.1) since 1.00 s; /m0/p.1/15 in dine (table.c:7) waits for "
         "a semaphore, which thread 10 has, since 1.00 s");
}

/* Numbers of threads are of one machine; what ended by itself hangs no more.
 */
static void test_hang__no_circle(void **state)
{
    (void)state;
    begin();
    block(0, 1, 2, 1500, "a mutex");
    block(1, 2, 1, 1500, "a mutex");
    w.m[0].thread[3].ended = false; /* at work */
    none();
    begin();
    block(0, 1, 2, 1500, "a mutex");
    block(0, 2, 1, 1500, "a mutex");
    w.m[0].process[0].end = ips_unconst_text("exit 0");
    none();
    w.m[0].process[0].end = ips_unconst_text("unknown");
    find();
    assert_int_equal(hang->ns, 3500 * MS);
}

static void test_hang__how_long(void **state)
{
    (void)state;
    begin();
    block(0, 1, 2, 1500, "a mutex");
    Ips__BlockedCall *c = block(0, 2, 1, 4980, "a mutex");
    w.m[0].thread[3].ended = false;
    find();
    assert_int_equal(hang->ns, 20 * MS);
    c->since_ns++;
    none();
    c->since_ns--;
    /* One that still runs waits until it was looked at. */
    w.m[0].process[0].open = true;
    w.rows[0].now_ns = 6000 * MS;
    find();
    assert_true(hang->alive);
    assert_int_equal(hang->ns, 1020 * MS);
    w.rows[0].now_ns = 1 * MS; /* by a clock that cannot be */
    none();
}

/* ---- all wait ------------------------------------------------------------ */

static void test_hang__all_wait(void **state)
{
    (void)state;
    begin();
    block(0, 0, -1, 3000, "the condition at 0x10");
    block(1, 6, -1, 4200, "a semaphore");
    find();
    assert_false(hang->circle);
    assert_int_equal(hang->threads, 2);
    assert_int_equal(hang->since_ns, 3200 * MS);
    assert_int_equal(hang->ns, 800 * MS); /* a fifth of all */
    SAME(hang->waits,
         "/m0/p.0/10 in dine (table.c:7) waits for the condition at 0x10 since "
         "2.00 s; /m1/p.2/16 in dine (table.c:7) waits for a semaphore since "
         "3.20 s");
    SAME(hang->location.object, "/m0/p.0");
    SAME(hang->other, "/m1/p.2/16");
    w.m[0].thread[4].ended = false; /* it works */
    none();
    w.m[0].thread[4].ended = true;
    w.m[1].call[0].within = false; /* somebody may send it something */
    none();
    w.m[1].call[0].within = true;
    w.m[0].thread[3].process = PROCESSES; /* of none that is there */
    block(0, 3, -1, 4300, "a semaphore");
    find();
    assert_int_equal(hang->threads, 2);
    w.d.facts.elapsed_ns += 4000;
    none(); /* less than a fifth */
}

static void test_hang__all_still_wait(void **state)
{
    (void)state;
    begin();
    Ips__BlockedCall *c = block(0, 0, -1, 4000, "a semaphore");
    w.m[0].process[0].open = true;
    w.rows[0].now_ns = 4500 * MS;
    w.d.facts.elapsed_ns = 1000 * MS;
    find();
    assert_true(hang->alive);
    assert_int_equal(hang->ns, 500 * MS);
    c->since_ns++;
    none();
}

/* Who waits for others' ends is no reason, nor a shell that waits for a child
 * that has not ended. */
static void test_hang__who_only_waits(void **state)
{
    (void)state;
    begin();
    block(0, 0, 5, 1200, "the end of a process");
    block(0, 5, -1, 2000, "room in the pipe");
    block(0, 6, -1, 1100, "a signal")->within = false;
    w.m[0].process[1].parent = 2;
    find();
    assert_int_equal(hang->threads, 1);
    assert_int_equal(hang->ns, 3000 * MS);
    SAME(hang->location.object, "/m0/p.1");
    w.m[0].process[1].parent = -1; /* it waits for a signal from anywhere */
    none();
    w.m[0].process[1].parent = 2;
    w.m[0].call[1].what = ips_unconst_text("the end of a thread");
    none(); /* nobody waits for anything else */
}

static void test_hang__many(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 6; i++)
        block(0, i, -1, 2000, "room");
    find();
    assert_int_equal(hang->threads, 6);
    size_t named = 0;
    for (const char *at = hang->waits; (at = strstr(at, " waits for ")); at++)
        named++;
    assert_int_equal(named, 4);
    assert_non_null(strstr(hang->waits, "/m0/p.0/13 in dine"));
    assert_non_null(strstr(hang->waits, " since 1.00 s; and 2 more"));
    w.rows[0].blocked_count = 4;
    w.m[0].thread[4].ended = w.m[0].thread[5].ended = true;
    find();
    assert_int_equal(hang->threads, 4);
    assert_null(strstr(hang->waits, " more"));
}

static void test_hang__nobody(void **state)
{
    (void)state;
    begin();
    none();
    arena_release(&w.d.a);
}

#define CASE(name) cmocka_unit_test(test_hang__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_circle),       CASE(of_itself),      CASE(ends),
        CASE(no_circle),      CASE(how_long),       CASE(all_wait),
        CASE(all_still_wait), CASE(who_only_waits), CASE(many),
        CASE(nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
