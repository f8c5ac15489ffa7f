/* Maps a request to its kind of question. */
#include "master/query/query.h"
#include "master/requests/requests.h"

const struct query_kind *query_kind_of(const Ips__Request *r)
{
    switch (r->ask_case) {
    case IPS__REQUEST__ASK_RUNS:
        return &query_runs;
    case IPS__REQUEST__ASK_STATUS:
        return &query_status;
    case IPS__REQUEST__ASK_LS:
        return &query_ls;
    case IPS__REQUEST__ASK_METRICS:
        return &query_metrics;
    case IPS__REQUEST__ASK_PATH:
        return &query_path;
    case IPS__REQUEST__ASK_EVENTS:
        return &query_events;
    case IPS__REQUEST__ASK_GRAPH:
        return &query_graph;
    case IPS__REQUEST__ASK_PROCEDURES:
        return &query_procedures;
    case IPS__REQUEST__ASK_WHATIF:
        return &query_whatif;
    case IPS__REQUEST__ASK_REQUESTS:
        return &query_requests;
    case IPS__REQUEST__ASK_WHY:
        return query_is_why_about_requests(r) ? &query_requests : &query_why;
    case IPS__REQUEST__ASK_WAITS:
        return &query_waits;
    case IPS__REQUEST__ASK_SQL:
        return &query_sql;
    case IPS__REQUEST__ASK_PHASES:
        return &query_phases;
    case IPS__REQUEST__ASK_PREDICT:
        return &query_predict;
    case IPS__REQUEST__ASK_CALIBRATE:
        return &query_calibrate;
    case IPS__REQUEST__ASK_ESTIMATE:
        return &query_estimate;
    case IPS__REQUEST__ASK_MORE:
    case IPS__REQUEST__ASK_ECHO:
    case IPS__REQUEST__ASK_TRIP:
    case IPS__REQUEST__ASK_READY:
    case IPS__REQUEST__ASK_WAIT_ROWS:
    case IPS__REQUEST__ASK_SYNC:
    case IPS__REQUEST__ASK_TABLE:
    case IPS__REQUEST__ASK_ENDS:
    case IPS__REQUEST__ASK_PEERS:
    case IPS__REQUEST__ASK_REDUCE:
    case IPS__REQUEST__ASK_FINISH:
    case IPS__REQUEST__ASK_EXPAND:
    case IPS__REQUEST__ASK_SUBGRAPH:
    case IPS__REQUEST__ASK_CM:
    case IPS__REQUEST__ASK_PROFILE:
    case IPS__REQUEST__ASK_PORTIONS:
    case IPS__REQUEST__ASK_SPLIT:
    case IPS__REQUEST__ASK_SERIES:
    case IPS__REQUEST__ASK_BRACKETS:
    case IPS__REQUEST__ASK_LOOK:
    case IPS__REQUEST__ASK__NOT_SET:
    case _IPS__REQUEST__ASK__CASE_IS_INT_SIZE:
        break;
    }
    return NULL;
}
