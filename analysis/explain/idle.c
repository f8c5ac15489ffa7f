#include "analysis/explain/idle.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

/* What a thread does from `from` to `to`. */
struct span {
    uint64_t from, to;
    bool waits;
    uint32_t cause;
    uint64_t cpu, delay; /* of an active one; the rest is unknown */
};

/* A chain, told span by span. */
struct teller {
    uint32_t first, end; /* nodes */
    uint32_t node;       /* the arc at hand goes into it */
    uint64_t wait;       /* of that arc, the next to be told */
    uint64_t told;       /* the clock up to which it is told */
    struct ips_arc_time arc;
    uint64_t gone; /* of arc.length */
    bool begun;
    struct span now;
};

/* Rates are in 2^-32 of a core. */
struct sweep {
    const struct ips_waits *w;
    struct teller *teller;
    uint32_t *heap; /* tellers by now.to */
    uint32_t count, left, begun;
    uint64_t cpu_rate, delay_rate, off_rate;
    uint64_t cpu_rest, delay_rest, off_rest; /* 2^-32 ns not yet given out */
    uint64_t backlog;                        /* ns */
    uint32_t waiting[IPS_IDLE_CAUSES], all_waiting, spinners;
    uint32_t spinning, cores;
    uint64_t from, to;
    struct ips_idle *out;
};

/* ---- one chain ---------------------------------------------------------- */

static void begin_arc(const struct sweep *s, struct teller *t)
{
    t->wait = s->w->first[t->node];
    t->arc = ips_waits_arc(s->w, t->node);
    t->gone = 0;
}

/* Active up to `to`. */
static void tell_active(struct teller *t, uint64_t to)
{
    const struct ips_arc_time *a = &t->arc;
    uint64_t before = t->gone;
    t->gone += to - t->told;
    t->now = (struct span){.from = t->told, .to = to};
    t->now.cpu = (uint64_t)((ips_u128)a->cpu * t->gone / a->length -
                            (ips_u128)a->cpu * before / a->length);
    t->now.delay =
        (uint64_t)((ips_u128)(a->cpu + a->delay) * t->gone / a->length -
                   (ips_u128)(a->cpu + a->delay) * before / a->length) -
        t->now.cpu;
    t->told = to;
}

static void tell_wait(struct teller *t, uint64_t to, uint32_t cause)
{
    t->now = (struct span){
        .from = t->told,
        .to = to,
        .waits = true,
        .cause = cause < IPS_IDLE_NO_CAUSE ? cause : IPS_IDLE_NO_CAUSE};
    t->told = to;
}

/* Of the arc's own sleep: the part of one of its waits. */
static void tell_asleep(const struct sweep *s, struct teller *t)
{
    const struct ips_waits *w = s->w;
    uint64_t to = w->at[t->node];
    uint32_t cause = IPS_WAITS_NO_CAUSE;
    for (uint64_t k = w->first[t->node]; k < w->first[t->node + 1]; k++) {
        const struct ips_wait *x = &w->wait[k];
        if (!x->of_node || x->to <= t->told)
            continue;
        if (x->from <= t->told) {
            to = x->to;
            cause = x->cause;
        } else {
            to = x->from; /* nobody's, up to the first of them */
        }
        break;
    }
    tell_wait(t, to, cause);
}

/* The next span that is longer than nothing. False: the chain is over. */
static bool tell(const struct sweep *s, struct teller *t)
{
    const struct ips_waits *w = s->w;
    for (;;) {
        if (t->told >= w->at[t->node]) {
            if (t->node + 1 == t->end)
                return false;
            t->node++;
            begin_arc(s, t);
            continue;
        }
        uint64_t asleep = ips_waits_asleep(w, t->node);
        if (t->told >= asleep) {
            tell_asleep(s, t);
            return true;
        }
        uint64_t end = w->first[t->node + 1];
        while (t->wait < end &&
               (w->wait[t->wait].of_node || w->wait[t->wait].to <= t->told))
            t->wait++;
        const struct ips_wait *x = t->wait < end ? &w->wait[t->wait] : NULL;
        if (x && x->from <= t->told)
            tell_wait(t, x->to, x->cause);
        else
            tell_active(t, x ? x->from : asleep);
        return true;
    }
}

/* ---- all of them -------------------------------------------------------- */

static uint64_t rate(uint64_t ns, uint64_t length)
{
    return (uint64_t)(((ips_u128)ns << 32) / length);
}

/* What rates leave of a span when it is over, in 2^-32 ns. */
static uint64_t rest(uint64_t ns, uint64_t length)
{
    return (uint64_t)(((ips_u128)ns << 32) % length);
}

static void enter(struct sweep *s, const struct span *x)
{
    uint64_t length = x->to - x->from;
    if (x->waits && (s->spinning >> x->cause & 1)) {
        s->spinners++;
    } else if (x->waits) {
        s->waiting[x->cause]++;
        s->all_waiting++;
    } else {
        s->cpu_rate += rate(x->cpu, length);
        s->delay_rate += rate(x->delay, length);
        s->off_rate += rate(length - x->cpu - x->delay, length);
    }
}

