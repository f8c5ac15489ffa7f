/*
 * Code mapped into the image: MODULE records.
 *
 * Modules are found by the addresses that records contain: a pc or return
 * address of a sample or stack, the site of a recorded call, a procedure. Each
 * address is looked up in a table of known pages. For a new page
 * _dl_find_object (glibc 2.35) gives the module; it takes no lock and may be
 * called in a signal handler. On older glibc, all modules present at the start
 * of an image are written then (dl_iterate_phdr, before the program's threads);
 * doing so always would cost a program without samples 20 us for nothing.
 *
 * A new module is written before the SAMPLE that needs it (a call's own record
 * and a STACK may precede theirs). dlopen is not wrapped: it searches with the
 * RUNPATH of its caller, which would be us; and a check after each dlopen would
 * need the loader's lock, which a fork child may find locked for ever. dlclose
 * is wrapped: unloaded modules are written with gone = 1. A module that was
 * unloaded or replaced unseen is noticed when one of its addresses is seen
 * again.
 *
 * Async-signal-safe except ips_modules_begin; errno kept. The table holds 1024
 * modules; more are not written. A fork child has its parent's.
 */
#ifndef IPS_AGENT_UNWIND_MODULES_H
#define IPS_AGENT_UNWIND_MODULES_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/record/stream.h"

/* Call it once, at the start of an image. */
void ips_modules_begin(void);

void ips_module_record_once_slow(uint64_t pc);

/* The page of `pc`, as kept in ips_me.site_page: includes the era, so it
 * differs after an unload. */
#define IPS_MODULES_ERA (1ull << 40)
static inline uint64_t ips_module_page(uint64_t pc)
{
    return (pc >> 12) +
           atomic_load_explicit(&ips_core.modules_era, memory_order_relaxed);
}

/* Writes the module of `pc` unless it was written. Costs one comparison if the
 * page is the same as the thread's last. */
static inline void ips_module_record_once(uint64_t pc)
{
    if (__builtin_expect(ips_me.site_page != ips_module_page(pc), 0))
        ips_module_record_once_slow(pc);
}

/* After a dlclose: writes which modules are gone. */
void ips_modules_record_unloaded(void);

#endif
