/* The graph's file gives back what was written, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/graph/path.h"
#include "same_built.h"
#include "slave/graphs/file.h"
#include "slave/graphs/series.h"

static char dir[64], path[80];
static struct ips_built built;
static struct ips_peer_row peer;
static uint8_t head[] = "head", arcs[] = "arcs of joins";
static struct slave_graphfile_peers_joins kept;

/* Two chains of three nodes, one message; one end without a peer. */
static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/dev/shm/slave-graph-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/graph", dir);
    memset(&built, 0, sizeof(built));
    ips_graph_init(&built.g);
    if (ips_graph_alloc(&built.g, 6, 2, NULL) < 0 ||
        ips_graph_alloc_times(&built.g, NULL) < 0 ||
        ips_graph_alloc_probe_column(&built.g, NULL) < 0)
        return -1;
    static const uint8_t kinds[] = {0, 1, 5, 0, 2, 5};
    for (uint32_t i = 0; i < 6; i++) {
        built.g.kind[i] = kinds[i];
        built.g.w[i] = i % 3 ? 10 * (i + 1) : 0;
        built.g.site[i] = UINT32_MAX;
        built.g.probe[i] = 3 * i;
    }
    for (uint32_t c = 0; c < 2; c++)
        built.g.chains[c] = (struct ips_chain){
            .first = 3 * c, .count = 3, .process = c, .pid = 10 + c};
    built.g.xpred[4] = 1;
    built.g.xkind[4] = IPS_X_DATA;
    built.proc_count = 2;
    built.procs = calloc(2, sizeof(*built.procs));
    built.threads = calloc(2, sizeof(*built.threads));
    built.ends = calloc(1, sizeof(*built.ends));
    built.end_count = 1;
    built.traffic = calloc(1, sizeof(*built.traffic));
    built.traffic_count = 1;
    built.traffic[0].sent_bytes = 77;
    built.procs[0].parent = built.procs[1].parent = IPS_NONE;
    snprintf(built.procs[1].name, sizeof(built.procs[1].name), "b.11");
    built.threads[1].process = 1;
    built.ends[0].peer = IPS_PEER_UNKNOWN;
    built.counts.events = 42;
    built.goal_elapsed_ns = 1234;
    built.first_ns = 5;
    built.root_start_ns = 6;
    built.goal_node = 3;
    built.open = true;
    memset(&peer, 0, sizeof(peer));
    peer.traced = true;
    peer.peer_sent_bytes = 9;
    const struct ips_scenario lane = {.message_time = {7, 8, 1, 1},
                                      .order_dependent_off = true};
    kept = (struct slave_graphfile_peers_joins){
        .peers = &peer,
        .peer_count = 1,
        .join_bound = 3,
        .joins = {.there = true,
                  .of = slave_scenario_make_cache_key(&lane),
                  .joins = {.head = {head, sizeof(head), 0},
                            .arcs = {arcs, sizeof(arcs), 0},
                            .count = 3,
                            .arc_count = 4,
                            .total = 5}}};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ips_graph_release(&built.g);
    free(built.procs);
    free(built.threads);
    free(built.ends);
    free(built.traffic);
    unlink(path);
    return rmdir(dir);
}

static uint64_t t_max(const struct ips_graph *g)
{
    const struct ips_scenario lane = {
        .message_time = {.scale_num = 1, .scale_den = 1}};
    struct ips_est est;
    assert_int_equal(ips_longest_path_compute_ests(g, &lane, NULL, &est, NULL),
                     0);
    uint64_t t = est.t_max;
    ips_est_release(&est);
    return t;
}

/* The part that is not as it was written; SLAVE_PARTS: none. */
static enum slave_graphfile_part damaged(struct slave_graphfile *f,
                                         const struct ips_graph *g)
{
    enum slave_graphfile_part bad = SLAVE_PARTS;
    for (unsigned part = 0; part < SLAVE_PARTS; part++) {
        if (slave_graphfile_check_part(f, g, part))
            continue;
        assert_int_equal(bad, SLAVE_PARTS);
        bad = (enum slave_graphfile_part)part;
    }
    return bad;
}

