#include "master/query.h"
