/* What serve/procs.c and serve/profile.c share: a table of procedures being
 * answered, page by page. */
#ifndef IPS_SLAVE_SERVE_PROCS_H
#define IPS_SLAVE_SERVE_PROCS_H

#include "slave/profile/proc_table.h"
#include "slave/serve/graph.h"

#define PIECE_ROWS 2048u /* of at most 2.6 KB */

struct proc_answer { /* job's `procs` */
    struct slave_proc_table t;
    char *texts;            /* of the page: names and files with their ends */
    uint64_t calls, called; /* of all rows: counted calls, of how many rows */
    Ips__ProcedureTotals totals;
};

/* The next page of j->procs->t from row j->at on, which is moved behind it;
 * good until the job's next step. */
int slave_procs_page(struct slave_graph_ask *j, Ips__ProcedureRow ***rows,
                     size_t *count) IPS_MUST_USE;
/* A copy of a text with its end, at *at, which is moved behind it. */
char *slave_procs_put(char **at, const char *text, uint32_t len);

#endif
