#include "slave/graphs/traffic_window.h"

#include "common/large.h"

int slave_traffic_window_make_by_rebuild(struct slave_graphs *gs,
                                         const struct slave_graph *g,
                                         uint64_t from_ns, uint64_t to_ns,
                                         struct ips_traffic_window *out,
                                         struct ips_err *err)
{
    struct slave_input in;
    struct ips_built again;
    *out = (struct ips_traffic_window){.from_ns = from_ns, .to_ns = to_ns};
    int rc = slave_input_fill_from_snapshot(gs, g->snap, &in, err);
    if (rc < 0)
        return rc;
    in.in.traffic = out;
    rc = ips_build(&in.in, &again, err);
    if (rc == 0) {
        /* The same records must give the same graph, else the run has
         * changed. */
        if (again.g.node_count != g->b.g.node_count ||
            out->count != g->b.traffic_count)
            rc = ips_err_set(err, IPS_E_BUSY,
                             "run %s has another graph now: ask again",
                             g->snap->run);
        ips_built_release(&again);
    }
    slave_input_release(gs, &in);
    if (rc < 0)
        slave_traffic_window_release(out);
    return rc;
}

void slave_traffic_window_release(struct ips_traffic_window *w)
{
    ips_free_large(w->row);
    w->row = NULL;
    w->count = w->capacity = 0;
}
