/* Caches joins with their graph; see graphs/joins_cache.h. */
#include "slave/graphs/joins_cache.h"

#include <string.h>

#include "slave/graphs/calibrate_map.h"
#include "slave/graphs/graphs.h"

struct slave_scenario_words
slave_scenario_make_cache_key(const struct ips_scenario *l)
{
    return (struct slave_scenario_words){
        {l->message_time.base_ns, l->message_time.per_byte_q32,
         l->message_time.scale_num, l->message_time.scale_den,
         (uint64_t)l->external, l->calibrated, l->order_dependent_off,
         l->probe_off, l->unended, (uint64_t)l->weighting, l->clock.from,
         (uint64_t)l->clock.drift_q40, (uint64_t)l->clock.shift_ns, l->has_goal,
         l->goal}};
}

void slave_joins_clear_cache(struct slave_joins_cached *k)
{
    uint32_t users = k->users;
    if (k->there && !k->mapped)
        ips_joins_release(&k->joins);
    *k = (struct slave_joins_cached){.users = users};
}

static int make_joins(struct slave_graph *g,
                      const struct ips_scenario *scenario,
                      struct ips_joins *out, struct ips_err *err)
{
    struct ips_view view = {0};
    int rc =
        slave_graphs_verify_section_or_remove_file(g, SLAVE_PART_PATH, err);
    if (rc == 0)
        rc = slave_graph_make_scenario_view(g, scenario, &view, err);
    if (rc == 0)
        rc = ips_joins_compute_and_encode(&view.g, scenario, out, err);
    ips_view_release(&view);
    return rc;
}

int slave_joins_get_or_compute(struct slave_graph *g,
                               const struct ips_scenario *scenario,
                               struct ips_joins *own,
                               const struct ips_joins **out, bool *used,
                               struct ips_err *err)
{
    struct slave_joins_cached *k = &g->joins;
    const struct slave_scenario_words of =
        slave_scenario_make_cache_key(scenario);
    *used = false;
    if (!k->there || memcmp(&k->of, &of, sizeof(of)) != 0) {
        int rc = make_joins(g, scenario, own, err);
        *out = own;
        if (rc < 0 || scenario->calibrated || k->users > 0)
            return rc;
        slave_joins_clear_cache(k);
        k->there = true;
        k->of = of;
        k->joins = *own;
        memset(own, 0, sizeof(*own));
    }
    int rc = k->mapped ? slave_graphs_verify_section_or_remove_file(
                             g, SLAVE_PART_JOINS, err)
                       : 0;
    if (rc < 0)
        return rc;
    *used = true;
    k->users++;
    *out = &k->joins;
    return 0;
}

void slave_joins_end_use(struct slave_joins_cached *k)
{
    k->users--;
}
