/* The message matrices of Table 2, as cells and as sums of rows and columns. */
#include "common/object.h"
#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/tables/metrics_private.h"

static char *cell_object_name(struct metrics_maker *k, uint64_t who,
                              bool machine)
{
    if (who == MATRIX_EXTERNAL)
        return ips_unconst_text("external");
    if (who == MATRIX_PENDING)
        return ips_unconst_text("pending");
    const struct machine_share *p = k->shares[who >> 32];
    if (machine)
        return arena_printf(k->a, "/%s", p->machine);
    return metrics_process_name(k, p, (uint32_t)who);
}

bool metrics_cell_involves(const char *object, const Ips__MatrixCell *c)
{
    return !*object ||
           (*c->from == '/' && ips_object_matches_pattern(object, c->from)) ||
           (*c->to == '/' && ips_object_matches_pattern(object, c->to));
}

void metrics_add_matrix(struct metrics_maker *k, const struct matrix *m,
                        bool machine, Ips__MatrixCell ***list, size_t *count)
{
    size_t cap = 0;
    for (size_t i = 0; i < m->count; i++) {
        Ips__MatrixCell *c = arena_alloc(k->a, sizeof(*c));
        if (!c ||
            !arena_reserve_array_slot(k->a, list, *count, &cap, sizeof(**list)))
            return;
        ips__matrix_cell__init(c);
        c->from = cell_object_name(k, m->cells[i].from, machine);
        c->to = cell_object_name(k, m->cells[i].to, machine);
        c->messages = m->cells[i].messages;
        c->bytes = m->cells[i].bytes;
        if (!machine && !metrics_cell_involves(k->object, c))
            continue;
        if (*count == METRICS_MAX_CELLS && !k->all)
            k->cut++;
        else
            (*list)[(*count)++] = c;
    }
}

void metrics_add_matrix_totals(struct metrics_maker *k,
                               const struct metrics_traffic *m, bool machine,
                               Ips__MatrixTotal ***list, size_t *count)
{
    size_t cap = 0, f = 0, t = 0;
    const struct matrix *from = &m->by_from, *to = &m->by_to;
    Ips__MatrixTotal *all = arena_alloc(k->a, sizeof(*all));
    if (!all)
        return;
    ips__matrix_total__init(all);
    while (f < from->count || t < to->count) {
        uint64_t who = IPS_UNMEASURED;
        Ips__MatrixTotal *sum = arena_alloc(k->a, sizeof(*sum));
        if (!sum ||
            !arena_reserve_array_slot(k->a, list, *count, &cap, sizeof(**list)))
            return;
        ips__matrix_total__init(sum);
        if (f < from->count)
            who = from->cells[f].from;
        if (t < to->count)
            who = ips_min_u64(who, to->cells[t].to);
        for (; f < from->count && from->cells[f].from == who; f++) {
            sum->messages_out += from->cells[f].messages;
            sum->bytes_out += from->cells[f].bytes;
        }
        for (; t < to->count && to->cells[t].to == who; t++) {
            sum->messages_in += to->cells[t].messages;
            sum->bytes_in += to->cells[t].bytes;
        }
        all->messages_out += sum->messages_out;
        all->bytes_out += sum->bytes_out;
        all->messages_in += sum->messages_in;
        all->bytes_in += sum->bytes_in;
        sum->object = cell_object_name(k, who, machine);
        if (k->all || *count < METRICS_MAX_CELLS)
            (*list)[(*count)++] = sum;
        else
            k->cut++;
    }
    if (*count > 0 &&
        arena_reserve_array_slot(k->a, list, *count, &cap, sizeof(**list)))
        (*list)[(*count)++] = all;
}
