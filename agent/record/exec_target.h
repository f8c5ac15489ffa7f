/*
 * Examines a file that is about to be executed. Will the program loader accept
 * our library? If not, why, and would our entry in LD_PRELOAD harm the program?
 *
 * Our entry must be removed from LD_PRELOAD in three cases. A 32-bit loader
 * prints an error for a library that it cannot load. The loader of another C
 * library (musl) refuses to start the program. AddressSanitizer's runtime ends
 * the program if another library was loaded first. A static program ignores
 * LD_PRELOAD, and programs that it starts may be traced again, so there the
 * entry stays.
 *
 * A loader that is run directly (ld.so PROGRAM) either starts a program, which
 * is traced, or lists or checks the libraries of a program. In the latter case
 * our entry is removed, so that the loader does not print our library.
 *
 * A script counts as its interpreter. A file that cannot be read (no
 * permission, no such file) counts as traced: nothing is changed. If the
 * kernel creates no helper that could open the file (own_table.h), it may be of
 * any kind: our entry is removed, and the record says so.
 *
 * Cost: fstatat, open, read and close for each file examined, and open and
 * close of our library; only two fstatat for a program that this thread has
 * found traced before. The only state is the thread's, so a vfork child may
 * call this. Async-signal-safe, errno kept. Used by the exec wrappers and by
 * ipsrun.
 */
#ifndef IPS_AGENT_RECORD_EXEC_TARGET_H
#define IPS_AGENT_RECORD_EXEC_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, word in the UNSEEN record, LD_PRELOAD stays). The words are part of
 * the pool format (docs/pool-format.md). */
#define IPS_TARGETS(X)                                                         \
    X(TRACED, "traced", true)                                                  \
    X(STATIC, "static", true)                                                  \
    X(SETUID, "set-user-id", true)                                             \
    X(CLASS, "32-bit", false)                                                  \
    X(MACHINE, "other-machine", false)                                         \
    X(LOADER, "other-C-library", false)                                        \
    X(HIDDEN, "library-out-of-reach", false)                                   \
    X(FIRST, "AddressSanitizer", false)                                        \
    X(BY_HAND, "loader", true)                                                 \
    X(ASKED, "loader", false)                                                  \
    X(NOT_EXAMINED, "not-examined", false)
enum ips_target_kind {
#define X(name, word, stays) IPS_TARGET_##name,
    IPS_TARGETS(X)
#undef X
};

#define IPS_TARGET_PATH 200u
struct ips_target {
    enum ips_target_kind kind;
    char path[IPS_TARGET_PATH]; /* as executed, truncated; "" if traced */
};

/* Examines `path` relative to descriptor `dir` (AT_FDCWD); "" or NULL: the file
 * of `dir` itself. `library`: path of our library, which the program must be
 * able to read. */
void ips_target_inspect(struct ips_target *t, int dir, const char *path,
                        const char *library);
/* Finds and examines `file` as execvp and posix_spawnp do: by PATH in `search`
 * (NULL: the default) if `file` has no slash. */
void ips_target_find_and_inspect(struct ips_target *t, const char *file,
                                 const char *search, const char *library);

/* Refines t->kind by the arguments and environment of the exec: BY_HAND (a
 * loader run directly) becomes TRACED or ASKED, FIRST (needs AddressSanitizer
 * first) may become TRACED. */
void ips_target_refine_by_arguments(struct ips_target *t, char *const argv[],
                                    char *const envp[]);

bool ips_target_keeps_preload(enum ips_target_kind kind);

/* Writes "untraced PID WORD PATH" into `out`; returns its length. */
#define IPS_TARGET_TEXT (IPS_TARGET_PATH + 64u)
size_t ips_target_format_untraced(char out[IPS_TARGET_TEXT],
                                  const struct ips_target *t, uint32_t pid);

/* Copies the value of LD_PRELOAD without the entries that end in `name` (our
 * library's file name); `out` is at least as large as `value`. */
void ips_preload_remove_library(char *out, const char *value, const char *name);

#endif
