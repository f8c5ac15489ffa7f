/*
 * The helper that reads files of measured programs: how it is asked, and its
 * own main. The ask is text on its standard input:
 *
 *   path \n build id in hex, or - \n not_after_real_ns \n debug root \n
 *   user \n address in hex \n ...
 *
 * and it answers, address by address as it knows them:
 *
 *   grade SPACE index \n the symbol's lines \n an empty line
 *
 * and "! code why" at the end where not all could be read. Root's helper takes
 * the rights of that user before it opens anything: nobody learns of a file
 * that he may not read. It has limits of its own on CPU and memory, and is
 * killed when it takes too long; what it had said by then counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/paths.h"
#include "slave/drain.h"
#include "slave/symbols.h"

#define HELPER_CPU_S 20u
#define HELPER_MEMORY_BYTES ((rlim_t)4 << 30)
#define HELPER_WALL_MS 30000
#define ANSWER_MAX_BYTES ((size_t)256 << 20)
#define ASK_MAX_ADDRESSES 4000000u

extern char **environ;

/* ---- asking ---- */

static int write_ask(const struct slave_symbol_ask *a, int *fd,
                     struct ips_err *err)
{
    *fd = memfd_create("ips-symbols", MFD_CLOEXEC);
    int own = *fd < 0 ? -1 : fcntl(*fd, F_DUPFD_CLOEXEC, 3);
    FILE *f = own < 0 ? NULL : fdopen(own, "w");
    if (!f) {
        if (own >= 0)
            close(own);
        return ips_err_errno(err, "symbols");
    }
    fprintf(f, "%s\n", a->path);
    for (size_t i = 0; i < a->build_id_bytes; i++)
        fprintf(f, "%02x", a->build_id[i]);
    fprintf(f, "%s\n%" PRIu64 "\n%s\n", a->build_id_bytes ? "" : "-",
            a->not_after_real_ns, a->debug_root);
    fprintf(f, "%u\n", (unsigned)a->uid);
    for (size_t i = 0; i < a->count; i++)
        fprintf(f, "%" PRIx64 "\n", a->addresses[i]);
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad || lseek(*fd, 0, SEEK_SET) < 0)
        return ips_err_errno(err, "symbols");
    return 0;
}

static int spawn(const char *helper, int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char name[] = "ips-slave", mode[] = "--symbolise";
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
    int rc = posix_spawn(pid, helper, &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return rc;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Everything up to the end (*whole), the time limit or the size limit. */
static char *read_answer(int fd, size_t *len, bool *whole)
{
    uint64_t until = now_ms() + HELPER_WALL_MS;
    size_t room = 1 << 16;
    char *text = malloc(room + 1);
    *len = 0;
    while (text) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = now_ms();
        int rc = now < until ? poll(&p, 1, (int)(until - now)) : 0;
        if (rc < 0 && errno == EINTR)
            continue;
        ssize_t n = rc > 0 ? read(fd, text + *len, room - *len) : 0;
        *whole = rc > 0 && n == 0;
        if (n <= 0)
            break;
        *len += (size_t)n;
        if (*len < room)
            continue;
        char *grown =
            room < ANSWER_MAX_BYTES ? realloc(text, room * 2 + 1) : NULL;
        if (!grown)
            break;
        text = grown;
        room *= 2;
    }
    if (text)
        text[*len] = '\0';
    return text;
}

/* Is this what symbols.h says a symbol is? The helper is not to be trusted
 * more than what it read. */
static bool well_formed(const char *text)
{
    struct slave_frame_name f;
    unsigned frames = 0;
    while (*text) {
        if (++frames > SLAVE_SYMBOL_FRAMES_MAX || !slave_symbol_next(&text, &f))
            return false;
    }
    return frames > 0;
}

/* "! code why", which the helper may have written anything for. */
static void take_reason(const char *text, struct ips_err *why)
{
    int code = 0, at = 0;
    if (sscanf(text, "! %d %n", &code, &at) < 1 || at == 0)
        return;
    ips_err_set(why, code < 0 ? code : IPS_E_IO, "%.*s",
                (int)strcspn(text + at, "\n"), text + at);
}

static void take_answer(char *text, struct slave_symbol *out, size_t count,
                        struct ips_err *why)
{
    while (*text && *text != '!') {
        char *line_end = strchr(text, '\n'), *end;
        size_t index;
        int grade;
        end = line_end ? strstr(line_end, "\n\n") : NULL;
        if (!end || sscanf(text, "%d %zu", &grade, &index) != 2)
            return; /* cut off */
        end[1] = '\0';
        if (index < count && grade > SLAVE_SYMBOL_NONE &&
            grade <= SLAVE_SYMBOL_DEBUG && well_formed(line_end + 1)) {
            char *copy = strdup(line_end + 1);
            if (copy) {
                free(out[index].text);
                out[index].text = copy;
                out[index].grade = (enum slave_symbol_grade)grade;
            }
        }
        text = end + 2;
    }
    if (*text == '!')
        take_reason(text, why);
}

static void say_ended(int status, bool whole, struct ips_err *why)
{
    if (!whole)
        ips_err_set(why, IPS_E_LIMIT,
                    "reading them took more than %d s, or their names more "
                    "than %zu bytes",
                    HELPER_WALL_MS / 1000, ANSWER_MAX_BYTES);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        ips_err_set(why, IPS_E_LIMIT, "reading them took more than %u s of CPU",
                    HELPER_CPU_S);
    else if (WIFSIGNALED(status))
        ips_err_set(why, IPS_E_LIMIT,
                    "the reader ended by signal %d: the file is damaged, or "
                    "needs more than %llu bytes of memory",
                    WTERMSIG(status), (unsigned long long)HELPER_MEMORY_BYTES);
}

int slave_symbols_ask(const char *helper, const struct slave_symbol_ask *ask,
                      struct slave_symbol *out, struct ips_err *why,
                      struct ips_err *err)
{
    int in = -1, ends[2] = {-1, -1}, status = 0;
    pid_t pid = 0;
    char *text = NULL;
    size_t len = 0;
    bool whole = false;
    if (strchr(ask->path, '\n') || strchr(ask->debug_root, '\n') ||
        ask->count > ASK_MAX_ADDRESSES)
        return 0; /* nothing is known of it */
    int rc = write_ask(ask, &in, err);
    if (rc == 0 && pipe2(ends, O_CLOEXEC) < 0)
        rc = ips_err_errno(err, "symbols");
    if (rc == 0) {
        errno = spawn(helper, in, ends[1], &pid);
        if (errno)
            rc = ips_err_errno(err, "%s", helper);
    }
    if (rc < 0)
        goto out;
    close(ends[1]);
    ends[1] = -1;
    text = read_answer(ends[0], &len, &whole);
    close(ends[0]);
    ends[0] = -1;
    if (!whole)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (text)
        take_answer(text, out, ask->count, why);
    else
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "symbols");
    say_ended(status, whole, why);
out:
    if (in >= 0)
        close(in);
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    free(text);
    return rc;
}

