/* Connections that end at any byte of a conversation, between slave and master
 * and between client and master. What was in hand for the peer that went is
 * gone afterwards, at all three; others are answered as if nothing was; the
 * same question asked again gets the whole answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/sim/real_cluster.h"

/* ---- a relay that cuts ----------------------------------------------------
 */

enum direction { TO_MASTER, FROM_MASTER };

/* Of one kind of connection: what goes through, and where it ends. */
static struct relay {
    char address[640];
    char to[640];
    struct event_base *base;
    bool armed;
    enum direction cut;
    uint64_t left;     /* bytes until then */
    uint64_t bytes[2]; /* since it was reset */
    unsigned cuts;
} slaves, clients;

struct link {
    struct relay *r;
    struct bufferevent *side[2]; /* [TO_MASTER] reads from the peer */
};

static void link_free(struct link *l)
{
    bufferevent_free(l->side[0]);
    bufferevent_free(l->side[1]);
    free(l);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct link *l = arg;
    struct relay *r = l->r;
    enum direction way = bev == l->side[TO_MASTER] ? TO_MASTER : FROM_MASTER;
    struct evbuffer *in = bufferevent_get_input(bev);
    struct evbuffer *out = bufferevent_get_output(l->side[!way]);
    size_t n = evbuffer_get_length(in);
    bool cut = r->armed && r->cut == way && n >= r->left;
    if (cut)
        n = (size_t)r->left;
    else if (r->armed && r->cut == way)
        r->left -= n;
    r->bytes[way] += n;
    evbuffer_remove_buffer(in, out, n);
    if (!cut)
        return;
    /* What was let through arrives, and then the end. */
    r->armed = false;
    r->cuts++;
    evutil_socket_t fd = bufferevent_getfd(l->side[!way]);
    while (evbuffer_get_length(out) > 0 && evbuffer_write(out, fd) > 0)
        ;
    link_free(l);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct link *l = arg;
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    struct bufferevent *other = l->side[bev == l->side[0]];
    struct evbuffer *out = bufferevent_get_output(other);
    evutil_socket_t fd = bufferevent_getfd(other);
    while (evbuffer_get_length(out) > 0 && evbuffer_write(out, fd) > 0)
        ;
    link_free(l);
}

static struct sockaddr_un unix_address(const char *address)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%.100s",
             address + strlen("unix:"));
    return a;
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct relay *r = arg;
    struct sockaddr_un to = unix_address(r->to);
    struct link *l = calloc(1, sizeof(*l));
    int in = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)what;
    assert_non_null(l);
    assert_true(in >= 0 && out >= 0);
    assert_int_equal(connect(out, (void *)&to, sizeof(to)), 0);
    assert_int_equal(evutil_make_socket_nonblocking(out), 0);
    l->r = r;
    l->side[TO_MASTER] =
        bufferevent_socket_new(r->base, in, BEV_OPT_CLOSE_ON_FREE);
    l->side[FROM_MASTER] =
        bufferevent_socket_new(r->base, out, BEV_OPT_CLOSE_ON_FREE);
    for (int i = 0; i < 2; i++) {
        assert_non_null(l->side[i]);
        bufferevent_setcb(l->side[i], on_read, NULL, on_event, l);
        bufferevent_enable(l->side[i], EV_READ | EV_WRITE);
    }
}

static struct event *relay_start(struct relay *r, struct real_cluster *c,
                                 const char *name)
{
    memset(r, 0, sizeof(*r));
    r->base = c->c.base;
    snprintf(r->to, sizeof(r->to), "%s", c->c.master.address);
    snprintf(r->address, sizeof(r->address), "unix:%s/%s", c->c.dir, name);
    struct sockaddr_un at = unix_address(r->address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (void *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 16), 0);
    struct event *e =
        event_new(r->base, fd, EV_READ | EV_PERSIST, on_accept, r);
    assert_non_null(e);
    event_add(e, NULL);
    return e;
}

/* ---- the cluster ----------------------------------------------------------
 */

static struct real_cluster real;
static struct event *listening[2];

static int setup(void **state)
{
    (void)state;
    struct synth_options o = synth_default(SYNTH_STENCIL);
    o.nodes = 300;
    o.slaves = REAL_SLAVES;
    o.threads = 6;
    cluster_start(&real.c);
    listening[0] = relay_start(&slaves, &real, "slaves");
    listening[1] = relay_start(&clients, &real, "clients");
    real_slaves_start(&real, &o, slaves.address);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < REAL_SLAVES; i++)
        real_slave_stop(real.slave[i]);
    cluster_turn(&real.c, 20); /* the relay sees them go */
    for (int i = 0; i < 2; i++) {
        close(event_get_fd(listening[i]));
        event_free(listening[i]);
    }
    cluster_stop(&real.c);
    return 0;
}

