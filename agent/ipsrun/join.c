/*
 * --join: waits until the run to join exists. A run that does not exist on this
 * machine may have started on another one. The master knows the runs of all
 * machines, and we ask it by running `ipsq runs`. If a script starts all
 * machines at once, the run may start a moment later than we ask. So if
 * --master was given, we ask repeatedly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/ipsrun/ipsrun.h"
#include "common/daemon.h"
#include "common/nearest.h"

#define WAIT_S 30
#define ASK_EVERY_MS 50
#define HERE_MS 2000 /* how long to wait for a run of this machine */
#define LOOK_EVERY_MS 20

enum answer { RUN_KNOWN, RUN_UNKNOWN, NO_ANSWER };

struct master_query {
    const struct ipsrun_options *o;
    struct ips_nearest near; /* the master's run with the most similar name */
    char why[256];           /* reason for NO_ANSWER */
};

/* Is the run in this machine's pool or, already drained, in its archive? */
static bool is_run_on_this_machine(const struct ipsrun_options *o)
{
    char path[2 * IPS_PATH_BYTES + 160];
    snprintf(path, sizeof(path), "%s/%.63s/control", o->pool, o->join);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof(path), "%s/slave-%s/runs/%.63s/archive", o->state,
             o->machine, o->join);
    return access(path, F_OK) == 0;
}

static bool wait_for_run_on_this_machine(const struct ipsrun_options *o)
{
    const struct timespec pause = {0, LOOK_EVERY_MS * 1000000};
    for (int i = 0; i < HERE_MS / LOOK_EVERY_MS && !is_run_on_this_machine(o);
         i++)
        nanosleep(&pause, NULL);
    return is_run_on_this_machine(o);
}

/* Searches `list`, the output of `ipsq runs --format tsv`, for `run`. Offers
 * all other runs to `near`. */
static enum answer find_run_in_list(FILE *list, const char *run,
                                    struct ips_nearest *near)
{
    char *line = NULL;
    size_t room = 0;
    enum answer answer = NO_ANSWER;
    while (answer != RUN_KNOWN && getline(&line, &room, list) >= 0) {
        line[strcspn(line, "\t\n")] = '\0';
        if (answer == NO_ANSWER && strcmp(line, "run") != 0)
            break;
        if (answer == NO_ANSWER)
            answer = RUN_UNKNOWN; /* a heading: the master has answered */
        else if (strcmp(line, run) == 0)
            answer = RUN_KNOWN;
        else
            ips_nearest_consider_candidate(near, line);
    }
    free(line);
    return answer;
}

struct ipsq_child {
    char program[IPS_PATH_BYTES];
    const struct ipsrun_options *o;
    FILE *out, *stderr_file; /* output and errors of ipsq */
};

static void exec_ipsq_runs(void *arg)
{
    const struct ipsq_child *c = arg;
    const char *argv[] = {c->program,
                          "--master",
                          c->o->master,
                          "runs",
                          "--format",
                          "tsv",
                          c->o->insecure ? "--insecure" : NULL,
                          NULL};
    if (dup2(fileno(c->out), STDOUT_FILENO) >= 0 &&
        dup2(fileno(c->stderr_file), STDERR_FILENO) >= 0)
        execv(c->program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static FILE *create_memory_file(void)
{
    int fd = memfd_create("ipsq", MFD_CLOEXEC);
    return fd < 0 ? NULL : fdopen(fd, "r+");
}

static enum answer ask_master_for_run_to_join(struct master_query *a)
{
    struct ipsq_child c = {.o = a->o, .out = create_memory_file()};
    struct ips_err err = {0};
    enum answer answer = NO_ANSWER;
    c.stderr_file = create_memory_file();
    ips_nearest_start_search(&a->near, a->o->join);
    snprintf(a->why, sizeof(a->why), "ipsq cannot be run");
    if (ips_path_find_program("ipsq", c.program, &err) < 0) {
        snprintf(a->why, sizeof(a->why), "%.250s", err.msg);
    } else if (c.out && c.stderr_file &&
               ips_run_outside_child_rusage(exec_ipsq_runs, &c) == 0) {
        rewind(c.out);
        rewind(c.stderr_file);
        answer = find_run_in_list(c.out, a->o->join, &a->near);
        if (answer == NO_ANSWER &&
            fgets(a->why, (int)sizeof(a->why), c.stderr_file))
            a->why[strcspn(a->why, "\n")] = '\0';
    }
    if (c.out)
        fclose(c.out);
    if (c.stderr_file)
        fclose(c.stderr_file);
    return answer;
}

/* Asks the master until it knows the run, for WAIT_S seconds at most. */
static enum answer poll_master_for_run(struct master_query *a)
{
    const struct timespec pause = {0, ASK_EVERY_MS * 1000000};
    enum answer answer = ask_master_for_run_to_join(a);
    if (answer == RUN_UNKNOWN && !a->o->quiet)
        fprintf(stderr,
                "ipsrun: run %s has not begun yet; waiting for it, %d s at "
                "most\n",
                a->o->join, WAIT_S);
    for (int i = 0; answer == RUN_UNKNOWN && i < WAIT_S * 1000 / ASK_EVERY_MS;
         i++) {
        nanosleep(&pause, NULL);
        answer = is_run_on_this_machine(a->o) ? RUN_KNOWN
                                              : ask_master_for_run_to_join(a);
    }
    return answer;
}

int ipsrun_wait_until_run_to_join_exists(const struct ipsrun_options *o)
{
    struct master_query a = {.o = o};
    if (!ips_is_valid_run_name(o->join) || is_run_on_this_machine(o))
        return -1; /* ips_pool_make_or_join_run() will report an invalid name */
    if (!o->master_set && wait_for_run_on_this_machine(o))
        return -1;
    enum answer answer = o->master_set ? poll_master_for_run(&a)
                                       : ask_master_for_run_to_join(&a);
    if (answer == RUN_KNOWN)
        return -1;
    /* Without --master, no other machine reports to our master. So if it does
     * not answer, the run does not exist. */
    if (answer == NO_ANSWER && o->master_set) {
        fprintf(stderr,
                "ipsrun: cannot tell whether run %s exists: the master at %s "
                "did not answer (%s); recording it on this machine all the "
                "same\n",
                o->join, o->master, a.why);
        return -1;
    }
    return ipsrun_print_failure(
        "--join %s: there is no such run in %s or at the "
        "master at %s%s\n`ipsq --master %s runs` lists the "
        "runs, `ipsrun --name %s` begins one",
        o->join, o->pool, o->master, ips_nearest_format_suggestion(&a.near),
        o->master, o->join);
}
