/* compute_ms MS: computes for so many ms of CPU time. */
#include <stdlib.h>

#include "compute.h"

int main(int argc, char **argv)
{
    compute(argc > 1 ? atol(argv[1]) : 50);
    return 0;
}
