/*
 * Rows of typed cells: what every answer is made of. A command names the
 * columns once; the three formats are three ways to write the same rows.
 * Texts and lists are borrowed from the reply they came with and must outlive
 * the table. "Not measured" is a value of each kind: all ones, -1 for INT, NaN,
 * "" and NULL.
 */
#ifndef IPS_CLIENT_BASE_TABLE_H
#define IPS_CLIENT_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ipsq_kind {
    IPSQ_TEXT,
    IPSQ_FIGURE, /* a text of numbers: never cut */
    IPSQ_COUNT,  /* uint64_t */
    IPSQ_NS,     /* uint64_t, human units in tables */
    IPSQ_BYTES,  /* uint64_t, the same */
    IPSQ_INT,    /* int64_t */
    IPSQ_REAL,
    IPSQ_SHARE, /* a fraction; per cent in tables */
    IPSQ_BOOL,  /* true/false; yes/no in tables */
    IPSQ_LIST,  /* of texts */
    IPSQ_VALUE, /* whatever SQL gives */
};

struct ipsq_column {
    const char *key;   /* in JSON and TSV */
    const char *title; /* in tables; NULL: not shown there */
    enum ipsq_kind kind;
};

/* Some of the columns of a command. */
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
            char type; /* 'i', 'r', 't', 0 NULL */
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
    const char *name; /* key of the array in JSON, section in TSV */
    const struct ipsq_column *columns;
    size_t column_count;
    struct ipsq_cell *cells; /* row after row */
    size_t row_count, row_capacity;
    unsigned *widths; /* [column_count] of the table format; kept while rows
                         are written in several goes */
    bool *cuts;       /* [column_count] its texts may be cut */
    bool *hidden;     /* [column_count] left out: the terminal is too narrow */
    const char *spare_columns; /* keys, a blank between: left out first, in this
                          order, those of "a+b" together; NULL none */
    bool begun;                /* the header was written */
};

void ipsq_table_init(struct ipsq_table *t, const char *name,
                     const struct ipsq_column *columns, size_t column_count);
void ipsq_table_release(struct ipsq_table *t);
/* Is any of it shown in the table format? */
bool ipsq_table_has_titles(const struct ipsq_table *t);
/* A new row, zeroed, for the caller to fill in column order. Aborts the
 * program where memory is short. */
struct ipsq_cell *ipsq_table_row(struct ipsq_table *t);
/* Forgets the rows, keeps columns and widths. */
void ipsq_table_clear(struct ipsq_table *t);
/* The `n` rows with the greatest values (COUNT, NS or BYTES; not measured is
 * least) of a column, greatest first; equal ones in their old order. n 0:
 * sorts only. How many were left out. */
uint64_t ipsq_table_top(struct ipsq_table *t, size_t column, uint64_t n);

static inline struct ipsq_cell ipsq_text(const char *text)
{
    return (struct ipsq_cell){.text = text};
}
static inline struct ipsq_cell ipsq_count(uint64_t n)
{
    return (struct ipsq_cell){.n = n};
}
/* What no count can be (negative, too great, no number) is not known. */
static inline struct ipsq_cell ipsq_rounded(double n)
{
    bool fits = n >= 0 && n < 0x1p64;
    return ipsq_count(fits ? (uint64_t)n : UINT64_MAX);
}
static inline struct ipsq_cell ipsq_int(int64_t i)
{
    return (struct ipsq_cell){.i = i};
}
static inline struct ipsq_cell ipsq_real(double r)
{
    return (struct ipsq_cell){.r = r};
}
static inline struct ipsq_cell ipsq_bool(bool b)
{
    return (struct ipsq_cell){.b = b};
}
static inline struct ipsq_cell ipsq_list(char **item, size_t count)
{
    return (struct ipsq_cell){.list = {item, count}};
}

#endif
