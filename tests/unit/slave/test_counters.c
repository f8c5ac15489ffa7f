/*
 * Every figure that a slave gives of a run - each field of the answers to Sync,
 * Table, Ends and Peers, each column of the views of `ipsq sql` - of two small
 * runs whose records were written by hand, against values that were worked out
 * by hand from docs/design/build.md. A field that is not in the text must be 0.
 * Would catch: a figure that counts another thing, or not all of it, or twice;
 * one that is in another field, of another row, in another unit; a field that
 * is new, and that nobody works out. How the less obvious ones come about is
 * said where the records are.
 */
#include "answer_help.h"

#define LOCK 0x1000u

/* Each kind of probe has a price of its own: its number + 1 ns. */
static void set_control(struct ips_control *c)
{
    for (uint64_t i = 0; i < IPS_PROBE_FIRST; i++)
        c->probe_cost_ps[i] = 1000 * (i + 1);
    for (uint64_t i = IPS_PROBE_FIRST; i < IPS_PROBE_LAST; i++)
        c->probe_more_ps[i - IPS_PROBE_FIRST] = 1000 * (i + 1);
    c->probe_spawn_ps = 1000 * (IPS_PROBE_SPAWN + 1);
    for (uint64_t i = IPS_PROBE_LATE; i < IPS_PROBE_COSTS; i++)
        c->probe_late_ps[i - IPS_PROBE_LATE] = 1000 * (i + 1);
    snprintf(c->machine, sizeof(c->machine), "m1");
    c->cpus = 4;
    c->probe_ns = 123;
    c->locks = IPS_LOCKS_ALL;
    c->procedures = IPS_PROCEDURES_SAMPLE;
    c->sample_us = 250;
}

/* 179000 ns: 20000 CPU, 148950 waits (all that are 2000 ns or more, less the
 * CPU of the call), and 10050 of which nothing is known. Recording cost 156: 17
 * + 4 to begin, 20 + 2 for the forks, 2 each for the sends, 13 + 13 for the
 * receives that slept (call, block, reading of the clock after 25 us), 23 the
 * sleep (no reading, but the first call in 2 us), 5 the poll, 10 the lock, 23 +
 * 5 the joins, 14 the spawn, 1 END. */
static void put_main(struct recorder *r)
{
    rs s = rec_stream(r, 100, 100, 1);
    memcpy(s->head.comm, "alpha", 6);
    rec_start(s, IPS_START_ROOT, 1000, 0);
    rec_name(s, 1000, "/usr/bin/alpha -x");
    rec_pipe(s, 1, 1000, IPS_SIDE_WRITE, 5);
    rec_pipe(s, 2, 1000, IPS_SIDE_READ, 6);
    rec_inet(s, 3, 1000, IPS_CHAN_TCP, 77, 0x0a000001, 4000, 0x0a000002, 80)
        ->flags = IPS_CHAN_CONNECTED;
    rec_fork(s, IPS_FORK_FORK, 2000, 2300, 1000, 1300, 200, 1);
    rec_fork(s, IPS_FORK_THREAD, 3000, 3100, 2000, 2100, 0, 2);
    rec_io(s, IPS_REC_SEND, 1, 4000, 4100, 3000, 3100, 64);
    rec_io(s, IPS_REC_SEND, 1, 5000, 5100, 4000, 4100, 36);
    rec_io(s, IPS_REC_RECV, 2, 6000, 46000, 5000, 5200, 10);
    rec_io(s, IPS_REC_BLOCK, 0, 50000, 80000, 9000, 9100, 0)->op = IPS_OP_SLEEP;
    rec_io(s, IPS_REC_BLOCK, 0, 81000, 91000, 10000, 10050, 0)->op =
        IPS_OP_POLL;
    rec_io(s, IPS_REC_SEND, 3, 92000, 92100, 11000, 11100, 100);
    rec_io(s, IPS_REC_RECV, 3, 93000, 123000, 12000, 12100, 200);
    rec_sync(s, IPS_REC_ACQUIRE, IPS_SYNC_MUTEX, 124000, 134000, 13000, 13100,
             LOCK);
    rec_join(s, IPS_JOIN_THREAD, 140000, 150000, 14000, 0, 2);
    struct ips_rec_join *j =
        rec_join(s, IPS_JOIN_WAIT, 150500, 170000, 14500, 200, 0);
    j->child_cpu_ns = 45000;
    j->status = 5 << 8;
    rec_fork(s, IPS_FORK_SPAWN, 171000, 171100, 15000, 15100, 300, 3);
    rec_end(s, IPS_END_EXIT, 180000, 20000, 3);
}

