/*
 * Composes streams of records in memory, as the agent would have written them,
 * for tests of slave/build/build.h. Stamps are CLOCK_MONOTONIC_RAW ns as they
 * are. One `struct recorder` is one run on one machine.
 */
#ifndef IPS_TESTS_UNIT_HELP_RECORDER_H
#define IPS_TESTS_UNIT_HELP_RECORDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "slave/build/build.h"
#include "slave/build/channel.h"
#include "tests/support/check_waits.h"
#include "tests/unit/help/same_built.h"

#define REC_STREAMS 256

struct rec_stream {
    struct ips_segment_header head;
    uint8_t *data;
    size_t len, room;
    bool dead;
    uint64_t dead_t_ns;
    struct ips_current_call begun; /* the call that its thread is in */
    uint32_t dead_status;
    uint64_t lost[IPS_LOST_COUNT];
    struct ips_chunk chunk;
};
struct recorder {
    struct ips_control control;
    bool no_control; /* the build is not given `control` */
    struct rec_stream s[REC_STREAMS];
    uint32_t count;
    struct ips_built built;
    bool have_built;
    struct ips_wait_rows waits; /* of `built` */
};
typedef struct rec_stream *rs;

static inline struct recorder *rec_new(void)
{
    struct recorder *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    return r;
}

static inline void rec_free(struct recorder *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        free(r->s[i].data);
    if (r->have_built)
        ips_built_release(&r->built);
    ips_wait_rows_release(&r->waits);
    free(r);
}

/* A stream of thread `tid` of image (pid, image). */
static inline rs rec_stream(struct recorder *r, uint32_t pid, uint32_t tid,
                            uint64_t image)
{
    assert_true(r->count < REC_STREAMS);
    rs s = &r->s[r->count++];
    s->head.pid = pid;
    s->head.tid = tid;
    s->head.image_stamp = image;
    s->head.stream_stamp = image;
    s->head.clock.kind = IPS_CLOCK_RAW;
    memcpy(s->head.comm, "comm", 5);
    return s;
}

static inline void *rec_put(rs s, enum ips_rec_type type, size_t bytes,
                            uint32_t a, uint64_t t)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (s->len + bytes > s->room) {
        s->room = s->room ? s->room * 2 : 4096;
        s->data = realloc(s->data, s->room);
        assert_non_null(s->data);
    }
    void *p = s->data + s->len;
    memset(p, 0, bytes);
    struct ips_rec_head *h = p;
    h->word = (uint32_t)type | (uint32_t)(bytes / 8) << 8;
    h->a = a;
    h->t = t;
    s->len += bytes;
    return p;
}

/* ---- records ---- */

static inline struct ips_rec_start *rec_start(rs s, enum ips_start_kind kind,
                                              uint64_t t, uint64_t cpu)
{
    struct ips_rec_start *r = rec_put(s, IPS_REC_START, sizeof(*r), kind, t);
    r->cpu = cpu;
    if (s->len == sizeof(*r))
        s->head.stream_stamp = t;
    return r;
}

static inline void rec_end(rs s, enum ips_end_kind kind, uint64_t t,
                           uint64_t cpu, uint64_t status)
{
    struct ips_rec_end *r = rec_put(s, IPS_REC_END, sizeof(*r), kind, t);
    r->cpu = cpu;
    r->status = status;
}

static inline struct ips_rec_io *rec_io(rs s, enum ips_rec_type type,
                                        uint32_t id, uint64_t t, uint64_t t_ret,
                                        uint64_t cpu, uint64_t cpu_ret,
                                        int64_t result)
{
    struct ips_rec_io *r = rec_put(s, type, sizeof(*r), id, t);
    r->t_ret = t_ret;
    r->cpu = cpu;
    r->cpu_ret = cpu_ret;
    r->result = result;
    return r;
}
/* A call that took no time and no CPU. */
static inline struct ips_rec_io *rec_send(rs s, uint32_t id, uint64_t t,
                                          uint64_t cpu, int64_t bytes)
{
    return rec_io(s, IPS_REC_SEND, id, t, t, cpu, cpu, bytes);
}
static inline struct ips_rec_io *rec_recv(rs s, uint32_t id, uint64_t t,
                                          uint64_t t_ret, uint64_t cpu,
                                          int64_t bytes)
{
    return rec_io(s, IPS_REC_RECV, id, t, t_ret, cpu, cpu, bytes);
}

