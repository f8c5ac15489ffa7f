/*
 * Tests under a user-mode emulator (tests/aarch64): it runs system calls of
 * another architecture and says yes to advice that it does not follow
 * (MADV_WIPEONFORK, MADV_POPULATE_WRITE), has a thread of its own in each
 * process, and its programs cannot exec each other by themselves. What cannot
 * be shown there is skipped by name; it is shown where nothing emulates.
 */
#ifndef IPS_TESTS_UNIT_HELP_EMULATED_H
#define IPS_TESTS_UNIT_HELP_EMULATED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline bool emulated(void)
{
    return getenv("IPS_TEST_EMULATOR") != NULL;
}

#define SKIP_IF_EMULATED(what)                                                 \
    do {                                                                       \
        if (emulated()) {                                                      \
            print_message("the emulator has no %s\n", what);                   \
            skip();                                                            \
        }                                                                      \
    } while (0)

/* exec of `self ARG` with LD_PRELOAD as given (NULL: none), through the
 * emulator where there is one. Returns only where it failed. */
static inline void exec_self(const char *self, const char *arg,
                             const char *preload)
{
    const char *emulator = getenv("IPS_TEST_EMULATOR");
    unsetenv("LD_PRELOAD");
    if (!emulator) {
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execl(self, self, arg, (char *)NULL);
        return;
    }
    char set[4096];
    snprintf(set, sizeof(set), "LD_PRELOAD=%s", preload ? preload : "");
    execl(emulator, emulator, "-L", "/", "-E", set, self, arg, (char *)NULL);
}

#endif
