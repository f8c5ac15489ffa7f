/* Examines a file that is about to be executed: see exec_target.h. */
#include "agent/record/exec_target.h"

#include <elf.h>
#include <string.h>

#include "agent/record/cpu.h"
#include "agent/record/extra.h"
#include "agent/record/own_table.h"
#include "agent/record/readable.h"
#include "agent/record/stream.h"
#include "agent/record/sys.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#endif

#define HEAD_BYTES 1024u /* nearly always contains a program's headers */
#define SCRIPT_BYTES                                                           \
    256u /* as much of a script's first line as Linux reads                    \
          */
#define SCRIPT_DEPTH 5
#define CAPABILITIES "security.capability"

static const struct {
    char word[24]; /* an array, not a pointer: needs no relocation */
    bool stays;
} kinds[] = {
#define X(name, text, keep) {text, keep},
    IPS_TARGETS(X)
#undef X
};

bool ips_target_keeps_preload(enum ips_target_kind kind)
{
    return kinds[kind].stays;
}

size_t ips_target_format_untraced(char out[IPS_TARGET_TEXT],
                                  const struct ips_target *t, uint32_t pid)
{
    static const char head[] = "untraced ";
    const char *word = kinds[t->kind].word;
    char *p = out;
    memcpy(p, head, sizeof(head) - 1);
    p = ips_format_number(p + sizeof(head) - 1, pid, 10);
    *p++ = ' ';
    memcpy(p, word, strlen(word));
    p += strlen(word);
    *p++ = ' ';
    size_t n = strnlen(t->path, IPS_TARGET_PATH - 1);
    memcpy(p, t->path, n);
    p[n] = '\0';
    return (size_t)(p - out) + n;
}

void ips_preload_remove_library(char *out, const char *value, const char *name)
{
    const size_t len = strlen(name);
    char *at = out;
    while (*value) {
        size_t n = strcspn(value, ": ");
        bool ours = n >= len && strncmp(value + n - len, name, len) == 0;
        if (!ours && n) {
            if (at != out)
                *at++ = ':';
            memmove(at, value, n);
            at += n;
        }
        value += n;
        value += *value != '\0';
    }
    *at = '\0';
}

/* --- a loader that is run directly -----------------------------------------
 */

/* Does the loader, run directly with `argv`, start a program? It does if `argv`
 * names a program after known options only; with any other option the loader
 * lists or checks libraries. */
static bool does_loader_start_program(char *const argv[])
{
    static const char with_value[][24] = {"--library-path",
                                          "--inhibit-rpath",
                                          "--audit",
                                          "--preload",
                                          "--argv0",
                                          "--glibc-hwcaps-mask",
                                          "--glibc-hwcaps-prepend"};
    for (size_t i = argv && argv[0] ? 1 : 0; argv && argv[i]; i++) {
        bool known = strcmp(argv[i], "--inhibit-cache") == 0;
        if (strncmp(argv[i], "--", 2) != 0)
            return true;
        for (size_t k = 0; k < sizeof(with_value) / sizeof(*with_value); k++)
            if (strcmp(argv[i], with_value[k]) == 0 && argv[i + 1]) {
                known = true;
                i++;
                break;
            }
        if (!known)
            return false;
    }
    return false;
}

/* Does the user allow AddressSanitizer's runtime to be loaded after other
 * libraries? */
static bool env_allows_asan_after_other_libraries(char *const envp[])
{
    static const char name[] = "ASAN_OPTIONS=";
    for (; envp && *envp; envp++)
        if (strncmp(*envp, name, sizeof(name) - 1) == 0)
            return strstr(*envp, "verify_asan_link_order=0") != NULL;
    return false;
}