static inline struct ips_rec_fork *rec_fork(rs s, enum ips_fork_kind kind,
                                            uint64_t t, uint64_t t_ret,
                                            uint64_t cpu, uint64_t cpu_ret,
                                            uint32_t pid, uint64_t seq)
{
    struct ips_rec_fork *r = rec_put(s, IPS_REC_FORK, sizeof(*r), pid, t);
    r->t_ret = t_ret;
    r->cpu = cpu;
    r->cpu_ret = cpu_ret;
    r->fork_seq = seq;
    r->kind = kind;
    return r;
}

static inline struct ips_rec_join *rec_join(rs s, enum ips_join_kind kind,
                                            uint64_t t, uint64_t t_ret,
                                            uint64_t cpu, uint32_t pid,
                                            uint64_t seq)
{
    struct ips_rec_join *r = rec_put(s, IPS_REC_JOIN, sizeof(*r), pid, t);
    r->t_ret = t_ret;
    r->cpu = r->cpu_ret = cpu;
    r->seq = seq;
    r->child_cpu_ns = IPS_CPU_UNKNOWN;
    r->kind = kind;
    return r;
}

static inline void rec_exec(rs s, uint64_t t, uint64_t cpu, bool failed)
{
    struct ips_rec_exec *r =
        rec_put(s, failed ? IPS_REC_EXECFAIL : IPS_REC_EXEC, sizeof(*r) + 8,
                failed ? 2 : 1, t);
    r->cpu = cpu;
    memcpy(r->path, "x", 2);
}

static inline void rec_name(rs s, uint64_t t, const char *text)
{
    size_t len = strlen(text);
    struct ips_rec_text *r =
        rec_put(s, IPS_REC_NAME, sizeof(*r) + len + 1, (uint32_t)len, t);
    memcpy(r->text, text, len + 1);
}

static inline struct ips_rec_chan *rec_chan(rs s, uint32_t id, uint64_t t,
                                            enum ips_chan_kind kind,
                                            enum ips_chan_side side,
                                            uint64_t ino)
{
    struct ips_rec_chan *r = rec_put(s, IPS_REC_CHAN, sizeof(*r), id, t);
    r->kind = (uint8_t)kind;
    r->side = (uint8_t)side;
    r->dev = 13;
    r->ino = ino;
    r->netns = 1;
    r->fd = id;
    return r;
}
static inline void rec_pipe(rs s, uint32_t id, uint64_t t,
                            enum ips_chan_side side, uint64_t ino)
{
    rec_chan(s, id, t, IPS_CHAN_PIPE, side, ino);
}
static inline void rec_user(rs s, uint32_t id, uint64_t t,
                            enum ips_chan_side side, const char *name)
{
    struct ips_rec_chan *r = rec_chan(s, id, t, IPS_CHAN_USER, side, 0);
    r->name_hash = ips_fnv1a(IPS_FNV_SEED, name, strlen(name));
}
/* a.b.c.d:port */
static inline struct ips_addr rec_addr(uint32_t ip, uint16_t port)
{
    struct ips_addr a = {.family = 10, .port = port};
    a.addr[10] = a.addr[11] = 0xff;
    for (int i = 0; i < 4; i++)
        a.addr[12 + i] = (uint8_t)(ip >> (24 - 8 * i));
    return a;
}
#define LOOPBACK 0x7f000001u
static inline struct ips_rec_chan *rec_inet(rs s, uint32_t id, uint64_t t,
                                            enum ips_chan_kind kind,
                                            uint64_t cookie, uint32_t lip,
                                            uint16_t lport, uint32_t rip,
                                            uint16_t rport)
{
    struct ips_rec_chan *r =
        rec_chan(s, id, t, kind, IPS_SIDE_BOTH, cookie + 1000);
    r->cookie = cookie;
    r->local = rec_addr(lip, lport);
    r->remote = rec_addr(rip, rport);
    return r;
}

