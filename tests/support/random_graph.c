#include "tests/support/random_graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/replay.h"

/* A node as the simulation makes it; numbers are in order of making, so a
 * cross predecessor is always an earlier one: no cycle can come out. */
struct node {
    uint32_t chain;
    uint32_t index; /* final number in `whole` */
    uint8_t kind, xkind;
    bool remote; /* xpred is on another machine, or nowhere */
    uint64_t w, xlen;
    uint32_t xpred; /* by making; IPS_NO_NODE */
    uint32_t in_end;
    uint64_t in_pos;
    uint32_t out_end; /* IPS_NO_NODE: nothing remote awaits it */
    uint64_t out_pos;
    uint32_t out_len;
};
struct chain {
    uint32_t machine, process, thread, end_node, parent;
    bool alive, joined;
};
struct message {
    uint64_t pos;
    uint32_t node, len;
};
struct channel {
    uint32_t from, to;         /* chains */
    uint32_t from_end, to_end; /* IPS_NO_NODE: local */
    uint64_t sent, read;       /* bytes */
    struct message *message;
    uint32_t message_count;
    uint32_t syn, eof; /* nodes, IPS_NO_NODE none */
    uint32_t last_read;
    bool accepted, eof_read;
};
struct sim {
    uint64_t rng;
    const struct rg_options *opt;
    struct node *node;
    uint32_t node_count;
    struct chain *chain;
    uint32_t chain_count;
    struct channel *channel;
    uint32_t channel_count;
    uint32_t processes[RG_MACHINES];
    struct rg *out;
};

uint64_t rg_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

uint32_t rg_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)(rg_random(state) % limit);
}

static void *grow(void *array, uint32_t count, size_t size)
{
    if ((count & (count - 1)) == 0) /* room doubles at powers of two */
        array = realloc(array, (count ? (size_t)count * 2 : 1) * size);
    if (!array)
        abort();
    return array;
}

static uint32_t add_node(struct sim *s, uint32_t chain, uint8_t kind,
                         uint64_t w)
{
    s->node = grow(s->node, s->node_count, sizeof(*s->node));
    s->node[s->node_count] = (struct node){
        .chain = chain,
        .kind = kind,
        .w = w,
        .xpred = IPS_NO_NODE,
        .out_end = IPS_NO_NODE,
    };
    return s->node_count++;
}

static uint64_t weight(struct sim *s)
{
    if (s->opt->weight_max == 0 || rg_below(&s->rng, 4) == 0)
        return 0;
    return rg_below(&s->rng, s->opt->weight_max + 1);
}

static uint32_t add_chain(struct sim *s, uint32_t machine, uint32_t process,
                          uint32_t thread, uint32_t parent, uint32_t fork)
{
    s->chain = grow(s->chain, s->chain_count, sizeof(*s->chain));
    s->chain[s->chain_count] = (struct chain){.machine = machine,
                                              .process = process,
                                              .thread = thread,
                                              .parent = parent,
                                              .alive = true,
                                              .end_node = IPS_NO_NODE};
    uint32_t start = add_node(s, s->chain_count, IPS_NODE_START, 0);
    if (fork != IPS_NO_NODE) {
        s->node[start].xkind = IPS_X_LIFETIME;
        s->node[start].xpred = fork;
    }
    return s->chain_count++;
}

static uint32_t live_chain(struct sim *s)
{
    uint32_t c = rg_below(&s->rng, s->chain_count);
    while (!s->chain[c].alive)
        c = c + 1 == s->chain_count ? 0 : c + 1;
    return c;
}

static void set_out(struct sim *s, const struct channel *ch, uint32_t node,
                    uint64_t pos, uint32_t len)
{
    if (ch->from_end == IPS_NO_NODE)
        return;
    s->node[node].out_end = ch->from_end;
    s->node[node].out_pos = pos;
    s->node[node].out_len = len;
}

static void set_in(struct sim *s, const struct channel *ch, uint32_t node,
                   uint8_t xkind, uint32_t from, uint64_t len, uint64_t pos)
{
    s->node[node].xkind = xkind;
    s->node[node].xpred = from;
    s->node[node].xlen = len;
    if (ch->from_end != IPS_NO_NODE) {
        s->node[node].remote = true;
        s->node[node].in_end = ch->to_end;
        s->node[node].in_pos = pos;
    }
}

