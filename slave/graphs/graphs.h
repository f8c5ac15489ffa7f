/*
 * Keeps the built graphs of runs in memory for the next question. A graph is
 * identified by its generation, which is unique across restarts: a client that
 * got it in SyncAnswer gets answers about that very graph, or an error if it
 * was dropped.
 *
 * The graph of a closed run is stored in a file once its peers are set
 * (graphs/file.h); it gets a new generation whenever it is loaded.
 *
 * Runs on the worker thread. The event loop makes each snapshot and hands it
 * over.
 */
#ifndef IPS_SLAVE_GRAPHS_GRAPHS_H
#define IPS_SLAVE_GRAPHS_GRAPHS_H

#include "analysis/graph/message_time.h"
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
/* A question uses its graph in several requests, and requests of other
 * questions come in between. Two questions about two runs must not evict each
 * other's graphs. So the SLAVE_GRAPHS_RECENT graphs used last stay for
 * SLAVE_GRAPHS_RECENT_NS after their use, even if memory is short (arrays
 * beyond the limit are in files). */
#define SLAVE_GRAPHS_RECENT 3u
#define SLAVE_GRAPHS_RECENT_NS (20 * 1000000000ull)
/* Graphs with this many nodes or more are written to their files only after the
 * answer was sent. */
#define SLAVE_GRAPHS_WRITE_LATER_NODES 100000u
/* maximum number of nodes of all kept graphs together */
#define SLAVE_GRAPHS_MAX_NODES 40000000u

/* The committed data of a run at one moment: the input of a build. */
struct slave_snapshot {
    char run[64];
    char dir[IPS_PATH_BYTES];
    int64_t run_id;
    bool closed;
    struct ips_control control;
    /* the archive's file, which stays valid if it is renamed or replaced; -1:
     * open it by name */
    int archive_fd;
    uint64_t archive_bytes;
    /* made by slave_snapshot_compute_key; snapshots with equal keys have equal
     * input */
    uint64_t key;
    struct slave_stream_row *streams;
    uint32_t stream_count;
    /* unrecorded activity found in /proc; not part of the key */
    struct slave_unrecorded_row *unrecorded;
    uint32_t unrecorded_count;
    /* the machine's load during the run; not part of the key */
    struct slave_load_row load;
    /* the next request will ask for the waits; not part of the key */
    bool waits;
};
uint64_t slave_snapshot_compute_key(const struct slave_snapshot *s);
void slave_snapshot_free(struct slave_snapshot *s);

/* The CPU time of a run by code location, with names. Made when first
 * needed. */
struct slave_profile_cache {
    struct ips_procs p;
    struct slave_symbols names; /* names of the code locations of p.map */
};

struct slave_waits; /* waits with their call sites, see slave/graphs/waits.h */

struct slave_graph {
    struct slave_graph *next;
    unsigned refs;
    uint64_t used_ns; /* monotonic time at which the graph was last used */
    uint64_t generation;
    /* the snapshot from which the graph was built; freed with the graph */
    struct slave_snapshot *snap;
    struct ips_built b;
    /* records read and nodes made by the build */
    struct ips_build_effort effort;
    /* peak memory use of the build; 0: the graph was mapped from its file */
    struct ips_large_use built_in;
    /* the graph's file, if it is mapped; then the arrays of `b` are in this
     * mapping */
    struct slave_graphfile file;
    /* the graph's channel ends with peers on other machines, as set by
     * slave_graph_set_peers_and_remake_arcs */
    struct ips_peer_row *peers;
    uint32_t peer_count;
    bool peers_set;
    /* [b.end_count] or NULL. From the last PeersAsk: for each channel end, the
     * end on another machine to which it is joined, and the number that the
     * question gives that machine. */
    struct ips_peer_end *joined;
    /* message times from the last PeersAsk; calibrate_map.h */
    struct ips_message_time_map message_times;
    struct ips_est est;   /* longest path of the last FinishAsk */
    struct ips_view view; /* the graph with the arc lengths of `scenario` */
    struct ips_scenario scenario;
    bool has_est;
    struct slave_joins_cached joins;
    /* the graph is newer than its file, which must be written */
    bool needs_write;
    /* CPU time by code location; NULL: not made yet */
    struct slave_profile_cache *profile_cache;
    /* waits with call sites; NULL: not made yet */
    struct slave_waits *waits;
    /* upper bound for the number of nodes in the graph's joins
     * (ips_joins_compute_node_bound()), plus 1; 0: not computed */
    uint64_t join_bound;
};

