/* Large arrays within a limit of memory. Would catch: memory taken beyond the
 * limit, bytes lost where an array grows, shrinks or goes to a file, a mapping
 * that stays behind, and a graph worked on in files that is not bit for bit the
 * one worked on in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "common/large.h"
#include "slave/build/build.h"
#include "tests/bench/native/synth.h"

#define MB ((size_t)1 << 20)

static void test_large__limit(void **state)
{
    (void)state;
    ips_large_set_limit_and_file_directory(8 * MB, "/tmp");
    uint8_t *a = ips_calloc_large(3 * MB, 2), *b = ips_calloc_large(1, 3 * MB);
    assert_non_null(a);
    assert_non_null(b);
    struct ips_large_use use = ips_large_get_use();
    assert_int_equal(use.memory, 6 * MB);
    assert_int_equal(use.files, 3 * MB);
    for (size_t i = 0; i < 6 * MB; i++)
        assert_true(a[i] == 0 && b[i / 2] == 0);
    memset(a, 1, 6 * MB);
    memset(b, 2, 3 * MB);
    ips_trim_large_array(a, 2 * MB + 1); /* now there is room again */
    uint8_t *c = ips_calloc_large(1, 5 * MB);
    assert_non_null(c);
    use = ips_large_get_use();
    assert_int_equal(use.files, 3 * MB);
    assert_int_equal(use.memory, 7 * MB + 4096);
    assert_int_equal(use.memory_most, 7 * MB + 4096);
    assert_true(a[2 * MB] == 1);
    ips_free_large(a);
    ips_free_large(b);
    ips_free_large(c);
    use = ips_large_get_use();
    assert_true(use.memory == 0 && use.files == 0);
    ips_large_restart_peaks();
    assert_int_equal(ips_large_get_use().files_most, 0);
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
}

static void test_large__grows(void **state)
{
    (void)state;
    uint8_t *v = NULL;
    ips_large_set_limit_and_file_directory(2 * MB, "/tmp");
    for (size_t old = 0, n = 1000; n < 20 * MB; old = n, n *= 2) {
        v = ips_resize_large(v, old, n);
        assert_non_null(v);
        for (size_t i = 0; i < old; i += 97)
            assert_int_equal(v[i], (uint8_t)(i * 7));
        for (size_t i = 0; i < n; i++)
            v[i] = (uint8_t)(i * 7);
    }
    assert_true(ips_large_get_use().files > 8 * MB);
    assert_int_equal(ips_large_get_use().memory, 0);
    v = ips_resize_large(v, 16 * MB, 500);
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(v[i], (uint8_t)(i * 7));
    ips_free_large(v);
    assert_int_equal(ips_large_get_use().files, 0);
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
}

/* What was released comes again, the one that fits best; undefined to who says
 * that he writes all of it, zeroed to others; within the limit; and not once it
 * was given back. */
static void test_large__again(void **state)
{
    (void)state;
    ips_large_set_limit_and_file_directory(64 * MB, "/tmp");
    uint8_t *a = ips_alloc_large(1, 8 * MB), *b = ips_alloc_large(1, 6 * MB);
    assert_non_null(a);
    assert_non_null(b);
    memset(a, 7, 8 * MB);
    memset(b, 8, 6 * MB);
    ips_free_large(b);
    ips_free_large(a);
    assert_int_equal(ips_large_get_use().memory, 0);
    uint8_t *c = ips_alloc_large(1, 5 * MB), *d = ips_calloc_large(1, 7 * MB);
    assert_ptr_equal(c, b);
    assert_int_equal(c[5 * MB - 1], 8);
    assert_ptr_equal(d, a);
    for (size_t i = 0; i < 7 * MB; i++)
        assert_int_equal(d[i], 0);
    assert_int_equal(ips_large_get_use().memory, 12 * MB);
    b = ips_alloc_large(1, 6 * MB);
    assert_non_null(b);
    ips_free_large(b);
    ips_free_large(c);
    ips_free_large(d); /* 11 MB are kept; 18 would be more than a quarter */
    assert_int_equal(ips_large_get_use().memory, 0);
    d = ips_alloc_large(1, 60 * MB); /* all but what it leaves */
    assert_non_null(d);
    assert_int_equal(ips_large_get_use().memory, 60 * MB);
    assert_false(ips_large_unmap_kept_mappings());
    ips_free_large(d);
    a = ips_alloc_large(1, 4 * MB);
    ips_free_large(a);
    assert_true(ips_large_unmap_kept_mappings());
    assert_false(ips_large_unmap_kept_mappings());
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
}

/* Would catch: an array that takes far more than it needs, or another than the
 * one that fits best. */
static void test_large__fits_best(void **state)
{
    (void)state;
    static const struct {
        size_t kept[4], bytes; /* in pages; 0: none */
        int taken;             /* -1: a fresh one */
    } cases[] = {
        {{1024, 1536, 2304, 5120}, 1280, 1},
        {{5120, 2304, 1536, 1024}, 1280, 2},
        {{1024, 1536, 2304, 5120}, 1024, 0},
        {{1024, 1536, 2304, 5120}, 800, 0},
        {{1536, 1024, 1536, 1024}, 1024, 3}, /* the newest of equals */
        {{1024, 1536, 2304, 5120}, 2560, 3},
        {{2048}, 1024, 0}, /* twice as much, not more */
        {{2048}, 1023, -1},
        {{2048, 4096}, 1024, 0},
        {{512}, 300, 0},  /* of 2 MB: they are kept */
        {{511}, 300, -1}, /* smaller ones are not */
        {{1024}, 2049, -1},
    };
    ips_large_set_limit_and_file_directory(1024 * MB, "/tmp");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t *kept[4] = {NULL};
        for (int k = 0; k < 4; k++)
            if (cases[i].kept[k]) {
                kept[k] = ips_alloc_large(cases[i].kept[k], 4096);
                assert_non_null(kept[k]);
                kept[k][0] = 7;
            }
        for (int k = 0; k < 4; k++)
            ips_free_large(kept[k]);
        uint8_t *got = ips_alloc_large(cases[i].bytes, 4096);
        assert_non_null(got);
        int taken = -1;
        for (int k = 0; k < 4; k++)
            if (got == kept[k] && got[0] == 7) /* not the address alone */
                taken = k;
        if (taken != cases[i].taken)
            fail_msg("case %zu: %d", i, taken);
        got[cases[i].bytes * 4096 - 1] = 1;
        assert_int_equal(ips_large_get_use().memory, cases[i].bytes * 4096);
        ips_free_large(got);
        (void)ips_large_unmap_kept_mappings();
    }
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
}