static uint32_t new_end(struct sim *s, uint32_t machine)
{
    struct rg *r = s->out;
    r->peer[machine] = grow(r->peer[machine], r->end_count[machine],
                            sizeof(*r->peer[machine]));
    r->peer[machine][r->end_count[machine]] =
        (struct ips_peer_end){UINT32_MAX, 0};
    return r->end_count[machine]++;
}

static struct channel *open_channel(struct sim *s, uint32_t from)
{
    uint32_t to = live_chain(s);
    if (to == from)
        return NULL;
    s->channel = grow(s->channel, s->channel_count, sizeof(*s->channel));
    struct channel *ch = &s->channel[s->channel_count++];
    *ch = (struct channel){.from = from,
                           .to = to,
                           .from_end = IPS_NO_NODE,
                           .to_end = IPS_NO_NODE,
                           .syn = IPS_NO_NODE,
                           .eof = IPS_NO_NODE,
                           .last_read = IPS_NO_NODE,
                           .accepted = true};
    uint32_t a = s->chain[from].machine, b = s->chain[to].machine;
    if (a != b) {
        ch->from_end = new_end(s, a);
        ch->to_end = new_end(s, b);
        s->out->peer[a][ch->from_end] = (struct ips_peer_end){b, ch->to_end};
        s->out->peer[b][ch->to_end] = (struct ips_peer_end){a, ch->from_end};
    }
    if (rg_below(&s->rng, 2)) { /* with a connect */
        ch->syn = add_node(s, from, IPS_NODE_SEND, weight(s));
        ch->accepted = false;
        set_out(s, ch, ch->syn, IPS_POS_SYN, 0);
    }
    return ch;
}

static void op_send(struct sim *s, uint32_t c)
{
    struct channel *ch = NULL;
    for (uint32_t tries = 0; tries < 8 && s->channel_count; tries++) {
        struct channel *any = &s->channel[rg_below(&s->rng, s->channel_count)];
        if (any->from == c && any->eof == IPS_NO_NODE)
            ch = any;
    }
    if (!ch)
        ch = open_channel(s, c);
    if (!ch)
        return;
    uint32_t len = 1 + rg_below(&s->rng, 100);
    uint32_t n = add_node(s, c, IPS_NODE_SEND, weight(s));
    ch->sent += len;
    set_out(s, ch, n, ch->sent, len);
    ch->message = grow(ch->message, ch->message_count, sizeof(*ch->message));
    ch->message[ch->message_count++] = (struct message){ch->sent, n, len};
    if (ch->from_end == IPS_NO_NODE && ch->last_read != IPS_NO_NODE &&
        rg_below(&s->rng, 4) == 0) { /* it was blocked until that receive */
        uint32_t aux = add_node(s, c, IPS_NODE_AUX, weight(s));
        s->node[aux].xkind = IPS_X_ROOM;
        s->node[aux].xpred = ch->last_read;
    }
}

static void receive(struct sim *s, struct channel *ch)
{
    if (!ch->accepted) {
        uint32_t n = add_node(s, ch->to, IPS_NODE_RECV, weight(s));
        set_in(s, ch, n, IPS_X_DATA, ch->syn, 0, IPS_POS_SYN);
        ch->accepted = true;
    } else if (ch->read < ch->sent) {
        uint64_t most = ch->sent - ch->read;
        uint32_t k = 0;
        ch->read += 1 + rg_random(&s->rng) % most;
        while (ch->message[k].pos < ch->read)
            k++;
        uint32_t n = add_node(s, ch->to, IPS_NODE_RECV, weight(s));
        set_in(s, ch, n, IPS_X_DATA, ch->message[k].node, ch->message[k].len,
               ch->read);
        ch->last_read = n;
    } else if (ch->eof != IPS_NO_NODE && !ch->eof_read) {
        uint32_t n = add_node(s, ch->to, IPS_NODE_RECV, weight(s));
        set_in(s, ch, n, IPS_X_LIFETIME, ch->eof, 0, IPS_POS_EOF);
        ch->eof_read = true;
    }
}

