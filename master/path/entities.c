#include "master/path/entities.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/idmap.h"

const char *const entity_kind_names[ENTITY_KINDS] = {"machine", "process",
                                                     "procedure", "message"};

struct entities_builder {
    const struct ips_graph *g;
    struct entities *t;
    bool clip;
    /* maps from (process, receiver), and from (process, procedure), to the
     * number of the feature */
    struct ips_idmap messages, procedures;
    uint32_t feature_cap;
    /* [machines][symbols] number of each symbol's procedure */
    uint32_t **procedure_of;
};

void entities_release(struct entities *t)
{
    free(t->chain);
    free(t->cross);
    free(t->arc_share_first);
    free(t->arc_share);
    free(t->feature);
    free(t->process_base);
    free(t->procedure);
    free(t->entity);
    free(t->member);
    memset(t, 0, sizeof(*t));
}

static int set_entities_no_memory_error(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_NO_MEMORY,
                       "no memory for what can be asked about");
}

static bool add_feature(struct entities_builder *m, struct entity_feature one)
{
    struct entities *t = m->t;
    if (t->f.count == m->feature_cap) {
        uint32_t cap = m->feature_cap * 2 + 64;
        struct entity_feature *more = realloc(t->feature, cap * sizeof(*more));
        if (!more)
            return false;
        t->feature = more;
        m->feature_cap = cap;
    }
    t->feature[t->f.count++] = one;
    return true;
}

/* Sets *out to the number of the feature (process, what), which is created if
 * it does not exist. Returns false if there is no memory. */
static bool find_or_add_feature(struct entities_builder *m,
                                struct ips_idmap *map, uint32_t what,
                                struct entity_feature one, uint32_t *out)
{
    uint64_t key = (uint64_t)one.process << 32 | what;
    if (!ips_idmap_reserve_one_key(map))
        return false;
    uint64_t at = ips_idmap_find_slot(map, key);
    if (ips_idmap_slot_is_used(map, at)) {
        *out = map->value[at];
        return true;
    }
    *out = m->t->f.count;
    ips_idmap_fill_slot(map, at, key, *out);
    return add_feature(m, one);
}

/* ---- features of processes ---------------------------------------------- */

static int add_process_features(struct entities_builder *m, uint32_t *blame,
                                struct ips_err *err)
{
    struct entities *t = m->t;
    t->process_base =
        calloc((size_t)t->machine_count + 1, sizeof(*t->process_base));
    t->chain = calloc((size_t)m->g->chain_count + 1, sizeof(*t->chain));
    if (!t->process_base || !t->chain)
        return set_entities_no_memory_error(err);
    for (uint32_t p = 0; p < t->machine_count; p++) {
        t->process_base[p] = t->f.count;
        for (uint32_t i = 0; i < t->machine[p].process_count; i++) {
            if (!add_feature(m,
                             (struct entity_feature){.kind = ENTITY_PROCESS,
                                                     .process = t->f.count,
                                                     .machine = p,
                                                     .number = i,
                                                     .procedure = ENTITY_NONE,
                                                     .to = ENTITY_NONE}))
                return set_entities_no_memory_error(err);
        }
    }
    t->process_features = t->f.count;
    for (uint32_t c = 0; c < m->g->chain_count; c++) {
        const struct ips_chain *ch = &m->g->chains[c];
        if (ch->machine >= t->machine_count ||
            ch->process >= t->machine[ch->machine].process_count) {
            *blame = ch->machine < t->machine_count ? ch->machine : ENTITY_NONE;
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "thread %u.%u is of none of its processes",
                               ch->pid, ch->tid);
        }
        t->chain[c] = t->process_base[ch->machine] + ch->process;
    }
    return 0;
}

/* ---- features of messages ----------------------------------------------- */

static bool is_arc_message_or_outside_wait(const struct ips_graph *g,
                                           uint32_t node)
{
    return g->xpred[node] != IPS_NO_NODE &&
           (g->xkind[node] == IPS_X_DATA || g->xkind[node] == IPS_X_EXTERNAL ||
            g->xkind[node] == IPS_X_IDLE);
}

static int add_message_features(struct entities_builder *m, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    struct entities *t = m->t;
    t->cross = malloc(((size_t)g->node_count + 1) * sizeof(*t->cross));
    if (!t->cross)
        return set_entities_no_memory_error(err);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first; i < first + g->chains[c].count; i++) {
            t->cross[i] = IPS_NO_FEATURE;
            if (!is_arc_message_or_outside_wait(g, i))
                continue;
            uint32_t from = t->chain[ips_chain_of(g, g->xpred[i])];
            uint32_t to = g->xkind[i] == IPS_X_DATA       ? t->chain[c]
                          : g->xkind[i] == IPS_X_EXTERNAL ? ENTITY_EXTERNAL
                                                          : ENTITY_IDLE;
            struct entity_feature one = t->feature[from];
            one.kind = ENTITY_MESSAGE;
            one.to = to;
            if (!find_or_add_feature(m, &m->messages, to, one, &t->cross[i]))
                return set_entities_no_memory_error(err);
        }
    }
    return 0;
}

