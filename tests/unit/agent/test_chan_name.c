/* What the agent says of a descriptor when it meets it first
 * (agent/preload/io/chan_name.c): real descriptors of every kind. Catches: a
 * kind taken for another, an end named as another one, a number of bytes or an
 * id that is off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include "tests/unit/help/chan_machine.h"

static void test_chan_name__pipes(void **state)
{
    (void)state;
    int p[2], q[2];
    char path[] = "/tmp/ips-chan-XXXXXX";
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(pipe2(q, O_DIRECT), 0);
    assert_int_equal(ips_fd_class(name(p[0], NULL)), IPS_FD_STREAM);
    assert_int_equal(chan()->kind, IPS_CHAN_PIPE);
    assert_int_equal(chan()->side, IPS_SIDE_READ);
    assert_int_equal(chan()->flags, IPS_CHAN_CLOEXEC);
    assert_int_equal(chan()->netns | chan()->cookie | chan()->peer_ino, 0);
    name(p[1], NULL);
    assert_int_equal(chan()->side, IPS_SIDE_WRITE);
    name(q[1], &(struct ips_chan_hint){.flags = IPS_CHAN_INHERITED});
    assert_int_equal(chan()->flags, IPS_CHAN_PACKETS | IPS_CHAN_INHERITED);
    assert_non_null(mkdtemp(path));
    assert_int_equal(chdir(path), 0);
    assert_int_equal(mkfifo("f", 0600), 0);
    int f = open("f", O_RDWR);
    name(f, NULL);
    assert_int_equal(chan()->side, IPS_SIDE_BOTH);
    assert_int_equal(chan()->flags, 0);
    uint32_t last = chan()->h.a;
    name(f, NULL);
    assert_int_equal(chan()->h.a, last + 1); /* each has an id of its own */
    no_room = true; /* named, though its record is lost */
    ips_fd_clear(f);
    begun = published = 0;
    assert_int_equal(
        ips_fd_channel_id(ips_chan_identify_and_record(f, ips_fd_get(f), NULL)),
        last + 2);
    no_room = false;
    /* another thread was first: its name stays */
    uint64_t seen = ips_fd_get(f);
    ips_fd_clear(f);
    ips_fd_store_if_unchanged(f, ips_fd_get(f), IPS_FD_STREAM, 700, 0);
    assert_int_equal(
        ips_fd_channel_id(ips_chan_identify_and_record(f, seen, NULL)), 700);
    assert_int_equal(begun, 0);
    close(f);
    unlink("f");
    assert_int_equal(chdir("/"), 0);
    rmdir(path);
    for (int i = 0; i < 2; i++) {
        close(p[i]);
        close(q[i]);
    }
}

