/* Finding services while memory lacks. Would catch: a count of processes that
 * is too low because an allocation failed, instead of a question that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/query/machine_share.h"
#include "master/requests/requests.h"
#include "tests/support/fault.h"

static void test_requests_services__no_memory(void **state)
{
    (void)state;
    Ips__ProcessRow process = IPS__PROCESS_ROW__INIT, *procs[] = {&process};
    Ips__ChannelRow channel = IPS__CHANNEL_ROW__INIT, *channels[] = {&channel};
    struct machine_share machine = {.t = {.procs = procs,
                                          .proc_count = 1,
                                          .channels = channels,
                                          .channel_count = 1}};
    struct machine_share *active[] = {&machine};
    struct query q = {.gather = {.active = active, .count = 1}};
    bool struck = true;
    process.parent = -1;
    channel.name = ips_unconst_text("tcp 10.0.0.1:80-10.0.0.2:4000");
    channel.serves = true;
    channel.peer_process = -1;
    channel.recv_messages = 1;
    for (uint64_t nth = 1; struck; nth++) {
        static struct requests_data d;
        memset(&d, 0, sizeof(d));
        q.data = &d;
        fault_arm(FAULT_ALLOC, nth);
        bool found = requests_find_services_and_ends(&q);
        struck = fault_end() > 0;
        assert_int_equal(found, !struck);
        if (found) {
            assert_int_equal(d.service_count, 1);
            assert_int_equal(d.service[0].processes, 1);
            assert_true(nth > 5); /* several allocations were failed */
        }
        requests_release(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_services__no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
