/*
 * Draining the pool: the slave's data about runs, images (one program in one
 * process, between two execs), streams (one thread's records in one image) and
 * segments, and the turn that moves published records into the archives.
 *
 * Invariants:
 *  - exactly once: a turn appends records to the archives, then commits cursors
 *    and archive lengths in one SQLite transaction, and only then zeroes, hands
 *    back or removes segments. If the slave is killed at any point, the next
 *    slave does the rest. A turn may change rows (`row`) freely; if it cannot
 *    commit, they are restored from `saved`.
 *  - a stream's segments are ingested in order of seq.
 *  - nothing is removed from the pool before it is committed.
 *  - the slave checks whether a writer is dead or a segment is closed before it
 *    reads the records. So no record can appear in such a segment after the
 *    read.
 *
 * Files: drain.c (the turn, start and end), run.c (finds, restores and closes
 * runs, and removes old ones), watch.c (what is in the pool), drain/liveness.c
 * (which processes are alive), ingest.c and drain/segment_reader.c (read one
 * segment), drain/reclaim.c (hands a segment back or removes it;
 * --on-full=ring).
 *
 * Does not use libevent: epoll_fd becomes readable when there is work for a
 * turn. Thread: one, the event loop's.
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
#include "slave/base/hashmap.h"
#include "slave/drain/guarded_mapping.h"
#include "slave/store/store.h"

#define SLAVE_MS_NS 1000000ULL
#define SLAVE_SECOND_NS 1000000000ULL

/* Limits; a malicious pool reaches them before the slave runs out of memory. */
/* maximum number of segment files of one run */
#define SLAVE_SEGMENTS_MAX 100000u
/* a turn stops reading from a run after about this number of bytes */
#define SLAVE_RUN_TURN_BYTES (8u << 20)
/* maximum number of bytes that are read from one segment at once */
#define SLAVE_READ_BYTES (256u << 10)
/* When run->synced has reached this value, the slave counts as up to date with
 * the run. */
#define SLAVE_SYNCED 4u
/* maximum number and total size of the damaged segments of a run that are
 * copied to the archive's directory, for later analysis */
#define SLAVE_DAMAGED_MAX 16u
#define SLAVE_DAMAGED_BYTES (16u << 20)
/* user id that the kernel shows for users without a mapping in the user
 * namespace (overflowuid) */
#define SLAVE_UID_NOBODY 65534u

enum slave_segment_state {
    SLAVE_SEG_NEW, /* no valid segment header was seen yet */
    /* must wait: an earlier segment of the same stream is not read to its
     * end */
    SLAVE_SEG_WAITING,
    SLAVE_SEG_READING, /* being read: all earlier segments of the stream are
                          done */
    SLAVE_SEG_DONE,    /* all records committed; to be handed back or removed */
    SLAVE_SEG_DRAINED, /* handed back to the writer, which may use the segment
                          again */
    /* refused: not read any more; the file is removed together with the run */
    SLAVE_SEG_BAD,
    /* the segment's file was removed; the struct is freed at the end of the
     * turn */
    SLAVE_SEG_GONE,
};

struct slave_run;
struct slave_stream;

struct slave_segment {
    struct slave_hashmap_entry
        link; /* entry in run->segment_map, by file name */
    struct slave_segment *next;
    struct slave_stream *stream; /* NULL until the segment's header was seen */
    enum slave_segment_state state;
    int fd; /* descriptor of the file; -1: opened when needed */
    /* mapping of a segment with much data, kept while fd is open */
    struct slave_guarded_mapping mapping;
    /* an access to the mapping failed because the file was truncated: do not
     * map it again */
    bool cut;
    uint32_t size;
    /* number of the last directory listing that contained this file */
    uint32_t scan;
    bool stored;   /* the segment has a row in the database */
    bool drop_row; /* the next commit deletes the segment's row */
    /* --on-full=ring: the writer will not write to the segment any more */
    bool final;
    /* --on-full=ring: the segment is final and contains a digest: the records
     * that the writer kept of the segments that it overwrote */
    bool digest;
    uint64_t next_poll_ns;
    uint64_t wait_ns; /* current polling interval of the segment */
    /* monotonic time (ns) since which the slave has waited for the segment's
     * header or next record; 0: does not wait */
    uint64_t since_ns;
    bool dirty;
    enum slave_segment_state saved_state;
    struct slave_segment_row row, saved;
};

