/* Connections at tls: addresses: that both sides talk with keys of one ca.pem,
 * and who is turned away, with which words. The keys are deploy/keys' own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "common/address.h"
#include "common/log.h"
#include "proto/message.h"
#include "proto/peer_private.h"
#include "proto/tls.h"

#define PATIENCE_MS 20000
#define LONG_BYTES (3u << 20) /* a message of many TLS records */

/* Of one ca.pem: a, a master; b, a slave, not for loopback; m, a slave; ada, a
 * client; old, without a role. And c, a master of another ca.pem, also
 * in foreign, which takes our certificates. */
static char dir[64], a[96], b[96], m[96], ada[96], old[96], c[96], foreign[96];

struct side {
    struct ips_peer *peer;
    unsigned hellos, closes;
    char why[512];
};
static struct side here, there;
static struct event_base *base;

/* ---- the log, the clock and the minute's end, as the product sees them --- */

static char logged[32][1024];
static unsigned lines;
static uint64_t fixed_ns; /* 0: the real clock */
static event_callback_fn minute;

void __wrap_ips_log(enum ips_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void __wrap_ips_log(enum ips_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (level <= IPS_LOG_WARN && lines < 32)
        vsnprintf(logged[lines++], sizeof(*logged), fmt, ap);
    va_end(ap);
}

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
    if (!fixed_ns)
        return __real_clock_gettime(clock, ts);
    ts->tv_sec = (time_t)(fixed_ns / 1000000000);
    ts->tv_nsec = (long)(fixed_ns % 1000000000);
    return 0;
}

int __real_event_base_once(struct event_base *to, evutil_socket_t fd,
                           short what, event_callback_fn call, void *arg,
                           const struct timeval *wait);
int __wrap_event_base_once(struct event_base *to, evutil_socket_t fd,
                           short what, event_callback_fn call, void *arg,
                           const struct timeval *wait);
int __wrap_event_base_once(struct event_base *to, evutil_socket_t fd,
                           short what, event_callback_fn call, void *arg,
                           const struct timeval *wait)
{
    if (wait->tv_sec == 0)
        return __real_event_base_once(to, fd, what, call, arg, wait);
    assert_int_equal(wait->tv_sec, 60);
    minute = call;
    return 0;
}

static void on_message(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg)
{
    struct side *s = arg;
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__MASTER);
    if (env->body_case == IPS__ENVELOPE__BODY_HELLO && !s->hellos++ &&
        s == &here)
        ips_send_hello(peer, &hello);
    if (env->body_case == IPS__ENVELOPE__BODY_REQUEST) {
        Ips__Reply reply = IPS__REPLY__INIT; /* as long as the question */
        reply.last = true;
        reply.error = IPS_E_USAGE;
        reply.message = env->request->run;
        ips_send_reply(peer, &reply);
    }
}

static void on_close(struct ips_peer *peer, const char *why, void *arg)
{
    struct side *s = arg;
    (void)peer;
    s->peer = NULL;
    snprintf(s->why, sizeof(s->why), "%s", why);
    s->closes++;
}

static const struct ips_peer_ops ops = {on_message, on_close};

static void on_accept(struct ips_peer *peer, void *arg)
{
    (void)arg;
    here.peer = peer;
    ips_peer_set_ops(peer, &ops, &here);
}

static void turn_until(const unsigned *count)
{
    time_t end = time(NULL) + PATIENCE_MS / 1000;
    while (!*count && time(NULL) < end) {
        const struct timeval tick = {0, 5000};
        event_base_loopexit(base, &tick);
        event_base_dispatch(base);
    }
    assert_int_not_equal(0, *count);
}

static void use(const char *keys)
{
    struct ips_err err = {0};
    if (ips_tls_load_keys(keys, &err) < 0)
        fail_msg("%s", err.msg);
}

static struct ips_listener *listen_at(const char *address)
{
    struct ips_listener *l = NULL;
    struct ips_err err = {0};
    memset(&here, 0, sizeof(here));
    memset(&there, 0, sizeof(there));
    base = event_base_new();
    if (ips_listener_new(base, address, on_accept, NULL, &l, &err) < 0)
        fail_msg("%s", err.msg);
    return l;
}

