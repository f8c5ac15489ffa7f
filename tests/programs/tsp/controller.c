/* Divides the search among the servers. See tsp.h. */
#include "tsp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SERVERS 64
#define MAX_WINDOW 8

static const char usage[] =
    "usage: tsp-controller --version plain|cache|overlap --cities N\n"
    "                      --servers ADDR:PORT[,ADDR:PORT...] [options]\n"
    "Finds the shortest tour with the help of running tsp-servers.\n"
    "  --cities N     3 to 20\n"
    "  --seed S       of the cities' places (1)\n"
    "  --low K        nodes with at most K cities left are solved by a server\n"
    "                 outright (two thirds of N)\n"
    "  --window W     requests under way to a server in overlap, 1 to 8 (3)\n"
    "  --wait S       seconds to wait for a server to come up (60)\n"
    "  --work         print what was done, too\n";

struct server {
    const char *name;
    int fd;
    unsigned busy; /* requests under way */
};

struct choice {
    uint8_t city;
    bool tried;
    uint32_t bound;
};

/* One node of the path down the tree: its choices. */
struct node {
    struct choice choice[TSP_MAX_CITIES];
    unsigned count;
    bool known; /* the bounds are there */
};

struct controller {
    struct tsp_problem problem;
    enum tsp_version version;
    unsigned low, window;
    struct server server[MAX_SERVERS];
    unsigned servers;
    struct tsp_tour best;
    struct tsp_work work;
    uint8_t path[TSP_MAX_CITIES];
    struct node node[TSP_MAX_CITIES]; /* [len] stands at path[0..len-1] */
    bool work_wanted;
};

static int lost(const struct server *s)
{
    fprintf(stderr, "tsp-controller: lost server %s: %s\n", s->name,
            net_reason());
    return -1;
}

/* Takes one answer of whichever server has one, into answer[id]. */
static int take_answer(struct controller *c, struct tsp_answer *answer,
                       unsigned count)
{
    struct pollfd poll_fd[MAX_SERVERS];
    for (unsigned i = 0; i < c->servers; i++)
        poll_fd[i] = (struct pollfd){.fd = c->server[i].fd, .events = POLLIN};
    while (poll(poll_fd, c->servers, -1) < 0)
        if (errno != EINTR) {
            perror("tsp-controller: poll");
            return -1;
        }
    for (unsigned i = 0; i < c->servers; i++) {
        struct server *s = &c->server[i];
        struct tsp_answer a;
        if (!poll_fd[i].revents)
            continue;
        if (tsp_recv_answer(s->fd, c->problem.cities, &a) < 0)
            return lost(s);
        if (!s->busy || a.id >= count) {
            fprintf(stderr, "tsp-controller: server %s: unasked answer\n",
                    s->name);
            return -1;
        }
        s->busy--;
        answer[a.id] = a;
        return 0;
    }
    return 0;
}

static struct server *least_busy(struct controller *c, unsigned window)
{
    struct server *free_one = NULL;
    for (unsigned i = 0; i < c->servers; i++)
        if (c->server[i].busy < window &&
            (!free_one || c->server[i].busy < free_one->busy))
            free_one = &c->server[i];
    return free_one;
}

/* Asks for every choice of the node that was not tried, and waits for all
 * answers. Every request carries the best tour as it was when the node was
 * reached, so the work does not depend on which answer comes first. */
static int ask_choices(struct controller *c, unsigned len, enum tsp_ask ask,
                       struct tsp_answer *answer)
{
    struct node *node = &c->node[len];
    unsigned window = c->version == TSP_OVERLAP ? c->window : 1;
    unsigned sent = 0, done = 0, next = 0;
    const struct tsp_tour best = c->best;

    while (next < node->count || done < sent) {
        while (next < node->count && node->choice[next].tried)
            next++;
        struct server *s = least_busy(c, window);
        if (next == node->count || !s) {
            if (done == sent)
                break;
            if (take_answer(c, answer, node->count) < 0)
                return -1;
            done++;
            continue;
        }
        struct tsp_request r = {
            .ask = ask, .id = next, .len = len + 1, .best = best};
        memcpy(r.path, c->path, len);
        r.path[len] = node->choice[next++].city;
        if (tsp_send_request(s->fd, &r) < 0)
            return lost(s);
        s->busy++;
        sent++;
        c->work.requests++;
    }
    return 0;
}

static void open_node(struct controller *c, unsigned len)
{
    struct node *node = &c->node[len];
    *node = (struct node){0};
    for (unsigned city = 1; city < c->problem.cities; city++)
        if (!memchr(c->path, (int)city, len))
            node->choice[node->count++].city = (uint8_t)city;
}

/* The best choice left that may still lead to a better tour, or NULL. */
static struct choice *pick(struct controller *c, unsigned len)
{
    struct node *node = &c->node[len];
    struct choice *best = NULL;
    for (unsigned i = 0; i < node->count; i++) {
        struct choice *choice = &node->choice[i];
        c->path[len] = choice->city;
        if (!choice->tried &&
            tsp_promising(&c->best, c->path, len + 1, choice->bound) &&
            (!best || choice->bound < best->bound))
            best = choice;
    }
    return best;
}

/* Solves all choices of a node whose choices are low nodes. */
static int solve_node(struct controller *c, unsigned len)
{
    struct tsp_answer answer[TSP_MAX_CITIES];
    if (ask_choices(c, len, TSP_ASK_SOLVE, answer) < 0)
        return -1;
    for (unsigned i = 0; i < c->node[len].count; i++)
        if (tsp_before(&answer[i].tour, &c->best, c->problem.cities))
            c->best = answer[i].tour;
    return 0;
}

