/* main() of ipsrun lists all steps. Their order matters. */
#include "agent/ipsrun/ipsrun.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "agent/record/core.h"
#include "agent/record/exec_target.h"
#include "agent/record/sys.h"
#include "common/types.h"

int ipsrun_print_failure(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("ipsrun: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return IPSRUN_FAILED;
}

/* If a recorded program starts ipsrun, ipsrun is itself recorded, and the
 * daemons that it starts would belong to that run and keep it open. So ipsrun
 * executes itself again without the agent. It does so by a raw system call,
 * because the interposed exec would add the agent again. */
static void reexec_without_agent_if_preloaded(char **argv)
{
    const char *value = getenv("LD_PRELOAD");
    char *rest = value ? strdup(value) : NULL;
    if (!rest)
        return;
    ips_preload_remove_library(rest, value, IPS_PRELOAD_NAME);
    if (strlen(rest) == strlen(value)) {
        free(rest);
        return;
    }
    if (*rest)
        setenv("LD_PRELOAD", rest, 1);
    else
        unsetenv("LD_PRELOAD");
    unsetenv("IPS_RUN");
    unsetenv("IPS_POOL");
    unsetenv("IPS_PRELOAD");
    ips_sys3(SYS_execve, (long)"/proc/self/exe", (long)argv, (long)environ);
    free(rest); /* without /proc ipsrun continues, recorded */
}

/* Makes a run name from the command's basename, the date and time, and a random
 * number, which keeps others from guessing the name. */
static void generate_run_name(char out[64], const char *command)
{
    const char *slash = strrchr(command, '/');
    const char *base = slash && slash[1] ? slash + 1 : command;
    char clean[25], when[16] = "";
    size_t n = 0;
    for (; n < sizeof(clean) - 1 && base[n]; n++) {
        bool plain = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "abcdefghijklmnopqrstuvwxyz0123456789._-",
                            base[n]) != NULL;
        clean[n] = plain && (n || base[n] != '.') ? base[n] : '_';
    }
    clean[n] = '\0';
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        random = (uint32_t)getpid();
    time_t now = time(NULL);
    struct tm tm;
    if (localtime_r(&now, &tm))
        strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    snprintf(out, 64, "%s-%s-%08x", n ? clean : "run", when, random);
}

static void join_words(char *out, size_t size, char *const *words)
{
    size_t at = 0;
    out[0] = '\0';
    for (; *words && at + 1 < size; words++) {
        int n = snprintf(out + at, size - at, "%s%s", at ? " " : "", *words);
        if (n < 0)
            return;
        at += (size_t)n;
    }
}

/* Takes pool.lock and returns its descriptor, or an error. Closing the
 * descriptor releases the lock. */
static int lock_pool_for_new_run(const char *pool, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 32];
    snprintf(path, sizeof(path), "%s/%s", pool, IPS_POOL_LOCK);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ips_err_errno(err, "%s", path);
    while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    return fd;
}

/* Is the run to join in the pool of another user? Then that user's slave drains
 * it, and we must not take the locks of that pool. */
static bool is_run_of_other_user(const struct ipsrun_options *o)
{
    char path[IPS_PATH_BYTES + 80];
    struct stat st;
    if (!o->join || stat(o->pool, &st) < 0 || st.st_uid == geteuid())
        return false;
    snprintf(path, sizeof(path), "%s/%.63s/control", o->pool, o->join);
    return access(path, R_OK | W_OK) == 0;
}

/* Returns an error if this machine's slave already has an archive of a run with
 * this name, else 0. Such a run has left the pool, but the slave would merge
 * the new records into its archive. */
static int check_run_name_not_archived(const struct ipsrun_options *o,
                                       const char *name, struct ips_err *err)
{
    char path[2 * IPS_PATH_BYTES + 160];
    snprintf(path, sizeof(path), "%s/slave-%s/runs/%.63s/archive", o->state,
             o->machine, name);
    return access(path, F_OK) < 0
               ? 0
               : ips_err_set(err, IPS_E_BUSY,
                             "a run named '%s' is there already, in %s: choose "
                             "another --name, or join it with --join %s",
                             name, o->state, name);
}

