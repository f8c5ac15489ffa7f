/*
 * Solves the joins of all machines while reading them. Each chain is solved up
 * to a join that needs the D (see joins.h) of another join that is not known
 * yet; then it waits. An unknown D stores the list of the chains that wait for
 * it: the top bit is set, the first chain's number is in the low bits, and the
 * others are linked by `next`.
 *
 * won[j] says what determined the D of join j: WON_CHAIN: the chain's previous
 * join (or 0 if j is the first); WON_ZERO: a constant; WON_IN + k: remote
 * receive k; else the number of another join.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/joins_private.h"
#include "analysis/graph/kernel.h"
#include "analysis/graph/varint.h"
#include "common/large.h"

#define WON_CHAIN 0xffffffffu
#define WON_ZERO 0xfffffffeu
#define WON_IN 0x80000000u
#define UNKNOWN 0ULL
#define WAITER_BIT (1ULL << 63)
#define NO_CHAIN UINT32_MAX
#define STALL_NAMED 10
#define AHEAD 16u /* prefetch distance, in joins and in remote receives */

struct chain {
    const uint8_t *at, *end;
    int64_t
        best; /* D (see joins.h) of `join`, from the candidates read so far */
    int64_t add;  /* addend of the arc for whose source the chain waits */
    uint64_t far; /* the part of `add` that comes from another machine */
    uint32_t won;
    uint32_t join, join_end; /* current join, one past the chain's last join;
                                numbered over all parts */
    uint32_t in, in_stop;    /* next remote receive, one past the last; numbered
                                over all parts */
    uint32_t machine;
    uint32_t waits; /* the join for whose D (see joins.h) the chain waits;
                       IPS_NO_NODE: none */
    uint32_t waits_won;
    uint32_t next; /* next chain that waits for the same join */
    uint8_t slot;  /* slot (see joins.h) of the previous arc */
    /* open: an arc of the current join was read; over: the chain is solved */
    bool open, over;
    struct ips_join_slots s;
};

struct solver {
    struct ips_joined *j;
    struct chain *chain;
    uint32_t *ready; /* stack of chains that can continue; each is in it at most
                        once */
    uint32_t ready_count;
    /* bitwise OR of all times computed, to check against IPS_TIME_LIMIT */
    uint64_t bits;
    bool bad; /* the bytes are inconsistent */
    uint32_t bad_machine;
};

void ips_joined_release(struct ips_joined *j)
{
    for (uint32_t p = 0; j->machine && p < j->machine_count; p++) {
        free(j->machine[p].out_end);
        free(j->machine[p].next);
    }
    free(j->machine);
    ips_free_large(j->d);
    ips_free_large(j->won);
    ips_free_large(j->first);
    ips_free_large(j->in_out);
    ips_free_large(j->in_src);
    ips_free_large(j->in_add);
    ips_free_large(j->in_kind);
    ips_free_large(j->out_src);
    ips_free_large(j->out_p);
    memset(j, 0, sizeof(*j));
}

/* ---- solving one chain -------------------------------------------------- */

/* Stores D (see joins.h) of the current join, all of whose candidates were
 * read, and wakes the chains that wait for it. */
static inline void store_join_and_ready_waiting_chains(struct solver *s,
                                                       struct chain *c)
{
    uint64_t *d = &s->j->d[c->join];
    uint64_t list = *d, best = (uint64_t)c->best;
    s->bits |= best;
    *d = ips_min_u64(best, IPS_TIME_LIMIT) + 1;
    s->j->won[c->join] = c->won;
    for (uint32_t k = (uint32_t)list; list != UNKNOWN && k != NO_CHAIN;
         k = s->chain[k].next)
        s->ready[s->ready_count++] = k;
}

/* Reads the next arc. Sets *source to its source (IPS_NO_NODE: a constant),
 * *won to the entry of won[] if the arc wins, *add to what is added to the
 * source's D, and *far to the part of *add that comes from another machine. If
 * the arc begins a join, first stores the chain's previous join. Returns false
 * if the arc is absent or the bytes are bad; the caller then tries the next
 * arc. */
