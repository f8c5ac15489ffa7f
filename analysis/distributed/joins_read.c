/* Reads the heads of all parts' joins, and finds for each remote receive the
 * remote send that wrote the awaited position. */
#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/joins_private.h"
#include "analysis/graph/kernel.h"
#include "analysis/graph/varint.h"
#include "analysis/graph/view.h"
#include "common/large.h"

#define MOST_NUMBERS ((1u << 31) - 16u)
#define MOST_ENDS (1u << 22)
/* number of remote sends tried one after the other before a binary search */
#define LOOK_AHEAD 8u

int ips_joins_overflow_error(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_LIMIT,
                       "times add up to more than 2^62 ns: damaged weights");
}

int ips_joins_set_error_and_blame_machine(struct ips_joins_reader *r,
                                          uint32_t part, const char *what,
                                          struct ips_err *err)
{
    *r->blame = part;
    return ips_err_set(err, IPS_E_PROTOCOL, "its joins: %s", what);
}

static int no_memory(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for the joins");
}

/* Reads the next number of part p. If the number exceeds `most` or the part's
 * bytes have ended, sets *bad and returns 0. */
static inline uint64_t read_varint_with_limit(struct ips_joined_machine *p,
                                              uint64_t most, bool *bad)
{
    uint64_t v;
    if (p->at >= p->end) {
        *bad = true;
        return 0;
    }
    p->at = ips_varint_read(p->at, &v);
    *bad = *bad || v > most;
    return v > most ? 0 : v;
}

static inline uint64_t
read_and_add_signed_difference(struct ips_joined_machine *p, uint64_t from,
                               bool *bad)
{
    return ips_add_zigzag_difference(
        from, read_varint_with_limit(p, UINT64_MAX, bad));
}

/* ---- reading the counts ------------------------------------------------- */

static bool add_if_within_limit(uint32_t *sum, uint32_t more)
{
    if (more > MOST_NUMBERS - *sum)
        return false;
    *sum += more;
    return true;
}

static int read_machine_head_and_add_counts(struct ips_joins_reader *r,
                                            uint32_t part, struct ips_err *err)
{
    struct ips_joined *j = r->j;
    struct ips_joined_machine *p = &j->machine[part];
    struct ips_joins_head *h = &p->head;
    size_t len = r->machines[part].len;
    bool bad = false;
    p->at = r->machines[part].data;
    p->end = p->at + len;
    h->flags = (unsigned)read_varint_with_limit(p, 7, &bad);
    h->total = read_varint_with_limit(p, UINT64_MAX, &bad);
    h->ends = (uint32_t)read_varint_with_limit(p, MOST_ENDS, &bad);
    /* Each entry takes at least two bytes, so a damaged count cannot cause an
     * allocation much larger than the message. */
    h->chains = (uint32_t)read_varint_with_limit(p, len / 2, &bad);
    h->joins = (uint32_t)read_varint_with_limit(p, len / 2, &bad);
    h->ins = (uint32_t)read_varint_with_limit(p, len / 2, &bad);
    h->outs = (uint32_t)read_varint_with_limit(p, len / 2, &bad);
    h->candidates = (uint32_t)read_varint_with_limit(p, len / 2, &bad);
    if (bad || !!(h->flags & IPS_JOINS_MOMENTS) != r->moments)
        return ips_joins_set_error_and_blame_machine(r, part, "no head", err);
    p->chain = j->chain_count;
    p->join = j->join_count;
    p->in = j->in_count;
    p->out = j->out_count;
    j->total = ips_add_sat(j->total, h->total);
    if (!add_if_within_limit(&j->chain_count, h->chains) ||
        !add_if_within_limit(&j->join_count, h->joins) ||
        !add_if_within_limit(&j->in_count, h->ins) ||
        !add_if_within_limit(&j->out_count, h->outs))
        return ips_err_set(err, IPS_E_LIMIT, "more than 2^31 joins");
    return 0;
}

