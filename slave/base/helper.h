/*
 * Runs a second instance of this program as a helper process, for work on
 * untrusted input (files and SQL questions of other users). Such work may
 * crash, hang or use too much memory. The helper shares with the slave only its
 * standard input, output and error.
 */
#ifndef IPS_SLAVE_BASE_HELPER_H
#define IPS_SLAVE_BASE_HELPER_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/err.h"

/* Makes an anonymous file (memfd) for the helper's input; slave_helper_start()
 * lets the helper read the file from its start. NULL with *err set on
 * failure. */
FILE *slave_helper_create_input(struct ips_err *err);
/* Starts `program MODE` with the file `input` as its standard input. Closes
 * `input` in any case. *out is the read end of a pipe with the helper's
 * output. */
int slave_helper_start(const char *program, const char *mode, FILE *input,
                       pid_t *pid, int *out, struct ips_err *err) IPS_MUST_USE;
/* Waits until the helper ends and returns its status, as waitpid() reports it.
 * `end`: kill the helper first, because it might not end by itself. */
int slave_helper_kill_if_asked_and_wait(pid_t pid, int end);

/* Called in the helper: closes all descriptors but 0 to 2, makes the helper end
 * with the slave, forbids core files and new privileges, limits CPU time and
 * memory, and makes the helper the first process that the kernel's
 * out-of-memory killer ends. */
void slave_helper_confine(uint64_t cpu_s, uint64_t memory_bytes);

#endif
