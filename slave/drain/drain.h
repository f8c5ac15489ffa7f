/*
 * Draining the pool: runs, images, streams and segments as the slave knows
 * them, and the turn that moves what was published into the archives.
 *
 * Invariants:
 *  - exactly once: a turn appends records to the archives, then commits
 *    cursors and archive lengths in one SQLite transaction, and only then
 *    zeroes, hands back or removes segments. Killed at any point, the next
 *    slave does the rest. Rows (`row`) are changed freely within a turn and
 *    put back (`saved`) if it cannot commit.
 *  - a stream's segments are ingested in order of seq.
 *  - nothing is removed from the pool that is not committed.
 *  - "dead" and "closed" are looked at before the records are read, so that
 *    nothing can follow what was read.
 *
 * Files: drain.c (the turn, start and end), run.c (runs: found, restored,
 * closed, limits), watch.c (what is in the pool), drain/liveness.c (who is
 * alive), ingest.c and drain/segment_reader.c (one segment read),
 * drain/reclaim.c (one handed back or removed; rings).
 *
 * Free of libevent: epoll_fd becomes readable when a turn is worth while.
 * Thread: one, the event loop's.
 */
#ifndef IPS_SLAVE_DRAIN_DRAIN_H
#define IPS_SLAVE_DRAIN_DRAIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pool/format.h"
#include "common/err.h"
#include "common/paths.h"
#include "common/types.h"
#include "slave/archive/archive.h"
#include "slave/archive/record_queue.h"
#include "slave/base/map.h"
#include "slave/drain/guarded_mapping.h"
#include "slave/store/store.h"

#define SLAVE_MS_NS 1000000ULL
#define SLAVE_SECOND_NS 1000000000ULL

/* Limits; a hostile pool meets them before our memory does. */
#define SLAVE_SEGMENTS_MAX 100000u      /* files of one run */
#define SLAVE_RUN_TURN_BYTES (8u << 20) /* of one run in one turn */
#define SLAVE_READ_BYTES (256u << 10)   /* of one segment in one go */
#define SLAVE_SYNCED 4u       /* run->synced at or above: up to date */
#define SLAVE_DAMAGED_MAX 16u /* segments of a run kept aside, and bytes */
#define SLAVE_DAMAGED_BYTES (16u << 20)
#define SLAVE_UID_NOBODY 65534u /* the kernel's overflow user */

enum slave_segment_state {
    SLAVE_SEG_NEW,     /* no valid header seen yet */
    SLAVE_SEG_WAITING, /* an earlier one of its stream is not done */
    SLAVE_SEG_READING, /* its stream is being read here */
    SLAVE_SEG_DONE,    /* all committed; to be handed back or removed */
    SLAVE_SEG_DRAINED, /* handed back to the writer */
    SLAVE_SEG_BAD,     /* refused: never read, removed with the run */
    SLAVE_SEG_GONE,    /* file removed; freed at the end of the turn */
};

struct slave_run;
struct slave_stream;

struct slave_segment {
    struct slave_link link; /* run->segment_map, by file name */
    struct slave_segment *next;
    struct slave_stream *stream; /* NULL while no header was seen */
    enum slave_segment_state state;
    int fd;                               /* -1: opened when needed */
    struct slave_guarded_mapping mapping; /* of a busy one, while fd is open */
    bool cut; /* somebody did so: no view of it again */
    uint32_t size;
    uint32_t scan; /* last directory scan that saw it */
    bool stored;   /* has a row */
    bool drop_row; /* row to be deleted by the next commit */
    bool final;    /* --on-full=ring: its writer writes no more */
    bool digest;   /* and so it is one of the ring's digests */
    uint64_t next_poll_ns;
    uint64_t wait_ns;  /* current back-off */
    uint64_t since_ns; /* when the present trouble began, 0 none */
    bool dirty;
    enum slave_segment_state saved_state;
    struct slave_segment_row row, saved;
};

