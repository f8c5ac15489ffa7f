/*
 * The engines over links that are really limited: every slave and the master a
 * process in a network namespace of its own, the namespaces joined by what
 * tests/bench/links.py has made (veth, a bridge, tbf). What is measured is the
 * master's clock from the first question to the path, connections made before.
 *
 *   bench_links NAMES NODES THREADS PATTERN ENGINES RATE [blocks]
 *
 * NAMES: of the namespaces, the slaves' first, with commas between (see
 * /run/netns); ENGINES: central, contract, cm-sync, cm-async, with commas;
 * RATE: bytes that a link lets pass in a us, as `auto` would be told.
 * Threads that talk to each other are on different slaves; with `blocks` as far
 * as can be on one. A line each: engine, ms, us of a round trip, values,
 * messages, bytes, bytes to and from the master, ms of CPU of all slaves and of
 * the master, links. Every engine's length of the path is that of the walk that
 * made the run, or the program ends.
 */
#include "tests/bench/native/links.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/graph/contract.h"
#include "master/path/engine_auto.h"

#define VALUES_A_FRAME 65536u
#define PINGS 20

const struct ips_scenario links_lane = {
    .message_time = {.scale_num = 1, .scale_den = 1}};

struct master {
    struct links_net net, *n;
    const struct synth *s;
    uint32_t slaves;
    struct ips_err err;
    struct ips_graph g[LINKS_HOSTS], merged;
    uint32_t base[LINKS_HOSTS];
    struct ips_est est;
    struct ips_path path;
    uint64_t values, links, t_max, taken_bytes;
    struct links_done done[LINKS_HOSTS];
};

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(struct master *m, int rc)
{
    if (rc < 0)
        links_die(m->err.msg);
}

static void say_all(struct master *m, enum links_kind kind, uint64_t a,
                    const void *data, size_t len)
{
    for (uint32_t i = 0; i < m->slaves; i++)
        links_send(m->n, i, kind, a, data, len);
}

static struct links_frame next(struct master *m)
{
    struct links_frame f;
    (void)links_next(m->n, true, &f);
    m->taken_bytes += LINKS_HEAD + f.len;
    return f;
}

static struct links_frame expect(struct master *m, enum links_kind kind)
{
    struct links_frame f = next(m);
    if (f.kind != kind)
        links_die("an answer to another question");
    return f;
}

/* ---- central, contract --------------------------------------------------- */

static void fetch(struct master *m)
{
    struct ips_wire_receiver taker[LINKS_HOSTS];
    struct ips_machine_graph parts[LINKS_HOSTS];
    uint64_t unmatched;
    for (uint32_t i = 0; i < m->slaves; i++)
        ips_wire_receiver_init(&taker[i], UINT32_MAX - 1, false);
    say_all(m, LINKS_SEND, 0, NULL, 0);
    for (uint32_t left = m->slaves; left > 0;) {
        struct links_frame f = expect(m, LINKS_PIECE);
        Ips__Subgraph *piece = ips__subgraph__unpack(NULL, f.len, f.data);
        if (!piece)
            links_die("a piece of a graph is none");
        must(m, ips_wire_append_received_piece(&taker[f.from], piece, &m->err));
        ips__subgraph__free_unpacked(piece, NULL);
        left -= f.a == 1;
    }
    for (uint32_t i = 0; i < m->slaves; i++) {
        links_graph(&taker[i], &m->g[i]);
        parts[i] = (struct ips_machine_graph){&m->g[i], m->s->peer[i],
                                              m->s->end_count[i]};
    }
    must(m, ips_graph_merge(parts, m->slaves, &links_lane, &m->merged, m->base,
                            &unmatched, &m->err));
    must(m, ips_longest_path_compute_ests(&m->merged, &links_lane, NULL,
                                          &m->est, &m->err));
    m->t_max = m->est.t_max;
}

static void central(struct master *m)
{
    uint32_t stop;
    fetch(m);
    must(m, ips_path_walk_back_and_store(&m->merged, &links_lane, &m->est,
                                         m->est.end, &m->path, &stop, &m->err));
}