static int allocate_arrays(struct ips_joins_reader *r, struct ips_err *err)
{
    struct ips_joined *j = r->j;
    size_t ins = (size_t)j->in_count + 1, outs = (size_t)j->out_count + 1;
    bool times = r->moments || r->scenario->weighting == IPS_WEIGH_WALL;
    r->chain = ips_alloc_large((size_t)j->chain_count + 1, sizeof(*r->chain));
    r->outs.pos = ips_alloc_large(outs, sizeof(*r->outs.pos));
    r->outs.len = ips_alloc_large(outs, sizeof(*r->outs.len));
    if (times)
        r->outs.at = ips_alloc_large(outs, sizeof(*r->outs.at));
    if (!r->chain || !r->outs.pos || !r->outs.len || (times && !r->outs.at))
        return no_memory(err);
    if (r->moments)
        return 0;
    j->d = ips_calloc_large((size_t)j->join_count + 1, sizeof(*j->d));
    j->won = ips_alloc_large((size_t)j->join_count + 1, sizeof(*j->won));
    j->first = ips_calloc_large((size_t)j->join_count / 8 + 1, 1);
    j->in_out = ips_alloc_large(ins, sizeof(*j->in_out));
    j->in_src = ips_alloc_large(ins, sizeof(*j->in_src));
    j->in_add = ips_alloc_large(ins, sizeof(*j->in_add));
    j->in_kind = ips_alloc_large(ins, 1);
    j->out_src = ips_alloc_large(outs, sizeof(*j->out_src));
    j->out_p = ips_alloc_large(outs, sizeof(*j->out_p));
    bool ns = false;
    for (uint32_t p = 0; p < j->machine_count; p++)
        ns = ns || (j->machine[p].head.flags & IPS_JOINS_NS);
    if (ns)
        r->outs.xlen = ips_alloc_large(outs, sizeof(*r->outs.xlen));
    if (!j->d || !j->won || !j->first || !j->in_out || !j->in_src ||
        !j->in_add || !j->in_kind || !j->out_src || !j->out_p ||
        (ns && !r->outs.xlen))
        return no_memory(err);
    return 0;
}

/* ---- reading chains and remote sends ------------------------------------ */

static int read_chain_heads(struct ips_joins_reader *r, uint32_t part,
                            struct ips_err *err)
{
    struct ips_joined_machine *p = &r->j->machine[part];
    uint64_t joins = 0, ins = 0, left = r->machines[part].len;
    bool bad = false;
    for (uint32_t c = 0; c < p->head.chains && !bad; c++) {
        struct ips_joined_chain *chain = &r->chain[p->chain + c];
        chain->joins = (uint32_t)read_varint_with_limit(p, UINT32_MAX, &bad);
        chain->ins = (uint32_t)read_varint_with_limit(p, UINT32_MAX, &bad);
        chain->bytes = read_varint_with_limit(p, left, &bad);
        left -= chain->bytes;
        chain->pid = (uint32_t)read_varint_with_limit(p, UINT32_MAX, &bad);
        chain->tid = (uint32_t)read_varint_with_limit(p, UINT32_MAX, &bad);
        bad = bad || chain->joins == 0;
        joins += chain->joins;
        ins += chain->ins;
    }
    if (bad || joins != p->head.joins || ins > p->head.ins)
        return ips_joins_set_error_and_blame_machine(
            r, part, "chains that do not add up", err);
    return 0;
}

static bool read_source_of_remote_send(struct ips_joins_reader *r,
                                       struct ips_joined_machine *p, uint32_t k,
                                       struct ips_joins_last *last)
{
    struct ips_joined *j = r->j;
    bool bad = false;
    uint64_t source = read_varint_with_limit(p, UINT64_MAX, &bad);
    if (source)
        last->join =
            (uint32_t)ips_add_zigzag_difference(last->join, source - 1);
    if (source && last->join >= p->head.joins)
        return false;
    last->p = read_and_add_signed_difference(p, last->p, &bad);
    j->out_src[k] = source ? p->join + last->join : IPS_NO_NODE;
    j->out_p[k] = last->p;
    return !bad && last->p < IPS_TIME_LIMIT;
}