/* ---- features of procedures --------------------------------------------- */

struct named_symbol {
    const struct entity_symbol *symbol;
    uint32_t *number; /* where to store the number of the symbol's procedure */
};

static int compare_symbols_by_name(const void *a, const void *b)
{
    const struct entity_symbol *p = ((const struct named_symbol *)a)->symbol,
                               *q = ((const struct named_symbol *)b)->symbol;
    int order = strcmp(p->name, q->name);
    if (order == 0)
        order = strcmp(p->module, q->module);
    return order ? order : strcmp(p->file, q->file);
}

uint32_t entities_find_procedure(const struct entities *t,
                                 const struct entity_symbol *symbol)
{
    const struct named_symbol want = {.symbol = symbol};
    /* binary search; the procedures are sorted */
    uint32_t low = 0, high = t->procedure_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct named_symbol at = {.symbol = &t->procedure[mid]};
        int order = compare_symbols_by_name(&want, &at);
        if (order == 0)
            return mid;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return ENTITY_NONE;
}

/* Numbers the procedures. Symbols of different machines with equal name, module
 * and file are one procedure. */
static int assign_procedure_numbers(struct entities_builder *m,
                                    struct ips_err *err)
{
    struct entities *t = m->t;
    size_t total = 0, n = 0;
    m->procedure_of =
        calloc((size_t)t->machine_count + 1, sizeof(*m->procedure_of));
    for (uint32_t p = 0; p < t->machine_count; p++)
        total += t->machine[p].symbol_count;
    struct named_symbol *all = malloc((total + 1) * sizeof(*all));
    t->procedure = malloc((total + 1) * sizeof(*t->procedure));
    bool ok = m->procedure_of && all && t->procedure;
    for (uint32_t p = 0; p < t->machine_count && ok; p++) {
        uint32_t count = t->machine[p].symbol_count;
        m->procedure_of[p] = malloc(((size_t)count + 1) * sizeof(uint32_t));
        ok = m->procedure_of[p] != NULL;
        for (uint32_t i = 0; i < count && ok; i++)
            all[n++] = (struct named_symbol){&t->machine[p].symbol[i],
                                             &m->procedure_of[p][i]};
    }
    if (ok && n > 0)
        qsort(all, n, sizeof(*all), compare_symbols_by_name);
    for (size_t i = 0; i < n && ok; i++) {
        if (i == 0 || compare_symbols_by_name(&all[i - 1], &all[i]) != 0)
            t->procedure[t->procedure_count++] = *all[i].symbol;
        *all[i].number = t->procedure_count - 1;
    }
    free(all);
    return ok ? 0 : set_entities_no_memory_error(err);
}

static int add_arc_shares_of_machine(struct entities_builder *m, uint32_t p,
                                     uint64_t *at, uint32_t *node,
                                     struct ips_err *err)
{
    struct entities *t = m->t;
    const struct machine_entities *part = &t->machine[p];
    uint32_t before = 0;
    /* ns of the arc's weight that are not assigned to a procedure yet */
    uint64_t left = 0;
    for (uint64_t k = 0; k < part->arc_share_count; k++) {
        uint32_t own = part->node[k], i = part->node_base + own;
        if (own >= part->node_count || own < before ||
            (part->of[k] >= part->symbol_count && part->of[k] != ENTITY_NONE))
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "portion %llu of an arc is out of order",
                               (unsigned long long)k);
        if (k == 0 || own != before)
            left = m->g->w[i];
        before = own;
        uint64_t ns = m->clip && part->ns[k] > left ? left : part->ns[k];
        left -= m->clip ? ns : 0;
        while (*node <= i)
            t->arc_share_first[(*node)++] = *at;
        uint32_t process = t->chain[ips_chain_of(m->g, i)];
        t->arc_share[*at].ns = ns;
        if (part->of[k] == ENTITY_NONE) {
            t->arc_share[(*at)++].feature = process;
            continue;
        }
        uint32_t procedure = m->procedure_of[p][part->of[k]];
        struct entity_feature one = t->feature[process];
        one.kind = ENTITY_PROCEDURE;
        one.procedure = procedure;
        if (!find_or_add_feature(m, &m->procedures, procedure, one,
                                 &t->arc_share[*at].feature))
            return set_entities_no_memory_error(err);
        (*at)++;
    }
    return 0;
}

static int add_procedure_features(struct entities_builder *m, uint32_t *blame,
                                  struct ips_err *err)
{
    struct entities *t = m->t;
    uint64_t total = 0, at = 0;
    uint32_t node = 0;
    for (uint32_t p = 0; p < t->machine_count; p++)
        total += t->machine[p].arc_share_count;
    if (total == 0)
        return 0;
    size_t nodes = (size_t)m->g->node_count + 1;
    t->arc_share_first = malloc(nodes * sizeof(*t->arc_share_first));
    t->arc_share = malloc(total * sizeof(*t->arc_share));
    if (!t->arc_share_first || !t->arc_share)
        return set_entities_no_memory_error(err);
    int rc = assign_procedure_numbers(m, err);
    for (uint32_t p = 0; p < t->machine_count && rc == 0; p++) {
        rc = add_arc_shares_of_machine(m, p, &at, &node, err);
        if (rc == IPS_E_PROTOCOL)
            *blame = p;
    }
    while (node < nodes && rc == 0)
        t->arc_share_first[node++] = at;
    return rc;
}

