/*
 * Measures the probe costs of the whole interposer: the wrapper, the record,
 * the kernel's work for a mark, and cache misses after other work of the
 * program. A loop around the recording core alone (ipsrun/probe.c) misses much
 * of this.
 *
 * ipsrun starts itself under the agent, in a pool of its own that is removed
 * afterwards, as the *subject* (ipsrun/subject.c), SUBJECTS times. Memory
 * layout and the moment affect the result as much as the code does. So each
 * subject is short, and the result is the median over the subjects. If a loaded
 * machine needs longer than SUBJECTS_MS, the results up to then are used (steps
 * that wait come last, since each of them waits for the core). If the
 * measurement is impossible (ipsrun built with a sanitizer, no preload
 * library), the costs do not change.
 */
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ipsrun/subject.h"
#include "agent/pool/pool.h"
#include "agent/record/sys.h"
#include "common/types.h"

#define LIBRARY "libips-preload.so"
#define SUBJECTS 5
#define SUBJECTS_MS 12000

/* A pool with one run, and the environment variables with which the subject is
 * recorded in it. */
struct probe_pool {
    char root[64], library[IPS_PATH_BYTES];
    char preload[IPS_PATH_BYTES + 16], installed[IPS_PATH_BYTES + 16], pool[80];
};

static bool make_probe_pool(struct probe_pool *p, const struct ips_clock *clock,
                            const struct ips_probe_measurements *m)
{
    struct ips_err err = {0};
    struct stat st;
    char dir[IPS_PATH_BYTES];
    struct ips_run_options run = {.pool_root = p->root,
                                  .run = "probe",
                                  .machine = "",
                                  .command = "",
                                  .procedures = IPS_PROCEDURES_SAMPLE,
                                  .sample_us = 10000,
                                  .quota_bytes = 64 << 20,
                                  .plain = true};
    snprintf(p->root, sizeof(p->root), "%s/ips-probe-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (ips_path_find_library(LIBRARY, p->library, &err) < 0 ||
        strpbrk(p->library, ": ") || !mkdtemp(p->root))
        return false;
    snprintf(p->preload, sizeof(p->preload), "LD_PRELOAD=%s", p->library);
    snprintf(p->installed, sizeof(p->installed), "IPS_PRELOAD=%s", p->library);
    snprintf(p->pool, sizeof(p->pool), "IPS_POOL=%s", p->root);
    return ips_pool_store_clock_and_probe_costs(p->root, clock, m, &err) == 0 &&
           ips_pool_make_or_join_run(&run, dir, sizeof(dir), &err) == 0 &&
           /* Store our identity in `control`, as a slave does in its runs: an
            * image then makes fewer system calls. */
           (stat("/proc/self/ns/pid", &st) < 0 ||
            st.st_ino != IPS_PIDNS_INITIAL ||
            ips_control_store_slave_identity(dir, &err) == 0);
}

