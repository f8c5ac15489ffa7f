/*
 * Whole commands of ipsq against a master that says what the test wants: it is
 * a process with a socket, which answers each request by a function of the
 * test.
 */
#ifndef IPS_TESTS_UNIT_HELP_SCRIPTED_MASTER_H
#define IPS_TESTS_UNIT_HELP_SCRIPTED_MASTER_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/base/command.h"

/* Answers one request; `script` is what ask_scripted was called with. */
typedef void scripted_answer(int fd, const Ips__Request *rq, int script);

static inline void send_env(int fd, const Ips__Envelope *env)
{
    uint8_t *data;
    size_t len;
    if (ips_frame_encode(env, &data, &len, NULL) < 0 ||
        write(fd, data, len) != (ssize_t)len)
        _exit(1);
    free(data);
}

static inline Ips__Envelope *receive(int fd)
{
    static uint8_t in[1 << 16];
    size_t have = 0;
    for (;;) {
        int64_t whole =
            ips_frame_length_if_complete(in, have, sizeof(in), NULL);
        if (whole > 0)
            return ips_frame_decode(in, (size_t)whole, NULL);
        ssize_t n = read(fd, in + have, 1); /* no byte of the next frame */
        if (whole < 0 || n <= 0)
            _exit(0);
        have++;
    }
}

static inline void reply(int fd, uint64_t id, Ips__Reply *r, bool last)
{
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    r->id = id;
    r->last = last;
    env.body_case = IPS__ENVELOPE__BODY_REPLY;
    env.reply = r;
    send_env(fd, &env);
}

static inline void be_master(int listener, scripted_answer *answer, int script)
{
    int fd = accept(listener, NULL, NULL);
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__MASTER);
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    alarm(120);
    receive(fd);
    send_env(fd, &env);
    for (;;)
        answer(fd, receive(fd)->request, script);
}

/* ---- asking it --------------------------------------------------------- */

struct answered {
    int status; /* or a negative error */
    struct ips_err err;
    char out[1 << 18];
};

/* Runs `line` (words after "ipsq") with standard output into `a`. */
static inline void ask_scripted(const char *line, scripted_answer *answer,
                                int script, struct answered *a)
{
    char dir[] = "/tmp/ips-test-XXXXXX", copy[256], address[64];
    char *argv[16], *save = NULL;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct ipsq_options o;
    struct ipsq_session s;
    int argc = 0, status;
    assert_non_null(mkdtemp(dir));
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/m", dir);
    snprintf(address, sizeof(address), "unix:%s/m", dir);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&un, sizeof(un)));
    assert_int_equal(0, listen(listener, 1));
    pid_t pid = fork();
    if (pid == 0)
        be_master(listener, answer, script);
    close(listener);

    memset(a, 0, sizeof(*a));
    memset(&s, 0xa5, sizeof(s)); /* what is not set is noticed */
    memset(&o, 0xa5, sizeof(o));
    snprintf(copy, sizeof(copy), "ipsq %s", line);
    for (char *w = strtok_r(copy, " ", &save); w;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    argv[argc] = NULL;
    assert_int_equal(0, ipsq_options_parse(&o, argc, argv, &a->err));
    o.master = address;
    const struct ipsq_command *c = ipsq_command_find(o.command);
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    a->status = ipsq_session_open(&s, &o, &a->err);
    if (a->status == 0)
        a->status = c->run(c, &o, &s, &a->err);
    ipsq_session_close(&s);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    rewind(file);
    a->out[fread(a->out, 1, sizeof(a->out) - 1, file)] = '\0';
    fclose(file);
    unlink(un.sun_path);
    rmdir(dir);
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
}

#endif
