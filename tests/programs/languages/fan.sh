# As fan.py: two co-processes and a pipeline; a shell has no threads.
squares() { while read -r n; do echo $((n * n)); done; }
coproc first { squares; }
in1=${first[0]} out1=${first[1]} pid1=$first_PID
exec {in2}< <(seq 20 39 | squares)
total=0
for n in {0..19}; do
    echo "$n" >&"$out1"
    read -r square <&"$in1"
    total=$((total + square))
done
exec {out1}>&-
wait "$pid1"
while read -r square <&"$in2"; do total=$((total + square)); done
exec {in2}<&-
total=$((total + $(for n in {40..59}; do echo "$n"; done | squares |
    paste -sd+ | sed 's/^/echo $((/; s/$/))/' | sh)))
echo "processes $total"
trap 'exit 7' EXIT
exit 1
