/* Identifies the ends of channels: see chan_name.h. */
#include "agent/preload/chan_name.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include "agent/preload/sample/sample.h"
#include "agent/record/core.h"
#include "agent/record/cpu.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"
#include "agent/unwind/modules.h"
#include "common/types.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* Returns the network namespace in which the socket was created, even if the
 * calling thread is in another one now. (Before Linux 5.14: the calling
 * thread's namespace.) 0: unknown. */
static uint64_t netns_of_socket(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);
    struct stat st;
    if (ips_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_NETNS_COOKIE, (long)&cookie,
                 (long)&len, 0) == 0 &&
        cookie)
        return cookie;
    return ips_sys_stat("/proc/thread-self/ns/net", &st) == 0 ? st.st_ino : 0;
}

static int get_socket_option_int(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);
    if (ips_sys6(SYS_getsockopt, fd, SOL_SOCKET, option, (long)&value,
                 (long)&len, 0) < 0)
        return -1;
    return value;
}

/* Stores the socket's own name, or its peer's (`call`: SYS_getsockname or
 * SYS_getpeername), in *ss. Returns its length; 0: there is none. */
static socklen_t get_socket_address(long call, int fd,
                                    struct sockaddr_storage *ss)
{
    socklen_t len = sizeof(*ss);
    memset(ss, 0, sizeof(*ss));
    if (ips_sys3(call, fd, (long)ss, (long)&len) < 0)
        return 0;
    return len;
}

static void convert_socket_address(struct ips_addr *out, const void *name,
                                   socklen_t len)
{
    sa_family_t family;
    memset(out, 0, sizeof(*out));
    if (!name || len < sizeof(family))
        return;
    memcpy(&family, name, sizeof(family));
    if (family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;
        memcpy(&in, name, sizeof(in));
        out->family = AF_INET6;
        out->port = ntohs(in.sin_port);
        out->addr[10] = out->addr[11] = 0xff;
        memcpy(out->addr + 12, &in.sin_addr, 4);
    } else if (family == AF_INET6 && len >= 24) {
        struct sockaddr_in6 in6;
        /* 24 bytes: all but the scope id, which older programs leave out */
        memcpy(&in6, name, 24);
        out->family = AF_INET6;
        out->port = ntohs(in6.sin6_port);
        memcpy(out->addr, &in6.sin6_addr, 16);
    }
}

/* Returns the hash of `name`, a Unix socket name that `fd` has or connects to;
 * 0: unnamed socket. A path ends at its NUL. An abstract name (first byte NUL)
 * ends at `len`. It is valid in one network namespace only, which is therefore
 * hashed as well. */
static uint64_t hash_unix_socket_name(int fd, const void *name, socklen_t len)
{
    const size_t head = offsetof(struct sockaddr_un, sun_path);
    sa_family_t family;
    if (!name || len <= head)
        return 0;
    memcpy(&family, name, sizeof(family));
    if (family != AF_UNIX)
        return 0;
    const char *path = (const char *)name + head;
    size_t n = len - head;
    if (path[0])
        return ips_fnv1a(IPS_FNV_SEED, path, strnlen(path, n));
    uint64_t netns = netns_of_socket(fd);
    return ips_fnv1a(ips_fnv1a(IPS_FNV_SEED, path, n), &netns, sizeof(netns));
}

/* The IP address is not part of the name: a port listened to at several
 * addresses counts as one listener. */
bool ips_listen_name_of_address(int fd, const struct sockaddr *name,
                                socklen_t len,
                                struct ips_listen_name_of_socket *out)
{
    struct ips_addr inet;
    convert_socket_address(&inet, name, len);
    uint64_t hash = hash_unix_socket_name(fd, name, len);
    if (!inet.port && !hash)
        return false;
    *out = (struct ips_listen_name_of_socket){
        netns_of_socket(fd), hash ? hash : inet.port, hash ? AF_UNIX : AF_INET};
    return true;
}

bool ips_listen_name_of_socket(int fd, bool peer,
                               struct ips_listen_name_of_socket *out)
{
    struct sockaddr_storage name;
    socklen_t len =
        get_socket_address(peer ? SYS_getpeername : SYS_getsockname, fd, &name);
    return len && ips_listen_name_of_address(fd, (const struct sockaddr *)&name,
                                             len, out);
}