struct slave_graphs {
    struct slave_graph *list; /* graphs in order of last use, latest first */
    struct slave_records *records;
    struct slave_incremental incremental;
    struct slave_live_tables live_tables;
    uint64_t next_generation;
    /* path of the database; "": no tables of builds are stored */
    char db[IPS_PATH_BYTES];
    /* path of this program, to run as a helper (base/helper.h); "": none */
    char helper[IPS_PATH_BYTES];
    /* symbol files that could not be read */
    struct slave_symbol_failures failures;
    struct slave_store *store;
    /* number of running SQL helper processes (serve/sql.c) */
    uint32_t sql_helpers;
    /* number of graph builds since the slave started, whole and incremental */
    uint64_t builds;
    atomic_uint permille; /* progress of the build in 1/1000; 1000: none runs */
};

void slave_graphs_init(struct slave_graphs *gs, const char *db,
                       const char *helper);
void slave_graphs_release(struct slave_graphs *gs);

/* Gets the graph of this snapshot from memory, file or records, and adds a
 * reference to it. Takes ownership of `snap` in any case. O(records) at
 * worst. */
int slave_graphs_get_or_build(struct slave_graphs *gs,
                              struct slave_snapshot *snap,
                              struct slave_graph **out,
                              struct ips_err *err) IPS_MUST_USE;
/* Prepares for the next question about this run: unpacks its new records, and
 * continues or starts an incremental build if that pays. */
int slave_graphs_advance_incremental_build(struct slave_graphs *gs,
                                           const struct slave_snapshot *s,
                                           struct ips_err *err) IPS_MUST_USE;
/* Finds the graph of that generation and adds a reference to it. IPS_E_BUSY:
 * the graph was dropped. */
int slave_graphs_acquire_by_generation(struct slave_graphs *gs, const char *run,
                                       uint64_t generation,
                                       struct slave_graph **out,
                                       struct ips_err *err) IPS_MUST_USE;
/* Checks that this part of the graph's file is intact; call before reading the
 * part's arrays in `g`. IPS_E_BUSY: the file is damaged and was removed; the
 * next question builds the graph again. */
int slave_graphs_verify_section_or_remove_file(
    struct slave_graph *g, enum slave_graphfile_part part,
    struct ips_err *err) IPS_MUST_USE;
void slave_graphs_release_graph_and_evict(struct slave_graphs *gs,
                                          struct slave_graph *g);

/* Writes the files of graphs that were not written before the answer was sent
 * (SLAVE_GRAPHS_WRITE_LATER_NODES). */
void slave_graphs_write_pending_files(struct slave_graphs *gs);

/* The committed data of a run, in the form that a build reads. */
struct slave_input {
    struct slave_records *records;
    struct ips_build_input in;
    struct ips_stream_in *streams;
};
/* Fills *out with the data of the snapshot, which must outlive it; reads the
 * records that are not in memory yet. Release *out with slave_input_release();
 * this is allowed after a failure, too. */
int slave_input_fill_from_snapshot(struct slave_graphs *gs,
                                   const struct slave_snapshot *s,
                                   struct slave_input *out,
                                   struct ips_err *err) IPS_MUST_USE;
/* Fills *to, a stream of a build's input, from its database row, without the
 * records. */
void slave_input_fill_stream_from_row(struct ips_stream_in *to,
                                      const struct slave_stream_row *r);
void slave_input_release(struct slave_graphs *gs, struct slave_input *in);

/* Makes g->profile_cache, the CPU time by code location, if it is missing
 * (profile/profile_cache.c). The first call for a graph is O(records) and reads
 * symbol files. */
int slave_graph_make_profile_cache_if_missing(struct slave_graphs *gs,
                                              struct slave_graph *g,
                                              struct ips_err *err) IPS_MUST_USE;
void slave_profile_cache_free(struct slave_profile_cache *c);
/* Returns the slave's database for the worker, which the first call opens;
 * NULL: there is none, or it cannot be opened. */
struct slave_store *slave_graphs_get_or_open_store(struct slave_graphs *gs,
                                                   struct ips_err *err);
/* Fills *names with the procedure names of the code locations of `map`, which
 * belongs to the graph's run. */
int slave_graph_fill_symbol_names_of_map(struct slave_graphs *gs,
                                         const struct slave_graph *g,
                                         const struct ips_codemap *map,
                                         struct slave_symbols *names,
                                         struct ips_err *err) IPS_MUST_USE;

/* Sets the peers of the graph's channel ends to rows[count] and updates the
 * graph to match. Does nothing if the peers are the same as before. IPS_E_BUSY:
 * other answers read the graph, and it was left as it is for them. After an
 * error slave_graphs_acquire_by_generation() and slave_graphs_get_or_build() do
 * not find the graph any more. The master asks only one question at a time that
 * needs peers of a run, so no other question's peers come between the requests
 * of one. */
int slave_graph_set_peers_and_remake_arcs(struct slave_graphs *gs,
                                          struct slave_graph *g,
                                          const struct ips_peer_row *rows,
                                          uint32_t count,
                                          struct ips_err *err) IPS_MUST_USE;

#endif