/* All joins, each slave's as one string of bytes. */
static void fetch_joins(struct master *m, struct ips_machine_joins *parts)
{
    uint32_t left = m->slaves;
    say_all(m, LINKS_REDUCE, 0, NULL, 0);
    while (left > 0) {
        struct links_frame f = expect(m, LINKS_PIECE);
        struct ips_machine_joins *p = &parts[f.from];
        size_t len = p->len + f.len;
        uint8_t *all = realloc((void *)(uintptr_t)p->data, len + IPS_JOINS_PAD);
        if (!all)
            links_die("memory");
        if (f.len)
            memcpy(all + p->len, f.data, f.len);
        memset(all + len, 0, IPS_JOINS_PAD);
        *p = (struct ips_machine_joins){.data = all,
                                        .len = len,
                                        .nodes = m->s->part[f.from].node_count,
                                        .peer = m->s->peer[f.from],
                                        .end_count = m->s->end_count[f.from]};
        left -= f.a == 1;
    }
}

static void send_values(struct master *m, const struct ips_joined *j,
                        uint32_t part)
{
    size_t cap =
        (size_t)ips_joined_count_receives_of_machine(j, part) * 10 + 16;
    uint8_t *bytes = malloc(cap);
    uint64_t last = 0;
    uint32_t k = 0;
    if (!bytes)
        links_die("memory");
    size_t n = ips_joined_encode_receive_values(j, part, &k, &last, bytes, cap);
    links_send(m->n, part, LINKS_VALUES, 1, bytes, n);
    m->values += k;
    free(bytes);
}

/* Asks every slave for its visits; until all have told them. */
static void expand(struct master *m, const struct ips_joined *j)
{
    struct ips_path_section *visit;
    struct ips_cm_bytes ask[LINKS_HOSTS] = {{0}};
    uint64_t count;
    uint32_t asked = 0;
    must(m, ips_joined_list_path_sections(j, &visit, &count, &m->err));
    for (uint64_t i = 0; i < count; i++) {
        const struct ips_path_section *v = &visit[i];
        struct ips_cm_bytes *b = &ask[v->machine];
        bool begins = v->in == IPS_NO_NODE, ends = v->out == IPS_NO_NODE;
        ips_cm_append_varint(b, begins ? IPS_NO_NODE : 0);
        ips_cm_append_varint(b, begins ? 0 : (uint64_t)v->in + 1);
        ips_cm_append_varint(b, ends ? j->end_node : 0);
        ips_cm_append_varint(b, ends ? 0 : (uint64_t)v->out + 1);
    }
    free(visit);
    for (uint32_t i = 0; i < m->slaves; i++) {
        if (ask[i].len)
            links_send(m->n, i, LINKS_EXPAND, 0, ask[i].data, ask[i].len);
        asked += ask[i].len > 0;
        ips_cm_bytes_release(&ask[i]);
    }
    for (uint32_t i = 0; i < asked; i++)
        (void)expect(m, LINKS_WALKED);
}

static void contract(struct master *m)
{
    struct ips_machine_joins parts[LINKS_HOSTS] = {{0}};
    struct ips_joined j;
    uint64_t greatest = 0;
    uint32_t blame;
    fetch_joins(m, parts);
    must(m, ips_joined_decode_and_solve(parts, m->slaves, &links_lane, &j,
                                        &blame, &m->err));
    m->t_max = j.t_max;
    for (uint32_t i = 0; i < m->slaves; i++) {
        free((void *)(uintptr_t)parts[i].data);
        send_values(m, &j, i);
    }
    for (uint32_t i = 0; i < m->slaves; i++) {
        struct links_done d;
        memcpy(&d, expect(m, LINKS_DONE).data, sizeof(d));
        greatest = d.t_max > greatest ? d.t_max : greatest;
    }
    if (greatest != m->t_max)
        links_die("the slaves' longest path is not the master's");
    expand(m, &j);
    ips_joined_release(&j);
}

/* ---- cm ------------------------------------------------------------------ */