void ips_target_refine_by_arguments(struct ips_target *t, char *const argv[],
                                    char *const envp[])
{
    if (t->kind != IPS_TARGET_BY_HAND && t->kind != IPS_TARGET_FIRST)
        ;
    else if (!ips_is_text_list_readable(argv) ||
             !ips_is_text_list_readable(envp))
        t->kind = IPS_TARGET_TRACED; /* the exec will fail */
    else if (t->kind == IPS_TARGET_BY_HAND)
        t->kind = does_loader_start_program(argv) ? IPS_TARGET_TRACED
                                                  : IPS_TARGET_ASKED;
    else if (env_allows_asan_after_other_libraries(envp))
        t->kind = IPS_TARGET_TRACED;
    if (t->kind == IPS_TARGET_TRACED)
        t->path[0] = '\0';
}

/* --- ELF -------------------------------------------------------------- */

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Is this the GNU C library's loader? Its file name shows that on all
 * architectures. */
static bool is_gnu_loader(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    return starts_with(base, "ld-linux") || starts_with(base, "ld-2.") ||
           starts_with(base, "ld64.so") || strcmp(base, "ld.so") == 0;
}

/* musl's loader and C library are one file, which can be run directly. */
static bool is_musl_loader(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    return starts_with(base, "ld-musl-") || starts_with(base, "libc.musl-");
}

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    return ips_sys6(SYS_pread64, fd, (long)out, (long)bytes, (long)at, 0, 0) ==
           (long)bytes;
}

struct elf_program {
    int fd;
    const char *head; /* the file's first `have` bytes */
    size_t have;
    Elf64_Ehdr elf;
};

static bool read_program_bytes(const struct elf_program *p, void *out,
                               size_t bytes, uint64_t at)
{
    if (at > p->have || bytes > p->have - at)
        return read_at(p->fd, out, bytes, at);
    memcpy(out, p->head + at, bytes);
    return true;
}

static bool read_program_header(const struct elf_program *p, unsigned i,
                                Elf64_Phdr *out)
{
    return i < p->elf.e_phnum && i < 64 &&
           read_program_bytes(p, out, sizeof(*out),
                              p->elf.e_phoff + (uint64_t)i * sizeof(*out));
}

/* Reads the path of the program's loader (PT_INTERP); returns false if it has
 * none. */
static bool read_loader_path(const struct elf_program *p,
                             char out[SCRIPT_BYTES])
{
    Elf64_Phdr part;
    for (unsigned i = 0; read_program_header(p, i, &part); i++) {
        if (part.p_type != PT_INTERP || part.p_filesz >= SCRIPT_BYTES)
            continue;
        memset(out, 0, SCRIPT_BYTES);
        if (!read_program_bytes(p, out, part.p_filesz, part.p_offset))
            out[0] = '\0';
        return true;
    }
    return false;
}

/* Returns the file offset of the program's virtual `address`; 0: none. */
static uint64_t file_offset_of_address(const struct elf_program *p,
                                       uint64_t address)
{
    Elf64_Phdr part;
    for (unsigned i = 0; read_program_header(p, i, &part); i++)
        if (part.p_type == PT_LOAD && address >= part.p_vaddr &&
            address - part.p_vaddr < part.p_filesz)
            return address - part.p_vaddr + part.p_offset;
    return 0;
}

/* Is `library` AddressSanitizer's runtime, which ends a program in which
 * another library precedes it? It recognises itself by the same names
 * (asan_linux.cpp, IsDynamicRTName). */
static bool is_asan_runtime(const char *library)
{
    return strstr(library, "libasan.so") || strstr(library, "libclang_rt.asan");
}

/* Does the program need AddressSanitizer's runtime, which must be loaded before
 * our library? */
