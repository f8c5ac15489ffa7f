/* Serves one controller, then ends. See tsp.h. */
#include "tsp.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: tsp-server --listen ADDR:PORT\n"
    "Computes parts of a travelling-salesman problem for one tsp-controller,\n"
    "and ends when that says so. Port 0 takes a free one; the address is\n"
    "printed.\n";

static int serve(int fd)
{
    struct tsp_problem problem;
    struct tsp_work work = {0};
    struct tsp_cache *cache = NULL;
    bool caching;
    int status = 1;

    if (tsp_recv_problem(fd, &problem, &caching) < 0)
        goto lost;
    if (caching && !(cache = tsp_cache_new())) {
        fprintf(stderr, "tsp-server: out of memory\n");
        goto out;
    }
    for (;;) {
        struct tsp_request r;
        if (tsp_recv_request(fd, problem.cities, &r) < 0)
            goto lost;
        if (r.ask == TSP_ASK_END)
            break;
        struct tsp_answer a = {.id = r.id, .tour = r.best};
        if (r.ask == TSP_ASK_BOUND)
            a.bound = tsp_bound(&problem, r.path, r.len, &work);
        else if (r.ask == TSP_ASK_SOLVE)
            tsp_solve(&problem, cache, r.path, r.len, &a.tour, &work);
        else {
            a.tour.length = TSP_NO_TOUR;
            a.work = work;
        }
        if (r.ask != TSP_ASK_WORK)
            work.requests++;
        if (tsp_send_answer(fd, &a) < 0)
            goto lost;
    }
    status = 0;
    goto out;
lost:
    fprintf(stderr, "tsp-server: lost the controller: %s\n", net_reason());
out:
    tsp_cache_free(cache);
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc != 3 || strcmp(argv[1], "--listen") != 0) {
        fputs(usage, stderr);
        return 2;
    }
    int listener = net_listen(argv[2]);
    net_announce(listener);
    int fd = net_accept(listener);
    close(listener);
    int status = serve(fd);
    close(fd);
    return status;
}