struct unix_diag_query {
    struct {
        struct nlmsghdr head;
        struct unix_diag_req req;
    } ask;
    union {
        struct nlmsghdr head;
        char bytes[512];
    } answer;
    uint64_t cpu_ns; /* CPU time of the query */
};

/* Sends the query of `arg` (struct unix_diag_query) to the kernel's socket
 * diagnostics. Returns the length of the answer, or a negative error number. */
static long query_socket_diagnostics(void *arg)
{
    struct unix_diag_query *d = arg;
    uint64_t from = ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    long fd =
        ips_sys3(SYS_socket, AF_NETLINK,
                 SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return fd;
    long got = ips_sys6(SYS_sendto, fd, (long)&d->ask, sizeof(d->ask),
                        MSG_NOSIGNAL, 0, 0);
    if (got == (long)sizeof(d->ask))
        got = ips_sys6(SYS_recvfrom, fd, (long)&d->answer, sizeof(d->answer),
                       MSG_DONTWAIT, 0, 0);
    ips_sys_close((int)fd);
    d->cpu_ns = ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
    return got;
}

/* Returns the inode of the peer socket from the kernel's answer of `got` bytes;
 * 0: the answer does not contain it. */
static uint64_t parse_unix_peer_inode(const struct unix_diag_query *d, long got)
{
    /* Parsed by hand, because the kernel's macros for attributes mix signed and
     * unsigned numbers. */
    const long fixed = sizeof(struct nlmsghdr) + sizeof(struct unix_diag_msg);
    const long attr_head = sizeof(struct nlattr);
    if (got < fixed || d->answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return 0;
    for (long at = fixed; at + attr_head <= got;) {
        struct nlattr attr;
        memcpy(&attr, d->answer.bytes + at, sizeof(attr));
        if (attr.nla_len < attr_head || at + attr.nla_len > got)
            break;
        uint32_t peer;
        if (attr.nla_type == UNIX_DIAG_PEER &&
            attr.nla_len >= attr_head + (long)sizeof(peer)) {
            memcpy(&peer, d->answer.bytes + at + attr_head, sizeof(peer));
            return peer;
        }
        at += (attr.nla_len + 3) & ~3;
    }
    return 0;
}

/* CPU time that this image has spent in query_unix_peer_inode(), in stamps. The
 * kernel looks at every Unix socket of the machine until it finds the inode, so
 * one query takes 50 us, or milliseconds if there are thousands of sockets. */
static _Atomic uint64_t diagnosed;
static _Atomic uint64_t diagnosed_by; /* the image_stamp of that image */

/* Whether this image may spend more time on queries: at most a 32nd of its
 * elapsed time plus QUERY_FREE_MS. Without an answer the slave joins
 * connections of one name and pid in their order. */
#define QUERY_FREE_MS 2u
#define QUERY_PART 32u
static bool may_spend_time_on_peer_query(uint64_t now)
{
    if (atomic_exchange(&diagnosed_by, ips_core.image_stamp) !=
        ips_core.image_stamp)
        atomic_store(&diagnosed, 0);
    return atomic_load(&diagnosed) <=
           ips_sub_sat(now, ips_core.image_stamp) / QUERY_PART +
               QUERY_FREE_MS * ips_core.retry_ticks;
}

/* Returns the inode of the socket at the other end of the Unix socket with
 * inode `ino`, from the kernel's socket diagnostics; 0: unknown (refused, not
 * accepted yet, or not asked to save time). */
static uint64_t query_unix_peer_inode(uint64_t ino)
{
    if (!may_spend_time_on_peer_query(ips_core_stamp_now()))
        return 0;
    struct unix_diag_query d = {
        .ask = {.head = {.nlmsg_len = sizeof(d.ask),
                         .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                         .nlmsg_flags = NLM_F_REQUEST},
                .req = {.sdiag_family = AF_UNIX,
                        .udiag_states = (__u32)-1,
                        .udiag_ino = (__u32)ino,
                        .udiag_show = UDIAG_SHOW_PEER,
                        .udiag_cookie = {(__u32)-1, (__u32)-1}}}};
    long got = ips_run_with_own_fd_table(query_socket_diagnostics, &d);
    atomic_fetch_add(&diagnosed, d.cpu_ns * ips_core.retry_ticks / 1000000);
    return parse_unix_peer_inode(&d, got);
}

/* Stores the numbers of bytes that the program has written to and read from a
 * TCP socket so far in *sent and *recv. False: unknown, and both stay as they
 * were. */
static bool read_tcp_byte_totals(int fd, uint64_t *sent, uint64_t *recv)
{
    enum { CLOSE = 7, CLOSE_WAIT = 8, LAST_ACK = 9, CLOSING = 11 };
    struct tcp_info info;
    socklen_t len = sizeof(info);
    int unread = 0;
    memset(&info, 0, sizeof(info));
    if (ips_sys6(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, (long)&info,
                 (long)&len, 0) < 0 ||
        len < offsetof(struct tcp_info, tcpi_bytes_retrans) + 8 ||
        info.tcpi_state == CLOSE) /* a closed socket keeps no counters */
        return false;
    if (ips_sys3(SYS_ioctl, fd, FIONREAD, (long)&unread) < 0)
        unread = 0;
    *sent = ips_sub_sat(info.tcpi_bytes_sent, info.tcpi_bytes_retrans) +
            info.tcpi_notsent_bytes;
    /* the peer's FIN takes a sequence number, so it is counted as a received
     * byte */
    bool fin = info.tcpi_state == CLOSE_WAIT || info.tcpi_state == LAST_ACK ||
               info.tcpi_state == CLOSING;
    *recv = ips_sub_sat(info.tcpi_bytes_received, (uint64_t)unread + fin);
    return true;
}

static uint64_t store_and_record_channel(int fd, uint64_t seen,
                                         struct ips_rec_chan *chan,
                                         enum ips_fd_class klass,
                                         uint64_t flags)
{
    uint32_t id = ips_fd_allocate_channel_id();
    if (!id) {
        ips_core_count_and_write_lost(IPS_LOST_NO_CHANNEL, 1);
        return ips_fd_store_if_unchanged(fd, seen, IPS_FD_NONE, 0, 0);
    }
    uint64_t word = ips_fd_store_if_unchanged(fd, seen, klass, id, flags);
    if (ips_fd_channel_id(word) != id)
        /* another thread identified the descriptor first, or closed it */
        return word;
    struct ips_rec_chan *rec =
        (struct ips_rec_chan *)ips_rec_begin(IPS_REC_CHAN, sizeof(*rec));
    if (rec) {
        const size_t head = sizeof(struct ips_rec_head);
        rec->h.a = id;
        memcpy((char *)rec + head, (char *)chan + head, sizeof(*rec) - head);
        ips_rec_publish(rec);
    }
    return word;
}

static uint64_t record_pipe_identity(int fd, uint64_t seen,
                                     struct ips_rec_chan *chan)
{
    long mode = ips_sys3(SYS_fcntl, fd, F_GETFL, 0);
    if (mode < 0)
        mode = O_RDWR;
    chan->kind = IPS_CHAN_PIPE;
    chan->flags |= mode & O_DIRECT ? IPS_CHAN_PACKETS : 0;
    chan->side = (mode & O_ACCMODE) == O_RDONLY   ? IPS_SIDE_READ
                 : (mode & O_ACCMODE) == O_WRONLY ? IPS_SIDE_WRITE
                                                  : IPS_SIDE_BOTH;
    return store_and_record_channel(fd, seen, chan, IPS_FD_STREAM, 0);
}

static uint64_t identify_and_record_inet_socket(
    int fd, uint64_t seen, struct ips_rec_chan *chan, bool stream,
    bool listening, socklen_t peer_len, const struct ips_chan_hint *hint)
{
    chan->netns = netns_of_socket(fd);
    if (!stream) {
        chan->kind = IPS_CHAN_UDP;
        ips_note_if_fd_has_udp_segment_options(fd);
        return store_and_record_channel(fd, seen, chan, IPS_FD_DGRAM, 0);
    }
    if (listening) {
        chan->kind = IPS_CHAN_TCP_LISTEN;
        return store_and_record_channel(fd, seen, chan, IPS_FD_LISTEN, 0);
    }
    chan->kind = IPS_CHAN_TCP;
    /* an accepted socket is a channel even if it was reset and has no peer */
    if (!peer_len && !(chan->flags & IPS_CHAN_ACCEPTED))
        /* not connected yet: the kernel is asked again at the next use */
        return IPS_FD_NOT_A_CHANNEL;
    if (!hint || !hint->sent_too)
        read_tcp_byte_totals(fd, &chan->sent_before, &chan->recv_before);
    uint64_t flags = IPS_FD_TCP;
    if (chan->flags & IPS_CHAN_CONNECTED)
        flags |= IPS_FD_CONNECTED;
    return store_and_record_channel(fd, seen, chan, IPS_FD_STREAM, flags);
}

static uint64_t record_unix_socket_identity(int fd, uint64_t seen,
                                            struct ips_rec_chan *chan,
                                            bool stream, bool listening,
                                            socklen_t peer_len)
{
    if (stream && listening) {
        chan->kind = IPS_CHAN_UNIX_LISTEN;
        return store_and_record_channel(fd, seen, chan, IPS_FD_LISTEN, 0);
    }
    if (peer_len && !chan->peer_ino)
        chan->peer_ino = query_unix_peer_inode(chan->ino);
    if (!stream) {
        chan->kind = IPS_CHAN_UNIX_DGRAM;
        return store_and_record_channel(fd, seen, chan, IPS_FD_DGRAM, 0);
    }
    if (!peer_len && !(chan->flags & IPS_CHAN_ACCEPTED))
        return IPS_FD_NOT_A_CHANNEL;
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);
    if (ips_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&cred,
                 (long)&len, 0) == 0)
        chan->peer_pid = (uint32_t)cred.pid;
    chan->kind = IPS_CHAN_UNIX;
    return store_and_record_channel(
        fd, seen, chan, IPS_FD_STREAM,
        chan->flags & IPS_CHAN_CONNECTED ? IPS_FD_CONNECTED : 0);
}