static void leave(struct sweep *s, const struct span *x)
{
    uint64_t length = x->to - x->from;
    if (x->waits && (s->spinning >> x->cause & 1)) {
        s->spinners--;
        return;
    }
    if (x->waits) {
        s->waiting[x->cause]--;
        s->all_waiting--;
        return;
    }
    uint64_t off = length - x->cpu - x->delay;
    s->cpu_rate -= rate(x->cpu, length);
    s->delay_rate -= rate(x->delay, length);
    s->off_rate -= rate(off, length);
    if (x->from < s->from || x->to > s->to)
        return;
    s->cpu_rest += rest(x->cpu, length);
    s->delay_rest += rest(x->delay, length);
    s->off_rest += rest(off, length);
}

/* ns of `length` at a rate. */
static uint64_t accrue(uint64_t per, uint64_t length, uint64_t *left)
{
    ips_u128 sum = (ips_u128)per * length + *left;
    *left = (uint64_t)(sum & UINT32_MAX);
    return (uint64_t)(sum >> 32);
}

static uint64_t take(uint64_t *room, uint64_t ns)
{
    uint64_t got = ips_min_u64(*room, ns);
    *room -= got;
    return got;
}

/* `room` over the causes of those who wait: the k-th of all has its share by
 * where it stands, so that the shares add up. */
static void split(struct sweep *s, uint64_t room)
{
    uint64_t before = 0, gone = 0;
    for (uint32_t c = 0; c < IPS_IDLE_CAUSES; c++) {
        before += s->waiting[c];
        uint64_t up_to = (uint64_t)((ips_u128)room * before / s->all_waiting);
        s->out->cause[c] += up_to - gone;
        gone = up_to;
    }
}

/* From a to b nothing changes. */
static void account(struct sweep *s, uint64_t a, uint64_t b)
{
    struct ips_idle *o = s->out;
    a = ips_max_u64(a, s->from);
    b = ips_min_u64(b, s->to);
    if (a >= b)
        return;
    uint64_t length = b - a, room = s->cores * length;
    s->backlog += accrue(s->cpu_rate, length, &s->cpu_rest);
    uint64_t running = take(&room, s->backlog);
    s->backlog -= running;
    o->running += running;
    o->spun += take(&room, s->spinners * length);
    o->others += take(&room, accrue(s->delay_rate, length, &s->delay_rest));
    o->unknown += take(&room, accrue(s->off_rate, length, &s->off_rest));
    if (s->begun == 0)
        o->before += room;
    else if (s->left == 0)
        o->after += room;
    else if (s->all_waiting == 0)
        o->nobody += room;
    else
        split(s, room);
}

/* ---- the heap ----------------------------------------------------------- */

static bool sooner(const struct sweep *s, uint32_t a, uint32_t b)
{
    const struct teller *x = &s->teller[s->heap[a]],
                        *y = &s->teller[s->heap[b]];
    if (x->now.to != y->now.to)
        return x->now.to < y->now.to;
    return s->heap[a] < s->heap[b];
}

static void sink(struct sweep *s, uint32_t at)
{
    for (;;) {
        uint32_t least = at, l = 2 * at + 1, r = l + 1;
        if (l < s->left && sooner(s, l, least))
            least = l;
        if (r < s->left && sooner(s, r, least))
            least = r;
        if (least == at)
            return;
        uint32_t swap = s->heap[at];
        s->heap[at] = s->heap[least];
        s->heap[least] = swap;
        at = least;
    }
}

static void run(struct sweep *s)
{
    uint64_t t = 0;
    while (s->left) {
        struct teller *x = &s->teller[s->heap[0]];
        account(s, t, x->now.to);
        t = ips_max_u64(t, x->now.to);
        if (x->begun)
            leave(s, &x->now);
        else
            s->begun++;
        x->begun = true;
        if (tell(s, x))
            enter(s, &x->now);
        else
            s->heap[0] = s->heap[--s->left];
        sink(s, 0);
    }
    account(s, t, UINT64_MAX);
}

int ips_idle_make(const struct ips_waits *w, uint32_t machine, uint32_t cores,
                  uint64_t from, uint64_t to, uint32_t spinning,
                  struct ips_idle *out, struct ips_err *err)
{
    const struct ips_graph *g = w->g;
    struct sweep s = {.w = w,
                      .spinning = spinning,
                      .cores = cores,
                      .from = from,
                      .to = to,
                      .out = out};
    memset(out, 0, sizeof(*out));
    if (to > from && cores && to - from > (UINT64_MAX >> 1) / cores)
        return ips_err_set(err, IPS_E_LIMIT, "%u cores for %llu ns", cores,
                           (unsigned long long)(to - from));
    s.teller = calloc((size_t)g->chain_count + 1, sizeof(*s.teller));
    s.heap = calloc((size_t)g->chain_count + 1, sizeof(*s.heap));
    if (!s.teller || !s.heap) {
        free(s.teller);
        free(s.heap);
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for idle time");
    }
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *ch = &g->chains[c];
        if (ch->machine != machine || ch->count == 0)
            continue;
        struct teller *t = &s.teller[s.count];
        t->first = t->node = ch->first;
        t->end = ch->first + ch->count;
        t->told = w->at[ch->first];
        t->now = (struct span){.to = t->told}; /* until it begins */
        s.heap[s.count] = s.count;
        s.count++;
    }
    s.left = s.count;
    for (uint32_t i = s.count / 2; i-- > 0;)
        sink(&s, i);
    run(&s);
    out->over = s.backlog;
    free(s.teller);
    free(s.heap);
    return 0;
}
