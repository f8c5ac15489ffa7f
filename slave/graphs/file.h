/*
 * Stores the built graph of a closed run on disk, in
 * STATE/slave-MACHINE/runs/RUN/graph, so that a query about an old run does not
 * read its records again. The file is a header, then every array as in memory
 * (struct of arrays), each on an 8-byte boundary. The slave maps the file when
 * a question next needs the graph.
 *
 * The file is a cache. It is written once under another name and renamed. Its
 * key is the snapshot (archive length, streams), a format version and the sizes
 * of its structures; a checksum covers every byte. If a byte, a length or an
 * index is wrong, the graph is built again. The slave checks the file in parts,
 * each before it first reads that part: the tables when it is mapped, the
 * others by slave_graphfile_check_part(). So a query pays only for the parts
 * that it reads.
 *
 * Runs on the worker thread.
 */
#ifndef IPS_SLAVE_GRAPHS_FILE_H
#define IPS_SLAVE_GRAPHS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "slave/build/build.h"
#include "slave/graphs/joins_cache.h"

#define SLAVE_GRAPHFILE_VERSION 18

enum slave_graphfile_part {
    SLAVE_PART_TABLES, /* header, chains, processes, threads, channels, peers */
    SLAVE_PART_JOINS,
    /* node arrays for the longest path; checked by
       ips_graph_check_invariants(), too */
    SLAVE_PART_PATH,
    /* the other node arrays: t_ns, site, at, wait, delay, probe */
    SLAVE_PART_REST,
    SLAVE_PARTS
};

struct slave_graphfile { /* a mapped graph file; `map` NULL: none */
    void *map;
    size_t length;
    bool checked[SLAVE_PARTS];
    /* time of the graph's last event, from slave_last_event_ns() */
    uint64_t last_ns;
};

/* What the graph's file contains in addition to the graph: peers and joins. */
struct slave_graphfile_peers_joins {
    /* peers of the channel ends, see slave_graph_set_peers_and_remake_arcs */
    const struct ips_peer_row *peers;
    uint32_t peer_count;
    /* the joins computed with these peers; all members 0: no joins are
     * stored */
    struct slave_joins_cached joins;
    uint64_t join_bound; /* see slave_graph.join_bound */
};

/* Writes DIR/graph. If it succeeds, *bytes is set to the file's size. */
int slave_graphfile_write(const char *dir, uint64_t key,
                          const struct ips_built *b,
                          const struct slave_graphfile_peers_joins *more,
                          uint64_t *bytes, struct ips_err *err) IPS_MUST_USE;

/* Maps DIR/graph if it exists, is intact and has this key; fills *b (b->more
 * NULL) and *more with pointers into the map, which the caller must not change
 * or free. IPS_E_NOT_FOUND, IPS_E_CORRUPT, IPS_E_VERSION: the caller must build
 * the graph instead. */
int slave_graphfile_map_and_check(const char *dir, uint64_t key,
                                  struct slave_graphfile *f,
                                  struct ips_built *b,
                                  struct slave_graphfile_peers_joins *more,
                                  struct ips_err *err) IPS_MUST_USE;
/* Returns true if the part of the file is as it was written, or if no file is
 * mapped. Reads the part only the first time. `g`: the graph in the file. */
bool slave_graphfile_check_part(struct slave_graphfile *f,
                                const struct ips_graph *g,
                                enum slave_graphfile_part part);
void slave_graphfile_release(struct slave_graphfile *f);

#endif