/* Until no value is on its way and nobody computes. */
static void await_rest(struct master *m, bool async)
{
    struct links_told told[LINKS_HOSTS];
    uint64_t unacked = m->slaves;
    memset(told, 0xff, sizeof(told));
    for (;;) {
        uint64_t sent = 0, taken = 0, unfinished = 0;
        struct links_frame f = next(m);
        if (async) {
            unacked -= f.kind == LINKS_ACK ? f.a : 0;
            if (unacked == 0)
                return;
            continue;
        }
        memcpy(&told[f.from], f.data, sizeof(told[0]));
        for (uint32_t i = 0; i < m->slaves; i++) {
            sent += told[i].sent;
            taken += told[i].taken;
            unfinished |= told[i].unfinished;
        }
        if (unfinished == 0 && sent == taken)
            return;
    }
}

/* One question a machine change. */
static void walk_back(struct master *m, uint32_t part, uint64_t node)
{
    struct links_walked w;
    links_send(m->n, part, LINKS_WALK, node, NULL, 0);
    for (;;) {
        memcpy(&w, expect(m, LINKS_WALKED).data, sizeof(w));
        if (!w.crosses)
            return;
        const uint8_t of = (uint8_t)part;
        part = w.part;
        links_send(m->n, part, LINKS_WALK, w.link, &of, 1);
    }
}

static void cm(struct master *m, bool async)
{
    const uint8_t word = async;
    uint32_t best = UINT32_MAX;
    say_all(m, LINKS_OPEN, 0, NULL, 0);
    for (uint32_t i = 0; i < m->slaves; i++)
        m->links += expect(m, LINKS_OPENED).a;
    say_all(m, LINKS_LANE, m->links, &word, 1);
    await_rest(m, async);
    say_all(m, LINKS_OVER, 0, NULL, 0);
    for (uint32_t i = 0; i < m->slaves; i++) {
        struct links_frame f = expect(m, LINKS_DONE);
        memcpy(&m->done[f.from], f.data, sizeof(m->done[0]));
    }
    for (uint32_t i = 0; i < m->slaves; i++) {
        m->values += m->done[i].values;
        if (m->done[i].end &&
            (best == UINT32_MAX || m->done[i].t_max > m->t_max))
            best = i;
        if (best == i)
            m->t_max = m->done[i].t_max;
    }
    walk_back(m, best, m->done[best].end - 1);
}

/* ---- all ----------------------------------------------------------------- */

static double round_trip(struct master *m)
{
    double least = 1;
    for (uint32_t i = 0; i < m->slaves; i++)
        (void)expect(m, LINKS_READY);
    for (int k = 0; k < PINGS; k++) {
        double begun = now_s(CLOCK_MONOTONIC);
        links_send(m->n, 0, LINKS_READY, 0, NULL, 0);
        (void)expect(m, LINKS_READY);
        double took = now_s(CLOCK_MONOTONIC) - begun;
        least = took < least ? took : least;
    }
    return least;
}

static uint32_t threads;
static uint64_t link_rate; /* bytes in a us */

