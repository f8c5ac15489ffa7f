/*
 * Whether measured message times are to be trusted: rules on numbers alone, the
 * same for every measurement.
 *
 *   idle       the machine's load average before, at most half a processor's
 *              for each processor
 *   delay      both ends were runnable and not running no more than a tenth of
 *              the time, beyond what they kept each other waiting
 *   spread     HIGH less LOW is at most a round trip and 20 us
 *   both ways  half a round trip is half a round trip: of two ways neither
 *              takes more than 3 times the other and 20 us
 *
 * The last three are of lengths; a pair is in doubt where they do not hold for
 * more than a quarter of them. Pure. Source: DPM-3, DRO-2.
 */
#ifndef IPS_MASTER_BASE_MTIMES_DOUBT_H
#define IPS_MASTER_BASE_MTIMES_DOUBT_H

#include "master/base/mtimes.h"

#define MTIMES_SLACK_NS 20000u

/* What a point of mtime_pair was made from. */
struct mtime_trip {
    uint64_t trip_ns;          /* median round trip; 0: not known */
    uint64_t delay_ns, all_ns; /* all rounds of it */
};

/* Before anything is measured; UINT32_MAX: not known, so no doubt. True: it is
 * not idle, and how in `out`. */
bool mtimes_doubt_busy(const char *machine, uint32_t load_milli,
                       uint32_t processors, char *out, size_t room);
/* trip: [p->count]. */
bool mtimes_doubt_trips(const struct mtime_pair *p,
                        const struct mtime_trip *trip, char *out, size_t room);
/* `p` against the other way; lengths that both have. */
bool mtimes_doubt_ways(const struct mtime_pair *p,
                       const struct mtime_pair *back, char *out, size_t room);

#endif
