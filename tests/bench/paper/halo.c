/* A ring of ranks that exchange borders and compute, for `simgrid`: SMPI runs it
 * and writes what it does as a time-independent trace. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks, n = argc > 1 ? atoi(argv[1]) : 20000;
    int steps = argc > 2 ? atoi(argv[2]) : 200;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double *u = calloc((size_t)n, sizeof(*u)), in[2][100] = {{0}}, sum = 0;
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    for (int i = 0; i < n; i++)
        u[i] = i % (97 + rank);
    for (int s = 0; s < steps; s++) {
        MPI_Request q[4];
        MPI_Irecv(in[0], 100, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &q[0]);
        MPI_Irecv(in[1], 100, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &q[1]);
        MPI_Isend(u, 100, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &q[2]);
        MPI_Isend(u + n - 100, 100, MPI_DOUBLE, right, 1, MPI_COMM_WORLD,
                  &q[3]);
        MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
        for (int i = 1; i < n - 1; i++)
            u[i] = (u[i - 1] + u[i] + u[i + 1] + in[i % 2][i % 100]) / 4;
        sum += u[n / 2];
    }
    free(u);
    MPI_Finalize();
    return sum < 0;
}
