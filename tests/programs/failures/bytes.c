/* Calls that would move bytes. */
#include "failures.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

static struct iovec iov = {buf, 10};
static struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
static struct mmsghdr many = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

/* An address that is in no mapping, which the compiler does not know. */
static void *nowhere(void)
{
    return (void *)(uintptr_t)strtoul("16", NULL, 10);
}

static int too_many(void)
{
    return (int)strtol("2147483647", NULL, 10);
}

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }

/* Nothing there, and it would not wait. */
ONE(read_again, read(empty[0], buf, 10))
ONE(readv_again, readv(empty[0], &iov, 1))
ONE(preadv2_again, preadv2(empty[0], &iov, 1, -1, 0))
ONE(recv_again, recv(pair[0], buf, 10, 0))
ONE(recv_dontwait, recv(pair[0], buf, 10, MSG_DONTWAIT))
ONE(recvfrom_again, recvfrom(pair[0], buf, 10, 0, NULL, NULL))
ONE(recvmsg_again, recvmsg(pair[0], &msg, 0))
ONE(recvmmsg_again, recvmmsg(pair[0], &many, 1, 0, NULL))
ONE(recv_peek_again, recv(pair[0], buf, 10, MSG_PEEK))
ONE(syscall_read_again, syscall(SYS_read, empty[0], buf, 10))
/* No room. */
ONE(write_again, write(full[1], buf, 10))
ONE(writev_again, writev(full[1], &iov, 1))
ONE(pwritev2_again, pwritev2(full[1], &iov, 1, -1, 0))
ONE(send_again, send(full_socket[0], buf, 10, 0))
ONE(sendto_again, sendto(full_socket[0], buf, 10, 0, NULL, 0))
ONE(sendmsg_again, sendmsg(full_socket[0], &msg, 0))
ONE(sendmmsg_again, sendmmsg(full_socket[0], &many, 1, 0))
ONE(syscall_write_again, syscall(SYS_write, full[1], buf, 10))
/* Nobody reads it any more. */
ONE(write_pipe, write(broken, buf, 10))
ONE(writev_pipe, writev(broken, &iov, 1))
ONE(send_pipe, send(broken_sock, buf, 10, MSG_NOSIGNAL))
ONE(sendmsg_pipe, sendmsg(broken_sock, &msg, MSG_NOSIGNAL))
ONE(sendmmsg_pipe, sendmmsg(broken_sock, &many, 1, MSG_NOSIGNAL))
/* The end's end, for which nobody waited. */
ONE(recv_end, recv(broken_sock, buf, 10, 0))
ONE(recvmsg_end, recvmsg(broken_sock, &msg, 0))
/* No descriptor. */
ONE(read_badf, read(CLOSED, buf, 10))
ONE(write_badf, write(CLOSED, buf, 10))
ONE(read_minus, read(-1, buf, 10))
ONE(readv_badf, readv(CLOSED, &iov, 1))
ONE(send_badf, send(CLOSED, buf, 10, 0))
ONE(recv_badf, recv(CLOSED, buf, 10, 0))
ONE(sendmsg_badf, sendmsg(CLOSED, &msg, 0))
ONE(recvmmsg_badf, recvmmsg(CLOSED, &many, 1, 0, NULL))
ONE(pread_badf, pread(CLOSED, buf, 10, 0))
/* The wrong kind of end, or of call. */
ONE(read_writing_end, read(empty[1], buf, 10))
ONE(write_reading_end, write(empty[0], buf, 10))
ONE(recv_pipe, recv(empty[0], buf, 10, 0))
ONE(send_to_pipe, send(empty[1], buf, 10, 0))
ONE(pread_pipe, pread(empty[0], buf, 10, 0))
ONE(pwrite_pipe, pwrite(empty[1], buf, 10, 0))
/* What cannot be read, or is no list. */
ONE(readv_inval, readv(empty[0], &iov, too_many()))
ONE(writev_inval, writev(empty[1], &iov, too_many()))
ONE(sendmsg_fault, sendmsg(pair[0], nowhere(), 0))
ONE(recvmsg_fault, recvmsg(pair[0], nowhere(), 0))
/* Nothing asked for. */
ONE(read_nothing, read(empty[0], buf, 0))
ONE(write_nothing, write(empty[1], buf, 0))
ONE(send_nothing, send(pair[0], buf, 0, 0))