static int remove_tree_entry(const char *path, const struct stat *st, int kind,
                             struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

static void remove_probe_pool(const struct probe_pool *p)
{
    (void)nftw(p->root, remove_tree_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Starts the subject with standard output to `out`; returns its pid, or -1. If
 * `p` is NULL, the subject is not recorded. */
static pid_t start_subject(const struct probe_pool *p, int out)
{
    char *argv[] = {(char *)(uintptr_t)IPSRUN_SUBJECT, NULL};
    char *with[] = {NULL, NULL, NULL, NULL, NULL};
    if (p) {
        with[0] = (char *)(uintptr_t)p->preload;
        with[1] = (char *)(uintptr_t)p->installed;
        with[2] = (char *)(uintptr_t)p->pool;
        with[3] = (char *)(uintptr_t) "IPS_RUN=probe";
    }
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)syscall(SYS_close_range, 3u, ~0u, 0u);
    execve("/proc/self/exe", argv, with);
    _exit(1);
}

static int64_t now_ms(void)
{
    return (int64_t)(ips_sys_clock_ns(CLOCK_MONOTONIC) / 1000000);
}

static void run_subject_and_read_step_costs(const struct probe_pool *p,
                                            int64_t end,
                                            struct ipsrun_step_costs *said)
{
    int out[2];
    if (pipe2(out, O_CLOEXEC) < 0)
        return;
    pid_t pid = start_subject(p, out[1]);
    close(out[1]);
    struct pollfd ready = {.fd = out[0], .events = POLLIN};
    struct ipsrun_step_costs next;
    while (pid > 0 && said->steps < IPSRUN_STEPS && now_ms() < end &&
           poll(&ready, 1, (int)(end - now_ms())) == 1 &&
           read(out[0], &next, sizeof(next)) == sizeof(next))
        *said = next;
    close(out[0]);
    if (pid > 0 && said->steps < IPSRUN_STEPS)
        kill(pid, SIGKILL);
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* --- evaluation ------------------------------------------------------------
 */

/* The steps with a fork compare the C library's fork under the interposer with
 * the bare system call. Subtracts the time that the C library's fork adds by
 * itself, which is not our cost. */
static void measure_and_subtract_libc_fork(struct ipsrun_step_costs *said,
                                           int64_t end)
{
    static const enum ipsrun_step with_fork[] = {
        IPSRUN_FORK, IPSRUN_FORKED_IMAGE, IPSRUN_SPARE_FORK};
    struct ipsrun_step_costs bare = {0};
    run_subject_and_read_step_costs(NULL, end, &bare);
    for (size_t i = 0; i < sizeof(with_fork) / sizeof(with_fork[0]); i++)
        said->ps[with_fork[i]] -= bare.ps[IPSRUN_FORK];
}

/* Stores the median over the subjects that completed `step` in *ps; returns
 * false if none did. */
static bool median_over_subjects(const struct ipsrun_step_costs *all,
                                 enum ipsrun_step step, int64_t *ps)
{
    int64_t values[SUBJECTS];
    size_t n = 0;
    for (int i = 0; i < SUBJECTS; i++)
        if (all[i].steps > (int64_t)step)
            values[n++] = all[i].ps[step];
    if (!n)
        return false;
    qsort(values, n, sizeof(values[0]), ipsrun_compare_i64);
    *ps = (values[(n - 1) / 2] + values[n / 2]) / 2;
    return true;
}

/* Stores the median of `step` minus `less` in *cost, but at least `least`,
 * since noise may make the difference too small. Changes nothing if there is no
 * result. */
static void compute_and_store_probe_cost(const struct ipsrun_step_costs *all,
                                         enum ipsrun_step step, uint64_t less,
                                         uint64_t least, uint64_t *cost)
{
    int64_t ps;
    if (!median_over_subjects(all, step, &ps))
        return;
    ps -= (int64_t)less;
    *cost = ps > (int64_t)least ? (uint64_t)ps : least;
}

static void compute_and_store_probe_costs(const struct ipsrun_step_costs *all,
                                          uint64_t *ps)
{
    const uint64_t event = ps[IPS_PROBE_EVENT];
    /* slave/build/cost.c counts one reading of the CPU clock for every 64
     * blocking calls. The cost of a blocking call includes all further
     * readings. */
    const uint64_t read = ps[IPS_PROBE_READ] / 64;
    compute_and_store_probe_cost(all, IPSRUN_CALL, 0, ps[IPS_PROBE_CALL],
                                 &ps[IPS_PROBE_CALL]);
    const uint64_t call = ps[IPS_PROBE_CALL];
    compute_and_store_probe_cost(all, IPSRUN_COLD, call, 0,
                                 &ps[IPS_PROBE_COLD]);
    ps[IPS_PROBE_POLL] = call;
    compute_and_store_probe_cost(all, IPSRUN_POLL, 0, event,
                                 &ps[IPS_PROBE_POLL]);
    compute_and_store_probe_cost(all, IPSRUN_FILE, 0, 0, &ps[IPS_PROBE_FILE]);
    compute_and_store_probe_cost(all, IPSRUN_OPEN, 0, 0, &ps[IPS_PROBE_OPEN]);
    compute_and_store_probe_cost(all, IPSRUN_PASS, 0, 0, &ps[IPS_PROBE_PASS]);
    compute_and_store_probe_cost(all, IPSRUN_FORK, 0, event,
                                 &ps[IPS_PROBE_FORK]);
    compute_and_store_probe_cost(all, IPSRUN_FORKED_IMAGE, ps[IPS_PROBE_FORK],
                                 event, &ps[IPS_PROBE_IMAGE]);
    compute_and_store_probe_cost(all, IPSRUN_SPAWNED_IMAGE,
                                 call + ps[IPS_PROBE_IMAGE], event,
                                 &ps[IPS_PROBE_SPAWN]);
    /* The cost of an image is the same with a spare segment: an image that
     * makes its own segment reports the cost of that itself. */
    ps[IPS_PROBE_SPARE_IMAGE] = ps[IPS_PROBE_IMAGE];
    ps[IPS_PROBE_SPARE_FORK] = ps[IPS_PROBE_FORK];
    compute_and_store_probe_cost(all, IPSRUN_SPARE_FORK, 0, event,
                                 &ps[IPS_PROBE_SPARE_FORK]);
    /* A fork into a spare segment never costs more than one without. */
    ps[IPS_PROBE_SPARE_FORK] =
        ips_min_u64(ps[IPS_PROBE_SPARE_FORK], ps[IPS_PROBE_FORK]);
    compute_and_store_probe_cost(all, IPSRUN_THREE_BLOCKED, 3 * call + read, 0,
                                 &ps[IPS_PROBE_BLOCK]);
    compute_and_store_probe_cost(all, IPSRUN_STACK,
                                 call + ps[IPS_PROBE_BLOCK] + read, 2 * event,
                                 &ps[IPS_PROBE_STACK]);
    compute_and_store_probe_cost(all, IPSRUN_LOCK, 0, ps[IPS_PROBE_LOCK],
                                 &ps[IPS_PROBE_LOCK]);
    /* The FORK and JOIN of a thread have the probe cost of two calls. */
    compute_and_store_probe_cost(all, IPSRUN_THREAD, 2 * call, event,
                                 &ps[IPS_PROBE_THREAD]);
}

void ipsrun_measure_interposer_probe_costs(const struct ips_clock *clock,
                                           struct ips_probe_measurements *m)
{
    struct ipsrun_step_costs all[SUBJECTS] = {{0}};
    int64_t end = now_ms() + SUBJECTS_MS;
    for (int i = 0; i < SUBJECTS && now_ms() < end; i++) {
        struct probe_pool p = {0}; /* a new pool for each subject, since
                                      subjects use up spare segments */
        if (make_probe_pool(&p, clock, m)) {
            run_subject_and_read_step_costs(&p, end, &all[i]);
            measure_and_subtract_libc_fork(&all[i], end);
        }
        remove_probe_pool(&p);
    }
    compute_and_store_probe_costs(all, m->cost_ps);
}
