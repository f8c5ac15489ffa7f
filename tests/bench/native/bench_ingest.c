/*
 * bench_ingest [EVENTS [short]]: events per second and core of the slave's
 * ingest (pool to archive, cursors committed), of the graph's build with its
 * tables stored in SQLite, and of all of it, beside a baseline: the same bytes
 * copied from file to file, and ns of CPU an event by stage. Prints key=value
 * lines. `short`: of every two records one has the short form, as what an agent
 * writes while a thread is not switched out.
 *
 * The pool is written beforehand: segments of one process in STREAMS threads,
 * sends and receives on a socket pair a thread, as the agent writes them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "slave/build/build.h"
#include "slave/drain/drain.h"
#include "slave/graphs/graphs.h"

#define STREAMS 8u
#define SEGMENT_BYTES (4u << 20)

static bool some_short;
static char root[64], pool[80], state[80];

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * SLAVE_SECOND_NS + (uint64_t)ts.tv_nsec;
}

static void must(bool fine, const char *what)
{
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static void make_control(void)
{
    char path[160];
    struct ips_control c = {.magic = IPS_CONTROL_MAGIC,
                            .version = IPS_POOL_VERSION,
                            .control_bytes = sizeof(c),
                            .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
                            .quota_bytes = UINT64_MAX};
    snprintf(c.run, sizeof(c.run), "bench");
    snprintf(path, sizeof(path), "%s/bench", pool);
    must(mkdir(path, 0700) == 0, path);
    snprintf(path, sizeof(path), "%s/bench/control", pool);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    must(fd >= 0 && write(fd, &c, sizeof(c)) == sizeof(c), path);
    close(fd);
}

struct segment {
    uint8_t *data;
    size_t at;
    uint32_t tid, seq;
};

static void begin(struct segment *s)
{
    memset(s->data, 0, SEGMENT_BYTES);
    struct ips_segment_header *h = (struct ips_segment_header *)(void *)s->data;
    h->magic = IPS_SEGMENT_MAGIC;
    h->version = IPS_POOL_VERSION;
    h->header_bytes = sizeof(*h);
    h->segment_bytes = SEGMENT_BYTES;
    h->seq = s->seq;
    h->pid = 4000000; /* nobody's: dead, so segments are removed */
    h->tid = 4000000 + s->tid;
    h->image_stamp = 1;
    h->stream_stamp = 1 + s->tid;
    h->clock = (struct ips_clock){IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32};
    h->state = IPS_SEGMENT_CLOSED;
    s->at = sizeof(*h);
}

static void end(struct segment *s)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/bench/%u.%u.seg", pool, s->tid, s->seq++);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    must(fd >= 0 && write(fd, s->data, SEGMENT_BYTES) == SEGMENT_BYTES, path);
    close(fd);
}

static void *put(struct segment *s, uint32_t type, size_t bytes, uint64_t t)
{
    if (s->at + bytes > SEGMENT_BYTES) {
        end(s);
        begin(s);
    }
    struct ips_rec_head *h = (struct ips_rec_head *)(void *)(s->data + s->at);
    s->at += bytes;
    h->word = type | (uint32_t)(bytes / 8) << 8;
    h->t = t;
    return h;
}

/* Times are never round: `bits` of noise. */
static uint64_t noise(unsigned bits)
{
    static uint64_t x = 88172645463325252ULL;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x & ((1ULL << bits) - 1);
}

/* Alternately sends and receives; thread 2k talks with 2k+1. */
static void write_stream(uint32_t tid, uint64_t events)
{
    struct segment s = {.data = malloc(SEGMENT_BYTES), .tid = tid};
    must(s.data != NULL, "malloc");
    begin(&s);
    struct ips_rec_start *st = put(&s, IPS_REC_START, sizeof(*st), 1000);
    st->h.a = tid ? IPS_START_THREAD : IPS_START_ROOT;
    st->parent_image = 1;
    struct ips_rec_chan *c = put(&s, IPS_REC_CHAN, sizeof(*c), 1000);
    c->h.a = 1 + tid;
    c->kind = IPS_CHAN_UNIX;
    c->side = IPS_SIDE_BOTH;
    c->dev = 1;
    c->ino = 100 + tid;
    c->peer_ino = 100 + (tid ^ 1);
    for (uint64_t i = 0; i < events; i++) {
        bool send = (i + tid) % 2 == 0;
        uint64_t t = 2000 + i * 1000 + noise(9), ran = 200 + noise(6);
        if (some_short && i > 0 && send) {
            struct ips_rec_io_short *o =
                put(&s, IPS_REC_SEND_SHORT, sizeof(*o), t);
            o->h.a = 1 + tid;
            o->took = (uint32_t)ran;
            o->result = 64;
            o->site = 0x401000;
            continue;
        }
        struct ips_rec_io *io =
            put(&s, send ? IPS_REC_SEND : IPS_REC_RECV, sizeof(*io), t);
        io->h.a = 1 + tid;
        io->t_ret = t + ran + (send ? 0 : 100);
        io->cpu = i * 500 + noise(7);
        io->cpu_ret = io->cpu + ran;
        io->result = 64;
        io->site = send ? 0x401000 : 0x401040;
    }
    struct ips_rec_end *e =
        put(&s, IPS_REC_END, sizeof(*e), 4000 + events * 1000);
    e->h.a = IPS_END_THREAD;
    e->cpu = events * 500 + 500;
    end(&s);
    free(s.data);
}

