/* Calls that would make, copy, connect or close descriptors. */
#include "failures.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static int p[2];
static int listener, stranger; /* a socket that listens; one with no peer */

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }

/* No descriptor is to be had: what is there goes on. */
static void limit(rlim_t most)
{
    struct rlimit now;
    must(getrlimit(RLIMIT_NOFILE, &now) == 0);
    now.rlim_cur = most ? most : now.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &now) == 0);
}
#define NONE_LEFT(name, call)                                                  \
    static void case_##name(void)                                              \
    {                                                                          \
        limit(3);                                                              \
        CALL(call);                                                            \
        limit(0);                                                              \
    }

NONE_LEFT(pipe_mfile, pipe(p))
NONE_LEFT(pipe2_mfile, pipe2(p, O_CLOEXEC))
NONE_LEFT(socket_mfile, socket(AF_INET, SOCK_STREAM, 0))
NONE_LEFT(socketpair_mfile, socketpair(AF_UNIX, SOCK_STREAM, 0, p))
NONE_LEFT(eventfd_mfile, eventfd(0, 0))
NONE_LEFT(dup_mfile, dup(empty[0]))
NONE_LEFT(dup2_badf_target, dup2(empty[0], 500))
NONE_LEFT(dupfd_inval, fcntl(empty[0], F_DUPFD, 500))
NONE_LEFT(open_mfile, open("/dev/null", O_RDONLY))
NONE_LEFT(fopen_mfile, (fopen("/dev/null", "r") != NULL))

ONE(pipe2_inval, pipe2(p, 0x10))
ONE(dup_badf, dup(CLOSED))
/* What is to be replaced stays where the copy fails. */
ONE(dup2_badf, dup2(CLOSED, empty[1]))
ONE(dup2_same, dup2(empty[1], empty[1]))
ONE(dup3_badf, dup3(CLOSED, empty[1], 0))
ONE(dup3_same, dup3(empty[1], empty[1], 0))
ONE(dup3_inval, dup3(empty[0], empty[1], 0x10))
ONE(dup2_minus, dup2(empty[0], -1))
ONE(syscall_dup3_inval, syscall(SYS_dup3, empty[0], empty[1], 0x10))
ONE(close_badf, close(CLOSED))
ONE(close_minus, close(-1))
ONE(close_range_order, close_range((unsigned)empty[1], 3, 0))
ONE(close_range_inval,
    close_range((unsigned)empty[0], (unsigned)empty[1], 0x80))
ONE(close_range_cloexec,
    close_range((unsigned)CLOSED, (unsigned)CLOSED + 5, CLOSE_RANGE_CLOEXEC))
ONE(syscall_close_range_inval,
    syscall(SYS_close_range, empty[0], empty[1], 0x80))
ONE(fcntl_badf, fcntl(CLOSED, F_GETFL))
ONE(fcntl_inval, fcntl(empty[0], 12345))
ONE(shutdown_pipe, shutdown(empty[0], SHUT_WR))
ONE(shutdown_inval, shutdown(pair[0], 7))
ONE(shutdown_notconn, shutdown(stranger, SHUT_WR))
ONE(shutdown_badf, shutdown(CLOSED, SHUT_RD))
ONE(open_noent, open("/nonexistent/file", O_RDONLY))
ONE(openat_badf, openat(CLOSED, "file", O_RDONLY))
ONE(fopen_noent, (fopen("/nonexistent/file", "r") != NULL))
ONE(fsync_pipe, fsync(empty[0]))
ONE(fdatasync_badf, fdatasync(CLOSED))

/* A stream whose new file is not there: it is closed, and what it had with it.
 */
static void case_freopen_noent(void)
{
    int fd = dup(empty[1]);
    FILE *f = fdopen(fd, "w");
    must(f && fputs("rest", f) >= 0);
    CALL(freopen("/nonexistent/file", "w", f) != NULL);
    must(read(empty[0], buf, 100) == 4);
}

static void case_close_twice(void)
{
    int fd = dup(empty[0]);
    close(fd);
    CALL(close(fd));
}

/* --- connections --- */

static struct sockaddr_in loopback(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

static void case_listen_badf(void)
{
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    stranger = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in in = loopback();
    must(bind(listener, (struct sockaddr *)&in, sizeof(in)) == 0);
    must(listen(listener, 5) == 0);
    name_end("listener", listener, "both");
    CALL(listen(CLOSED, 5));
}
ONE(listen_pipe, listen(empty[0], 5))
ONE(accept_again, accept(listener, NULL, NULL))
ONE(accept4_again, accept4(listener, NULL, NULL, SOCK_CLOEXEC))
ONE(accept4_inval, accept4(listener, NULL, NULL, 0x40000000))
ONE(accept_badf, accept(CLOSED, NULL, NULL))
ONE(accept_not_listening, accept(pair[0], NULL, NULL))
ONE(accept_unconnected, accept(stranger, NULL, NULL))
ONE(syscall_accept4_again,
    syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC))
/* One connection waits: the one that there was no descriptor for is accepted
 * later. */
static void case_accept_mfile(void)
{
    struct sockaddr_in in;
    socklen_t len = sizeof(in);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    must(getsockname(listener, (struct sockaddr *)&in, &len) == 0);
    must(connect(client, (struct sockaddr *)&in, len) == 0);
    name_end("client", client, "both");
    limit(3);
    CALL(accept(listener, NULL, NULL));
    limit(0);
}
static void case_accept_later(void)
{
    int fd = -1;
    CALL((fd = accept(listener, NULL, NULL)) < 0);
    name_end("accepted", fd, "both");
}

