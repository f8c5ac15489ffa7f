#include "slave/serve/path_sums.h"

#include "slave/base/wordhash.h"
#include "slave/build/internal.h"

void slave_path_sums_release(struct slave_path_sums *s)
{
    ips_free_large(s->sum.v);
    slave_intern_release(&s->index);
    *s = (struct slave_path_sums){0};
}

struct sums_walk {
    struct slave_path_sums *s;
    /* The segment handled last. Segments come in backward order, so on the path
     * this one is after the segment that is handled next. */
    struct ips_path_segment later;
    bool has_later;
};

struct key {
    const struct slave_path_sums *s;
    struct slave_path_sum of;
};

static bool is_sum_of_such_segments(const void *arg, uint32_t number)
{
    const struct key *k = arg;
    const struct slave_path_sum *x = &k->s->sum.v[number], *y = &k->of;
    return x->kind == y->kind && x->xkind == y->xkind &&
           x->has_ns == y->has_ns && x->before == y->before &&
           x->chain == y->chain;
}

/* Adds segment a->later to the sum of segments that are alike
 * (is_sum_of_such_segments()). `before`: chain of the segment that precedes
 * a->later on the path. */
static int add_segment_to_sum(const struct sums_walk *a, uint32_t before,
                              struct ips_err *err)
{
    struct slave_path_sums *s = a->s;
    const struct ips_path_segment *seg = &a->later;
    const struct key k = {s,
                          {.kind = (uint8_t)seg->kind,
                           .xkind = seg->xkind,
                           .has_ns = seg->ns > 0,
                           .before = before,
                           .chain = seg->chain}};
    const uint64_t words[] = {(uint64_t)before << 32 | seg->chain,
                              (uint64_t)seg->kind << 16 |
                                  (uint64_t)seg->xkind << 1 | k.of.has_ns};
    bool fresh;
    int rc = B_MORE(s->sum, err);
    if (rc < 0)
        return rc;
    uint32_t n = slave_intern_find_or_add(
        &s->index, slave_hash_bytes(3, words, sizeof(words)),
        is_sum_of_such_segments, &k, &fresh);
    if (n == UINT32_MAX)
        return ips_err_set(err, IPS_E_NO_MEMORY, "sums of a path");
    if (fresh)
        s->sum.v[s->sum.n++] = k.of;
    s->sum.v[n].count++;
    s->sum.v[n].ns = ips_add_sat(s->sum.v[n].ns, seg->ns);
    return 0;
}

static int add_remembered_segment_and_remember_this(
    void *arg, const struct ips_path_segment *seg, struct ips_err *err)
{
    struct sums_walk *a = arg;
    int rc = a->has_later ? add_segment_to_sum(a, seg->chain, err) : 0;
    a->later = *seg;
    a->has_later = true;
    return rc;
}

int slave_path_sums_add_path(struct slave_path_sums *s,
                             const struct ips_graph *g, const struct ips_est *e,
                             uint32_t from, uint32_t to, struct ips_err *err)
{
    struct sums_walk a = {.s = s};
    int rc = ips_path_visit_segments_backwards(
        g, e, from, to, add_remembered_segment_and_remember_this, &a, err);
    if (rc < 0 || !a.has_later)
        return rc;
    return add_segment_to_sum(
        &a, from == IPS_NO_NODE ? a.later.chain : ips_chain_of(g, from), err);
}
