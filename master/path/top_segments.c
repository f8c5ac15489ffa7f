#include "master/path/top_segments.h"

#include <stdlib.h>

/* Restores the heap (heap[0] is the smallest value) after the entry at `at` was
 * replaced by a greater one. */
static void sift_down(uint64_t *heap, uint64_t count, uint64_t at)
{
    for (;;) {
        uint64_t least = at, child = 2 * at + 1;
        if (child < count && heap[child] < heap[least])
            least = child;
        if (child + 1 < count && heap[child + 1] < heap[least])
            least = child + 1;
        if (least == at)
            return;
        uint64_t was = heap[at];
        heap[at] = heap[least];
        heap[least] = was;
        at = least;
    }
}

bool select_longest_pieces(const struct path_piece *piece, uint64_t n,
                           uint64_t top, struct path_piece *out)
{
    if (top > n)
        top = n;
    uint64_t *heap = malloc((top + 1) * sizeof(*heap));
    if (!heap)
        return false;
    for (uint64_t i = 0; i < top; i++)
        heap[i] = piece[i].ns;
    for (uint64_t i = top / 2; i-- > 0;)
        sift_down(heap, top, i);
    for (uint64_t i = top; i < n && top; i++) {
        if (piece[i].ns > heap[0]) {
            heap[0] = piece[i].ns;
            sift_down(heap, top, 0);
        }
    }
    uint64_t least = top ? heap[0] : 0, equal = top, kept = 0;
    free(heap);
    for (uint64_t i = 0; i < n; i++)
        equal -= piece[i].ns > least && equal > 0;
    for (uint64_t i = 0; i < n && kept < top; i++) {
        bool is = piece[i].ns == least;
        if (piece[i].ns < least || (is && equal == 0))
            continue;
        equal -= is;
        out[kept++] = piece[i];
    }
    return true;
}
