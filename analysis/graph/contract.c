#include "analysis/graph/contract.h"

#include <stdlib.h>

int ips_joins_compute_node_bound(const struct ips_graph *g, uint64_t *most,
                                 struct ips_err *err)
{
    uint8_t *kept = calloc((size_t)g->node_count + 1, 1);
    *most = 0;
    if (!kept)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u nodes", g->node_count);
    for (uint32_t k = 0; k < g->in_count; k++)
        kept[g->in[k].node] = 1;
    for (uint32_t k = 0; k < g->out_count; k++)
        kept[g->out[k].node] = 1;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->xpred[i] != IPS_NO_NODE)
            kept[i] = kept[g->xpred[i]] = 1;
    for (uint32_t c = 0; c < g->chain_count; c++)
        if (g->chains[c].count)
            kept[g->chains[c].first + g->chains[c].count - 1] = 1;
    for (uint32_t i = 0; i < g->node_count; i++)
        *most += kept[i];
    free(kept);
    return 0;
}