enum slave_image_state {
    /* the process is in another pid namespace and not found yet */
    SLAVE_IMAGE_UNSEEN,
    SLAVE_IMAGE_ALIVE,
    /* an exec replaced the image: no more records come, but the process
     * lives */
    SLAVE_IMAGE_REPLACED,
    SLAVE_IMAGE_DEAD,
};

struct slave_image { /* an image is identified by (pidns, pid, image_stamp) */
    struct slave_image *next;
    struct slave_run *run;
    enum slave_image_state state;
    uint32_t pid; /* pid in the process's own pid namespace */
    uint64_t pidns;
    uint64_t stamp;
    uint32_t pid_here; /* pid in the slave's pid namespace; 0: not found yet */
    int pidfd;         /* pidfd of the process; -1: none */
    /* exit status of the process, coded as in struct ips_stream_in */
    uint32_t dead_status;
    /* the process is a zombie: the kernel reports its exit status only after
     * its parent has waited for it */
    bool dying;
    uint64_t dead_t_ns;
    /* monotonic time at which the image's last records were read */
    uint64_t last_ns;
    /* time of the next check whether the process lives, if there is no pidfd or
     * the process is dying; 0: no check */
    uint64_t next_look_ns;
    /* time of the next search for unrecorded activity of the process, and
     * interval between searches (drain/unrecorded.c) */
    uint64_t next_unrecorded_ns, unrecorded_wait_ns;
    bool ended;        /* a final END record of the image was read */
    bool death_marked; /* the database rows of the image's streams say that it
                          is dead */
    /* temporary mark of slave_run_free_dead_processes(): some stream refers to
     * this image */
    bool in_use;
};

struct slave_stream {
    struct slave_hashmap_entry link; /* entry in run->stream_map */
    struct slave_stream *next;
    struct slave_image *image;
    bool stored;
    bool dirty;
    /* temporary mark of slave_run_free_dead_processes(): some segment refers to
     * this stream */
    bool in_use;
    /* monotonic time (ns) since which the stream's next segment, number
     * row.next_seq, is missing; 0: not missing */
    uint64_t gap_ns;
    struct slave_stream_row row, saved;
};