/* A peer with these keys, to a listener with a's, that says it is this. */
static void connect_as(const char *keys, const char *address,
                       Ips__Hello__Role role, const char *machine)
{
    struct ips_err err = {0};
    Ips__Hello hello = ips_make_hello(role);
    hello.machine = ips_unconst_text(machine);
    use(keys);
    if (ips_peer_connect(base, address, &there.peer, &err) < 0)
        fail_msg("%s", err.msg);
    use(a); /* what is accepted from now on */
    ips_peer_set_ops(there.peer, &ops, &there);
    ips_send_hello(there.peer, &hello);
}

static void connect_with(const char *keys, const char *address)
{
    connect_as(keys, address, IPS__HELLO__ROLE__SLAVE, "a");
}

static void end(struct ips_listener *l)
{
    ips_peer_close_and_free_later(here.peer);
    ips_peer_close_and_free_later(there.peer);
    ips_listener_free(l);
    ips_free_reaped_peers();
    event_base_free(base);
}

/* Would catch a handshake that never ends, a Hello that is lost before it, or
 * an end of the connection that nobody hears of. */
static void test_tls__both_sides_talk(void **state)
{
    (void)state;
    use(a);
    struct ips_listener *l = listen_at("tls:127.0.0.1:0");
    assert_memory_equal(ips_listener_address(l), "tls:127.0.0.1:", 14);
    connect_with(a, ips_listener_address(l));
    turn_until(&here.hellos);
    turn_until(&there.hellos);
    ips_peer_close_and_free_later(there.peer);
    there.peer = NULL;
    turn_until(&here.closes);
    assert_string_equal(here.why, "closed by the other side");
    end(l);
}

/* Would catch keys of another installation that are taken, and a refusal that
 * does not say what is to be done. */
static void test_tls__strangers_are_refused(void **state)
{
    (void)state;
    use(a);
    struct ips_listener *l = listen_at("tls:127.0.0.1:0");
    connect_with(c, ips_listener_address(l));
    turn_until(&there.closes);
    assert_non_null(strstr(there.why, "both sides need keys"));
    turn_until(&here.closes);
    assert_non_null(strstr(here.why, "TLS: "));
    assert_int_equal(0, here.hellos + there.hellos);
    end(l);
}

/* Would catch a machine that passes for another one of the installation. */
static void test_tls__a_certificate_is_for_its_addresses(void **state)
{
    (void)state;
    use(b);
    struct ips_listener *l = listen_at("tls:127.0.0.1:0");
    connect_with(a, ips_listener_address(l));
    use(b);
    turn_until(&there.closes);
    assert_non_null(strstr(there.why, "not for this address"));
    assert_int_equal(0, here.hellos + there.hellos);
    end(l);
}

/* Would catch a daemon that talks to whoever does not speak TLS. */
static void test_tls__nothing_is_said_in_the_clear(void **state)
{
    char plain[64];
    (void)state;
    use(a);
    struct ips_listener *l = listen_at("tls:127.0.0.1:0");
    snprintf(plain, sizeof(plain), "tcp%s", ips_listener_address(l) + 3);
    connect_with(a, plain);
    turn_until(&here.closes);
    turn_until(&there.closes);
    assert_int_equal(0, here.hellos + there.hellos);
    end(l);
    l = listen_at("tcp:127.0.0.1:0");
    snprintf(plain, sizeof(plain), "tls%s", ips_listener_address(l) + 3);
    connect_with(a, plain);
    turn_until(&here.closes);
    turn_until(&there.closes);
    assert_int_equal(0, here.hellos + there.hellos);
    end(l);
}

