#include "master/requests/more.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/machine_share.h"

/* size of the hash table of a service's items, of which at most half is used; a
 * power of 2 */
#define ITEMS 8192u
#define COMPUTING UINT32_MAX

/* CPU time in a procedure (`why` is COMPUTING, `of` the procedure), or waits
 * for the cause `why` at the call site `of`. `machine` is the machine's index.
 */
struct item {
    uint32_t machine, of, why;
    bool used;
    /* time in the slowest requests [0], and in those around the median [1] */
    uint64_t ns[2];
};
struct item_collector {
    struct query *q;
    struct requests_data *d;
    struct item *item; /* hash table of ITEMS entries */
    uint32_t count;
    int which;
};

/* Finds or adds an item. NULL: the table is full. Then the requests have far
 * more call sites than can matter. */
static struct item *find_or_add_item(struct item_collector *l, uint32_t part,
                                     uint32_t of, uint32_t why)
{
    uint64_t key = ((uint64_t)part << 48) ^ ((uint64_t)why << 32) ^ of;
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 40) & (ITEMS - 1);
    for (;; at = (at + 1) & (ITEMS - 1)) {
        struct item *x = &l->item[at];
        if (!x->used && l->count == ITEMS / 2)
            return NULL;
        if (!x->used) {
            *x = (struct item){part, of, why, true, {0, 0}};
            l->count++;
            return x;
        }
        if (x->machine == part && x->of == of && x->why == why)
            return x;
    }
}

static void add_ns_to_item(struct item_collector *l, uint32_t part, uint32_t of,
                           uint32_t why, uint64_t ns)
{
    struct item *x = ns ? find_or_add_item(l, part, of, why) : NULL;
    if (x)
        x->ns[l->which] += ns;
}

/* Returns the index of the first of the rows, which are sorted by node, with
 * this `node` or a later one. */