struct slave_run {
    struct slave_run *next;
    struct slave_run_row row, saved;
    bool dirty;
    /* hash of the state last reported to the master; 0: none */
    uint64_t reported;
    /* the pool has the run's directory, with a valid control file, and the
     * run's archive is open */
    bool in_pool;
    /* `unopened`: why the slave cannot open the archive of this run, which is
     * in the pool; empty: no such failure. `tried`: number (drain.listings) of
     * the pool listing in which opening last failed */
    char unopened[200];
    uint32_t tried;
    /* a client waits for the newest records: poll all segments in the next
     * turn */
    bool want_sync;
    /* number of turns since want_sync was set that read all published records.
     * A turn that finds no new record sets it to SLAVE_SYNCED */
    unsigned synced;
    int dirfd; /* descriptor of the run's directory in the pool; -1: none */
    int watch; /* inotify watch of the run's directory; -1: none */
    /* State of watch.c. `appeared`: number of files of this run that appeared
     * since window_ns. `churns`: so many files appear that watch.c lists the
     * directory, next at list_ns, instead of watching it by inotify. */
    uint32_t appeared;
    bool churns;
    uint64_t window_ns, list_ns;
    /* spare segments (drain/spare_segments.c); NULL: none */
    struct slave_spare_segments *spare_segments;
    /* bytes of removed segments, and of new spare segments, that were not yet
     * added to the counters in the run's control file */
    uint64_t uncounted_released, uncounted_spare;
    /* the run's archive; archive.fd is -1 while the file is not open for
     * writing */
    struct slave_archive archive;
    /* queue that hands new records to the live tables of the run
     * (graphs/live_tables.h); NULL: the run has none */
    struct slave_record_queue *record_queue;
    /* repacking of the archive in progress, or NULL */
    struct slave_repack *repack;
    /* length of the archive when repacking last failed to make it smaller */
    uint64_t repack_in_vain;
    /* directory of the run's files: STATE/slave-M/runs/RUN */
    char dir[IPS_PATH_BYTES];
    struct slave_hashmap segment_map, stream_map;
    struct slave_segment *segments;
    struct slave_stream *streams, *streams_tail;
    struct slave_image *images;
    uint32_t stream_count;
    uint32_t process_count; /* number of distinct (pidns, pid) seen */
    uint32_t scan;
    bool scan_now;
    /* monotonic time of the last new record, segment or state of a process */
    uint64_t changed_ns;
    uint64_t next_close_ns, next_removal_ns;
    /* load.c: monotonic time of the last measurement of the machine's load, and
     * number of measurements */
    uint64_t load_ns;
    uint32_t load_looks;
    uint64_t version; /* incremented with every change that is reported to the
                         master */
    /* number of requests in progress; while it is not 0, the archive limits
     * must not remove the run */
    unsigned pins;
    /* Members that serve/precompute.c uses: */
    /* monotonic time of the last question about the run's graph or events; 0:
     * never */
    uint64_t asked_ns;
    /* the run was in the pool at some time since this slave started, and its
     * graph was not built since the run was closed */
    bool was_open;
    /* length of the archive when precomputing was last considered */
    uint64_t precomputed_bytes;
    /* monotonic time from which on any new data leads to precomputing; before
     * that time, only SLAVE_PRECOMPUTE_BYTES of new data do */
    uint64_t precompute_ns;
};

struct slave_drain_options {
    const char *pool;
    /* the slave's own directory: STATE/slave-MACHINE */
    const char *state;
    /* size limit for all archives together; 0: no limit */
    uint64_t archive_max_bytes;
    uint64_t archive_age_s; /* age limit for closed runs; 0: no limit */
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
    uint64_t pidns; /* inode of the slave's own pid namespace */
    /* the slave's pid namespace is the initial one: /proc shows all
     * processes */
    bool pidns_initial;
    struct slave_environment_run {
        char run[64];
    } * carried; /* runs named in the environments of processes; filled by
                    drain/liveness.c */
    size_t carried_count, carried_capacity;
    /* monotonic time at which the environments were read; 0: `carried` is not
     * valid */
    uint64_t carried_ns;
    uint64_t next_proc_scan_ns, next_unrecorded_ns, next_load_ns;
    uint32_t open_fds, max_fds;
    /* [SLAVE_FRAMES_BYTES] frames of the current run that were not staged
     * yet */
    uint8_t *frames;
    size_t frames_len;
    struct slave_pack *pack;
    uint8_t *peek;
    /* monotonic time since which the archive or the database cannot be written;
     * 0: no failure */
    uint64_t failing_since_ns;
    /* why the archive or the database cannot be written, or a run of the pool
     * cannot be archived; "": no failure */
    char failing[200];
    /* why the slave cannot open the archive of a run that the last listing of
     * the pool found; "": no failure */
    char unopened[200];
    uint32_t listings; /* number of listings of the pool so far */
    uint64_t retry_ns;
    /* incremented with every change that is reported to the master */
    uint64_t version;
    /* incremented with every run that appears in the pool */
    uint64_t runs_found;
    uint64_t moved_bytes; /* bytes read by the last turn */
    /* the last turn did not have time to close all finished runs: the next one
     * continues */
    bool more_to_close;
    /* descriptor of pool.lock, held while runs are closed; else -1 */
    int pool_lock;
    bool pool_lock_missed; /* pool.lock could not be taken in this turn */
};

/* Creates missing directories, opens the database and restores the known runs.
 * The caller must hold slave.lock. */
int slave_drain_open(struct slave_drain *d,
                     const struct slave_drain_options *opt,
                     struct ips_err *err) IPS_MUST_USE;
void slave_drain_close(struct slave_drain *d);

