/* Reads and writes the graph's file; format and rules in graphs/file.h. */
#include "slave/graphs/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/paths.h"
#include "slave/base/wordhash.h"
#include "slave/graphs/series.h"

#define MAGIC 0x32485052474c5653ULL /* the characters "SVLGRPH2" */

/* All arrays of a built graph: X(name, element type, number of elements, member
 * of struct ips_built, part of the file). */
#define SECTIONS(X)                                                            \
    X(CHAINS, struct ips_chain, g.chain_count, g.chains, TABLES)               \
    X(KIND, uint8_t, g.node_count, g.kind, PATH)                               \
    X(W, uint64_t, g.node_count, g.w, PATH)                                    \
    X(XPRED, uint32_t, g.node_count, g.xpred, PATH)                            \
    X(XKIND, uint8_t, g.node_count, g.xkind, PATH)                             \
    X(XLEN, uint64_t, g.node_count, g.xlen, PATH)                              \
    X(T_NS, uint64_t, g.node_count, g.t_ns, REST)                              \
    X(SITE, uint32_t, g.node_count, g.site, REST)                              \
    X(AT, uint64_t, g.node_count, g.at, REST)                                  \
    X(WAIT, uint64_t, g.node_count, g.wait, REST)                              \
    X(DELAY, uint64_t, g.node_count, g.delay, REST)                            \
    X(PROBE, uint32_t, g.node_count, g.probe, REST)                            \
    X(IN, struct ips_remote_in, g.in_count, g.in, PATH)                        \
    X(OUT, struct ips_remote_out, g.out_count, g.out, PATH)                    \
    X(PROCS, struct ips_proc, proc_count, procs, TABLES)                       \
    X(THREADS, struct ips_thread_row, g.chain_count, threads, TABLES)          \
    X(ENDS, struct ips_end, end_count, ends, TABLES)                           \
    X(TRAFFIC, struct ips_traffic, traffic_count, traffic, TABLES)             \
    X(UNTRACED, struct ips_untraced, untraced_count, untraced, TABLES)         \
    X(UNSEEN, struct ips_unrecorded, unrecorded_count, unrecorded, TABLES)     \
    X(SPUN, struct ips_spun, spun_count, spun, TABLES)                         \
    X(UNENDED, struct ips_unended, unended_count, unended, PATH)

enum section {
#define X(name, type, count, place, part) SECTION_##name,
    SECTIONS(X)
#undef X
        SECTION_PEERS,
    SECTION_JOINS_HEAD,
    SECTION_JOINS_ARCS,
    SECTION_COUNT
};

static const uint32_t element_bytes[SECTION_COUNT] = {
#define X(name, type, count, place, part) [SECTION_##name] = sizeof(type),
    SECTIONS(X)
#undef X
        [SECTION_PEERS] = sizeof(struct ips_peer_row),
    [SECTION_JOINS_HEAD] = 1,
    [SECTION_JOINS_ARCS] = 1,
};

static const uint8_t part_of[SECTION_COUNT] = {
#define X(name, type, count, place, part) [SECTION_##name] = SLAVE_PART_##part,
    SECTIONS(X)
#undef X
        [SECTION_PEERS] = SLAVE_PART_TABLES,
    [SECTION_JOINS_HEAD] = SLAVE_PART_JOINS,
    [SECTION_JOINS_ARCS] = SLAVE_PART_JOINS,
};

struct file_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t key;
    uint64_t file_bytes;
    uint32_t count[SECTION_COUNT];
    uint32_t element[SECTION_COUNT];
    uint64_t offset[SECTION_COUNT];
    struct ips_build_counts counts;
    uint64_t first_ns, goal_elapsed_ns, open, root_start_ns, goal_node;
    /* Describes the cached joins; without joins, their sections have 0
     * bytes. */
    struct slave_scenario_words joins_of;
    uint64_t join_count, join_arcs, join_total;
    uint64_t join_bound, last_ns;
    uint64_t body_check[SLAVE_PARTS];
    uint64_t head_check; /* checksum of the header up to here */
};

static uint64_t compute_header_checksum(const struct file_header *h)
{
    return slave_hash_bytes(1, h, offsetof(struct file_header, head_check));
}

static uint64_t round_up_to_8(uint64_t bytes)
{
    return (bytes + 7) & ~7ULL;
}

static uint64_t section_bytes(const struct file_header *h, int i)
{
    return (uint64_t)h->count[i] * h->element[i];
}

