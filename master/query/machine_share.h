/* The machines of a question: made from the catalogue and the roster, and the
 * messages kept for each. Private to query.c and the kinds. */
#ifndef IPS_MASTER_QUERY_MACHINE_SHARE_H
#define IPS_MASTER_QUERY_MACHINE_SHARE_H

#include "master/query/query.h"

/* What one slave's tables may take of our memory for one question. */
#define PART_KEPT_BYTES (512u << 20)

/* "" becomes the newest run. IPS_E_NOT_FOUND where there is none at all. */
int machine_shares_choose_run(struct query *q,
                              struct ips_err *err) IPS_MUST_USE;
/* (Re)makes q->parts: machines that had the run, and connected slaves that
 * might. */
int machine_shares_make(struct query *q, struct ips_err *err) IPS_MUST_USE;
/* Every slave that is connected, whatever runs it has. */
int machine_shares_make_all(struct query *q, struct ips_err *err) IPS_MUST_USE;
void machine_shares_release(struct query *q);

/* Appends to a table of pointers; false: no memory. */
bool machine_share_append(void *table, uint32_t *count, void *const *rows,
                          size_t n);

/* Threads in order of process, within one by chain: positions of t.threads,
 * malloc'd; NULL: no memory. */
uint32_t *machine_share_threads(const struct machine_share *p);

/* "/m1", "/m1/redis.812", "/m1/redis.812/812"; process and chain are indices
 * of the part's tables; unknown ones print "?". */
#define OBJECT_BYTES 512
void machine_share_object(const struct machine_share *p, uint32_t process,
                          char out[OBJECT_BYTES]);
const char *machine_share_process(const struct machine_share *p,
                                  uint32_t process);
/* Bytes of a process's name before its pid: "cc" of "cc.812". */
size_t machine_share_program_len(const char *process);
bool machine_share_same_program(const char *process, const char *other);

/* How many threads of the run ran or wanted a core on this machine, on average
 * from its first event to its last, in thousandths. */
uint64_t machine_share_own_load(const struct machine_share *p);

/* May some of what `object` (a pattern, common/object.h) selects be on this
 * machine? */
bool machine_share_is_concerned(const char *machine, const char *object);

#endif
