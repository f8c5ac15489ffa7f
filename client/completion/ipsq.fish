# Completion of ipsq and ipsrun in fish; `ipsq completion fish` prints this.
# `ipsq complete` computes the candidates from the words before the cursor.

function __ipsq_complete
    set -l words (commandline -opc)
    set -l word "$(commandline -ct)"
    set -l ipsq ipsq
    string match -q '*/*' -- $words[1]
    and set ipsq (string replace -r '[^/]*$' '' -- $words[1])ipsq
    set -l out ($ipsq complete $words $word 2>/dev/null)
    switch $status
        case 0
            printf '%s\n' $out
        case 10
            set -l kept (string match -r '^--[^=]*=' -- $word)
            for path in (__fish_complete_path (string replace -- "$kept" '' $word))
                printf '%s\n' "$kept$path"
            end
        case 11
            set -l words $words $word
            set -l first (math $out + 1)
            complete -C "$words[$first..-1]"
    end
end

complete -c ipsq -f -a '(__ipsq_complete)'
complete -c ipsrun -f -a '(__ipsq_complete)'
