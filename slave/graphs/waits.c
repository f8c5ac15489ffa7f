/* Makes a graph's waits and their code locations. */
#include "slave/graphs/waits.h"

#include "common/large.h"
#include "slave/build/internal.h"

struct waits_builder {
    struct slave_waits *w;
    struct ips_wait_rows *rows;
    const struct slave_input *in;
    /* [of_code_capacity] index + 1 of the call site made for each code
     * location; 0: none yet */
    uint32_t *of_code;
    uint32_t of_code_capacity;
    /* [rows.stack_count] index + 1 of the call site made for each stack; 0:
     * none yet */
    uint32_t *of_stack;
    struct ips_err *err;
};

void slave_waits_free(struct slave_waits *w)
{
    if (!w)
        return;
    ips_free_large(w->row);
    ips_free_large(w->giver);
    ips_free_large(w->lock);
    ips_free_large(w->blocked);
    ips_free_large(w->blocked_site);
    ips_free_large(w->site);
    ips_free_large(w->frame);
    ips_codemap_release(&w->map);
    slave_symbols_release(&w->names);
    free(w);
}

/* ---- sites -------------------------------------------------------------- */

static int add_wait_site(struct waits_builder *k, struct slave_wait_site p,
                         uint32_t *out)
{
    struct slave_waits *w = k->w;
    int rc = 0;
    if (w->site_count == w->site_capacity)
        rc = b_array_reserve((void **)&w->site, w->site_count,
                             &w->site_capacity, sizeof(*w->site), k->err);
    *out = w->site_count;
    if (rc == 0)
        w->site[w->site_count++] = p;
    return rc;
}

static int locate_wait_code(struct waits_builder *k, uint32_t stream,
                            uint64_t address, uint64_t t_ns, uint32_t *place)
{
    struct ips_codemap *map = &k->w->map;
    const struct ips_stream_in *s = &k->in->in.streams[stream];
    return ips_codemap_find_or_add_location(
        map, ips_codemap_find_image_of_stream(map, &s->head), address, t_ns,
        true, place, k->err);
}

/* Returns true if the code location is in a system library or in IPS: a wait
 * there is attributed to the code that called it. */
