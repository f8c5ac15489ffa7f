<?php // As fan.py: three forked workers over socket pairs; PHP has no threads.
$pids = [];
$ends = [];
for ($i = 0; $i < 3; $i++) {
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $pid = pcntl_fork();
    if ($pid == 0) {
        fclose($pair[0]);
        foreach ($ends as $e)
            fclose($e);
        while (($line = fgets($pair[1])) !== false)
            fwrite($pair[1], ((int)$line) ** 2 . "\n");
        exit(0);
    }
    fclose($pair[1]);
    $pids[] = $pid;
    $ends[] = $pair[0];
}
$total = 0;
for ($i = 0; $i < 60; $i++) {
    fwrite($ends[$i % 3], "$i\n");
    $total += (int)fgets($ends[$i % 3]);
}
foreach ($ends as $e)
    fclose($e);
foreach ($pids as $pid)
    pcntl_waitpid($pid, $status);
$p = proc_open(["sort", "-n"], [["pipe", "r"], ["pipe", "w"]], $pipes);
fwrite($pipes[0], "3\n1\n2\n");
fclose($pipes[0]);
echo str_replace("\n", " ", stream_get_contents($pipes[1])), proc_close($p), "\n";
echo "processes $total\n";
exit(7);
