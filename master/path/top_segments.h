/*
 * Selects the longest pieces of a path, because only a few of a path's millions
 * of pieces can be shown.
 */
#ifndef IPS_MASTER_PATH_TOP_SEGMENTS_H
#define IPS_MASTER_PATH_TOP_SEGMENTS_H

#include "master/path/shares.h"

/* Copies the `top` longest of n pieces to `out`, in path order; among equal
 * ones the earlier wins. Writes min(top, n) pieces. Returns false if there is
 * no memory. O(n log top). */
bool select_longest_pieces(const struct path_piece *piece, uint64_t n,
                           uint64_t top, struct path_piece *out);

#endif
