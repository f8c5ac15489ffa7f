/* The run as graphs: two walks, one to count and one to fill in. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/native/synth_private.h"

struct counting {
    struct synth_ends *e;
    const struct synth_options *opt;
};

static void count_op(void *arg, const struct synth_op *op)
{
    struct counting *c = arg;
    struct synth_ends *e = c->e;
    e->nodes[op->thread]++;
    if (op->kind == SYNTH_SEND)
        e->sends[(size_t)op->thread * e->threads + op->peer]++;
    else if (op->kind == SYNTH_RECV)
        e->recvs[op->thread] += synth_slave_of(c->opt, op->thread) !=
                                synth_slave_of(c->opt, op->peer);
}

static void number_ends(struct synth_ends *e, const struct synth_options *opt)
{
    uint32_t n = e->threads;
    for (uint32_t a = 0; a < n; a++) {
        uint32_t m = synth_slave_of(opt, a);
        for (uint32_t b = 0; b < n; b++) {
            bool talks =
                e->sends[(size_t)a * n + b] || e->sends[(size_t)b * n + a];
            e->end_of[(size_t)a * n + b] =
                talks ? e->end_count[m]++ : IPS_NO_NODE;
        }
    }
}

int synth_ends_init(struct synth_ends *e, const struct synth_options *opt,
                    struct ips_err *err)
{
    size_t n = opt->threads;
    memset(e, 0, sizeof(*e));
    int rc = synth_check(opt, err);
    if (rc < 0)
        return rc;
    e->threads = opt->threads;
    e->slaves = opt->slaves;
    e->end_of = calloc(n * n, sizeof(*e->end_of));
    e->end_count = calloc(opt->slaves, sizeof(*e->end_count));
    e->nodes = calloc(n, sizeof(*e->nodes));
    e->recvs = calloc(n, sizeof(*e->recvs));
    e->sends = calloc(n * n, sizeof(*e->sends));
    if (!e->end_of || !e->end_count || !e->nodes || !e->recvs || !e->sends) {
        synth_ends_release(e);
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u threads", opt->threads);
    }
    struct counting c = {e, opt};
    rc = synth_walk(opt, count_op, &c, err);
    if (rc < 0)
        synth_ends_release(e);
    else
        number_ends(e, opt);
    return rc;
}

void synth_ends_release(struct synth_ends *e)
{
    free(e->end_of);
    free(e->end_count);
    free(e->nodes);
    free(e->recvs);
    free(e->sends);
    memset(e, 0, sizeof(*e));
}

struct filling {
    const struct synth_options *opt;
    struct synth_ends ends;
    struct synth *s;
    uint32_t *first;  /* [threads] first node in its slave's graph */
    uint32_t *slave;  /* [threads] */
    uint32_t *in_at;  /* [threads] its next remote in */
    uint32_t *out_at; /* [thread * threads + peer] the end's next remote out */
};

static void fill_op(void *arg, const struct synth_op *op)
{
    struct filling *f = arg;
    uint32_t a = op->thread, m = f->slave[a], at = f->first[a] + op->index;
    struct ips_graph *g = &f->s->part[m];
    g->w[at] = op->work_ns;
    g->t_ns[at] = op->kind == SYNTH_RECV ? op->t_ret : op->t;
    if (op->kind == SYNTH_START) {
        g->kind[at] = IPS_NODE_START;
        return;
    }
    if (op->kind == SYNTH_END) {
        g->kind[at] = IPS_NODE_END;
        f->s->t_max = op->est > f->s->t_max ? op->est : f->s->t_max;
        return;
    }
    size_t pair = (size_t)a * f->opt->threads + op->peer;
    uint32_t end = f->ends.end_of[pair];
    bool far = f->slave[op->peer] != m;
    g->site[at] = end;
    if (op->kind == SYNTH_SEND) {
        g->kind[at] = IPS_NODE_SEND;
        f->s->messages++;
        if (far)
            g->out[f->out_at[pair]++] =
                (struct ips_remote_out){at, end, op->pos, op->len};
        return;
    }
    g->kind[at] = IPS_NODE_RECV;
    g->xkind[at] = IPS_X_DATA;
    if (far) {
        f->s->crossing++;
        g->in[f->in_at[a]++] = (struct ips_remote_in){at, end, op->pos};
    } else {
        g->xpred[at] = f->first[op->peer] + op->from_index;
        g->xlen[at] = op->len;
    }
}

