/* Prints most tables of `ipsq path`: the shares of the path by machine,
 * process, procedure ..., the most common sequences, and the shares of all
 * work. path.c prints the named values and the segments. */
#ifndef IPS_CLIENT_COMMANDS_PATH_PROFILE_H
#define IPS_CLIENT_COMMANDS_PATH_PROFILE_H

#include "client/base/command.h"

/* Rows of the answer about a path, which come in several replies; zero it to
 * start. */
struct ipsq_path_rows {
    struct ipsq_rows procedures, source_lines, whole_procedures, whole_lines;
};
int ipsq_path_rows_append_answer(struct ipsq_path_rows *rows,
                                 const Ips__PathAnswer *a,
                                 struct ips_err *err) IPS_MUST_USE;
void ipsq_path_rows_release(struct ipsq_path_rows *rows);

/* Fills `by` with the groupings to ask for: those of --by, else machine,
 * process, procedure, message and external. Returns their number. */
size_t ipsq_fill_path_groupings(const struct ipsq_options *o,
                                char *by[IPSQ_BY_COUNT]);

/* Writes the tables of the path's shares, its most common sequences and the
 * shares of all work. `top`: greatest number of rows of each table; 0: all. */
void ipsq_put_path_profile(struct ipsq_out *out, const struct ipsq_options *o,
                           const Ips__PathAnswer *a,
                           const struct ipsq_path_rows *rows, uint64_t top);

/* Formats where a procedure is defined, in a short form: "loop.c:12
 * (solver)". */
void ipsq_format_source_location(const Ips__ProcedureRow *r, char *out,
                                 size_t room);

#endif
