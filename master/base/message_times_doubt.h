/*
 * Whether measured message times can be trusted. The rules use only numbers and
 * are the same for every measurement.
 *
 *  - idle: before the measurement, the load average of the machine is at most
 *    0.5 per processor.
 *  - delay: the two ends waited for a CPU for at most a tenth of the time, not
 *    counting the time for which they kept each other waiting.
 *  - spread: HIGH minus LOW is at most a round trip plus 20 us.
 *  - both ways: a message time is half a round trip, so the two directions must
 *    agree: neither takes more than 3 times the other plus 20 us.
 *
 * The last three rules apply to each message length. A pair is in doubt if one
 * of them fails for more than a quarter of the lengths. Pure. Source: DPM-3,
 * DRO-2.
 */
#ifndef IPS_MASTER_BASE_MTIMES_DOUBT_H
#define IPS_MASTER_BASE_MTIMES_DOUBT_H

#include "master/base/message_times.h"

#define MTIMES_SLACK_NS 20000u

/* The measured round trips from which one point of a message_time_pair was
 * computed.
 */
struct message_time_trip {
    uint64_t trip_ns; /* median round trip; 0: not known */
    /* all_ns: duration of all round trips of the point together. delay_ns: how
     * much of it the ends waited for a CPU. */
    uint64_t delay_ns, all_ns;
};

/* Checks the rule `idle` (see the top of this file), before the measurement.
 * Returns true, with the text in `out`, if the machine is not idle. load_milli
 * UINT32_MAX: the load is not known, which raises no doubt. */
bool message_times_check_busy_and_write_reason(const char *machine,
                                               uint32_t load_milli,
                                               uint32_t processors, char *out,
                                               size_t room);
/* Checks the rules `delay` and `spread` (see the top of this file). Returns
 * true, with the text in `out`, if the pair is in doubt. `trip` has p->count
 * elements. */
bool message_times_check_trips_and_write_doubt(
    const struct message_time_pair *p, const struct message_time_trip *trip,
    char *out, size_t room);
/* Checks the rule `both ways` (see the top of this file), for the message
 * lengths that both `p` and `back`, the opposite direction, have. Returns true,
 * with the text in `out`, if the pair is in doubt. */
bool message_times_write_doubt_if_ways_differ(
    const struct message_time_pair *p, const struct message_time_pair *back,
    char *out, size_t room);

#endif