/* The kernel cannot write there: the bytes stay, and come in one piece. */
static void case_read_fault(void)
{
    must(write(empty[1], buf, 30) == 30);
    CALL(read(empty[0], nowhere(), 10));
}
ONE(read_after_fault, read(empty[0], buf, 100))
ONE(write_fault, write(empty[1], nowhere(), 10))

/* --- from descriptor to descriptor: one record, at the reading end where that
 * is a channel --- */
static int file = -1;

static void case_splice_again(void)
{
    CALL(splice(empty[0], NULL, pair[0], NULL, 10, SPLICE_F_NONBLOCK));
}
static void case_splice_badf(void)
{
    CALL(splice(empty[0], NULL, CLOSED, NULL, 10, 0));
}
static void case_splice_full(void)
{
    must(write(empty[1], buf, 10) == 10);
    CALL(splice(empty[0], NULL, full_socket[0], NULL, 10, SPLICE_F_NONBLOCK));
    must(read(empty[0], buf, 100) == 10);
}
static void case_splice_from_file(void)
{
    file = open("/proc/self/exe", O_RDONLY);
    must(file >= 0);
    CALL(splice(file, NULL, full[1], NULL, 10, SPLICE_F_NONBLOCK));
}
static void case_splice_no_pipe(void)
{
    CALL(splice(pair[0], NULL, pair[1], NULL, 10, 0));
}
static void case_tee_again(void)
{
    CALL(tee(empty[0], full[1], 10, SPLICE_F_NONBLOCK));
}
static void case_tee_same(void)
{
    CALL(tee(empty[0], empty[1], 10, 0));
}
static void case_sendfile_full(void)
{
    off_t at = 0;
    CALL(sendfile(full_socket[0], file, &at, 10));
}
static void case_sendfile_badf(void)
{
    CALL(sendfile(full_socket[0], CLOSED, NULL, 10));
}
static void case_sendfile_from_pipe(void)
{
    CALL(sendfile(pair[0], empty[0], NULL, 10));
}
static void case_vmsplice_full(void)
{
    CALL(vmsplice(full[1], &iov, 1, SPLICE_F_NONBLOCK));
}
static void case_vmsplice_empty(void)
{
    CALL(vmsplice(empty[0], &iov, 1, SPLICE_F_NONBLOCK));
}
static void case_copy_badf(void)
{
    CALL(copy_file_range(file, NULL, empty[1], NULL, 10, 0));
}

/* --- counters and the like --- */
static void case_eventfd_again(void)
{
    int fd = eventfd(0, EFD_NONBLOCK);
    CALL(read(fd, buf, 8));
    close(fd);
}
static void case_eventfd_short(void)
{
    int fd = eventfd(1, EFD_NONBLOCK);
    CALL(read(fd, buf, 4));
    close(fd);
}
static void case_eventfd_full(void)
{
    const uint64_t most = UINT64_MAX - 1;
    int fd = eventfd(0, EFD_NONBLOCK);
    must(write(fd, &most, 8) == 8);
    CALL(write(fd, &most, 8));
    close(fd);
}
static void case_timerfd_again(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    CALL(read(fd, buf, 8));
    close(fd);
}
static void case_signalfd_again(void)
{
    sigset_t set;
    sigemptyset(&set);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    CALL(read(fd, buf, 128));
    close(fd);
}

/* --- interrupted, in a call that would have waited --- */
static void case_read_interrupted(void)
{
    int p[2];
    must(pipe(p) == 0);
    name_end("own.r", p[0], "read");
    alarms_begin();
    CALL(read(p[0], buf, 10));
    alarms_end();
    close(p[0]);
    close(p[1]);
}
static void case_recv_interrupted(void)
{
    alarms_begin();
    CALL(recv(pair[1], buf, 10, 0));
    alarms_end();
}
static void case_recvmsg_interrupted(void)
{
    alarms_begin();
    CALL(recvmsg(pair[1], &msg, 0));
    alarms_end();
}
static void case_recv_timeout(void)
{
    const struct timeval limit = {0, 30000};
    must(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ==
         0);
    CALL(recv(pair[1], buf, 10, 0));
}
static void case_eventfd_interrupted(void)
{
    int fd = eventfd(0, 0);
    alarms_begin();
    CALL(read(fd, buf, 8));
    alarms_end();
    close(fd);
}
static void case_write_interrupted(void)
{
    must(fcntl(full[1], F_SETFL, O_WRONLY) == 0);
    alarms_begin();
    CALL(write(full[1], buf, 10));
    alarms_end();
    no_wait(full[1]);
}