/* Lives for 141800 ns, 81800 of them off its core without a word. Costs 17 + 1
 * + 7 + 1 + 1. */
static void put_worker(struct recorder *r)
{
    rs s = rec_stream(r, 100, 101, 1);
    memcpy(s->head.comm, "worker", 7);
    rec_start(s, IPS_START_THREAD, 3200, 0)->fork_seq = 2;
    rec_name(s, 3200, "named");
    rec_sync(s, IPS_REC_RELEASE, IPS_SYNC_MUTEX, 129900, 130000, 50000, 50100,
             LOCK);
    rec_guessed(s, 131000, 4, 900, 30, 20);
    rec_end(s, IPS_END_THREAD, 145000, 60000, 0);
    s->lost[IPS_LOST_QUOTA] = 3;
}

/* Its parent was told 45000 ns of CPU, 15000 more than it saw itself; the
 * 10000 until the parent had that are charged, the rest is unattributed. Of the
 * 7040 ns in the run queue 40 were before it began. After the last reading
 * 105000 are not known. Costs 11 + 2 + 23 + 20 + 1. */
static void put_child(struct recorder *r)
{
    rs s = rec_stream(r, 200, 200, 1);
    s->head.stream_stamp = 2400;
    s->head.image_stamp = 2400;
    memcpy(s->head.comm, "alpha", 6);
    struct ips_rec_start *st = rec_start(s, IPS_START_FORK, 2400, 0);
    st->fork_seq = 1;
    st->ppid = 100;
    st->parent_image = 1;
    rec_pipe(s, 1, 2400, IPS_SIDE_READ, 5);
    rec_pipe(s, 2, 2400, IPS_SIDE_WRITE, 6);
    rec_delay(s, 2450, 40);
    rec_io(s, IPS_REC_RECV, 1, 2500, 5200, 100, 200, 100);
    rec_io(s, IPS_REC_SEND, 2, 45000, 45900, 20000, 20100, 10);
    rec_delay(s, 46000, 7040);
    rec_end(s, IPS_END_EXIT, 160000, 30000, 5);
    s->lost[IPS_LOST_TORN] = 2;
}

/* ---- the same for what is seldom ---- */

/* Sees 5 bytes that nobody sent, a lock that nobody gave back, another one that
 * it spun 1900 ns for, and polls of one place that end each by another channel
 * than the last. Of its 29100 ns 700 are CPU and 18000 waits, the 1900 in them;
 * of the 10400 left the gap behind the spinning is taken for a part of that,
 * 1000. It was killed, and seen to be dead at 40000. Costs 10 before its first
 * coordinate and 4 + 20 + 2 + 12 + 12; 16 have no arc. */
static void put_reader(struct recorder *r)
{
    rs s = rec_stream(r, 10, 10, 1);
    memcpy(s->head.comm, "odd", 4);
    rec_start(s, IPS_START_IMAGE, 1000, 0);
    rec_pipe(s, 1, 1000, IPS_SIDE_WRITE, 5);
    rec_pipe(s, 2, 1000, IPS_SIDE_READ, 5);
    rec_inet(s, 3, 1000, IPS_CHAN_TCP, 77, 0x0a000001, 80, 0x0a000002, 4000)
        ->flags = IPS_CHAN_ACCEPTED;
    rec_inet(s, 4, 1000, IPS_CHAN_TCP, 78, 0x0a000001, 80, 0x0a000002, 4001)
        ->flags = IPS_CHAN_ACCEPTED;
    rec_io(s, IPS_REC_RECV, 2, 6000, 6100, 100, 200, 10);
    rec_io(s, IPS_REC_RECV, 2, 6500, 6600, 200, 300, 20);
    rec_io(s, IPS_REC_RECV, 2, 7000, 7100, 300, 400, 5);
    rec_sync(s, IPS_REC_ACQUIRE, IPS_SYNC_MUTEX, 8000, 12000, 500, 500, LOCK);
    rec_sync(s, IPS_REC_ACQUIRE, IPS_SYNC_SPIN, 13000, 15000, 600, 2500,
             LOCK + 8);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t t = 16000 + 5000 * (uint64_t)i;
        struct ips_rec_io *w =
            rec_io(s, IPS_REC_BLOCK, 0, t, t + 4000, 2600, 2600, 1);
        w->op = IPS_OP_POLL;
        w->site = 0x55;
        w->ready = i == 1 ? 4 : 3;
        rec_io(s, IPS_REC_RECV, i == 1 ? 4 : 3, t + 4100, t + 4100, 2600, 2600,
               7);
    }
    rec_delay(s, 31000, 100);
    s->lost[IPS_LOST_QUOTA] = 3;
    s->lost[IPS_LOST_TORN] = 2;
    s->dead = true;
    s->dead_t_ns = 40000;
    s->dead_status = IPS_DEAD_KNOWN | 9;
}

