#include "common/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CHANGES_MAX 3

void ips_nearest_start_search(struct ips_nearest *n, const char *word)
{
    size_t allowed = (strlen(word) + 1) / 3;
    n->word = word;
    n->changes = (allowed < CHANGES_MAX ? allowed : CHANGES_MAX) + 1;
    n->name[0] = n->text[0] = '\0';
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the optimal string alignment distance (edits and swaps of
 * neighbours), computed row by row. Both strings are shorter than
 * IPS_NEAREST_BYTES. */
static size_t edit_distance(const char *a, size_t an, const char *b, size_t bn)
{
    size_t rows[3][IPS_NEAREST_BYTES];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= bn; j++)
        last[j] = j;
    for (size_t i = 1; i <= an; i++) {
        row[0] = i;
        for (size_t j = 1; j <= bn; j++) {
            size_t same = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] =
                min_size(last[j - 1] + same, min_size(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min_size(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[bn];
}

void ips_nearest_consider_candidate(struct ips_nearest *n, const char *name)
{
    size_t wn = strlen(n->word), nn = strlen(name), changes;
    if (wn >= IPS_NEAREST_BYTES || nn >= IPS_NEAREST_BYTES)
        return;
    bool same = wn == nn && memcmp(name, n->word, wn) == 0;
    if (wn > 1 && strncmp(name, n->word, wn) == 0)
        changes = 0;
    else if ((wn > nn ? wn - nn : nn - wn) >= n->changes)
        return;
    else
        changes = edit_distance(n->word, wn, name, nn);
    if (changes >= n->changes && !same)
        return;
    n->changes = changes;
    memcpy(n->name, name, nn + 1);
}

const char *ips_nearest_format_suggestion(struct ips_nearest *n)
{
    if (*n->name && strcmp(n->name, n->word) != 0)
        snprintf(n->text, sizeof(n->text), "; did you mean '%s'?", n->name);
    return n->text;
}
