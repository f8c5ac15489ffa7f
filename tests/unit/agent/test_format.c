/* docs/pool-format.md against agent/pool/format.h: every offset and size in
 * that document is asserted here at compile time, every constant at run time.
 * Would catch: a field added in the middle, a compiler that lays out
 * differently, a document that was not changed with the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* after the four it needs */

#include "agent/pool/format.h"

#define AT(type, field, offset)                                                \
    _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

AT(ips_clock, kind, 0);
AT(ips_clock, reserved, 4);
AT(ips_clock, counter0, 8);
AT(ips_clock, raw0_ns, 16);
AT(ips_clock, mult_q32, 24);
SIZE(ips_clock, 32);

AT(ips_current_call, t, 0);
AT(ips_current_call, cpu, 8);
AT(ips_current_call, site, 16);
AT(ips_current_call, what, 24);
AT(ips_current_call, object, 32);
AT(ips_current_call, holder, 40);
SIZE(ips_current_call, 48);

AT(ips_control, magic, 0);
AT(ips_control, version, 8);
AT(ips_control, control_bytes, 12);
AT(ips_control, run, 16);
AT(ips_control, machine, 80);
AT(ips_control, boot_id, 144);
AT(ips_control, command, 184);
AT(ips_control, clock, 696);
AT(ips_control, created_raw_ns, 728);
AT(ips_control, created_real_ns, 736);
AT(ips_control, quota_bytes, 744);
AT(ips_control, probe_ns, 752);
AT(ips_control, root_pid, 760);
AT(ips_control, cpus, 764);
AT(ips_control, segment_bytes, 768);
AT(ips_control, uid, 772);
AT(ips_control, tags, 776);
AT(ips_control, test_offset_ns, 1032);
AT(ips_control, test_drift_ppm, 1040);
AT(ips_control, test_step_ns, 1048);
AT(ips_control, test_step_at_ns, 1056);
AT(ips_control, used_bytes, 1064);
AT(ips_control, lost, 1072);
AT(ips_control, released_bytes, 1136);
AT(ips_control, procedures, 1144);
AT(ips_control, sample_us, 1148);
AT(ips_control, cpu_mode, 1152);
AT(ips_control, on_full, 1156);
AT(ips_control, budget_ppm, 1160);
AT(ips_control, probe_extra_ns, 1164);
AT(ips_control, probe_cost_ps, 1168);
AT(ips_control, receive_stamps, 1232);
AT(ips_control, delays, 1236);
AT(ips_control, probe_more_ps, 1240);
AT(ips_control, locks, 1264);
AT(ips_control, slave_pid, 1268);
AT(ips_control, slave_list, 1272);
AT(ips_control, probe_spawn_ps, 1280);
AT(ips_control, spare_bytes, 1288);
AT(ips_control, probe_late_ps, 1296);
AT(ips_control, has_pty_master, 1368);
SIZE(ips_control, 1376);

AT(ips_rec_sample, cpu, 16);
AT(ips_rec_sample, period_ns, 24);
AT(ips_rec_sample, frames, 32);
AT(ips_rec_count, procedure, 16);
AT(ips_rec_count, calls, 24);
SIZE(ips_rec_count, 32);
AT(ips_rec_module, start, 16);
AT(ips_rec_module, end, 24);
AT(ips_rec_module, bias, 32);
AT(ips_rec_module, build_id, 40);
AT(ips_rec_module, build_id_bytes, 60);
AT(ips_rec_module, gone, 61);
AT(ips_rec_module, path, 64);
AT(ips_rec_stack, frames, 16);
AT(ips_rec_sync, t_ret, 16);
AT(ips_rec_sync, cpu, 24);
AT(ips_rec_sync, cpu_ret, 32);
AT(ips_rec_sync, dev, 40);
AT(ips_rec_sync, ino, 48);
AT(ips_rec_sync, object, 56);
AT(ips_rec_sync, site, 64);
AT(ips_rec_sync, value, 72);
AT(ips_rec_sync, err, 76);
SIZE(ips_rec_sync, 80);
AT(ips_rec_lock, cpu, 16);
AT(ips_rec_lock, object, 24);
SIZE(ips_rec_lock, 32);
AT(ips_rec_signal, cpu, 16);
AT(ips_rec_signal, pid, 24);
AT(ips_rec_signal, tid, 28);
AT(ips_rec_signal, code, 32);
AT(ips_rec_signal, how, 36);
AT(ips_rec_signal, value, 40);
AT(ips_rec_signal, t_ret, 48);
SIZE(ips_rec_signal, 56);