static int make_or_join_run_and_start_daemons(const struct ipsrun_options *o,
                                              const char *name,
                                              const char *command_line)
{
    struct ips_err err = {0};
    char dir[IPS_PATH_BYTES + 80];
    struct ips_run_options run = {
        .pool_root = o->pool,
        .run = name,
        .machine = o->machine,
        .command = command_line,
        .tags = o->tags,
        .join = o->join != NULL,
        .procedures = o->procedures,
        .sample_us = o->sample_us,
        .budget_ppm = o->budget_ppm,
        .on_full = o->on_full,
        .quota_bytes = o->quota_bytes,
        .cpu_mode = o->cpu_mode,
        .receive_stamps = o->receive_stamps,
        .delays = !o->no_delays,
        .locks = o->locks,
        .measure = ipsrun_measure_probes,
    };
    int lock = -1,
        rc = o->join ? 0 : check_run_name_not_archived(o, name, &err);
    if (rc == 0 && !is_run_of_other_user(o)) {
        rc = ips_pool_make_or_check_root(o->pool, &err);
        if (rc == 0 && (lock = lock_pool_for_new_run(o->pool, &err)) < 0)
            rc = lock;
    }
    if (rc == 0)
        rc = ips_pool_make_or_join_run(&run, dir, sizeof(dir), &err);
    if (rc == 0 && lock >= 0 && !o->no_daemons)
        ipsrun_start_missing_daemons(o);
    if (lock >= 0)
        close(lock);
    if (rc == IPS_E_USAGE) {
        ipsrun_print_failure("%s", err.msg);
        return IPSRUN_USAGE;
    }
    return rc < 0 ? ipsrun_print_failure("%s", err.msg) : -1;
}

/* Sets IPS_RUN, IPS_POOL and IPS_PRELOAD, and appends our library to the user's
 * LD_PRELOAD. Returns -1 to continue, else the exit status to end with. */
static int set_recording_environment(const struct ipsrun_options *o,
                                     const char *name)
{
    struct ips_err err = {0};
    char library[IPS_PATH_BYTES];
    if (ips_path_find_library(IPS_PRELOAD_NAME, library, &err) < 0)
        return ipsrun_print_failure("%s", err.msg);
    int rc = ipsrun_make_library_loadable(library, o->pool);
    if (rc)
        return rc;
    const char *theirs = getenv("LD_PRELOAD");
    char *both = NULL;
    if (asprintf(&both, "%s%s%s", theirs ? theirs : "",
                 theirs && *theirs ? ":" : "", library) < 0)
        return ipsrun_print_failure("out of memory");
    bool bad = setenv("LD_PRELOAD", both, 1) < 0 ||
               setenv("IPS_RUN", name, 1) < 0 ||
               setenv("IPS_POOL", o->pool, 1) < 0 ||
               setenv("IPS_PRELOAD", library, 1) < 0;
    free(both);
    return bad ? ipsrun_print_failure("environment: %s", strerror(errno)) : -1;
}

/* Examines the command and fills *target. Removes our library from LD_PRELOAD
 * if the command's loader cannot load it. */
static void
inspect_command_and_drop_unloadable_preload(char **command,
                                            struct ips_target *target)
{
    ips_target_find_and_inspect(target, command[0], getenv("PATH"),
                                getenv("IPS_PRELOAD"));
    ips_target_refine_by_arguments(target, command, environ);
    if (ips_target_keeps_preload(target->kind) && !getenv("LD_DEBUG") &&
        !getenv("LD_TRACE_LOADED_OBJECTS") && !getenv("LD_VERIFY"))
        /* must_preload_library() (preload/process/exec.c) explains why these
         * variables matter. */
        return;
    const char *value = getenv("LD_PRELOAD"), *library = getenv("IPS_PRELOAD");
    char *rest = strdup(value);
    if (!rest)
        return;
    const char *slash = strrchr(library, '/');
    ips_preload_remove_library(rest, value, slash ? slash + 1 : library);
    if (*rest)
        setenv("LD_PRELOAD", rest, 1);
    else
        unsetenv("LD_PRELOAD");
    free(rest);
}

static void write_text_record(enum ips_rec_type type, const char *text,
                              size_t max)
{
    uint64_t cpu = ips_core_thread_cpu_ns();
    size_t len = strnlen(text, max - 1);
    struct ips_rec_text *rec = ips_rec_begin(type, sizeof(*rec) + len + 1);
    if (!rec)
        return;
    rec->h.a = (uint32_t)len;
    rec->cpu = cpu;
    memcpy(rec->text, text, len);
    rec->text[len] = '\0';
    ips_rec_publish(rec);
}