static uint64_t identify_and_record_socket(int fd, uint64_t seen,
                                           struct ips_rec_chan *chan,
                                           const struct ips_chan_hint *hint)
{
    int domain = get_socket_option_int(fd, SO_DOMAIN);
    int type = get_socket_option_int(fd, SO_TYPE);
    int protocol = get_socket_option_int(fd, SO_PROTOCOL);
    bool inet = domain == AF_INET || domain == AF_INET6;
    bool stream = type == SOCK_STREAM || type == SOCK_SEQPACKET;
    bool known =
        domain == AF_UNIX
            ? stream || type == SOCK_DGRAM
            : inet && ((type == SOCK_STREAM && (protocol == IPPROTO_TCP ||
                                                protocol == IPPROTO_MPTCP)) ||
                       (type == SOCK_DGRAM && protocol == IPPROTO_UDP));
    if (!known)
        return ips_fd_store_if_unchanged(fd, seen, IPS_FD_NONE, 0, 0);
    chan->flags |= type == SOCK_SEQPACKET ? IPS_CHAN_PACKETS : 0;

    struct sockaddr_storage local, peer;
    socklen_t local_end_len = get_socket_address(SYS_getsockname, fd, &local);
    socklen_t peer_len = get_socket_address(SYS_getpeername, fd, &peer);
    if (!peer_len && hint && hint->peer && hint->peer_len <= sizeof(peer)) {
        peer_len = hint->peer_len;
        memcpy(&peer, hint->peer, peer_len);
    }
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);
    if (ips_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, (long)&cookie,
                 (long)&len, 0) == 0)
        chan->cookie = cookie;
    chan->side = IPS_SIDE_BOTH;
    bool listening = stream && get_socket_option_int(fd, SO_ACCEPTCONN) == 1;
    if (inet) {
        convert_socket_address(&chan->local, &local, local_end_len);
        convert_socket_address(&chan->remote, &peer, peer_len);
        return identify_and_record_inet_socket(fd, seen, chan, stream,
                                               listening, peer_len, hint);
    }
    /* A socket that connected is matched by the name of the listening socket,
     * so its own name is not used. */
    if (!stream || !(chan->flags & IPS_CHAN_CONNECTED))
        chan->name_hash = hash_unix_socket_name(fd, &local, local_end_len);
    if (!chan->name_hash)
        chan->name_hash = hash_unix_socket_name(fd, &peer, peer_len);
    return record_unix_socket_identity(fd, seen, chan, stream, listening,
                                       peer_len);
}

