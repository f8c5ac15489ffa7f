/* What the slaves said of the path's pieces, put together; in the worker. */
#include "master/path_profile.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/procs.h"

/* ---- the window, and whether the sums are true ---- */

/* ns of each piece of the path: as it is, or what of it is in the window. */
static int cut_pieces(struct query *q, struct path_piece *cut,
                      struct ips_err *err)
{
    const struct path_data *d = path_of(q);
    struct path_profile *pp = profile_of(q);
    bool cpu = d->lanes[LANE_MAIN].lane.weighting == IPS_WEIGH_CPU;
    for (uint32_t i = 0; i < pp->parts; i++) {
        const struct profile_face *f = &pp->face[PROFILE_PATH][i];
        for (uint32_t k = 0; k < f->count; k++) {
            struct path_piece *x = &cut[f->piece[k]];
            bool compute = x->kind == IPS_SEG_COMPUTE;
            if (!cpu)
                continue; /* what ran of it; the rest the answer's sums say */
            if (f->ns[k] > (compute ? x->ns : 1) ||
                (!pp->windowed && f->ns[k] != x->ns))
                return ips_err_set(err, IPS_E_CORRUPT,
                                   "machine %s tells what %llu ns of a piece "
                                   "of %llu ns were spent on: a bug of IPS, "
                                   "no answer is given",
                                   q->gather.active[i]->machine,
                                   (unsigned long long)f->ns[k],
                                   (unsigned long long)x->ns);
            x->ns = compute ? f->ns[k] : f->ns[k] ? x->ns : 0;
            if (!compute && !f->ns[k])
                x->xkind = IPS_X_NONE; /* not of the window, so no message */
        }
    }
    for (uint64_t i = 0; i < d->piece_count; i++)
        pp->window_ns = ips_add_sat(pp->window_ns, cut[i].ns);
    return 0;
}

/* Pieces that the window leaves nothing of are no part of anybody's share. */
static uint64_t drop_empty(struct path_piece *p, uint64_t count)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++)
        if (p[i].ns || (p[i].kind != IPS_SEG_COMPUTE && p[i].xkind))
            p[kept++] = p[i];
    return kept;
}

static int make_window(struct query *q, const struct path_piece *cut,
                       struct ips_err *err)
{
    struct path_data *d = path_of(q);
    struct path_profile *pp = profile_of(q);
    struct path_piece *in = malloc(((size_t)d->piece_count + 1) * sizeof(*in));
    if (!in)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    memcpy(in, cut, (size_t)d->piece_count * sizeof(*in));
    uint64_t n = drop_empty(in, d->piece_count);
    int rc = shares_make(in, n, pp->window_ns, &pp->shares, err);
    for (int list = 0; rc == 0 && list < SHARE_LISTS; list++)
        for (size_t i = 0; i < pp->shares.count[list]; i++) {
            struct share_row *row = &pp->shares.row[list][i];
            row->stable = false; /* lanes have other paths: not told */
            row->ns_low = row->ns_high = IPS_UNMEASURED;
        }
    pp->pieces = in;
    pp->piece_count = n;
    return rc;
}

/* ---- procedures ---- */

static int make_rows(struct path_profile *pp, struct ips_err *err)
{
    for (int side = 0; side < PROFILE_SIDES; side++)
        for (int list = 0; list < PROFILE_LISTS; list++) {
            struct profile_rows *r = &pp->rows[side][list];
            ips__procedure_totals__init(&r->totals);
            for (uint32_t i = 0; i < pp->parts; i++)
                if (pp->face[side][i].count)
                    procs_add_totals(&r->totals,
                                     &pp->face[side][i].totals[list]);
            r->count = (uint32_t)procs_merge(r->rows, r->count);
            r->totals.rows = r->count;
            procs_intervals(r->rows, r->count, &r->totals);
        }
    for (uint32_t i = 0; i < pp->parts; i++)
        pp->alike_ns =
            ips_add_sat(pp->alike_ns, pp->face[PROFILE_PATH][i].alike_ns);
    for (int list = 0; list < PROFILE_LISTS; list++) {
        const struct profile_rows *path = &pp->rows[PROFILE_PATH][list];
        struct profile_rows *whole = &pp->rows[PROFILE_WHOLE][list];
        if (!procs_attach_path(whole->rows, whole->count, path->rows,
                               path->count))
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    }
    return 0;
}

/* ---- the whole graph by machine, process, thread ---- */