/* Prints why the command could not be executed; returns the exit status that a
 * shell would use. */
static int report_exec_failure(const char *command, int error)
{
    fprintf(stderr, "ipsrun: %s: %s\n", command, strerror(error));
    return error == ENOENT ? 127 : 126;
}

static void warn_if_command_is_unrecorded(const struct ips_target *t)
{
    static const char *const why[] = {
        [IPS_TARGET_STATIC] = "it is linked statically",
        [IPS_TARGET_SETUID] = "its file gives it other rights than yours",
        [IPS_TARGET_CLASS] = "it is a 32-bit program",
        [IPS_TARGET_MACHINE] = "it is for another kind of processor",
        [IPS_TARGET_LOADER] = "its C library is not the GNU one",
        [IPS_TARGET_HIDDEN] = "it cannot reach the library that records",
        [IPS_TARGET_FIRST] =
            "AddressSanitizer must be loaded before any other library",
        [IPS_TARGET_ASKED] = "the program loader only lists or checks",
        [IPS_TARGET_NOT_EXAMINED] = "its file could not be examined",
    };
    if (t->kind != IPS_TARGET_TRACED)
        fprintf(stderr, "ipsrun: %s runs unrecorded: %s\n", t->path,
                why[t->kind]);
}

/* Records the first image of the root process (START, NAME, EXEC) and executes
 * the command. Returns an exit status only if that fails. */
static int record_start_and_exec(char **command, const char *command_line,
                                 bool quiet)
{
    struct ips_target target;
    inspect_command_and_drop_unloadable_preload(command, &target);
    if (!quiet)
        warn_if_command_is_unrecorded(&target);
    if (ips_core_init_and_start_main_stream(IPS_START_ROOT)) {
        write_text_record(IPS_REC_NAME, command_line, 512);
        if (target.kind != IPS_TARGET_TRACED) {
            char text[IPS_TARGET_TEXT];
            ips_target_format_untraced(text, &target, ips_sys_getpid());
            write_text_record(IPS_REC_UNSEEN, text, sizeof(text));
        }
        write_text_record(IPS_REC_EXEC, command[0], 256);
    }
    execvp(command[0], command);
    int error = errno;
    uint64_t cpu = ips_core_thread_cpu_ns();
    struct ips_rec_exec *rec =
        ips_rec_begin(IPS_REC_EXECFAIL, sizeof(struct ips_rec_exec));
    if (rec) {
        rec->h.a = (uint32_t)error;
        rec->cpu = cpu;
        ips_rec_publish(rec);
    }
    int status = report_exec_failure(command[0], error);
    ips_core_record_process_end(IPS_END_EXIT, status);
    return status;
}

int main(int argc, char **argv)
{
    struct ipsrun_options o;
    char made_up[64], command_line[512];
    int status = argc == 1 ? ipsrun_run_if_subject(argv[0]) : -1;
    if (status >= 0)
        return status;
    reexec_without_agent_if_preloaded(argv);
    status = ipsrun_parse_options(&o, argc, argv);
    if (status >= 0)
        return status;
    const char *off = getenv("IPS_OFF");
    if (off && strcmp(off, "1") == 0) {
        execvp(o.command[0], o.command);
        return report_exec_failure(o.command[0], errno);
    }
    const char *name = o.join ? o.join : o.name;
    if (!name) {
        generate_run_name(made_up, o.command[0]);
        name = made_up;
    }
    join_words(command_line, sizeof(command_line), o.command);
    status = o.join ? ipsrun_wait_until_run_to_join_exists(&o) : -1;
    if (status >= 0)
        return status;
    status = make_or_join_run_and_start_daemons(&o, name, command_line);
    if (status >= 0)
        return status;
    if (!o.quiet)
        fprintf(stderr, "ipsrun: run %s\n", name);
    status = ipsrun_fork_and_wait_if_on_terminal(&o, name);
    if (status >= 0)
        return status;
    status = set_recording_environment(&o, name);
    if (status >= 0)
        return status;
    return record_start_and_exec(o.command, command_line, o.quiet);
}