static void test_chan_name__unix(void **state)
{
    (void)state;
    static const struct {
        int type;
        enum ips_fd_class klass;
        unsigned kind, flags;
    } cases[] = {
        {SOCK_STREAM, IPS_FD_STREAM, IPS_CHAN_UNIX, 0},
        {SOCK_SEQPACKET, IPS_FD_STREAM, IPS_CHAN_UNIX, IPS_CHAN_PACKETS},
        {SOCK_DGRAM, IPS_FD_DGRAM, IPS_CHAN_UNIX_DGRAM, 0}};
    for (size_t i = 0; i < 3; i++) {
        int s[2];
        uint64_t cookie;
        socklen_t len = sizeof(cookie);
        assert_int_equal(socketpair(AF_UNIX, cases[i].type, 0, s), 0);
        uint64_t word = name(s[0], NULL);
        assert_int_equal(ips_fd_class(word), cases[i].klass);
        assert_int_equal(word & IPS_FD_FLAGS, 0);
        assert_int_equal(chan()->kind, cases[i].kind);
        assert_int_equal(chan()->flags, cases[i].flags);
        assert_int_equal(chan()->side, IPS_SIDE_BOTH);
        assert_int_equal(chan()->peer_ino, inode(s[1]));
        assert_int_equal(getsockopt(s[0], SOL_SOCKET, SO_COOKIE, &cookie, &len),
                         0);
        assert_int_equal(chan()->cookie, cookie);
        assert_int_equal(chan()->name_hash, 0);
        assert_int_equal(chan()->peer_pid,
                         cases[i].klass == IPS_FD_STREAM ? getpid() : 0);
        word = name(s[0], &(struct ips_chan_hint){.peer_ino = 42,
                                                  .flags = IPS_CHAN_CONNECTED});
        assert_int_equal(chan()->peer_ino, 42);
        assert_int_equal(chan()->flags, cases[i].flags | IPS_CHAN_CONNECTED);
        assert_int_equal(word & IPS_FD_FLAGS, cases[i].klass == IPS_FD_STREAM
                                                  ? IPS_FD_CONNECTED
                                                  : 0);
        close(s[0]);
        close(s[1]);
    }
    /* a listener, one that connects, one that is accepted, one that is not */
    char dir[] = "/tmp/ips-chan-XXXXXX";
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(dir));
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/s", dir);
    const uint64_t hash = fnv(un.sun_path, strlen(un.sun_path));
    int l = socket(AF_UNIX, SOCK_STREAM, 0),
        c = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(name(c, NULL), IPS_FD_NOT_A_CHANNEL);
    assert_int_equal(bind(l, (struct sockaddr *)&un, sizeof(un)), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(connect(c, (struct sockaddr *)&un, sizeof(un)), 0);
    assert_int_equal(ips_fd_class(name(l, NULL)), IPS_FD_LISTEN);
    assert_int_equal(chan()->kind, IPS_CHAN_UNIX_LISTEN);
    assert_int_equal(chan()->name_hash, hash);
    struct ips_listen_name_of_socket n;
    assert_true(ips_listen_name_of_socket(l, false, &n));
    assert_int_equal(n.ino, hash);
    assert_true(ips_listen_name_of_socket(c, true, &n));
    assert_int_equal(n.ino, hash);
    assert_false(ips_listen_name_of_socket(c, false, &n));
    int a = accept(l, NULL, NULL);
    name(c, NULL);
    assert_int_equal(chan()->name_hash, hash); /* its peer's */
    assert_int_equal(chan()->peer_ino, inode(a));
    name(a, &(struct ips_chan_hint){.flags = IPS_CHAN_ACCEPTED});
    assert_int_equal(chan()->name_hash, hash);
    assert_int_equal(chan()->peer_ino, inode(c));
    assert_int_equal(chan()->flags, IPS_CHAN_ACCEPTED);
    /* earlier queries took too much of the program's time */
    atomic_store(&diagnosed, UINT64_MAX / 2);
    name(a, &(struct ips_chan_hint){.flags = IPS_CHAN_ACCEPTED});
    assert_int_equal(chan()->peer_ino, 0);
    assert_int_equal(chan()->name_hash, hash);
    atomic_store(&diagnosed, 0);
    close(c);
    name(a, &(struct ips_chan_hint){.flags = IPS_CHAN_ACCEPTED});
    assert_int_equal(chan()->kind, IPS_CHAN_UNIX);
    close(a);
    close(l);
    unlink(un.sun_path);
    rmdir(dir);
}