static bool read_remote_send(struct ips_joins_reader *r,
                             struct ips_joined_machine *p, uint32_t k,
                             struct ips_joins_last *last)
{
    bool bad = false;
    uint32_t on = (uint32_t)read_varint_with_limit(p, p->head.ends, &bad);
    uint64_t pos = read_varint_with_limit(p, UINT64_MAX, &bad);
    if (on)
        last->pos = 0;
    bad = bad || last->pos + pos < pos; /* positions must not decrease */
    last->pos += pos;
    r->outs.pos[k] = last->pos;
    r->outs.len[k] = (uint32_t)read_varint_with_limit(p, UINT32_MAX, &bad);
    for (; on > 0 && last->end < p->head.ends; on--)
        p->out_end[++last->end] = k - p->out;
    bad = bad || last->end >= p->head.ends;
    if (!r->moments && !read_source_of_remote_send(r, p, k, last))
        return false;
    if (r->outs.xlen)
        r->outs.xlen[k] = p->head.flags & IPS_JOINS_NS
                              ? read_varint_with_limit(p, UINT64_MAX, &bad)
                              : r->outs.len[k];
    if (p->head.flags & (IPS_JOINS_WALL | IPS_JOINS_MOMENTS))
        last->at = read_and_add_signed_difference(p, last->at, &bad);
    if (r->outs.at)
        r->outs.at[k] = last->at;
    return !bad;
}

static int read_remote_sends(struct ips_joins_reader *r, uint32_t part,
                             struct ips_err *err)
{
    struct ips_joined_machine *p = &r->j->machine[part];
    struct ips_joins_last last = {0};
    p->out_end = calloc((size_t)p->head.ends + 2, sizeof(*p->out_end));
    p->next = calloc((size_t)p->head.ends + 1, sizeof(*p->next));
    if (!p->out_end || !p->next)
        return no_memory(err);
    for (uint32_t k = 0; k < p->head.outs; k++) {
        if (!read_remote_send(r, p, p->out + k, &last))
            return ips_joins_set_error_and_blame_machine(
                r, part, "no remote sends", err);
    }
    for (uint32_t end = last.end; end < p->head.ends; end++)
        p->out_end[end + 1] = p->head.outs;
    memcpy(p->next, p->out_end, p->head.ends * sizeof(*p->next));
    return 0;
}

/* ---- reading remote receives -------------------------------------------- */

/* Returns the first remote send of channel end `end` with position `pos` or
 * later. Mostly that is the send after the one found last, so the search starts
 * at p->next[end]. */
static uint32_t first_send_at_or_after(const struct ips_joins_reader *r,
                                       struct ips_joined_machine *p,
                                       uint32_t end, uint64_t pos)
{
    const uint64_t *all = r->outs.pos + p->out;
    uint32_t low = p->out_end[end], high = p->out_end[end + 1];
    uint32_t at = p->next[end];
    if (at > low && all[at - 1] >= pos) {
        high = at;
    } else {
        low = at;
        uint32_t near = high - low > LOOK_AHEAD ? low + LOOK_AHEAD : high;
        while (low < near && all[low] < pos)
            low++;
        high = low < near ? low : high;
    }
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (all[mid] < pos)
            low = mid + 1;
        else
            high = mid;
    }
    p->next[end] = low;
    return low;
}

/* Returns the remote send (numbered over all parts) that wrote the position
 * `pos` that end `end` of part `part` awaits, by the rules of
 * ips_graph_merge(), and sets *from to its part. Returns IPS_NO_NODE if no send
 * wrote it. */