static void drain(struct slave_drain *d)
{
    for (int i = 0; i < 100000; i++) {
        (void)slave_drain_turn(d, slave_now_ns());
        struct slave_run *r = slave_drain_find_run(d, "bench");
        if (r && r->row.closed)
            return;
        if (!d->moved_bytes)
            usleep(1000);
    }
    must(false, "the run was not closed");
}

static int collect(const struct slave_stream_row *row, void *arg)
{
    struct slave_snapshot *s = arg;
    s->streams[s->stream_count++] = *row;
    return 0;
}

static struct slave_snapshot *snapshot(struct slave_drain *d)
{
    struct ips_err err = {0};
    struct slave_run *r = slave_drain_find_run(d, "bench");
    struct slave_snapshot *s = calloc(1, sizeof(*s));
    must(s != NULL, "calloc");
    s->streams = calloc(STREAMS + 1, sizeof(*s->streams));
    snprintf(s->run, sizeof(s->run), "bench");
    snprintf(s->dir, sizeof(s->dir), "%s", r->dir);
    s->run_id = r->row.id;
    s->control = r->row.control;
    s->archive_fd = -1;
    s->archive_bytes = r->row.archive_bytes;
    must(slave_store_for_each_stream(d->store, r->row.id, collect, s, &err) ==
             0,
         err.msg);
    s->key = slave_snapshot_compute_key(s);
    return s;
}

static void stage(const char *name, uint64_t *t, uint64_t events)
{
    uint64_t now = cpu_ns();
    printf("%s_ns_per_event=%.1f\n", name, (double)(now - *t) / (double)events);
    *t = cpu_ns();
}

/* Records to graph and to the tables in SQLite (process, thread, wait, channel,
 * traffic), stage by stage as slave_graphs_get_or_build does it; CPU ns. */
static uint64_t bench_build(struct slave_drain *d, uint64_t events)
{
    struct slave_graphs gs;
    struct slave_input in;
    struct ips_built built;
    struct ips_err err = {0};
    char db[100];
    struct slave_run *r = slave_drain_find_run(d, "bench");
    struct slave_snapshot *s = snapshot(d);
    snprintf(db, sizeof(db), "%s/slave.db", state);
    slave_graphs_init(&gs, db, "");
    must(slave_graphs_get_or_open_store(&gs, &err) != NULL, err.msg);
    uint64_t begin = cpu_ns(), t = begin;
    must(slave_input_fill_from_snapshot(&gs, s, &in, &err) == 0, err.msg);
    stage("unpack", &t, events);
    must(ips_build(&in.in, &built, &err) == 0, err.msg);
    stage("graph", &t, events);
    must(slave_store_replace_summary_tables(gs.store, r->row.id, 1, &built,
                                            &err) == 0,
         err.msg);
    stage("tables", &t, events);
    slave_input_release(&gs, &in);
    stage("release", &t, events);
    uint64_t all = cpu_ns() - begin;
    printf("build_events_per_s=%.0f nodes=%u unmatched=%llu\n",
           (double)events * 1e9 / (double)all, built.g.node_count,
           (unsigned long long)built.counts.unmatched);
    ips_built_release(&built);
    slave_snapshot_free(s);
    slave_graphs_release(&gs);
    return all;
}

/* What any reader of the pool must do at the least. */
static void baseline(const char *archive, uint64_t events)
{
    static char buffer[1 << 18];
    char path[200];
    snprintf(path, sizeof(path), "%s/copy", root);
    int in = open(archive, O_RDONLY);
    int out = open(path, O_WRONLY | O_CREAT, 0600);
    must(in >= 0 && out >= 0, archive);
    uint64_t t = cpu_ns();
    ssize_t n;
    while ((n = read(in, buffer, sizeof(buffer))) > 0)
        must(write(out, buffer, (size_t)n) == n, path);
    t = cpu_ns() - t;
    close(in);
    close(out);
    printf("copy_events_per_s=%.0f\n", (double)events * 1e9 / (double)t);
}

int main(int argc, char **argv)
{
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    struct slave_drain d;
    struct ips_err err = {0};
    char path[600];
    some_short = argc > 2 && strcmp(argv[2], "short") == 0;
    snprintf(root, sizeof(root), "/dev/shm/slave-bench-XXXXXX");
    must(mkdtemp(root) != NULL, root);
    snprintf(pool, sizeof(pool), "%s/pool", root);
    snprintf(state, sizeof(state), "%s/state", root);
    must(mkdir(pool, 0700) == 0, pool);
    make_control();
    for (uint32_t i = 0; i < STREAMS; i++)
        write_stream(i, events / STREAMS);
    const struct slave_drain_options opt = {.pool = pool, .state = state};
    if (slave_drain_open(&d, &opt, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    uint64_t t = cpu_ns();
    drain(&d);
    t = cpu_ns() - t;
    struct slave_run *r = slave_drain_find_run(&d, "bench");
    printf("events=%llu archive_bytes=%llu\n",
           (unsigned long long)r->row.events,
           (unsigned long long)r->row.archive_bytes);
    printf("ingest_ns_per_event=%.1f\n", (double)t / (double)r->row.events);
    printf("ingest_events_per_s=%.0f\n",
           (double)r->row.events * 1e9 / (double)t);
    snprintf(path, sizeof(path), "%s/archive", r->dir);
    baseline(path, r->row.events);
    t += bench_build(&d, r->row.events);
    printf("all_events_per_s=%.0f\n", (double)r->row.events * 1e9 / (double)t);
    slave_drain_close(&d);
    snprintf(path, sizeof(path), "rm -rf %s", root);
    return system(path) ? 1 : 0;
}