/* Would catch: a thin array that is what somebody else wrote before, and one
 * that is kept, so that who gets it has all its pages made at his cost. */
static void test_large__thin(void **state)
{
    (void)state;
    ips_large_set_limit_and_file_directory(64 * MB, "/tmp");
    uint8_t *a = ips_alloc_large(1, 8 * MB);
    assert_non_null(a);
    memset(a, 7, 8 * MB);
    ips_free_large(a);
    uint8_t *thin = ips_calloc_large_sparse(8 * MB, 1),
            *b = ips_alloc_large(1, 8 * MB);
    assert_non_null(thin);
    assert_ptr_equal(b, a);
    for (size_t i = 0; i < 8 * MB; i += 4096)
        assert_int_equal(thin[i], 0);
    thin[5 * MB] = 1;
    assert_int_equal(ips_large_get_use().memory, 16 * MB);
    ips_free_large(thin);
    assert_false(ips_large_unmap_kept_mappings());
    ips_free_large(b);
    assert_true(ips_large_unmap_kept_mappings());
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
}

/* Neither memory nor a place for files: said, and no signal. */
static void test_large__no_room(void **state)
{
    (void)state;
    ips_large_set_limit_and_file_directory(1, "/nonexistent");
    assert_null(ips_calloc_large(2, MB));
    assert_null(ips_calloc_large(SIZE_MAX / 2, 4));
    uint8_t *v = ips_resize_large(NULL, 0, 100);
    v[99] = 5;
    assert_null(ips_resize_large(v, 100, 2 * MB));
    assert_int_equal(v[99], 5);
    ips_free_large(v);
    ips_free_large(NULL);
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
}

/* ---- a build ---- */

struct taken {
    struct ips_stream_in in[8];
    struct ips_chunk chunk[8];
};

static void take(void *arg, uint32_t thread, uint32_t seq, const void *data,
                 size_t used)
{
    struct taken *t = arg;
    assert_true(thread < 8 && seq == 0);
    size_t len = used - sizeof(t->in->head);
    uint8_t *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, (const uint8_t *)data + sizeof(t->in->head), len);
    memcpy(&t->in[thread].head, data, sizeof(t->in->head));
    t->chunk[thread] = (struct ips_chunk){copy, len};
    t->in[thread].chunks = &t->chunk[thread];
    t->in[thread].chunk_count = 1;
}

static void solve(const struct taken *t, struct ips_built *b, struct ips_est *e)
{
    static const struct ips_scenario plain = {.message_time = {0, 0, 1, 1}};
    struct ips_build_input in = {.streams = t->in, .stream_count = 8};
    struct ips_err err;
    if (ips_build(&in, b, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(
        ips_longest_path_compute_ests(&b->g, &plain, NULL, e, &err), 0);
}

static void test_large__same_graph_in_files(void **state)
{
    (void)state;
    struct synth_options o = synth_default(SYNTH_RANDOM);
    struct taken t = {0};
    struct ips_built a, b;
    struct ips_est x, y;
    struct ips_err err;
    o.nodes = 300000;
    o.threads = 8;
    assert_int_equal(synth_records(&o, 0, 64u << 20, take, &t, &err), 0);
    solve(&t, &a, &x);
    uint64_t before = ips_large_get_use().memory;
    ips_large_set_limit_and_file_directory(before, "/tmp"); /* not a MB more */
    ips_large_restart_peaks();
    solve(&t, &b, &y);
    struct ips_large_use use = ips_large_get_use();
    assert_int_equal(use.memory_most, before);
    assert_true(use.files > 8 * MB && use.files_most > use.files);
    size_t n = a.g.node_count;
    assert_int_equal(n, b.g.node_count);
#define SAME(column)                                                           \
    assert_memory_equal(a.g.column, b.g.column, n * sizeof(*a.g.column))
    SAME(kind);
    SAME(w);
    SAME(xpred);
    SAME(xkind);
    SAME(xlen);
    SAME(t_ns);
    SAME(site);
    SAME(at);
    SAME(wait);
    SAME(delay);
    SAME(probe);
    assert_memory_equal(x.est, y.est, n * sizeof(*x.est));
    assert_int_equal(x.t_max, y.t_max);
    ips_est_release(&x);
    ips_est_release(&y);
    ips_built_release(&a);
    ips_built_release(&b);
    for (uint32_t i = 0; i < 8; i++)
        free((void *)(uintptr_t)t.chunk[i].data);
    use = ips_large_get_use();
    assert_true(use.memory == 0 && use.files == 0);
    ips_large_set_limit_and_file_directory(UINT64_MAX, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large__limit),
        cmocka_unit_test(test_large__grows),
        cmocka_unit_test(test_large__again),
        cmocka_unit_test(test_large__fits_best),
        cmocka_unit_test(test_large__thin),
        cmocka_unit_test(test_large__no_room),
        cmocka_unit_test(test_large__same_graph_in_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