static inline bool read_next_arc_and_store_finished_join(
    struct solver *s, struct chain *c, const struct ips_joined_machine *p,
    uint32_t *source, uint32_t *won, int64_t *add, uint64_t *far)
{
    uint64_t what, step;
    c->at = ips_varint_read(c->at, &what);
    c->at = ips_varint_read(c->at, &step);
    if (what & 1) { /* the arc begins a join */
        if (c->open) {
            store_join_and_ready_waiting_chains(s, c);
            c->join++;
        }
        c->open = true;
        c->won = WON_CHAIN;
        c->slot = 0;
    } else {
        c->slot = (c->slot + 1) % IPS_JOIN_SLOTS;
    }
    what >>= 1;
    uint64_t a = c->s.add[c->slot] =
        ips_add_zigzag_difference(c->s.add[c->slot], step);
    bool fits = c->open && c->join < c->join_end && c->at <= c->end &&
                a + IPS_TIME_LIMIT < 2 * IPS_TIME_LIMIT;
    *source = IPS_NO_NODE;
    *won = WON_ZERO;
    *add = (int64_t)a;
    *far = 0;
    if (what >= 2) {
        uint32_t local = (uint32_t)ips_add_zigzag_difference(
            (uint64_t)c->s.source[c->slot] + 1, what - 2);
        c->s.source[c->slot] = local;
        *source = *won = p->join + local;
        fits = fits && local < p->head.joins;
    } else if (what == 0) {
        uint32_t k = c->in++;
        fits = fits && k < c->in_stop;
        if (!fits || (s->j->in_kind[k] & IPS_JOIN_ABSENT)) {
            s->bad = s->bad || !fits;
            return false;
        }
        *source = s->j->in_src[k];
        *won = WON_IN + k;
        *far = s->j->in_add[k];
        *add = (int64_t)(*far + a);
        s->bits |= *far;
    }
    s->bad = s->bad || !fits;
    return fits;
}

/* If D (see joins.h) of the join `source` is known, stores it in *d and returns
 * true. Else the chain waits for it. */
static inline bool get_join_value_or_queue_chain(struct solver *s,
                                                 struct chain *c,
                                                 uint32_t number,
                                                 uint32_t source, uint64_t *d)
{
    uint64_t value = s->j->d[source];
    *d = value - 1;
    if (value != UNKNOWN && !(value & WAITER_BIT))
        return true;
    c->next = value == UNKNOWN ? NO_CHAIN : (uint32_t)value;
    s->j->d[source] = WAITER_BIT | number;
    return false;
}

static inline void raise_join_value_if_greater(struct solver *s,
                                               struct chain *c, uint64_t d,
                                               int64_t add, uint64_t far,
                                               uint32_t won)
{
    /* if this sum wraps, `bits` reaches IPS_TIME_LIMIT, which the caller checks
     */
    int64_t value = (int64_t)(d + (uint64_t)add);
    s->bits |= d + far;
    if (value > c->best) {
        c->best = value;
        c->won = won;
    }
}

/* Prefetches the data that the chain will need on its next turn: there are more
 * chains than the hardware prefetcher can follow. The function must be inlined:
 * otherwise the compiler sees no effect in it and removes the calls. */
static inline __attribute__((always_inline)) void
prefetch_data_of_next_arcs(const struct solver *s, const struct chain *c)
{
    const struct ips_joined *j = s->j;
    __builtin_prefetch(c->at + AHEAD * 8);
    __builtin_prefetch(j->d + c->join + AHEAD, 1);
    __builtin_prefetch(j->won + c->join + AHEAD, 1);
    if (c->in < c->in_stop) {
        __builtin_prefetch(j->in_src + c->in + AHEAD);
        __builtin_prefetch(j->in_add + c->in + AHEAD);
        __builtin_prefetch(j->in_kind + c->in + AHEAD);
    }
}

