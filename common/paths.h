/*
 * Where things are: the pool root, the state directory, the sockets. Every
 * program finds the others through these defaults alone.
 */
#ifndef IPS_COMMON_PATHS_H
#define IPS_COMMON_PATHS_H

#include <stdbool.h>

#include "common/err.h"

#define IPS_PATH_BYTES 512

#define IPS_PRELOAD_NAME "libips-preload.so"
#define IPS_LIBRARY_NAME "libips.so" /* and a version */
/* What all procedures of these two are called together. */
#define IPS_RECORDING "[recording]"

/* Pool root of this user and machine: $IPS_POOL_ROOT, else /dev/shm/ips-UID. */
int ips_path_pool_root(char out[IPS_PATH_BYTES],
                       struct ips_err *err) IPS_MUST_USE;

/* State directory: $IPS_STATE, else $XDG_STATE_HOME/ips, else
 * $HOME/.local/state/ips (home from the password database where HOME is
 * unset). */
int ips_path_state(char out[IPS_PATH_BYTES], struct ips_err *err) IPS_MUST_USE;

/* Is `state` the directory above, and the pool root the one that goes with it:
 * both named in the environment, or neither? Whoever names another archive does
 * not mean what is in the pool. */
bool ips_path_state_drains(const char *state);

/* The master's default address, "unix:STATE/master.sock". */
int ips_path_master(const char *state, char out[IPS_PATH_BYTES],
                    struct ips_err *err) IPS_MUST_USE;

/* mkdir -p with `mode` for what is created. */
int ips_path_make(const char *dir, unsigned mode,
                  struct ips_err *err) IPS_MUST_USE;

/* The same for a state directory, for its user alone. Where it cannot be
 * written, the error says what to do. */
int ips_path_make_state(const char *dir, struct ips_err *err) IPS_MUST_USE;

/* May `name` be a run's: 1 to 63 of letters, digits, '.', '_' and '-', and no
 * '.' first. It names a directory, so nothing else ever gets that far. */
bool ips_run_name_ok(const char *name);

/* Default machine name: $IPS_MACHINE, else the host name. */
void ips_path_machine(char *out, unsigned long len);

/* Finds a sister program or library: beside the running program
 * (BINDIR/name), in BINDIR/../lib for a library (BINDIR/../LIBDIR too). The
 * file must exist. */
int ips_path_program(const char *name, char out[IPS_PATH_BYTES],
                     struct ips_err *err) IPS_MUST_USE;
int ips_path_library(const char *name, char out[IPS_PATH_BYTES],
                     struct ips_err *err) IPS_MUST_USE;

#endif
