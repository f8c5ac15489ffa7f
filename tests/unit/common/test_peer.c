/* Connections over real sockets in one process. Catches: work before Hello, a
 * wrong version that is not told why, a frame too long that is waited for, a
 * reader that is too slow and kept, idle peers dropped, callbacks from within
 * a call, a stale socket that blocks a start, and TCP that leaves the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/address.h"
#include "proto/message.h"

#define PATIENCE_MS 10000

struct fixture {
    char dir[64];
    char address[128];
    struct event_base *base;
    struct ips_listener *listener;
    struct ips_peer *accepted;
    unsigned hellos, requests, closes;
    bool inside_call; /* set around our own calls: no callback may come */
    bool greet;
    char why[512];
};

static void on_message(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg)
{
    struct fixture *f = arg;
    assert_false(f->inside_call);
    if (env->body_case == IPS__ENVELOPE__BODY_HELLO) {
        f->hellos++;
        Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__MASTER);
        if (f->greet)
            ips_send_hello(peer, &hello);
    } else if (env->body_case == IPS__ENVELOPE__BODY_REQUEST) {
        f->requests++;
    }
}

static void on_close(struct ips_peer *peer, const char *why, void *arg)
{
    struct fixture *f = arg;
    assert_false(f->inside_call);
    f->closes++;
    snprintf(f->why, sizeof(f->why), "%s", why);
    if (peer == f->accepted)
        f->accepted = NULL;
}

static const struct ips_peer_ops ops = {on_message, on_close};

static void on_accept(struct ips_peer *peer, void *arg)
{
    struct fixture *f = arg;
    f->accepted = peer;
    ips_peer_set_ops(peer, &ops, f);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    snprintf(f->dir, sizeof(f->dir), "/tmp/ips-test-peer-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->address, sizeof(f->address), "unix:%s/s", f->dir);
    f->base = event_base_new();
    f->greet = true;
    assert_int_equal(
        ips_listener_new(f->base, f->address, on_accept, f, &f->listener, NULL),
        0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    ips_peer_close_and_free_later(f->accepted);
    ips_listener_free(f->listener);
    ips_free_reaped_peers();
    event_base_free(f->base);
    char path[128];
    snprintf(path, sizeof(path), "%s/s.lock", f->dir);
    unlink(path);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Turns the loop until *count >= want; false when patience ends. */
static bool turn_until(struct fixture *f, const unsigned *count, unsigned want)
{
    uint64_t end = now_ms() + PATIENCE_MS;
    while (*count < want && now_ms() < end) {
        const struct timeval tick = {0, 5000};
        event_base_loopexit(f->base, &tick);
        event_base_dispatch(f->base);
    }
    return *count >= want;
}

static void turn_ms(struct fixture *f, unsigned ms)
{
    const struct timeval tick = {0, (suseconds_t)ms * 1000};
    event_base_loopexit(f->base, &tick);
    event_base_dispatch(f->base);
}

static int raw_connect(const struct fixture *f)
{
    struct ips_address to;
    assert_int_equal(ips_address_parse(f->address, &to, NULL), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to.addr, to.len), 0);
    return fd;
}

static void raw_send(int fd, const Ips__Envelope *env)
{
    uint8_t *data;
    size_t len;
    assert_int_equal(ips_frame_encode(env, &data, &len, NULL), 0);
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
    free(data);
}

static void raw_hello(int fd, uint32_t protocol)
{
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__CLIENT);
    hello.protocol = protocol;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    raw_send(fd, &env);
}

static void raw_request(int fd)
{
    Ips__RunsAsk ask = IPS__RUNS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    request.ask_case = IPS__REQUEST__ASK_RUNS;
    request.runs = &ask;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REQUEST;
    env.request = &request;
    raw_send(fd, &env);
}

static void test_peer__hello_then_talk(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_hello(fd, IPS_PROTOCOL);
    for (int i = 0; i < 100; i++)
        raw_request(fd);
    assert_true(turn_until(f, &f->requests, 100));
    assert_int_equal(f->hellos, 1);
    assert_int_equal(f->closes, 0);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_true(turn_until(f, &f->closes, 1));
    assert_string_equal(f->why, "closed by the other side");
    close(fd);
}

static void test_peer__frames_arrive_byte_by_byte(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_hello(fd, IPS_PROTOCOL);
    assert_true(turn_until(f, &f->hellos, 1));
    Ips__RunsAsk ask = IPS__RUNS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    request.ask_case = IPS__REQUEST__ASK_RUNS;
    request.runs = &ask;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REQUEST;
    env.request = &request;
    uint8_t *data;
    size_t len;
    assert_int_equal(ips_frame_encode(&env, &data, &len, NULL), 0);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(f->requests, 0);
        assert_int_equal(send(fd, data + i, 1, 0), 1);
        turn_ms(f, 2);
    }
    assert_true(turn_until(f, &f->requests, 1));
    free(data);
    close(fd);
}