static void test_chan_name__inet(void **state)
{
    (void)state;
    struct sockaddr_in at, own;
    socklen_t len = sizeof(own);
    int l = bound(SOCK_STREAM, &at), c = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(name(l, NULL), IPS_FD_NOT_A_CHANNEL); /* not yet */
    assert_int_equal(listen(l, 2), 0);
    uint64_t word = name(l, NULL);
    assert_int_equal(ips_fd_class(word), IPS_FD_LISTEN);
    assert_int_equal(word & IPS_FD_FLAGS, 0);
    assert_int_equal(chan()->kind, IPS_CHAN_TCP_LISTEN);
    assert_int_equal(chan()->local.port, ntohs(at.sin_port));
    assert_int_equal(chan()->remote.port, 0);
    assert_int_equal(chan()->netns, netns_of_socket(l));
    assert_int_equal(name(c, NULL), IPS_FD_NOT_A_CHANNEL);
    /* what was given to connect, where the kernel does not say it yet */
    struct ips_chan_hint hint = {.flags = IPS_CHAN_CONNECTED,
                                 .peer = (struct sockaddr *)&at,
                                 .peer_len = sizeof(at)};
    word = name(c, &hint);
    assert_int_equal(chan()->remote.port, ntohs(at.sin_port));
    assert_int_equal(chan()->flags, IPS_CHAN_CONNECTED);
    hint.peer_len = sizeof(struct sockaddr_storage) + 1;
    assert_int_equal(name(c, &hint), IPS_FD_NOT_A_CHANNEL);
    assert_int_equal(connect(c, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(c, (struct sockaddr *)&own, &len), 0);
    int a = accept(l, NULL, NULL);
    assert_int_equal(write(c, "12345", 5), 5);
    assert_int_equal(write(a, "123", 3), 3);
    char two[2];
    assert_int_equal(read(a, two, 2), 2);
    struct pollfd p = {.fd = c, .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(read(c, two, 1), 1);
    word = name(c, NULL);
    assert_int_equal(ips_fd_class(word), IPS_FD_STREAM);
    assert_int_equal(word & IPS_FD_FLAGS, IPS_FD_TCP);
    assert_int_equal(chan()->kind, IPS_CHAN_TCP);
    assert_int_equal(chan()->local.port, ntohs(own.sin_port));
    assert_int_equal(chan()->remote.port, ntohs(at.sin_port));
    assert_int_equal(chan()->sent_before, 5);
    assert_int_equal(chan()->recv_before, 1);
    word = name(a, &(struct ips_chan_hint){.flags = IPS_CHAN_CONNECTED});
    assert_int_equal(word & IPS_FD_FLAGS, IPS_FD_TCP | IPS_FD_CONNECTED);
    assert_int_equal(chan()->sent_before, 3);
    assert_int_equal(chan()->recv_before, 2);
    name(a, &(struct ips_chan_hint){.sent_too = true});
    assert_int_equal(chan()->sent_before | chan()->recv_before, 0);
    /* reset, so that it has no peer: still what was accepted */
    struct linger now = {1, 0};
    setsockopt(c, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(c);
    p = (struct pollfd){.fd = a};
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(name(a, NULL), IPS_FD_NOT_A_CHANNEL);
    name(a, &(struct ips_chan_hint){.flags = IPS_CHAN_ACCEPTED});
    assert_int_equal(chan()->kind, IPS_CHAN_TCP);
    close(a);
    close(l);
    assert_int_equal(options_noted, 0);
    int u = bound(SOCK_DGRAM, &at);
    assert_int_equal(ips_fd_class(name(u, NULL)), IPS_FD_DGRAM);
    assert_int_equal(chan()->kind, IPS_CHAN_UDP);
    assert_int_equal(chan()->local.port, ntohs(at.sin_port));
    assert_int_equal(chan()->netns, netns_of_socket(u));
    assert_int_equal(options_noted, 1);
    close(u);
    int n = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_SOCK_DIAG);
    assert_int_equal(ips_fd_class(name(n, NULL)), IPS_FD_NONE);
    close(n);
}

static void test_chan_name__others(void **state)
{
    (void)state;
    sigset_t set;
    sigemptyset(&set);
    static const char *const files[] = {"/dev/null", "/dev/zero", "/"};
    int fds[] = {
        eventfd(0, 0),          timerfd_create(CLOCK_MONOTONIC, 0),
        signalfd(-1, &set, 0),  inotify_init1(0),
        epoll_create1(0),       (int)syscall(SYS_pidfd_open, getpid(), 0),
        memfd_create("m", 0),   open(files[0], O_RDWR),
        open(files[1], O_RDWR), open(files[2], O_RDONLY)};
    static const enum ips_fd_class classes[] = {
        IPS_FD_EVENTFD, IPS_FD_TIMERFD, IPS_FD_SIGNALFD, IPS_FD_WATCH,
        IPS_FD_EPOLL,   IPS_FD_PIDFD,   IPS_FD_FILE,     IPS_FD_NONE,
        IPS_FD_NONE,    IPS_FD_NONE};
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
        assert_true(fds[i] >= 0);
        uint64_t word = name(fds[i], NULL), id = 0;
        assert_int_equal(ips_fd_class(word), classes[i]);
        if (classes[i] == IPS_FD_EVENTFD) {
            assert_true(ips_read_fdinfo_number(fds[i], "eventfd-id:", &id));
            assert_int_equal((uint32_t)word, id + 1);
        } else if (classes[i] == IPS_FD_PIDFD) {
            assert_int_equal((uint32_t)word, getpid());
        } else {
            assert_int_equal((uint32_t)word, classes[i] == IPS_FD_WATCH);
        }
        close(fds[i]);
    }
    assert_int_equal(ips_chan_identify_and_record(fds[0], 0, NULL),
                     IPS_FD_NOT_A_CHANNEL);
    assert_int_equal(ips_chan_identify_and_record(-1, 0, NULL),
                     IPS_FD_NOT_A_CHANNEL);
    assert_int_equal(lost, 0);
    assert_int_equal(ips_chan_identify_and_record(IPS_FD_MAX, 0, NULL),
                     IPS_FD_NOT_A_CHANNEL);
    assert_int_equal(lost, 1);
}

static void test_chan_name__terminals_and_queues(void **state)
{
    (void)state;
    char side[64];
    unsigned number = 0;
    atomic_store(&shared.has_pty_master, 0);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 &&
        ptsname_r(master, side, sizeof(side)) == 0) {
        assert_int_equal(ioctl(master, TIOCGPTN, &number), 0);
        int slave = open(side, O_RDWR | O_NOCTTY);
        uint64_t word = name(slave, NULL);
        assert_int_equal(ips_fd_class(word), IPS_FD_TERMINAL);
        assert_int_equal((uint32_t)word, (number + 1) << 1);
        assert_int_equal(shared.has_pty_master, 0);
        word = name(master, NULL);
        assert_int_equal(ips_fd_class(word), IPS_FD_TERMINAL);
        assert_int_equal((uint32_t)word, (number + 1) << 1 | 1);
        assert_int_equal(shared.has_pty_master, 1);
        close(slave);
        close(master);
    }
    snprintf(side, sizeof(side), "/ips-chan-%d", (int)getpid());
    mqd_t q = mq_open(side, O_CREAT | O_EXCL | O_RDWR, 0600, NULL);
    if (q >= 0) {
        mq_unlink(side);
        uint64_t word = name(q, NULL);
        assert_int_equal(ips_fd_class(word), IPS_FD_FILE);
        assert_int_equal((uint32_t)word,
                         IPS_READY_NUMBER(IPS_READY_QUEUE(inode(q))));
        mq_close(q);
    }
    /* no queue: another file system's file of the same size */
    int f = memfd_create("m", 0);
    assert_int_equal(ftruncate(f, 80), 0);
    assert_int_equal((uint32_t)name(f, NULL), 0);
    close(f);
    /* numbers of terminals by the kernel's devices */
    static const struct {
        dev_t device;
        uint32_t word;
    } ttys[] = {{136 << 8, 2}, {(136 << 8) + 255, 512},
                {143 << 8, 2}, {(136 << 8) + (1 << 20), 514},
                {135 << 8, 0}, {144 << 8, 0},
                {4 << 8, 0}};
    for (size_t i = 0; i < sizeof(ttys) / sizeof(*ttys); i++) {
        struct stat st = {.st_rdev = ttys[i].device};
        assert_int_equal(encode_pty_and_note_master(-1, &st), ttys[i].word);
    }
    /* what a pidfd looks like */
    struct stat st = {.st_mode = S_IFREG | 0700, .st_dev = 15};
    assert_true(looks_like_pidfd(&st));
    st.st_size = 1;
    assert_false(looks_like_pidfd(&st));
    st.st_size = 0;
    st.st_dev = 256;
    assert_false(looks_like_pidfd(&st));
    st.st_dev = 255;
    assert_true(looks_like_pidfd(&st));
    st.st_mode = S_IFREG | 0600;
    assert_false(looks_like_pidfd(&st));
    assert_int_equal(classify_file(-1, &st, S_IFBLK), IPS_FD_FILE);
    st.st_rdev = 1 << 8 | 3;
    assert_int_equal(classify_file(-1, &st, S_IFCHR), IPS_FD_NONE);
    assert_int_equal(classify_file(-1, &st, S_IFREG), IPS_FD_FILE);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_chan_name__pipes),
        TEST(test_chan_name__unix),
        TEST(test_chan_name__inet),
        TEST(test_chan_name__others),
        TEST(test_chan_name__terminals_and_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
