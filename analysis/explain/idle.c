#include "analysis/explain/idle.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

/* A period from `from` to `to` in which a thread waits, or is active. */
struct span {
    uint64_t from, to;
    bool waits;
    uint32_t cause;
    /* ns of CPU time and run delay in an active span; the rest of the span is
     * off the CPU for an unknown reason */
    uint64_t cpu, delay;
};

/* State of an iteration over one chain, span by span. A span is "reported" when
 * the iteration has returned it. */
struct span_iterator {
    uint32_t first, end;  /* first node of the chain; one past its last node */
    uint32_t node;        /* the current arc is the arc into this node */
    uint64_t wait;        /* index of the arc's next wait to report */
    uint64_t reported_ns; /* everything up to this moment is reported */
    struct ips_arc_time arc;
    uint64_t gone; /* reported part of arc.length (active time), ns */
    bool begun;
    struct span now;
};

/* Sums over all chains at one moment. Each rate says how many threads, on
 * average, compute (cpu), wait for a core (delay) or are off the CPU for an
 * unknown reason (off), in units of 2^-32 thread. */
struct sweep {
    const struct ips_waits *w;
    struct span_iterator *teller;
    uint32_t *heap; /* heap of indices into `teller`, by the end of the current
                       span */
    uint32_t count, left, begun;
    uint64_t cpu_rate, delay_rate, off_rate;
    uint64_t cpu_rest, delay_rest, off_rest; /* fractions of a ns not yet
                                                accounted for, in 2^-32 ns */
    uint64_t backlog; /* CPU time (ns) that still waits for a free core */
    uint32_t waiting[IPS_IDLE_CAUSES], all_waiting, spinners;
    uint32_t spinning, cores;
    uint64_t from, to;
    struct ips_idle *out;
};

/* ---- iterating over the spans of a chain -------------------------------- */

static void init_iterator_at_arc(const struct sweep *s, struct span_iterator *t)
{
    t->wait = s->w->first[t->node];
    t->arc = ips_waits_active_time_of_arc(s->w, t->node);
    t->gone = 0;
}

/* Makes the chain's next span: the thread is active up to `to`. */
static void advance_to_active_span(struct span_iterator *t, uint64_t to)
{
    const struct ips_arc_time *a = &t->arc;
    uint64_t before = t->gone;
    t->gone += to - t->reported_ns;
    t->now = (struct span){.from = t->reported_ns, .to = to};
    t->now.cpu = (uint64_t)((ips_u128)a->cpu * t->gone / a->length -
                            (ips_u128)a->cpu * before / a->length);
    t->now.delay =
        (uint64_t)((ips_u128)(a->cpu + a->delay) * t->gone / a->length -
                   (ips_u128)(a->cpu + a->delay) * before / a->length) -
        t->now.cpu;
    t->reported_ns = to;
}

static void set_current_span_to_wait_until(struct span_iterator *t, uint64_t to,
                                           uint32_t cause)
{
    t->now = (struct span){
        .from = t->reported_ns,
        .to = to,
        .waits = true,
        .cause = cause < IPS_IDLE_NO_CAUSE ? cause : IPS_IDLE_NO_CAUSE};
    t->reported_ns = to;
}

/* Makes the chain's next span: a part of the sleep at the end of the arc, up to
 * the begin or end of a wait. */
static void advance_to_next_span_of_sleep(const struct sweep *s,
                                          struct span_iterator *t)
{
    const struct ips_waits *w = s->w;
    uint64_t to = w->at[t->node];
    uint32_t cause = IPS_WAITS_NO_CAUSE;
    for (uint64_t k = w->first[t->node]; k < w->first[t->node + 1]; k++) {
        const struct ips_wait *x = &w->wait[k];
        if (!x->of_node || x->to <= t->reported_ns)
            continue;
        if (x->from <= t->reported_ns) {
            to = x->to;
            cause = x->cause;
        } else {
            to = x->from; /* no wait covers this part, which ends where the next
                             wait begins */
        }
        break;
    }
    set_current_span_to_wait_until(t, to, cause);
}

/* Makes the next span that is not empty. Returns false if the chain has
 * ended. */
static bool advance_to_next_nonempty_span(const struct sweep *s,
                                          struct span_iterator *t)
{
    const struct ips_waits *w = s->w;
    for (;;) {
        if (t->reported_ns >= w->at[t->node]) {
            if (t->node + 1 == t->end)
                return false;
            t->node++;
            init_iterator_at_arc(s, t);
            continue;
        }
        uint64_t asleep = ips_waits_sleep_begin_ns(w, t->node);
        if (t->reported_ns >= asleep) {
            advance_to_next_span_of_sleep(s, t);
            return true;
        }
        uint64_t end = w->first[t->node + 1];
        while (t->wait < end && (w->wait[t->wait].of_node ||
                                 w->wait[t->wait].to <= t->reported_ns))
            t->wait++;
        const struct ips_wait *x = t->wait < end ? &w->wait[t->wait] : NULL;
        if (x && x->from <= t->reported_ns)
            set_current_span_to_wait_until(t, x->to, x->cause);
        else
            advance_to_active_span(t, x ? x->from : asleep);
        return true;
    }
}

/* ---- adding up all chains ----------------------------------------------- */

static uint64_t compute_rate_q32(uint64_t ns, uint64_t length)
{
    return (uint64_t)(((ips_u128)ns << 32) / length);
}

/* Returns the remainder that compute_rate_q32() rounds away, in 2^-32 ns. */
static uint64_t remainder_of_rate(uint64_t ns, uint64_t length)
{
    return (uint64_t)(((ips_u128)ns << 32) % length);
}