static uint32_t find_send_of_awaited_position(const struct ips_joins_reader *r,
                                              uint32_t part, uint32_t end,
                                              uint64_t pos, uint32_t *from)
{
    const struct ips_machine_joins *mine = &r->machines[part];
    if (end >= mine->end_count ||
        mine->peer[end].machine >= r->j->machine_count)
        return IPS_NO_NODE;
    *from = mine->peer[end].machine;
    struct ips_joined_machine *p = &r->j->machine[*from];
    uint32_t far = mine->peer[end].end;
    if (far >= p->head.ends)
        return IPS_NO_NODE;
    uint32_t k = first_send_at_or_after(r, p, far, pos);
    if (k == p->out_end[far + 1])
        return IPS_NO_NODE;
    k += p->out;
    uint64_t wrote = r->outs.pos[k];
    if (wrote == pos)
        return k;
    if (pos == IPS_POS_SYN || wrote == IPS_POS_EOF ||
        wrote - pos >= r->outs.len[k])
        return IPS_NO_NODE;
    return k;
}

struct in {
    uint8_t kind;
    uint32_t end;
    uint64_t pos, at, wait;
};

/* Returns the weight of the arc from remote send o of part `from` to remote
 * receive `in` of part `part`. */
static uint64_t
weight_of_arc_into_remote_receive(const struct ips_joins_reader *r,
                                  const struct ips_cross_arc_weighting *arcs,
                                  const struct in *in, uint32_t o,
                                  uint32_t from, uint32_t part)
{
    uint64_t xlen = r->outs.xlen ? r->outs.xlen[o] : r->outs.len[o];
    const struct ips_joined_machine *p = r->j->machine;
    if (r->scenario->weighting == IPS_WEIGH_WALL)
        xlen = (p[from].head.flags & p[part].head.flags & IPS_JOINS_WALL)
                   ? ips_wall_cross_arc_weight(r->outs.at[o], in->at, in->wait,
                                               in->kind, xlen, r->scenario)
                   : 0;
    return ips_cross_arc_weight_by_mode(arcs, arcs->mode[in->kind], &xlen, 0);
}

static void match_and_store_receive(struct ips_joins_reader *r,
                                    const struct ips_cross_arc_weighting *arcs,
                                    const struct in *in, uint32_t k,
                                    uint32_t part)
{
    struct ips_joined *j = r->j;
    uint32_t from = 0, o = find_send_of_awaited_position(r, part, in->end,
                                                         in->pos, &from);
    bool absent = o == IPS_NO_NODE || arcs->mode[in->kind] == IPS_ARC_ABSENT;
    j->in_kind[k] = (uint8_t)(in->kind | (absent ? IPS_JOIN_ABSENT : 0));
    j->in_out[k] = o;
    j->unmatched += o == IPS_NO_NODE;
    if (absent)
        return;
    j->in_src[k] = j->out_src[o];
    j->in_add[k] = j->out_p[o] + weight_of_arc_into_remote_receive(
                                     r, arcs, in, o, from, part);
}

/* Reports the send and receive times of a message from another machine to the
 * callback. Returns false if the callback did (out of memory). */
static bool report_times_if_from_other_machine(struct ips_joins_reader *r,
                                               const struct in *in,
                                               uint32_t part)
{
    uint32_t from = part, o = find_send_of_awaited_position(r, part, in->end,
                                                            in->pos, &from);
    return o == IPS_NO_NODE || from == part ||
           r->fn(r->arg, from, r->outs.at[o], part, in->at);
}

