/*
 * A heat equation on a line, cut into one piece a rank: each step trades the
 * pieces' edges with both neighbours, every fourth sums the residual over all.
 * Rank 0 prints the sums, which depend on the number of cells alone. Compiled
 * by the tests with the MPI there is; IPS knows nothing of MPI.
 * usage: stencil CELLS STEPS [hold]
 * hold: rank 0 waits at the end until its standard input ends, all for it.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whole numbers, so that the sums do not depend on how they were cut. */
static void step(const int64_t *from, int64_t *to, int n)
{
    for (int i = 1; i <= n; i++)
        to[i] = from[i] + (from[i - 1] - 2 * from[i] + from[i + 1]) / 4;
}

static void trade(int64_t *u, int n, int rank, int ranks)
{
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&u[1], 1, MPI_INT64_T, left, 0, &u[n + 1], 1, MPI_INT64_T,
                 right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&u[n], 1, MPI_INT64_T, right, 1, &u[0], 1, MPI_INT64_T, left,
                 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank = 0;
    int ranks = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int cells = argc > 1 ? atoi(argv[1]) : 1200;
    int steps = argc > 2 ? atoi(argv[2]) : 16;
    int first = (int)((int64_t)cells * rank / ranks);
    int n = (int)((int64_t)cells * (rank + 1) / ranks) - first;
    int64_t *u[2] = {calloc((size_t)n + 2, sizeof(int64_t)),
                     calloc((size_t)n + 2, sizeof(int64_t))};
    if (!u[0] || !u[1])
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < n; i++)
        u[0][i + 1] = (int64_t)(first + i) * (first + i) % 1009 * 1000;
    for (int s = 0; s < steps; s++) {
        int64_t *from = u[s % 2];
        int64_t *to = u[(s + 1) % 2];
        trade(from, n, rank, ranks);
        step(from, to, n);
        if (s % 4 != 3)
            continue;
        int64_t changed = 0;
        int64_t all = 0;
        for (int i = 1; i <= n; i++)
            changed += llabs(to[i] - from[i]);
        MPI_Allreduce(&changed, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("step %d: %lld\n", s + 1, (long long)all);
    }
    fflush(stdout);
    while (argc > 3 && !strcmp(argv[3], "hold") && rank == 0 &&
           getchar() != EOF)
        ;
    MPI_Barrier(MPI_COMM_WORLD);
    free(u[0]);
    free(u[1]);
    MPI_Finalize();
    return 0;
}
