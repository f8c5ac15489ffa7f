/* The product of two square matrices on a mesh of processes (DRO-6:
 * experiments 2): stripes go down the columns of the mesh, results along its
 * rows to the master. The order of messages is fixed but for the last, which
 * the master takes in the order of the rows. Numbers are modulo 2^32. */
#include "net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: matrix-master --mesh Q --top ADDR:PORT,... --edge ADDR:PORT,...\n"
    "                     [--side N] [--seed S]\n"
    "       matrix-node --mesh Q --row I --column J --listen ADDR:PORT\n"
    "                   [--down ADDR:PORT] [--left ADDR:PORT] [--side N]\n"
    "       matrix-master --alone [--side N] [--seed S]\n"
    "The node (I, J) multiplies stripe I of the one matrix with stripe J of\n"
    "the other. Node (Q-1, J) has nothing below; the nodes (0, J), --top, and\n"
    "(I, 0), --edge, are called by the master.\n"
    "  --side N  of the matrices, a multiple of Q (240)\n";

enum { HELLO = 1, ROWS, COLUMNS, BLOCK };
#define MAX_MESH 8
#define MAX_SIDE 2048

struct mesh {
    uint32_t q, row, column, side, seed;
    uint32_t stripe; /* side / q */
    char *listen, *top, *edge, *down, *left;
    bool alone;
};

static void die_unless(bool ok, const char *what)
{
    if (!ok)
        net_die("%s", what);
}

/* c += a * b, a `rows` x `inner`, b `columns` x `inner` (by columns). */
static void multiply(uint32_t *c, const uint32_t *a, const uint32_t *b,
                     uint32_t rows, uint32_t columns, uint32_t inner)
{
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < columns; j++) {
            uint32_t sum = 0;
            for (uint32_t k = 0; k < inner; k++)
                sum += a[i * inner + k] * b[j * inner + k];
            c[i * columns + j] = sum;
        }
}

static void put_numbers(int fd, uint32_t kind, uint32_t id,
                        const uint32_t *number, uint32_t count)
{
    uint8_t *data = net_memory((size_t)count * 4), *at = data;
    for (uint32_t i = 0; i < count; i++)
        at = net_put_u32(at, number[i]);
    net_put(fd, kind, id, data, count * 4);
    free(data);
}

static uint32_t get_numbers(int fd, uint32_t kind, uint32_t *number,
                            uint32_t count)
{
    uint8_t *data = net_memory((size_t)count * 4);
    struct net_head head;
    net_want(fd, kind, &head, data, count * 4);
    die_unless(head.bytes == count * 4, "a stripe of another size");
    const uint8_t *at = data;
    for (uint32_t i = 0; i < count; i++)
        at = net_get_u32(at, &number[i]);
    free(data);
    return head.id;
}

/* --- a node ---------------------------------------------------------------*/

/* Who calls a node, in any order: from above and from the right its
 * neighbours or nobody, the master in place of what is above or at the left of
 * the mesh. */
enum caller { ABOVE, RIGHT, LEFT, CALLERS };

static void callers(const struct mesh *m, int listener, int fd[CALLERS])
{
    const bool wanted[CALLERS] = {true, m->column < m->q - 1, m->column == 0};
    for (unsigned i = 0; i < CALLERS; i++) {
        struct net_head head;
        if (!wanted[i])
            continue;
        int one = net_accept(listener);
        net_want(one, HELLO, &head, NULL, 0);
        die_unless(head.id < CALLERS && wanted[head.id] && fd[head.id] < 0,
                   "called by a stranger");
        fd[head.id] = one;
    }
}

static int call(const char *address, enum caller who)
{
    int fd = net_connect(address);
    net_put(fd, HELLO, who, NULL, 0);
    return fd;
}

