# As fan.py: three forked workers over pipes, two interpreter threads.
use strict;
use warnings;
use threads;
use IO::Handle;

my (@pids, @to, @back);
for my $i (0 .. 2) {
    pipe(my $from, my $to) and pipe(my $back, my $out) or die $!;
    my $pid = fork() // die $!;
    if (!$pid) {
        close $_ for $to, $back, @to, @back;
        $out->autoflush(1);
        while (my $n = <$from>) { print $out $n * $n, "\n"; }
        exit 0;
    }
    close $from;
    close $out;
    $to->autoflush(1);
    push @pids, $pid;
    push @to, $to;
    push @back, $back;
}
my $total = 0;
for my $i (0 .. 59) {
    print { $to[$i % 3] } "$i\n";
    $total += readline $back[$i % 3];
}
close $_ for @to;
waitpid $_, 0 for @pids;
print "processes $total\n";
my @threads = map {
    my $first = $_;
    threads->create(sub {
        my $sum = 0;
        for (my $i = $first; $i < 60; $i += 2) { $sum += $i * $i; }
        return $sum;
    });
} 0, 1;
$total = 0;
$total += $_->join for @threads;
print "threads $total\n";
exit 7;
