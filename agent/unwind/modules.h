/*
 * Code mapped into the image: MODULE records.
 *
 * Modules are found by the addresses that matter: a pc or a return address of a
 * sample or a stack, the site of a recorded call, a procedure. Each is looked
 * up in a table of pages seen, and a page that is new is asked of
 * _dl_find_object (glibc 2.35), which takes no lock and may be called in a
 * signal handler. Where there is none, all modules that are there when an image
 * begins are written then (dl_iterate_phdr, before the program's threads): 20
 * us that a program without a sample would pay for nothing. A module that is
 * new is written before the SAMPLE that needs it (a call's own record and a
 * STACK may precede theirs). dlopen is not wrapped: it searches with the
 * RUNPATH of its caller, which would be us; and a look after each dlopen would
 * need the loader's lock, which a fork child may find taken for ever. dlclose
 * is: what went is written with gone = 1; a module that went or was replaced
 * unseen is noticed when an address of it is seen again.
 *
 * Async-signal-safe but for ips_modules_begin; errno kept. The table holds 1024
 * modules; more are not written. A fork child has its parent's.
 */
#ifndef IPS_AGENT_UNWIND_MODULES_H
#define IPS_AGENT_UNWIND_MODULES_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/record/stream.h"

/* Once, when an image begins. */
void ips_modules_begin(void);

void ips_module_note_slow(uint64_t pc);

/* A page as this thread remembers it: of another era it is another one. */
#define IPS_MODULES_ERA (1ull << 40)
static inline uint64_t ips_module_page(uint64_t pc)
{
    return (pc >> 12) +
           atomic_load_explicit(&ips_core.modules_era, memory_order_relaxed);
}

/* The module of `pc` is written if it was not. A comparison where the page is
 * that of the thread's last. */
static inline void ips_module_note(uint64_t pc)
{
    if (__builtin_expect(ips_me.site_page != ips_module_page(pc), 0))
        ips_module_note_slow(pc);
}

/* After a dlclose: what is no longer there. */
void ips_modules_closed(void);

#endif
