/* Wrappers of calls that matter only to sampling. */
#include "agent/preload/wrap.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include "agent/preload/sample/sample.h"
#include "agent/record/sys.h"
#include "agent/unwind/modules.h"

/* Whether an alternate signal stack is too small for our handler: if a signal
 * frame does not fit, the kernel ends the program. A frame takes less than 4
 * KiB with AVX-512. On arm64, and if the program may use AMX, its size is
 * AT_MINSIGSTKSZ. */
static bool is_alternate_stack_too_small(const stack_t *ss)
{
    size_t frame = 4096;
#if defined(__x86_64__)
    uint64_t allowed = 0;
    ips_sys3(SYS_arch_prctl, 0x1022 /* ARCH_GET_XCOMP_PERM */, (long)&allowed,
             0);
    if (allowed >> 18 & 1) /* the program may use AMX tile data */
#endif
        frame = getauxval(51 /* AT_MINSIGSTKSZ */);
    return ss->ss_size < frame + 4096;
}

IPS_EXPORT int sigaltstack(const stack_t *ss, stack_t *old)
{
    if (ips_wrap_start_library_and_check_recording() && ss &&
        !(ss->ss_flags & SS_DISABLE) && is_alternate_stack_too_small(ss))
        ips_sample_stop_own_thread();
    return REAL(sigaltstack)(ss, old);
}

IPS_EXPORT int dlclose(void *handle)
{
    int r = 0;
    bool on = ips_wrap_start_library_and_check_recording();
    r = REAL(dlclose)(handle);
    if (on) {
        int saved = errno;
        ips_modules_find_and_record_unloaded();
        errno = saved;
    }
    return r;
}
