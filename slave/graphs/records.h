/*
 * The records of runs as they were before they were packed, kept from one
 * question to the next: of an archive that has grown, only the new blocks are
 * unpacked. Belongs to the graphs (graphs.h).
 *
 * Invariants: what is kept of a run is a beginning of its archive as it lies on
 * disk now - another file of that name (it was packed again, or the run removed
 * and made anew) is read from the start. Memory is that of common/large.h; what
 * is kept goes when half of the limit is used.
 *
 * Thread: the worker's.
 */
#ifndef IPS_SLAVE_GRAPHS_RECORDS_H
#define IPS_SLAVE_GRAPHS_RECORDS_H

#include "slave/archive/archive.h"
#include "slave/build/build.h"

struct slave_snapshot;

struct slave_records {
    struct slave_records *next; /* last used first */
    bool is_shared;             /* else its user's alone */
    char run[64];
    uint64_t dev, ino;           /* of the archive */
    uint64_t first, last;        /* checks of its first and last block here */
    uint64_t bytes;              /* of it that are here */
    uint64_t last_at;            /* where the last block begins */
    struct slave_records_piece { /* what one question added */
        struct slave_archive_map map;
        uint64_t until; /* of the archive */
    } * pieces;
    uint32_t piece_count, piece_capacity;
    struct slave_records_stream { /* by its number */
        struct ips_chunk *chunks; /* frames, in order */
        uint32_t *piece;          /* [count] where they are */
        uint32_t count, capacity;
        uint64_t types[4]; /* bit set of the types of its records */
    } * streams;
    uint32_t stream_count;
    uint64_t seen_bytes, all_bytes; /* unpacked, and how many there are */
    atomic_uint *permille;          /* while a part is read */
};

/* All that the snapshot has of its run, and maybe more: kept in *list, or a
 * copy for this use. *permille rises to B_BUILT_READ meanwhile. */
int slave_records_get(struct slave_records **list,
                      const struct slave_snapshot *s, atomic_uint *permille,
                      struct slave_records **out,
                      struct ips_err *err) IPS_MUST_USE;
/* Frames of a stream that lie in the first `bytes` of the archive. */
uint32_t slave_records_chunks(const struct slave_records *r, uint32_t stream,
                              uint64_t bytes, const struct ips_chunk **out);
/* The use is over. */
void slave_records_put(struct slave_records **list, struct slave_records *r);
/* Of that run nothing is kept; NULL: of none. */
void slave_records_drop(struct slave_records **list, const char *run);

#endif
