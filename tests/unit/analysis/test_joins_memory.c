/*
 * `contract` while memory lacks (analysis/distributed/joins.h): each allocation
 * of making joins, of solving them and of walking back fails once. Would catch:
 * one that is not looked at, an error with another code, memory that is left.
 */
#include "each_allocation.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/joins.h"
#include "tests/support/random_graph.h"

struct story {
    struct rg r;
    struct ips_scenario lane;
    uint64_t t_max; /* as it was when nothing failed */
};

/* The bytes of one machine's joins; made without failures where they are not
 * what is tested. */
static int make_bytes(const struct story *s, uint32_t m,
                      struct ips_machine_joins *out, uint8_t **data)
{
    struct ips_joins j;
    int rc = ips_joins_compute_and_encode(&s->r.part[m], &s->lane, &j, NULL);
    if (rc < 0)
        return rc;
    size_t len = j.head.len + j.arcs.len;
    fault_pause++;
    *data = calloc(len + IPS_JOINS_PAD, 1);
    fault_pause--;
    assert_non_null(*data);
    memcpy(*data, j.head.data, j.head.len);
    if (j.arcs.len)
        memcpy(*data + j.head.len, j.arcs.data, j.arcs.len);
    *out = (struct ips_machine_joins){.data = *data,
                                      .len = len,
                                      .nodes = s->r.part[m].node_count,
                                      .peer = s->r.peer[m],
                                      .end_count = s->r.end_count[m]};
    ips_joins_release(&j);
    return 0;
}

static int solve(struct story *s, const struct ips_machine_joins *parts)
{
    struct ips_joined joined;
    struct ips_path_section *visit = NULL;
    uint64_t count = 0;
    uint32_t blame;
    int rc = ips_joined_decode_and_solve(parts, s->r.machines, &s->lane,
                                         &joined, &blame, NULL);
    if (rc < 0)
        return rc;
    if (s->t_max == 0)
        s->t_max = joined.t_max;
    assert_int_equal(joined.t_max, s->t_max);
    rc = ips_joined_list_path_sections(&joined, &visit, &count, NULL);
    assert_true(rc < 0 || count > 0);
    free(visit);
    ips_joined_release(&joined);
    return rc;
}

static int tell(void *arg)
{
    struct story *s = arg;
    struct ips_machine_joins parts[RG_MACHINES];
    uint8_t *data[RG_MACHINES] = {NULL};
    int rc = 0;
    for (uint32_t m = 0; m < s->r.machines && rc == 0; m++)
        rc = make_bytes(s, m, &parts[m], &data[m]);
    if (rc == 0)
        rc = solve(s, parts);
    for (uint32_t m = 0; m < s->r.machines; m++)
        free(data[m]);
    return rc;
}

static void test_joins_memory__each(void **state)
{
    const struct rg_options o = {
        .seed = 4, .machines = 3, .chains = 6, .steps = 200, .weight_max = 9};
    (void)state;
    struct story s = {.lane = {.message_time = {5, 0, 1, 1}}};
    rg_make(&o, &s.r);
    assert_true(each_allocation(tell, &s) > 20);
    rg_release(&s.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins_memory__each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
