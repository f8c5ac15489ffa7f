/* Finds the chain of a stream, and decides whether a chain belongs to an
 * object; see chain_index.h. */
#include "slave/build/chain_index.h"

#include "common/object.h"

#include <stdio.h>

#include "slave/build/internal.h"

/* a stream's header may be stamped this long (ns) before its START */
#define SLACK_NS 10000000u

static int compare_chains_by_thread(const void *va, const void *vb, void *arg)
{
    const struct ips_built *b = arg;
    uint32_t a = *(const uint32_t *)va, c = *(const uint32_t *)vb;
    const struct ips_chain *x = &b->g.chains[a], *y = &b->g.chains[c];
    CMP3(x->pid, y->pid);
    CMP3(x->tid, y->tid);
    CMP3(b->threads[a].start_ns, b->threads[c].start_ns);
    CMP3(a, c);
    return 0;
}

uint32_t *slave_list_chains_sorted_by_thread(const struct ips_built *b)
{
    uint32_t n = b->g.chain_count;
    uint32_t *index = malloc(((size_t)n + 1) * sizeof(*index));
    for (uint32_t i = 0; index && i < n; i++)
        index[i] = i;
    if (index && n) {
        struct ips_built copy = *b; /* the argument of qsort_r is not const */
        qsort_r(index, n, sizeof(*index), compare_chains_by_thread, &copy);
    }
    return index;
}

uint32_t slave_chain_of_stream(const struct ips_built *b, const uint32_t *index,
                               const struct ips_segment_header *h,
                               uint64_t stamp_ns)
{
    uint32_t low = 0, high = b->g.chain_count, best = IPS_NONE;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct ips_chain *c = &b->g.chains[index[mid]];
        if (c->pid < h->pid || (c->pid == h->pid && c->tid < h->tid))
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < b->g.chain_count; low++) {
        uint32_t chain = index[low];
        const struct ips_chain *c = &b->g.chains[chain];
        if (c->pid != h->pid || c->tid != h->tid)
            break;
        if (b->procs[c->process].pidns != h->pidns)
            continue;
        if (best == IPS_NONE ||
            b->threads[chain].start_ns <= ips_add_sat(stamp_ns, SLACK_NS))
            best = chain;
    }
    return best;
}

static int compare_streams_by_chain_and_time(const void *va, const void *vb)
{
    const struct slave_stream_with_chain *a = va, *b = vb;
    CMP3(a->chain, b->chain);
    CMP3(a->begin_ns, b->begin_ns);
    CMP3(a->stream, b->stream);
    return 0;
}

struct slave_stream_with_chain *
slave_list_streams_sorted_by_chain(const struct ips_build_input *in,
                                   const struct ips_built *b,
                                   struct ips_err *err)
{
    struct slave_stream_with_chain *p =
        b_calloc(in->stream_count, sizeof(*p), err);
    uint32_t *index = slave_list_chains_sorted_by_thread(b);
    if (p && !index) {
        ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
        ips_free_large(p);
        return NULL;
    }
    for (uint32_t i = 0; p && i < in->stream_count; i++) {
        const struct ips_segment_header *h = &in->streams[i].head;
        uint64_t begin = b_ticks_to_ns(&h->clock, h->stream_stamp);
        p[i] = (struct slave_stream_with_chain){
            slave_chain_of_stream(b, index, h, begin), i, begin};
    }
    free(index);
    if (p && in->stream_count)
        qsort(p, in->stream_count, sizeof(*p),
              compare_streams_by_chain_and_time);
    return p;
}

bool slave_is_chain_of_object(const struct ips_built *b, const char *machine,
                              const char *object, uint32_t chain)
{
    char own[256];
    if (chain == IPS_NONE)
        return ips_object_count_components(object) <= 1 &&
               ips_object_pattern_matches_machine(object, machine);
    const struct ips_proc *p = &b->procs[b->g.chains[chain].process];
    snprintf(own, sizeof(own), "/%s/%s/%u", machine, p->name,
             b->g.chains[chain].tid);
    if (ips_object_matches_pattern(object, own))
        return true;
    snprintf(own, sizeof(own), "/%s/%s/%s", machine, p->name,
             b->threads[chain].name);
    return ips_object_matches_pattern(object, own);
}
