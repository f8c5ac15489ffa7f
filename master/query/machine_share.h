/* The machines of a question: a list made from the catalogue and the roster,
 * and the messages kept for each machine. Private to query.c and the kinds of
 * questions. */
#ifndef IPS_MASTER_QUERY_MACHINE_SHARE_H
#define IPS_MASTER_QUERY_MACHINE_SHARE_H

#include "master/query/query.h"

/* Memory limit for the tables of one slave in one question. */
#define PART_KEPT_BYTES (512u << 20)

/* Replaces the run name "" by the newest run. IPS_E_NOT_FOUND: there is no
 * run. */
int machine_shares_default_to_newest_run(struct query *q,
                                         struct ips_err *err) IPS_MUST_USE;
/* Replaces q->machines by the machines that had the run, and those of connected
 * slaves that might have it. */
int machine_shares_list_run_and_live_machines(struct query *q,
                                              struct ips_err *err) IPS_MUST_USE;
/* Sets q->machines to the machines of all connected slaves, whichever runs they
 * have. */
int machine_shares_list_connected_machines(struct query *q,
                                           struct ips_err *err) IPS_MUST_USE;
void machine_shares_release(struct query *q);

/* Appends `n` rows to a growing array of pointers; `table` is the address of
 * the pointer to the array. False: no memory. */
bool machine_share_append_rows(void *table, uint32_t *count, void *const *rows,
                               size_t n);

/* Returns the threads ordered by process, then by chain, as indices of
 * t.threads; malloc'd; NULL: no memory. */
uint32_t *machine_share_sort_threads_by_process(const struct machine_share *p);

#define OBJECT_BYTES 512
/* Writes the object name of a process, as "/m1/redis.812". `process` is an
 * index of p->t.procs; for an unknown one the name ends with "?". */
void machine_share_write_process_object_name(const struct machine_share *p,
                                             uint32_t process,
                                             char out[OBJECT_BYTES]);
const char *machine_share_process_name(const struct machine_share *p,
                                       uint32_t process);
/* Returns the length of the program name in a process name: 2 for "cc.812". */
size_t machine_share_program_len(const char *process);
bool machine_share_same_program(const char *process, const char *other);

/* Average number of the run's threads that ran or waited for a CPU on this
 * machine, from its first event to its last, in thousandths. */
uint64_t machine_share_run_load_milli(const struct machine_share *p);

/* Whether `object` (a pattern, common/object.h) can match the machine, or
 * something on it. */
bool machine_share_machine_matches_object(const char *machine,
                                          const char *object);

#endif