static void
add_cached_joins_sections_if_present(struct file_header *h,
                                     const struct slave_joins_cached *k,
                                     const void *data[SECTION_COUNT])
{
    const struct ips_joins *j = &k->joins;
    if (!k->there || j->head.len > UINT32_MAX || j->arcs.len > UINT32_MAX)
        return;
    h->count[SECTION_JOINS_HEAD] = (uint32_t)j->head.len;
    h->count[SECTION_JOINS_ARCS] = (uint32_t)j->arcs.len;
    data[SECTION_JOINS_HEAD] = j->head.data;
    data[SECTION_JOINS_ARCS] = j->arcs.data;
    h->joins_of = k->of;
    h->join_count = j->count;
    h->join_arcs = j->arc_count;
    h->join_total = j->total;
}

static void plan_file_sections(struct file_header *h, const struct ips_built *b,
                               const struct slave_graphfile_peers_joins *more,
                               const void *data[SECTION_COUNT])
{
#define X(name, type, n, place, part)                                          \
    h->count[SECTION_##name] = b->n;                                           \
    data[SECTION_##name] = b->place;
    SECTIONS(X)
#undef X
    h->count[SECTION_PEERS] = more->peer_count;
    data[SECTION_PEERS] = more->peers;
    add_cached_joins_sections_if_present(h, &more->joins, data);
    h->join_bound = more->join_bound;
    h->last_ns = slave_last_event_ns(b);
    uint64_t at = round_up_to_8(sizeof(*h));
    for (int i = 0; i < SECTION_COUNT; i++) {
        h->element[i] = element_bytes[i];
        h->offset[i] = at;
        at += round_up_to_8(section_bytes(h, i));
    }
    h->file_bytes = at;
}

static int write_all(int fd, const void *data, size_t len, uint64_t at)
{
    const uint8_t *p = data;
    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

static int
write_sections_then_header_and_sync(int fd, struct file_header *h,
                                    const void *const data[SECTION_COUNT])
{
    if (ftruncate(fd, (off_t)h->file_bytes) < 0)
        return -1;
    memset(h->body_check, 0, sizeof(h->body_check));
    for (int i = 0; i < SECTION_COUNT; i++) {
        uint64_t bytes = section_bytes(h, i);
        uint64_t *check = &h->body_check[part_of[i]];
        *check = slave_wordhash_of_long_data(*check, data[i], bytes);
        if (write_all(fd, data[i], bytes, h->offset[i]) < 0)
            return -1;
    }
    h->head_check = compute_header_checksum(h);
    if (write_all(fd, h, sizeof(*h), 0) < 0)
        return -1;
    return fsync(fd);
}

int slave_graphfile_write(const char *dir, uint64_t key,
                          const struct ips_built *b,
                          const struct slave_graphfile_peers_joins *more,
                          uint64_t *bytes, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16], fresh[IPS_PATH_BYTES + 16];
    const void *data[SECTION_COUNT] = {0};
    struct file_header h;
    /* zero the padding, too, because the checksum covers it */
    memset(&h, 0, sizeof(h));
    h.magic = MAGIC;
    h.version = SLAVE_GRAPHFILE_VERSION;
    h.header_bytes = sizeof(h);
    h.key = key;
    h.counts = b->counts;
    h.first_ns = b->first_ns;
    h.goal_elapsed_ns = b->goal_elapsed_ns;
    h.open = b->open;
    h.root_start_ns = b->root_start_ns;
    h.goal_node = b->goal_node;
    plan_file_sections(&h, b, more, data);
    snprintf(path, sizeof(path), "%s/graph", dir);
    snprintf(fresh, sizeof(fresh), "%s/graph.new", dir);
    (void)unlink(fresh);
    *bytes = 0;
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return ips_err_errno(err, "%s", fresh);
    int rc = 0;
    if (write_sections_then_header_and_sync(fd, &h, data) < 0 ||
        rename(fresh, path) < 0) {
        rc = ips_err_errno(err, "%s", fresh);
        (void)unlink(fresh);
    }
    close(fd);
    *bytes = rc == 0 ? h.file_bytes : 0;
    return rc;
}

/* ---- reading ---- */

static bool is_header_valid(const struct file_header *h, size_t length)
{
    if (length < sizeof(*h) || h->magic != MAGIC ||
        h->version != SLAVE_GRAPHFILE_VERSION ||
        h->header_bytes != sizeof(*h) || h->file_bytes != length ||
        h->head_check != compute_header_checksum(h))
        return false;
    uint64_t at = round_up_to_8(sizeof(*h));
    for (int i = 0; i < SECTION_COUNT; i++) {
        if (h->element[i] != element_bytes[i] || h->offset[i] != at)
            return false;
        at += round_up_to_8(section_bytes(h, i));
    }
    return at == length;
}

static bool is_part_checksum_valid(const struct file_header *h,
                                   const uint8_t *map,
                                   enum slave_graphfile_part part)
{
    uint64_t check = 0;
    for (int i = 0; i < SECTION_COUNT; i++)
        if (part_of[i] == part)
            check = slave_wordhash_of_long_data(check, map + h->offset[i],
                                                section_bytes(h, i));
    return check == h->body_check[part];
}

bool slave_graphfile_check_part(struct slave_graphfile *f,
                                const struct ips_graph *g,
                                enum slave_graphfile_part part)
{
    if (f->map && !f->checked[part])
        f->checked[part] = is_part_checksum_valid(f->map, f->map, part) &&
                           (part != SLAVE_PART_PATH ||
                            ips_graph_check_invariants(g, NULL) == 0);
    return !f->map || f->checked[part];
}

static void set_graph_pointers(struct ips_built *b, const struct file_header *h,
                               uint8_t *map)
{
    memset(b, 0, sizeof(*b));
    b->g.node_count = h->count[SECTION_KIND];
    b->g.chain_count = h->count[SECTION_CHAINS];
    b->g.in_count = h->count[SECTION_IN];
    b->g.out_count = h->count[SECTION_OUT];
    b->proc_count = h->count[SECTION_PROCS];
    b->end_count = h->count[SECTION_ENDS];
    b->traffic_count = h->count[SECTION_TRAFFIC];
    b->untraced_count = h->count[SECTION_UNTRACED];
    b->unrecorded_count = h->count[SECTION_UNSEEN];
    b->spun_count = h->count[SECTION_SPUN];
    b->unended_count = h->count[SECTION_UNENDED];
#define X(name, type, count, place, part)                                      \
    b->place = (type *)(void *)(map + h->offset[SECTION_##name]);
    SECTIONS(X)
#undef X
    b->counts = h->counts;
    b->first_ns = h->first_ns;
    b->goal_elapsed_ns = h->goal_elapsed_ns;
    b->open = h->open != 0;
    b->root_start_ns = h->root_start_ns;
    b->goal_node = (uint32_t)h->goal_node;
}

static void set_peer_and_join_pointers(struct slave_graphfile_peers_joins *more,
                                       const struct file_header *h,
                                       uint8_t *map)
{
    struct slave_joins_cached *k = &more->joins;
    memset(more, 0, sizeof(*more));
    more->join_bound = h->join_bound;
    more->peers =
        (const struct ips_peer_row *)(const void *)(map +
                                                    h->offset[SECTION_PEERS]);
    more->peer_count = h->count[SECTION_PEERS];
    k->there = k->mapped = h->count[SECTION_JOINS_HEAD] > 0;
    k->of = h->joins_of;
    k->joins.head.data = map + h->offset[SECTION_JOINS_HEAD];
    k->joins.head.len = h->count[SECTION_JOINS_HEAD];
    k->joins.arcs.data = map + h->offset[SECTION_JOINS_ARCS];
    k->joins.arcs.len = h->count[SECTION_JOINS_ARCS];
    k->joins.count = (uint32_t)h->join_count;
    k->joins.arc_count = (uint32_t)h->join_arcs;
    k->joins.total = h->join_total;
}

static bool is_nul_terminated(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static bool are_chains_contiguous(const struct ips_graph *g)
{
    uint64_t next = 0;
    for (uint32_t i = 0; i < g->chain_count; i++) {
        if (g->chains[i].first != next || g->chains[i].count == 0)
            return false;
        next += g->chains[i].count;
    }
    return next == g->node_count;
}

/* Checks that the indices from one table into another are valid;
 * ips_graph_check_invariants() checks the indices of nodes. */
static bool are_table_indices_valid(const struct ips_built *b,
                                    const struct file_header *h)
{
    const uint32_t nodes[] = {SECTION_W,    SECTION_XPRED, SECTION_XKIND,
                              SECTION_XLEN, SECTION_T_NS,  SECTION_SITE,
                              SECTION_AT,   SECTION_WAIT,  SECTION_DELAY,
                              SECTION_PROBE};
    for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++)
        if (h->count[nodes[i]] != b->g.node_count)
            return false;
    if (h->count[SECTION_THREADS] != b->g.chain_count ||
        !are_chains_contiguous(&b->g))
        return false;
    if (b->goal_node != IPS_NO_NODE && b->goal_node >= b->g.node_count)
        return false;
    for (uint32_t i = 0; i < b->g.chain_count; i++)
        if (b->threads[i].process >= b->proc_count ||
            b->g.chains[i].process >= b->proc_count)
            return false;
    for (uint32_t i = 0; i < b->proc_count; i++)
        if (b->procs[i].parent != IPS_NONE &&
            b->procs[i].parent >= b->proc_count)
            return false;
    for (uint32_t i = 0; i < b->end_count; i++)
        if (b->ends[i].peer == IPS_PEER_LOCAL &&
            b->ends[i].peer_end >= b->end_count)
            return false;
    for (uint32_t i = 0; i < b->traffic_count; i++)
        if (b->traffic[i].end >= b->end_count ||
            b->traffic[i].process >= b->proc_count)
            return false;
    for (uint32_t i = 0; i < b->untraced_count; i++)
        if (!is_nul_terminated(b->untraced[i].cause,
                               sizeof(b->untraced[i].cause)) ||
            !is_nul_terminated(b->untraced[i].program,
                               sizeof(b->untraced[i].program)))
            return false;
    for (uint32_t i = 0; i < b->unrecorded_count; i++)
        if (b->unrecorded[i].process >= b->proc_count ||
            !is_nul_terminated(b->unrecorded[i].what,
                               sizeof(b->unrecorded[i].what)))
            return false;
    for (uint32_t i = 0; i < b->spun_count; i++)
        if (b->spun[i].node >= b->g.node_count ||
            (i && b->spun[i].node < b->spun[i - 1].node))
            return false;
    return true;
}

static int map_file(const char *path, struct slave_graphfile *f,
                    struct ips_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        ips_err_errno(err, "%s", path);
        if (err && errno == ENOENT)
            err->code = IPS_E_NOT_FOUND;
        return errno == ENOENT ? IPS_E_NOT_FOUND : IPS_E_IO;
    }
    int rc = 0;
    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct file_header)) {
        rc = ips_err_set(err, IPS_E_CORRUPT, "%s is too short", path);
    } else {
        f->length = (size_t)st.st_size;
        /* MAP_PRIVATE, so that no write can reach the file. */
        f->map = mmap(NULL, f->length, PROT_READ, MAP_PRIVATE, fd, 0);
        if (f->map == MAP_FAILED) {
            f->map = NULL;
            rc = ips_err_errno(err, "map %s", path);
        }
    }
    close(fd);
    return rc;
}

int slave_graphfile_map_and_check(const char *dir, uint64_t key,
                                  struct slave_graphfile *f,
                                  struct ips_built *b,
                                  struct slave_graphfile_peers_joins *more,
                                  struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16];
    *f = (struct slave_graphfile){0};
    snprintf(path, sizeof(path), "%s/graph", dir);
    int rc = map_file(path, f, err);
    if (rc < 0)
        return rc;
    uint8_t *map = f->map;
    const struct file_header *h = f->map;
    if (!is_header_valid(h, f->length) ||
        !is_part_checksum_valid(h, map, SLAVE_PART_TABLES)) {
        rc = ips_err_set(err, IPS_E_CORRUPT, "%s is damaged", path);
    } else if (h->key != key) {
        rc = ips_err_set(err, IPS_E_VERSION, "%s was made from other records",
                         path);
    } else {
        set_graph_pointers(b, h, map);
        set_peer_and_join_pointers(more, h, map);
        f->checked[SLAVE_PART_TABLES] = true;
        f->last_ns = h->last_ns;
        if (!are_table_indices_valid(b, h))
            rc = ips_err_set(err, IPS_E_CORRUPT, "%s: tables", path);
    }
    if (rc < 0) {
        slave_graphfile_release(f);
        memset(b, 0, sizeof(*b));
    }
    return rc;
}

void slave_graphfile_release(struct slave_graphfile *f)
{
    if (f->map)
        munmap(f->map, f->length);
    *f = (struct slave_graphfile){0};
}