static void add_span_to_current_sums(struct sweep *s, const struct span *x)
{
    uint64_t length = x->to - x->from;
    if (x->waits && (s->spinning >> x->cause & 1)) {
        s->spinners++;
    } else if (x->waits) {
        s->waiting[x->cause]++;
        s->all_waiting++;
    } else {
        s->cpu_rate += compute_rate_q32(x->cpu, length);
        s->delay_rate += compute_rate_q32(x->delay, length);
        s->off_rate += compute_rate_q32(length - x->cpu - x->delay, length);
    }
}

static void subtract_span_at_its_end(struct sweep *s, const struct span *x)
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
    s->cpu_rate -= compute_rate_q32(x->cpu, length);
    s->delay_rate -= compute_rate_q32(x->delay, length);
    s->off_rate -= compute_rate_q32(off, length);
    if (x->from < s->from || x->to > s->to)
        return;
    s->cpu_rest += remainder_of_rate(x->cpu, length);
    s->delay_rest += remainder_of_rate(x->delay, length);
    s->off_rest += remainder_of_rate(off, length);
}

/* Returns how many whole ns accrue in `length` ns at rate `per` (in 2^-32 ns
 * per ns). The fraction of a ns is carried from call to call in *left. */
static uint64_t compute_accrued_ns_at_rate(uint64_t per, uint64_t length,
                                           uint64_t *left)
{
    ips_u128 sum = (ips_u128)per * length + *left;
    *left = (uint64_t)(sum & UINT32_MAX);
    return (uint64_t)(sum >> 32);
}

static uint64_t deduct_at_most_ns(uint64_t *room, uint64_t ns)
{
    uint64_t got = ips_min_u64(*room, ns);
    *room -= got;
    return got;
}

/* Splits `room` ns of idle core time over the causes of the waiting threads.
 * The cumulative shares are rounded, so the shares add up to `room`. */
static void split_by_cause(struct sweep *s, uint64_t room)
{
    uint64_t before = 0, gone = 0;
    for (uint32_t c = 0; c < IPS_IDLE_CAUSES; c++) {
        before += s->waiting[c];
        uint64_t up_to = (uint64_t)((ips_u128)room * before / s->all_waiting);
        s->out->cause[c] += up_to - gone;
        gone = up_to;
    }
}

/* Assigns the core time from a to b to the categories of struct ips_idle. No
 * thread begins or ends a span in between. */
static void account_core_time_between(struct sweep *s, uint64_t a, uint64_t b)
{
    struct ips_idle *o = s->out;
    a = ips_max_u64(a, s->from);
    b = ips_min_u64(b, s->to);
    if (a >= b)
        return;
    uint64_t length = b - a, room = s->cores * length;
    s->backlog += compute_accrued_ns_at_rate(s->cpu_rate, length, &s->cpu_rest);
    uint64_t running = deduct_at_most_ns(&room, s->backlog);
    s->backlog -= running;
    o->running += running;
    o->spun += deduct_at_most_ns(&room, s->spinners * length);
    o->others += deduct_at_most_ns(
        &room,
        compute_accrued_ns_at_rate(s->delay_rate, length, &s->delay_rest));
    o->unknown += deduct_at_most_ns(
        &room, compute_accrued_ns_at_rate(s->off_rate, length, &s->off_rest));
    if (s->begun == 0)
        o->before += room;
    else if (s->left == 0)
        o->after += room;
    else if (s->all_waiting == 0)
        o->nobody += room;
    else
        split_by_cause(s, room);
}

/* ---- heap of chains by the end of their span ---------------------------- */

static bool span_ends_sooner(const struct sweep *s, uint32_t a, uint32_t b)
{
    const struct span_iterator *x = &s->teller[s->heap[a]],
                               *y = &s->teller[s->heap[b]];
    if (x->now.to != y->now.to)
        return x->now.to < y->now.to;
    return s->heap[a] < s->heap[b];
}

static void sift_heap_entry_down(struct sweep *s, uint32_t at)
{
    for (;;) {
        uint32_t least = at, l = 2 * at + 1, r = l + 1;
        if (l < s->left && span_ends_sooner(s, l, least))
            least = l;
        if (r < s->left && span_ends_sooner(s, r, least))
            least = r;
        if (least == at)
            return;
        uint32_t swap = s->heap[at];
        s->heap[at] = s->heap[least];
        s->heap[least] = swap;
        at = least;
    }
}

static void run_sweep(struct sweep *s)
{
    uint64_t t = 0;
    while (s->left) {
        struct span_iterator *x = &s->teller[s->heap[0]];
        account_core_time_between(s, t, x->now.to);
        t = ips_max_u64(t, x->now.to);
        if (x->begun)
            subtract_span_at_its_end(s, &x->now);
        else
            s->begun++;
        x->begun = true;
        if (advance_to_next_nonempty_span(s, x))
            add_span_to_current_sums(s, &x->now);
        else
            s->heap[0] = s->heap[--s->left];
        sift_heap_entry_down(s, 0);
    }
    account_core_time_between(s, t, UINT64_MAX);
}

int ips_idle_account_core_time(const struct ips_waits *w, uint32_t machine,
                               uint32_t cores, uint64_t from, uint64_t to,
                               uint32_t spinning, struct ips_idle *out,
                               struct ips_err *err)
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
        struct span_iterator *t = &s.teller[s.count];
        t->first = t->node = ch->first;
        t->end = ch->first + ch->count;
        t->reported_ns = w->at[ch->first];
        t->now = (struct span){.to = t->reported_ns}; /* an empty span until the
                                                         chain begins */
        s.heap[s.count] = s.count;
        s.count++;
    }
    s.left = s.count;
    for (uint32_t i = s.count / 2; i-- > 0;)
        sift_heap_entry_down(&s, i);
    run_sweep(&s);
    out->over = s.backlog;
    free(s.teller);
    free(s.heap);
    return 0;
}