static void solve_chain_until_it_waits(struct solver *s, uint32_t number)
{
    struct chain *c = &s->chain[number];
    const struct ips_joined_machine *p = &s->j->machine[c->machine];
    uint64_t d = 0;
    prefetch_data_of_next_arcs(s, c);
    if (c->waits != IPS_NO_NODE) {
        raise_join_value_if_greater(s, c, s->j->d[c->waits] - 1, c->add, c->far,
                                    c->waits_won);
        c->waits = IPS_NO_NODE;
    }
    while (c->at < c->end && !s->bad) {
        uint32_t source, won;
        int64_t add;
        uint64_t far;
        if (!read_next_arc_and_store_finished_join(s, c, p, &source, &won, &add,
                                                   &far))
            continue;
        if (source != IPS_NO_NODE &&
            !get_join_value_or_queue_chain(s, c, number, source, &d)) {
            c->waits = source;
            c->waits_won = won;
            c->add = add;
            c->far = far;
            return;
        }
        raise_join_value_if_greater(s, c, source == IPS_NO_NODE ? 0 : d, add,
                                    far, won);
    }
    c->over = c->open && c->join + 1 == c->join_end && c->in == c->in_stop;
    s->bad = s->bad || !c->over;
    if (!s->bad)
        store_join_and_ready_waiting_chains(s, c);
    if (s->bad)
        s->bad_machine = c->machine;
}

/* ---- solving all chains ------------------------------------------------- */

static int init_chains_of_machine(struct solver *s, struct ips_joins_reader *r,
                                  uint32_t part, struct ips_err *err)
{
    struct ips_joined *j = s->j;
    struct ips_joined_machine *p = &j->machine[part];
    uint32_t join = p->join, in = p->in;
    const uint8_t *at = p->at;
    for (uint32_t k = p->chain; k < p->chain + p->head.chains; k++) {
        const struct ips_joined_chain *told = &r->chain[k];
        struct chain *c = &s->chain[k];
        if (told->bytes > (uint64_t)(p->end - at))
            return ips_joins_set_error_and_blame_machine(
                r, part, "more arcs than bytes", err);
        *c = (struct chain){.at = at,
                            .end = at + told->bytes,
                            .won = WON_CHAIN,
                            .join = join,
                            .join_end = join + told->joins,
                            .in = in,
                            .in_stop = in + told->ins,
                            .machine = part,
                            .waits = IPS_NO_NODE,
                            .next = NO_CHAIN};
        ips_join_slots_init(&c->s, join - p->join);
        j->first[join / 8] |= (uint8_t)(1u << join % 8);
        at = c->end;
        join += told->joins;
        in += told->ins;
    }
    if (at != p->end || in != p->in + p->head.ins)
        return ips_joins_set_error_and_blame_machine(
            r, part, "bytes that are no arcs", err);
    return 0;
}

static int stall_error(const struct solver *s, const struct ips_joins_reader *r,
                       struct ips_err *err)
{
    char named[512] = "";
    uint32_t stalled = 0;
    for (uint32_t k = 0; k < s->j->chain_count; k++) {
        const struct chain *c = &s->chain[k];
        if (c->over)
            continue;
        size_t at = strlen(named);
        if (stalled++ < STALL_NAMED)
            snprintf(named + at, sizeof(named) - at,
                     "%s join %u of %u.%u awaits join %u", at ? "," : "",
                     c->join, r->chain[k].pid, r->chain[k].tid, c->waits);
    }
    return ips_err_set(
        err, IPS_E_STALLED,
        "a cycle or a missing send holds up %u of %u chains:%s%s", stalled,
        s->j->chain_count, named, stalled > STALL_NAMED ? ", ..." : "");
}

