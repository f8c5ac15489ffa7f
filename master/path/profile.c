/* Combines what the slaves replied about the pieces of the path. Runs in the
 * worker. */
#include "master/path/profile.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/tables/procs.h"

/* ---- the window, and checks of the sums ---- */

static int set_wrong_sum_error(const struct query *q, uint32_t part,
                               uint64_t told, uint64_t ns, struct ips_err *err)
{
    return ips_err_set(err, IPS_E_CORRUPT,
                       "machine %s attributes %llu ns of a piece of %llu ns: a "
                       "bug in IPS, so no answer is given",
                       q->gather.active[part]->machine,
                       (unsigned long long)told, (unsigned long long)ns);
}

/* Returns the CPU time of piece k of a machine in the path's profile. For a
 * piece without arcs, ns[] says whether it is in the window. */
static uint64_t piece_cpu_ns(const struct profile_columns *f, uint32_t k)
{
    return f->from[k] != f->to[k] ? f->ns[k] : 0;
}

/* Cuts piece k of machine number `part` to the window: sets x->ns to the ns
 * inside, and adds their CPU time to *running. */
static int limit_piece_to_window(const struct query *q, uint32_t part,
                                 uint32_t k, struct path_piece *x,
                                 uint64_t *running, struct ips_err *err)
{
    const struct path_profile *pp = path_profile_of(q);
    const struct profile_columns *f = &pp->face[PROFILE_PATH][part];
    bool arcs = f->from[k] != f->to[k];
    uint64_t cpu = piece_cpu_ns(f, k);
    uint64_t left = pp->windowed ? f->weight_ns[k] : x->ns;
    if (left > x->ns || cpu > left || (pp->cpu && arcs && cpu != left))
        return set_wrong_sum_error(q, part, ips_max_u64(left, cpu), x->ns, err);
    *running = ips_add_sat(*running, cpu);
    x->ns = left;
    x->elsewhere = pp->windowed && !arcs && !f->ns[k];
    return 0;
}

/* Sets the ns of each piece in `cut`: those of the whole piece, or of its part
 * inside the window. Sets the profile's sums: how much of these ns was on the
 * CPU (reported by the slaves) and off it. In the weighting `cpu` all computing
 * is on the CPU. */
static int limit_pieces_to_window_and_sum_cpu(struct query *q,
                                              struct path_piece *cut,
                                              struct ips_err *err)
{
    const struct path_data *d = path_data_of(q);
    struct path_profile *pp = path_profile_of(q);
    uint64_t computing = 0, running = 0;
    int rc = 0;
    for (uint32_t i = 0; i < pp->machine_count; i++) {
        const struct profile_columns *f = &pp->face[PROFILE_PATH][i];
        for (uint32_t k = 0; rc == 0 && k < f->count; k++)
            rc = limit_piece_to_window(q, i, k, &cut[f->piece[k]], &running,
                                       err);
        pp->delay_ns = ips_add_sat(pp->delay_ns, f->delay_ns);
    }
    for (uint64_t i = 0; i < d->piece_count; i++) {
        if (cut[i].kind == IPS_SEG_COMPUTE)
            computing = ips_add_sat(computing, cut[i].ns);
        pp->window_ns = ips_add_sat(pp->window_ns, cut[i].ns);
    }
    pp->off_cpu_ns = pp->cpu ? 0 : ips_sub_sat(computing, running);
    pp->on_cpu_ns = computing - pp->off_cpu_ns;
    pp->delay_ns = ips_min_u64(pp->delay_ns, pp->off_cpu_ns);
    return rc;
}

/* Returns whether the piece counts in the window: it has ns inside, or it is a
 * message or a wait of 0 ns that ends inside. No share contains the others. */
static bool is_piece_counted_in_window(const struct path_piece *p)
{
    return p->ns || (p->kind != IPS_SEG_COMPUTE && !p->elsewhere);
}

/* Keeps the pieces of `cut` that count in the window. The profile takes
 * ownership of `cut`. */
static void keep_pieces_in_window(struct path_profile *pp,
                                  struct path_piece *cut, uint64_t count)
{
    pp->pieces = cut;
    for (uint64_t i = 0; i < count; i++)
        if (is_piece_counted_in_window(&cut[i]))
            cut[pp->piece_count++] = cut[i];
}