static inline void rec_close(rs s, uint32_t id, uint64_t t, uint64_t cpu,
                             enum ips_close_how how)
{
    struct ips_rec_close *r = rec_put(s, IPS_REC_CLOSE, sizeof(*r), id, t);
    r->cpu = cpu;
    r->how = how;
    r->sent = r->recv = UINT64_MAX;
}

static inline void rec_dgram(rs s, uint32_t id, uint64_t t, uint64_t hash,
                             struct ips_addr local, struct ips_addr remote)
{
    struct ips_rec_dgram *r = rec_put(s, IPS_REC_DGRAM, sizeof(*r), id, t);
    r->hash = hash;
    r->local = local;
    r->remote = remote;
}

/* ACQUIRE or RELEASE of `object` in the image's own memory. */
static inline struct ips_rec_sync *rec_sync(rs s, enum ips_rec_type type,
                                            enum ips_sync kind, uint64_t t,
                                            uint64_t t_ret, uint64_t cpu,
                                            uint64_t cpu_ret, uint64_t object)
{
    struct ips_rec_sync *r = rec_put(s, type, sizeof(*r), kind, t);
    r->t_ret = t_ret;
    r->cpu = cpu;
    r->cpu_ret = cpu_ret;
    r->object = object;
    r->value = type == IPS_REC_RELEASE;
    return r;
}

/* ACQUIRE_SHORT or RELEASE_SHORT of the same. */
static inline void rec_lock(rs s, enum ips_rec_type type, enum ips_sync kind,
                            uint64_t t, uint64_t cpu, uint64_t object)
{
    struct ips_rec_lock *r = rec_put(s, type, sizeof(*r), kind, t);
    r->cpu = cpu;
    r->object = object;
}

static inline void rec_threadcpu(rs s, uint64_t t, uint32_t tid, uint64_t cpu)
{
    struct ips_rec_cpu *r = rec_put(s, IPS_REC_THREADCPU, sizeof(*r), tid, t);
    r->cpu = cpu;
}

static inline void rec_page_faults(rs s, uint64_t t, uint32_t faults,
                                   uint64_t cpu)
{
    struct ips_rec_cpu *r =
        rec_put(s, IPS_REC_PAGEFAULT, sizeof(*r), faults, t);
    r->cpu = cpu;
}

static inline void rec_delay(rs s, uint64_t t, uint64_t delay_ns)
{
    struct ips_rec_delay *r = rec_put(s, IPS_REC_RUNDELAY, sizeof(*r), 0, t);
    r->delay_ns = delay_ns;
}

static inline void rec_guessed(rs s, uint64_t t, uint32_t settled, uint64_t ns,
                               uint64_t off_ns, uint64_t off_max_ns)
{
    struct ips_rec_guessed *r =
        rec_put(s, IPS_REC_GUESSED, sizeof(*r), settled, t);
    r->guessed_ns = ns;
    r->off_ns = off_ns;
    r->off_max_ns = off_max_ns;
}

/* ---- the graph ---- */

/* The same records again without a list of waits, once record by record in the
 * general way and once with all short cuts: there is one graph of them. */
static inline void rec_same_builds(struct ips_build_input input,
                                   const struct ips_built *with_waits)
{
    struct ips_built quick, general;
    struct ips_err err = {0};
    input.waits = NULL;
    int rc = ips_build(&input, &quick, &err);
    input.general = true;
    if (rc < 0 || ips_build(&input, &general, &err) < 0)
        fail_msg("%s", err.msg);
    const char *what = built_differs(&quick, &general);
    if (what)
        fail_msg("%s differs where plain records are read plainly", what);
    what = built_differs(with_waits, &general);
    if (what)
        fail_msg("%s differs where waits are listed", what);
    ips_built_release(&quick);
    ips_built_release(&general);
}

