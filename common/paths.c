#include "common/paths.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef IPS_LIBDIR
#define IPS_LIBDIR "lib"
#endif

static int format_path(char out[IPS_PATH_BYTES], struct ips_err *err,
                       const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int format_path(char out[IPS_PATH_BYTES], struct ips_err *err,
                       const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, IPS_PATH_BYTES, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= IPS_PATH_BYTES)
        return ips_err_set(err, IPS_E_LIMIT, "path longer than %d bytes: %.80s",
                           IPS_PATH_BYTES - 1, out);
    return 0;
}

int ips_path_default_pool_root(char out[IPS_PATH_BYTES], struct ips_err *err)
{
    const char *set = getenv("IPS_POOL_ROOT");
    if (set && *set)
        return format_path(out, err, "%s", set);
    return format_path(out, err, "/dev/shm/ips-%u", (unsigned)geteuid());
}

int ips_path_default_state_directory(char out[IPS_PATH_BYTES],
                                     struct ips_err *err)
{
    const char *set = getenv("IPS_STATE");
    if (set && *set)
        return format_path(out, err, "%s", set);
    const char *xdg = getenv("XDG_STATE_HOME");
    if (xdg && *xdg == '/')
        return format_path(out, err, "%s/ips", xdg);
    const char *home = getenv("HOME");
    if (!home || !*home) {
        struct passwd *pw = getpwuid(geteuid());
        home = pw ? pw->pw_dir : NULL;
    }
    if (!home)
        return ips_err_set(err, IPS_E_USAGE,
                           "no home directory for the results: set "
                           "XDG_STATE_HOME or give --state DIR");
    return format_path(out, err, "%s/.local/state/ips", home);
}

bool ips_path_state_may_drain_default_pool(const char *state)
{
    char usual[IPS_PATH_BYTES], *a = NULL, *b = NULL;
    const char *own = getenv("IPS_STATE"), *pool = getenv("IPS_POOL_ROOT");
    if (own && *own && !(pool && *pool))
        return false;
    if (ips_path_default_state_directory(usual, NULL) == 0) {
        a = realpath(usual, NULL);
        b = realpath(state, NULL);
    }
    bool same = a && b && strcmp(a, b) == 0;
    free(a);
    free(b);
    return same;
}

int ips_path_default_master_address(const char *state, char out[IPS_PATH_BYTES],
                                    struct ips_err *err)
{
    return format_path(out, err, "unix:%s/master.sock", state);
}

int ips_path_make_directories(const char *dir, unsigned mode,
                              struct ips_err *err)
{
    char path[IPS_PATH_BYTES];
    if (format_path(path, err, "%s", dir) < 0)
        return IPS_E_LIMIT;
    if (!*path)
        return ips_err_set(err, IPS_E_USAGE,
                           "the name of a directory is empty");
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char kept = *p;
        *p = '\0';
        if (mkdir(path, (mode_t)mode) < 0 && errno != EEXIST)
            return ips_err_errno(err, "mkdir %s", path);
        *p = kept;
        if (!kept)
            break;
    }
    struct stat st;
    if (stat(path, &st) < 0)
        return ips_err_errno(err, "%s", path);
    return S_ISDIR(st.st_mode)
               ? 0
               : ips_err_set(err, IPS_E_IO, "%s is not a directory", path);
}

int ips_path_make_state_directory(const char *dir, struct ips_err *err)
{
    int rc = ips_path_make_directories(dir, 0700, err);
    if (rc == 0 && access(dir, W_OK | X_OK) < 0)
        rc = ips_err_errno(err, "%s", dir);
    return rc < 0 ? ips_err_wrap(err, rc,
                                 "no state directory (name one that can be "
                                 "written: --state DIR, or IPS_STATE)")
                  : 0;
}

void ips_default_machine_name(char *out, unsigned long len)
{
    const char *set = getenv("IPS_MACHINE");
    if (set && *set) {
        snprintf(out, len, "%s", set);
        return;
    }
    if (gethostname(out, len) < 0)
        snprintf(out, len, "localhost");
    out[len - 1] = '\0';
}

static int program_directory(char out[IPS_PATH_BYTES], struct ips_err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, IPS_PATH_BYTES - 1);
    if (n < 0)
        return ips_err_errno(err, "readlink /proc/self/exe");
    out[n] = '\0';
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return 0;
}

int ips_path_find_program(const char *name, char out[IPS_PATH_BYTES],
                          struct ips_err *err)
{
    char dir[IPS_PATH_BYTES];
    int rc = program_directory(dir, err);
    if (rc == 0)
        rc = format_path(out, err, "%s/%s", dir, name);
    if (rc == 0 && access(out, X_OK) < 0)
        return ips_err_errno(err, "program %s", out);
    return rc;
}

int ips_path_find_library(const char *name, char out[IPS_PATH_BYTES],
                          struct ips_err *err)
{
    static const char *const places[] = {"../lib", ("../" IPS_LIBDIR), "."};
    char dir[IPS_PATH_BYTES], joined[IPS_PATH_BYTES];
    int rc = program_directory(dir, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        rc = format_path(joined, err, "%s/%s/%s", dir, places[i], name);
        if (rc < 0)
            return rc;
        char real[4096];
        if (realpath(joined, real))
            return format_path(out, err, "%s", real);
    }
    return ips_err_set(err, IPS_E_NOT_FOUND,
                       "library %s is neither in %s/../lib nor in %s/../%s: "
                       "build or install IPS again",
                       name, dir, dir, IPS_LIBDIR);
}

bool ips_is_valid_run_name(const char *name)
{
    static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(name);
    return len >= 1 && len <= 63 && name[0] != '.' &&
           strspn(name, legal) == len;
}