enum slave_image_state {
    SLAVE_IMAGE_UNSEEN, /* another pid namespace: not found yet */
    SLAVE_IMAGE_ALIVE,
    SLAVE_IMAGE_REPLACED, /* by exec: writes no more, the process lives */
    SLAVE_IMAGE_DEAD,
};

struct slave_image { /* (pidns, pid, image_stamp) */
    struct slave_image *next;
    struct slave_run *run;
    enum slave_image_state state;
    uint32_t pid;
    uint64_t pidns;
    uint64_t stamp;
    int pidfd;            /* -1 none */
    uint32_t dead_status; /* see struct ips_stream_in */
    bool dying; /* a zombie: its status is told when it has been waited for */
    uint64_t dead_t_ns;
    uint64_t last_ns;      /* monotonic, of its last news */
    uint64_t next_look_ns; /* without a pidfd */
    uint64_t next_unrecorded_ns, unrecorded_wait_ns; /* drain/unrecorded.c */
    bool ended;        /* a final END was ingested */
    bool death_marked; /* its streams' rows say that it is dead */
    bool in_use;       /* by a stream: slave_run_remove_dead */
};

struct slave_stream {
    struct slave_link link; /* run->stream_map */
    struct slave_stream *next;
    struct slave_image *image;
    bool stored;
    bool dirty;
    bool in_use;     /* by a segment: slave_run_remove_dead */
    uint64_t gap_ns; /* since when next_seq is missing, 0 not */
    struct slave_stream_row row, saved;
};

struct slave_run {
    struct slave_run *next;
    struct slave_run_row row, saved;
    bool dirty;
    uint64_t reported; /* hash of the state that the master was told; 0 none */
    bool in_pool;      /* it has a directory with a valid control there */
    bool want_sync;    /* somebody waits: poll everything now */
    unsigned synced;   /* turns since that read all there was, in a row */
    int dirfd;         /* -1 */
    int watch;         /* inotify, -1 */
    /* watch.c: files of this run that appeared since window_ns; there were so
     * many that it is not watched but listed, at list_ns the next time. */
    uint32_t appeared;
    bool churns;
    uint64_t window_ns, list_ns;
    struct slave_spare_segments
        *spare_segments; /* drain/spare_segments.c; NULL none */
    /* Unlinked, or made as spares, and not yet counted in control. */
    uint64_t uncounted_released, uncounted_spare;
    struct slave_archive archive;            /* fd -1 while not being written */
    struct slave_record_queue *record_queue; /* it is followed; else NULL */
    struct slave_repack *repack;             /* of it, NULL none */
    uint64_t repack_in_vain;  /* its length when that was no gain */
    char dir[IPS_PATH_BYTES]; /* STATE/slave-M/runs/RUN */
    struct slave_map segment_map, stream_map;
    struct slave_segment *segments;
    struct slave_stream *streams, *streams_tail;
    struct slave_image *images;
    uint32_t stream_count;
    uint32_t process_count; /* distinct (pidns, pid) seen */
    uint32_t scan;
    bool scan_now;
    uint64_t changed_ns; /* monotonic, of the last news of any kind */
    uint64_t next_close_ns, next_removal_ns;
    uint64_t load_ns; /* load.c: of the last look at the load, and how many */
    uint32_t load_looks;
    uint64_t version; /* +1 with every change that a report would show */
    unsigned pins;    /* asks in flight: not removed by limits */
    /* serve/precompute.c */
    uint64_t asked_ns; /* last asked about its graph or events; 0 never */
    bool was_open;     /* here, and not built since it was closed */
    uint64_t precomputed_bytes; /* of the archive, looked at or about to be */
    uint64_t precompute_ns;     /* when it is again, if there is anything new */
};

struct slave_drain_options {
    const char *pool;
    const char *state;          /* the slave's own: STATE/slave-MACHINE */
    uint64_t archive_max_bytes; /* of all runs; 0 no limit */
    uint64_t archive_age_s;     /* of closed runs; 0 no limit */
};

