/*
 * The exec family: writes an EXEC record before the call, and EXECFAIL if the
 * call returns. Restores LD_PRELOAD and the IPS_ variables in the new
 * environment if the program removed them; a value that the program set stays.
 * If the target's loader cannot load our library (exec_target.h), removes the
 * library from LD_PRELOAD. In a vfork child nothing is recorded, but the
 * environment is still adapted. If the path or the environment is in memory
 * that cannot be read, the call is made as it is, and fails as it does without
 * us.
 */
#include "agent/preload/wrap.h"

#include <dlfcn.h>

#include "agent/record/readable.h"
#include "agent/record/sys.h"

enum { VAR_RUN, VAR_POOL, VAR_PRELOAD, VARS };
static const char var_names[VARS][13] = {
    "IPS_RUN=", "IPS_POOL=", "IPS_PRELOAD="};
/* our IPS_ variables as "NAME=value", stored at our start; NULL: unknown */
static char *var_texts[VARS];
/* storage for copies of our variables, because programs overwrite their
 * environment */
static char short_texts[256];
static char texts[2 * 4096 + 256] IPS_TABLE;
/* path of our library, the value of IPS_PRELOAD */
static const char *library;
static const char *library_name = ""; /* file name of our library */
static const char ld_preload[] = "LD_PRELOAD=";

static const char *find_in_environ(char *const *envp, const char *name)
{
    size_t n = strlen(name);
    for (char *const *e = envp; e && *e; e++)
        if (**e == *name && !strncmp(*e, name, n))
            return *e;
    return NULL;
}

struct texts_used {
    size_t short_, long_;
};

/* Copies `name` ("NAME=") and `value` into static storage, and returns the
 * copy. NULL: no space. */
static char *copy_variable_to_static_storage(struct texts_used *used,
                                             const char *name,
                                             const char *value)
{
    size_t a = strlen(name), b = strlen(value) + 1;
    bool fits = a + b <= sizeof(short_texts) - used->short_;
    if (!fits && a + b > sizeof(texts) - used->long_)
        return NULL;
    size_t *taken = fits ? &used->short_ : &used->long_;
    char *at = (fits ? short_texts : texts) + *taken;
    memcpy(at, name, a);
    memcpy(at + a, value, b);
    *taken += a + b;
    return at;
}

void ips_env_save_run_variables(void)
{
    struct texts_used used = {0, 0};
    for (int i = 0; i < VARS; i++) {
        const char *text = find_in_environ(environ, var_names[i]);
        if (text)
            var_texts[i] = copy_variable_to_static_storage(&used, "", text);
    }
    Dl_info info;
    const char *preload = var_names[VAR_PRELOAD];
    if (!var_texts[VAR_PRELOAD] && dladdr(&library, &info) &&
        info.dli_fname[0] == '/')
        var_texts[VAR_PRELOAD] =
            copy_variable_to_static_storage(&used, preload, info.dli_fname);
    if (!var_texts[VAR_PRELOAD])
        return;
    library = var_texts[VAR_PRELOAD] + strlen(preload);
    library_name = strrchr(library, '/');
    library_name = library_name ? library_name + 1 : library;
}

/* --- under a seccomp filter a new image must not load us ------------------ */

static bool is_ld_preload_entry(const char *entry)
{
    return !strncmp(entry, ld_preload, sizeof(ld_preload) - 1);
}

static size_t environ_copy_bytes(char *const *envp)
{
    size_t count = 1, text = 0;
    for (char *const *e = envp; e && *e; e++) {
        count++;
        text += is_ld_preload_entry(*e) ? strlen(*e) + 1 : 0;
    }
    return count * sizeof(char *) + text;
}

/* Copies the environment without our library and our variables. `out` must have
 * space for environ_copy_bytes(envp) bytes. */
static void copy_environ_without_agent_entries(char **out, char *const *envp)
{
    size_t count = 0, head = sizeof(ld_preload) - 1;
    for (char *const *e = envp; e && *e; e++)
        count++;
    char *text = (char *)(out + count + 1);
    count = 0;
    for (char *const *e = envp; e && *e; e++) {
        bool ours = false;
        for (int i = 0; i < VARS; i++)
            ours |= !strncmp(*e, var_names[i], strlen(var_names[i]));
        if (is_ld_preload_entry(*e)) {
            memcpy(text, ld_preload, head);
            ips_preload_remove_library(text + head, *e + head, library_name);
            if (text[head])
                out[count++] = text;
            text += strlen(text) + 1;
        } else if (!ours) {
            out[count++] = *e;
        }
    }
    out[count] = NULL;
}

/* Whether the new image is to load our library. False if
 * LD_TRACE_LOADED_OBJECTS, LD_DEBUG or LD_VERIFY is set: the loader then lists,
 * checks or reports the libraries that it loads, and ours would appear in the
 * list. */
static bool must_preload_library(char *const *envp,
                                 const struct ips_target *target)
{
    return ips_target_keeps_preload(target->kind) &&
           !find_in_environ(envp, "LD_TRACE_LOADED_OBJECTS=") &&
           !find_in_environ(envp, "LD_DEBUG=") &&
           !find_in_environ(envp, "LD_VERIFY=");
}

