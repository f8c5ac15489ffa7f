/*
 * A file service of four processes and its clients: the program of DPM's second
 * study (DPM-12). The paper names the processes and what the two classes of
 * clients do; the rest is ours:
 *
 *   clients -> files-requests -> files-directory   where is block B of file F?
 *                             -> files-buffer      that block, kept or fetched
 *                                -> files-disk     the blocks
 *
 * Every client has a file of its own and one access under way; the service has
 * as many under way as there are clients, and each of its processes works on
 * one at a time. Replies come in the order in which they are ready (DPM-14).
 *
 * Each access costs each process on its way some work (--work, microseconds or
 * so), which stands for what a real service does. The disk's blocks are in its
 * memory. The run ends with its clients: the buffer manager writes back what is
 * changed, and the disk prints the sum of what its blocks hold, which depends
 * on no order; `files-client --known` prints a client's part of it.
 */
#ifndef FILES_H
#define FILES_H

#include "net.h"

#define FILES_BLOCK 1024 /* bytes */
#define FILES_MAX_CLIENTS 32
#define FILES_MAX_BLOCKS 4096u /* of the disk */

/* The id of a message is the client's number throughout. */
enum files_kind {
    FILES_READ = 1, /* block -> data */
    FILES_WRITE,    /* block, data -> nothing */
    FILES_WHERE,    /* file, block -> disk block */
    FILES_DONE      /* the answer to each of these */
};

/* A file's block after its `version`th writing; version 0: zeros. */
static inline void files_content(uint8_t *data, uint32_t seed, uint32_t block,
                                 uint32_t version)
{
    uint64_t state = (uint64_t)seed << 40 | (uint64_t)block << 20 | version;
    for (unsigned i = 0; i < FILES_BLOCK; i += 4)
        net_put_u32(data + i, version ? net_random(&state) : 0);
}

/* A block's part of the disk's sum. */
static inline uint64_t files_sum(const uint8_t *data)
{
    uint64_t nothing = 0;
    for (unsigned i = 0; i < FILES_BLOCK; i++)
        nothing |= data[i];
    return nothing ? net_hash(NET_HASH, data, FILES_BLOCK) : 0;
}

#endif