/* Would catch: a table that is not written, or at another's place. */
static void test_graphfile__round_trip(void **state)
{
    (void)state;
    struct slave_graphfile f;
    struct ips_built b;
    struct slave_graphfile_peers_joins more;
    uint64_t bytes;
    assert_int_equal(slave_graphfile_write(dir, 5, &built, &kept, &bytes, NULL),
                     0);
    assert_int_equal(slave_graphfile_map_and_check(dir, 5, &f, &b, &more, NULL),
                     0);
    assert_int_equal(f.length, bytes);
    assert_int_equal(more.peer_count, 1);
    assert_int_equal(more.peers[0].peer_sent_bytes, 9);
    assert_null(built_differs(&b, &built));
    assert_int_equal(t_max(&b.g), t_max(&built.g));
    assert_true(t_max(&b.g) > 0);
    assert_int_equal(b.g.probe[5], 15);
    const struct slave_joins_cached *k = &more.joins;
    assert_true(k->there && k->mapped && k->users == 0);
    assert_memory_equal(&k->of, &kept.joins.of, sizeof(k->of));
    assert_int_equal(k->joins.head.len, sizeof(head));
    assert_memory_equal(k->joins.head.data, head, sizeof(head));
    assert_int_equal(k->joins.arcs.len, sizeof(arcs));
    assert_memory_equal(k->joins.arcs.data, arcs, sizeof(arcs));
    assert_int_equal(k->joins.count, 3);
    assert_int_equal(k->joins.arc_count, 4);
    assert_int_equal(k->joins.total, 5);
    assert_int_equal(more.join_bound, 3);
    assert_int_equal(f.last_ns, slave_last_event_ns(&built));
    assert_int_equal(damaged(&f, &b.g), SLAVE_PARTS);
    slave_graphfile_release(&f);
    kept.joins.there = false; /* and none, where none were kept */
    assert_int_equal(slave_graphfile_write(dir, 5, &built, &kept, &bytes, NULL),
                     0);
    assert_int_equal(slave_graphfile_map_and_check(dir, 5, &f, &b, &more, NULL),
                     0);
    assert_false(more.joins.there);
    slave_graphfile_release(&f);
    /* Records were added since: another key. */
    assert_int_equal(slave_graphfile_map_and_check(dir, 6, &f, &b, &more, NULL),
                     IPS_E_VERSION);
    unlink(path);
    assert_int_equal(slave_graphfile_map_and_check(dir, 5, &f, &b, &more, NULL),
                     IPS_E_NOT_FOUND);
}

/* Would catch: a damaged file that is believed, or that crashes us. Every byte
 * in turn, and every length. */
static void test_graphfile__damage(void **state)
{
    (void)state;
    struct slave_graphfile f;
    struct ips_built b;
    struct slave_graphfile_peers_joins more;
    uint64_t bytes;
    assert_int_equal(slave_graphfile_write(dir, 5, &built, &kept, &bytes, NULL),
                     0);
    int fd = open(path, O_RDWR);
    uint8_t *whole = malloc(bytes);
    assert_non_null(whole);
    assert_int_equal(read(fd, whole, bytes), bytes);
    uint64_t accepted = 0, found[SLAVE_PARTS] = {0};
    for (uint64_t at = 0; at < bytes; at++) {
        uint8_t byte = whole[at] ^ 0x41;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        int rc = slave_graphfile_map_and_check(dir, 5, &f, &b, &more, NULL);
        if (rc < 0) {
            found[SLAVE_PART_TABLES]++;
        } else {
            enum slave_graphfile_part bad = damaged(&f, &b.g);
            if (bad != SLAVE_PART_PATH)
                assert_int_equal(t_max(&b.g), t_max(&built.g));
            if (bad == SLAVE_PARTS) /* the fill between sections is nobody's */
                assert_int_equal(whole[at], 0);
            accepted += bad == SLAVE_PARTS;
            found[bad % SLAVE_PARTS] += bad != SLAVE_PARTS;
            slave_graphfile_release(&f);
        }
        assert_int_equal(pwrite(fd, &whole[at], 1, (off_t)at), 1);
    }
    assert_true(accepted < 64);
    assert_true(found[SLAVE_PART_TABLES] > 0);
    assert_int_equal(found[SLAVE_PART_JOINS], sizeof(head) + sizeof(arcs));
    assert_int_equal(found[SLAVE_PART_PATH], 6 * (1 + 8 + 4 + 1 + 8));
    assert_int_equal(found[SLAVE_PART_REST], 6 * (8 + 4 + 8 + 8 + 8 + 4));
    for (uint64_t len = 0; len < bytes; len += 7) {
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        assert_true(slave_graphfile_map_and_check(dir, 5, &f, &b, &more, NULL) <
                    0);
        assert_int_equal(pwrite(fd, whole, bytes, 0), bytes);
    }
    free(whole);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_graphfile__round_trip),
        T(test_graphfile__damage),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