static void op_receive(struct sim *s, uint32_t c)
{
    for (uint32_t tries = 0; tries < 16 && s->channel_count; tries++) {
        struct channel *ch = &s->channel[rg_below(&s->rng, s->channel_count)];
        if (ch->to == c) {
            receive(s, ch);
            return;
        }
    }
}

static void op_close(struct sim *s, uint32_t c)
{
    for (uint32_t i = 0; i < s->channel_count; i++) {
        struct channel *ch = &s->channel[i];
        if (ch->from == c && ch->eof == IPS_NO_NODE) {
            ch->eof = add_node(s, c, IPS_NODE_AUX, weight(s));
            set_out(s, ch, ch->eof, IPS_POS_EOF, 0);
            return;
        }
    }
}

static void op_fork(struct sim *s, uint32_t c)
{
    uint32_t machine = s->chain[c].machine, thread = 0;
    uint32_t process = s->chain[c].process;
    uint32_t fork = add_node(s, c, IPS_NODE_FORK, weight(s));
    if (rg_below(&s->rng, 2)) {
        process = s->processes[machine]++;
    } else {
        for (uint32_t i = 0; i < s->chain_count; i++)
            thread += s->chain[i].machine == machine &&
                      s->chain[i].process == process;
    }
    add_chain(s, machine, process, thread, c, fork);
}

static void op_join(struct sim *s, uint32_t c)
{
    for (uint32_t i = 0; i < s->chain_count; i++) {
        struct chain *child = &s->chain[i];
        if (child->parent != c || child->alive || child->joined)
            continue;
        uint32_t n = add_node(s, c, IPS_NODE_JOIN, weight(s));
        s->node[n].xkind = IPS_X_LIFETIME;
        s->node[n].xpred = child->end_node;
        child->joined = true;
        return;
    }
}

static void op_end(struct sim *s, uint32_t c)
{
    s->chain[c].alive = false;
    s->chain[c].end_node = add_node(s, c, IPS_NODE_END, weight(s));
}

static void op_external(struct sim *s, uint32_t c)
{
    if (!s->opt->external)
        return;
    uint32_t from = add_node(s, c, IPS_NODE_SEND, weight(s));
    while (rg_below(&s->rng, 2))
        add_node(s, c, IPS_NODE_AUX, weight(s));
    uint32_t to = add_node(s, c, IPS_NODE_RECV, weight(s));
    s->node[to].xkind = rg_below(&s->rng, 2) ? IPS_X_EXTERNAL : IPS_X_IDLE;
    s->node[to].xpred = from;
    s->node[to].xlen = rg_below(&s->rng, 2 * s->opt->weight_max + 1);
}

/* A lock handed on, or a signal, from another chain of the machine. */
static void op_resource(struct sim *s, uint32_t c)
{
    uint32_t from = live_chain(s);
    if (from == c || s->chain[from].machine != s->chain[c].machine)
        return;
    uint32_t release = add_node(s, from, IPS_NODE_AUX, weight(s));
    uint32_t acquire = add_node(s, c, IPS_NODE_AUX, weight(s));
    s->node[acquire].xkind =
        rg_below(&s->rng, 4) ? IPS_X_RESOURCE : IPS_X_SIGNAL;
    s->node[acquire].xpred = release;
}

static void op_unmatched(struct sim *s, uint32_t c)
{
    if (!s->opt->unmatched || s->opt->machines < 2)
        return;
    uint32_t n = add_node(s, c, IPS_NODE_RECV, weight(s));
    s->node[n].xkind = IPS_X_DATA;
    s->node[n].remote = true;
    s->node[n].in_end = new_end(s, s->chain[c].machine);
    s->node[n].in_pos = 1 + rg_below(&s->rng, 3);
    s->out->unmatched++;
    /* Half of them: a real channel, but beyond what was written. */
    for (uint32_t i = 0; i < s->channel_count && rg_below(&s->rng, 2); i++) {
        struct channel *ch = &s->channel[i];
        if (ch->to == c && ch->to_end != IPS_NO_NODE &&
            ch->eof != IPS_NO_NODE) {
            s->node[n].in_end = ch->to_end;
            s->node[n].in_pos = ch->sent + 1;
            break;
        }
    }
}