static int by_place(const void *va, const void *vb)
{
    const struct profile_chain_sum *x = va, *y = vb;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

static int by_size(const void *va, const void *vb)
{
    const struct profile_chain_sum *x = va, *y = vb;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return by_place(va, vb);
}

static void attach_path(struct profile_chain_sum *sum, size_t count,
                        const struct shares *s, enum share_list list)
{
    for (size_t i = 0; count && i < s->count[list]; i++) {
        const struct profile_chain_sum key = {.a = s->row[list][i].a,
                                              .b = s->row[list][i].b};
        struct profile_chain_sum *at =
            bsearch(&key, sum, count, sizeof(*sum), by_place);
        if (at)
            at->path_ns = s->row[list][i].ns;
    }
}

static int make_whole(struct query *q, enum share_list list,
                      const struct shares *path, struct ips_err *err)
{
    struct path_profile *pp = profile_of(q);
    size_t n = 0, kept = 0;
    for (uint32_t i = 0; i < pp->parts; i++)
        n += pp->face[PROFILE_WHOLE][i].count;
    struct profile_chain_sum *sum = calloc(n + 1, sizeof(*sum));
    if (!sum)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    n = 0;
    for (uint32_t i = 0; i < pp->parts; i++) {
        const struct profile_face *f = &pp->face[PROFILE_WHOLE][i];
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
    qsort(sum, n, sizeof(*sum), by_place);
    for (size_t i = 0; i < n; i++)
        if (kept && by_place(&sum[kept - 1], &sum[i]) == 0) {
            sum[kept - 1].ns = ips_add_sat(sum[kept - 1].ns, sum[i].ns);
            sum[kept - 1].count++;
        } else {
            sum[kept++] = sum[i];
        }
    attach_path(sum, kept, path, list);
    qsort(sum, kept, sizeof(*sum), by_size);
    pp->whole[list] = sum;
    pp->whole_count[list] = kept;
    pp->whole_ns = 0;
    for (size_t i = 0; i < kept; i++)
        pp->whole_ns = ips_add_sat(pp->whole_ns, sum[i].ns);
    return 0;
}

/* ---- sequences ---- */

struct named_step {
    struct profile_what what;
    uint32_t at;
};

static int by_what(const void *va, const void *vb)
{
    const struct named_step *x = va, *y = vb;
    if (x->what.part != y->what.part)
        return x->what.part < y->what.part ? -1 : 1;
    if (x->what.process != y->what.process)
        return x->what.process < y->what.process ? -1 : 1;
    if (x->what.code != y->what.code)
        return x->what.code < y->what.code ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* The path's steps in its order, neighbours of equal kind as one; what each is
 * in `named`. Returns how many. */
static uint32_t line_up(const struct query *q, const struct path_piece *cut,
                        struct ips_step *step, struct named_step *named,
                        size_t *at)
{
    const struct path_data *d = q->data;
    const struct path_profile *pp = profile_of(q);
    uint64_t gap = 0;
    uint32_t n = 0;
    for (uint64_t i = 0; i < d->piece_count; i++) {
        const struct path_piece *x = &cut[i];
        const struct profile_face *f = &pp->face[PROFILE_PATH][x->at.part];
        size_t *k = &at[x->at.part];
        if (x->kind != IPS_SEG_COMPUTE) {
            gap = ips_add_sat(gap, x->ns);
            continue;
        }
        for (; *k < f->step_count && f->piece[f->steps[*k].piece] <= i; ++*k) {
            const struct profile_step *s = &f->steps[*k];
            const struct profile_what what = {x->at.part, x->at.process,
                                              s->code};
            if (n && memcmp(&named[n - 1].what, &what, sizeof(what)) == 0) {
                step[n - 1].ns = ips_add_sat(step[n - 1].ns, gap + s->ns);
            } else {
                step[n] = (struct ips_step){.ns = s->ns, .gap_ns = gap};
                named[n] = (struct named_step){what, n};
                n++;
            }
            gap = 0;
        }
    }
    return n;
}

static int make_sequences(struct query *q, const struct path_piece *cut,
                          struct ips_err *err)
{
    struct path_profile *pp = profile_of(q);
    struct profile_sequences *s = &pp->sequences;
    size_t room = 0;
    uint32_t whats = 0;
    int rc = 0;
    for (uint32_t i = 0; i < pp->parts; i++)
        room += pp->face[PROFILE_PATH][i].step_count;
    if (room >= UINT32_MAX / 2)
        return ips_err_set(err, IPS_E_LIMIT,
                           "%zu steps: too many to look for "
                           "sequences",
                           room);
    struct named_step *named = malloc((room + 1) * sizeof(*named));
    size_t *at = calloc((size_t)pp->parts + 1, sizeof(*at));
    s->steps = malloc((room + 1) * sizeof(*s->steps));
    s->whats = malloc((room + 1) * sizeof(*s->whats));
    if (!named || !at || !s->steps || !s->whats)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    if (rc == 0) {
        s->step_count = line_up(q, cut, s->steps, named, at);
        qsort(named, s->step_count, sizeof(*named), by_what);
        for (uint32_t i = 0; i < s->step_count; i++) {
            if (whats == 0 || memcmp(&s->whats[whats - 1], &named[i].what,
                                     sizeof(*s->whats)) != 0)
                s->whats[whats++] = named[i].what;
            s->steps[named[i].at].what = whats - 1;
        }
        rc = ips_sequences(s->steps, s->step_count, 5, PROFILE_SEQUENCES,
                           s->found, &s->count, err);
    }
    free(named);
    free(at);
    return rc;
}

/* ---- all ---- */

int path_profile_make(struct query *q, struct ips_err *err)
{
    struct path_data *d = path_of(q);
    const Ips__PathAsk *ask = q->request->path;
    struct path_profile *pp = profile_of(q);
    struct path_piece *cut =
        malloc(((size_t)d->piece_count + 1) * sizeof(*cut));
    if (!cut)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    memcpy(cut, d->pieces, (size_t)d->piece_count * sizeof(*cut));
    int rc = cut_pieces(q, cut, err);
    if (rc == 0 && pp->windowed)
        rc = make_window(q, cut, err);
    if (rc == 0)
        rc = make_rows(pp, err);
    if (rc == 0 && ask->sequences)
        rc = make_sequences(q, cut, err);
    const struct shares *path =
        pp->windowed ? &pp->shares : &d->lanes[LANE_MAIN].shares;
    for (int list = SHARE_MACHINE;
         rc == 0 && ask->whole && list <= SHARE_THREAD; list++)
        rc = make_whole(q, (enum share_list)list, path, err);
    free(cut);
    return rc;
}