/* Runs one turn: reads new records, commits them, hands back segments and
 * closes runs. `now_ns` is CLOCK_MONOTONIC. Returns the longest time to wait
 * before the next turn, in ns. Errors are logged and retried; no data is
 * lost. */
uint64_t slave_drain_turn(struct slave_drain *d, uint64_t now_ns);

/* Returns the highest fill (used bytes / quota) of the runs in the pool, in
 * thousandths. */
unsigned slave_drain_fullest_run_permille(const struct slave_drain *d);
/* Returns the number of runs in the pool, i.e. not closed; counts also those
 * whose archive cannot be opened. */
unsigned slave_drain_count_open_runs(const struct slave_drain *d);
struct slave_run *slave_drain_find_run(const struct slave_drain *d,
                                       const char *name);

/* ---- shared by the files of slave/drain ---------------------------------- */

uint64_t slave_now_ns(void); /* CLOCK_MONOTONIC in ns */
uint64_t slave_real_ns(void);

void slave_run_mark_dirty(struct slave_run *run);
/* Updates the run's row from its control file: the bytes in use, and the losses
 * that no segment could record. (A process that never got a segment leaves no
 * other trace.) */
void slave_run_update_row_from_control(struct slave_run *run);
void slave_segment_mark_dirty(struct slave_segment *seg);
void slave_stream_mark_dirty(struct slave_stream *st);
void slave_segment_set_state(struct slave_segment *seg,
                             enum slave_segment_state next, const char *why);

/* Functions of run.c. slave_run_restore_all() loads all runs from the
 * database. */
int slave_run_restore_all(struct slave_drain *d,
                          struct ips_err *err) IPS_MUST_USE;
/* Adds the run of the pool directory `name` (descriptor `dirfd`), whose control
 * file is valid, or opens a known run again. Takes ownership of `dirfd` only if
 * it succeeds. */
int slave_run_add_or_reopen(struct slave_drain *d, const char *name, int dirfd,
                            const struct ips_control *control,
                            struct ips_err *err) IPS_MUST_USE;
struct slave_stream *
slave_run_find_or_add_stream(struct slave_run *run,
                             const struct ips_segment_header *head);
struct slave_segment *slave_run_find_segment(struct slave_run *run,
                                             const char *file);
struct slave_segment *slave_run_add_segment(struct slave_run *run,
                                            const char *file);
/* Returns true if all processes of the run that the slave has seen have ended;
 * false if it has seen none. */
bool slave_run_are_all_processes_dead(const struct slave_run *run);
/* slave_run_try_close() closes the run if it is over. All closes of a turn
 * share pool.lock; slave_run_release_pool_lock() releases it at the end of the
 * turn. */
void slave_run_release_pool_lock(struct slave_drain *d);
void slave_run_try_close(struct slave_drain *d, struct slave_run *run,
                         uint64_t now_ns);
void slave_run_remove_oldest_over_limits(struct slave_drain *d);

/* drain/run_removal.c: frees the data of dead processes all of whose records
 * are committed; the database keeps their rows. At most once a second for a
 * run. O(streams). */
void slave_run_free_dead_processes(struct slave_drain *d, struct slave_run *run,
                                   uint64_t now_ns);
void slave_run_free(struct slave_drain *d, struct slave_run *run);
void slave_segment_close_fd_and_mapping(struct slave_drain *d,
                                        struct slave_segment *seg);

/* Functions of watch.c: */
int slave_watch_open(struct slave_drain *d, struct ips_err *err) IPS_MUST_USE;
void slave_watch_handle_events(struct slave_drain *d, uint64_t now_ns);
void slave_watch_scan_pool_directory(struct slave_drain *d);
/* Lists the run's directory in the pool: adds new segments, and marks those
 * that have vanished as gone. Returns the number of new segments, or < 0 on
 * failure. */
int slave_watch_scan_run_directory(struct slave_drain *d, struct slave_run *run,
                                   uint64_t now_ns);
void slave_watch_stop_watching_run(struct slave_drain *d,
                                   struct slave_run *run);

