/* Files by their paths: calls that make, move or remove one, tests for one that
 * comes to be later, and a watch of their directory. Most of them succeed. */
#include "failures.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "../asleep.h"
#include "old_numbers.h"

static char top[] = "/tmp/i_failures-XXXXXX";
static int sub = -1, fd = -1; /* the directory "sub"; what was opened last */
static FILE *file;

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }

/* The number by which a record knows a file's name. */
static void say_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    printf("[%s %#lx] ", name, (unsigned long)(hash | 1));
}
/* Its inode, of the link itself: an end without a side. */
static void say_file(const char *name, const char *path)
{
    struct stat st = {0};
    must(unseen_call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st,
                     AT_SYMLINK_NOFOLLOW) == 0);
    printf("end %s %lu file\n", name, (unsigned long)st.st_ino);
}
/* By a call that nobody sees. */
static void make(const char *path)
{
    must(unseen_call(SYS_mknodat, AT_FDCWD, (long)path, S_IFREG | 0600, 0) ==
         0);
}

/* --- made ------------------------------------------------------------- */

/* `call` makes `path`, whose last part is `name`. */
#define MADE(name, path, call)                                                 \
    static void case_##name(void)                                              \
    {                                                                          \
        say_name(#name);                                                       \
        CALL(call);                                                            \
        say_file("f." #name, path);                                            \
    }
#define OPENED(call) ((fd = (int)(call)) >= 0)
#define STREAM(call) ((file = (call)) != NULL)

static void case_none(void)
{
    must(mkdtemp(top) && chdir(top) == 0 && mkdir("sub", 0700) == 0);
    sub = open("sub", O_RDONLY | O_DIRECTORY);
    CALL(open("none", O_RDWR));
}
MADE(open_it, "open_it", OPENED(open("open_it", O_CREAT | O_RDWR, 0600)))
static void case_open_twice(void) /* it is empty: this call may have made it */
{
    must(close(fd) == 0);
    CALL(OPENED(open("open_it", O_CREAT | O_RDWR, 0600)));
}
static void case_open_full(void) /* not this one */
{
    must(write(fd, "x", 1) == 1 && close(fd) == 0);
    CALL(OPENED(open("open_it", O_CREAT | O_RDWR, 0600)));
}
static void case_open_plain(void)
{
    must(ftruncate(fd, 0) == 0 && close(fd) == 0);
    CALL(OPENED(open("open_it", O_RDWR)));
    close(fd);
}
ONE(open_excl, open("open_it", O_CREAT | O_EXCL | O_RDWR, 0600))
ONE(open_directory, open("sub", O_CREAT | O_RDWR, 0600))
MADE(openat_it, "sub/openat_it",
     OPENED(openat(sub, "openat_it", O_CREAT | O_WRONLY, 0600)))
MADE(by_number, "sub/by_number",
     OPENED(syscall(SYS_openat, sub, "by_number", O_CREAT | O_WRONLY, 0600)))
MADE(by_old_number, "by_old_number",
     OPENED(OLD_OPEN("by_old_number", O_CREAT | O_WRONLY)))
MADE(fopen_it, "fopen_it", STREAM(fopen("fopen_it", "w")))
MADE(fopen_more, "fopen_more", STREAM(fopen("fopen_more", "a+")))
static void case_fopen_full(void)
{
    must(fputs("x", file) >= 0 && fclose(file) == 0);
    CALL(STREAM(fopen("fopen_more", "a")));
}
static void case_fopen_reads(void)
{
    must(fclose(file) == 0);
    CALL(STREAM(fopen("fopen_it", "r")));
}
MADE(mkdir_it, "mkdir_it", mkdir("mkdir_it", 0700))
MADE(mkdir_slash, "mkdir_slash", mkdir("mkdir_slash//", 0700))
MADE(mkdir_below, "sub/mkdir_below", mkdir("./sub/mkdir_below", 0700))
ONE(mkdir_exist, mkdir("mkdir_it", 0700))
MADE(symlink_it, "symlink_it", symlink("nowhere", "symlink_it"))
ONE(symlink_exist, symlink("nowhere", "symlink_it"))
MADE(mkfifo_it, "mkfifo_it", mkfifo("mkfifo_it", 0600))
ONE(mkfifo_noent, mkfifo("none/mkfifo_it", 0600))
MADE(link_it, "link_it", link("fopen_it", "link_it"))
ONE(link_noent, link("none", "link_it"))

/* A new socket in `fd`; its address to be: the first n bytes of `path`. */
static struct sockaddr_un un;
static socklen_t address(const char *path, size_t n)
{
    un = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(un.sun_path, path, n);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}
static void case_bind_it(void)
{
    socklen_t len = address("bind_it", sizeof("bind_it"));
    say_name("bind_it");
    CALL(bind(fd, (struct sockaddr *)&un, len));
    say_file("f.bind_it", "bind_it");
}
static void case_bind_exact(void) /* no NUL behind it */
{
    socklen_t len = address("sub/bind_exact", strlen("sub/bind_exact"));
    say_name("bind_exact");
    CALL(bind(fd, (struct sockaddr *)&un, len));
    say_file("f.bind_exact", "sub/bind_exact");
}
static void case_bind_abstract(void)
{
    char name[40] = "";
    int n = snprintf(name + 1, sizeof(name) - 1, "i_failures-%d", getpid());
    socklen_t len = address(name, (size_t)n + 1);
    CALL(bind(fd, (struct sockaddr *)&un, len));
}
static void case_bind_again(void)
{
    socklen_t len = address("bind_it", sizeof("bind_it"));
    CALL(bind(fd, (struct sockaddr *)&un, len));
}
static void case_bind_unnamed(void)
{
    socklen_t len = address("", 0);
    CALL(bind(fd, (struct sockaddr *)&un, len));
}
static void case_bind_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    CALL(bind(fd, (struct sockaddr *)&in, sizeof(in)));
}

/* --- moved and removed -------------------------------------------------- */

MADE(rename_to, "rename_to", rename("open_it", "rename_to"))
MADE(renameat_to, "sub/renameat_to",
     renameat(AT_FDCWD, "rename_to", sub, "renameat_to"))
MADE(renameat2_to, "renameat2_to",
     renameat2(sub, "renameat_to", AT_FDCWD, "renameat2_to", 0))
ONE(rename_noent, rename("none", "other"))
ONE(renameat2_exist,
    renameat2(AT_FDCWD, "renameat2_to", AT_FDCWD, "fopen_it", RENAME_NOREPLACE))
ONE(unlink_noent, unlink("none"))
ONE(rmdir_notempty, rmdir("sub"))
ONE(remove_noent, remove("none"))
ONE(unlink_it, unlink("link_it"))
ONE(unlinkat_it, unlinkat(sub, "openat_it", 0))
ONE(unlinkat_directory, unlinkat(AT_FDCWD, "mkdir_slash/", AT_REMOVEDIR))
ONE(rmdir_it, rmdir("mkdir_it"))
ONE(remove_file, remove("mkfifo_it"))
ONE(remove_directory, remove("sub/mkdir_below"))

/* --- found ---------------------------------------------------------------- */
static struct stat st;
static struct statx stx;
static const struct timespec ms = {0, 1000000};

static void nap(void)
{
    must(nanosleep(&ms, NULL) == 0);
}
/* Asked for twice before it is there, with a nap between. */
#define FOUND(name, call)                                                      \
    static void case_##name(void)                                              \
    {                                                                          \
        must((call) < 0 && errno == ENOENT);                                   \
        nap();                                                                 \
        must((call) < 0 && errno == ENOENT);                                   \
        make(#name);                                                           \
        CALL((call) >= 0);                                                     \
        say_file("f." #name, #name);                                           \
    }
FOUND(stat_it, stat("stat_it", &st))
FOUND(lstat_it, lstat("lstat_it", &st))
FOUND(fstatat_it, fstatat(AT_FDCWD, "fstatat_it", &st, 0))
FOUND(statx_it, statx(AT_FDCWD, "statx_it", 0, STATX_ALL, &stx))
FOUND(access_it, access("access_it", F_OK))
FOUND(faccessat_it, faccessat(AT_FDCWD, "faccessat_it", F_OK, 0))
FOUND(euidaccess_it, euidaccess("euidaccess_it", F_OK))
FOUND(open_found, fd = open("open_found", O_RDONLY))
FOUND(openat_found, fd = openat(AT_FDCWD, "openat_found", O_RDONLY))
FOUND(number_found,
      fd = (int)syscall(SYS_openat, AT_FDCWD, "number_found", O_RDONLY))
FOUND(fopen_found, (file = fopen("fopen_found", "r")) ? 0 : -1)

/* Found already: nobody waits for it any more. */
ONE(stat_again, stat("stat_it", &st))
static void case_no_nap(void)
{
    must(stat("no_nap", &st) < 0);
    make("no_nap");
    CALL(stat("no_nap", &st));
}
static void case_another(void) /* each has a run of its own, the last one's */
{
    must(stat("another", &st) < 0);
    nap();
    must(stat("none", &st) < 0);
    make("another");
    CALL(stat("another", &st));
}
static void case_other_directory(void)
{
    must(fstatat(sub, "other", &st, 0) < 0);
    nap();
    make("other");
    CALL(fstatat(AT_FDCWD, "other", &st, 0));
}
static void case_other_error(void)
{
    must(stat("fopen_it/x", &st) < 0 && errno == ENOTDIR);
    must(unlink("fopen_it") == 0 && mkdir("fopen_it", 0700) == 0);
    nap();
    make("fopen_it/x");
    CALL(stat("fopen_it/x", &st));
}
static void case_by_children(void) /* as a shell naps */
{
    must(stat("by_children", &st) < 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    must(waitpid(pid, NULL, 0) == pid);
    make("by_children");
    CALL(stat("by_children", &st));
    say_file("f.by_children", "by_children");
}
static void case_by_child_id(void)
{
    must(stat("by_child_id", &st) < 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    must(waitid(P_PID, (id_t)pid, NULL, WEXITED) == 0);
    make("by_child_id");
    CALL(stat("by_child_id", &st));
    say_file("f.by_child_id", "by_child_id");
}
ONE(stat_fault, stat((const char *)(uintptr_t)strtoul("16", NULL, 10), &st))

/* --- watched -------------------------------------------------------------- */
static int watch = -1;
static char events[4096];

static void case_watch_made(void)
{
    watch = inotify_init1(IN_NONBLOCK);
    must(inotify_add_watch(watch, ".", IN_CREATE | IN_DELETE | IN_MOVE) >= 0);
    say_name("watched");
    make("watched");
    CALL(read(watch, events, sizeof(events)) > 0);
}
static void case_watch_removed(void)
{
    must(unlink("watched") == 0);
    CALL(read(watch, events, sizeof(events)) > 0);
}
static void case_watch_moved(void) /* the first of two events */
{
    struct iovec iov = {events, sizeof(events)};
    say_name("moved");
    make("moved");
    must(read(watch, events, sizeof(events)) > 0);
    must(rename("moved", "sub/moved") == 0);
    CALL(readv(watch, &iov, 1) > 0);
}
ONE(watch_nothing, read(watch, events, sizeof(events)))
ONE(watch_short, read(watch, events, 4))
/* An event without a name, one of another kind. */
static void case_watch_other(void)
{
    must(inotify_add_watch(watch, "sub", IN_OPEN) >= 0);
    must(close(openat(sub, "moved", O_RDONLY)) == 0);
    CALL(read(watch, events, sizeof(events)) > 0);
}
static void case_watch_itself(void)
{
    must(inotify_add_watch(watch, "renameat2_to", IN_DELETE_SELF | IN_ATTRIB) >=
         0);
    must(chmod("renameat2_to", 0644) == 0);
    CALL(read(watch, events, sizeof(events)) > 0);
}
static void case_clean(void)
{
    char command[100];
    must(chdir("/") == 0);
    snprintf(command, sizeof(command), "rm -r %s", top);
    call_begins();
    call_ends(0, UNTOUCHED);
    must(system(command) == 0);
}

const struct one_case path_cases[] = {
    CASE(none),           CASE(open_it),         CASE(open_twice),
    CASE(open_full),      CASE(open_plain),      CASE(open_excl),
    CASE(open_directory), CASE(openat_it),       CASE(by_number),
    CASE(by_old_number),  CASE(fopen_it),        CASE(fopen_more),
    CASE(fopen_full),     CASE(fopen_reads),     CASE(mkdir_it),
    CASE(mkdir_slash),    CASE(mkdir_below),     CASE(mkdir_exist),
    CASE(symlink_it),     CASE(symlink_exist),   CASE(mkfifo_it),
    CASE(mkfifo_noent),   CASE(link_it),         CASE(link_noent),
    CASE(bind_it),        CASE(bind_exact),      CASE(bind_abstract),
    CASE(bind_again),     CASE(bind_unnamed),    CASE(bind_port),
    CASE(rename_to),      CASE(renameat_to),     CASE(renameat2_to),
    CASE(rename_noent),   CASE(renameat2_exist), CASE(stat_it),
    CASE(lstat_it),       CASE(fstatat_it),      CASE(statx_it),
    CASE(access_it),      CASE(faccessat_it),    CASE(euidaccess_it),
    CASE(open_found),     CASE(openat_found),    CASE(number_found),
    CASE(fopen_found),    CASE(stat_again),      CASE(no_nap),
    CASE(another),        CASE(other_directory), CASE(by_children),
    CASE(by_child_id),    CASE(stat_fault),      CASE(watch_made),
    CASE(watch_removed),  CASE(watch_moved),     CASE(watch_nothing),
    CASE(watch_short),    CASE(watch_other),     CASE(watch_itself),
    CASE(unlink_noent),   CASE(rmdir_notempty),  CASE(remove_noent),
    CASE(unlink_it),      CASE(unlinkat_it),     CASE(unlinkat_directory),
    CASE(rmdir_it),       CASE(remove_file),     CASE(remove_directory),
    CASE(other_error),    CASE(clean),           {NULL, NULL}};
