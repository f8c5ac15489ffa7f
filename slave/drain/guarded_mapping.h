/*
 * Reads a segment through a mapping that stays as long as its file is open. For
 * a thread that writes much this costs less than pread: the slave looks for
 * records in the mapped pages and copies the bytes once, whereas with pread it
 * copies them twice.
 *
 * The owner of the file may truncate it, or its file system may be full when
 * the mapping needs a page; then an access raises SIGBUS. So only the functions
 * below touch a mapping, and they return false in that case. The caller then
 * closes the mapping and reads with pread, which shows what is left. Any other
 * SIGBUS goes to the handler that was installed before.
 *
 * Bytes may change while they are read: read a word once, with an atomic load,
 * and check only a copy.
 *
 * Invariant: a mapping covers bytes that the file had when it was made; only
 * slave_guarded_zero_bytes() writes through it. Thread: any, but one thread at
 * a time for each mapping; slave_guarded_open: the loop only.
 */
#ifndef IPS_SLAVE_DRAIN_GUARDED_MAPPING_H
#define IPS_SLAVE_DRAIN_GUARDED_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of mappings at once; by default a process may have 65,530. */
#define SLAVE_VIEWS_MAX 8192u

struct slave_guarded_mapping {
    uint8_t *data; /* start of the mapping; NULL: not mapped */
    size_t len;
    /* offset up to which the file's pages are known to be allocated, see
     * slave_guarded_allocated_end() */
    size_t whole;
};

/* Maps `len` bytes of the file. Returns false, with *v empty, if that fails. */
bool slave_guarded_open(struct slave_guarded_mapping *v, int fd, size_t len);
void slave_guarded_close(struct slave_guarded_mapping *v);

/* Returns the offset up to which the file's pages from `at` on are known to be
 * allocated. Asks the kernel only if the offset known so far is below `upto`.
 * Reading a hole of a tmpfs file would allocate a page that the quota of the
 * file's writer does not count. */
size_t slave_guarded_allocated_end(struct slave_guarded_mapping *v, int fd,
                                   size_t at, size_t upto);

/* Calls look(arg), which may read the mapped bytes. A SIGBUS stops `look` at
 * any point, so `look` must hold nothing that needs cleaning up. Returns false
 * if it was stopped. */
bool slave_guarded_call(const struct slave_guarded_mapping *v,
                        void (*look)(void *), void *arg);
bool slave_guarded_copy(const struct slave_guarded_mapping *v, size_t at,
                        void *out, size_t len);
bool slave_guarded_zero_bytes(const struct slave_guarded_mapping *v,
                              size_t from, size_t to);

#endif