/* drain/spare_segments.c: segments made in advance for runs whose processes
 * start and end often. */
struct slave_spare_segments;
/* Takes over the spare segment `name`, which an earlier slave left in the
 * directory of the run. */
void slave_spare_segments_reopen_by_name(struct slave_drain *d,
                                         struct slave_run *run,
                                         const char *name);
/* Does nothing before slave_spare_segments_next_ns(). Turns the spare segments
 * that processes have taken into ordinary ones, and makes new spare segments;
 * removes all of them if no process took one for 30 s. */
void slave_spare_segments_convert_and_refill(struct slave_drain *d,
                                             struct slave_run *run,
                                             uint64_t now_ns);
/* Returns the monotonic time at which slave_spare_segments_convert_and_refill()
 * next has work; UINT64_MAX: never. */
uint64_t slave_spare_segments_next_ns(const struct slave_run *run);
/* Removes all spare segments that no process has taken and turns the others
 * into ordinary segments. Returns how many had been taken. */
unsigned slave_spare_segments_remove_or_convert_all(struct slave_drain *d,
                                                    struct slave_run *run);
/* Frees the slave's data about the run's spare segments; their files stay. */
void slave_spare_segments_free(struct slave_drain *d, struct slave_run *run);

/* Functions of drain/liveness.c: */
void slave_liveness_read_own_pid_namespace(struct slave_drain *d);
void slave_liveness_track(struct slave_drain *d, struct slave_image *image,
                          uint64_t message_time_real_ns);
void slave_liveness_dispatch_epoll_events(struct slave_drain *d,
                                          uint64_t now_ns);
void slave_liveness_check_processes_if_due(struct slave_drain *d,
                                           uint64_t now_ns);
void slave_liveness_close_pidfd(struct slave_image *image);
/* Returns true if some process on this machine names the run in its environment
 * (IPS_RUN), also if memory is short. Checked before a run is closed. Reads
 * /proc at most once in 50 ms for all runs; costs 10 us a process. */
bool slave_liveness_is_run_in_environments(struct slave_drain *d,
                                           const char *run);

/* Functions of ingest.c: */
void slave_ingest_advance_segment_if_due(struct slave_drain *d,
                                         struct slave_run *run,
                                         struct slave_segment *seg,
                                         uint64_t now_ns, struct ips_err *err);
int slave_ingest_open_segment_fd(struct slave_drain *d, struct slave_run *run,
                                 struct slave_segment *seg,
                                 struct ips_err *err) IPS_MUST_USE;
void slave_ingest_schedule_poll(struct slave_segment *seg, uint64_t now_ns,
                                bool news);
bool slave_ingest_is_writer_gone(const struct slave_segment *seg);
void slave_ingest_refuse_segment(struct slave_run *run,
                                 struct slave_segment *seg, const char *why);
/* Sets a segment whose records are still to be read to WAITING, with the cursor
 * at its first record: a new file, or one that its writer reuses. */
void slave_ingest_reset_segment(struct slave_segment *seg,
                                const struct ips_segment_header *head);

/* drain/reclaim.c, for --on-full=ring: while the writer lives, it reuses its
 * segments in turn and the slave leaves them alone. After its death the digest
 * with the highest seq replaces all segments up to that seq. `gone`: whether
 * the writer is dead, which must be checked before the header is read. Returns
 * true if the segment is to be read now. */
bool slave_ingest_admit_ring_segment_if_final(
    struct slave_run *run, struct slave_segment *seg,
    const struct ips_segment_header *head, bool gone);

/* drain/reclaim.c: adds uncounted_released and uncounted_spare to the run's
 * control file. If that fails, a call about a second later adds them. */
void slave_run_flush_byte_counts_to_control(const struct slave_drain *d,
                                            struct slave_run *run);

/* drain/reclaim.c: hands a committed segment back to its writer, or removes it.
 * If the writer has used a segment again that was handed back, starts to read
 * it anew. */
void slave_ingest_reclaim_committed_segment(struct slave_drain *d,
                                            struct slave_run *run,
                                            struct slave_segment *seg,
                                            uint64_t now_ns);

#endif
