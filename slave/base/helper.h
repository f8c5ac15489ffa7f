/*
 * This program once more, as a process of its own, for what may crash, hang or
 * take too much: files and questions that strangers made. Its standard input
 * and output are all that it has of us.
 */
#ifndef IPS_SLAVE_BASE_HELPER_H
#define IPS_SLAVE_BASE_HELPER_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/err.h"

/* An anonymous file for its input; read from its beginning by slave_helper_run.
 * NULL with *err set. */
FILE *slave_helper_input(struct ips_err *err);
/* Runs `program MODE` on that input, which is closed in any case. *out is the
 * end of a pipe that takes its output. */
int slave_helper_run(const char *program, const char *mode, FILE *input,
                     pid_t *pid, int *out, struct ips_err *err) IPS_MUST_USE;
/* Its status; ends it first where it is not known to end by itself. */
int slave_helper_wait(pid_t pid, int end);

/* In the helper: no more descriptors than the first three, no core, no new
 * rights, and no more than this; where memory lacks, it goes first. */
void slave_helper_confine(uint64_t cpu_s, uint64_t memory_bytes);

#endif
