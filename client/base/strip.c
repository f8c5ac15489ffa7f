#include "client/base/strip.h"

#include <stdio.h>
#include <string.h>

#include "common/types.h"

static size_t column_count_of_sparkline(size_t count)
{
    return count < IPSQ_STRIP_WIDTH ? count : IPSQ_STRIP_WIDTH;
}

/* Returns the index of the first value that a column shows. */
static size_t index_of_first_value_in_column(size_t column, size_t columns,
                                             size_t count)
{
    return column * count / columns;
}

/* Returns the mean of v[from] to v[to - 1] in 64ths, so that small means stay
 * distinct. */
static uint64_t mean_of_range_times_64(const uint64_t *v, size_t from,
                                       size_t to)
{
    ips_u128 sum = 0;
    for (size_t i = from; i < to; i++)
        sum += v[i];
    sum = sum * 64 / (to - from);
    return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

static const char *character_for_height(uint64_t value, uint64_t top, bool utf8)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄",
                                         "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", ".", ":", "-", "=",
                                        "+", "*", "#", "@"};
    size_t height = 0;
    if (value > 0)
        height = (size_t)(((ips_u128)value * 8 + top - 1) / top);
    return utf8 ? blocks[height] : plain[height];
}

size_t ipsq_draw_sparkline(const uint64_t *v, size_t count, bool utf8,
                           char out[IPSQ_STRIP_BYTES], uint64_t *top)
{
    size_t columns = column_count_of_sparkline(count);
    uint64_t of[IPSQ_STRIP_WIDTH], most = 0;
    char *at = out;
    *at = '\0';
    for (size_t c = 0; c < columns; c++) {
        of[c] = mean_of_range_times_64(
            v, index_of_first_value_in_column(c, columns, count),
            index_of_first_value_in_column(c + 1, columns, count));
        most = ips_max_u64(most, of[c]);
    }
    for (size_t c = 0; c < columns; c++) {
        const char *text = character_for_height(of[c], most, utf8);
        size_t len = strlen(text);
        memcpy(at, text, len + 1);
        at += len;
    }
    if (top)
        *top = most / 64 + (most % 64 > 0);
    return columns;
}

void ipsq_draw_interval_numbers(const size_t *ends, size_t stretches,
                                size_t count, char out[IPSQ_STRIP_BYTES])
{
    size_t columns = column_count_of_sparkline(count);
    memset(out, ' ', columns);
    out[columns] = '\0';
    for (size_t i = 0; i < stretches && columns; i++) {
        size_t from = i ? ends[i - 1] * columns / count : 0;
        size_t to = ends[i] * columns / count;
        char text[24];
        size_t len = (size_t)snprintf(text, sizeof(text), "|%zu", i + 1);
        if (from < columns)
            out[from] = '|';
        if (to <= columns && to - from >= len)
            memcpy(out + from, text, len);
    }
}