static void simulate(struct sim *s)
{
    const struct rg_options *opt = s->opt;
    for (uint32_t i = 0; i < opt->chains; i++) {
        uint32_t m = i < opt->machines ? i : rg_below(&s->rng, opt->machines);
        add_chain(s, m, s->processes[m]++, 0, IPS_NO_NODE, IPS_NO_NODE);
    }
    for (uint32_t step = 0; step < opt->steps; step++) {
        uint32_t c = live_chain(s), what = rg_below(&s->rng, 100);
        if (what < 33)
            op_send(s, c);
        else if (what < 73)
            op_receive(s, c);
        else if (what < 78)
            op_resource(s, c);
        else if (what < 82)
            op_close(s, c);
        else if (what < 86)
            op_fork(s, c);
        else if (what < 90)
            op_join(s, c);
        else if (what < 92 && c > 0)
            op_end(s, c); /* chain 0 lives on: somebody always does */
        else if (what < 96)
            op_external(s, c);
        else if (what < 97)
            op_unmatched(s, c);
        else
            add_node(s, c, IPS_NODE_AUX, weight(s));
    }
    for (uint32_t c = 0; c < s->chain_count; c++) {
        if (s->chain[c].alive)
            op_end(s, c);
    }
}

/* ---- laying it out as graphs ----------------------------------------- */

static const struct sim *sorting;
static int by_place(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct chain *p = &sorting->chain[x], *q = &sorting->chain[y];
    if (p->machine != q->machine)
        return p->machine < q->machine ? -1 : 1;
    if (p->process != q->process)
        return p->process < q->process ? -1 : 1;
    return (p->thread > q->thread) - (p->thread < q->thread);
}

static int by_end_pos(const void *a, const void *b)
{
    const struct ips_remote_out *p = a, *q = b;
    if (p->end != q->end)
        return p->end < q->end ? -1 : 1;
    return (p->pos > q->pos) - (p->pos < q->pos);
}

static void fill_node(const struct sim *s, const struct node *n, bool whole,
                      struct ips_graph *g, uint32_t at, uint32_t base)
{
    bool found = n->xpred != IPS_NO_NODE;
    g->kind[at] = n->kind;
    g->w[at] = n->w;
    g->t_ns[at] = n->index; /* any: it must survive the merge */
    g->site[at] = n->remote ? n->in_end : n->out_end;
    if (whole ? found : (found && !n->remote))
        g->xpred[at] = s->node[n->xpred].index - base;
    if (whole && n->remote && !found)
        return; /* unmatched: no arc */
    g->xkind[at] = n->xkind;
    g->xlen[at] = !whole && n->remote ? 0 : n->xlen;
}

static void fill_remote(const struct node *n, struct ips_graph *g, uint32_t at)
{
    if (n->remote)
        g->in[g->in_count++] = (struct ips_remote_in){at, n->in_end, n->in_pos};
    if (n->out_end != IPS_NO_NODE)
        g->out[g->out_count++] =
            (struct ips_remote_out){at, n->out_end, n->out_pos, n->out_len};
}

static void must(int rc)
{
    if (rc < 0)
        abort();
}