static inline int rec_try_build(struct recorder *r, struct ips_err *err)
{
    struct ips_stream_in in[REC_STREAMS];
    memset(in, 0, sizeof(in));
    for (uint32_t i = 0; i < r->count; i++) {
        rs s = &r->s[i];
        s->chunk = (struct ips_chunk){s->data, s->len};
        memcpy(&in[i].head, &s->head, sizeof(s->head));
        in[i].chunks = &s->chunk;
        in[i].chunk_count = 1;
        in[i].dead = s->dead;
        in[i].dead_t_ns = s->dead_t_ns;
        in[i].begun = s->begun;
        in[i].dead_status = s->dead_status;
        memcpy(in[i].lost, s->lost, sizeof(s->lost));
    }
    ips_wait_rows_release(&r->waits);
    struct ips_build_input input = {.control =
                                        r->no_control ? NULL : &r->control,
                                    .streams = in,
                                    .stream_count = r->count,
                                    .waits = &r->waits};
    if (r->have_built)
        ips_built_release(&r->built);
    r->have_built = false;
    int rc = ips_build(&input, &r->built, err);
    r->have_built = rc == 0;
    bool all = r->control.locks == IPS_LOCKS_ALL;
    const char *wrong = rc == 0 ? check_waits(&r->built, &r->waits, all) : NULL;
    if (wrong)
        fail_msg("%s", wrong);
    if (rc == 0)
        rec_same_builds(input, &r->built);
    return rc;
}

static inline struct ips_built *rec_build(struct recorder *r)
{
    struct ips_err err = {0};
    if (rec_try_build(r, &err) < 0 ||
        ips_graph_check_invariants(&r->built.g, &err) < 0)
        fail_msg("%s", err.msg);
    return &r->built;
}

/* The same, of a run that nobody else has a part of: every end that might have
 * had a peer elsewhere is told that it has none, as the master would. */
static inline struct ips_built *rec_alone(struct recorder *r)
{
    struct ips_built *b = rec_build(r);
    struct ips_peer_row rows[256] = {{0}};
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->end_count && n < 256; i++)
        if (b->ends[i].peer == IPS_PEER_UNKNOWN)
            rows[n++].end = i;
    struct ips_err err = {0};
    if (ips_built_set_peers_and_remake_arcs(b, rows, n, &err) < 0)
        fail_msg("%s", err.msg);
    return b;
}

/* Node `k` of the chain of thread `tid` (the first such chain). */
static inline uint32_t rec_chain(const struct ips_built *b, uint32_t tid)
{
    for (uint32_t c = 0; c < b->g.chain_count; c++)
        if (b->g.chains[c].tid == tid)
            return c;
    fail_msg("no chain of thread %u", tid);
    return 0;
}
static inline uint32_t rec_node(const struct ips_built *b, uint32_t tid,
                                uint32_t k)
{
    const struct ips_chain *c = &b->g.chains[rec_chain(b, tid)];
    assert_true(k < c->count);
    return c->first + k;
}
static inline uint32_t rec_last(const struct ips_built *b, uint32_t tid)
{
    const struct ips_chain *c = &b->g.chains[rec_chain(b, tid)];
    return c->first + c->count - 1;
}
/* The `nth` (from 0) node of `kind` in the chain of `tid`. */
static inline uint32_t rec_kind(const struct ips_built *b, uint32_t tid,
                                enum ips_node_kind kind, uint32_t nth)
{
    const struct ips_chain *c = &b->g.chains[rec_chain(b, tid)];
    for (uint32_t i = c->first; i < c->first + c->count; i++)
        if (b->g.kind[i] == kind && nth-- == 0)
            return i;
    fail_msg("thread %u has too few nodes of kind %d", tid, (int)kind);
    return 0;
}
/* Coordinate of a node, less that of its chain's START. */
static inline uint64_t rec_coord(const struct ips_built *b, uint32_t node)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        const struct ips_chain *ch = &b->g.chains[c];
        if (node < ch->first || node >= ch->first + ch->count)
            continue;
        for (uint32_t i = ch->first; i <= node; i++)
            sum += b->g.w[i];
    }
    return sum;
}
static inline const struct ips_proc *rec_proc(const struct ips_built *b,
                                              uint32_t pid)
{
    for (uint32_t p = 0; p < b->proc_count; p++)
        if (b->procs[p].pid == pid)
            return &b->procs[p];
    fail_msg("no process %u", pid);
    return NULL;
}

