/*
 * A closed run's built graph on disk, STATE/slave-MACHINE/runs/RUN/graph, so
 * that a question about an old run does not read its records again: a header,
 * then every array as it lies in memory (struct of arrays), each on an 8-byte
 * boundary, mapped on next use.
 *
 * It is a cache: written once under another name and renamed, keyed by the
 * snapshot (archive length, streams), a format version, the sizes of the
 * structures in it and a check of every byte. Anything doubtful - a byte, a
 * length, an index out of range - and it is not used but built again. It is
 * checked in parts, each before it is first read: the tables when it is mapped,
 * the rest when somebody needs it (slave_graphfile_need), so that what a
 * question does not read costs it nothing.
 *
 * Thread: the worker's.
 */
#ifndef IPS_SLAVE_GRAPHS_FILE_H
#define IPS_SLAVE_GRAPHS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "slave/build/build.h"
#include "slave/graphs/joins_cache.h"

#define SLAVE_GRAPHFILE_VERSION 13

enum slave_graphfile_part {
    SLAVE_PART_TABLES, /* header, chains, processes, threads, channels, peers */
    SLAVE_PART_JOINS,
    SLAVE_PART_PATH, /* of the graph, what a path by CPU time reads; it is
                        well made besides (ips_graph_check) */
    SLAVE_PART_REST, /* t_ns, site, at, wait, delay, probe */
    SLAVE_PARTS
};

struct slave_graphfile { /* map NULL: none */
    void *map;
    size_t length;
    bool checked[SLAVE_PARTS];
    uint64_t last_ns; /* slave_last_ns() of the graph */
};

/* What goes with a graph. */
struct slave_graphfile_more {
    const struct ips_peer_row *peers; /* those that were set */
    uint32_t peer_count;
    struct slave_joins_cached joins; /* of these peers, or nothing */
    uint64_t join_bound;             /* of struct slave_graph */
};

/* Writes DIR/graph. */
int slave_graphfile_write(const char *dir, uint64_t key,
                          const struct ips_built *b,
                          const struct slave_graphfile_more *more,
                          uint64_t *bytes, struct ips_err *err) IPS_MUST_USE;

/* Maps DIR/graph if it is there, whole and of this key; fills *b (more NULL)
 * and *more with pointers into the map, which the caller must not change or
 * free. IPS_E_NOT_FOUND, IPS_E_CORRUPT, IPS_E_VERSION: build instead. */
int slave_graphfile_read(const char *dir, uint64_t key,
                         struct slave_graphfile *f, struct ips_built *b,
                         struct slave_graphfile_more *more,
                         struct ips_err *err) IPS_MUST_USE;
/* Is that part as it was written? Reads it once. `g`: the graph in it. */
bool slave_graphfile_need(struct slave_graphfile *f, const struct ips_graph *g,
                          enum slave_graphfile_part part);
void slave_graphfile_release(struct slave_graphfile *f);

#endif