static void join_directory_and_fd(char path[40], const char *directory, int fd)
{
    char digits[12];
    size_t n = 0, at = strlen(directory);
    memcpy(path, directory, at);
    for (unsigned rest = (unsigned)fd; n == 0 || rest; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    while (n)
        path[at++] = digits[--n];
    path[at] = '\0';
}

bool ips_read_fdinfo_number(int fd, const char *key, uint64_t *value)
{
    char path[40], text[512];
    if (fd < 0)
        return false;
    char after[40];
    join_directory_and_fd(after, "/fdinfo/", fd);
    if (!ips_build_proc_path_resolving_link(path, sizeof(path), "self", after))
        return false;
    long got = ips_read_file_with_own_fd_table(path, text, sizeof(text) - 1);
    if (got < 0)
        return false;
    text[got] = '\0';
    const char *c = strstr(text, key);
    if (!c)
        return false;
    c += strlen(key);
    while (*c == ' ' || *c == '\t')
        c++;
    /* the kernel prints -1 for a pid of another namespace */
    if (*c < '0' || *c > '9')
        return false;
    *value = 0;
    while (*c >= '0' && *c <= '9')
        *value = *value * 10 + (uint64_t)(*c++ - '0');
    return true;
}

/* Identifies a descriptor that has no file type (eventfd and the like) by its
 * name in /proc/self/fd. Since Linux 6.9 a pidfd has the type of a regular file
 * (looks_like_pidfd). */
static uint64_t classify_and_store_anonymous_fd(int fd, uint64_t seen,
                                                mode_t type)
{
    static const struct {
        char text[28]; /* not a pointer, which would need a relocation */
        enum ips_fd_class klass;
    } kinds[] = {{"anon_inode:[eventfd]", IPS_FD_EVENTFD},
                 {"anon_inode:[timerfd]", IPS_FD_TIMERFD},
                 {"anon_inode:[signalfd]", IPS_FD_SIGNALFD},
                 {"anon_inode:inotify", IPS_FD_WATCH},
                 {"anon_inode:[fanotify]", IPS_FD_WATCH},
                 {"anon_inode:[userfaultfd]", IPS_FD_WATCH},
                 {"anon_inode:[eventpoll]", IPS_FD_EPOLL},
                 {"anon_inode:[pidfd]", IPS_FD_PIDFD}};
    char path[40], text[32] = "";
    join_directory_and_fd(path, "/proc/self/fd/", fd);
    ips_sys6(SYS_readlinkat, AT_FDCWD, (long)path, (long)text, sizeof(text) - 1,
             0, 0);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(text, kinds[i].text)) {
            uint64_t id = 0; /* Linux before 5.2 reports no eventfd-id */
            if (kinds[i].klass == IPS_FD_EVENTFD)
                id =
                    ips_read_fdinfo_number(fd, "eventfd-id:", &id) ? id + 1 : 0;
            else if (kinds[i].klass == IPS_FD_PIDFD &&
                     (!ips_read_fdinfo_number(fd, "Pid:", &id) ||
                      IPS_READY_KIND(id)))
                id = 0;
            else if (kinds[i].klass == IPS_FD_WATCH && text[11] != '[')
                id = IPS_WATCH_INOTIFY;
            return ips_fd_store_if_unchanged(fd, seen, kinds[i].klass,
                                             (uint32_t)id, 0);
        }
    return ips_fd_store_if_unchanged(
        fd, seen, S_ISREG(type) ? IPS_FD_FILE : IPS_FD_NONE, 0, 0);
}