/* In a child, with keys of its own: asks, and tells what became of it. */
static int ask_in_child(const char *keys, const char *address)
{
    int ends[2];
    assert_int_equal(0, pipe(ends));
    pid_t pid = fork();
    if (pid == 0) {
        struct ips_client *client = NULL;
        struct ips_err err = {0};
        Ips__Envelope env = IPS__ENVELOPE__INIT, *answer = NULL;
        Ips__Request rq = IPS__REQUEST__INIT;
        static char name[LONG_BYTES];
        memset(name, 'x', sizeof(name) - 1);
        env.body_case = IPS__ENVELOPE__BODY_REQUEST;
        env.request = &rq;
        rq.id = 7;
        rq.run = name;
        int rc = ips_tls_load_keys(keys, &err);
        if (rc == 0)
            rc = ips_client_connect(address, PATIENCE_MS, &client, &err);
        if (rc == 0)
            rc = ips_client_send(client, &env, &err);
        if (rc == 0)
            rc = ips_client_recv(client, PATIENCE_MS, &answer, &err);
        if (rc == 0)
            snprintf(err.msg, sizeof(err.msg), "%zu bytes back",
                     strlen(answer->reply->message));
        if (write(ends[1], err.msg, strlen(err.msg)) < 0)
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    assert_true(pid > 0);
    return ends[0];
}

static void told(int fd, char *out, size_t bytes)
{
    size_t n = 0;
    ssize_t got;
    while ((got = read(fd, out + n, bytes - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(fd);
    wait(NULL);
}

/* Would catch long messages of the blocking client that are cut at a record's
 * end, and a refusal by the other side that it does not put into words. */
static void test_tls__blocking_client(void **state)
{
    (void)state;
    char said[1024], want[64];
    use(a);
    struct ips_listener *l = listen_at("tls:127.0.0.1:0");
    int fd = ask_in_child(b, ips_listener_address(l)); /* needs no address */
    turn_until(&here.closes);
    told(fd, said, sizeof(said));
    snprintf(want, sizeof(want), "%u bytes back", LONG_BYTES - 1);
    assert_string_equal(said, want);
    assert_int_equal(1, here.hellos);
    here.closes = here.hellos = 0;
    fd = ask_in_child(c, ips_listener_address(l));
    turn_until(&here.closes);
    told(fd, said, sizeof(said));
    assert_non_null(strstr(said, "both sides need keys"));
    assert_int_equal(0, here.hellos);
    end(l);
}

/* Would catch a key that may only ask and becomes a machine, a machine that
 * passes for another or for the master, keys without a role that are taken, and
 * a refusal that does not say of whom, why, and what to do. */
static void test_tls__roles(void **state)
{
    enum { CLIENT = 1, SLAVE, MASTER };
    static const struct {
        const char *keys, *machine;
        int role;
        const char *name, *why; /* NULL: welcome */
    } cases[] = {
        {ada, "", CLIENT, "ada", NULL},
        {m, "", CLIENT, "m", NULL},
        {a, "", CLIENT, "a", NULL},
        {m, "m", SLAVE, "m", NULL},
        {b, "b", SLAVE, "b", NULL},
        {a, "a", SLAVE, "a", NULL},
        {a, "", MASTER, "a", NULL},
        {ada, "ada", SLAVE, "ada", "role client, role slave is needed"},
        {ada, "m", SLAVE, "ada", "role client, role slave is needed"},
        {ada, "", MASTER, "ada", "role client, role master is needed"},
        {m, "", MASTER, "m", "role slave, role master is needed"},
        {m, "b", SLAVE, "m", "not for machine b"},
        {a, "m", SLAVE, "a", "not for machine m"},
        {old, "", CLIENT, "old", "no role, role client is needed"},
        {old, "old", SLAVE, "old", "no role, role slave is needed"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char named[32];
        use(a);
        struct ips_listener *l = listen_at("tls:127.0.0.1:0");
        connect_as(cases[i].keys, ips_listener_address(l),
                   (Ips__Hello__Role)cases[i].role, cases[i].machine);
        turn_until(cases[i].why ? &there.closes : &there.hellos);
        assert_int_equal(here.hellos, cases[i].why ? 0 : 1);
        if (cases[i].why) {
            turn_until(&here.closes);
            snprintf(named, sizeof(named), "\"%s\"", cases[i].name);
            for (const struct side *x = &here; x; x = x == &here ? &there : 0) {
                assert_non_null(strstr(x->why, cases[i].why));
                assert_non_null(strstr(x->why, named));
                assert_non_null(strstr(x->why, "127.0.0.1:"));
            }
            assert_non_null(strstr(here.why, i < 11 || i > 12 ? "deploy/keys"
                                                              : "--machine"));
        }
        end(l);
    }
}

/* Would catch a slave, or ipsq, that takes a machine of the installation for
 * its master. */
static void test_tls__a_master_must_be_one(void **state)
{
    char said[1024];
    (void)state;
    use(m);
    struct ips_listener *l = listen_at("tls:127.0.0.1:0");
    connect_as(a, ips_listener_address(l), IPS__HELLO__ROLE__CLIENT, "");
    use(m);
    turn_until(&there.closes);
    assert_non_null(
        strstr(there.why, "\"m\" has role slave, role master is needed"));
    assert_int_equal(0, there.hellos);
    here.closes = here.hellos = 0;
    int fd = ask_in_child(ada, ips_listener_address(l));
    turn_until(&here.closes);
    told(fd, said, sizeof(said));
    assert_non_null(strstr(said, "role slave, role master is needed"));
    assert_non_null(strstr(said, ips_listener_address(l)));
    end(l);
}

/* A connection that says this and no more, until the listener's side ends. */
static void say(const char *address, const char *text)
{
    struct ips_address to;
    assert_int_equal(0, ips_address_parse(address, &to, NULL));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, connect(fd, (struct sockaddr *)&to.addr, to.len));
    assert_int_equal(strlen(text), write(fd, text, strlen(text)));
    if (!*text)
        close(fd);
    here.closes = 0;
    turn_until(&here.closes);
    if (*text)
        close(fd);
}

/* Would catch a refusal that is not in the log, or without the address and the
 * name, and a scanner of ports that fills the log or that nothing tells of. */
static void test_tls__refusals_are_logged(void **state)
{
    struct ips_err err = {0};
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    (void)state;
    fixed_ns = UINT64_C(1000000000000000000);
    use(a);
    struct ips_listener *l = listen_at("tls:127.0.0.1:0");
    char at[64];
    snprintf(at, sizeof(at), "%s", ips_listener_address(l));
    lines = 0;
    connect_with(foreign, at);
    turn_until(&here.closes);
    turn_until(&there.closes);
    connect_as(ada, at, IPS__HELLO__ROLE__SLAVE, "ada");
    here.closes = there.closes = 0;
    turn_until(&here.closes);
    turn_until(&there.closes);
    use(m);
    hello.protocol = 99;
    assert_int_equal(0, ips_peer_connect(base, at, &there.peer, &err));
    use(a);
    ips_peer_set_ops(there.peer, &ops, &there);
    ips_send_hello(there.peer, &hello);
    here.closes = there.closes = 0;
    turn_until(&here.closes);
    turn_until(&there.closes);
    say(at, "GET / HTTP/1.0\r\n\r\n");
    static const char *const parts[][2] = {{"(certificate \"c\")", "ca.pem"},
                                           {"\"ada\" has", "role slave"},
                                           {"(certificate \"m\")", "99"},
                                           {"TLS", "does not use TLS"}};
    assert_int_equal(lines, 4);
    for (unsigned i = 0; i < lines; i++) {
        assert_memory_equal(logged[i], "connection refused: 127.0.0.1:", 30);
        assert_non_null(strstr(logged[i], parts[i][0]));
        assert_non_null(strstr(logged[i], parts[i][1]));
    }
    say(at, ""); /* went away by itself */
    assert_int_equal(lines, 4);
    for (int i = 0; i < 9; i++)
        say(at, "GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(lines, IPS_REFUSALS_SHOWN);
    minute(-1, EV_TIMEOUT, NULL);
    minute = NULL;
    assert_int_equal(lines, IPS_REFUSALS_SHOWN + 1);
    assert_string_equal(logged[lines - 1],
                        "3 more connections refused within a minute");
    say(at, "GET / HTTP/1.0\r\n\r\n"); /* of the same minute */
    assert_int_equal(lines, IPS_REFUSALS_SHOWN + 1);
    fixed_ns += UINT64_C(60000000000);
    say(at, "GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(lines, IPS_REFUSALS_SHOWN + 3);
    assert_string_equal(logged[lines - 2],
                        "1 more connections refused within a minute");
    minute = NULL;
    fixed_ns = 0;
    end(l);
}

/* Would catch a daemon that starts with keys that no other will take. */
static void test_tls__own_keys(void **state)
{
    struct ips_err err = {0};
    (void)state;
    use(ada);
    assert_int_equal(IPS_E_REFUSED, ips_tls_check_own_role(
                                        "tls:127.0.0.1:1",
                                        IPS__HELLO__ROLE__SLAVE, "ada", &err));
    assert_non_null(strstr(err.msg, "NAME=ADDRESS"));
    assert_int_equal(IPS_E_REFUSED, ips_tls_check_own_role(
                                        "tls:127.0.0.1:1",
                                        IPS__HELLO__ROLE__MASTER, "", &err));
    assert_non_null(strstr(err.msg, "--master NAME=ADDRESS"));
    assert_int_equal(0, ips_tls_check_own_role(
                            "unix:/tmp/s", IPS__HELLO__ROLE__MASTER, "", &err));
    use(m);
    assert_int_equal(0, ips_tls_check_own_role("tls:127.0.0.1:1",
                                               IPS__HELLO__ROLE__SLAVE, "m",
                                               &err));
    assert_int_equal(IPS_E_REFUSED, ips_tls_check_own_role(
                                        "tls:127.0.0.1:1",
                                        IPS__HELLO__ROLE__SLAVE, "b", &err));
    assert_non_null(strstr(err.msg, "--machine m"));
}

static void test_tls__bad_keys(void **state)
{
    char command[512];
    struct ips_err err = {0};
    (void)state;
    assert_int_equal(IPS_E_IO, ips_tls_load_keys("/nonexistent", &err));
    assert_non_null(strstr(err.msg, "/nonexistent/ca.pem"));
    snprintf(command, sizeof(command),
             "cd %s && cp -r ours/a open && chmod 644 open/key.pem && "
             "cp -r ours/a mixed && cp ours/b/key.pem mixed && "
             "cp -r ours/a torn && echo no >torn/cert.pem && "
             "cp -r ours/a past && openssl x509 -in ours/a/cert.pem -days 0 "
             "-signkey past/key.pem -out past/cert.pem 2>/dev/null",
             dir);
    assert_int_equal(0, system(command)); /* NOLINT(cert-env33-c) */
    static const char *const bad[][2] = {{"open", "chmod 600"},
                                         {"mixed", "not the certificate's"},
                                         {"torn", "no certificate"},
                                         {"past", "expired"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(command, sizeof(command), "%s/%s", dir, bad[i][0]);
        assert_int_equal(IPS_E_REFUSED, ips_tls_load_keys(command, &err));
        assert_non_null(strstr(err.msg, bad[i][1]));
    }
}

/* First, while no keys are in use. (The one of the log is next, while nothing
 * was refused yet.) */
static void test_tls__no_keys(void **state)
{
    struct ips_err err = {0};
    struct ips_listener *l = NULL;
    (void)state;
    base = event_base_new();
    unsetenv("IPS_TLS");
    assert_int_equal(IPS_E_USAGE, ips_listener_new(base, "tls:127.0.0.1:0",
                                                   on_accept, NULL, &l, &err));
    assert_non_null(strstr(err.msg, "deploy/keys"));
    setenv("IPS_TLS", "relative", 1);
    assert_int_equal(IPS_E_USAGE, ips_tls_load_keys_if_not_loaded(&err));
    setenv("IPS_TLS", a, 1);
    assert_int_equal(0, ips_tls_load_keys_if_not_loaded(&err));
    event_base_free(base);
}

static int make_keys(void **state)
{
    char command[1024];
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/ips-test-tls-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(a, sizeof(a), "%s/ours/a", dir);
    snprintf(b, sizeof(b), "%s/ours/b", dir);
    snprintf(m, sizeof(m), "%s/ours/m", dir);
    snprintf(ada, sizeof(ada), "%s/ours/ada", dir);
    snprintf(old, sizeof(old), "%s/ours/old", dir);
    snprintf(c, sizeof(c), "%s/theirs/c", dir);
    snprintf(foreign, sizeof(foreign), "%s/foreign", dir);
    /* `old` as deploy/keys made it before there were roles. */
    snprintf(command, sizeof(command),
             "cd %s && { " DEPLOY_KEYS " ours --master a=127.0.0.1,::1 "
             "b=10.0.0.9 m=127.0.0.1 ada && " DEPLOY_KEYS
             " theirs --master c=127.0.0.1 && cp -r theirs/c foreign && "
             "cp ours/ca/ca.pem foreign && cp -r ours/ada ours/old && "
             "openssl req -new -key ours/old/key.pem -subj /CN=old -out r && "
             "openssl x509 -req -in r -days 9 -CA ours/ca/ca.pem "
             "-CAkey ours/ca/ca.key -CAcreateserial -out ours/old/cert.pem; } "
             ">/dev/null 2>&1",
             dir);
    return system(command); /* NOLINT(cert-env33-c) */
}

static int remove_keys(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", dir);
    return system(command); /* NOLINT(cert-env33-c) */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls__no_keys),
        cmocka_unit_test(test_tls__refusals_are_logged),
        cmocka_unit_test(test_tls__both_sides_talk),
        cmocka_unit_test(test_tls__strangers_are_refused),
        cmocka_unit_test(test_tls__a_certificate_is_for_its_addresses),
        cmocka_unit_test(test_tls__nothing_is_said_in_the_clear),
        cmocka_unit_test(test_tls__blocking_client),
        cmocka_unit_test(test_tls__roles),
        cmocka_unit_test(test_tls__a_master_must_be_one),
        cmocka_unit_test(test_tls__own_keys),
        cmocka_unit_test(test_tls__bad_keys),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
