/* Serves one controller, then ends. See tsp.h. */
#include "tsp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
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
    fprintf(stderr, "tsp-server: lost the controller: %s\n", tsp_reason());
out:
    tsp_cache_free(cache);
    return status;
}

int main(int argc, char **argv)
{
    const char *why;
    struct sockaddr_in sa;
    socklen_t len = sizeof(sa);
    char host[INET_ADDRSTRLEN];
    int one = 1;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc != 3 || strcmp(argv[1], "--listen") != 0) {
        fputs(usage, stderr);
        return 2;
    }
    int listener = tsp_listen(argv[2], &why);
    if (listener < 0) {
        fprintf(stderr, "tsp-server: %s: %s\n", argv[2], why);
        return 1;
    }
    if (getsockname(listener, (struct sockaddr *)&sa, &len) < 0) {
        fprintf(stderr, "tsp-server: getsockname: %s\n", strerror(errno));
        return 1;
    }
    inet_ntop(AF_INET, &sa.sin_addr, host, sizeof(host));
    printf("listening %s:%u\n", host, (unsigned)ntohs(sa.sin_port));
    fflush(stdout);

    int fd = accept(listener, NULL, NULL);
    if (fd < 0) {
        fprintf(stderr, "tsp-server: accept: %s\n", strerror(errno));
        return 1;
    }
    close(listener);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    int status = serve(fd);
    close(fd);
    return status;
}
