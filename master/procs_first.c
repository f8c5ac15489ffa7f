#include "master/procs_first.h"

#include <stdlib.h>

#include "common/types.h"

static int by_key(const void *va, const void *vb)
{
    const struct procs_digest *a = va, *b = vb;
    return (a->key > b->key) - (a->key < b->key);
}

static int by_cost(const void *va, const void *vb)
{
    const struct procs_digest *a = va, *b = vb;
    if (a->self_ns != b->self_ns)
        return a->self_ns < b->self_ns ? 1 : -1;
    return (a->total_ns < b->total_ns) - (a->total_ns > b->total_ns);
}

size_t procs_digest_merge(struct procs_digest *v, size_t count)
{
    size_t n = 0;
    if (count == 0)
        return 0;
    qsort(v, count, sizeof(*v), by_key);
    for (size_t i = 0; i < count; i++) {
        if (n > 0 && v[n - 1].key == v[i].key) {
            v[n - 1].self_ns = ips_add_sat(v[n - 1].self_ns, v[i].self_ns);
            v[n - 1].total_ns = ips_add_sat(v[n - 1].total_ns, v[i].total_ns);
        } else {
            v[n++] = v[i];
        }
    }
    return n;
}

size_t procs_digest_first(struct procs_digest *v, size_t count, uint64_t top)
{
    if (count == 0 || top == 0)
        return 0;
    qsort(v, count, sizeof(*v), by_cost);
    size_t n = top < count ? (size_t)top : count;
    while (n < count && by_cost(&v[n - 1], &v[n]) == 0)
        n++;
    qsort(v, n, sizeof(*v), by_key);
    return n;
}

bool procs_digest_has(const struct procs_digest *v, size_t count, uint64_t key)
{
    const struct procs_digest k = {.key = key};
    return count > 0 && bsearch(&k, v, count, sizeof(*v), by_key);
}