/* Two write one end at a time: whose bytes were first is not certain. A process
 * is still in a call on a file. Cost 17 + 20 + 8, 17 + 21, and 1 + 20 in arcs,
 * 10 + 13 in none. */
static void put_senders(struct recorder *r)
{
    for (uint32_t i = 0; i < 2; i++) {
        rs s = rec_stream(r, 10, 11 + i, 1);
        uint64_t t = 2000 + 1000 * (uint64_t)i;
        rec_start(s, IPS_START_THREAD, 1500, 0);
        rec_io(s, IPS_REC_SEND, 1, t, t + 2000, 100, 2100, i ? 20 : 10);
        if (!i)
            rec_sync(s, IPS_REC_RELEASE, IPS_SYNC_SPIN, 14500, 14500, 3000,
                     3000, LOCK + 8);
        rec_end(s, IPS_END_THREAD, 30000, 4000, 0);
    }
    rs s = rec_stream(r, 20, 20, 3000);
    memcpy(s->head.comm, "open", 5);
    rec_start(s, IPS_START_IMAGE, 3000, 50);
    rec_user(s, 1, 3000, IPS_SIDE_WRITE, "m");
    rec_io(s, IPS_REC_SEND, 1, 4000, 4000, 60, 60, 5);
    rec_io(s, IPS_REC_BLOCK, 0, 5000, 45000, 100, 200, 0)->op = IPS_OP_DISK;
}

/* ---- what is asked ---- */

/* Names of what no hand can work out. */
#define SKIP " id last generation kept "

static Ips__Reply *ask(struct answerer *a, const struct archived *v,
                       Ips__Request *q, struct answer *x)
{
    answer_free(x);
    *x = answerer_ask(a, v, q);
    for (uint32_t i = 0; i < x->count; i++)
        assert_int_equal(x->reply[i]->error, 0);
    return x->reply[0];
}

static void dump(struct answer_text *t, const struct answer *x)
{
    for (uint32_t i = 0; i < x->count; i++) {
        answer_dump(t, &x->reply[i]->base, SKIP);
        answer_add(t, "\n");
    }
}

/* Rows of a view as "column=value", those that are not 0 or NULL. */
static void dump_sql(struct answerer *a, const struct archived *v,
                     const char *view, struct answer_text *t)
{
    char text[100];
    struct answer x = {0};
    Ips__Request q = IPS__REQUEST__INIT;
    Ips__SqlAsk sql = IPS__SQL_ASK__INIT;
    snprintf(text, sizeof(text), "SELECT * FROM %s", view);
    sql.text = text;
    sql.rows = 100;
    sql.time_ns = UINT64_MAX;
    q.ask_case = IPS__REQUEST__ASK_SQL;
    q.sql = &sql;
    const Ips__SqlAnswer *s = ask(a, v, &q, &x)->sql;
    assert_string_equal(s->error, "");
    for (size_t i = 0; i < s->n_rows; i++) {
        answer_add(t, "%s:", view);
        for (size_t c = 0; c < s->n_columns; c++) {
            const Ips__SqlValue *value = s->rows[i]->values[c];
            if (value->value_case == IPS__SQL_VALUE__VALUE_TEXT)
                answer_add(t, " %s='%s'", s->columns[c], value->text);
            else if (value->value_case == IPS__SQL_VALUE__VALUE_INTEGER &&
                     value->integer)
                answer_add(t, " %s=%" PRId64, s->columns[c], value->integer);
        }
        answer_add(t, "\n");
    }
    answer_free(&x);
}