/* Whether a descriptor with this status may be a pidfd. Hardly any regular file
 * looks like one. */
static bool looks_like_pidfd(const struct stat *st)
{
    return (st->st_mode & (S_IFMT | 07777)) == (S_IFREG | 0700) &&
           st->st_size == 0 && st->st_dev >> 8 == 0;
}

#define MEMORY_DEVICES 1 /* major number of /dev/null, /dev/zero ... */
static enum ips_fd_class classify_file(int fd, const struct stat *st,
                                       mode_t type)
{
    /* the kernel's struct termios is shorter than this buffer */
    char termios[256];
    if (type == S_IFREG || type == S_IFBLK)
        return IPS_FD_FILE;
    if (st->st_rdev >> 8 == MEMORY_DEVICES)
        return IPS_FD_NONE; /* mostly /dev/null, which needs no ioctl */
    return type == S_IFCHR &&
                   ips_sys3(SYS_ioctl, fd, TCGETS, (long)termios) == 0
               ? IPS_FD_TERMINAL
               : IPS_FD_NONE;
}

/* Returns the number of a POSIX message queue (pool/ready.h); 0: `fd` is not
 * one. Such a queue is a file of fixed size in a file system of type mqueue. */
static uint32_t mqueue_number_of_fd(int fd, const struct stat *st, mode_t type)
{
    enum { QUEUE_FILE_BYTES = 80, MQUEUE_MAGIC = 0x19800202 };
    struct statfs system;
    return type == S_IFREG && st->st_size == QUEUE_FILE_BYTES &&
                   st->st_dev >> 8 == 0 &&
                   ips_sys3(SYS_fstatfs, fd, (long)&system, 0) == 0 &&
                   system.f_type == MQUEUE_MAGIC
               ? IPS_READY_NUMBER(IPS_READY_QUEUE(st->st_ino))
               : 0;
}