static int solve_all_chains(struct solver *s, struct ips_joins_reader *r,
                            struct ips_err *err)
{
    struct ips_joined *j = s->j;
    int rc = 0;
    for (uint32_t p = 0; p < j->machine_count && rc == 0; p++)
        rc = init_chains_of_machine(s, r, p, err);
    if (rc < 0)
        return rc;
    uint32_t next = 0, over = 0;
    while (!s->bad && s->bits < IPS_TIME_LIMIT &&
           (s->ready_count || next < j->chain_count)) {
        uint32_t c = s->ready_count ? s->ready[--s->ready_count] : next++;
        solve_chain_until_it_waits(s, c);
        over += s->chain[c].over;
    }
    if (s->bits >= IPS_TIME_LIMIT)
        return ips_joins_overflow_error(err);
    if (s->bad)
        return ips_joins_set_error_and_blame_machine(
            r, s->bad_machine, "arcs that lead nowhere", err);
    return over == j->chain_count ? 0 : stall_error(s, r, err);
}

/* Chooses the END of the path: the candidate with the greatest EST, the first
 * of several equal ones. */
static int choose_path_end(struct ips_joined *j, struct ips_err *err)
{
    j->end_machine = j->end_node = j->end_join = IPS_NO_NODE;
    for (uint32_t n = 0; n < j->machine_count; n++) {
        struct ips_joined_machine *p = &j->machine[n];
        const uint8_t *at = p->candidates;
        for (uint32_t k = 0; k < p->head.candidates; k++) {
            uint64_t node, join, sum;
            at = ips_varint_read(at, &node);
            at = ips_varint_read(at, &join);
            at = ips_varint_read(at, &sum);
            join = join ? p->join + join - 1 : IPS_NO_NODE;
            sum += join == IPS_NO_NODE ? 0 : j->d[join] - 1;
            if (sum >= IPS_TIME_LIMIT)
                return ips_joins_overflow_error(err);
            if (j->end_machine != IPS_NO_NODE && sum <= j->t_max)
                continue;
            j->t_max = sum;
            j->end_machine = n;
            j->end_node = (uint32_t)node;
            j->end_join = (uint32_t)join;
        }
    }
    return 0;
}

static int solve_joins(struct ips_joins_reader *r, struct ips_err *err)
{
    struct ips_joined *j = r->j;
    struct solver s = {.j = j};
    int rc = ips_joins_read_except_arcs(r, err);
    if (rc < 0)
        return rc;
    s.chain = ips_alloc_large((size_t)j->chain_count + 1, sizeof(*s.chain));
    s.ready = ips_alloc_large((size_t)j->chain_count + 1, sizeof(*s.ready));
    rc = s.chain && s.ready
             ? solve_all_chains(&s, r, err)
             : ips_err_set(err, IPS_E_NO_MEMORY, "%u chains", j->chain_count);
    ips_free_large(s.chain);
    ips_free_large(s.ready);
    return rc < 0 ? rc : choose_path_end(j, err);
}

int ips_joined_decode_and_solve(const struct ips_machine_joins *parts,
                                uint32_t part_count,
                                const struct ips_scenario *scenario,
                                struct ips_joined *out, uint32_t *blame,
                                struct ips_err *err)
{
    struct ips_joins_reader r = {
        .machines = parts, .scenario = scenario, .j = out, .blame = blame};
    memset(out, 0, sizeof(*out));
    *blame = out->machine_count = part_count;
    out->machine = calloc((size_t)part_count + 1, sizeof(*out->machine));
    int rc = out->machine
                 ? solve_joins(&r, err)
                 : ips_err_set(err, IPS_E_NO_MEMORY, "%u parts", part_count);
    ips_joins_reader_release(&r);
    if (rc < 0)
        ips_joined_release(out);
    return rc;
}

/* ---- results ------------------------------------------------------------ */

static uint64_t value_of_join(const struct ips_joined *j, uint32_t join)
{
    return join == IPS_NO_NODE ? 0 : j->d[join] - 1;
}

