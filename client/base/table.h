/*
 * Tables: rows of typed cells. Every answer consists of them. A command defines
 * the columns once; the three formats write the same rows in three ways.
 * Strings and lists are borrowed from the reply that they came with and must
 * outlive the table. Each kind has a value for "not measured": UINT64_MAX,
 * IPSQ_NO_INT, NaN, "" and NULL.
 */
#ifndef IPS_CLIENT_BASE_TABLE_H
#define IPS_CLIENT_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ipsq_kind {
    IPSQ_TEXT,
    IPSQ_FIGURE, /* a text that consists of numbers; never shortened */
    IPSQ_COUNT,  /* uint64_t, printed as a number */
    IPSQ_NS,     /* uint64_t; with a unit in tables */
    IPSQ_BYTES,  /* uint64_t; with a unit in tables */
    IPSQ_INT,    /* int64_t, printed as a number */
    IPSQ_REAL,
    IPSQ_SHARE, /* a fraction; a percentage in tables */
    IPSQ_BOOL,  /* true/false; yes/no in tables */
    IPSQ_LIST,  /* a list of texts, separated by commas in tables */
    IPSQ_VALUE, /* a value of an SQL query, of any type */
};

#define IPSQ_NO_INT INT64_MIN /* an INT that was not measured */

struct ipsq_column {
    const char *key; /* name of the column in JSON and TSV */
    /* heading in tables; NULL: the column is not shown there */
    const char *title;
    enum ipsq_kind kind;
};

/* Columns of a command. */
struct ipsq_columns {
    const struct ipsq_column *column;
    size_t count;
};

struct ipsq_cell {
    union {
        const char *text;
        uint64_t n;
        int64_t i;
        double r;
        bool b;
        struct {
            char type; /* type of an SQL value: 'i', 'r', 't'; 0: NULL */
            union {
                int64_t i;
                double r;
                const char *text;
            };
        } value;
        struct {
            char **item;
            size_t count;
        } list;
    };
};

struct ipsq_table {
    const char *name; /* key of the array in JSON, name of the table in TSV */
    const struct ipsq_column *columns;
    size_t column_count;
    struct ipsq_cell *cells; /* cells of all rows, row after row */
    size_t row_count, row_capacity;
    /* [column_count] widths of the columns in the table format; they stay the
     * same for all rows, even if several calls write them */
    unsigned *widths;
    /* [column_count] width of the column's longest figure that ends a text */
    unsigned *figure_widths;
    /* [column_count] whether texts of the column may be cut to fit the
     * terminal */
    bool *cuts;
    /* [column_count] whether the column is left out because the terminal is too
     * narrow */
    bool *hidden;
    /* keys of the columns to leave out first if the terminal is too narrow, in
     * this order, separated by blanks; columns "a+b" are left out together;
     * NULL: none */
    const char *spare_columns;
    bool begun; /* true: the header (titles) has been written */
};

void ipsq_table_init(struct ipsq_table *t, const char *name,
                     const struct ipsq_column *columns, size_t column_count);
void ipsq_table_release(struct ipsq_table *t);
/* Whether any column is shown in the table format. */
bool ipsq_table_has_titles(const struct ipsq_table *t);
/* Appends a zeroed row, and returns its first cell; the caller fills the cells
 * in column order. Ends the program if memory is short. */
struct ipsq_cell *ipsq_table_add_row(struct ipsq_table *t);
/* Removes the rows, keeps columns and widths. */
void ipsq_table_clear(struct ipsq_table *t);
/* Sorts the rows by a column of kind COUNT, NS or BYTES, greatest first, and
 * keeps the first `n`; 0: all. A value that was not measured counts as least;
 * equal rows stay in their order. Returns the number of rows removed. */
uint64_t ipsq_table_sort_and_keep_top(struct ipsq_table *t, size_t column,
                                      uint64_t n);

static inline struct ipsq_cell ipsq_text_cell(const char *text)
{
    return (struct ipsq_cell){.text = text};
}
static inline struct ipsq_cell ipsq_count_cell(uint64_t n)
{
    return (struct ipsq_cell){.n = n};
}
/* Makes the cell of a count. A number that no count can be (negative, too
 * large, NaN) becomes "not measured". */
static inline struct ipsq_cell ipsq_count_cell_of_double(double n)
{
    bool fits = n >= 0 && n < 0x1p64;
    return ipsq_count_cell(fits ? (uint64_t)n : UINT64_MAX);
}
static inline struct ipsq_cell ipsq_int_cell(int64_t i)
{
    return (struct ipsq_cell){.i = i};
}
static inline struct ipsq_cell ipsq_real_cell(double r)
{
    return (struct ipsq_cell){.r = r};
}
static inline struct ipsq_cell ipsq_bool_cell(bool b)
{
    return (struct ipsq_cell){.b = b};
}
static inline struct ipsq_cell ipsq_list_cell(char **item, size_t count)
{
    return (struct ipsq_cell){.list = {item, count}};
}

#endif