static void run_master(const struct synth *s, const char *engine,
                       uint32_t slaves)
{
    struct master m = {.s = s, .slaves = slaves};
    m.n = &m.net;
    links_join(m.n, slaves, slaves + 1);
    double trip = round_trip(&m);
    uint64_t before = m.n->messages, bytes = m.n->bytes;
    m.taken_bytes = 0;
    double cpu = now_s(CLOCK_PROCESS_CPUTIME_ID);
    double begun = now_s(CLOCK_MONOTONIC);
    if (strcmp(engine, "central") == 0)
        central(&m);
    else if (strcmp(engine, "contract") == 0)
        contract(&m);
    else
        cm(&m, strcmp(engine, "cm-async") == 0);
    double took = now_s(CLOCK_MONOTONIC) - begun;
    cpu = now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (m.t_max != s->t_max)
        links_die("the path is not as long as the run's");
    uint64_t messages = m.n->messages - before, sent = m.n->bytes - bytes;
    uint64_t through = sent + m.taken_bytes, slave_cpu = 0;
    struct auto_estimates expected;
    uint64_t kept = 0, most;
    for (uint32_t i = 0; i < slaves; i++) {
        must(&m, ips_joins_compute_node_bound(&s->part[i], &most, &m.err));
        kept += most;
    }
    const struct auto_facts facts = {.machines = slaves,
                                     .join_bound = kept,
                                     .threads = threads,
                                     .crossing = s->crossing,
                                     .crossing_out = s->crossing,
                                     .round_trip_ns = (uint64_t)(trip * 1e9),
                                     .link_bytes_per_us = link_rate};
    engine_auto_estimate_engine_times(&facts, &expected);
    say_all(&m, LINKS_BYE, 0, NULL, 0);
    for (uint32_t i = 0; i < slaves; i++) {
        struct links_sent x;
        memcpy(&x, expect(&m, LINKS_SENT).data, sizeof(x));
        messages += x.messages - 1;
        sent += x.bytes - LINKS_HEAD;
        slave_cpu += x.cpu_ns;
    }
    printf("%s %.3f %.1f %llu %llu %llu %llu %.3f %.3f %llu %.3f %.3f\n",
           engine, took * 1e3, trip * 1e6, (unsigned long long)m.values,
           (unsigned long long)messages, (unsigned long long)sent,
           (unsigned long long)through, (double)slave_cpu * 1e-6, cpu * 1e3,
           (unsigned long long)s->crossing, (double)expected.contract_ns * 1e-6,
           (double)expected.cm_ns * 1e-6);
    fflush(stdout);
    links_leave(m.n);
}

static void enter(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "/run/netns/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        links_die(path);
    close(fd);
}

static void one_host(const struct synth *s, const char *engine, uint32_t self,
                     uint32_t slaves, const char *name)
{
    struct links_net n;
    enter(name);
    if (self == slaves) {
        run_master(s, engine, slaves);
        return;
    }
    links_join(&n, self, slaves + 1);
    links_slave(&n, s);
    links_leave(&n);
}

static bool run_engine(const struct synth *s, const char *engine, char **names,
                       uint32_t slaves)
{
    bool fine = true;
    for (uint32_t i = 0; i <= slaves; i++) {
        pid_t pid = fork();
        if (pid < 0)
            links_die("fork");
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            one_host(s, engine, i, slaves, names[i]);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i <= slaves; i++) {
        int status;
        fine = wait(&status) > 0 && status == 0 && fine;
    }
    return fine;
}

static uint32_t split(char *text, char **out, uint32_t most)
{
    uint32_t n = 0;
    for (char *word = strtok(text, ","); word && n < most;
         word = strtok(NULL, ","))
        out[n++] = word;
    return n;
}

int main(int argc, char **argv)
{
    char *names[LINKS_HOSTS], *engines[8];
    struct ips_err err = {0};
    struct synth s;
    uint32_t pattern = 0;
    if (argc != 7 && !(argc == 8 && strcmp(argv[7], "blocks") == 0)) {
        fprintf(stderr, "usage: bench_links NAMES NODES THREADS PATTERN "
                        "ENGINES RATE [blocks]\n");
        return 2;
    }
    uint32_t hosts = split(argv[1], names, LINKS_HOSTS);
    uint32_t wanted = split(argv[5], engines, 8);
    while (pattern < SYNTH_PATTERN_COUNT &&
           strcmp(argv[4], synth_pattern_names[pattern]) != 0)
        pattern++;
    if (hosts < 3 || pattern == SYNTH_PATTERN_COUNT) {
        fprintf(stderr, "bench_links: two slaves at least, and a pattern\n");
        return 2;
    }
    struct synth_options o = synth_default((enum synth_pattern)pattern);
    o.nodes = (uint32_t)strtoul(argv[2], NULL, 10);
    o.threads = threads = (uint32_t)strtoul(argv[3], NULL, 10);
    o.slaves = hosts - 1;
    o.cyclic = argc == 7;
    link_rate = strtoul(argv[6], NULL, 10);
    if (synth_graphs(&o, false, &s, &err) < 0)
        links_die(err.msg);
    bool fine = true;
    for (uint32_t e = 0; e < wanted && fine; e++)
        fine = run_engine(&s, engines[e], names, hosts - 1);
    synth_release(&s);
    return fine ? 0 : 1;
}
