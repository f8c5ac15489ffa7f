/*
 * Keeps unpacked records of runs from one question to the next, so that only
 * the new blocks of a grown archive are unpacked. Part of graphs.h.
 *
 * Invariant: the kept records of a run are the first part of its archive as it
 * is on disk now. If another file has taken the archive's name (because the
 * archive was repacked, or the run was removed and recorded again), it is read
 * from its start. Memory comes from common/large.h; the records are dropped
 * when half of its limit is used.
 *
 * Runs on the worker thread.
 */
#ifndef IPS_SLAVE_GRAPHS_RECORDS_H
#define IPS_SLAVE_GRAPHS_RECORDS_H

#include "slave/archive/archive.h"
#include "slave/build/build.h"

struct slave_snapshot;

struct slave_records {
    struct slave_records *next; /* list in order of last use, latest first */
    /* true: the records go back into the list after use; false: they have one
     * user and are freed after use */
    bool is_shared;
    char run[64];
    uint64_t dev, ino; /* device and inode of the archive */
    /* checksums of the first and of the last block that was read */
    uint64_t first, last;
    uint64_t bytes;   /* number of archive bytes that were read */
    uint64_t last_at; /* offset of the last block that was read */
    /* the records that were unpacked at one time */
    struct slave_records_piece {
        struct slave_unpacked_archive map;
        uint64_t until; /* archive offset of the piece's end */
    } * pieces;
    uint32_t piece_count, piece_capacity;
    /* [stream number] the records of each stream */
    struct slave_records_stream {
        struct ips_chunk *chunks; /* frames of the stream, in order */
        /* [count] index of the piece that contains each frame */
        uint32_t *piece;
        uint32_t count, capacity;
        uint64_t types[4]; /* bit set of the record types in the stream */
    } * streams;
    uint32_t stream_count;
    uint64_t seen_bytes, all_bytes; /* unpacked bytes so far, and in total */
    /* set to the progress in 1/1000 while records are read */
    atomic_uint *permille;
};

/* Gets at least all records of the snapshot: removes the run's entry from *list
 * and unpacks the new records into it, or unpacks all of them for this use
 * only. *permille shows the progress, up to B_BUILT_READ. */
int slave_records_get_or_unpack(struct slave_records **list,
                                const struct slave_snapshot *s,
                                atomic_uint *permille,
                                struct slave_records **out,
                                struct ips_err *err) IPS_MUST_USE;
/* Sets *out to the frames of a stream that are in the first `bytes` of the
 * archive, and returns their number. */
uint32_t slave_records_get_chunks(const struct slave_records *r,
                                  uint32_t stream, uint64_t bytes,
                                  const struct ips_chunk **out);
/* Ends the use of records from slave_records_get_or_unpack: puts them into
 * *list if they are shared and memory is not short, else frees them. */
void slave_records_keep_or_free(struct slave_records **list,
                                struct slave_records *r);
/* Drops the records kept for that run; NULL: for all runs. */
void slave_records_drop(struct slave_records **list, const char *run);

#endif