static void test_peer__no_hello_is_closed(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_request(fd);
    assert_true(turn_until(f, &f->closes, 1));
    assert_int_equal(f->requests, 0);
    assert_string_equal(f->why, "sent data before Hello");
    close(fd);
}

static void test_peer__second_hello_is_closed(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_hello(fd, IPS_PROTOCOL);
    raw_hello(fd, IPS_PROTOCOL);
    assert_true(turn_until(f, &f->closes, 1));
    assert_string_equal(f->why, "sent Hello twice");
    close(fd);
}

static void test_peer__wrong_version_is_told(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_hello(fd, 99);
    assert_true(turn_until(f, &f->closes, 1));
    assert_int_equal(f->hellos, 0);
    assert_non_null(strstr(f->why, "protocol version 99"));
    uint8_t data[4096];
    ssize_t n = recv(fd, data, sizeof(data), 0);
    assert_true(n > 4);
    Ips__Envelope *env = ips_frame_decode(data, (size_t)n, NULL);
    assert_non_null(env);
    assert_int_equal(env->body_case, IPS__ENVELOPE__BODY_HELLO);
    assert_int_equal(env->hello->protocol, IPS_PROTOCOL);
    assert_non_null(strstr(env->hello->error, "protocol version 99"));
    ips__envelope__free_unpacked(env, NULL);
    turn_ms(f, 20);
    assert_int_equal(recv(fd, data, sizeof(data), 0), 0);
    close(fd);
}

static void test_peer__long_frame_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    /* More than a Hello may have: refused by its four bytes alone. */
    const uint8_t head[4] = {0, 0x20, 0, 0};
    assert_int_equal(send(fd, head, sizeof(head), 0), 4);
    assert_true(turn_until(f, &f->closes, 1));
    assert_non_null(strstr(f->why, "at most 4096"));
    close(fd);
    fd = raw_connect(f);
    raw_hello(fd, IPS_PROTOCOL);
    const uint8_t more[4] = {0, 0, 0x90, 0};
    assert_int_equal(send(fd, more, sizeof(more), 0), 4);
    assert_true(turn_until(f, &f->closes, 2));
    assert_non_null(strstr(f->why, "frame of"));
    close(fd);
}