struct slave_drain {
    char pool[IPS_PATH_BYTES];
    char state[IPS_PATH_BYTES];
    uint64_t archive_max_bytes, archive_age_s;
    struct slave_store *store;
    struct slave_run *runs;
    int pool_fd, epoll_fd, inotify_fd, pool_watch;
    bool scan_now;
    uint64_t next_scan_ns, next_limits_ns, next_control_ns;
    uint64_t pidns;     /* inode of our own pid namespace */
    bool pidns_initial; /* every process of the machine is in our /proc */
    struct slave_carried {
        char run[64];
    } * carried; /* drain/liveness.c: runs in the environments of processes */
    size_t carried_count, carried_capacity;
    uint64_t carried_ns; /* when that was read; 0: it is not known */
    uint64_t next_proc_scan_ns, next_unrecorded_ns, next_load_ns;
    uint32_t open_fds, max_fds;
    uint8_t *frames; /* [SLAVE_FRAMES_BYTES] of the run in hand, not staged */
    size_t frames_len;
    struct slave_pack *pack;
    uint8_t *peek;
    uint64_t failing_since_ns; /* archive or database; 0 fine */
    char failing[200];         /* why; "" fine */
    uint64_t retry_ns;
    uint64_t version;      /* +1 with every change that a report would show */
    uint64_t runs_found;   /* +1 with every run that appears in the pool */
    uint64_t moved_bytes;  /* by the last turn */
    bool more_to_close;    /* which it had no time for */
    int pool_lock;         /* while runs are closed, else -1 */
    bool pool_lock_missed; /* in this turn */
};

/* Makes what is missing, opens the database, restores what was known. The
 * caller holds slave.lock. */
int slave_drain_open(struct slave_drain *d,
                     const struct slave_drain_options *opt,
                     struct ips_err *err) IPS_MUST_USE;
void slave_drain_close(struct slave_drain *d);

/* One turn. `now_ns` is CLOCK_MONOTONIC. Returns when to come again, at the
 * latest (ns from now). Errors are logged and retried; nothing is lost. */
uint64_t slave_drain_turn(struct slave_drain *d, uint64_t now_ns);

/* Highest used/quota of the runs in the pool, in 1/1000. */
unsigned slave_drain_fill(const struct slave_drain *d);
/* Runs of the pool that are not closed. */
unsigned slave_drain_open_runs(const struct slave_drain *d);
struct slave_run *slave_drain_find(const struct slave_drain *d,
                                   const char *name);

/* ---- shared by the files above --------------------------------------- */

uint64_t slave_now_ns(void); /* CLOCK_MONOTONIC */
uint64_t slave_real_ns(void);

void slave_run_touch(struct slave_run *run);
/* Reads from `control` the losses that no segment could take - all that is
 * known of a process that never got one - and the run's fill. */
void slave_run_refresh_control(struct slave_run *run);
void slave_segment_touch(struct slave_segment *seg);
void slave_stream_touch(struct slave_stream *st);
void slave_segment_set_state(struct slave_segment *seg,
                             enum slave_segment_state next, const char *why);

/* run.c */
int slave_run_restore(struct slave_drain *d, struct ips_err *err) IPS_MUST_USE;
/* A directory with a valid control is there. `dirfd` is taken. */
int slave_run_found(struct slave_drain *d, const char *name, int dirfd,
                    const struct ips_control *control,
                    struct ips_err *err) IPS_MUST_USE;
struct slave_stream *slave_run_stream(struct slave_run *run,
                                      const struct ips_segment_header *head);
struct slave_segment *slave_run_segment(struct slave_run *run,
                                        const char *file);
struct slave_segment *slave_run_add_segment(struct slave_run *run,
                                            const char *file);
/* Has every process of it that was seen ended? false where none was seen. */
bool slave_run_all_dead(const struct slave_run *run);
/* slave_run_closes_end() lets go of what the turn's closes needed. */
void slave_run_closes_end(struct slave_drain *d);
void slave_run_try_close(struct slave_drain *d, struct slave_run *run,
                         uint64_t now_ns);
