/*
 * Built graphs of runs, kept for the next question. A graph is named by its
 * generation (unique over restarts): the asker that got it in SyncAnswer gets
 * answers about that very graph, or is told that it is no longer there.
 *
 * A closed run's graph, once its peers are settled, is kept in a file
 * (graphs/file.h); its generation is new whenever it is loaded.
 *
 * Thread: the worker's, all of it. A snapshot is made by the loop and given
 * away.
 */
#ifndef IPS_SLAVE_GRAPHS_GRAPHS_H
#define IPS_SLAVE_GRAPHS_GRAPHS_H

#include "analysis/graph/mtime.h"
#include "analysis/graph/path.h"
#include "analysis/graph/view.h"
#include "common/large.h"
#include "common/paths.h"
#include "slave/archive/archive.h"
#include "slave/build/build.h"
#include "slave/graphs/file.h"
#include "slave/graphs/incremental.h"
#include "slave/graphs/joins_cache.h"
#include "slave/graphs/live_tables.h"
#include "slave/graphs/records.h"
#include "slave/store/store.h"
#include "slave/symbols/procs.h"
#include "slave/symbols/symbols.h"

#define SLAVE_GRAPHS_MAX 8
/* A question asks for its graph step by step, and others come in between. So of
 * the graphs used last, these are not given up to others for so long, however
 * little memory there is (what is more than that is in files): else two
 * questions about two runs would take the graphs out of each other's hands. */
#define SLAVE_GRAPHS_HELD 3u
#define SLAVE_GRAPHS_HELD_NS (20 * 1000000000ull)
/* Larger graphs go to their files after the answer. */
#define SLAVE_GRAPHS_KEEP_NODES 100000u
#define SLAVE_GRAPHS_MAX_NODES 40000000u /* of all that is kept */

/* What was committed of a run at one moment: the input of a build. */
struct slave_snapshot {
    char run[64];
    char dir[IPS_PATH_BYTES];
    int64_t run_id;
    bool closed;
    struct ips_control control;
    int archive_fd; /* the file they are in, whatever becomes of its name;
                       -1: by its name */
    uint64_t archive_bytes;
    uint64_t key; /* equal key, equal input; slave_snapshot_key */
    struct slave_stream_row *streams;
    uint32_t stream_count;
    struct slave_unrecorded_row *unrecorded; /* no part of the key */
    uint32_t unrecorded_count;
    struct slave_load_row load; /* no part of the key */
    bool waits; /* they are asked for next; no part of the key */
};
uint64_t slave_snapshot_key(const struct slave_snapshot *s);
void slave_snapshot_free(struct slave_snapshot *s);

/* The run's costs by code, with names: made when they are first asked for. */
struct slave_profile_cache {
    struct ips_procs p;
    struct slave_symbols names; /* of p.map's places */
};

struct slave_waits; /* slave/graphs/waits.h */

struct slave_graph {
    struct slave_graph *next;
    unsigned refs;
    uint64_t used_ns; /* monotonic: when it was last asked for */
    uint64_t generation;
    struct slave_snapshot *snap; /* its own */
    struct ips_built b;
    struct ips_build_effort effort; /* what the build read and made */
    struct ips_large_use built_in;  /* most while it was built; or mapped: 0 */
    struct slave_graphfile file;    /* map != NULL: b's arrays are in it */
    struct ips_peer_row *peers;     /* as last set */
    uint32_t peer_count;
    bool peers_set;
    /* As last asked: the machine (number in that question) and end that each
     * of our ends is joined to; [b.end_count] or NULL. */
    struct ips_peer_end *joined;
    struct ips_mtime_map mtimes; /* as last asked; calibrate_map.h */
    struct ips_est est;          /* of the last FinishAsk */
    struct ips_view view;        /* as its scenario sees the graph */
    struct ips_scenario scenario;
    bool has_est;
    struct slave_joins_cached joins;
    bool needs_write;                          /* its file is to be written */
    struct slave_profile_cache *profile_cache; /* NULL: not asked for yet */
    struct slave_waits *waits;                 /* the same */
    uint64_t join_bound; /* ips_contract_most(), + 1; 0: not computed yet */
    uint64_t revision;   /* +1 when the peers change: half sent answers end */
};