static void node(const struct mesh *m)
{
    const uint32_t numbers = m->stripe * m->side;
    const uint32_t block = m->stripe * m->stripe;
    uint32_t *a = net_memory((size_t)numbers * 4);
    uint32_t *b = net_memory((size_t)numbers * 4);
    uint32_t *c = net_memory((size_t)block * 4);
    uint32_t *pass = net_memory((size_t)numbers * 4);
    int fd[CALLERS] = {-1, -1, -1}, listener = net_listen(m->listen);
    net_announce(listener);
    int down = m->down ? call(m->down, ABOVE) : -1;
    int left = m->left ? call(m->left, RIGHT) : -1;
    callers(m, listener, fd);
    close(listener);
    const int above = fd[ABOVE], right = fd[RIGHT];
    if (left < 0)
        left = fd[LEFT];

    get_numbers(above, COLUMNS, b, numbers);
    if (down >= 0)
        put_numbers(down, COLUMNS, m->column, b, numbers);
    get_numbers(above, ROWS, a, numbers);
    for (uint32_t i = m->row + 1; i < m->q; i++) { /* those of the rows below */
        get_numbers(above, ROWS, pass, numbers);
        put_numbers(down, ROWS, i, pass, numbers);
    }
    multiply(c, a, b, m->stripe, m->stripe, m->side);
    put_numbers(left, BLOCK, m->column, c, block);
    for (uint32_t j = m->column + 1; j < m->q; j++)
        put_numbers(left, BLOCK, get_numbers(right, BLOCK, c, block), c, block);
    const int fds[] = {above, right, down, left};
    for (unsigned i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(a);
    free(b);
    free(c);
    free(pass);
}

/* --- the master -----------------------------------------------------------*/

struct product {
    uint32_t *a, *b, *c; /* b by columns */
};

static void make(struct product *p, const struct mesh *m)
{
    size_t numbers = (size_t)m->side * m->side;
    uint64_t state = m->seed;
    p->a = net_memory(numbers * 4);
    p->b = net_memory(numbers * 4);
    p->c = net_memory(numbers * 4);
    for (size_t i = 0; i < numbers; i++) {
        p->a[i] = net_random(&state);
        p->b[i] = net_random(&state);
    }
}

/* Freivalds' check: A (B x) = C x for a vector drawn by chance. */
static bool is_product(const struct product *p, uint32_t side, uint32_t seed)
{
    uint32_t *x = net_memory((size_t)side * 4);
    uint32_t *bx = net_memory((size_t)side * 4);
    uint64_t state = seed + 77u;
    bool same = true;
    for (uint32_t j = 0; j < side; j++) {
        x[j] = net_random(&state);
        for (uint32_t k = 0; k < side; k++)
            bx[k] += p->b[j * side + k] * x[j];
    }
    for (uint32_t i = 0; i < side; i++) {
        uint32_t abx = 0, cx = 0;
        for (uint32_t k = 0; k < side; k++) {
            abx += p->a[i * side + k] * bx[k];
            cx += p->c[i * side + k] * x[k];
        }
        same = same && abx == cx;
    }
    free(x);
    free(bx);
    return same;
}

static void place_block(const struct mesh *m, struct product *p, uint32_t row,
                        uint32_t column, const uint32_t *block)
{
    die_unless(column < m->q, "a block of no column");
    for (uint32_t i = 0; i < m->stripe; i++)
        memcpy(p->c + (size_t)(row * m->stripe + i) * m->side +
                   column * m->stripe,
               block + i * m->stripe, m->stripe * 4);
}

static void on_mesh(const struct mesh *m, struct product *p)
{
    const uint32_t numbers = m->stripe * m->side;
    const char *tops[MAX_MESH], *edges[MAX_MESH];
    int top[MAX_MESH], row[MAX_MESH];
    uint32_t *block = net_memory((size_t)m->stripe * m->stripe * 4);
    die_unless(net_addresses(m->top, tops, MAX_MESH) == m->q &&
                   net_addresses(m->edge, edges, MAX_MESH) == m->q,
               "--top, --edge: an address for each column, and row");
    for (uint32_t i = 0; i < m->q; i++) {
        top[i] = call(tops[i], ABOVE);
        row[i] = call(edges[i], LEFT);
    }
    for (uint32_t j = 0; j < m->q; j++)
        put_numbers(top[j], COLUMNS, j, p->b + (size_t)j * numbers, numbers);
    for (uint32_t i = 0; i < m->q; i++)
        for (uint32_t j = 0; j < m->q; j++)
            put_numbers(top[j], ROWS, i, p->a + (size_t)i * numbers, numbers);
    for (uint32_t i = 0; i < m->q; i++)
        for (uint32_t j = 0; j < m->q; j++) {
            uint32_t column =
                get_numbers(row[i], BLOCK, block, m->stripe * m->stripe);
            place_block(m, p, i, column, block);
        }
    for (uint32_t i = 0; i < m->q; i++) {
        close(top[i]);
        close(row[i]);
    }
    free(block);
}

static void master(struct mesh *m)
{
    struct product p;
    make(&p, m);
    if (m->alone)
        multiply(p.c, p.a, p.b, m->side, m->side, m->side);
    else
        on_mesh(m, &p);
    uint64_t hash = NET_HASH;
    for (size_t i = 0; i < (size_t)m->side * m->side; i++)
        hash = (hash ^ p.c[i]) * 1099511628211u;
    printf("side %u hash %016" PRIx64 " %s\n", m->side, hash,
           is_product(&p, m->side, m->seed) ? "right" : "WRONG");
    free(p.a);
    free(p.b);
    free(p.c);
}

int main(int argc, char **argv)
{
    struct mesh m = {.q = 2, .side = 240, .seed = 1};
    const struct net_option options[] = {
        {.name = "--mesh", .number = &m.q, .min = 1, .max = MAX_MESH},
        {.name = "--row", .number = &m.row, .max = MAX_MESH - 1},
        {.name = "--column", .number = &m.column, .max = MAX_MESH - 1},
        {.name = "--side", .number = &m.side, .min = 1, .max = MAX_SIDE},
        {.name = "--seed", .number = &m.seed, .max = UINT32_MAX},
        {.name = "--listen", .text = &m.listen},
        {.name = "--top", .text = &m.top},
        {.name = "--edge", .text = &m.edge},
        {.name = "--down", .text = &m.down},
        {.name = "--left", .text = &m.left},
        {.name = "--alone", .flag = &m.alone},
        {0}};
    net_options(usage, options, argc, argv);
    if (m.alone)
        m.q = 1;
    m.stripe = m.side / m.q;
    bool master_of = m.alone || (m.top && m.edge);
    bool node_of = !master_of && m.listen && m.row < m.q && m.column < m.q &&
                   !m.down == (m.row == m.q - 1) && !m.left == !m.column;
    if (m.side % m.q == 0 && (master_of || node_of)) {
        if (master_of)
            master(&m);
        else
            node(&m);
        return 0;
    }
    fputs(usage, stderr);
    return 2;
}
