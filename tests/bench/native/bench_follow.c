/*
 * What a resident slave does with a run that is followed: events per second of
 * CPU time from the pool to the tables in SQLite, all of it by the daemon's own
 * code - turns of the drain (records read and checked, packed, written to the
 * archive, cursors committed, segments zeroed and handed back to their writer)
 * and turns of slave/graphs/live_tables.h (tables brought up to date with what
 * was handed over, and stored as often as the daemon does) whenever
 * slave_precompute_is_due() says so.
 *
 * The run is a synthetic one (synth.h), PATTERN in 16 threads of one process
 * that lives. Each publishes its records in open segments of the default size
 * as time goes on, MS of the run's time before every turn of the drain, and
 * uses segments again that the slave handed back; what the writer does is not
 * counted. The threads go on when the figures are taken. Then the tables are
 * held against those of a whole build from the archive: any difference is an
 * error. Prints key=value lines; *_ns are CPU ns an event.
 *
 * Records have the form that an agent gives them: the short one where the
 * thread was on its core since the last long one (synth.h: forms).
 *
 * Usage: bench_follow [EVENTS [PATTERN [MS [WORD ...]]]]
 * default: 4000000, ring, 20
 * long: every record has the long form.
 * nohandover: all is unpacked from the archive again, as where the worker is
 * behind.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/large.h"
#include "common/log.h"
#include "slave/drain/drain.h"
#include "slave/graphs/graphs.h"
#include "slave/serve/precompute.h"
#include "tests/bench/native/synth.h"

#define THREADS 16u
#define FILES 4u /* segments of a thread, used in turns */
#define STEP_NS (10 * SLAVE_MS_NS)

struct part { /* a segment's worth */
    uint8_t *data;
    size_t used;
};
struct writer {
    struct part *part;
    uint32_t count, room, next; /* the one in hand */
    size_t at;                  /* published of it; 0: not begun */
};

static bool forms = true, handover = true;
static struct writer writers[THREADS];
static char root[64], pool[80], state[80];
static struct ips_err err;

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * SLAVE_SECOND_NS + (uint64_t)ts.tv_nsec;
}

static void must(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "bench_follow: %s\n", what);
        exit(1);
    }
}

/* ---- the program ---- */

static void collect(void *arg, uint32_t thread, uint32_t seq, const void *data,
                    size_t used)
{
    struct writer *w = &writers[thread];
    struct stat ns;
    (void)arg;
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 16;
        w->part = realloc(w->part, w->room * sizeof(*w->part));
    }
    must(w->part && seq == w->count && stat("/proc/self/ns/pid", &ns) == 0,
         "no memory");
    struct part *p = &w->part[w->count++];
    *p = (struct part){malloc(used), used};
    must(p->data, "no memory");
    memcpy(p->data, data, used);
    struct ips_segment_header *h = (struct ips_segment_header *)(void *)p->data;
    h->pid = (uint32_t)getpid(); /* it lives */
    h->tid = h->pid + thread;
    h->pidns = ns.st_ino;
    h->segment_bytes = IPS_SEGMENT_BYTES;
    h->state = IPS_SEGMENT_OPEN;
}

static void make_run(uint64_t events, const char *pattern)
{
    struct synth_options o = synth_default(SYNTH_RING);
    struct ips_control c = {.magic = IPS_CONTROL_MAGIC,
                            .version = IPS_POOL_VERSION,
                            .control_bytes = sizeof(c),
                            .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
                            .quota_bytes = UINT64_MAX,
                            .segment_bytes = IPS_SEGMENT_BYTES};
    char path[200];
    bool known = false;
    for (int p = 0; p < SYNTH_PATTERN_COUNT; p++)
        if (strcmp(pattern, synth_pattern_names[p]) == 0) {
            o.pattern = (enum synth_pattern)p;
            known = true;
        }
    must(known, "no such pattern");
    o.nodes = (uint32_t)events;
    o.threads = THREADS;
    o.forms = forms;
    must(synth_records(&o, 0, IPS_SEGMENT_BYTES, collect, NULL, &err) == 0,
         "no records");
    snprintf(c.run, sizeof(c.run), "bench");
    snprintf(path, sizeof(path), "%s/bench", pool);
    must(mkdir(path, 0700) == 0, path);
    snprintf(path, sizeof(path), "%s/bench/control", pool);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    must(fd >= 0 && write(fd, &c, sizeof(c)) == sizeof(c), path);
    close(fd);
}

/* How far the part in hand has records from before `t`. */
static size_t until(const struct writer *w, uint64_t t)
{
    const struct part *p = &w->part[w->next];
    size_t at = w->at ? w->at : sizeof(struct ips_segment_header);
    while (at < p->used) {
        struct ips_rec_head h;
        memcpy(&h, p->data + at, sizeof(h));
        if (h.t >= t)
            break;
        at += (size_t)(h.word >> 8 & 0xffu) * 8;
    }
    return at;
}