/* Line by line. */
static void same_text(char *got, const char *const *want)
{
    char *rest = NULL, *line = strtok_r(got, "\n", &rest);
    for (; line && *want; line = strtok_r(NULL, "\n", &rest), want++)
        assert_string_equal(line, *want);
    assert_null(line);
    assert_null(*want);
}

/* All that this slave says of a run, but for what its peers decide; then that.
 * `want`: the answers to Sync, Table, Ends and Peers, then the views. */
static void check(struct recorder *r, Ips__PeersAsk *peers,
                  const char *const *want)
{
    static const char *const views[] = {"run_info",  "processes", "threads",
                                        "waits",     "channels",  "traffics",
                                        "procedures"};
    struct answerer a;
    struct archived v;
    struct answer x = {0};
    struct answer_text *t = calloc(1, sizeof(*t));
    Ips__Request q = IPS__REQUEST__INIT;
    Ips__SyncAsk sync = IPS__SYNC_ASK__INIT;
    Ips__TableAsk table = IPS__TABLE_ASK__INIT;
    Ips__EndsAsk ends = IPS__ENDS_ASK__INIT;
    assert_non_null(t);
    set_control(&r->control);
    answerer_open(&a);
    archived_make(&v, &a, r, "run");
    v.load = (struct slave_load_row){9, 2000, 5001, 2600};
    v.unseen_count = 1;
    v.unseen[0] =
        (struct slave_unrecorded_row){.kind = SLAVE_UNSEEN_URING, .pid = 100};
    q.ask_case = IPS__REQUEST__ASK_SYNC;
    q.sync = &sync;
    peers->generation = ask(&a, &v, &q, &x)->sync->generation;
    dump(t, &x);
    q.ask_case = IPS__REQUEST__ASK_TABLE;
    q.table = &table;
    (void)ask(&a, &v, &q, &x);
    dump(t, &x);
    q.ask_case = IPS__REQUEST__ASK_ENDS;
    q.ends = &ends;
    (void)ask(&a, &v, &q, &x);
    dump(t, &x);
    q.ask_case = IPS__REQUEST__ASK_PEERS;
    q.peers = peers;
    (void)ask(&a, &v, &q, &x);
    dump(t, &x);
    for (size_t i = 0; i < sizeof(views) / sizeof(*views); i++)
        dump_sql(&a, &v, views[i], t);
    same_text(t->v, want);
    answer_free(&x);
    answerer_close(&a);
    (void)rec_build(r); /* and each way to build it says the same */
    rec_free(r);
    free(t);
}

