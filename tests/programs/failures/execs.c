/* What an executed program finds in its environment, by every call that
 * executes one: what it was given, and the recorder's own beside it. */
#include "failures.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <wordexp.h>

static char self[] = "/proc/self/exe", word[] = "environment";
static char *words[] = {self, word, NULL};

/* --- in the executed program --- */
static int by_name(const void *a, const void *b)
{
    char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Prints the environment in the order of its names, what is long by its length;
 * how many variables and libraries of the recorder's there are, in brackets. */
int show_environment(void)
{
    size_t count = 0;
    unsigned variables = 0, libraries = 0;
    while (environ[count])
        count++;
    qsort(environ, count, sizeof(*environ), by_name);
    for (size_t i = 0; i < count; i++) {
        char *e = environ[i];
        if (strncmp(e, "IPS_RUN=", 8) == 0 || strncmp(e, "IPS_POOL=", 9) == 0 ||
            strncmp(e, "IPS_PRELOAD=", 12) == 0) {
            variables++;
        } else if (strncmp(e, "LD_PRELOAD=", 11) == 0) {
            for (char *p = strtok(e + 11, ": "); p; p = strtok(NULL, ": ")) {
                if (strstr(p, "libips-preload.so"))
                    libraries++;
                else
                    printf("preload %s ", p);
            }
        } else if (strlen(e) > 100) {
            printf("%.10s...%zu ", e, strlen(e));
        } else {
            printf("%s ", e);
        }
    }
    printf("[variables %u] [libraries %u] ", variables, libraries);
    return 0;
}

/* --- what it is given --- */
static char one[] = "ONE=1", two[] = "TWO=two words",
            other[] = "LD_PRELOAD=libm.so.6",
            both[] = "LD_PRELOAD=libm.so.6 libdl.so.2:", last[] = "IPS_OTHER=x",
            with_ours[500] = "LD_PRELOAD=libm.so.6:";
static char huge[100000];
static char *none[] = {NULL}, *few[] = {two, one, NULL},
            *preloads[] = {one, other, two, NULL}, *lists[] = {both, NULL},
            *own[] = {last, one, NULL}, *named[] = {with_ours, one, NULL},
            *large[] = {one, huge, two, NULL};

/* --- the calls --- */
static int p[2];
static char **given;

static void child_begins(void)
{
    dup2(p[1], 1);
    close(p[0]);
    close(p[1]);
    unsetenv("LC_ALL");
}
/* Prints what the child said. */
static void child_ends(pid_t pid)
{
    ssize_t n;
    int status = -1;
    close(p[1]);
    while ((n = read(p[0], buf, sizeof(buf))) > 0)
        printf("%.*s", (int)n, buf);
    close(p[0]);
    must(pid <= 0 || waitpid(pid, &status, 0) == pid);
    printf("status %d ", pid > 0 ? status : 0);
    call_begins();
    call_ends(0, UNTOUCHED);
}
#define EXECUTES(name, how, environment, call)                                 \
    static void case_##name(void)                                              \
    {                                                                          \
        given = environment;                                                   \
        must(pipe(p) == 0);                                                    \
        pid_t pid = how();                                                     \
        if (pid == 0) {                                                        \
            child_begins();                                                    \
            (void)(call);                                                      \
            _exit(99);                                                         \
        }                                                                      \
        child_ends(pid);                                                       \
    }
static int as_environ(int (*call)(const char *, char *const *))
{
    environ = given;
    return call(self, words);
}

EXECUTES(execve_none, fork, none, execve(self, words, given))
EXECUTES(execve_few, fork, few, execve(self, words, given))
EXECUTES(execve_preloads, fork, preloads, execve(self, words, given))
EXECUTES(execve_lists, fork, lists, execve(self, words, given))
EXECUTES(execve_own, fork, own, execve(self, words, given))
static void case_make_large(void)
{
    memset(huge, 'x', sizeof(huge) - 1);
    memcpy(huge, "HUGE=", 5);
    CALL(0);
}
EXECUTES(execve_large, fork, large, execve(self, words, given))
static void case_execve_named(void)
{
    const char *ours = getenv("LD_PRELOAD");
    strncat(with_ours, ours ? ours : "", 400);
    given = named;
    must(pipe(p) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        child_begins();
        execve(self, words, given);
        _exit(99);
    }
    child_ends(pid);
}
EXECUTES(execv_few, fork, few, as_environ(execv))
EXECUTES(execvp_few, fork, few, as_environ(execvp))
EXECUTES(execvp_large, fork, large, as_environ(execvp))
EXECUTES(execvpe_few, fork, few, execvpe(self, words, given))
EXECUTES(execl_few, fork, few, (environ = given, execl(self, self, word, NULL)))
EXECUTES(execlp_few, fork, few,
         (environ = given, execlp(self, self, word, NULL)))
EXECUTES(execle_few, fork, few, execle(self, self, word, NULL, given))
EXECUTES(execle_none, fork, none, execle(self, self, word, NULL, given))
EXECUTES(fexecve_few, fork, few, fexecve(open(self, O_RDONLY), words, given))
EXECUTES(execveat_few, fork, few, execveat(AT_FDCWD, self, words, given, 0))
EXECUTES(execveat_empty, fork, few,
         execveat(open(self, O_RDONLY), "", words, given, AT_EMPTY_PATH))
EXECUTES(number_few, fork, few, syscall(SYS_execve, self, words, given))
EXECUTES(number_at_few, fork, few,
         syscall(SYS_execveat, AT_FDCWD, self, words, given, 0))
EXECUTES(vfork_few, vfork, few, execve(self, words, given))
EXECUTES(vfork_large, vfork, large, execve(self, words, given))
EXECUTES(vfork_preloads, vfork, preloads, execvpe(self, words, given))
EXECUTES(fork_number, _Fork, few, execve(self, words, given))

/* Those that make the child themselves; the shell adds PWD and the like. */
#define SPAWNS(name, function, environment)                                    \
    static void case_##name(void)                                              \
    {                                                                          \
        pid_t pid = -1;                                                        \
        posix_spawn_file_actions_t to;                                         \
        must(pipe(p) == 0 && posix_spawn_file_actions_init(&to) == 0 &&        \
             posix_spawn_file_actions_adddup2(&to, p[1], 1) == 0 &&            \
             function(&pid, self, &to, NULL, words, environment) == 0);        \
        child_ends(pid);                                                       \
        must(posix_spawn_file_actions_destroy(&to) == 0);                      \
    }
SPAWNS(spawn_none, posix_spawn, none)
SPAWNS(spawn_few, posix_spawn, few)
SPAWNS(spawn_preloads, posix_spawn, preloads)
SPAWNS(spawn_large, posix_spawn, large)
SPAWNS(spawnp_few, posix_spawnp, few)
SPAWNS(spawnp_lists, posix_spawnp, lists)

/* `environ` is the program's own again when the call is over. */
static void run_by_shell(char **environment, void (*call)(void))
{
    char **before = environ;
    environ = environment;
    must(pipe(p) == 0);
    call();
    must(environ == environment);
    environ = before;
    child_ends(-1);
}
static void by_popen(void)
{
    char line[1000];
    FILE *f = popen("exec env -u PWD -u SHLVL -u OLDPWD -u _ $PROGRAM "
                    "environment",
                    "r");
    must(f != NULL);
    while (fgets(line, sizeof(line), f))
        printf("%s", line);
    printf("popen %d ", pclose(f));
}
static void by_system(void)
{
    fflush(stdout);
    int out = dup(1);
    must(dup2(p[1], 1) == 1);
    int status = system("exec env -u PWD -u SHLVL -u OLDPWD -u _ $PROGRAM "
                        "environment");
    must(dup2(out, 1) == 1 && close(out) == 0);
    printf("system %d ", status);
}
static void by_wordexp(void)
{
    wordexp_t found;
    int r = wordexp("$(exec env -u PWD -u SHLVL -u OLDPWD -u _ $PROGRAM "
                    "environment)",
                    &found, 0);
    for (size_t i = 0; i < found.we_wordc; i++)
        printf("%s ", found.we_wordv[i]);
    printf("wordexp %d ", r);
}
static char program[600] = "PROGRAM=", path[] = "PATH=/usr/bin:/bin";
static char *shell[] = {program, path, one, NULL},
            *shell_preloads[] = {program, other, path, NULL};
static void case_system_few(void)
{
    must(readlink("/proc/self/exe", program + 8, 500) > 0);
    run_by_shell(shell, by_system);
}
static void case_system_preloads(void)
{
    run_by_shell(shell_preloads, by_system);
}
static void case_popen_few(void)
{
    run_by_shell(shell, by_popen);
}
static void case_popen_preloads(void)
{
    run_by_shell(shell_preloads, by_popen);
}
static void case_wordexp_few(void)
{
    run_by_shell(shell, by_wordexp);
}
/* A variable that the call sets is in `environ`, which is another one then. */
static void case_wordexp_sets(void)
{
    static char *only_path[] = {path, NULL};
    char **before = environ;
    wordexp_t found;
    environ = only_path;
    CALL(wordexp("${WORD:=set}$(:)", &found, 0));
    const char *set = getenv("WORD");
    must(set && strcmp(set, "set") == 0);
    environ = before;
}

const struct one_case exec_cases[] = {
    CASE(execve_none),    CASE(execve_few),     CASE(execve_preloads),
    CASE(execve_lists),   CASE(execve_own),     CASE(make_large),
    CASE(execve_large),   CASE(execve_named),   CASE(execv_few),
    CASE(execvp_few),     CASE(execvp_large),   CASE(execvpe_few),
    CASE(execl_few),      CASE(execlp_few),     CASE(execle_few),
    CASE(execle_none),    CASE(fexecve_few),    CASE(execveat_few),
    CASE(execveat_empty), CASE(number_few),     CASE(number_at_few),
    CASE(vfork_few),      CASE(vfork_large),    CASE(vfork_preloads),
    CASE(fork_number),    CASE(spawn_none),     CASE(spawn_few),
    CASE(spawn_preloads), CASE(spawn_large),    CASE(spawnp_few),
    CASE(spawnp_lists),   CASE(system_few),     CASE(system_preloads),
    CASE(popen_few),      CASE(popen_preloads), CASE(wordexp_few),
    CASE(wordexp_sets),   {NULL, NULL}};