static bool needs_asan_runtime(const struct elf_program *p)
{
    Elf64_Dyn dynamic[64];
    Elf64_Phdr part = {0};
    uint64_t names = 0;
    for (unsigned i = 0;
         read_program_header(p, i, &part) && part.p_type != PT_DYNAMIC;)
        i++;
    size_t bytes =
        part.p_filesz < sizeof(dynamic) ? part.p_filesz : sizeof(dynamic);
    if (part.p_type != PT_DYNAMIC ||
        !read_program_bytes(p, dynamic, bytes, part.p_offset))
        return false;
    size_t count = bytes / sizeof(*dynamic);
    for (size_t i = 0; i < count; i++)
        if (dynamic[i].d_tag == DT_STRTAB)
            names = file_offset_of_address(p, dynamic[i].d_un.d_ptr);
    for (size_t i = 0; names && i < count; i++) {
        char name[64] = "";
        if (dynamic[i].d_tag != DT_NEEDED)
            continue;
        (void)ips_sys6(SYS_pread64, p->fd, (long)name, sizeof(name) - 1,
                       (long)(names + dynamic[i].d_un.d_val), 0, 0);
        if (is_asan_runtime(name))
            return true;
    }
    return false;
}

static enum ips_target_kind classify_elf_target(int fd, const char *head,
                                                size_t have, const char *path)
{
    struct elf_program p = {.fd = fd, .head = head, .have = have};
    char loader[SCRIPT_BYTES];
    if (head[EI_CLASS] != ELFCLASS64)
        return IPS_TARGET_CLASS;
    if (have < sizeof(p.elf))
        return IPS_TARGET_TRACED;
    memcpy(&p.elf, head, sizeof(p.elf));
    if (p.elf.e_machine != OUR_MACHINE)
        return IPS_TARGET_MACHINE;
    if (p.elf.e_phentsize != sizeof(Elf64_Phdr))
        return IPS_TARGET_TRACED;
    if (read_loader_path(&p, loader)) {
        if (loader[0] && !is_gnu_loader(loader))
            return IPS_TARGET_LOADER;
        return needs_asan_runtime(&p) ? IPS_TARGET_FIRST : IPS_TARGET_TRACED;
    }
    if (is_gnu_loader(path))
        return IPS_TARGET_BY_HAND;
    return is_musl_loader(path) ? IPS_TARGET_LOADER : IPS_TARGET_STATIC;
}

/* Will the kernel give the program more privileges than we have (set-user-ID,
 * capabilities)? Its loader then ignores LD_PRELOAD. */
static bool gains_privileges(int fd, const struct stat *st)
{
    long uid = ips_sys3(SYS_getuid, 0, 0, 0), gid;
    if (st->st_mode & S_ISUID &&
        (st->st_uid != ips_sys_geteuid() || (long)st->st_uid != uid))
        return true;
    if (st->st_mode & S_ISGID && st->st_mode & S_IXGRP) {
        gid = ips_sys3(SYS_getegid, 0, 0, 0);
        if ((long)st->st_gid != gid)
            return true;
    }
    return uid != 0 &&
           ips_sys6(SYS_fgetxattr, fd, (long)CAPABILITIES, 0, 0, 0, 0) > 0;
}

/* --- files ------------------------------------------------------------ */

/* Replaces `head`, the start of a script, by the path of its interpreter.
 * Returns false if the file is no script. */
static bool replace_script_by_interpreter_path(char *head, size_t have)
{
    if (have < 3 || head[0] != '#' || head[1] != '!')
        return false;
    size_t n = have < SCRIPT_BYTES ? have : SCRIPT_BYTES, from = 2;
    while (from < n && (head[from] == ' ' || head[from] == '\t'))
        from++;
    size_t to = from;
    while (to < n && !strchr(" \t\n", head[to]))
        to++;
    if (to == from || to == n)
        return false;
    memmove(head, head + from, to - from);
    head[to - from] = '\0';
    return true;
}

/* --- programs examined before --------------------------------------------- */

/* Returns the key under which the verdict "traced" on a file is cached: a
 * program that starts others mostly starts the same ones. The verdict stays
 * true while the file and the caller's ids are the same. The cache is per
 * thread, since a vfork child shares the state of its parent's thread. */
static struct ips_traced_file make_traced_cache_key(const struct stat *st)
{
    return (struct ips_traced_file){.dev = st->st_dev,
                                    .ino = st->st_ino,
                                    .changed = st->st_ctim,
                                    .size = st->st_size,
                                    .uid =
                                        (uint32_t)ips_sys3(SYS_getuid, 0, 0, 0),
                                    .euid = ips_sys_geteuid(),
                                    .valid = 1};
}

