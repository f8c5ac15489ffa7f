#include "analysis/whatif/oversubscription.h"

#include <stdlib.h>
#include <string.h>

struct change {
    uint64_t at;
    bool begins;
};
struct changes {
    struct change *item;
    size_t count, cap;
};

/* At equal times ends come first, so that work handed from one thread to
 * another does not count as two busy threads. */
static int compare_busy_changes_by_time(const void *a, const void *b)
{
    const struct change *p = a, *q = b;
    if (p->at != q->at)
        return p->at < q->at ? -1 : 1;
    return (p->begins > q->begins) - (p->begins < q->begins);
}

static int add_busy_period(struct changes *c, uint64_t begin, uint64_t end,
                           struct ips_err *err)
{
    if (begin == end)
        return 0;
    if (c->count + 2 > c->cap) {
        size_t cap = c->cap * 2 + 64;
        struct change *more = realloc(c->item, cap * sizeof(*more));
        if (!more)
            return ips_err_set(err, IPS_E_NO_MEMORY,
                               "no memory for %zu starts and ends of work",
                               cap);
        c->item = more;
        c->cap = cap;
    }
    c->item[c->count++] = (struct change){begin, true};
    c->item[c->count++] = (struct change){end, false};
    return 0;
}

int ips_measure_oversubscription_of_machine(const struct ips_graph *g,
                                            const struct ips_est *e,
                                            uint32_t machine, uint32_t cores,
                                            struct ips_oversubscription *out,
                                            struct ips_err *err)
{
    struct changes c = {0};
    int rc = 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t k = 0; k < g->chain_count && rc == 0; k++) {
        uint32_t first = g->chains[k].first;
        uint64_t begin = e->est[first];
        if (g->chains[k].machine != machine)
            continue;
        for (uint32_t i = first + 1; i < first + g->chains[k].count && rc == 0;
             i++) {
            if (!e->crossed[i])
                continue;
            /* The thread waited from the end of its own work until this
             * node. */
            rc = add_busy_period(&c, begin, e->est[i - 1] + g->w[i], err);
            begin = e->est[i];
        }
        if (rc == 0)
            rc = add_busy_period(&c, begin,
                                 e->est[first + g->chains[k].count - 1], err);
    }
    if (c.count)
        qsort(c.item, c.count, sizeof(*c.item), compare_busy_changes_by_time);
    uint32_t busy = 0;
    for (size_t i = 0; i < c.count && rc == 0; i++) {
        if (i && busy > cores)
            out->beyond_ns += c.item[i].at - c.item[i - 1].at;
        busy = c.item[i].begins ? busy + 1 : busy - 1;
        out->peak = busy > out->peak ? busy : out->peak;
    }
    free(c.item);
    return rc;
}
