/*
 * Dependencies that leave no record: I/O by io_uring and by kernel AIO, which
 * the program asks of the kernel past every wrapper, memory that processes
 * share, and runtimes that make system calls by instructions of their own: the
 * threads of OpenMP wait for each other so, and a program of Go does all. They
 * are looked for in /proc of the living processes of a run: a process is looked
 * at 0.1 s after it was first seen, then after 0.4, 1.6 ... and every 60 s.
 * What lived shorter, or held it only in between, is missed; the certificate
 * says so. The agent adds what comes by syscall().
 *
 * Found rows are kept in the database (table unseen), so an answer has them
 * after a restart, too.
 */
#ifndef IPS_SLAVE_DRAIN_UNRECORDED_H
#define IPS_SLAVE_DRAIN_UNRECORDED_H

#include "slave/build/build.h"
#include "slave/store/store.h"

struct slave_drain;

/* Looks at those whose time has come, a few at a time. */
void slave_unrecorded_scan(struct slave_drain *d, uint64_t now_ns);

/* Rows, and what the build found, in words for the certificate: one line for
 * each process with io_uring, AIO or calls of its own and for each shared
 * object with several processes one of which may write; at most
 * SLAVE_UNSEEN_LINES. malloc'd, and every line. Returns their number; 0 also
 * where memory is short. */
#define SLAVE_UNSEEN_LINES 32u
uint32_t slave_unrecorded_text(const struct ips_built *b, const char *machine,
                               const struct slave_unrecorded_row *rows,
                               uint32_t count, char ***out);

/* How many of these say that calls leave no record. */
uint32_t slave_unrecorded_count(const struct ips_built *b,
                                const struct slave_unrecorded_row *rows,
                                uint32_t count);

/* One line of /proc/PID/maps -> a row's dev, ino, path, kind; false: none of
 * ours. `pool`: mappings of files below it are the agent's. A library whose
 * threads hand each other work past us is one of ours where the process has
 * several: that is for the caller to see. */
bool slave_unrecorded_of_map(const char *line, const char *pool,
                             struct slave_unrecorded_row *row);

/* Was the program file `fd` made by Go's linker? By its notes. */
bool slave_unrecorded_confirm(int fd);

#endif
