/* i_dgram: UDP and Unix datagrams by every call; prints what came. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static int bound_udp(struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    memset(at, 0, sizeof(*at));
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)at, sizeof(*at)) ||
        getsockname(fd, (struct sockaddr *)at, &len))
        return -1;
    return fd;
}

static void print(const char *what, ssize_t n, const char *buf)
{
    printf("%s %zd %.*s\n", what, n, n > 0 && n < 20 ? (int)n : 0, buf);
}

static void udp(void)
{
    struct sockaddr_in a_at, b_at, from;
    socklen_t len = sizeof(from);
    char buf[100];
    int a = bound_udp(&a_at), b = bound_udp(&b_at);
    struct sockaddr *to = (struct sockaddr *)&b_at;
    sendto(a, "one", 3, 0, to, sizeof(b_at));
    print("recv", recv(b, buf, sizeof(buf), 0), buf);
    sendto(a, "two", 3, 0, to, sizeof(b_at));
    print("peek", recv(b, buf, sizeof(buf), MSG_PEEK), buf);
    print("read", read(b, buf, sizeof(buf)), buf);
    sendto(a, "three", 5, 0, to, sizeof(b_at));
    ssize_t n =
        recvfrom(b, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);
    print("recvfrom", n, buf);
    printf("from a: %d, %u\n", from.sin_port == a_at.sin_port, len);
    sendto(a, "truncated", 9, 0, to, sizeof(b_at));
    print("trunc", recv(b, buf, 4, MSG_TRUNC), "");
    sendto(a, "", 0, 0, to, sizeof(b_at));
    print("empty", recv(b, buf, sizeof(buf), 0), buf);
    print("nothing", recv(b, buf, sizeof(buf), MSG_DONTWAIT), buf);
    if (connect(a, to, sizeof(b_at)))
        return;
    if (write(a, "four", 4) != 4)
        return;
    struct iovec iov[2] = {{buf, 2}, {buf + 2, 50}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    n = recvmsg(b, &m, 0);
    print("recvmsg", n, buf);
    printf("name %p %u flags %d\n", m.msg_name, m.msg_namelen, m.msg_flags);
    struct mmsghdr out[3], in[5];
    struct iovec out_iov[3], in_iov[5];
    char text[3][8] = {"m0", "mm1", "mmm2"}, space[5][16];
    memset(out, 0, sizeof(out));
    memset(in, 0, sizeof(in));
    for (int i = 0; i < 3; i++) {
        out_iov[i] = (struct iovec){text[i], strlen(text[i])};
        out[i].msg_hdr.msg_iov = &out_iov[i];
        out[i].msg_hdr.msg_iovlen = 1;
    }
    for (int i = 0; i < 5; i++) {
        in_iov[i] = (struct iovec){space[i], sizeof(space[i])};
        in[i].msg_hdr.msg_iov = &in_iov[i];
        in[i].msg_hdr.msg_iovlen = 1;
    }
    printf("sendmmsg %d\n", sendmmsg(a, out, 3, 0));
    int r = recvmmsg(b, in, 5, MSG_DONTWAIT, NULL);
    printf("recvmmsg %d\n", r);
    for (int i = 0; i < r; i++)
        print(" message", in[i].msg_len, space[i]);
    close(a);
    close(b);
}

static void local(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char buf[100];
    int fds[2];
    snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "i_dgram-%d",
             (int)getpid());
    int a = socket(AF_UNIX, SOCK_DGRAM, 0), b = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (bind(b, (struct sockaddr *)&at, sizeof(at)))
        return;
    sendto(a, "named", 5, 0, (struct sockaddr *)&at, sizeof(at));
    print("unix", recv(b, buf, sizeof(buf), 0), buf);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fds))
        return;
    if (write(fds[0], "pair", 4) == 4)
        print("pair", read(fds[1], buf, sizeof(buf)), buf);
}

int main(void)
{
    udp();
    local();
    return 0;
}
