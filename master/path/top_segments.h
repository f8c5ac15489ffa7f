/*
 * The longest pieces of a path: a path of millions of pieces is shown by few.
 */
#ifndef IPS_MASTER_PATH_TOP_SEGMENTS_H
#define IPS_MASTER_PATH_TOP_SEGMENTS_H

#include "master/path/shares.h"

/* Copies the `top` longest of n pieces, in their order, and of equal ones the
 * first; min(top, n) are written to `out`. False: no memory. O(n log top). */
bool longest_pieces(const struct path_piece *piece, uint64_t n, uint64_t top,
                    struct path_piece *out);

#endif