static int learn_bounds(struct controller *c, unsigned len)
{
    struct tsp_answer answer[TSP_MAX_CITIES];
    struct node *node = &c->node[len];
    if (ask_choices(c, len, TSP_ASK_BOUND, answer) < 0)
        return -1;
    for (unsigned i = 0; i < node->count; i++)
        if (!node->choice[i].tried)
            node->choice[i].bound = answer[i].bound;
    node->known = true;
    return 0;
}

static int search(struct controller *c)
{
    unsigned len = 1;
    open_node(c, len);
    while (len > 0) {
        struct node *node = &c->node[len];
        if (c->problem.cities - len - 1 <= c->low) {
            if (solve_node(c, len) < 0)
                return -1;
            len--;
            continue;
        }
        if (!node->known && learn_bounds(c, len) < 0)
            return -1;
        struct choice *choice = pick(c, len);
        if (!choice) {
            len--; /* backtrack */
            continue;
        }
        choice->tried = true;
        node->known = c->version != TSP_PLAIN;
        c->path[len++] = choice->city;
        open_node(c, len);
    }
    return 0;
}

static int connect_servers(struct controller *c, char *list, unsigned wait_s)
{
    char *save = NULL;
    bool cache = c->version != TSP_PLAIN;
    for (char *name = strtok_r(list, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        const char *why;
        if (c->servers == MAX_SERVERS) {
            fprintf(stderr, "tsp-controller: more than %d servers\n",
                    MAX_SERVERS);
            return -1;
        }
        struct server *s = &c->server[c->servers];
        *s = (struct server){.name = name};
        s->fd = net_try_connect(name, wait_s, &why);
        if (s->fd < 0) {
            fprintf(stderr, "tsp-controller: server %s: %s\n", name, why);
            return -1;
        }
        c->servers++;
        if (tsp_send_problem(s->fd, &c->problem, cache) < 0)
            return lost(s);
    }
    if (c->servers == 0)
        fprintf(stderr, "tsp-controller: no servers given\n");
    return c->servers ? 0 : -1;
}

static int end_servers(struct controller *c)
{
    for (unsigned i = 0; i < c->servers; i++) {
        struct server *s = &c->server[i];
        struct tsp_answer a;
        struct tsp_request ask = {.ask = TSP_ASK_WORK};
        if (c->work_wanted) {
            if (tsp_send_request(s->fd, &ask) < 0 ||
                tsp_recv_answer(s->fd, c->problem.cities, &a) < 0)
                return lost(s);
            tsp_print_work(s->name, &a.work);
        }
        ask.ask = TSP_ASK_END;
        if (tsp_send_request(s->fd, &ask) < 0)
            return lost(s);
    }
    return 0;
}

static bool set_version(struct controller *c, const char *name)
{
    static const char *const names[] = {"plain", "cache", "overlap"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            c->version = (enum tsp_version)i;
            return true;
        }
    return false;
}

struct options {
    uint32_t cities, seed, low, window, wait;
    char *servers;
    bool version;
};

static bool parse(struct controller *c, struct options *o, int argc,
                  char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--work") == 0) {
            c->work_wanted = true;
            continue;
        }
        char *value = i + 1 < argc ? argv[++i] : NULL;
        bool ok = false;
        if (!value)
            ok = false;
        else if (strcmp(name, "--version") == 0)
            ok = o->version = set_version(c, value);
        else if (strcmp(name, "--cities") == 0)
            ok = net_number(value, TSP_MIN_CITIES, TSP_MAX_CITIES, &o->cities);
        else if (strcmp(name, "--seed") == 0)
            ok = net_number(value, 0, UINT32_MAX, &o->seed);
        else if (strcmp(name, "--low") == 0)
            ok = net_number(value, 1, TSP_MAX_CITIES, &o->low);
        else if (strcmp(name, "--window") == 0)
            ok = net_number(value, 1, MAX_WINDOW, &o->window);
        else if (strcmp(name, "--wait") == 0)
            ok = net_number(value, 0, 3600, &o->wait);
        else if (strcmp(name, "--servers") == 0)
            ok = (o->servers = value) != NULL;
        if (!ok) {
            fprintf(stderr, "tsp-controller: wrong: %s %s\n", name,
                    value ? value : "");
            return false;
        }
    }
    return o->version && o->cities && o->servers;
}

int main(int argc, char **argv)
{
    static struct controller c;
    struct options o = {.seed = 1, .window = 3, .wait = 60};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (!parse(&c, &o, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    tsp_make(&c.problem, o.cities, o.seed);
    c.low = o.low ? o.low : o.cities * 2 / 3;
    c.window = o.window;
    c.best.length = TSP_NO_TOUR;
    if (connect_servers(&c, o.servers, o.wait) < 0 || search(&c) < 0)
        return 1;
    printf("length %u\ntour", c.best.length);
    for (unsigned i = 0; i < o.cities; i++)
        printf(" %u", c.best.city[i]);
    printf("\n");
    if (c.work_wanted)
        tsp_print_work("controller", &c.work);
    if (end_servers(&c) < 0)
        return 1;
    for (unsigned i = 0; i < c.servers; i++)
        close(c.server[i].fd);
    return 0;
}