/* ---- questions ------------------------------------------------------------
 */

static Ips__PathAsk path_ask;
static Ips__LsAsk ls_ask;
static Ips__EventsAsk events_ask;

static Ips__Request path_request(const char *engine)
{
    Ips__Request q = IPS__REQUEST__INIT;
    ips__path_ask__init(&path_ask);
    path_ask.engine = ips_unconst_text(engine);
    path_ask.segments = true;
    q.run = ips_unconst_text("r");
    q.ask_case = IPS__REQUEST__ASK_PATH;
    q.path = &path_ask;
    return q;
}

static Ips__Request ls_request(void)
{
    Ips__Request q = IPS__REQUEST__INIT;
    ips__ls_ask__init(&ls_ask);
    ls_ask.object = ips_unconst_text("/m1");
    q.run = ips_unconst_text("r");
    q.ask_case = IPS__REQUEST__ASK_LS;
    q.ls = &ls_ask;
    return q;
}

static Ips__Request events_request(void)
{
    Ips__Request q = IPS__REQUEST__INIT;
    ips__events_ask__init(&events_ask);
    q.run = ips_unconst_text("r");
    q.ask_case = IPS__REQUEST__ASK_EVENTS;
    q.events = &events_ask;
    return q;
}

/* ---- cuts -----------------------------------------------------------------
 */

/* Every way of `of`'s connections, at `most` places: all bytes of the first
 * frame's head and a stride through the rest. `others` do not go through the
 * connection that is cut. */
static void cut_each(struct relay *of, const char *what, Ips__Request *request,
                     unsigned most)
{
    struct real_answer want, want_ls, got, ls;
    Ips__Request other = ls_request();
    bool client = of == &clients;
    real_ask(&real, &other, &want_ls);
    assert_true(want_ls.done && !want_ls.error);
    real_ask(&real, request, &want); /* the first one sends more */
    free(want.data);
    real_settle(&real);
    memset(of->bytes, 0, sizeof(of->bytes));
    real_begin(&real, clients.address, request, &want);
    real_wait(&real, &want);
    assert_true(want.done && !want.error && !want.incomplete);
    const uint64_t all[] = {of->bytes[0], of->bytes[1]};
    for (int way = 0; way < 2; way++) {
        uint64_t bytes = all[way], cuts = of->cuts, tried = 0;
        assert_true(bytes > 20);
        uint64_t stride = bytes / most + 1;
        for (uint64_t at = 0; at < bytes; at += at < 6 ? 1 : stride, tried++) {
            real_settle(&real);
            of->cut = (enum direction)way;
            of->left = at;
            of->armed = true;
            real_begin(&real, clients.address, request, &got);
            real_begin(&real, real.c.master.address, &other, &ls);
            real_wait(&real, &got);
            real_wait(&real, &ls);
            of->armed = false;
            real_check_honest(&got, &want, what, at);
            if (client)
                real_check_same(&ls, &want_ls, "the other question", at);
            else
                real_check_honest(&ls, &want_ls, "the other question", at);
            free(got.data);
            free(ls.data);
            real_settle(&real);
            real_begin(&real, clients.address, request, &got);
            real_wait(&real, &got);
            real_check_same(&got, &want, what, at);
            free(got.data);
        }
        cuts = of->cuts - cuts;
        print_message("%s: %llu of %llu cut\n", what, (unsigned long long)cuts,
                      (unsigned long long)tried);
        assert_true(tried > 10 && cuts > tried / 2);
    }
    assert_int_equal(real.c.master.roster.count, REAL_SLAVES);
    free(want.data);
    free(want_ls.data);
}

/* Would catch: a part, an ask or a window of a machine that went kept as if it
 * were awaited; half a frame taken for a whole one; a run pinned at the slave,
 * or a job that goes on for nobody. */
static void test_cluster_torn__slaves(void **state)
{
    (void)state;
    Ips__Request contract = path_request("contract");
    cut_each(&slaves, "contract, slave's connection", &contract, 16);
    Ips__Request central = path_request("central");
    cut_each(&slaves, "central, slave's connection", &central, 6);
    Ips__Request cm = path_request("cm-sync");
    cut_each(&slaves, "cm-sync, slave's connection", &cm, 8);
    Ips__Request events = events_request();
    cut_each(&slaves, "events, slave's connection", &events, 6);
}

/* Would catch: a question that is kept, or keeps others waiting, after its
 * client went. */
static void test_cluster_torn__clients(void **state)
{
    (void)state;
    Ips__Request contract = path_request("contract");
    cut_each(&clients, "contract, client's connection", &contract, 8);
    Ips__Request events = events_request();
    cut_each(&clients, "events, client's connection", &events, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_torn__slaves),
        cmocka_unit_test(test_cluster_torn__clients),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