/* Returns the number of a pseudo terminal in the form of IPS_FD_PTY; 0: the
 * terminal is of another kind. `st_rdev` is in the encoding of the stat system
 * call. */
static uint32_t encode_pty_and_note_master(int fd, const struct stat *st)
{
    enum { CONTROLLING = 5 << 8, PTMX = CONTROLLING | 2 };
    enum { SLAVES_FIRST = 136, SLAVES_LAST = 143 };
    unsigned number, device = (unsigned)st->st_rdev;
    if (device == PTMX) {
        struct ips_control *c = ips_get_or_map_shared_control();
        if (!c || ips_sys3(SYS_ioctl, fd, TIOCGPTN, (long)&number) != 0)
            return 0;
        atomic_store_explicit(&c->has_pty_master, 1, memory_order_relaxed);
        return IPS_FD_PTY(number, 1u);
    }
    if (device == CONTROLLING && /* /dev/tty */
        ips_sys3(SYS_ioctl, fd, TIOCGDEV, (long)&device) != 0)
        return 0;
    const unsigned major = device >> 8 & 0xfff;
    return major >= SLAVES_FIRST && major <= SLAVES_LAST
               ? IPS_FD_PTY((device & 0xff) | (device >> 12 & 0xfff00), 0u)
               : 0;
}

uint64_t ips_chan_identify_and_record(int fd, uint64_t seen,
                                      const struct ips_chan_hint *hint)
{
    struct stat st;
    IPS_APART;
    if ((unsigned)fd >= IPS_FD_MAX) {
        if (fd >= 0)
            ips_core_count_and_write_lost(IPS_LOST_NO_CHANNEL, 1);
        return IPS_FD_NOT_A_CHANNEL;
    }
    if (ips_sys_fstat(fd, &st) < 0)
        return IPS_FD_NOT_A_CHANNEL;
    mode_t type = st.st_mode & S_IFMT;
    if (type == 0 || looks_like_pidfd(&st))
        return classify_and_store_anonymous_fd(fd, seen, st.st_mode);
    if (type != S_IFIFO && type != S_IFSOCK) {
        const enum ips_fd_class klass = classify_file(fd, &st, type);
        return ips_fd_store_if_unchanged(
            fd, seen, klass,
            klass == IPS_FD_TERMINAL ? encode_pty_and_note_master(fd, &st)
                                     : mqueue_number_of_fd(fd, &st, type),
            0);
    }

    struct ips_rec_chan chan;
    memset(&chan, 0, sizeof(chan));
    chan.fd = (uint32_t)fd;
    chan.dev = st.st_dev;
    chan.ino = st.st_ino;
    if (hint) {
        chan.flags = (uint8_t)hint->flags;
        chan.peer_ino = hint->peer_ino;
    }
    if (ips_sys3(SYS_fcntl, fd, F_GETFD, 0) & FD_CLOEXEC)
        chan.flags |= IPS_CHAN_CLOEXEC;
    return type == S_IFIFO ? record_pipe_identity(fd, seen, &chan)
                           : identify_and_record_socket(fd, seen, &chan, hint);
}

