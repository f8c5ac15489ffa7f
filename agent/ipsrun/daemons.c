/* Starts a private slave and master if none are running. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/ipsrun/ipsrun.h"
#include "agent/pool/pool.h"
#include "common/daemon.h"

/* Does a slave run, that is, hold slave.lock? The caller holds pool.lock, so no
 * private slave can decide to end meanwhile. */
static bool is_slave_running(const char *pool)
{
    char path[IPS_PATH_BYTES + 32];
    snprintf(path, sizeof(path), "%s/%s", pool, IPS_POOL_SLAVE_LOCK);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

/* Must ipsrun start a master? Yes if `address` is unix:PATH and no master
 * listens there. ipsrun starts no master for other addresses. */
static bool must_start_master(const char *address)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (strncmp(address, "unix:", 5) != 0 ||
        strlen(address + 5) >= sizeof(un.sun_path))
        return false;
    memcpy(un.sun_path, address + 5, strlen(address + 5) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool answers = connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0 ||
                   errno == EAGAIN;
    close(fd);
    return !answers;
}

static void start_private_daemon(const struct ipsrun_options *o,
                                 const char *name, const char *log_name,
                                 const char *const *args)
{
    char program[IPS_PATH_BYTES], log[IPS_PATH_BYTES + 32];
    struct ips_err err = {0};
    const char *argv[16] = {program};
    int rc = ips_path_find_program(name, program, &err);
    if (rc == 0)
        rc = ips_path_make_state_directory(o->state, &err);
    for (int i = 0; i < 14 && args[i]; i++)
        argv[i + 1] = args[i];
    snprintf(log, sizeof(log), "%s/%s", o->state, log_name);
    if (rc == 0)
        rc = ips_daemon_start_detached((char *const *)(uintptr_t)argv, log,
                                       &err);
    if (rc < 0 && !o->quiet)
        fprintf(
            stderr,
            "ipsrun: no private %s (%s); the run is recorded all the same\n",
            name, err.msg);
}

void ipsrun_start_missing_daemons(const struct ipsrun_options *o)
{
    if (must_start_master(o->master)) {
        const char *const args[] = {"--private", "--state", o->state,
                                    "--listen",  o->master, NULL};
        start_private_daemon(o, "ips-master", "master.log", args);
    }
    const char *keys = getenv("IPS_TLS");
    if (is_slave_running(o->pool))
        return;
    if (strncmp(o->master, "tls:", 4) == 0 && (!keys || *keys != '/')) {
        if (!o->quiet)
            fprintf(stderr,
                    "ipsrun: no private slave: it would need keys for %s "
                    "(IPS_TLS, a whole path; deploy/keys makes them); the run "
                    "is recorded all the same\n",
                    o->master);
    } else {
        const char *const args[] = {
            "--private", "--pool",
            o->pool,     "--state",
            o->state,    "--machine",
            o->machine,  "--master",
            o->master,   o->insecure ? "--insecure" : NULL,
            NULL};
        start_private_daemon(o, "ips-slave", "slave.log", args);
    }
}
