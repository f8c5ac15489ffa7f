/* Starts a private master and slave for a user who runs none:
 * docs/design/pool.md, "Private daemons". */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/base/session.h"
#include "common/daemon.h"

/* Stores the path STATE/NAME.log. A path that is too long is truncated, and
 * then the daemon has no log. */
static void make_log_path(char out[IPS_PATH_BYTES], const char *state,
                          const char *name)
{
    snprintf(out, IPS_PATH_BYTES, "%.480s/%s.log", state, name);
}

/* Makes the state directory if it does not exist, and stores its absolute path,
 * because daemons change to /. */
static int create_and_resolve_state_dir(const char *state,
                                        char out[IPS_PATH_BYTES],
                                        struct ips_err *err)
{
    char resolved[PATH_MAX];
    int rc = ips_path_make_state_directory(state, err);
    if (rc < 0)
        return rc;
    if (!realpath(state, resolved))
        return ips_err_errno(err, "%s", state);
    if (snprintf(out, IPS_PATH_BYTES, "%s", resolved) >= IPS_PATH_BYTES)
        return ips_err_set(err, IPS_E_LIMIT, "%.80s: path too long", state);
    return 0;
}

int ipsq_start_master(const char *state, struct ips_err *err)
{
    char program[IPS_PATH_BYTES], dir[IPS_PATH_BYTES], log[IPS_PATH_BYTES];
    char at[IPS_PATH_BYTES], word[4][12] = {"--private", "--state", "--listen"};
    int rc = ips_path_find_program("ips-master", program, err);
    if (rc == 0)
        rc = create_and_resolve_state_dir(state, dir, err);
    if (rc == 0)
        rc = ips_path_default_master_address(dir, at, err);
    if (rc < 0)
        return rc;
    char *argv[] = {program, word[0], word[1], dir, word[2], at, NULL};
    make_log_path(log, dir, "master");
    return ips_daemon_start_detached(argv, log, err);
}

/* Stores the pool that a slave with the state directory `dir` drains: the pool
 * of this machine if `dir` is the default, else a directory without runs. */
static int choose_pool_for_state(const char *dir, char pool[IPS_PATH_BYTES],
                                 struct ips_err *err)
{
    if (ips_path_state_may_drain_default_pool(dir))
        return ips_path_default_pool_root(pool, err);
    if (snprintf(pool, IPS_PATH_BYTES, "%s/no-pool", dir) >= IPS_PATH_BYTES)
        return ips_err_set(err, IPS_E_LIMIT, "%.80s: path too long", dir);
    return 0;
}

int ipsq_start_slave(const char *state, struct ips_err *err)
{
    char program[IPS_PATH_BYTES], dir[IPS_PATH_BYTES], log[IPS_PATH_BYTES];
    char at[IPS_PATH_BYTES], pool[IPS_PATH_BYTES], machine[64];
    char word[5][12] = {"--private", "--pool", "--state", "--machine",
                        "--master"};
    int rc = ips_path_find_program("ips-slave", program, err);
    if (rc == 0)
        rc = create_and_resolve_state_dir(state, dir, err);
    if (rc == 0)
        rc = ips_path_default_master_address(dir, at, err);
    if (rc == 0)
        rc = choose_pool_for_state(dir, pool, err);
    if (rc < 0)
        return rc;
    ips_default_machine_name(machine, sizeof(machine));
    char *argv[] = {program, word[0], word[1], pool, word[2], dir,
                    word[3], machine, word[4], at,   NULL};
    make_log_path(log, dir, "slave");
    return ips_daemon_start_detached(argv, log, err);
}