/* Returns the LD_PRELOAD entry that the loader uses: the last one. NULL: there
 * is none. */
static const char *find_ld_preload_entry(char *const *envp)
{
    const char *last = NULL;
    for (char *const *e = envp; e && *e; e++)
        if (is_ld_preload_entry(*e))
            last = *e;
    return last;
}

size_t ips_env_copy_bytes(char *const *envp, const struct ips_target *target)
{
    if (ips_core.wrap_state != IPS_WRAP_ON || !library ||
        !ips_is_text_list_readable(envp))
        return 0;
    if (ips_new_image_must_not_preload())
        return environ_copy_bytes(envp);
    const char *preload = find_ld_preload_entry(envp);
    bool there = preload && strstr(preload, library_name);
    bool missing = there != must_preload_library(envp, target);
    for (int i = 0; i < VARS; i++)
        if (var_texts[i] && !find_in_environ(envp, var_names[i]))
            missing = true;
    if (!missing)
        return 0;
    size_t count = 0;
    while (envp && envp[count])
        count++;
    return (count + VARS + 2) * sizeof(char *) + sizeof(ld_preload) +
           (preload ? strlen(preload) : 0) + strlen(library) + 2;
}

void ips_env_build(struct ips_env *env, char *const *envp,
                   const struct ips_target *target, size_t bytes, void *room)
{
    memcpy(&env->envp, &envp, sizeof(envp));
    if (!bytes)
        return;
    if (!room) {
        /* Not ips_sys_mmap(): a vfork child that has installed a filter may
         * make no other calls. */
        uint64_t map =
            (uint64_t)ips_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (ips_sys_is_error(map))
            return;
        room = env->map = (void *)(uintptr_t)map;
        env->bytes = bytes;
    }
    char **out = (char **)room;
    if (ips_new_image_must_not_preload()) {
        copy_environ_without_agent_entries(out, envp);
        env->envp = out;
        return;
    }
    const char *preload = find_ld_preload_entry(envp);
    size_t count = 0;
    for (char *const *e = envp; e && *e; e++)
        if (!is_ld_preload_entry(*e))
            out[count++] = *e;
    for (int i = 0; i < VARS; i++)
        if (var_texts[i] && !find_in_environ(envp, var_names[i]))
            out[count++] = var_texts[i];
    char *text = (char *)(out + count + 2);
    out[count] = text;
    out[count + 1] = NULL;
    env->envp = out;
    const size_t head = sizeof(ld_preload) - 1;
    memcpy(text, ld_preload, head);
    text += head;
    const char *value = preload ? preload + head : "";
    if (!must_preload_library(envp, target)) {
        ips_preload_remove_library(text, value, library_name);
        if (!*text)
            /* LD_PRELOAD named only our library */
            out[count] = NULL;
        return;
    }
    memcpy(text, value, strlen(value) + 1);
    if (strstr(value, library_name))
        return;
    text += strlen(value);
    if (value[0])
        *text++ = ':';
    memcpy(text, library, strlen(library) + 1);
}

void ips_env_free(struct ips_env *env)
{
    if (env->map)
        ips_sys_munmap((uint64_t)(uintptr_t)env->map, env->bytes);
}

/* --- UNSEEN and EXEC records ---------------------------------------------- */

static void set_target_traced(struct ips_target *t)
{
    t->kind = IPS_TARGET_TRACED;
    t->path[0] = '\0';
}

void ips_exec_inspect(struct ips_target *t, int dir, const char *path)
{
    if (ips_core.wrap_state == IPS_WRAP_ON && library &&
        !ips_new_image_must_not_preload() && ips_is_string_readable(path))
        ips_target_inspect(t, dir, path, library);
    else
        set_target_traced(t);
}

void ips_exec_find_and_inspect(struct ips_target *t, const char *file)
{
    static const char path[] = "PATH=";
    if (!ips_is_string_readable(file) || !file || strchr(file, '/')) {
        ips_exec_inspect(t, AT_FDCWD, file);
        return;
    }
    const char *search = find_in_environ(environ, path);
    if (ips_core.wrap_state == IPS_WRAP_ON && library &&
        !ips_new_image_must_not_preload())
        ips_target_find_and_inspect(
            t, file, search ? search + sizeof(path) - 1 : NULL, library);
    else
        set_target_traced(t);
}

void ips_report_unrecorded_with_length(const char *text, size_t n)
{
    uint64_t t = ips_core_stamp_now(), cpu = ips_core_thread_cpu_ns();
    struct ips_rec_text *rec = (struct ips_rec_text *)ips_rec_begin_at(
        IPS_REC_UNSEEN, sizeof(*rec) + n + 1, t);
    if (!rec)
        return;
    rec->h.a = (uint32_t)n;
    rec->cpu = cpu;
    memcpy(rec->text, text, n + 1);
    ips_rec_publish(rec);
}