/* Is this file in the cache of traced files? If a signal handler changes an
 * entry during the comparison, it also changes seen_next. */
static bool is_in_traced_cache(const struct ips_traced_file *is)
{
    struct ips_extra *extra = ips_me.extra;
    for (uint32_t i = 0; extra && i < IPS_SEEN; i++) {
        uint32_t next = *(volatile uint32_t *)&extra->seen_next;
        if (memcmp(&extra->seen[i], is, sizeof(*is)) == 0 &&
            next == *(volatile uint32_t *)&extra->seen_next)
            return true;
    }
    return false;
}

/* Adds a traced file to the cache, unless the file changed within the last
 * second: it could change again and keep the same ctime. Maps no extra state
 * for this: a thread that spawns has it already, and a fork child that executes
 * a program would not use the cache again. */
static void add_to_traced_cache_unless_fresh(const struct ips_traced_file *is)
{
    struct ips_extra *extra = ips_me.extra;
    struct timespec now;
    if (!extra ||
        ips_sys3(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0) != 0 ||
        now.tv_sec <= is->changed.tv_sec + 1)
        return;
    struct ips_traced_file *s =
        &extra->seen[(*(volatile uint32_t *)&extra->seen_next)++ % IPS_SEEN];
    s->valid = 0;
    atomic_signal_fence(memory_order_seq_cst);
    *s = *is;
}

/* --- examination -----------------------------------------------------------
 */

/* Examines an open program file: sets its kind and returns false, or returns
 * true if `head` is now the path of its interpreter. */
static bool inspect_file_contents(int fd, const struct stat *st,
                                  const char *path, enum ips_target_kind *kind,
                                  char head[HEAD_BYTES])
{
    long got = ips_sys6(SYS_pread64, fd, (long)head, HEAD_BYTES, 0, 0, 0);
    if (got < EI_NIDENT)
        got = got > 0 ? got : 0;
    if (got >= EI_NIDENT && memcmp(head, ELFMAG, SELFMAG) == 0) {
        *kind = classify_elf_target(fd, head, (size_t)got, path);
        if (*kind <= IPS_TARGET_SETUID && gains_privileges(fd, st))
            *kind = IPS_TARGET_SETUID;
        return false;
    }
    return replace_script_by_interpreter_path(head, (size_t)got);
}

/* Can a program that we execute open the library by this name? `before`: the
 * target was found traced before, so a cheaper check is enough. */