/* Chains, peers and the places of remote ins and outs of slave m. */
static int lay_out(struct filling *f, uint32_t m, struct ips_err *err)
{
    uint32_t n = f->opt->threads, nodes = 0, chains = 0, ins = 0, outs = 0;
    struct ips_graph *g = &f->s->part[m];
    for (uint32_t a = 0; a < n; a++) {
        if (f->slave[a] != m)
            continue;
        f->first[a] = nodes;
        f->in_at[a] = ins;
        nodes += f->ends.nodes[a];
        ins += f->ends.recvs[a];
        chains++;
        for (uint32_t b = 0; b < n; b++) {
            if (f->slave[b] == m)
                continue;
            f->out_at[(size_t)a * n + b] = outs;
            outs += f->ends.sends[(size_t)a * n + b];
        }
    }
    int rc = ips_graph_alloc(g, nodes, chains, err);
    if (rc < 0)
        return rc;
    g->in = calloc((size_t)ins + 1, sizeof(*g->in));
    g->out = calloc((size_t)outs + 1, sizeof(*g->out));
    f->s->end_count[m] = f->ends.end_count[m];
    f->s->peer[m] =
        calloc((size_t)f->s->end_count[m] + 1, sizeof(*f->s->peer[m]));
    if (!g->in || !g->out || !f->s->peer[m])
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u remote arcs", ins);
    g->in_count = ins;
    g->out_count = outs;
    for (uint32_t a = 0, c = 0; a < n; a++) {
        if (f->slave[a] != m)
            continue;
        g->chains[c] = (struct ips_chain){.first = f->first[a],
                                          .count = f->ends.nodes[a],
                                          .pid = SYNTH_PID(m),
                                          .tid = SYNTH_PID(m) + c,
                                          .thread = c};
        c++;
        for (uint32_t b = 0; b < n; b++) {
            uint32_t end = f->ends.end_of[(size_t)a * n + b];
            if (end == IPS_NO_NODE)
                continue;
            f->s->peer[m][end] = (struct ips_peer_end){
                f->slave[b] == m ? IPS_NO_NODE : f->slave[b],
                f->ends.end_of[(size_t)b * n + a]};
        }
    }
    return 0;
}

static int fill_alloc(struct filling *f, struct ips_err *err)
{
    size_t n = f->opt->threads, slaves = f->opt->slaves;
    f->first = calloc(n, sizeof(*f->first));
    f->slave = calloc(n, sizeof(*f->slave));
    f->in_at = calloc(n, sizeof(*f->in_at));
    f->out_at = calloc(n * n, sizeof(*f->out_at));
    f->s->part = calloc(slaves, sizeof(*f->s->part));
    f->s->peer = calloc(slaves, sizeof(*f->s->peer));
    f->s->end_count = calloc(slaves, sizeof(*f->s->end_count));
    f->s->base = calloc(slaves, sizeof(*f->s->base));
    if (!f->first || !f->slave || !f->in_at || !f->out_at || !f->s->part ||
        !f->s->peer || !f->s->end_count || !f->s->base)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u slaves", f->opt->slaves);
    f->s->slaves = f->opt->slaves;
    for (uint32_t a = 0; a < n; a++)
        f->slave[a] = synth_slave_of(f->opt, a);
    return 0;
}

static int merge(struct synth *s, struct ips_err *err)
{
    struct ips_machine_graph *parts = calloc(s->slaves, sizeof(*parts));
    if (!parts)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u slaves", s->slaves);
    uint64_t unmatched;
    static const struct ips_scenario cpu = {.message_time = {0, 0, 1, 1}};
    for (uint32_t m = 0; m < s->slaves; m++)
        parts[m] = (struct ips_machine_graph){&s->part[m], s->peer[m],
                                              s->end_count[m]};
    int rc = ips_graph_merge(parts, s->slaves, &cpu, &s->whole, s->base,
                             &unmatched, err);
    if (rc == 0 && unmatched)
        rc = ips_err_set(err, IPS_E_CORRUPT, "%llu messages without a sender",
                         (unsigned long long)unmatched);
    free(parts);
    return rc;
}

int synth_graphs(const struct synth_options *opt, bool whole, struct synth *out,
                 struct ips_err *err)
{
    struct filling f = {.opt = opt, .s = out};
    memset(out, 0, sizeof(*out));
    int rc = synth_ends_init(&f.ends, opt, err);
    if (rc < 0)
        return rc;
    rc = fill_alloc(&f, err);
    for (uint32_t m = 0; m < opt->slaves && rc == 0; m++)
        rc = lay_out(&f, m, err);
    if (rc == 0)
        rc = synth_walk(opt, fill_op, &f, err);
    if (rc == 0 && whole)
        rc = merge(out, err);
    synth_ends_release(&f.ends);
    free(f.first);
    free(f.slave);
    free(f.in_at);
    free(f.out_at);
    if (rc < 0)
        synth_release(out);
    return rc;
}

void synth_release(struct synth *s)
{
    for (uint32_t m = 0; m < s->slaves; m++) {
        ips_graph_release(&s->part[m]);
        free(s->peer[m]);
    }
    ips_graph_release(&s->whole);
    free(s->part);
    free(s->peer);
    free(s->end_count);
    free(s->base);
    memset(s, 0, sizeof(*s));
}