void ips_chan_record_close(int fd, uint64_t word, enum ips_close_how how,
                           uint64_t stamp, uint64_t site)
{
    uint64_t sent = ~0ull, recv = ~0ull;
    site = ips_site_look_up_if_deferred(site);
    if (how == IPS_CLOSE_FD && word & IPS_FD_TCP)
        (void)read_tcp_byte_totals(fd, &sent, &recv);
    struct ips_rec_close *rec = (struct ips_rec_close *)ips_rec_begin_at(
        IPS_REC_CLOSE, sizeof(*rec) + IPS_REC_SITE_BYTES, stamp);
    if (!rec)
        return;
    rec->h.a = ips_fd_channel_id(word);
    rec->cpu = ips_core_thread_cpu_ns();
    rec->fd = (uint32_t)fd;
    rec->how = how;
    rec->sent = sent;
    rec->recv = recv;
    ips_rec_put_site(rec, sizeof(*rec), site);
    ips_rec_publish(rec);
    ips_module_record_once(site);
}

void ips_chan_record_close_and_clear(int fd, uint64_t site)
{
    if ((unsigned)fd >= IPS_FD_MAX)
        return;
    uint64_t word = ips_fd_get_or_identify_unless_opened_by_path(fd);
    if (ips_fd_channel_id(word))
        ips_chan_record_close(fd, word, IPS_CLOSE_FD, ips_core_stamp_now(),
                              site);
    if (word & IPS_FD_LOCKED)
        ips_record_file_lock_releases_of_fd(fd);
    ips_fd_clear(fd);
}

/* The rest of a datagram payload that is being hashed: from byte `at` of
 * `iov[0]` on. */
struct payload {
    const struct iovec *iov;
    size_t iovcnt, at;
};

/* Returns the hash that a DGRAM record has for the next `len` bytes of the
 * payload (of their number and the first 256), and advances past them. */
static uint64_t hash_next_payload_bytes(struct payload *p, uint64_t len)
{
    uint64_t hash = IPS_FNV_SEED, left = ips_min_u64(len, 256), rest = len;
    while (p->iovcnt && rest) {
        size_t n = (size_t)ips_min_u64(rest, p->iov->iov_len - p->at);
        size_t hashed = (size_t)ips_min_u64(left, n);
        if (hashed)
            hash =
                ips_fnv1a(hash, (const char *)p->iov->iov_base + p->at, hashed);
        left -= hashed;
        rest -= n;
        p->at += n;
        if (p->at == p->iov->iov_len) {
            p->iov++;
            p->iovcnt--;
            p->at = 0;
        }
    }
    return ips_fnv1a(hash, &len, sizeof(len));
}

/* most hashes that a DGRAM record has in addition to its first one */
#define HASHES_BEHIND                                                          \
    ((IPS_REC_MAX_BYTES - sizeof(struct ips_rec_dgram)) / 8 - 1)

void ips_record_dgram(int fd, uint32_t chan, uint64_t stamp,
                      const struct iovec *iov, size_t iovcnt, uint64_t len,
                      uint64_t segment, const struct sockaddr *name,
                      socklen_t name_len)
{
    struct sockaddr_storage local, peer;
    struct payload payload = {iov, iovcnt, 0};
    bool one = !segment || segment >= len;
    socklen_t local_end_len = get_socket_address(SYS_getsockname, fd, &local);
    if (!name) {
        name_len = get_socket_address(SYS_getpeername, fd, &peer);
        name = (const struct sockaddr *)&peer;
    }
    for (uint64_t left = len, n = 0; n == 0 || left;) {
        uint64_t more = one ? 0 : (left - 1) / segment;
        more = ips_min_u64(more, HASHES_BEHIND);
        struct ips_rec_dgram *rec = (struct ips_rec_dgram *)ips_rec_begin_at(
            IPS_REC_DGRAM, (uint32_t)(sizeof(*rec) + (one ? 0 : 8 + 8 * more)),
            stamp);
        if (!rec)
            return;
        rec->h.a = chan;
        rec->path_hash = hash_unix_socket_name(fd, name, name_len);
        convert_socket_address(&rec->local, &local, local_end_len);
        convert_socket_address(&rec->remote, name, name_len);
        uint64_t *behind = (uint64_t *)(rec + 1);
        if (!one)
            *behind = segment;
        for (n = 0; n <= more; n++) {
            uint64_t bytes = one ? len : ips_min_u64(left, segment);
            uint64_t hash = hash_next_payload_bytes(&payload, bytes);
            if (n)
                behind[n] = hash;
            else
                rec->hash = hash;
            left -= bytes;
        }
        ips_rec_publish(rec);
    }
}