AT(ips_segment_header, magic, 0);
AT(ips_segment_header, version, 8);
AT(ips_segment_header, header_bytes, 12);
AT(ips_segment_header, segment_bytes, 16);
AT(ips_segment_header, seq, 20);
AT(ips_segment_header, pid, 24);
AT(ips_segment_header, tid, 28);
AT(ips_segment_header, pidns, 32);
AT(ips_segment_header, image_stamp, 40);
AT(ips_segment_header, stream_stamp, 48);
AT(ips_segment_header, uid, 56);
AT(ips_segment_header, flags, 60);
AT(ips_segment_header, comm, 64);
AT(ips_segment_header, clock, 80);
AT(ips_segment_header, state, 112);
AT(ips_segment_header, abandoned, 116);
AT(ips_segment_header, lost, 120);
AT(ips_segment_header, taken, 184);
AT(ips_segment_header, withdrawn, 188);
AT(ips_segment_header, begun, 192);
AT(ips_segment_header, reserved, 240);
SIZE(ips_segment_header, 256);

AT(ips_rec_head, word, 0);
AT(ips_rec_head, a, 4);
AT(ips_rec_head, t, 8);
SIZE(ips_rec_head, 16);

AT(ips_rec_io, h, 0);
AT(ips_rec_io, t_ret, 16);
AT(ips_rec_io, cpu, 24);
AT(ips_rec_io, cpu_ret, 32);
AT(ips_rec_io, result, 40);
AT(ips_rec_io, site, 48);
AT(ips_rec_io, op, 56);
AT(ips_rec_io, err, 58);
AT(ips_rec_io, ready, 60);
SIZE(ips_rec_io, 64);
AT(ips_rec_io_short, h, 0);
AT(ips_rec_io_short, took, 16);
AT(ips_rec_io_short, result, 20);
AT(ips_rec_io_short, site, 24);
SIZE(ips_rec_io_short, 32);

AT(ips_rec_start, h, 0);
AT(ips_rec_start, cpu, 16);
AT(ips_rec_start, fork_seq, 24);
AT(ips_rec_start, ppid, 32);
AT(ips_rec_start, ptid, 36);
AT(ips_rec_start, parent_image, 40);
AT(ips_rec_start, parent_t, 48);
SIZE(ips_rec_start, 56);

AT(ips_rec_end, h, 0);
AT(ips_rec_end, cpu, 16);
AT(ips_rec_end, status, 24);
SIZE(ips_rec_end, 32);

AT(ips_rec_fork, h, 0);
AT(ips_rec_fork, t_ret, 16);
AT(ips_rec_fork, cpu, 24);
AT(ips_rec_fork, cpu_ret, 32);
AT(ips_rec_fork, fork_seq, 40);
AT(ips_rec_fork, kind, 48);
AT(ips_rec_fork, err, 52);
SIZE(ips_rec_fork, 56);

AT(ips_rec_join, h, 0);
AT(ips_rec_join, t_ret, 16);
AT(ips_rec_join, cpu, 24);
AT(ips_rec_join, cpu_ret, 32);
AT(ips_rec_join, seq, 40);
AT(ips_rec_join, child_cpu_ns, 48);
AT(ips_rec_join, status, 56);
AT(ips_rec_join, kind, 60);
SIZE(ips_rec_join, 64);

AT(ips_rec_exec, h, 0);
AT(ips_rec_exec, cpu, 16);
AT(ips_rec_exec, path, 24);
SIZE(ips_rec_exec, 24);

AT(ips_rec_lost, h, 0);
AT(ips_rec_lost, count, 16);
SIZE(ips_rec_lost, 24);

AT(ips_rec_text, h, 0);
AT(ips_rec_text, cpu, 16);
AT(ips_rec_text, text, 24);
SIZE(ips_rec_text, 24);

AT(ips_rec_cpu, h, 0);
AT(ips_rec_cpu, cpu, 16);
SIZE(ips_rec_cpu, 24);

AT(ips_rec_proc, h, 0);
AT(ips_rec_proc, cpu, 16);
AT(ips_rec_proc, procedure, 24);
SIZE(ips_rec_proc, 32);

AT(ips_addr, family, 0);
AT(ips_addr, port, 2);
AT(ips_addr, addr, 4);
SIZE(ips_addr, 20);

AT(ips_rec_chan, h, 0);
AT(ips_rec_chan, fd, 16);
AT(ips_rec_chan, kind, 20);
AT(ips_rec_chan, side, 21);
AT(ips_rec_chan, flags, 22);
AT(ips_rec_chan, reserved, 23);
AT(ips_rec_chan, dev, 24);
AT(ips_rec_chan, ino, 32);
AT(ips_rec_chan, peer_ino, 40);
AT(ips_rec_chan, cookie, 48);
AT(ips_rec_chan, netns, 56);
AT(ips_rec_chan, sent_before, 64);
AT(ips_rec_chan, recv_before, 72);
AT(ips_rec_chan, name_hash, 80);
AT(ips_rec_chan, peer_pid, 88);
AT(ips_rec_chan, local, 92);
AT(ips_rec_chan, remote, 112);
AT(ips_rec_chan, reserved2, 132);
SIZE(ips_rec_chan, 136);