static void case_connect_refused(void)
{
    struct sockaddr_in in = loopback();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int other = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof(in);
    must(bind(other, (struct sockaddr *)&in, sizeof(in)) == 0);
    must(getsockname(other, (struct sockaddr *)&in, &len) == 0);
    CALL(connect(fd, (struct sockaddr *)&in, len));
    close(fd);
    close(other);
}
static void case_connect_isconn(void)
{
    struct sockaddr_in in;
    socklen_t len = sizeof(in);
    must(getsockname(listener, (struct sockaddr *)&in, &len) == 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&in, len) == 0);
    CALL(connect(fd, (struct sockaddr *)&in, len));
    close(fd);
    close(accept(listener, NULL, NULL));
}
static void case_connect_noent(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX,
                             .sun_path = "/nonexistent/socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(connect(fd, (struct sockaddr *)&un, sizeof(un)));
    close(fd);
}
static void case_connect_unspec(void)
{
    struct sockaddr_in in = loopback();
    in.sin_family = 99;
    CALL(connect(stranger, (struct sockaddr *)&in, sizeof(in)));
}
ONE(connect_badf, connect(CLOSED, (struct sockaddr *)buf, 16))
ONE(connect_fault, connect(stranger, NULL, 16))
ONE(send_notconn, send(stranger, buf, 10, MSG_NOSIGNAL))
ONE(recv_notconn, recv(stranger, buf, 10, 0))

/* --- datagrams --- */
static int dgram;

static void case_dgram_again(void)
{
    struct sockaddr_in in = loopback();
    dgram = socket(AF_INET, SOCK_DGRAM, 0);
    must(bind(dgram, (struct sockaddr *)&in, sizeof(in)) == 0);
    name_end("dgram", dgram, "both");
    no_wait(dgram);
    CALL(recv(dgram, buf, 10, 0));
}
ONE(dgram_recvfrom_again, recvfrom(dgram, buf, 10, 0, NULL, NULL))
ONE(dgram_read_again, read(dgram, buf, 10))
ONE(dgram_no_address, send(dgram, buf, 10, 0))
static void case_dgram_too_long(void)
{
    struct sockaddr_in in = loopback();
    in.sin_port = htons(9);
    CALL(
        sendto(dgram, buf, sizeof(buf), 0, (struct sockaddr *)&in, sizeof(in)));
}
static void case_dgram_recvmmsg_again(void)
{
    struct iovec iov = {buf, 10};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};
    CALL(recvmmsg(dgram, &m, 1, 0, NULL));
    /* what the copies of the headers were for is not to be seen */
    must(m.msg_hdr.msg_name == NULL && m.msg_hdr.msg_namelen == 0 &&
         m.msg_hdr.msg_iov == &iov);
}

static void case_getaddrinfo_noname(void)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found = NULL;
    CALL(getaddrinfo("no.such.name", NULL, &hints, &found));
}

/* Nothing of all this has changed what the ends are. */
static void case_still_there(void)
{
    must(write(empty[1], buf, 10) == 10);
    CALL(read(empty[0], buf, 100));
}
ONE(still_paired, send(pair[0], buf, 20, 0))

const struct one_case descriptor_cases[] = {CASE(pipe_mfile),
                                            CASE(pipe2_mfile),
                                            CASE(socket_mfile),
                                            CASE(socketpair_mfile),
                                            CASE(eventfd_mfile),
                                            CASE(dup_mfile),
                                            CASE(dup2_badf_target),
                                            CASE(dupfd_inval),
                                            CASE(open_mfile),
                                            CASE(fopen_mfile),
                                            CASE(pipe2_inval),
                                            CASE(dup_badf),
                                            CASE(dup2_badf),
                                            CASE(dup2_same),
                                            CASE(dup3_badf),
                                            CASE(dup3_same),
                                            CASE(dup3_inval),
                                            CASE(dup2_minus),
                                            CASE(syscall_dup3_inval),
                                            CASE(close_badf),
                                            CASE(close_minus),
                                            CASE(close_range_order),
                                            CASE(close_range_inval),
                                            CASE(close_range_cloexec),
                                            CASE(syscall_close_range_inval),
                                            CASE(fcntl_badf),
                                            CASE(fcntl_inval),
                                            CASE(shutdown_pipe),
                                            CASE(shutdown_inval),
                                            CASE(shutdown_badf),
                                            CASE(open_noent),
                                            CASE(openat_badf),
                                            CASE(fopen_noent),
                                            CASE(fsync_pipe),
                                            CASE(fdatasync_badf),
                                            CASE(freopen_noent),
                                            CASE(close_twice),
                                            CASE(listen_badf),
                                            CASE(shutdown_notconn),
                                            CASE(listen_pipe),
                                            CASE(accept_again),
                                            CASE(accept4_again),
                                            CASE(accept4_inval),
                                            CASE(accept_badf),
                                            CASE(accept_not_listening),
                                            CASE(accept_unconnected),
                                            CASE(syscall_accept4_again),
                                            CASE(accept_mfile),
                                            CASE(accept_later),
                                            CASE(connect_refused),
                                            CASE(connect_isconn),
                                            CASE(connect_noent),
                                            CASE(connect_unspec),
                                            CASE(connect_badf),
                                            CASE(connect_fault),
                                            CASE(send_notconn),
                                            CASE(recv_notconn),
                                            CASE(dgram_again),
                                            CASE(dgram_recvfrom_again),
                                            CASE(dgram_read_again),
                                            CASE(dgram_no_address),
                                            CASE(dgram_too_long),
                                            CASE(dgram_recvmmsg_again),
                                            CASE(getaddrinfo_noname),
                                            CASE(still_there),
                                            CASE(still_paired),
                                            {NULL, NULL}};