struct slave_graphs {
    struct slave_graph *list; /* last used first */
    struct slave_records *records;
    struct slave_incremental incremental;
    struct slave_live_tables live_tables;
    uint64_t next_generation;
    char db[IPS_PATH_BYTES];     /* "": IRT are not stored */
    char helper[IPS_PATH_BYTES]; /* this program, as slave/base/helper.h; "":
                                    none */
    struct slave_symbol_failures failures; /* to read them */
    struct slave_store *store;
    uint32_t sql_helpers; /* running (serve/sql.c) */
    uint64_t builds;      /* ever, from records */
    atomic_uint permille; /* of the build in hand; 1000: there is none */
};

void slave_graphs_init(struct slave_graphs *gs, const char *db,
                       const char *helper);
void slave_graphs_release(struct slave_graphs *gs);

/* The graph of this snapshot (taken in any case), from memory, file or
 * records. *out has one more reference. O(records) at worst. */
int slave_graphs_get(struct slave_graphs *gs, struct slave_snapshot *snap,
                     struct slave_graph **out,
                     struct ips_err *err) IPS_MUST_USE;
/* What the next question about this run would need, as far as it is worth it:
 * its records unpacked, its build gone on. */
int slave_graphs_precompute(struct slave_graphs *gs,
                            const struct slave_snapshot *s,
                            struct ips_err *err) IPS_MUST_USE;
/* The graph of that generation, one more reference; IPS_E_BUSY: gone. */
int slave_graphs_find(struct slave_graphs *gs, const char *run,
                      uint64_t generation, struct slave_graph **out,
                      struct ips_err *err) IPS_MUST_USE;
/* Before that part of `g` is read. IPS_E_BUSY: its file is damaged; it is
 * removed, and the graph built again when it is asked for. */
int slave_graphs_need(struct slave_graph *g, enum slave_graphfile_part part,
                      struct ips_err *err) IPS_MUST_USE;
void slave_graphs_put(struct slave_graphs *gs, struct slave_graph *g);

/* Writes the files of graphs that were not worth anybody's wait. */
void slave_graphs_keep(struct slave_graphs *gs);

/* What of a run was committed, as a build reads it. */
struct slave_input {
    struct slave_records *records;
    struct ips_build_input in;
    struct ips_stream_in *streams;
};
int slave_input_make(struct slave_graphs *gs, const struct slave_snapshot *s,
                     struct slave_input *out, struct ips_err *err) IPS_MUST_USE;
/* One stream without its records. */
void slave_input_stream(struct ips_stream_in *to,
                        const struct slave_stream_row *r);
void slave_input_release(struct slave_graphs *gs, struct slave_input *in);

/* g->costs (profile/profile_cache.c). O(records) the first time, and symbol
 * files are read. */
int slave_graph_profile_cache(struct slave_graphs *gs, struct slave_graph *g,
                              struct ips_err *err) IPS_MUST_USE;
void slave_profile_cache_free(struct slave_profile_cache *c);
/* The database, NULL where there is none. */
struct slave_store *slave_graphs_store(struct slave_graphs *gs,
                                       struct ips_err *err);
/* Names the places of a map of that graph's run. */
int slave_graph_names(struct slave_graphs *gs, const struct slave_graph *g,
                      const struct ips_codemap *map,
                      struct slave_symbols *names,
                      struct ips_err *err) IPS_MUST_USE;

int slave_graph_set_peers(struct slave_graphs *gs, struct slave_graph *g,
                          const struct ips_peer_row *rows, uint32_t count,
                          struct ips_err *err) IPS_MUST_USE;

#endif