static void test_peer__random_bytes_close_it(void **state)
{
    struct fixture *f = *state;
    unsigned seed = 5;
    for (unsigned i = 0; i < 200; i++) {
        int fd = raw_connect(f);
        uint8_t data[300];
        for (size_t k = 0; k < sizeof(data); k++)
            data[k] = (uint8_t)rand_r(&seed);
        if (i % 2)
            raw_hello(fd, IPS_PROTOCOL);
        if (i % 3 == 0) /* a length that will do */
            data[1] = data[2] = data[3] = 0;
        assert_true(send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        assert_true(turn_until(f, &f->closes, i + 1));
        close(fd);
    }
}

static void test_peer__slow_reader_is_dropped(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_hello(fd, IPS_PROTOCOL);
    assert_true(turn_until(f, &f->hellos, 1));
    char *text = malloc(1u << 20);
    assert_non_null(text);
    memset(text, 'x', (1u << 20) - 1);
    text[(1u << 20) - 1] = '\0';
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.message = text;
    f->inside_call = true;
    for (int i = 0; i < 70; i++)
        ips_send_reply(f->accepted, &reply);
    f->inside_call = false;
    assert_true(turn_until(f, &f->closes, 1));
    assert_string_equal(f->why, "does not read the data sent to it");
    free(text);
    close(fd);
}

static void test_peer__reply_too_long_becomes_an_error(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_hello(fd, IPS_PROTOCOL);
    assert_true(turn_until(f, &f->hellos, 1));
    char *text = malloc(IPS_FRAME_MAX_BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', IPS_FRAME_MAX_BYTES);
    text[IPS_FRAME_MAX_BYTES] = '\0';
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.id = 3;
    reply.message = text;
    uint8_t data[4096];
    turn_ms(f, 20);
    assert_true(recv(fd, data, sizeof(data), 0) > 0); /* its Hello */
    ips_send_reply(f->accepted, &reply);
    turn_ms(f, 20);
    ssize_t n = recv(fd, data, sizeof(data), 0);
    assert_true(n > 4);
    Ips__Envelope *env = ips_frame_decode(data, (size_t)n, NULL);
    assert_non_null(env);
    assert_int_equal(env->body_case, IPS__ENVELOPE__BODY_REPLY);
    assert_int_equal(env->reply->id, 3);
    assert_int_equal(env->reply->error, IPS_E_LIMIT);
    assert_true(env->reply->last);
    ips__envelope__free_unpacked(env, NULL);
    free(text);
    close(fd);
}

static void test_peer__idle_peer_is_kept(void **state)
{
    struct fixture *f = *state;
    int fd = raw_connect(f);
    raw_hello(fd, IPS_PROTOCOL);
    assert_true(turn_until(f, &f->hellos, 1));
    turn_ms(f, 500);
    raw_request(fd);
    assert_true(turn_until(f, &f->requests, 1));
    assert_int_equal(f->closes, 0);
    close(fd);
}

static void test_peer__connect_failure_comes_from_the_loop(void **state)
{
    struct fixture *f = *state;
    char address[160];
    snprintf(address, sizeof(address), "unix:%s/nobody", f->dir);
    struct ips_peer *peer;
    f->inside_call = true;
    assert_int_equal(ips_peer_connect(f->base, address, &peer, NULL), 0);
    ips_peer_set_ops(peer, &ops, f);
    f->inside_call = false;
    assert_true(turn_until(f, &f->closes, 1));
    assert_true(strlen(f->why) > 0);
    /* TCP: nobody listens on port 1. */
    assert_int_equal(ips_peer_connect(f->base, "tcp:127.0.0.1:1", &peer, NULL),
                     0);
    ips_peer_set_ops(peer, &ops, f);
    assert_true(turn_until(f, &f->closes, 2));
    assert_non_null(strstr(f->why, "refused"));
}

static void test_peer__both_sides_are_peers(void **state)
{
    struct fixture *f = *state;
    struct ips_peer *peer;
    f->greet = false;
    assert_int_equal(ips_peer_connect(f->base, f->address, &peer, NULL), 0);
    ips_peer_set_ops(peer, &ops, f);
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    ips_send_hello(peer, &hello); /* before the connection stands */
    assert_true(turn_until(f, &f->hellos, 1));
    ips_send_hello(f->accepted, &hello);
    assert_true(turn_until(f, &f->hellos, 2));
    ips_peer_close_and_free_later(peer);
    ips_peer_close_and_free_later(peer); /* twice in a turn does no harm */
    assert_true(turn_until(f, &f->closes, 1));
}

struct blocking {
    const char *address;
    int rc;
    struct ips_err err;
};

static void *run_client(void *arg)
{
    struct blocking *b = arg;
    struct ips_client *c = NULL;
    b->rc = ips_client_connect(b->address, PATIENCE_MS, &c, &b->err);
    ips_client_free(c);
    return NULL;
}

static void test_peer__blocking_client(void **state)
{
    struct fixture *f = *state;
    struct blocking b = {.address = f->address};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_client, &b), 0);
    assert_true(turn_until(f, &f->closes, 1));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.rc, 0);
    /* A master that never answers: the time given bounds Hello too. */
    f->greet = false;
    struct ips_client *c = NULL;
    struct ips_err err = {0};
    assert_int_equal(ips_client_connect(f->address, 50, &c, &err),
                     IPS_E_UNREACHABLE);
    assert_non_null(strstr(err.msg, "no answer in time"));
    assert_int_equal(ips_client_connect("unix:/nonexistent/s", 50, &c, &err),
                     IPS_E_UNREACHABLE);
}

