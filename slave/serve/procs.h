/* Sends a table of procedures page by page; shared by serve/procs.c and
 * serve/profile.c. */
#ifndef IPS_SLAVE_SERVE_PROCS_H
#define IPS_SLAVE_SERVE_PROCS_H

#include "slave/profile/proc_table.h"
#include "slave/serve/graph.h"

/* maximum number of rows in a page; a row has at most 2.6 KB */
#define PIECE_ROWS 2048u

struct proc_answer { /* state of a job that sends a table of procedures */
    struct slave_proc_table t;
    /* names and files of the current page's rows, NUL-terminated */
    char *texts;
    /* calls: sum of the calls of all rows whose calls were counted; called:
     * number of these rows */
    uint64_t calls, called;
    Ips__ProcedureTotals totals;
};

/* Makes the next page of rows of j->procs->t, from row j->at on, and advances
 * j->at. *rows is valid until the job's next step. */
int slave_procs_fill_page(struct slave_graph_ask *j, Ips__ProcedureRow ***rows,
                          size_t *count) IPS_MUST_USE;
/* Copies `text` and a NUL to *at, advances *at past them, and returns the copy.
 */
char *slave_procs_copy_text_and_advance(char **at, const char *text,
                                        uint32_t len);

#endif