static int read_and_match_remote_receives(struct ips_joins_reader *r,
                                          uint32_t part, struct ips_err *err)
{
    struct ips_joined_machine *p = &r->j->machine[part];
    struct ips_cross_arc_weighting arcs;
    struct in in = {0};
    uint64_t *pos = calloc((size_t)p->head.ends + 1, sizeof(*pos));
    bool bad = false, told = true;
    if (!pos)
        return no_memory(err);
    ips_cross_arc_weighting_init(&arcs, r->scenario);
    for (uint32_t k = 0; k < p->head.ins && !bad && told; k++) {
        uint64_t what =
            read_varint_with_limit(p, ((uint64_t)p->head.ends << 3) - 1, &bad);
        in.kind = what & 7;
        in.end = (uint32_t)(what >> 3);
        if (p->head.ends == 0)
            break;
        in.pos = pos[in.end] =
            read_and_add_signed_difference(p, pos[in.end], &bad);
        if (p->head.flags & (IPS_JOINS_WALL | IPS_JOINS_MOMENTS))
            in.at = read_and_add_signed_difference(p, in.at, &bad);
        if (p->head.flags & IPS_JOINS_WALL)
            in.wait = read_varint_with_limit(p, UINT64_MAX, &bad);
        if (bad)
            break;
        if (r->moments)
            told = report_times_if_from_other_machine(r, &in, part);
        else
            match_and_store_receive(r, &arcs, &in, p->in + k, part);
    }
    free(pos);
    if (!told)
        return no_memory(err);
    if (bad || (p->head.ends == 0 && p->head.ins))
        return ips_joins_set_error_and_blame_machine(r, part,
                                                     "no remote receives", err);
    return 0;
}

/* ---- checking the candidates for the END -------------------------------- */

/* Checks the candidates for the END of the path and stores their address, since
 * they cannot be used before the joins are solved. */
static int check_and_skip_end_candidates(struct ips_joins_reader *r,
                                         uint32_t part, struct ips_err *err)
{
    struct ips_joined_machine *p = &r->j->machine[part];
    bool bad = false;
    p->candidates = p->at;
    for (uint32_t k = 0; k < p->head.candidates && !bad; k++) {
        bad = read_varint_with_limit(p, UINT32_MAX, &bad) >=
                  r->machines[part].nodes ||
              bad;
        (void)read_varint_with_limit(p, p->head.joins, &bad);
        (void)read_varint_with_limit(p, IPS_TIME_LIMIT - 1, &bad);
    }
    if (bad || p->at > p->end)
        return ips_joins_set_error_and_blame_machine(
            r, part, "no candidates for the END", err);
    return 0;
}

int ips_joins_read_except_arcs(struct ips_joins_reader *r, struct ips_err *err)
{
    uint32_t n = r->j->machine_count;
    int rc = 0;
    for (uint32_t p = 0; p < n && rc == 0; p++)
        rc = read_machine_head_and_add_counts(r, p, err);
    if (rc == 0)
        rc = allocate_arrays(r, err);
    for (uint32_t p = 0; p < n && rc == 0; p++) {
        rc = read_chain_heads(r, p, err);
        if (rc == 0)
            rc = read_remote_sends(r, p, err);
    }
    for (uint32_t p = 0; p < n && rc == 0; p++) {
        rc = read_and_match_remote_receives(r, p, err);
        if (rc == 0)
            rc = check_and_skip_end_candidates(r, p, err);
    }
    return rc;
}

void ips_joins_reader_release(struct ips_joins_reader *r)
{
    ips_free_large(r->chain);
    ips_free_large(r->outs.pos);
    ips_free_large(r->outs.xlen);
    ips_free_large(r->outs.at);
    ips_free_large(r->outs.len);
    memset(r, 0, sizeof(*r));
}

int ips_joins_pair_message_times(const struct ips_machine_joins *parts,
                                 uint32_t part_count, ips_message_times_fn *fn,
                                 void *arg, uint32_t *blame,
                                 struct ips_err *err)
{
    struct ips_scenario scenario = {.weighting = IPS_WEIGH_CPU};
    struct ips_joined j = {.machine_count = part_count};
    struct ips_joins_reader r = {.machines = parts,
                                 .scenario = &scenario,
                                 .j = &j,
                                 .moments = true,
                                 .fn = fn,
                                 .arg = arg,
                                 .blame = blame};
    *blame = part_count;
    j.machine = calloc((size_t)part_count + 1, sizeof(*j.machine));
    int rc = j.machine ? ips_joins_read_except_arcs(&r, err) : no_memory(err);
    ips_joins_reader_release(&r);
    ips_joined_release(&j);
    return rc;
}