static bool can_open_library(const char *library, bool before)
{
    struct stat st;
    if (before)
        return ips_sys6(SYS_newfstatat, AT_FDCWD, (long)library, (long)&st, 0,
                        0, 0) == 0;
    int fd = ips_sys_open(library, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    ips_sys_close(fd);
    return true;
}

/* Is `path` a regular executable file? The test opens no device and waits for
 * no FIFO. */
static bool is_executable_file(int dir, const char *path, struct stat *st)
{
    return ips_sys6(SYS_newfstatat, dir, (long)path, (long)st, 0, 0, 0) == 0 &&
           S_ISREG(st->st_mode) && st->st_mode & 0111;
}

static int open_program(int dir, const char *path)
{
    return (int)ips_sys6(SYS_openat, dir, (long)path,
                         O_RDONLY | O_CLOEXEC | O_NOCTTY, 0, 0, 0);
}

/* Examines the open file `fd` and, if it is a script, its interpreters; closes
 * `fd`. Returns true if the file is a program itself, false if it is a script.
 */
static bool inspect_file_and_interpreters(struct ips_target *t, int fd,
                                          struct stat *st, const char *path)
{
    char head[HEAD_BYTES], next[SCRIPT_BYTES];
    const char *name = path;
    bool script = false;
    for (int depth = 0; fd >= 0 && depth < SCRIPT_DEPTH; depth++) {
        bool again = inspect_file_contents(fd, st, name, &t->kind, head);
        script |= again;
        ips_sys_close(fd);
        fd = -1;
        if (again && strnlen(head, HEAD_BYTES) < sizeof(next)) {
            memcpy(next, head, strlen(head) + 1);
            name = next;
            if (is_executable_file(AT_FDCWD, next, st))
                fd = open_program(AT_FDCWD, next);
        }
    }
    if (fd >= 0)
        ips_sys_close(fd);
    if (script && t->kind == IPS_TARGET_BY_HAND)
        t->kind = IPS_TARGET_TRACED;
    return !script;
}

static void store_target_path(struct ips_target *t, const char *path)
{
    size_t n = strnlen(path, IPS_TARGET_PATH - 1);
    memcpy(t->path, path, n);
    t->path[n] = '\0';
}

static void check_library_and_store_path_if_untraced(struct ips_target *t,
                                                     const char *path,
                                                     const char *library,
                                                     bool before)
{
    if (ips_target_keeps_preload(t->kind) && t->kind != IPS_TARGET_STATIC &&
        !can_open_library(library, before))
        t->kind = IPS_TARGET_HIDDEN;
    if (t->kind != IPS_TARGET_TRACED)
        store_target_path(t, path);
}

/* The library is not preloaded into a program that could not be examined. */
static void set_target_not_examined(struct ips_target *t, const char *name)
{
    t->kind = IPS_TARGET_NOT_EXAMINED;
    store_target_path(t, name);
}

struct inspection {
    struct ips_target *t;
    const char *name, *library; /* name of the target; path of our library */
    const char *path;           /* path to open; NULL: no file to open */
    struct stat *st; /* status of the file at `path`; for a script, then of its
                        interpreter */
};

enum { LOOKED_AT = 1, LOOKED_AT_PROGRAM = 2 };

/* The part of ips_target_inspect() that opens files. Returns LOOKED_AT_PROGRAM,
 * LOOKED_AT (a script), or 0 if the file cannot be opened. */
static long open_and_inspect_target_file(void *arg)
{
    const struct inspection *l = arg;
    int fd = l->path ? open_program(AT_FDCWD, l->path) : -1;
    bool program =
        fd >= 0 && inspect_file_and_interpreters(l->t, fd, l->st, l->name);
    check_library_and_store_path_if_untraced(l->t, l->name, l->library, false);
    return fd < 0 ? 0 : program ? LOOKED_AT_PROGRAM : LOOKED_AT;
}

#define FOUND_BYTES 512u

static bool does_path_need_dir_fd(int dir, const char *path)
{
    return !path || !*path || (*path != '/' && dir != AT_FDCWD);
}

/* Returns a path to the same file as `path`, which is relative to the
 * descriptor `dir`, for a thread that does not have this descriptor. If `path`
 * is NULL or "", a path to the file `dir` itself. NULL if the path is too long.
 */
static const char *format_path_resolving_dir_fd(char out[FOUND_BYTES], int dir,
                                                const char *path)
{
    char after[FOUND_BYTES];
    if (!does_path_need_dir_fd(dir, path))
        return path;
    size_t len = path ? strlen(path) : 0, n = sizeof("/fd/") - 1;
    if (dir < 0 || len + 20 > sizeof(after))
        return NULL;
    memcpy(after, "/fd/", n);
    n = (size_t)(ips_format_number(after + n, (uint64_t)dir, 10) - after);
    if (len)
        after[n++] = '/';
    memcpy(after + n, path ? path : "", len);
    after[n + len] = '\0';
    return ips_build_proc_path_resolving_link(out, FOUND_BYTES, "self", after)
               ? out
               : NULL;
}

/* Makes the examination that `l` describes, of the file at `path`, relative to
 * the descriptor `dir`. A function of its own: others do not need so much
 * stack. */
static __attribute__((noinline)) long
inspect_file_without_dir_fd(struct inspection *l, int dir, const char *path)
{
    char room[FOUND_BYTES];
    l->path = format_path_resolving_dir_fd(room, dir, path);
    return ips_run_with_own_fd_table(open_and_inspect_target_file, l);
}

/* Whether clone() failed with this error, so that no helper looked at the file
 * (RLIMIT_NPROC, a pids cgroup, an earlier unshare(CLONE_NEWPID)). Other errors
 * are of filters that refuse a helper everywhere: they say nothing about the
 * file. */
static bool has_clone_failed(long looked)
{
    return looked == -EAGAIN || looked == -ENOMEM || looked == -EINVAL;
}

/* Examines the program file at `path`, relative to `dir`; `st` is its status.
 * Returns false if it cannot be read. */
static bool inspect_file(struct ips_target *t, int dir, const char *path,
                         struct stat *st, const char *library)
{
    struct ips_traced_file is = make_traced_cache_key(st);
    if (is_in_traced_cache(&is)) {
        check_library_and_store_path_if_untraced(t, path, library, true);
        return true;
    }
    struct inspection l = {t, path, library, path, st};
    long looked =
        does_path_need_dir_fd(dir, path)
            ? inspect_file_without_dir_fd(&l, dir, path)
            : ips_run_with_own_fd_table(open_and_inspect_target_file, &l);
    if (looked == LOOKED_AT_PROGRAM && t->kind == IPS_TARGET_TRACED &&
        !(st->st_mode & (S_ISUID | S_ISGID)))
        add_to_traced_cache_unless_fresh(&is);
    if (has_clone_failed(looked))
        set_target_not_examined(t, path);
    return looked > 0 || has_clone_failed(looked);
}

void ips_target_inspect(struct ips_target *t, int dir, const char *path,
                        const char *library)
{
    struct stat st;
    t->kind = IPS_TARGET_TRACED;
    t->path[0] = '\0';
    bool is_file = path && *path ? is_executable_file(dir, path, &st)
                                 : ips_sys_fstat(dir, &st) == 0;
    if (is_file && path && *path) {
        (void)inspect_file(t, dir, path, &st, library);
    } else {
        struct inspection l = {t, path && *path ? path : "(descriptor)",
                               library, NULL, &st};
        if (!is_file)
            (void)ips_run_with_own_fd_table(open_and_inspect_target_file, &l);
        else if (has_clone_failed(inspect_file_without_dir_fd(&l, dir, path)))
            set_target_not_examined(t, l.name);
    }
}

/* Finds the next program named `file` in the directories of *search, and
 * advances *search (NULL at the end). IPS_APART measures the time: the probe
 * cost of an exec does not include a search of many directories. */
static bool find_next_executable_in_search_path(const char **search,
                                                const char *file,
                                                char path[FOUND_BYTES],
                                                struct stat *st)
{
    IPS_APART;
    size_t len = strlen(file);
    while (*search) {
        size_t n = strcspn(*search, ":"), head = n + (n > 0);
        bool fits = head + len + 1 <= FOUND_BYTES;
        if (fits) {
            memcpy(path, *search, n);
            path[n] = '/'; /* overwritten by the file's name if n == 0 (current
                              directory) */
            memcpy(path + head, file, len + 1);
        }
        *search = (*search)[n] ? *search + n + 1 : NULL;
        if (fits && is_executable_file(AT_FDCWD, path, st))
            return true;
    }
    return false;
}

void ips_target_find_and_inspect(struct ips_target *t, const char *file,
                                 const char *search, const char *library)
{
    if (!file || !*file || strchr(file, '/')) {
        ips_target_inspect(t, AT_FDCWD, file && *file ? file : "/", library);
        return;
    }
    t->kind = IPS_TARGET_TRACED;
    t->path[0] = '\0';
    char path[FOUND_BYTES];
    struct stat st;
    if (!search)
        search = "/bin:/usr/bin";
    while (find_next_executable_in_search_path(&search, file, path, &st) &&
           !inspect_file(t, AT_FDCWD, path, &st, library))
        continue;
}