uint32_t ips_joined_count_receives_of_machine(const struct ips_joined *j,
                                              uint32_t p)
{
    return j->machine[p].head.ins;
}

static uint64_t value_of_remote_receive(const struct ips_joined *j, uint32_t k)
{
    return value_of_join(j, j->in_src[k]) + j->in_add[k];
}

uint64_t ips_joined_get_value_of_receive(const struct ips_joined *j, uint32_t p,
                                         uint32_t k)
{
    k += j->machine[p].in;
    if (j->in_kind[k] & IPS_JOIN_ABSENT)
        return IPS_IN_ABSENT;
    return value_of_remote_receive(j, k);
}

size_t ips_joined_encode_receive_values(const struct ips_joined *j, uint32_t p,
                                        uint32_t *k, uint64_t *last,
                                        uint8_t *to, size_t cap)
{
    uint32_t n = ips_joined_count_receives_of_machine(j, p);
    uint8_t *at = to;
    for (; *k < n && cap - (size_t)(at - to) >= IPS_VARINT_BYTES; ++*k) {
        uint64_t value = ips_joined_get_value_of_receive(j, p, *k) +
                         1; /* IPS_IN_ABSENT, the greatest value, becomes 0 */
        at = ips_varint_write(at, ips_varint_zigzag_difference(*last, value));
        *last = value;
    }
    return (size_t)(at - to);
}

/* Returns the remote receive through which the path reaches `join`, or
 * IPS_NO_NODE if the path starts on this machine. */
static uint32_t walk_back_to_remote_receive(const struct ips_joined *j,
                                            uint32_t join)
{
    while (join != IPS_NO_NODE) {
        uint32_t won = j->won[join];
        if (won == WON_ZERO)
            break;
        if (won >= WON_IN && won < WON_ZERO)
            return won - WON_IN;
        if (won != WON_CHAIN)
            join = won;
        else if (j->first[join / 8] >> join % 8 & 1)
            break;
        else
            join--;
    }
    return IPS_NO_NODE;
}

static uint32_t find_machine_of_send(const struct ips_joined *j, uint32_t out)
{
    uint32_t low = 0, high = j->machine_count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (j->machine[mid].out <= out)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static void reverse_path_sections(struct ips_path_section *v, uint64_t n)
{
    for (uint64_t a = 0; a + 1 < n; a++) {
        struct ips_path_section swap = v[--n];
        v[n] = v[a];
        v[a] = swap;
    }
}

int ips_joined_list_path_sections(const struct ips_joined *j,
                                  struct ips_path_section **out,
                                  uint64_t *count, struct ips_err *err)
{
    uint64_t cap = 0;
    *out = NULL;
    *count = 0;
    if (j->end_machine == IPS_NO_NODE)
        return 0;
    uint32_t join = j->end_join, in;
    struct ips_path_section at = {
        .machine = j->end_machine, .out = IPS_NO_NODE, .to_ns = j->t_max};
    do {
        in = walk_back_to_remote_receive(j, join);
        at.in = in == IPS_NO_NODE ? in : in - j->machine[at.machine].in;
        at.xkind = in == IPS_NO_NODE ? IPS_X_NONE : j->in_kind[in];
        at.from_ns = in == IPS_NO_NODE ? 0 : value_of_remote_receive(j, in);
        if (*count == cap) {
            cap = cap * 2 + 64;
            struct ips_path_section *more = realloc(*out, cap * sizeof(*more));
            if (!more) {
                free(*out);
                *out = NULL;
                return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
            }
            *out = more;
        }
        (*out)[(*count)++] = at;
        if (in != IPS_NO_NODE) {
            uint32_t o = j->in_out[in];
            join = j->out_src[o];
            at.machine = find_machine_of_send(j, o);
            at.out = o - j->machine[at.machine].out;
            at.to_ns = value_of_join(j, join) + j->out_p[o];
        }
    } while (in != IPS_NO_NODE);
    reverse_path_sections(*out, *count);
    return 0;
}