void slave_run_limits(struct slave_drain *d);

/* drain/run_removal.c: frees what is known of dead processes whose every record
 * is committed; the database keeps it. At most once a second a run. O(streams).
 */
void slave_run_remove_dead(struct slave_drain *d, struct slave_run *run,
                           uint64_t now_ns);
void slave_run_free(struct slave_drain *d, struct slave_run *run);
void slave_segment_close_fd(struct slave_drain *d, struct slave_segment *seg);

/* watch.c */
int slave_watch_open(struct slave_drain *d, struct ips_err *err) IPS_MUST_USE;
void slave_watch_events(struct slave_drain *d, uint64_t now_ns);
void slave_watch_pool(struct slave_drain *d);
/* Lists one run's directory. Returns the number of new files, < 0 failed. */
int slave_watch_run(struct slave_drain *d, struct slave_run *run,
                    uint64_t now_ns);
void slave_watch_remove(struct slave_drain *d, struct slave_run *run);

/* drain/spare_segments.c: segments made ahead for a run in which processes come
 * and go. */
struct slave_spare_segments;
/* One that lies in the directory, of a slave before us. */
void slave_spare_segments_found(struct slave_drain *d, struct slave_run *run,
                                const char *name);
/* Makes and adopts, if it is time. */
void slave_spare_segments_turn(struct slave_drain *d, struct slave_run *run,
                               uint64_t now_ns);
/* When it is the next time; UINT64_MAX: never. */
uint64_t slave_spare_segments_next_ns(const struct slave_run *run);
/* Takes all back that nobody has taken. Returns how many had been. */
unsigned slave_spare_segments_withdraw(struct slave_drain *d,
                                       struct slave_run *run);
/* Forgets them; they stay where they are. */
void slave_spare_segments_free(struct slave_drain *d, struct slave_run *run);

/* drain/liveness.c */
void slave_liveness_open(struct slave_drain *d);
void slave_liveness_track(struct slave_drain *d, struct slave_image *image,
                          uint64_t mtime_real_ns);
void slave_liveness_events(struct slave_drain *d, uint64_t now_ns);
void slave_liveness_check(struct slave_drain *d, uint64_t now_ns);
void slave_liveness_drop(struct slave_image *image);
/* Does some process on this machine carry the run in its environment? Asked
 * before a run is closed. Reads /proc at most every 50 ms for all runs: 10 us a
 * process. */
bool slave_liveness_environment(struct slave_drain *d, const char *run);

/* ingest.c */
void slave_ingest_segment(struct slave_drain *d, struct slave_run *run,
                          struct slave_segment *seg, uint64_t now_ns,
                          struct ips_err *err);
int slave_ingest_fd(struct slave_drain *d, struct slave_run *run,
                    struct slave_segment *seg,
                    struct ips_err *err) IPS_MUST_USE;
void slave_ingest_back_off(struct slave_segment *seg, uint64_t now_ns,
                           bool news);
bool slave_ingest_writer_gone(const struct slave_segment *seg);
void slave_ingest_refuse(struct slave_run *run, struct slave_segment *seg,
                         const char *why);
/* A new file, or one used again: its records are yet to be read. */
void slave_ingest_begin(struct slave_segment *seg,
                        const struct ips_segment_header *head);

/* --on-full=ring: segments go round while their writer lives, and are left
 * alone. Then the digest of the highest seq takes the place of all up to it.
 * `gone` was known before the header was read. true: to be read now. */
bool slave_ingest_ring_turn(struct slave_run *run, struct slave_segment *seg,
                            const struct ips_segment_header *head, bool gone);

/* drain/reclaim.c: adds the run's uncounted bytes to its control. What cannot
 * be added now is added with the next bytes, or a second later. */
void slave_run_count_bytes(const struct slave_drain *d, struct slave_run *run);

/* drain/reclaim.c: hands back or removes what is committed. */
void slave_ingest_reclaim(struct slave_drain *d, struct slave_run *run,
                          struct slave_segment *seg, uint64_t now_ns);

#endif
