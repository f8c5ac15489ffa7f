/* The replay's tournament against an array that is searched from end to end. A
 * level that is not brought up to date, a leaf given out twice or an order of
 * equals that is not the ids' would show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/replay/tree.h"

#define HELD_MAX 300u
#define STEPS 20000u

struct held {
    uint64_t key;
    uint32_t id;
    bool is;
};

static uint32_t dice(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*seed >> 33) % below;
}

/* Leaf of the first of all, or RP_NO_LEAF. */
static uint32_t first_of(const struct held *held)
{
    uint32_t first = RP_NO_LEAF;
    for (uint32_t k = 0; k < HELD_MAX; k++)
        if (held[k].is &&
            (first == RP_NO_LEAF || held[k].key < held[first].key ||
             (held[k].key == held[first].key && held[k].id < held[first].id)))
            first = k;
    return first;
}

static void test_replay_tree__first_of_all(void **state)
{
    (void)state;
    struct held held[HELD_MAX] = {{0, 0, false}};
    struct rp_tree t;
    uint64_t seed = 1;
    uint32_t count = 0;
    assert_true(rp_tree_init(&t, 1));
    assert_true(rp_tree_first_key(&t) == RP_NEVER);
    for (uint32_t step = 0; step < STEPS; step++) {
        /* Few keys, so that many are equal; up to the greatest time there is */
        uint64_t key =
            dice(&seed, 2) ? dice(&seed, 20) : (1ULL << 62) + dice(&seed, 3);
        /* grows for a while, then shrinks, and again */
        bool more = dice(&seed, 10) < (step / 1000 % 2 ? 3u : 7u);
        bool stays = dice(&seed, 2);
        uint32_t k = first_of(held);
        if (more && count < HELD_MAX) {
            k = rp_tree_alloc_leaf(&t);
            assert_true(k < HELD_MAX && !held[k].is);
            count++;
            stays = true;
        } else if (k == RP_NO_LEAF) {
            continue;
        }
        if (stays) { /* new, or in the place of the first */
            held[k] = (struct held){key, step, true};
            rp_tree_set_leaf(&t, k, key, step);
        } else {
            held[k].is = false;
            rp_tree_free_leaf(&t, k);
            count--;
        }
        k = first_of(held);
        if (k == RP_NO_LEAF) {
            assert_true(rp_tree_first_key(&t) == RP_NEVER);
            continue;
        }
        assert_true(rp_tree_first_key(&t) == held[k].key);
        assert_int_equal(rp_item_id(&t.at[1]), held[k].id);
        assert_int_equal(rp_item_leaf(&t.at[1]), k);
    }
    assert_true(t.capacity >= 64); /* it did grow */
    rp_tree_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_tree__first_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
