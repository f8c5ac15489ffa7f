/* Decides which processes are alive. Catches: a process of another pid
 * namespace that has no pidfd and is looked for by its pid there, which is the
 * pid of an unrelated process here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slave/drain/drain.h"

/* Starts a process that has pid 1 in a pid namespace of its own. */
static pid_t start_in_namespace(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    while (pid == 0)
        pause();
    return pid;
}

static void test_liveness__other_namespace_without_pidfd(void **state)
{
    (void)state;
    char path[64];
    struct stat st;
    /* Without an epoll set a pidfd cannot be watched. */
    struct slave_drain d = {.epoll_fd = -1};
    struct slave_run run = {0};
    struct slave_image image = {.run = &run, .pid = 1, .pidfd = -1};
    pid_t pid = start_in_namespace();
    if (pid < 0)
        skip(); /* it needs root */
    snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
    assert_int_equal(stat(path, &st), 0);
    image.pidns = st.st_ino;
    run.images = &image;
    d.runs = &run;
    slave_liveness_read_own_pid_namespace(&d);
    slave_liveness_track(&d, &image, 0);
    uint64_t now_ns = slave_now_ns();
    slave_liveness_check_processes_if_due(&d, now_ns);
    assert_int_equal(image.state, SLAVE_IMAGE_ALIVE);
    now_ns += SLAVE_SECOND_NS;
    slave_liveness_check_processes_if_due(&d, now_ns);
    assert_int_equal(image.state, SLAVE_IMAGE_ALIVE);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    slave_liveness_check_processes_if_due(&d, now_ns + SLAVE_SECOND_NS);
    assert_int_equal(image.state, SLAVE_IMAGE_DEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_liveness__other_namespace_without_pidfd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