/* --- the C library's own --- */
static void case_fflush_pipe(void)
{
    FILE *f = fdopen(dup(broken), "w");
    must(f && fprintf(f, "hello") == 5);
    CALL(fflush(f));
    fclose(f);
}
static void case_fread_again(void)
{
    FILE *f = fdopen(dup(empty[0]), "r");
    CALL(fread(buf, 1, 10, f));
    fclose(f);
}
static void case_getline_again(void)
{
    FILE *f = fdopen(dup(empty[0]), "r");
    char *line = NULL;
    size_t size = 0;
    CALL(getline(&line, &size, f));
    free(line);
    fclose(f);
}
static void case_fputs_again(void)
{
    FILE *f = fdopen(dup(full[1]), "w");
    setvbuf(f, NULL, _IONBF, 0);
    CALL(fputs("hello", f));
    fclose(f);
}

/* Nothing of all this has changed what the ends are. */
static void case_still_there(void)
{
    must(write(empty[1], buf, 10) == 10);
    CALL(read(empty[0], buf, 100));
    must(read(full[0], buf, 4096) == 4096);
    must(write(full[1], buf, 4096) == 4096);
}

const struct one_case bytes_cases[] = {CASE(read_again),
                                       CASE(readv_again),
                                       CASE(preadv2_again),
                                       CASE(recv_again),
                                       CASE(recv_dontwait),
                                       CASE(recvfrom_again),
                                       CASE(recvmsg_again),
                                       CASE(recvmmsg_again),
                                       CASE(recv_peek_again),
                                       CASE(syscall_read_again),
                                       CASE(write_again),
                                       CASE(writev_again),
                                       CASE(pwritev2_again),
                                       CASE(send_again),
                                       CASE(sendto_again),
                                       CASE(sendmsg_again),
                                       CASE(sendmmsg_again),
                                       CASE(syscall_write_again),
                                       CASE(write_pipe),
                                       CASE(writev_pipe),
                                       CASE(send_pipe),
                                       CASE(sendmsg_pipe),
                                       CASE(sendmmsg_pipe),
                                       CASE(recv_end),
                                       CASE(recvmsg_end),
                                       CASE(read_badf),
                                       CASE(write_badf),
                                       CASE(read_minus),
                                       CASE(readv_badf),
                                       CASE(send_badf),
                                       CASE(recv_badf),
                                       CASE(sendmsg_badf),
                                       CASE(recvmmsg_badf),
                                       CASE(pread_badf),
                                       CASE(read_writing_end),
                                       CASE(write_reading_end),
                                       CASE(recv_pipe),
                                       CASE(send_to_pipe),
                                       CASE(pread_pipe),
                                       CASE(pwrite_pipe),
                                       CASE(readv_inval),
                                       CASE(writev_inval),
                                       CASE(sendmsg_fault),
                                       CASE(recvmsg_fault),
                                       CASE(read_nothing),
                                       CASE(write_nothing),
                                       CASE(send_nothing),
                                       CASE(read_fault),
                                       CASE(read_after_fault),
                                       CASE(write_fault),
                                       CASE(splice_again),
                                       CASE(splice_badf),
                                       CASE(splice_full),
                                       CASE(splice_from_file),
                                       CASE(splice_no_pipe),
                                       CASE(tee_again),
                                       CASE(tee_same),
                                       CASE(sendfile_full),
                                       CASE(sendfile_badf),
                                       CASE(sendfile_from_pipe),
                                       CASE(vmsplice_full),
                                       CASE(vmsplice_empty),
                                       CASE(copy_badf),
                                       CASE(eventfd_again),
                                       CASE(eventfd_short),
                                       CASE(eventfd_full),
                                       CASE(timerfd_again),
                                       CASE(signalfd_again),
                                       CASE(read_interrupted),
                                       CASE(recv_interrupted),
                                       CASE(recvmsg_interrupted),
                                       CASE(recv_timeout),
                                       CASE(eventfd_interrupted),
                                       CASE(write_interrupted),
                                       CASE(fflush_pipe),
                                       CASE(fread_again),
                                       CASE(getline_again),
                                       CASE(fputs_again),
                                       CASE(still_there),
                                       {NULL, NULL}};