AT(ips_rec_close, h, 0);
AT(ips_rec_close, cpu, 16);
AT(ips_rec_close, fd, 24);
AT(ips_rec_close, how, 28);
AT(ips_rec_close, sent, 32);
AT(ips_rec_close, recv, 40);
SIZE(ips_rec_close, 48);

AT(ips_rec_delay, h, 0);
AT(ips_rec_delay, delay_ns, 16);
AT(ips_rec_guessed, h, 0);
AT(ips_rec_guessed, guessed_ns, 16);
AT(ips_rec_guessed, off_ns, 24);
AT(ips_rec_guessed, off_max_ns, 32);
AT(ips_rec_dgram, h, 0);
AT(ips_rec_dgram, hash, 16);
AT(ips_rec_dgram, path_hash, 24);
AT(ips_rec_dgram, local, 32);
AT(ips_rec_dgram, remote, 52);
SIZE(ips_rec_dgram, 72);

static void test_format__magic_is_the_bytes_of_the_document(void **state)
{
    (void)state;
    uint64_t control = IPS_CONTROL_MAGIC, segment = IPS_SEGMENT_MAGIC;
    assert_memory_equal(&control, "IPSCTRL1", 8);
    assert_memory_equal(&segment, "\0IPSSEG1", 8);
}

/* The document's numbers of record types. */
static void test_format__codes_are_those_of_the_document(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned code;
    } document[] = {
        {"START", 1},          {"END", 2},
        {"BLOCK", 3},          {"RESUME", 4},
        {"ENTER", 5},          {"EXIT", 6},
        {"SEND", 7},           {"RECV", 8},
        {"RECVCALL", 9},       {"QUEUE", 10},
        {"FORK", 11},          {"JOIN", 12},
        {"EXEC", 13},          {"EXECFAIL", 14},
        {"SAMPLE", 15},        {"COUNT", 16},
        {"LOST", 17},          {"MARK", 18},
        {"CHAN", 19},          {"CLOSE", 20},
        {"DGRAM", 21},         {"THREADCPU", 22},
        {"NAME", 23},          {"MODULE", 24},
        {"STACK", 25},         {"ACQUIRE", 26},
        {"RELEASE", 27},       {"KILL", 28},
        {"SIGNAL", 29},        {"UNSEEN", 30},
        {"ENTER_SHORT", 31},   {"EXIT_SHORT", 32},
        {"MARK_SHORT", 33},    {"SEND_SHORT", 34},
        {"RECV_SHORT", 35},    {"RUNDELAY", 36},
        {"GUESSED", 37},       {"ACQUIRE_SHORT", 38},
        {"RELEASE_SHORT", 39}, {"CALLS", 40},
        {"PAGEFAULT", 41},
    };
    static const struct {
        const char *name;
        unsigned code;
    } header[] = {
#define X(name, code, record, text) {#name, code},
#include "agent/pool/events.def"
#undef X
    };
    size_t n = sizeof(document) / sizeof(document[0]);
    assert_int_equal(n, sizeof(header) / sizeof(header[0]));
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(document[i].name, header[i].name);
        assert_int_equal(document[i].code, header[i].code);
    }
}

/* Its numbers of flags and causes of loss. */
static void test_format__flags_are_those_of_the_document(void **state)
{
    (void)state;
    assert_int_equal(IPS_SEGMENT_TASK, 1);
    assert_int_equal(IPS_SEGMENT_DIGEST, 2);
    assert_int_equal(IPS_REC_F_NS, 1);
    assert_int_equal(IPS_REC_F_SUM, 2);
    assert_int_equal(IPS_REC_F_PLACE, 2);
    assert_int_equal(IPS_REC_F_OP, 2);
    assert_int_equal(IPS_REC_SITE_BYTES, 8);
    assert_int_equal(IPS_MARK_PLACES, 8);
    assert_int_equal(IPS_MARK_PLACE_BYTES, 40);
    assert_int_equal(IPS_ON_FULL_BLOCK, 1);
    assert_int_equal(IPS_ON_FULL_RING, 2);
    assert_int_equal(IPS_LOST_NESTED, 2);
    assert_int_equal(IPS_LOST_OVERWRITTEN, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format__magic_is_the_bytes_of_the_document),
        cmocka_unit_test(test_format__codes_are_those_of_the_document),
        cmocka_unit_test(test_format__flags_are_those_of_the_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