static bool is_system_library_or_ips(const struct ips_codemap *map,
                                     uint32_t place)
{
    static const char *const names[] = {"libc.so.",   "libc-",     "ld-linux",
                                        "libpthread", "libstdc++", "libgcc_s",
                                        "libips",     "[vdso]",    NULL};
    uint32_t module = map->locations[place].module;
    if (module == IPS_NONE)
        return false;
    const char *base = ips_code_path_base_name(map->modules[module].path);
    for (int i = 0; names[i]; i++)
        if (strncmp(base, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int find_or_add_site_of_stack(struct waits_builder *k, uint32_t stack,
                                     uint32_t *out)
{
    struct slave_waits *w = k->w;
    const struct ips_wait_stack *s = &k->rows->stack[stack];
    struct slave_wait_site p = {.code_location = IPS_NONE,
                                .first = w->frame_count};
    if (k->of_stack[stack]) {
        *out = k->of_stack[stack] - 1;
        return 0;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t code;
        int rc = locate_wait_code(k, s->stream, k->rows->frame[s->first + i],
                                  s->t_ns, &code);
        if (rc == 0 && w->frame_count == w->frame_capacity)
            rc = b_array_reserve((void **)&w->frame, w->frame_count,
                                 &w->frame_capacity, sizeof(*w->frame), k->err);
        if (rc < 0)
            return rc;
        w->frame[w->frame_count++] = code;
        if (p.code_location == IPS_NONE &&
            !is_system_library_or_ips(&w->map, code))
            p.code_location = code;
    }
    p.count = w->frame_count - p.first;
    if (p.code_location == IPS_NONE && p.count)
        p.code_location = w->frame[p.first];
    int rc = add_wait_site(k, p, out);
    if (rc == 0)
        k->of_stack[stack] = *out + 1;
    return rc;
}

static int find_or_add_site_of_call(struct waits_builder *k, uint32_t stream,
                                    uint64_t site, uint64_t t_ns, uint32_t *out)
{
    uint32_t code;
    int rc = locate_wait_code(k, stream, site, t_ns, &code);
    while (rc == 0 && code >= k->of_code_capacity) {
        uint32_t before = k->of_code_capacity;
        rc = b_array_reserve((void **)&k->of_code, before, &k->of_code_capacity,
                             sizeof(*k->of_code), k->err);
        if (rc == 0)
            memset(k->of_code + before, 0,
                   (k->of_code_capacity - before) * sizeof(*k->of_code));
    }
    if (rc < 0)
        return rc;
    if (!k->of_code[code]) {
        rc = add_wait_site(k, (struct slave_wait_site){.code_location = code},
                           out);
        if (rc < 0)
            return rc;
        k->of_code[code] = *out + 1;
    }
    *out = k->of_code[code] - 1;
    return 0;
}

static int compare_node_to_release(const void *va, const void *vb)
{
    uint32_t node = *(const uint32_t *)va;
    const struct ips_release_row *r = vb;
    return (node > r->node) - (node < r->node);
}

/* If another thread of this machine ended wait `i` by releasing a lock, sets
 * w->giver[i] to the call site of the release. */
static int set_site_of_release(struct waits_builder *k,
                               const struct ips_graph *g, uint32_t i)
{
    const struct ips_wait_row *r = &k->w->row[i];
    const struct ips_wait_rows *all = k->rows;
    if (!r->of_node || r->arc >= g->node_count || all->release_count == 0 ||
        g->xpred[r->arc] == IPS_NO_NODE)
        return 0;
    const struct ips_release_row *x =
        bsearch(&g->xpred[r->arc], all->release, all->release_count,
                sizeof(*all->release), compare_node_to_release);
    return x ? find_or_add_site_of_call(k, x->stream, x->site, x->t_ns,
                                        &k->w->giver[i])
             : 0;
}

static int make_sites_of_waits_and_blocked_calls(struct waits_builder *k,
                                                 const struct ips_graph *g)
{
    struct slave_waits *w = k->w;
    uint32_t unknown, paged;
    k->of_stack = b_calloc(k->rows->stack_count, sizeof(*k->of_stack), k->err);
    int rc = k->of_stack ? 0 : IPS_E_NO_MEMORY;
    if (rc == 0)
        rc = add_wait_site(
            k, (struct slave_wait_site){.code_location = IPS_NONE}, &unknown);
    if (rc == 0)
        rc = add_wait_site(
            k, (struct slave_wait_site){.code_location = SLAVE_PAGE_FAULTS},
            &paged);
    for (uint32_t i = 0; rc == 0 && i < w->count; i++) {
        struct ips_wait_row *r = &w->row[i];
        uint32_t place = 0;
        if (r->site == B_SITE_PAGE_FAULTS)
            place = paged;
        else if (r->stack != IPS_NONE)
            rc = find_or_add_site_of_stack(k, r->stack, &place);
        else if (r->site)
            rc = find_or_add_site_of_call(k, r->stream, r->site, r->end_ns,
                                          &place);
        r->stack = place;
        if (rc == 0)
            rc = set_site_of_release(k, g, i);
    }
    for (uint32_t i = 0; rc == 0 && i < w->blocked_count; i++) {
        const struct ips_blocked_row *r = &w->blocked[i];
        if (r->begun.site)
            rc = find_or_add_site_of_call(k, r->stream, r->begun.site,
                                          r->since_ns, &w->blocked_site[i]);
    }
    return rc;
}

/* ---- all of it ---------------------------------------------------------- */

int slave_graph_make_waits_from_rows(struct slave_graphs *gs,
                                     struct slave_graph *g,
                                     const struct slave_input *in,
                                     struct ips_wait_rows *rows,
                                     struct ips_err *err)
{
    struct waits_builder k = {.in = in, .rows = rows, .err = err};
    struct slave_waits *w = k.w = calloc(1, sizeof(*w));
    if (!w)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    w->row = rows->row; /* move the arrays out of `rows` */
    w->count = rows->count;
    w->lock = rows->lock;
    w->lock_count = rows->lock_count;
    w->blocked = rows->blocked;
    w->blocked_count = rows->blocked_count;
    rows->row = NULL;
    rows->lock = NULL;
    rows->blocked = NULL;
    w->blocked_site = b_calloc(w->blocked_count, sizeof(*w->blocked_site), err);
    w->giver = b_calloc(w->count, sizeof(*w->giver), err);
    int rc = w->blocked_site && w->giver
                 ? ips_codemap_make(&in->in, &w->map, err)
                 : IPS_E_NO_MEMORY;
    if (rc == 0)
        rc = make_sites_of_waits_and_blocked_calls(&k, &g->b.g);
    if (rc == 0)
        rc = slave_graph_fill_symbol_names_of_map(gs, g, &w->map, &w->names,
                                                  err);
    ips_free_large(k.of_stack);
    ips_free_large(k.of_code);
    if (rc < 0)
        slave_waits_free(w);
    else
        g->waits = w;
    return rc;
}

/* Builds the graph again, to get its waits in *rows. IPS_E_BUSY: the new graph
 * differs; the same records give the same graph, so the run has changed. */
static int rebuild_graph_for_waits(const struct slave_input *from,
                                   const struct slave_graph *g,
                                   struct ips_wait_rows *rows,
                                   struct ips_err *err)
{
    struct ips_built again;
    struct ips_build_input in = from->in;
    in.waits = rows;
    int rc = ips_build(&in, &again, err);
    if (rc < 0)
        return rc;
    if (again.g.node_count != g->b.g.node_count)
        rc = ips_err_set(err, IPS_E_BUSY,
                         "run %s has another graph now: ask again",
                         g->snap->run);
    ips_built_release(&again);
    return rc;
}

int slave_graph_rebuild_for_missing_waits(struct slave_graphs *gs,
                                          struct slave_graph *g,
                                          struct ips_err *err)
{
    struct slave_input in;
    struct ips_wait_rows rows = {0};
    if (g->waits)
        return 0;
    int rc = slave_input_fill_from_snapshot(gs, g->snap, &in, err);
    if (rc == 0)
        rc = rebuild_graph_for_waits(&in, g, &rows, err);
    if (rc == 0)
        rc = slave_graph_make_waits_from_rows(gs, g, &in, &rows, err);
    slave_input_release(gs, &in);
    ips_wait_rows_release(&rows);
    return rc < 0 ? ips_err_wrap(err, rc, "run %s", g->snap->run) : 0;
}
