#include "master/query.h"
const struct query_kind query_path = {0}, query_events = {0}, query_graph = {0};
