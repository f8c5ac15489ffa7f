/*
 * Writes MODULE records: which code is mapped at which addresses.
 *
 * The agent finds modules by the code addresses in records: a pc or return
 * address of a sample or stack, the site of a recorded call, a procedure. It
 * looks up each address in a table of known pages. For a new page
 * _dl_find_object (glibc 2.35) gives the module; it takes no lock and may be
 * called in a signal handler. On older glibc, the modules that are present at
 * the start of an image are written then (dl_iterate_phdr, before the program
 * starts threads). That takes 20 us, which would be wasted in a program without
 * samples.
 *
 * The MODULE record of a new module precedes the SAMPLE that needs it (the
 * record of a call, or a STACK, may precede it). dlopen is not wrapped: it uses
 * the RUNPATH of its caller, which would be our library's; and a check after
 * each dlopen would need the loader's lock, which a fork child may find locked
 * for ever. dlclose is wrapped: unloaded modules are written with gone = 1. If
 * a module was unloaded or replaced without our seeing it, the agent notices
 * when a record has an address in its range again.
 *
 * Async-signal-safe except ips_modules_record_at_start_if_old_glibc; errno is
 * unchanged. The table holds 1024 modules; further ones are not written. A fork
 * child inherits its parent's table.
 */
#ifndef IPS_AGENT_UNWIND_MODULES_H
#define IPS_AGENT_UNWIND_MODULES_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/record/stream.h"

/* Call once, at the start of an image. On glibc before 2.35, writes MODULE
 * records of all its modules. */
void ips_modules_record_at_start_if_old_glibc(void);

void ips_module_record_once_slow(uint64_t pc);

/* Returns the page of `pc`, as stored in ips_me.site_page. The value includes a
 * count of unloaded modules, so it changes when a module is unloaded. */
#define IPS_MODULES_ERA (1ull << 40)
static inline uint64_t ips_module_page_key(uint64_t pc)
{
    return (pc >> 12) +
           atomic_load_explicit(&ips_core.modules_era, memory_order_relaxed);
}

/* Writes a MODULE record of the module that contains `pc`, unless there is one.
 * Costs only one comparison if `pc` is in the same page as at the thread's last
 * call. */
static inline void ips_module_record_once(uint64_t pc)
{
    if (__builtin_expect(ips_me.site_page != ips_module_page_key(pc), 0))
        ips_module_record_once_slow(pc);
}

/* Call after a dlclose: writes a record with gone = 1 for each unloaded module.
 */
void ips_modules_find_and_record_unloaded(void);

#endif
