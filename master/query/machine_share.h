/* The machines of a question: made from the catalogue and the roster, and the
 * messages kept for each. Private to query.c and the kinds. */
#ifndef IPS_MASTER_QUERY_MACHINE_SHARE_H
#define IPS_MASTER_QUERY_MACHINE_SHARE_H

#include "master/query/query.h"

/* What one slave's tables may take of our memory for one question. */
#define PART_KEPT_BYTES (512u << 20)

/* "" becomes the newest run. IPS_E_NOT_FOUND where there is none at all. */
int parts_choose_run(struct query *q, struct ips_err *err) IPS_MUST_USE;
/* (Re)makes q->parts: machines that had the run, and connected slaves that
 * might. */
int parts_make(struct query *q, struct ips_err *err) IPS_MUST_USE;
/* Every slave that is connected, whatever runs it has. */
int parts_make_all(struct query *q, struct ips_err *err) IPS_MUST_USE;
void parts_release(struct query *q);

/* Appends to a table of pointers; false: no memory. */
bool part_append(void *table, uint32_t *count, void *const *rows, size_t n);

/* Threads in order of process, within one by chain: positions of t.threads,
 * malloc'd; NULL: no memory. */
uint32_t *part_threads_by_process(const struct part *p);

/* "/m1", "/m1/redis.812", "/m1/redis.812/812"; process and chain are indices
 * of the part's tables; unknown ones print "?". */
#define OBJECT_BYTES 512
void part_process_object(const struct part *p, uint32_t process,
                         char out[OBJECT_BYTES]);
const char *part_process_name(const struct part *p, uint32_t process);
/* Bytes of a process's name before its pid: "cc" of "cc.812". */
size_t part_program_len(const char *process);
bool part_same_program(const char *process, const char *other);

/* How many threads of the run ran or wanted a core on this machine, on average
 * from its first event to its last, in thousandths. */
uint64_t part_own_load_milli(const struct part *p);

/* May some of what `object` (a pattern, common/object.h) selects be on this
 * machine? */
bool part_concerned(const char *machine, const char *object);

#endif
