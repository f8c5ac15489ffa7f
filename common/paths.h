/*
 * Default paths of the pool root, the state directory and the sockets. Programs
 * find each other only through these defaults.
 */
#ifndef IPS_COMMON_PATHS_H
#define IPS_COMMON_PATHS_H

#include <stdbool.h>

#include "common/err.h"

#define IPS_PATH_BYTES 512

#define IPS_PRELOAD_NAME "libips-preload.so"
/* in file names, a version follows this name */
#define IPS_LIBRARY_NAME "libips.so"
/* The name under which the procedures of libips-preload.so and libips.so are
 * reported together. */
#define IPS_RECORDING "[recording]"
/* Reported as the procedure of a wait for pages from the disk: such a wait is
 * not a call of a procedure. */
#define IPS_PAGE_FAULTS "[page faults]"

/* Pool root of this user and machine: $IPS_POOL_ROOT, else /dev/shm/ips-UID. */
int ips_path_default_pool_root(char out[IPS_PATH_BYTES],
                               struct ips_err *err) IPS_MUST_USE;

/* State directory: $IPS_STATE, else $XDG_STATE_HOME/ips, else
 * $HOME/.local/state/ips (home from the password database if HOME is not
 * set). */
int ips_path_default_state_directory(char out[IPS_PATH_BYTES],
                                     struct ips_err *err) IPS_MUST_USE;

/* May a private daemon that uses the state directory `state` drain the default
 * pool? Only if `state` is the directory that ips_path_default_state_directory
 * returns, and IPS_STATE is not set without IPS_POOL_ROOT: a user who chooses
 * another state directory does not expect the runs of the default pool to be
 * moved there. */
bool ips_path_state_may_drain_default_pool(const char *state);

/* The master's default address, "unix:STATE/master.sock". */
int ips_path_default_master_address(const char *state, char out[IPS_PATH_BYTES],
                                    struct ips_err *err) IPS_MUST_USE;

/* Like mkdir -p; directories that it creates get `mode`. */
int ips_path_make_directories(const char *dir, unsigned mode,
                              struct ips_err *err) IPS_MUST_USE;

/* Makes a state directory as ips_path_make_directories does, accessible to its
 * user only. If the directory is not writable, the error message says what to
 * do. */
int ips_path_make_state_directory(const char *dir,
                                  struct ips_err *err) IPS_MUST_USE;

/* Is `name` a valid run name: 1 to 63 letters, digits, '.', '_' and '-', and no
 * leading '.'? It becomes the name of a directory, so every name is checked
 * here before it is used in a path. */
bool ips_is_valid_run_name(const char *name);

/* Default machine name: $IPS_MACHINE, else the host name. */
void ips_default_machine_name(char *out, unsigned long len);

/* Finds a program or library of this installation: a program next to the
 * running program (BINDIR/name), a library in BINDIR/../lib, BINDIR/../LIBDIR
 * or BINDIR. The file must exist. */
int ips_path_find_program(const char *name, char out[IPS_PATH_BYTES],
                          struct ips_err *err) IPS_MUST_USE;
int ips_path_find_library(const char *name, char out[IPS_PATH_BYTES],
                          struct ips_err *err) IPS_MUST_USE;

#endif