/* ---- the helper ---- */

static void limit_self(void)
{
    const struct rlimit cpu = {HELPER_CPU_S, HELPER_CPU_S + 1}, none = {0, 0};
    (void)close_range(3, ~0u, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)setrlimit(RLIMIT_CPU, &cpu);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setrlimit(RLIMIT_FSIZE, &none);
    /* Where memory lacks, this one is to go. */
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        close(fd);
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit memory = {HELPER_MEMORY_BYTES, HELPER_MEMORY_BYTES};
    (void)setrlimit(RLIMIT_AS, &memory);
#endif
}

/* Root's helper only: any other has the slave's rights, which are its user's.
 */
static int take_rights(uint32_t uid, struct ips_err *err)
{
    if (geteuid() != 0 || uid == 0)
        return 0;
    const struct passwd *user = getpwuid(uid);
    gid_t gid = user ? user->pw_gid : SLAVE_UID_NOBODY;
    int rc = user ? initgroups(user->pw_name, gid) : setgroups(0, NULL);
    if (rc < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return ips_err_errno(err, "the rights of user %u", (unsigned)uid);
    return 0;
}

static bool read_line(FILE *in, char *out, size_t room)
{
    if (!fgets(out, (int)room, in))
        return false;
    size_t len = strlen(out);
    if (len == 0 || out[len - 1] != '\n')
        return false;
    out[len - 1] = '\0';
    return true;
}

static size_t read_hex(const char *text, uint8_t *out, size_t room)
{
    size_t n = 0;
    unsigned byte;
    for (; n < room && sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (uint8_t)byte;
    return n;
}

static void put_answer(void *arg, size_t index, const char *text,
                       enum slave_symbol_grade grade)
{
    FILE *out = arg;
    fprintf(out, "%d %zu\n%s\n", (int)grade, index, text);
}

int slave_symbols_main(FILE *in, FILE *out)
{
    char path[IPS_PATH_BYTES], id[64], age[32], root[IPS_PATH_BYTES], line[32];
    char uid[32];
    uint8_t build_id[20];
    struct ips_err err = {0};
    uint64_t *addresses = NULL;
    size_t count = 0, room = 0;
    limit_self();
    if (!read_line(in, path, sizeof(path)) || !read_line(in, id, sizeof(id)) ||
        !read_line(in, age, sizeof(age)) ||
        !read_line(in, root, sizeof(root)) || !read_line(in, uid, sizeof(uid)))
        return 2;
    while (read_line(in, line, sizeof(line))) {
        if (count == room) {
            room = room ? room * 2 : 1024;
            void *grown = realloc(addresses, room * sizeof(*addresses));
            if (!grown)
                break;
            addresses = grown;
        }
        addresses[count++] = strtoull(line, NULL, 16);
    }
    const struct slave_symbol_ask ask = {
        .path = path,
        .build_id = build_id,
        .build_id_bytes = read_hex(id, build_id, sizeof(build_id)),
        .not_after_real_ns = strtoull(age, NULL, 10),
        .debug_root = root,
        .addresses = addresses,
        .count = count};
    int rc = take_rights((uint32_t)strtoul(uid, NULL, 10), &err);
    /* Taking rights forgets it. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rc == 0)
        rc = slave_symbols_read(&ask, put_answer, out, &err);
    if (err.code)
        fprintf(out, "! %d %s\n", err.code, err.msg);
    fflush(out);
    free(addresses);
    return rc < 0 ? 1 : 0;
}