/* Catches: a master that has not accepted for a moment taken for one that is
 * away. */
static void test_peer__full_queue_is_waited_for(void **state)
{
    struct fixture *f = *state;
    char text[128], bytes[256];
    struct ips_address at;
    struct ips_client *c = NULL;
    struct ips_err err = {0};
    int waiting[16], n = 0;
    snprintf(text, sizeof(text), "unix:%s/full", f->dir);
    assert_int_equal(ips_address_parse(text, &at, NULL), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at.addr, at.len), 0);
    assert_int_equal(listen(fd, 0), 0);
    do {
        assert_in_range(n, 0, 15);
        waiting[n] =
            socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    } while (connect(waiting[n++], (struct sockaddr *)&at.addr, at.len) == 0);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(ips_client_connect(text, 50, &c, &err), IPS_E_UNREACHABLE);
    assert_non_null(strstr(err.msg, "no answer in time"));
    struct blocking b = {.address = text};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_client, &b), 0);
    for (int i = 0; i < n - 1; i++)
        close(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
    int came = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(recv(came, bytes, sizeof(bytes), 0) > 0); /* its Hello */
    close(came);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.rc, IPS_E_UNREACHABLE);
    while (n)
        close(waiting[--n]);
    close(fd);
    assert_int_equal(unlink(at.path), 0);
}

/* Replaces the function of the C library. */
static bool listen_fails;
int listen(int fd, int backlog)
{
    if (!listen_fails)
        return (int)syscall(SYS_listen, fd, backlog);
    errno = ENOMEM;
    return -1;
}

/* Catches: a socket file that stays where no daemon listens. */
static void test_peer__failed_listen_leaves_no_socket(void **state)
{
    struct fixture *f = *state;
    char text[128], path[128];
    struct ips_listener *l = NULL;
    struct ips_err err = {0};
    snprintf(text, sizeof(text), "unix:%s/t", f->dir);
    listen_fails = true;
    int rc = ips_listener_new(f->base, text, on_accept, f, &l, &err);
    listen_fails = false;
    assert_int_equal(rc, IPS_E_IO);
    snprintf(path, sizeof(path), "%s/t", f->dir);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/t.lock", f->dir);
    assert_int_equal(unlink(path), 0);
}