static void put(int fd, const void *data, size_t from, size_t to)
{
    must(pwrite(fd, (const uint8_t *)data + from, to - from, (off_t)from) ==
             (ssize_t)(to - from),
         "pwrite");
}

/* The thread goes on up to time t: false, it waits for a segment, or is through
 * but for the last one, which has its END. */
static bool run_until_work(uint32_t thread, uint64_t t)
{
    struct writer *w = &writers[thread];
    while (w->next + 1 < w->count) {
        struct ips_segment_header h;
        const struct part *p = &w->part[w->next];
        char path[200];
        snprintf(path, sizeof(path), "%s/bench/%u.%u.seg", pool, thread,
                 w->next % FILES);
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        must(fd >= 0, path);
        size_t to = until(w, t), from = w->at ? w->at : sizeof(h);
        bool mine = w->at || w->next < FILES ||
                    (pread(fd, &h, sizeof(h), 0) == sizeof(h) &&
                     h.state == IPS_SEGMENT_DRAINED);
        if (mine && to > from) {
            must(ftruncate(fd, IPS_SEGMENT_BYTES) == 0, path);
            put(fd, p->data, from, to);
            memcpy(&h, p->data, sizeof(h));
            if (to == p->used)
                h.state = IPS_SEGMENT_CLOSED;
            put(fd, &h, 0, sizeof(h));
            w->at = to;
        }
        close(fd);
        if (!mine || to < p->used)
            return mine;
        w->next++;
        w->at = 0;
    }
    return false;
}

/* ---- the slave ---- */

static int collect_row(const struct slave_stream_row *row, void *arg)
{
    struct slave_snapshot *s = arg;
    s->streams[s->stream_count++] = *row;
    return 0;
}

/* As slave_serve_copy_or_read_snapshot() reads it. */
static struct slave_snapshot *snapshot(struct slave_drain *d,
                                       const struct slave_run *r)
{
    struct slave_snapshot *s = calloc(1, sizeof(*s));
    must(s != NULL, "no memory");
    s->streams = calloc(THREADS + 1, sizeof(*s->streams));
    must(s->streams != NULL, "no memory");
    snprintf(s->run, sizeof(s->run), "bench");
    snprintf(s->dir, sizeof(s->dir), "%s", r->dir);
    s->run_id = r->row.id;
    s->control = r->row.control;
    s->archive_fd = slave_archive_open_for_reading(r->dir);
    s->archive_bytes = r->row.archive_bytes;
    must(slave_store_for_each_stream(d->store, r->row.id, collect_row, s,
                                     &err) == 0,
         err.msg);
    s->key = slave_snapshot_compute_key(s);
    return s;
}

struct slave_side {
    struct slave_drain d;
    struct slave_graphs gs;
    struct slave_record_queue *handover; /* NULL: without */
    uint64_t now_ns;              /* the drain's clock: nobody sleeps here */
    uint64_t drain_ns, follow_ns; /* CPU */
    unsigned turns, stores;
};

static void follow(struct slave_side *s, struct slave_run *r)
{
    uint64_t stored = s->gs.live_tables.stored;
    struct slave_snapshot *snap = snapshot(&s->d, r);
    if (s->handover)
        slave_record_queue_seal_last_batch(s->handover);
    r->precomputed_bytes = r->row.archive_bytes;
    r->precompute_ns = s->now_ns + SLAVE_PRECOMPUTE_NS;
    must(slave_live_tables_update_and_store_if_due(&s->gs, snap, s->handover,
                                                   &err) == 0,
         err.msg);
    slave_snapshot_free(snap);
    s->turns++;
    s->stores += s->gs.live_tables.stored != stored;
}

/* One turn of the loop; false: nothing was there. */
static bool turn(struct slave_side *s)
{
    uint64_t t = cpu_ns();
    (void)slave_drain_turn(&s->d, s->now_ns);
    uint64_t between = cpu_ns();
    s->drain_ns += between - t;
    s->now_ns += STEP_NS;
    struct slave_run *r = slave_drain_find_run(&s->d, "bench");
    if (!r || !r->row.id)
        return s->d.moved_bytes > 0;
    r->record_queue = s->handover;
    r->asked_ns = 1; /* somebody asked about it */
    if (slave_precompute_is_due(r, s->now_ns))
        follow(s, r);
    s->follow_ns += cpu_ns() - between;
    return s->d.moved_bytes > 0;
}

