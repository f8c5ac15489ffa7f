/*
 * A segment's records through a mapping that stays while its file is open: what
 * a busy thread wrote is read once, where pread reads it twice, page by page.
 *
 * Whoever owns the file may cut it, or its file system may be full where the
 * mapping needs a page: then an access is SIGBUS. So nothing but these calls
 * touches a view, and each says false then; the caller closes the view and
 * reads with pread, which tells what there is. Another SIGBUS is what it was.
 *
 * Bytes change while they are looked at: a word is to be read once, by an
 * atomic load, and what is kept is a copy.
 *
 * Invariant: a view is of bytes that the file had when it was made, and is
 * written through by slave_guarded_zero() alone.
 * Thread: any, one view by one thread at a time; slave_guarded_open the loop's.
 */
#ifndef IPS_SLAVE_DRAIN_GUARDED_MAPPING_H
#define IPS_SLAVE_DRAIN_GUARDED_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At once, in a process: a process has 65,530 mappings at most by default. */
#define SLAVE_VIEWS_MAX 8192u

struct slave_guarded_mapping {
    uint8_t *data; /* NULL: none */
    size_t len;
    size_t whole; /* up to here are pages: slave_guarded_has() */
};

/* false: no mapping, *v is none. */
bool slave_guarded_open(struct slave_guarded_mapping *v, int fd, size_t len);
void slave_guarded_close(struct slave_guarded_mapping *v);

/* How far the file has pages, from `at` on, as far as `upto` is concerned: to
 * read from a hole of a tmpfs would make a page, which its writer's quota does
 * not count. */
size_t slave_guarded_has(struct slave_guarded_mapping *v, int fd, size_t at,
                         size_t upto);

/* Calls look(arg), which may read the view's bytes and does nothing that it
 * could not stop at: false where it was stopped. */
bool slave_guarded_inspect(const struct slave_guarded_mapping *v,
                           void (*look)(void *), void *arg);
bool slave_guarded_copy(const struct slave_guarded_mapping *v, size_t at,
                        void *out, size_t len);
bool slave_guarded_zero(const struct slave_guarded_mapping *v, size_t from,
                        size_t to);

#endif
