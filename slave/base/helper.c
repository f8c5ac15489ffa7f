/* Runs helper processes; see helper.h. */
#include "slave/base/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

FILE *slave_helper_create_input(struct ips_err *err)
{
    int fd = memfd_create("ips-helper", MFD_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
    if (f)
        return f;
    ips_err_errno(err, "input of a helper");
    if (fd >= 0)
        close(fd);
    return NULL;
}

static int spawn_helper_process(const char *program, char *mode, int in,
                                int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char name[] = "ips-slave";
    char *argv[] = {name, mode, NULL};
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attr) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    int rc = posix_spawn(pid, program, &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return rc;
}

int slave_helper_start(const char *program, const char *mode, FILE *input,
                       pid_t *pid, int *out, struct ips_err *err)
{
    int ends[2] = {-1, -1};
    char own[32];
    int rc = 0;
    snprintf(own, sizeof(own), "%s", mode);
    bool bad = ferror(input) != 0;
    if (fflush(input) != 0 || bad || lseek(fileno(input), 0, SEEK_SET) < 0 ||
        pipe2(ends, O_CLOEXEC) < 0)
        rc = ips_err_errno(err, "input of a helper");
    if (rc == 0) {
        errno = spawn_helper_process(program, own, fileno(input), ends[1], pid);
        if (errno)
            rc = ips_err_errno(err, "%s", program);
    }
    fclose(input);
    if (ends[1] >= 0)
        close(ends[1]);
    if (rc < 0 && ends[0] >= 0)
        close(ends[0]);
    if (rc == 0)
        *out = ends[0];
    return rc;
}

int slave_helper_kill_if_asked_and_wait(pid_t pid, int end)
{
    int status = 0;
    if (end)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

void slave_helper_confine(uint64_t cpu_s, uint64_t memory_bytes)
{
    const struct rlimit cpu = {cpu_s, cpu_s + 1}, none = {0, 0};
    (void)close_range(3, ~0u, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)setrlimit(RLIMIT_CPU, &cpu);
    (void)setrlimit(RLIMIT_CORE, &none);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        close(fd);
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit memory = {memory_bytes, memory_bytes};
    (void)setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory_bytes;
#endif
}