static int make_window_shares(struct query *q, const struct path_piece *cut,
                              struct ips_err *err)
{
    const struct path_data *d = path_data_of(q);
    struct path_profile *pp = path_profile_of(q);
    struct shares *s = &pp->shares;
    int rc = 0;
    s->at = d->scenarios[SCENARIO_MAIN].begin;
    for (uint64_t i = 0; i < d->piece_count && rc == 0; i++) {
        if (is_piece_counted_in_window(&cut[i]))
            rc = shares_add_next_piece(s, &cut[i], err);
        s->at = cut[i].at;
    }
    if (rc == 0)
        rc = shares_rank_and_check_sum(s, pp->window_ns, err);
    for (int list = 0; rc == 0 && list < SHARE_LISTS; list++)
        for (size_t i = 0; i < s->count[list]; i++) {
            struct share_row *row = &s->row[list][i];
            /* The paths of the other scenarios were not cut to the window, so
             * whether the window's shares are stable is not known. */
            row->stable = false;
            row->ns_low = row->ns_high = IPS_UNMEASURED;
        }
    return rc;
}

/* ---- rows of procedures ---- */

static int merge_procedure_rows_of_machines(struct path_profile *pp,
                                            struct ips_err *err)
{
    for (int side = 0; side < PROFILE_SIDES; side++)
        for (int list = 0; list < PROFILE_LISTS; list++) {
            struct profile_rows *r = &pp->rows[side][list];
            ips__procedure_totals__init(&r->totals);
            for (uint32_t i = 0; i < pp->machine_count; i++)
                if (pp->face[side][i].count)
                    procs_add_up_totals(&r->totals,
                                        &pp->face[side][i].totals[list]);
            r->count = (uint32_t)procs_merge(r->rows, r->count);
            r->totals.rows = r->count;
            procs_compute_intervals(r->rows, r->count, &r->totals);
        }
    for (uint32_t i = 0; i < pp->machine_count; i++)
        pp->alike_ns =
            ips_add_sat(pp->alike_ns, pp->face[PROFILE_PATH][i].alike_ns);
    for (int list = 0; list < PROFILE_LISTS; list++) {
        const struct profile_rows *path = &pp->rows[PROFILE_PATH][list];
        struct profile_rows *whole = &pp->rows[PROFILE_WHOLE][list];
        if (!procs_set_path_ns(whole->rows, whole->count, path->rows,
                               path->count))
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    }
    return 0;
}

/* ---- the whole graph by machine, process, thread ---- */

