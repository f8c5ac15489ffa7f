/* The preload library's constructor. */
#include "agent/core.h"

static __attribute__((constructor)) void wrap_init(void)
{
    ips_core_init(IPS_START_IMAGE);
}