/* The whole build of what the tables have. */
static void compare(struct slave_side *s)
{
    struct slave_input in;
    struct ips_built b;
    struct slave_run *r = slave_drain_find_run(&s->d, "bench");
    follow(s, r);
    const struct ips_built *a =
        ips_get_incremental_tables(s->gs.live_tables.tables);
    struct slave_snapshot *snap = snapshot(&s->d, r);
    uint64_t t = cpu_ns();
    must(slave_input_fill_from_snapshot(&s->gs, snap, &in, &err) == 0, err.msg);
    must(ips_build(&in.in, &b, &err) == 0, err.msg);
    printf("whole_build_from_archive_ns=%.1f\n",
           (double)(cpu_ns() - t) / (double)b.counts.events);
    must(a->proc_count == b.proc_count && a->end_count == b.end_count &&
             a->traffic_count == b.traffic_count &&
             a->g.chain_count == b.g.chain_count,
         "other rows than the whole build's");
    must(memcmp(a->procs, b.procs, b.proc_count * sizeof(*b.procs)) == 0 &&
             memcmp(a->threads, b.threads,
                    b.g.chain_count * sizeof(*b.threads)) == 0 &&
             memcmp(a->ends, b.ends, b.end_count * sizeof(*b.ends)) == 0 &&
             memcmp(a->traffic, b.traffic,
                    b.traffic_count * sizeof(*b.traffic)) == 0,
         "other tables than the whole build's");
    printf("tables_of_events=%llu equal=1\n",
           (unsigned long long)b.counts.events);
    ips_built_release(&b);
    slave_input_release(&s->gs, &in);
    slave_snapshot_free(snap);
}

static uint64_t bytes_read(const struct slave_run *r)
{
    uint64_t n = 0;
    for (const struct slave_stream *st = r->streams; st; st = st->next)
        n += st->row.bytes;
    return n;
}

static void report(const struct slave_side *s, uint64_t events)
{
    const struct slave_run *r = slave_drain_find_run(&s->d, "bench");
    double n = (double)events;
    printf("events=%llu archive_bytes_per_event=%.2f "
           "record_bytes_per_event=%.1f\n",
           (unsigned long long)events, (double)r->row.archive_bytes / n,
           (double)bytes_read(r) / n);
    printf("ingest_ns=%.1f tables_ns=%.1f all_ns=%.1f\n",
           (double)s->drain_ns / n, (double)s->follow_ns / n,
           (double)(s->drain_ns + s->follow_ns) / n);
    printf("all_events_per_s=%.0f\n",
           n * 1e9 / (double)(s->drain_ns + s->follow_ns));
    printf("turns=%u handed=%llu unpacked=%llu begun=%llu stored=%u "
           "large_memory_MB=%llu\n",
           s->turns, (unsigned long long)s->gs.live_tables.queued,
           (unsigned long long)s->gs.live_tables.unpacked,
           (unsigned long long)s->gs.live_tables.begun, s->stores,
           (unsigned long long)(ips_large_get_use().memory_most >> 20));
}

/* Somebody waits for a segment to come back. */
static bool behind(uint64_t t)
{
    bool any = false;
    for (uint32_t i = 0; i < THREADS; i++)
        any |= writers[i].next + 1 < writers[i].count && !run_until_work(i, t);
    return any;
}

static bool some_go_on(uint64_t t)
{
    bool all = true;
    for (uint32_t i = 0; i < THREADS; i++) {
        (void)run_until_work(i, t);
        all &= writers[i].next + 1 < writers[i].count;
    }
    return all; /* when one is through, what the others wait for is missing */
}

int main(int argc, char **argv)
{
    uint64_t step = (argc > 3 ? strtoull(argv[3], NULL, 10) : 20) * SLAVE_MS_NS;
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000000;
    struct slave_side *s = calloc(1, sizeof(*s));
    char path[600];
    for (int i = 4; i < argc; i++) {
        forms &= strcmp(argv[i], "long") != 0;
        handover &= strcmp(argv[i], "nohandover") != 0;
    }
    snprintf(root, sizeof(root), "/dev/shm/slave-bench-XXXXXX");
    must(s && mkdtemp(root) != NULL, root);
    snprintf(pool, sizeof(pool), "%s/pool", root);
    snprintf(state, sizeof(state), "%s/state", root);
    must(mkdir(pool, 0700) == 0, pool);
    make_run(events, argc > 2 ? argv[2] : "ring");
    const struct slave_drain_options opt = {.pool = pool, .state = state};
    must(slave_drain_open(&s->d, &opt, &err) == 0, err.msg);
    snprintf(path, sizeof(path), "%s/slave.db", state);
    slave_graphs_init(&s->gs, path, "");
    if (handover)
        s->handover = slave_record_queue_new(SLAVE_HANDOVER_ROOMS);
    s->now_ns = slave_now_ns();
    ips_large_restart_peaks();
    for (uint64_t t = 0; some_go_on(t); t += step) {
        (void)turn(s);
        for (int idle = 0; behind(t) && idle < 1000; idle++)
            (void)turn(s);
    }
    while (turn(s))
        ;
    report(s, slave_drain_find_run(&s->d, "bench")->row.events);
    must(s->gs.live_tables.tables != NULL, "the tables cannot go on");
    compare(s);
    slave_graphs_release(&s->gs);
    slave_drain_close(&s->d);
    slave_record_queue_free(s->handover);
    snprintf(path, sizeof(path), "rm -rf %s", root);
    return system(path) ? 1 : 0;
}
