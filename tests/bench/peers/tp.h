/* The tracepoint of events.c: one text, as ips_mark has it. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ips_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tp.h"

#if !defined(IPS_BENCH_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define IPS_BENCH_TP_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(ips_bench, mark,
                           LTTNG_UST_TP_ARGS(const char *, text),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text,
                                                                      text)))

#endif

#include <lttng/tracepoint-event.h>