static void lay_out(struct sim *s)
{
    struct rg *r = s->out;
    uint32_t *order = calloc(s->chain_count, sizeof(*order));
    uint32_t *length = calloc(s->chain_count, sizeof(*length));
    uint32_t *first = calloc(s->chain_count, sizeof(*first));
    uint32_t *place = calloc(s->chain_count, sizeof(*place));
    uint32_t nodes[RG_MACHINES] = {0}, chains[RG_MACHINES] = {0};
    if (!order || !length || !first || !place)
        abort();
    for (uint32_t c = 0; c < s->chain_count; c++) {
        order[c] = c;
        chains[s->chain[c].machine]++;
    }
    for (uint32_t i = 0; i < s->node_count; i++) {
        s->node[i].index = length[s->node[i].chain]++;
        nodes[s->chain[s->node[i].chain].machine]++;
    }
    sorting = s;
    qsort(order, s->chain_count, sizeof(*order), by_place);
    must(ips_graph_alloc(&r->whole, s->node_count, s->chain_count, NULL));
    for (uint32_t m = 0, base = 0; m < r->machines; m++) {
        r->base[m] = base;
        base += nodes[m];
        must(ips_graph_alloc(&r->part[m], nodes[m], chains[m], NULL));
        r->part[m].in = calloc(nodes[m] + 1, sizeof(*r->part[m].in));
        r->part[m].out = calloc(nodes[m] + 1, sizeof(*r->part[m].out));
        if (!r->part[m].in || !r->part[m].out)
            abort();
        chains[m] = 0; /* from here: how many are laid out */
    }
    for (uint32_t k = 0, at = 0; k < s->chain_count; k++) {
        const struct chain *c = &s->chain[order[k]];
        uint32_t m = c->machine;
        struct ips_chain to = {.first = at,
                               .count = length[order[k]],
                               .machine = m,
                               .process = c->process,
                               .pid = 1000 + c->process,
                               .tid = 1000 + 100 * c->process + c->thread,
                               .thread = c->thread};
        first[order[k]] = at;
        at += to.count;
        r->whole.chains[k] = to;
        to.first -= r->base[m];
        to.machine = 0; /* a slave does not know */
        r->part[m].chains[chains[m]++] = to;
    }
    for (uint32_t i = 0; i < s->node_count; i++)
        s->node[i].index += first[s->node[i].chain];
    uint32_t *by_index = calloc(s->node_count, sizeof(*by_index));
    if (!by_index)
        abort();
    for (uint32_t i = 0; i < s->node_count; i++)
        by_index[s->node[i].index] = i;
    for (uint32_t i = 0; i < s->node_count; i++) {
        const struct node *n = &s->node[by_index[i]];
        uint32_t m = s->chain[n->chain].machine;
        fill_node(s, n, true, &r->whole, i, 0);
        fill_node(s, n, false, &r->part[m], i - r->base[m], r->base[m]);
        fill_remote(n, &r->part[m], i - r->base[m]);
    }
    for (uint32_t m = 0; m < r->machines; m++)
        qsort(r->part[m].out, r->part[m].out_count, sizeof(*r->part[m].out),
              by_end_pos);
    free(by_index);
    free(order);
    free(length);
    free(first);
    free(place);
}

void rg_make(const struct rg_options *opt, struct rg *out)
{
    memset(out, 0, sizeof(*out));
    out->machines = opt->machines;
    struct sim s = {.rng = opt->seed, .opt = opt, .out = out};
    simulate(&s);
    lay_out(&s);
    for (uint32_t i = 0; i < s.channel_count; i++)
        free(s.channel[i].message);
    free(s.channel);
    free(s.chain);
    free(s.node);
}

void rg_release(struct rg *r)
{
    ips_graph_release(&r->whole);
    for (uint32_t m = 0; m < r->machines; m++) {
        ips_graph_release(&r->part[m]);
        free(r->peer[m]);
    }
    memset(r, 0, sizeof(*r));
}

struct rg_options rg_options_of(uint64_t seed)
{
    uint64_t s = seed * 77 + 1;
    static const uint32_t weights[] = {1, 3, 10, 1000, 100000000};
    return (struct rg_options){
        .seed = seed,
        .machines = 1 + rg_below(&s, RG_MACHINES),
        .chains = 1 + rg_below(&s, 8),
        .steps = 5 + rg_below(&s, 300),
        .weight_max = weights[rg_below(&s, 5)],
        .external = rg_below(&s, 2),
        .unmatched = rg_below(&s, 3) == 0,
    };
}

int rg_main(int argc, char **argv, const char *name,
            int (*one)(uint64_t seed, struct ips_err *err))
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s FIRST COUNT\n", name);
        return 2;
    }
    uint64_t first = strtoull(argv[1], NULL, 10);
    uint64_t count = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct ips_err err = {0};
        if (one(seed, &err) < 0) {
            fprintf(stderr, "%s: seed %" PRIu64 ": %s\n", name, seed, err.msg);
            return 1;
        }
    }
    return 0;
}

void rg_print_ends(const struct ips_replay *r, uint32_t chains)
{
    printf("\"ends\": [");
    for (uint32_t c = 0; c < chains; c++)
        printf("%s%" PRIu64, c ? ", " : "", r->chain[c].end_ns);
    printf("], \"makespan\": %" PRIu64 "}\n", r->makespan_ns);
}