static uint64_t first_row_of_node(const uint32_t *rows, uint64_t count,
                                  uint32_t node)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (rows[mid] < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the fraction part / whole of `ns`. */
static uint64_t fraction_of_ns(uint64_t ns, uint64_t part, uint64_t whole)
{
    return whole ? (uint64_t)((ips_u128)ns * ips_min_u64(part, whole) / whole)
                 : 0;
}

/* Returns how much of a wait lies within the step. The wait lasts `ns` and ends
 * with the arc, at `end`. A marked request may end before the wait starts. */
static uint64_t wait_ns_within_step(const struct ips_request_step *s,
                                    uint64_t end, uint64_t ns)
{
    uint64_t from = ips_max_u64(s->from, ips_sub_sat(end, ns));
    return ips_sub_sat(ips_min_u64(s->to, end), from);
}

static void add_waits_and_cpu_of_step(void *arg,
                                      const struct ips_request_step *s)
{
    struct item_collector *l = arg;
    const struct ips_graph *g = &l->d->path.merged;
    uint32_t part = g->chains[s->chain].machine;
    uint32_t node =
        s->arc -
        (uint32_t)engine_data_of_machine(l->q->gather.active[part])->base;
    const struct waits_rows *r = &l->d->waits.machine[part];
    const struct arc_profile *p = &l->d->waits.arc_profile[part];
    uint64_t ns = s->to - s->from;
    uint8_t x = g->xkind[s->arc];
    if (s->crossed && x != IPS_X_EXTERNAL && x != IPS_X_IDLE)
        return; /* while a message is in transit, no thread waits at a call site
                 */
    for (uint64_t i = first_row_of_node(r->node, r->count, node);
         i < r->count && r->node[i] == node; i++)
        add_ns_to_item(
            l, part, r->of[i], r->why[i],
            !s->crossed && r->of_node[i]
                ? wait_ns_within_step(s, l->d->path.est.est[s->arc], r->ns[i])
                : fraction_of_ns(r->ns[i], ns,
                                 ips_max_u64(s->whole, r->ns[i])));
    if (s->crossed)
        return;
    /* The arc of an answer ends when it is sent, but its CPU time includes the
     * call that sends it. So the CPU time may exceed the arc's length. */
    uint64_t first = first_row_of_node(p->node, p->count, node), cpu = 0;
    for (uint64_t i = first; i < p->count && p->node[i] == node; i++)
        cpu = ips_add_sat(cpu, p->ns[i]);
    for (uint64_t i = first; i < p->count && p->node[i] == node; i++)
        add_ns_to_item(
            l, part, p->of[i], COMPUTING,
            fraction_of_ns(p->ns[i], ns, ips_max_u64(s->whole, cpu)));
}

/* Adds the items of at most REQUESTS_LOOKED of the requests, evenly selected;
 * returns the number of selected requests. */
static uint32_t add_items_of_sampled_requests(struct item_collector *l,
                                              const uint32_t *index,
                                              uint32_t count, int which)
{
    uint32_t step = count / REQUESTS_LOOKED + 1, looked = 0;
    l->which = which;
    for (uint32_t i = 0; i < count; i += step, looked++)
        ips_request_report_steps_backwards(&l->d->path.merged, &l->d->path.est,
                                           &l->d->result.r[index[i]],
                                           add_waits_and_cpu_of_step, l);
    return looked;
}

static struct request_difference
difference_of_item(const struct item_collector *l, const struct item *x,
                   uint32_t slow, uint32_t median)
{
    const struct waits *w = &l->d->waits;
    struct request_difference m = {.cause = "",
                                   .slow_ns = x->ns[0] / slow,
                                   .median_ns = x->ns[1] / median};
    if (x->why == COMPUTING) {
        const struct entity_symbol *s =
            &w->arc_profile[x->machine].symbol[x->of];
        m.procedure = s->name;
        m.module = s->module;
        m.file = s->file;
        m.source_line = s->source_line;
    } else {
        const Ips__WaitPlace *p = w->machine[x->machine].call_site[x->of];
        m.cause = w->cause[x->why];
        m.procedure = p->procedure;
        m.module = p->module;
        m.file = p->file;
        m.source_line = p->line;
    }
    return m;
}

static uint64_t excess_over_median_ns(const struct request_difference *m)
{
    return ips_sub_sat(m->slow_ns, m->median_ns);
}

static void
choose_longest_sites_of_median_requests(const struct item_collector *l,
                                        uint32_t slow, uint32_t median,
                                        struct request_difference out[2])
{
    for (uint32_t i = 0; i < ITEMS; i++) {
        const struct item *x = &l->item[i];
        struct request_difference *to = &out[x->why != COMPUTING];
        if (x->used && x->ns[1] / median > to->median_ns)
            *to = difference_of_item(l, x, slow, median);
    }
}

static void choose_largest_differences(const struct item_collector *l,
                                       uint32_t slow, uint32_t median,
                                       struct request_difference *out)
{
    for (uint32_t i = 0; i < ITEMS; i++) {
        if (!l->item[i].used)
            continue;
        struct request_difference m =
            difference_of_item(l, &l->item[i], slow, median);
        size_t at = REQUESTS_MORE;
        while (at > 0 &&
               excess_over_median_ns(&out[at - 1]) < excess_over_median_ns(&m))
            at--;
        if (at == REQUESTS_MORE)
            continue;
        memmove(&out[at + 1], &out[at],
                (REQUESTS_MORE - at - 1) * sizeof(*out));
        out[at] = m;
    }
}

int requests_compare_slowest_with_median(struct query *q, struct ips_err *err)
{
    struct requests_data *d = requests_data_of(q);
    struct item_collector l = {.q = q, .d = d};
    d->more =
        calloc((size_t)d->service_count + 1, sizeof(*d->more) * REQUESTS_MORE);
    d->typical = calloc((size_t)d->service_count + 1, sizeof(*d->typical) * 2);
    l.item = calloc(ITEMS, sizeof(*l.item));
    if (!d->more || !d->typical || !l.item) {
        free(l.item);
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests");
    }
    for (uint32_t s = 0; s < d->service_count; s++) {
        const struct request_service *v = &d->service[s];
        const uint32_t *index = d->by_service + v->first;
        if (v->count == 0)
            continue;
        uint32_t low = requests_percentile_index(v->count, 40);
        uint32_t high = requests_percentile_index(v->count, 60);
        uint32_t tail = requests_tail_count(v->count);
        memset(l.item, 0, ITEMS * sizeof(*l.item));
        l.count = 0;
        uint32_t slow =
            add_items_of_sampled_requests(&l, index + v->count - tail, tail, 0);
        uint32_t median =
            add_items_of_sampled_requests(&l, index + low, high - low + 1, 1);
        choose_largest_differences(&l, slow, median,
                                   &d->more[(size_t)s * REQUESTS_MORE]);
        choose_longest_sites_of_median_requests(&l, slow, median,
                                                &d->typical[(size_t)s * 2]);
    }
    free(l.item);
    return 0;
}
