/*
 * Runs the helper that reads files of measured programs, and contains the
 * helper's main. The request is text on its standard input:
 *
 *   path \n build id in hex, or - \n not_after_real_ns \n debug root \n
 *   user \n address in hex \n ...
 *
 * The helper answers address by address, in any order, some twice:
 *
 *   grade SPACE index \n the symbol's lines \n an empty line
 *
 * and, at the end, "! code why" if it could not read everything. The helper of
 * root's slave takes the rights of `user` before it opens anything, so that
 * users learn nothing about files that they may not read. The helper limits its
 * own CPU and memory, and the slave kills it after HELPER_WALL_MS; answers that
 * came before count.
 */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/paths.h"
#include "slave/base/helper.h"
#include "slave/drain/drain.h"
#include "slave/symbols/symbols.h"

#define HELPER_CPU_S 20u
#define HELPER_MEMORY_BYTES ((uint64_t)4 << 30)
#define HELPER_WALL_MS 30000
#define ANSWER_MAX_BYTES ((size_t)256 << 20)
#define ASK_MAX_ADDRESSES 4000000u

/* ---- asking ---- */

static FILE *write_symbol_request(const struct slave_symbol_ask *a,
                                  struct ips_err *err)
{
    FILE *f = slave_helper_create_input(err);
    if (!f)
        return NULL;
    fprintf(f, "%s\n", a->path);
    for (size_t i = 0; i < a->build_id_bytes; i++)
        fprintf(f, "%02x", a->build_id[i]);
    fprintf(f, "%s\n%" PRIu64 "\n%s\n", a->build_id_bytes ? "" : "-",
            a->not_after_real_ns, a->debug_root);
    fprintf(f, "%u\n", (unsigned)a->uid);
    for (size_t i = 0; i < a->count; i++)
        fprintf(f, "%" PRIx64 "\n", a->addresses[i]);
    return f;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Reads the helper's output until it ends (then *whole is true), or until the
 * time limit or size limit. Returns the text, malloc'd; NULL: out of memory. */
static char *read_helper_output(int fd, size_t *len, bool *whole)
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

/* Returns true if `text` has the form of a symbol that symbols.h defines. The
 * helper reads untrusted files, so its output is not trusted, either. */
static bool is_well_formed_symbol(const char *text)
{
    struct slave_symbol_frame f;
    unsigned frames = 0;
    while (*text) {
        if (++frames > SLAVE_SYMBOL_FRAMES_MAX ||
            !slave_symbol_parse_frame(&text, &f))
            return false;
    }
    return frames > 0;
}

/* Parses "! code why". The helper is not trusted, so the text may be
 * anything. */
static void parse_failure_reason(const char *text, struct ips_err *why)
{
    int code = 0, at = 0;
    if (sscanf(text, "! %d %n", &code, &at) < 1 || at == 0)
        return;
    ips_err_set(why, code < 0 ? code : IPS_E_IO, "%.*s",
                (int)strcspn(text + at, "\n"), text + at);
}

static void parse_symbol_answers_of_helper(char *text, struct slave_symbol *out,
                                           size_t count, struct ips_err *why)
{
    while (*text && *text != '!') {
        char *line_end = strchr(text, '\n'), *end;
        size_t index;
        int grade;
        end = line_end ? strstr(line_end, "\n\n") : NULL;
        if (!end || sscanf(text, "%d %zu", &grade, &index) != 2)
            return; /* the answer was cut off here */
        end[1] = '\0';
        if (index < count && grade > SLAVE_SYMBOL_NONE &&
            grade <= SLAVE_SYMBOL_DEBUG &&
            is_well_formed_symbol(line_end + 1)) {
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
        parse_failure_reason(text, why);
}

static void set_reason_if_helper_failed(int status, bool whole,
                                        struct ips_err *why)
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

int slave_symbols_ask_helper(const char *helper,
                             const struct slave_symbol_ask *ask,
                             struct slave_symbol *out, struct ips_err *why,
                             struct ips_err *err)
{
    int answer, status;
    pid_t pid = 0;
    size_t len = 0;
    bool whole = false;
    if (strchr(ask->path, '\n') || strchr(ask->debug_root, '\n') ||
        ask->count > ASK_MAX_ADDRESSES)
        /* the format of the request cannot express such a path or so many
         * addresses: the names stay unknown */
        return 0;
    FILE *f = write_symbol_request(ask, err);
    int rc =
        f ? slave_helper_start(helper, "--symbolise", f, &pid, &answer, err)
          : IPS_E_IO;
    if (rc < 0)
        return rc;
    char *text = read_helper_output(answer, &len, &whole);
    close(answer);
    status = slave_helper_kill_if_asked_and_wait(pid, !whole);
    if (text)
        parse_symbol_answers_of_helper(text, out, ask->count, why);
    else
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "symbols");
    set_reason_if_helper_failed(status, whole, why);
    free(text);
    return rc;
}

/* ---- the helper ---- */

/* Does nothing unless the helper runs as root: only root can change its
 * user. */
static int switch_to_user_if_root(uint32_t uid, struct ips_err *err)
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

static size_t parse_hex_bytes(const char *text, uint8_t *out, size_t room)
{
    size_t n = 0;
    unsigned byte;
    for (; n < room && sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (uint8_t)byte;
    return n;
}

static void write_symbol_answer(void *arg, size_t index, const char *text,
                                enum slave_symbol_grade grade)
{
    FILE *out = arg;
    fprintf(out, "%d %zu\n%s\n", (int)grade, index, text);
}

int slave_symbols_helper_main(FILE *in, FILE *out)
{
    char path[IPS_PATH_BYTES], id[64], age[32], root[IPS_PATH_BYTES], line[32];
    char uid[32];
    uint8_t build_id[20];
    struct ips_err err = {0};
    uint64_t *addresses = NULL;
    size_t count = 0, room = 0;
    slave_helper_confine(HELPER_CPU_S, HELPER_MEMORY_BYTES);
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
        .build_id_bytes = parse_hex_bytes(id, build_id, sizeof(build_id)),
        .not_after_real_ns = strtoull(age, NULL, 10),
        .debug_root = root,
        .addresses = addresses,
        .count = count};
    int rc = switch_to_user_if_root((uint32_t)strtoul(uid, NULL, 10), &err);
    /* Ask the kernel again to kill this process when the slave ends, because
     * changing the user has cleared that setting. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rc == 0)
        rc = slave_symbols_read_elf_file(&ask, write_symbol_answer, out, &err);
    if (err.code)
        fprintf(out, "! %d %s\n", err.code, err.msg);
    fflush(out);
    free(addresses);
    return rc < 0 ? 1 : 0;
}