static const char *const usual[] = {
    "sync{state{run='run' processes=2 threads=3 untraced=1 } nodes=23 "
    "pending=1 external=1 idle=1 probe_ns=123 unattributed_cpu_ns=5000 "
    "unseen='io_uring in /m1/alpha.100: IPS does not see what "
    "moves through it' goal_elapsed_ns=179000 cores=4 "
    "any=1 untraced{cause='unknown' count=1 pid=300 } "
    "root_start_ns=1000 goal_node=16 first_ns=1000 delay_ns=7040 "
    "delay_unknown_ns=196850 overhead_ns=240 cpu_ns=120000 "
    "probe_arc_ns=240 last_ns=180000 sample_ns=250000 "
    "guessed_cpu_ns=900 guesses_settled=4 guess_off_ns=30 "
    "guess_off_max_ns=20 load_samples=9 load_milli=2500 "
    "load_average_milli=1300 records_read=32 all_locks=1 unrecorded=1 "
    "unended_ns=29900 } ",
    "table{processes{pid=100 parent=-1 name='alpha.100' "
    "command='/usr/bin/alpha -x' start_ns=1000 end_ns=180000 end='exit "
    "3' cpu_ns=80000 rusage_cpu_ns=-1 events=24 root=1 } "
    "processes{index=1 pid=200 name='alpha.200' "
    "command='/usr/bin/alpha -x' start_ns=2400 end_ns=160000 end='exit "
    "5' cpu_ns=40000 rusage_cpu_ns=45000 events=8 } } ",
    "table{threads{tid=100 name='alpha' start_ns=1000 end_ns=180000 "
    "cpu_ns=20000 wait_ns=148950 waits{cause='peer' ns=69700 count=2 } "
    "waits{cause='child' ns=29500 count=2 } waits{cause='timer' "
    "ns=39850 count=2 } waits{cause='lock' ns=9900 count=1 } "
    "messages_out=3 bytes_out=200 messages_in=2 bytes_in=210 "
    "end_node=15 unknown_ns=10050 empty_polls=1 ended=1 } threads{chain=1 "
    "tid=101 name='named' start_ns=3200 end_ns=145000 cpu_ns=60000 "
    "end_node=18 unknown_ns=81800 ended=1 } threads{chain=2 process=1 tid=200 "
    "name='alpha' start_ns=2400 end_ns=160000 cpu_ns=40000 "
    "wait_ns=2600 waits{cause='peer' ns=2600 count=1 } messages_out=1 "
    "bytes_out=10 messages_in=1 bytes_in=100 end_node=22 delay_ns=7000 "
    "unknown_ns=105000 ended=1 } } ",
    "table{channels{name='pipe 13:5' peer_process=1 sent_messages=2 "
    "sent_bytes=100 } channels{end=2 name='pipe 13:6' peer_process=1 "
    "recv_messages=1 recv_bytes=10 } channels{end=4 name='tcp "
    "10.0.0.1:4000-10.0.0.2:80' peer_process=-1 sent_messages=1 "
    "sent_bytes=100 recv_messages=1 recv_bytes=200 } channels{end=1 "
    "process=1 name='pipe 13:5' recv_messages=1 recv_bytes=100 } "
    "channels{end=3 process=1 name='pipe 13:6' sent_messages=1 "
    "sent_bytes=10 } } ",
    "ends{ends{index=4 kind=4 "
    "local=0a00a00f00000000000000000000ffff0a000001 "
    "remote=0a00500000000000000000000000ffff0a000002 sent_bytes=100 "
    "recv_bytes=200 closed=1 connected=1 } } ",
    "peers{external=2 idle=1 } ",
    "run_info: run='run' command='' closed=1 last_ns=179000",
    "processes: process='alpha.100' pid=100 command='/usr/bin/alpha "
    "-x' end_ns=179000 elapsed_ns=179000 root=1 ended='exit 3' "
    "cpu_ns=80000 events=24 messages_out=3 bytes_out=200 messages_in=2 "
    "bytes_in=210",
    "processes: process='alpha.200' pid=200 parent='alpha.100' "
    "command='/usr/bin/alpha -x' start_ns=1400 end_ns=159000 "
    "elapsed_ns=157600 ended='exit 5' cpu_ns=40000 rusage_cpu_ns=45000 "
    "unattributed_ns=5000 events=8 messages_out=1 bytes_out=10 "
    "messages_in=1 bytes_in=100",
    "threads: process='alpha.100' tid=100 name='alpha' end_ns=179000 "
    "elapsed_ns=179000 cpu_ns=20000 wait_ns=148950 blocked_ns=148950 "
    "unknown_ns=10050 messages_out=3 bytes_out=200 messages_in=2 "
    "bytes_in=210",
    "threads: process='alpha.100' tid=101 name='named' start_ns=2200 "
    "end_ns=144000 elapsed_ns=141800 cpu_ns=60000 unknown_ns=81800",
    "threads: process='alpha.200' tid=200 name='alpha' start_ns=1400 "
    "end_ns=159000 elapsed_ns=157600 cpu_ns=40000 wait_ns=2600 "
    "blocked_ns=2600 queued_ns=7000 unknown_ns=105000 messages_out=1 "
    "bytes_out=10 messages_in=1 bytes_in=100",
    "waits: process='alpha.100' tid=100 cause='child' ns=29500 count=2",
    "waits: process='alpha.100' tid=100 cause='lock' ns=9900 count=1",
    "waits: process='alpha.100' tid=100 cause='peer' ns=69700 count=2",
    "waits: process='alpha.100' tid=100 cause='timer' ns=39850 count=2",
    "waits: process='alpha.200' tid=200 cause='peer' ns=2600 count=1",
    "channels: name='pipe 13:5' kind=1 peer='local' peer_channel=1 "
    "sent_messages=2 sent_bytes=100 closed=1",
    "channels: channel=1 name='pipe 13:5' kind=1 peer='local' "
    "recv_messages=1 recv_bytes=100 closed=1",
    "channels: channel=2 name='pipe 13:6' kind=1 peer='local' "
    "peer_channel=3 recv_messages=1 recv_bytes=10 closed=1",
    "channels: channel=3 name='pipe 13:6' kind=1 peer='local' "
    "peer_channel=2 sent_messages=1 sent_bytes=10 closed=1",
    "channels: channel=4 name='tcp 10.0.0.1:4000-10.0.0.2:80' kind=4 "
    "peer='elsewhere' sent_messages=1 sent_bytes=100 recv_messages=1 "
    "recv_bytes=200 closed=1",
    "traffics: process='alpha.100' sent_messages=2 sent_bytes=100",
    "traffics: channel=1 process='alpha.200' recv_messages=1 "
    "recv_bytes=100",
    "traffics: channel=2 process='alpha.100' recv_messages=1 "
    "recv_bytes=10",
    "traffics: channel=3 process='alpha.200' sent_messages=1 "
    "sent_bytes=10",
    "traffics: channel=4 process='alpha.100' sent_messages=1 "
    "sent_bytes=100 recv_messages=1 recv_bytes=200",
    NULL};