#define assert_arc(b, node, from, kind_)                                       \
    do {                                                                       \
        assert_int_equal((b)->g.xpred[node], from);                            \
        assert_int_equal((b)->g.xkind[node], kind_);                           \
    } while (0)
#define assert_no_arc(b, node)                                                 \
    do {                                                                       \
        assert_int_equal((b)->g.xpred[node], IPS_NO_NODE);                     \
        assert_int_equal((b)->g.xkind[node], IPS_X_NONE);                      \
    } while (0)

struct rec_answer {
    uint64_t t_max, total;
};
static inline struct rec_answer rec_longest(const struct ips_built *b,
                                            uint64_t message_time_ns,
                                            enum ips_external external)
{
    struct ips_scenario lane = {.message_time = {.base_ns = message_time_ns,
                                                 .scale_num = 1,
                                                 .scale_den = 1},
                                .external = external};
    struct ips_est est;
    struct ips_err err = {0};
    if (ips_longest_path_compute_ests(&b->g, &lane, NULL, &est, &err) < 0)
        fail_msg("%s", err.msg);
    struct rec_answer a = {est.t_max, est.total};
    ips_est_release(&est);
    return a;
}

static inline void rec_dump(const struct ips_built *b)
{
    static const char *const kind[] = {"START", "SEND", "RECV", "FORK",
                                       "JOIN",  "END",  "AUX"};
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        const struct ips_chain *ch = &b->g.chains[c];
        printf("chain %u process %u pid %u tid %u thread %u\n", c, ch->process,
               ch->pid, ch->tid, ch->thread);
        for (uint32_t i = ch->first; i < ch->first + ch->count; i++)
            printf("  %4u %-5s w %llu t %llu site %d xpred %d kind %u len "
                   "%llu\n",
                   i, kind[b->g.kind[i]], (unsigned long long)b->g.w[i],
                   (unsigned long long)b->g.t_ns[i], (int)b->g.site[i],
                   (int)b->g.xpred[i], b->g.xkind[i],
                   (unsigned long long)b->g.xlen[i]);
    }
}

/* Built: a thread that computes from t0 on, sends 64 bytes at t0 + 100, sleeps
 * from t0 + 120 to t0 + 10120 with 10 ns of CPU and ends at t0 + 10200; 150 ns
 * of CPU in all. */
static inline struct recorder *rec_one_thread(uint64_t t0)
{
    struct recorder *r = rec_new();
    rs a = rec_stream(r, 10, 10, 100);
    rec_start(a, IPS_START_ROOT, t0, 0);
    rec_pipe(a, 1, t0, IPS_SIDE_WRITE, 5);
    rec_io(a, IPS_REC_SEND, 1, t0 + 100, t0 + 110, 100, 110, 64);
    rec_io(a, IPS_REC_BLOCK, 0, t0 + 120, t0 + 10120, 120, 130, 0)->op =
        IPS_OP_SLEEP;
    rec_end(a, IPS_END_EXIT, t0 + 10200, 150, 0);
    rec_build(r);
    return r;
}

#endif