void ips_record_target_if_untraced(const struct ips_target *target,
                                   uint32_t pid)
{
    char text[IPS_TARGET_TEXT];
    if (target->kind != IPS_TARGET_TRACED &&
        ips_wrap_start_library_and_check_recording())
        ips_report_unrecorded_with_length(
            text, ips_target_format_untraced(text, target, pid));
}

static void record_exec_or_exec_failure(enum ips_rec_type type,
                                        const char *path, uint32_t a)
{
    if (!ips_wrap_start_library_and_check_recording())
        return;
    if (type == IPS_REC_EXEC)
        ips_core_write_pending_counts();
    size_t n = path && ips_is_string_readable(path) ? strnlen(path, 255) : 0;
    uint64_t t = ips_core_stamp_now(), cpu = ips_core_thread_cpu_ns();
    struct ips_rec_exec *rec = (struct ips_rec_exec *)ips_rec_begin_at(
        type, sizeof(*rec) + ((n + 8) & ~(size_t)7), t);
    if (!rec)
        return;
    rec->h.a = type == IPS_REC_EXEC ? (uint32_t)n : a;
    rec->cpu = cpu;
    if (n)
        memcpy(rec->path, path, n);
    rec->path[n] = '\0';
    ips_rec_publish(rec);
}

#define EXEC(what, request, given, real_call)                                  \
    do {                                                                       \
        struct ips_target target;                                              \
        bool on = ips_wrap_start_library_and_check_recording();                \
        request;                                                               \
        ips_target_refine_by_arguments(&target, argv, given);                  \
        IPS_ENV(env, given, &target);                                          \
        if (!on)                                                               \
            ips_vfork_store_target_for_parent(&target);                        \
        else if (target.kind != IPS_TARGET_TRACED)                             \
            ips_record_target_if_untraced(&target, ips_sys_getpid());          \
        record_exec_or_exec_failure(IPS_REC_EXEC, what, 0);                    \
        int r = real_call;                                                     \
        int saved = errno;                                                     \
        record_exec_or_exec_failure(IPS_REC_EXECFAIL, NULL, (uint32_t)saved);  \
        ips_env_free(&env);                                                    \
        errno = saved;                                                         \
        return r;                                                              \
    } while (0)

IPS_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    EXEC(path, ips_exec_inspect(&target, AT_FDCWD, path), envp,
         REAL(execve)(path, argv, env.envp));
}

IPS_EXPORT int execv(const char *path, char *const argv[])
{
    EXEC(path, ips_exec_inspect(&target, AT_FDCWD, path), environ,
         REAL(execve)(path, argv, env.envp));
}

IPS_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    EXEC(file, ips_exec_find_and_inspect(&target, file), envp,
         REAL(execvpe)(file, argv, env.envp));
}

IPS_EXPORT int execvp(const char *file, char *const argv[])
{
    EXEC(file, ips_exec_find_and_inspect(&target, file), environ,
         REAL(execvpe)(file, argv, env.envp));
}

IPS_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    if (!envp) /* the C library refuses this */
        return ips_wrap_start_library_and_check_recording(),
               REAL(fexecve)(fd, argv, envp);
    EXEC("(descriptor)", ips_exec_inspect(&target, fd, NULL), envp,
         REAL(fexecve)(fd, argv, env.envp));
}

IPS_EXPORT int execveat(int dir, const char *path, char *const argv[],
                        char *const envp[], int flags)
{
    EXEC(path, ips_exec_inspect(&target, dir, path), envp,
         REAL(execveat)(dir, path, argv, env.envp, flags));
}

/* --- exec functions with an argument list --------------------------------- */

/* Returns the number of arguments in `ap`, including the NULL that ends them.
 */
static size_t count_exec_arguments(va_list ap)
{
    size_t n = 1;
    while (va_arg(ap, char *))
        n++;
    return n;
}
/* Copies the arguments `first` and those in `ap` to an array on the stack, as
 * the C library does. */
#define LIST(argv, ap, first)                                                  \
    va_list ap;                                                                \
    va_start(ap, first);                                                       \
    size_t length = first ? count_exec_arguments(ap) + 1 : 1;                  \
    va_end(ap);                                                                \
    char **argv = (char **)__builtin_alloca(length * sizeof(char *));          \
    va_start(ap, first);                                                       \
    memcpy(&argv[0], &first, sizeof(first));                                   \
    for (size_t i = 1; i < length; i++)                                        \
    argv[i] = va_arg(ap, char *)

IPS_EXPORT int execl(const char *path, const char *arg, ...)
{
    LIST(argv, ap, arg);
    va_end(ap);
    return execve(path, argv, environ);
}

IPS_EXPORT int execlp(const char *file, const char *arg, ...)
{
    LIST(argv, ap, arg);
    va_end(ap);
    return execvpe(file, argv, environ);
}

IPS_EXPORT int execle(const char *path, const char *arg, ...)
{
    LIST(argv, ap, arg);
    char *const *envp = va_arg(ap, char *const *);
    va_end(ap);
    return execve(path, argv, envp);
}
