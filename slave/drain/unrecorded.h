/* Finds two kinds of activity that leave no records.
 *
 * Programs that record nothing although the process did before: the process
 * executed them by a system call of its own, without the agent's library.
 *
 * Communication without calls that the agent wraps: I/O by io_uring and by
 * kernel AIO; memory that processes share; and runtimes that make system calls
 * directly (threads of OpenMP wait for each other in that way, and Go programs
 * make all their system calls directly). The agent itself reports what a
 * program requests through the C library's syscall().
 *
 * The slave looks for them in /proc of a run's living processes: 0.1 s after a
 * process was first seen, then after 0.4, 1.6 ... and at last every 60 s. It
 * misses processes that end before their first search, and activity that begins
 * and ends between two searches; the certificate says so. Rows are stored in
 * the database (table unseen), so an answer has them after a restart, too. */
#ifndef IPS_SLAVE_DRAIN_UNRECORDED_H
#define IPS_SLAVE_DRAIN_UNRECORDED_H

#include "slave/build/build.h"
#include "slave/store/store.h"

struct slave_drain;

/* Searches for unrecorded activity in the processes whose next search is due, a
 * few in each call. */
void slave_unrecorded_scan_due_processes(struct slave_drain *d,
                                         uint64_t now_ns);

/* maximum number of lines from slave_unrecorded_describe() */
#define SLAVE_UNSEEN_LINES 32u
/* Makes texts for the certificate from `rows` and from the unrecorded activity
 * that the build `b` found: one line for each process with io_uring, AIO or
 * direct system calls, and for each shared object that several processes map
 * and one may write; at most SLAVE_UNSEEN_LINES. The array and every line are
 * malloc'd. Returns the number of lines; 0 also if out of memory. */
uint32_t slave_unrecorded_describe(const struct ips_built *b,
                                   const char *machine,
                                   const struct slave_unrecorded_row *rows,
                                   uint32_t count, char ***out);

/* Returns the number of unrecorded ways to communicate that were found: those
 * that the build found (without runtimes) and the rows about io_uring and AIO.
 * Shared memory and runtimes do not count. */
uint32_t
slave_unrecorded_count_communication(const struct ips_built *b,
                                     const struct slave_unrecorded_row *rows,
                                     uint32_t count);

/* Parses a line of /proc/PID/maps into a row's dev, ino, path and kind. Returns
 * false if the mapping is of no interest. Mappings of files below `pool` belong
 * to the agent. A library whose threads synchronise without recorded calls
 * counts only if the process has several threads; the caller checks that. */
bool slave_unrecorded_parse_maps_line(const char *line, const char *pool,
                                      struct slave_unrecorded_row *row);

/* Whether the line of /proc/PID/maps is a mapping of the agent's library or of
 * a segment. */
bool slave_unrecorded_is_map_of_agent(const char *line, const char *pool);

/* Returns true if the row reports that a process executed a program that
 * recorded nothing, and if no record of the process shows that exec or the end
 * of the process. */
bool slave_unrecorded_is_program_change(const struct ips_built *b,
                                        const struct slave_unrecorded_row *row);

/* Returns true if the process of the pidfd has ended: then another process may
 * have its pid. Returns false without a pidfd (-1). */
bool slave_unrecorded_has_process_ended(int pidfd);

/* Returns true if the ELF notes of the program file `fd` show that Go's linker
 * made it. */
bool slave_unrecorded_is_go_program(int fd);

#endif
