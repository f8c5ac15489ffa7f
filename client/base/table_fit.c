#include "client/base/table_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/fold.h"

static bool is_shown(const struct ipsq_table *t, size_t c)
{
    return t->columns[c].title && !t->hidden[c];
}

/* Returns the width to which the texts of column c may be cut at most. */
static unsigned least_width_of_texts(const struct ipsq_table *t, size_t c,
                                     unsigned least)
{
    return t->figure_widths[c] > least ? t->figure_widths[c] : least;
}

/* Returns the total width of the shown columns if texts are as narrow as
 * allowed. */
static unsigned compute_least_table_width(const struct ipsq_table *t)
{
    unsigned all = 0;
    for (size_t c = 0; c < t->column_count; c++) {
        if (!is_shown(t, c))
            continue;
        unsigned least = least_width_of_texts(t, c, IPSQ_TEXT_MIN);
        all += all ? IPSQ_GAP : 0;
        all += t->cuts[c] && t->widths[c] > least ? least : t->widths[c];
    }
    return all;
}

/* Returns the position of `key` in t->spare_columns, counted from 1; 0 if it is
 * not there. Keys joined by + have the same position. */
static size_t spare_column_rank(const struct ipsq_table *t, const char *key)
{
    size_t n = strlen(key), rank = 1;
    for (const char *at = t->spare_columns; at && *at; at++) {
        size_t word = strcspn(at, "+ ");
        if (word == n && memcmp(at, key, n) == 0)
            return rank;
        at += word;
        rank += *at == ' ';
        if (!*at)
            break;
    }
    return 0;
}

/* Returns the column to leave out next; column_count if there is none. */
static size_t next_column_to_hide(const struct ipsq_table *t, const bool *empty)
{
    size_t n = t->column_count, first = 0, spare = n, number = n, least = 0;
    while (first < n && !t->columns[first].title)
        first++;
    for (size_t c = first + 1; c < n; c++) {
        if (!is_shown(t, c))
            continue;
        size_t rank = spare_column_rank(t, t->columns[c].key);
        if (empty[c])
            return c;
        if (rank && (spare == n || rank < least)) {
            spare = c;
            least = rank;
        }
        if (!t->cuts[c])
            number = c;
    }
    return spare < n ? spare : number;
}

/* Narrows the widest text column by one until the table fits or no text column
 * is wider than `least`. */
static void narrow_texts(struct ipsq_table *t, unsigned columns, unsigned least)
{
    for (;;) {
        unsigned all = 0, widest = 0;
        size_t which = t->column_count;
        for (size_t c = 0; c < t->column_count; c++) {
            if (!is_shown(t, c))
                continue;
            all += (all ? IPSQ_GAP : 0) + t->widths[c];
            if (t->cuts[c] && t->widths[c] > widest &&
                t->widths[c] > least_width_of_texts(t, c, least)) {
                widest = t->widths[c];
                which = c;
            }
        }
        if (all <= columns || which == t->column_count)
            return;
        t->widths[which]--;
    }
}

void ipsq_table_fit(struct ipsq_table *t, const bool *empty, unsigned columns)
{
    while (!t->begun && compute_least_table_width(t) > columns) {
        size_t which = next_column_to_hide(t, empty);
        if (which == t->column_count)
            break;
        size_t rank = spare_column_rank(t, t->columns[which].key);
        t->hidden[which] = true;
        for (size_t c = 0; rank && c < t->column_count; c++)
            t->hidden[c] |= spare_column_rank(t, t->columns[c].key) == rank;
    }
    narrow_texts(t, columns, IPSQ_TEXT_MIN);
    /* once the titles are written, columns can no longer be left out, but later
     * rows may be wider */
    narrow_texts(t, columns, IPSQ_TEXT_MIN / 2);
}

/* Returns the length in bytes of the first `n` characters of `text`. */
static size_t bytes_of_characters(const char *text, unsigned n)
{
    size_t i = 0;
    while (text[i] && n) {
        i++;
        while (((unsigned char)text[i] & 0xc0) == 0x80)
            i++;
        n--;
    }
    return i;
}

/* Whether both of two neighbouring characters belong to a number. */
static bool are_both_number_characters(char a, char b)
{
    const char *of = "0123456789.,";
    return a && b && strchr(of, a) && strchr(of, b);
}

/* Whether `text` is a number with its unit ("1.5 ms", "12%"), perhaps followed
 * by ", ...". */
static bool is_figure(const char *text)
{
    static const char *const units[] = {"%",  " ns",  " us",  " ms",  " s",
                                        " B", " KiB", " MiB", " GiB", " TiB"};
    size_t digits =
        strspn(text, "0123456789") ? strspn(text, "0123456789.,") : 0;
    for (size_t i = 0; digits && i < sizeof(units) / sizeof(*units); i++) {
        size_t unit = strlen(units[i]);
        if (strncmp(text + digits, units[i], unit) == 0 &&
            (!text[digits + unit] ||
             strcmp(text + digits + unit, ", ...") == 0))
            return true;
    }
    return false;
}

/* Returns where the last figure of `text` begins; its length if there is none.
 */
static size_t start_of_last_figure(const char *text)
{
    size_t end = strlen(text), i = end;
    while (i > 1 && !(text[i - 1] == ' ' && is_figure(text + i)))
        i--;
    return i > 1 ? i : end;
}

unsigned ipsq_width_of_last_figure(const char *text)
{
    const char *figure = text + start_of_last_figure(text);
    return *figure ? ipsq_text_width(figure, strlen(figure)) + IPSQ_MARK : 0;
}

char *ipsq_shorten_text(char *text, unsigned width, bool utf8)
{
    const char *mark = utf8 ? "\xe2\x80\xa6" : "..";
    unsigned all = ipsq_text_width(text, strlen(text)), of_mark = utf8 ? 1 : 2;
    if (all <= width || width <= of_mark)
        return text;
    size_t head = bytes_of_characters(text, (width - of_mark + 1) / 2);
    size_t tail = bytes_of_characters(text, all - (width - of_mark) / 2);
    while (head && are_both_number_characters(text[head - 1], text[head]))
        head--;
    while (text[tail] && are_both_number_characters(text[tail - 1], text[tail]))
        tail++;
    size_t figure = start_of_last_figure(text);
    unsigned of_figure = ipsq_text_width(text + figure, strlen(text) - figure);
    if (figure < tail && of_figure + of_mark <= width) {
        tail = figure;
        head = bytes_of_characters(text, width - of_mark - of_figure);
        while (head && are_both_number_characters(text[head - 1], text[head]))
            head--;
    }
    size_t size = strlen(text) + strlen(mark) + 1;
    char *out = malloc(size);
    if (!out)
        return text;
    snprintf(out, size, "%.*s%s%s", (int)head, text, mark, text + tail);
    free(text);
    return out;
}