static int compare_chain_sums_by_key(const void *va, const void *vb)
{
    const struct profile_chain_sum *x = va, *y = vb;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

static int compare_chain_sums_by_ns(const void *va, const void *vb)
{
    const struct profile_chain_sum *x = va, *y = vb;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return compare_chain_sums_by_key(va, vb);
}

static void set_path_ns_of_sums(struct profile_chain_sum *sum, size_t count,
                                const struct shares *s, enum share_list list)
{
    for (size_t i = 0; count && i < s->count[list]; i++) {
        const struct profile_chain_sum key = {.a = s->row[list][i].a,
                                              .b = s->row[list][i].b};
        struct profile_chain_sum *at =
            bsearch(&key, sum, count, sizeof(*sum), compare_chain_sums_by_key);
        if (at)
            at->path_ns = s->row[list][i].ns;
    }
}

static int make_whole_graph_sums(struct query *q, enum share_list list,
                                 const struct shares *path, struct ips_err *err)
{
    struct path_profile *pp = path_profile_of(q);
    size_t n = 0, kept = 0;
    for (uint32_t i = 0; i < pp->machine_count; i++)
        n += pp->face[PROFILE_WHOLE][i].count;
    struct profile_chain_sum *sum = calloc(n + 1, sizeof(*sum));
    if (!sum)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    n = 0;
    for (uint32_t i = 0; i < pp->machine_count; i++) {
        const struct profile_columns *f = &pp->face[PROFILE_WHOLE][i];
        for (uint32_t k = 0; k < f->count; k++) {
            const Ips__ThreadRow *t = q->gather.active[i]->t.threads[k];
            sum[n++] = (struct profile_chain_sum){
                .a =
                    (uint64_t)i << 32 | (list > SHARE_MACHINE ? t->process : 0),
                .b = list == SHARE_THREAD ? t->tid : SHARE_NONE,
                .ns = f->ns[k],
                .count = 1};
        }
    }
    qsort(sum, n, sizeof(*sum), compare_chain_sums_by_key);
    for (size_t i = 0; i < n; i++)
        if (kept && compare_chain_sums_by_key(&sum[kept - 1], &sum[i]) == 0) {
            sum[kept - 1].ns = ips_add_sat(sum[kept - 1].ns, sum[i].ns);
            sum[kept - 1].count++;
        } else {
            sum[kept++] = sum[i];
        }
    set_path_ns_of_sums(sum, kept, path, list);
    qsort(sum, kept, sizeof(*sum), compare_chain_sums_by_ns);
    pp->whole[list] = sum;
    pp->whole_count[list] = kept;
    pp->whole_ns = 0;
    for (size_t i = 0; i < kept; i++)
        pp->whole_ns = ips_add_sat(pp->whole_ns, sum[i].ns);
    return 0;
}

/* ---- sequences of steps ---- */

struct named_step {
    struct profile_step_key what;
    uint32_t at;
};

static int compare_steps_by_code(const void *va, const void *vb)
{
    const struct named_step *x = va, *y = vb;
    if (x->what.machine != y->what.machine)
        return x->what.machine < y->what.machine ? -1 : 1;
    if (x->what.process != y->what.process)
        return x->what.process < y->what.process ? -1 : 1;
    if (x->what.code != y->what.code)
        return x->what.code < y->what.code ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* A list of steps under construction. Adjacent steps in the same code are
 * merged; `named` says in which code each step is. */
struct step_sequence {
    struct ips_step *step;
    struct named_step *named;
    uint32_t n;
};

static void append_or_extend_step(struct step_sequence *l,
                                  struct profile_step_key what, uint64_t ns,
                                  uint64_t gap)
{
    struct ips_step *last = l->n ? &l->step[l->n - 1] : NULL;
    if (last && memcmp(&l->named[l->n - 1].what, &what, sizeof(what)) == 0) {
        last->ns = ips_add_sat(last->ns, ips_add_sat(gap, ns));
        return;
    }
    l->step[l->n] = (struct ips_step){.ns = ns, .gap_ns = gap};
    l->named[l->n] = (struct named_step){what, l->n};
    l->n++;
}

/* Adds the steps of the path in order of time. A step's gap is the time of
 * messages and waits before it. */
static void add_path_steps(const struct query *q, const struct path_piece *cut,
                           struct step_sequence *l, size_t *at)
{
    const struct path_data *d = q->data;
    const struct path_profile *pp = path_profile_of(q);
    uint64_t gap = 0;
    for (uint64_t i = 0; i < d->piece_count; i++) {
        const struct path_piece *x = &cut[i];
        const struct profile_columns *f =
            &pp->face[PROFILE_PATH][x->at.machine];
        size_t *k = &at[x->at.machine];
        if (x->kind != IPS_SEG_COMPUTE) {
            gap = ips_add_sat(gap, x->ns);
            continue;
        }
        for (; *k < f->step_count && f->piece[f->steps[*k].piece] <= i; ++*k) {
            const struct profile_step *s = &f->steps[*k];
            append_or_extend_step(l,
                                  (struct profile_step_key){
                                      x->at.machine, x->at.process, s->code},
                                  s->ns, gap);
            gap = 0;
        }
    }
}

/* Adds the steps of each thread of the whole graph. A unique step between two
 * threads prevents sequences that extend over both. */
static void append_steps_of_all_threads(const struct query *q,
                                        struct step_sequence *l)
{
    const struct path_profile *pp = path_profile_of(q);
    for (uint32_t i = 0; i < pp->machine_count; i++) {
        const struct profile_columns *f = &pp->face[PROFILE_WHOLE][i];
        for (size_t k = 0; k < f->step_count; k++) {
            const struct profile_step *s = &f->steps[k];
            const Ips__ThreadRow *t = q->gather.active[i]->t.threads[s->piece];
            if (k == 0 || s->piece != f->steps[k - 1].piece)
                append_or_extend_step(
                    l, (struct profile_step_key){UINT32_MAX, l->n, UINT32_MAX},
                    0, 0);
            append_or_extend_step(
                l, (struct profile_step_key){i, t->process, s->code}, s->ns, 0);
        }
    }
}

static int find_common_sequences(struct profile_sequences *s,
                                 struct step_sequence *l, struct ips_err *err)
{
    uint32_t whats = 0;
    qsort(l->named, l->n, sizeof(*l->named), compare_steps_by_code);
    for (uint32_t i = 0; i < l->n; i++) {
        const struct named_step *x = &l->named[i];
        if (whats == 0 ||
            memcmp(&s->whats[whats - 1], &x->what, sizeof(x->what)) != 0)
            s->whats[whats++] = x->what;
        l->step[x->at].what = whats - 1;
    }
    s->step_count = l->n;
    return ips_find_costliest_step_sequences(
        s->steps, l->n, 5, PROFILE_SEQUENCES, s->result, &s->count, err);
}

static int make_sequences(struct query *q, enum profile_side side,
                          const struct path_piece *cut, struct ips_err *err)
{
    struct path_profile *pp = path_profile_of(q);
    struct profile_sequences *s = &pp->sequences[side];
    size_t room = 1;
    int rc = 0;
    for (uint32_t i = 0; i < pp->machine_count; i++)
        room += pp->face[side][i].step_count +
                (side == PROFILE_WHOLE ? pp->face[side][i].count : 0);
    if (room >= UINT32_MAX / 2)
        return ips_err_set(err, IPS_E_LIMIT,
                           "%zu steps: too many to look for sequences", room);
    size_t *at = calloc((size_t)pp->machine_count + 1, sizeof(*at));
    struct step_sequence l = {.named = malloc(room * sizeof(*l.named))};
    s->steps = l.step = malloc(room * sizeof(*s->steps));
    s->whats = malloc(room * sizeof(*s->whats));
    if (!l.named || !at || !s->steps || !s->whats) {
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    } else {
        if (side == PROFILE_PATH)
            add_path_steps(q, cut, &l, at);
        else
            append_steps_of_all_threads(q, &l);
        rc = find_common_sequences(s, &l, err);
    }
    free(l.named);
    free(at);
    return rc;
}

/* ---- the whole profile ---- */

/* Computes the shares of the path's CPU time alone, for comparison with the
 * whole graph. */
static int compute_cpu_shares(const struct query *q,
                              const struct path_piece *cut, struct shares *out,
                              struct ips_err *err)
{
    const struct path_profile *pp = path_profile_of(q);
    uint64_t sum = 0;
    int rc = 0;
    for (uint32_t i = 0; i < pp->machine_count; i++) {
        const struct profile_columns *f = &pp->face[PROFILE_PATH][i];
        for (uint32_t k = 0; k < f->count && rc == 0; k++) {
            struct path_piece cpu = cut[f->piece[k]];
            if (cpu.kind != IPS_SEG_COMPUTE)
                continue;
            cpu.ns = piece_cpu_ns(f, k);
            sum = ips_add_sat(sum, cpu.ns);
            rc = shares_add_next_piece(out, &cpu, err);
        }
    }
    return rc < 0 ? rc : shares_rank_and_check_sum(out, sum, err);
}

int path_profile_make(struct query *q, struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    const Ips__PathAsk *ask = q->request->path;
    struct path_profile *pp = path_profile_of(q);
    struct path_piece *cut = d->pieces;
    if (pp->windowed) {
        cut = malloc(((size_t)d->piece_count + 1) * sizeof(*cut));
        if (!cut)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        memcpy(cut, d->pieces, (size_t)d->piece_count * sizeof(*cut));
    }
    int rc = limit_pieces_to_window_and_sum_cpu(q, cut, err);
    if (rc == 0 && pp->windowed)
        rc = make_window_shares(q, cut, err);
    if (rc == 0)
        rc = merge_procedure_rows_of_machines(pp, err);
    for (int side = 0; rc == 0 && ask->sequences && side < PROFILE_SIDES;
         side++)
        rc = make_sequences(q, (enum profile_side)side, cut, err);
    struct shares path = {0};
    if (rc == 0 && ask->whole)
        rc = compute_cpu_shares(q, cut, &path, err);
    for (int list = SHARE_MACHINE;
         rc == 0 && ask->whole && list <= SHARE_THREAD; list++)
        rc = make_whole_graph_sums(q, (enum share_list)list, &path, err);
    shares_release(&path);
    if (pp->windowed)
        keep_pieces_in_window(pp, cut, d->piece_count);
    return rc;
}