static void test_peer__socket_is_private_and_guarded(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct stat st;
    struct ips_listener *second = NULL;
    struct ips_err err = {0};
    snprintf(path, sizeof(path), "%s/s", f->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(
        ips_listener_new(f->base, f->address, on_accept, f, &second, &err),
        IPS_E_BUSY);
    assert_int_equal(stat(path, &st), 0);
    /* Others could replace a socket in a directory they can write. */
    assert_int_equal(chmod(f->dir, 0777), 0);
    snprintf(path, sizeof(path), "unix:%s/t", f->dir);
    assert_int_equal(
        ips_listener_new(f->base, path, on_accept, f, &second, &err),
        IPS_E_REFUSED);
    assert_int_equal(chmod(f->dir, 0700), 0);
}

static void test_peer__stale_socket_is_removed(void **state)
{
    struct fixture *f = *state;
    char text[128];
    struct ips_address at;
    struct ips_err err = {0};
    snprintf(text, sizeof(text), "unix:%s/stale", f->dir);
    assert_int_equal(ips_address_parse(text, &at, NULL), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at.addr, at.len), 0);
    close(fd); /* dead, its socket file left behind */
    struct ips_listener *l = NULL;
    assert_int_equal(ips_listener_new(f->base, text, on_accept, f, &l, &err),
                     0);
    ips_listener_free(l);
    assert_int_equal(access(at.path, F_OK), -1);
    /* A file that is no socket is somebody's: left alone. */
    fd = open(at.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(ips_listener_new(f->base, text, on_accept, f, &l, &err),
                     IPS_E_REFUSED);
    assert_int_equal(unlink(at.path), 0);
    snprintf(text, sizeof(text), "%s/stale.lock", f->dir);
    assert_int_equal(unlink(text), 0);
}

static void test_peer__tcp_is_loopback_only(void **state)
{
    struct fixture *f = *state;
    struct ips_err err = {0};
    struct ips_listener *l = NULL;
    static const char *const refused[] = {"tcp:0.0.0.0:70", "tcp:10.1.2.3:70",
                                          "tcp:[::]:70",
                                          "tcp:[::ffff:10.0.0.1]:70"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        assert_int_equal(ips_address_check(refused[i], &err), IPS_E_REFUSED);
        assert_non_null(strstr(err.msg, "tls:HOST:PORT"));
        assert_non_null(strstr(err.msg, "ssh -L"));
        assert_non_null(strstr(err.msg, "--insecure"));
        ips_address_allow_insecure(true);
        struct ips_address to;
        assert_int_equal(ips_address_parse(refused[i], &to, &err), 0);
        assert_true(to.insecure && !to.tls);
        ips_address_allow_insecure(false);
        assert_int_equal(ips_address_check(refused[i], &err), IPS_E_REFUSED);
    }
    static const char *const wrong[] = {
        "",           "tcp:",         "tcp:127.0.0.1",   "tcp:127.0.0.1:x",
        "tcp::70",    "http://x",     "unix:",           "tcp:127.0.0.1:99999",
        "tcp:[::1]:", "tcp:[::1]:-1", "tcp:host.org:70", "tls:host.org:70"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(ips_address_check(wrong[i], &err), IPS_E_USAGE);
    char path[300];
    memset(path, 'a', sizeof(path));
    memcpy(path, "unix:/", 6);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(ips_address_check(path, &err), IPS_E_USAGE);
    assert_non_null(strstr(err.msg, "the 107 that the kernel allows"));
    assert_int_equal(ips_address_check("tcp:localhost:70", &err), 0);
    assert_int_equal(ips_address_check("tcp:[::1]:70", &err), 0);
    assert_int_equal(ips_address_check("tls:10.1.2.3:70", &err), 0);
    assert_int_equal(
        ips_listener_new(f->base, "tcp:127.0.0.1:0", on_accept, f, &l, &err),
        0);
    struct ips_peer *peer;
    assert_int_equal(
        ips_peer_connect(f->base, ips_listener_address(l), &peer, NULL), 0);
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    ips_send_hello(peer, &hello);
    assert_true(turn_until(f, &f->hellos, 1));
    ips_peer_close_and_free_later(peer);
    assert_true(turn_until(f, &f->closes, 1));
    ips_listener_free(l);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_peer__hello_then_talk),
        CASE(test_peer__frames_arrive_byte_by_byte),
        CASE(test_peer__no_hello_is_closed),
        CASE(test_peer__second_hello_is_closed),
        CASE(test_peer__wrong_version_is_told),
        CASE(test_peer__long_frame_is_not_waited_for),
        CASE(test_peer__random_bytes_close_it),
        CASE(test_peer__slow_reader_is_dropped),
        CASE(test_peer__reply_too_long_becomes_an_error),
        CASE(test_peer__idle_peer_is_kept),
        CASE(test_peer__connect_failure_comes_from_the_loop),
        CASE(test_peer__both_sides_are_peers),
        CASE(test_peer__blocking_client),
        CASE(test_peer__full_queue_is_waited_for),
        CASE(test_peer__failed_listen_leaves_no_socket),
        CASE(test_peer__socket_is_private_and_guarded),
        CASE(test_peer__stale_socket_is_removed),
        CASE(test_peer__tcp_is_loopback_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