/* ---- entities, as groups of features ------------------------------------- */

/* Returns the number of the entity of the given kind to which feature `f`
 * belongs; ENTITY_NONE: none. `message`: the number of message features before
 * `f`. */
static uint32_t entity_of_feature(const struct entities *t,
                                  const struct entity_feature *f,
                                  enum entity_kind kind, uint32_t message)
{
    switch (kind) {
    case ENTITY_MACHINE:
        return f->kind == ENTITY_MESSAGE ? ENTITY_NONE : f->machine;
    case ENTITY_PROCESS:
        return f->kind == ENTITY_MESSAGE ? ENTITY_NONE
                                         : t->machine_count + f->process;
    case ENTITY_PROCEDURE:
        return f->kind == ENTITY_PROCEDURE
                   ? t->machine_count + t->process_features + f->procedure
                   : ENTITY_NONE;
    case ENTITY_MESSAGE:
        return f->kind == ENTITY_MESSAGE
                   ? t->machine_count + t->process_features +
                         t->procedure_count + message
                   : ENTITY_NONE;
    case ENTITY_KINDS:
        break;
    }
    return ENTITY_NONE;
}

static enum entity_kind kind_of_entity_number(const struct entities *t,
                                              uint32_t thing)
{
    if (thing < t->machine_count)
        return ENTITY_MACHINE;
    if (thing < t->machine_count + t->process_features)
        return ENTITY_PROCESS;
    return thing < t->machine_count + t->process_features + t->procedure_count
               ? ENTITY_PROCEDURE
               : ENTITY_MESSAGE;
}

/* One pass of a counting sort of features by entity: with `fill` false counts
 * the members of each entity, with true writes them to t->member. */
static void count_or_list_members(struct entities *t, bool fill)
{
    uint32_t message = 0;
    for (uint32_t i = 0; i < t->f.count; i++) {
        for (int kind = 0; kind < ENTITY_KINDS; kind++) {
            uint32_t at = entity_of_feature(t, &t->feature[i],
                                            (enum entity_kind)kind, message);
            if (at == ENTITY_NONE)
                continue;
            if (fill)
                t->member[t->entity[at].first + t->entity[at].count] = i;
            t->entity[at].count++;
        }
        message += t->feature[i].kind == ENTITY_MESSAGE;
    }
}

static int group_features_into_entities(struct entities_builder *m,
                                        struct ips_err *err)
{
    struct entities *t = m->t;
    uint64_t messages = m->messages.count;
    uint32_t total = 0, kept = 0;
    t->entity_count = t->machine_count + t->process_features +
                      t->procedure_count + (uint32_t)messages;
    t->entity = calloc((size_t)t->entity_count + 1, sizeof(*t->entity));
    if (!t->entity)
        return set_entities_no_memory_error(err);
    count_or_list_members(t, false);
    for (uint32_t i = 0; i < t->entity_count; i++) {
        t->entity[i].kind = kind_of_entity_number(t, i);
        t->entity[i].first = total;
        total += t->entity[i].count;
        t->entity[i].count = 0;
    }
    t->member = malloc(((size_t)total + 1) * sizeof(*t->member));
    if (!t->member)
        return set_entities_no_memory_error(err);
    count_or_list_members(t, true);
    for (uint32_t i = 0; i < t->entity_count; i++) {
        if (t->entity[i].count)
            t->entity[kept++] = t->entity[i];
    }
    t->entity_count = kept;
    return 0;
}

int entities_make(const struct ips_graph *g,
                  const struct machine_entities *part, uint32_t part_count,
                  bool clip, struct entities *out, uint32_t *blame,
                  struct ips_err *err)
{
    struct entities_builder m = {.g = g, .t = out, .clip = clip};
    memset(out, 0, sizeof(*out));
    out->machine = part;
    out->machine_count = part_count;
    *blame = ENTITY_NONE;
    int rc = add_process_features(&m, blame, err);
    if (rc == 0)
        rc = add_message_features(&m, err);
    if (rc == 0)
        rc = add_procedure_features(&m, blame, err);
    if (rc == 0)
        rc = group_features_into_entities(&m, err);
    out->f.chain = out->chain;
    out->f.cross = out->cross;
    out->f.first = out->arc_share_first;
    out->f.arc_share = out->arc_share;
    if (rc == 0)
        rc = ips_features_check(g, &out->f, err);
    ips_idmap_release(&m.messages);
    ips_idmap_release(&m.procedures);
    for (uint32_t p = 0; m.procedure_of && p < part_count; p++)
        free(m.procedure_of[p]);
    free(m.procedure_of);
    if (rc < 0)
        entities_release(out);
    return rc;
}