static const char *const seldom[] = {
    "sync{state{run='run' processes=2 threads=4 } nodes=21 ambiguous=1 "
    "unmatched=1 pending=3 external=1 probe_ns=123 unseen='io_uring in "
    "process 100 of m1: IPS does not see what moves through it' "
    "cores=4 any=1 any_unmatched=1 spin_ns=1900 "
    "first_ns=1000 delay_unknown_ns=60350 overhead_ns=203 cpu_ns=8850 "
    "probe_arc_ns=154 last_ns=45000 accepted=2 sample_ns=250000 "
    "load_samples=9 load_milli=2500 load_average_milli=1300 "
    "records_read=28 all_locks=1 unrecorded=1 unended_ns=16000 } ",
    "table{processes{pid=10 parent=-1 name='odd.10' start_ns=1000 "
    "end_ns=40000 end='signal 9' cpu_ns=8700 rusage_cpu_ns=-1 "
    "events=24 } processes{index=1 pid=20 parent=-1 name='open.20' "
    "start_ns=3000 open=1 end='running' cpu_ns=150 rusage_cpu_ns=-1 "
    "events=4 } } ",
    "table{threads{tid=10 name='odd' start_ns=1000 end_ns=30100 "
    "cpu_ns=700 wait_ns=18000 waits{cause='peer' ns=12000 count=3 } "
    "waits{cause='lock' ns=6000 count=2 } messages_in=6 bytes_in=56 "
    "end_node=8 unknown_ns=9400 choices=2 } threads{chain=1 tid=11 "
    "name='comm' start_ns=1500 end_ns=30000 cpu_ns=4000 messages_out=1 "
    "bytes_out=10 end_node=12 unknown_ns=24500 ended=1 } threads{chain=2 "
    "tid=12 name='comm' start_ns=1500 end_ns=30000 cpu_ns=4000 "
    "messages_out=1 bytes_out=20 end_node=15 unknown_ns=24500 ended=1 } "
    "threads{chain=3 process=1 tid=20 name='open' start_ns=3000 "
    "end_ns=45000 open=1 cpu_ns=150 wait_ns=39900 waits{cause='disk' "
    "ns=39900 count=1 } messages_out=1 bytes_out=5 end_node=20 "
    "unknown_ns=1950 } } ",
    "table{channels{end=1 name='pipe 13:5' recv_messages=3 "
    "recv_bytes=35 } channels{end=2 name='tcp "
    "10.0.0.1:80-10.0.0.2:4000' peer_process=-1 recv_messages=2 "
    "recv_bytes=14 serves=1 } channels{end=3 name='tcp "
    "10.0.0.1:80-10.0.0.2:4001' peer_process=-1 recv_messages=1 "
    "recv_bytes=7 serves=1 } channels{name='pipe 13:5' sent_messages=2 "
    "sent_bytes=30 } channels{end=4 process=1 name='user "
    "af63e04c8601f358' peer_process=-1 sent_messages=1 sent_bytes=5 } "
    "} ",
    "ends{ends{index=2 kind=4 "
    "local=0a00500000000000000000000000ffff0a000001 "
    "remote=0a00a00f00000000000000000000ffff0a000002 recv_bytes=14 "
    "closed=1 accepted=1 } ends{index=3 kind=4 "
    "local=0a00500000000000000000000000ffff0a000001 "
    "remote=0a00a10f00000000000000000000ffff0a000002 recv_bytes=7 "
    "closed=1 accepted=1 } ends{index=4 kind=6 local=58f301864ce063af "
    "remote=58f301864ce063af sent_bytes=5 } } ",
    "peers{external=1 idle=1 unmatched=1 pending=1 remote_in=1 "
    "remote_out=1 } ",
    "run_info: run='run' command='' closed=1 last_ns=44000",
    "processes: process='odd.10' pid=10 end_ns=39000 elapsed_ns=39000 "
    "ended='signal 9' cpu_ns=8700 events=24 messages_out=2 "
    "bytes_out=30 messages_in=6 bytes_in=56",
    "processes: process='open.20' pid=20 start_ns=2000 "
    "elapsed_ns=42000 open=1 ended='running' cpu_ns=150 events=4 "
    "messages_out=1 bytes_out=5",
    "threads: process='odd.10' tid=10 name='odd' end_ns=29100 "
    "elapsed_ns=29100 cpu_ns=700 wait_ns=18000 blocked_ns=18000 "
    "unknown_ns=9400 messages_in=6 bytes_in=56",
    "threads: process='odd.10' tid=11 name='comm' start_ns=500 "
    "end_ns=29000 elapsed_ns=28500 cpu_ns=4000 unknown_ns=24500 "
    "messages_out=1 bytes_out=10",
    "threads: process='odd.10' tid=12 name='comm' start_ns=500 "
    "end_ns=29000 elapsed_ns=28500 cpu_ns=4000 unknown_ns=24500 "
    "messages_out=1 bytes_out=20",
    "threads: process='open.20' tid=20 name='open' start_ns=2000 "
    "end_ns=44000 elapsed_ns=42000 open=1 cpu_ns=150 wait_ns=39900 "
    "blocked_ns=39900 unknown_ns=1950 messages_out=1 bytes_out=5",
    "waits: process='odd.10' tid=10 cause='lock' ns=6000 count=2",
    "waits: process='odd.10' tid=10 cause='peer' ns=12000 count=3",
    "waits: process='open.20' tid=20 cause='disk' ns=39900 count=1",
    "channels: name='pipe 13:5' kind=1 peer='local' peer_channel=1 "
    "sent_messages=2 sent_bytes=30 closed=1",
    "channels: channel=1 name='pipe 13:5' kind=1 peer='local' "
    "recv_messages=3 recv_bytes=35 closed=1",
    "channels: channel=2 name='tcp 10.0.0.1:80-10.0.0.2:4000' kind=4 "
    "peer='elsewhere' recv_messages=2 recv_bytes=14 closed=1",
    "channels: channel=3 name='tcp 10.0.0.1:80-10.0.0.2:4001' kind=4 "
    "peer='elsewhere' recv_messages=1 recv_bytes=7 closed=1",
    "channels: channel=4 name='user af63e04c8601f358' kind=6 "
    "peer='elsewhere' sent_messages=1 sent_bytes=5",
    "traffics: process='odd.10' sent_messages=2 sent_bytes=30",
    "traffics: channel=1 process='odd.10' recv_messages=3 recv_bytes=35",
    "traffics: channel=2 process='odd.10' recv_messages=2 recv_bytes=14",
    "traffics: channel=3 process='odd.10' recv_messages=1 recv_bytes=7",
    "traffics: channel=4 process='open.20' sent_messages=1 sent_bytes=5",
    NULL};

static void test_counters__usual(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    Ips__PeersAsk peers = IPS__PEERS_ASK__INIT;
    Ips__Peer nobody = IPS__PEER__INIT, *all[] = {&nobody};
    put_main(r);
    put_worker(r);
    put_child(r);
    nobody.end = 4;
    peers.n_peers = 1;
    peers.peers = all;
    check(r, &peers, usual);
}

static void test_counters__seldom(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    Ips__PeersAsk peers = IPS__PEERS_ASK__INIT;
    Ips__Peer nobody = IPS__PEER__INIT, other = IPS__PEER__INIT;
    Ips__Peer *all[] = {&nobody, &other};
    put_reader(r);
    put_senders(r);
    nobody.end = 3;
    other.end = 2;
    other.traced = true;
    other.peer_sent_bytes = 8; /* of the 14 that were received, in two */
    peers.n_peers = 2;
    peers.peers = all;
    check(r, &peers, seldom);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters__usual),
        cmocka_unit_test(test_counters__seldom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
