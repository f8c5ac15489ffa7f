# Completion of ipsq and ipsrun in bash; `ipsq completion bash` prints this.
# `ipsq complete` computes the candidates from the words before the cursor.

_ipsq()
{
    local IFS=$'\n' words=() at=() word glue= i ipsq=ipsq out status raw kept
    COMPREPLY=()
    # bash splits words at = and :. Put them together again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ ${#words[@]} -gt 1 && (-n $glue || $word == [:=]*) ]]; then
            words[-1]+=$word
        else
            words+=("$word") at+=("$i")
        fi
        glue=
        [[ $word == *[:=] ]] && glue=yes
    done
    words=("${words[@]/#~\//$HOME/}")
    [[ ${words[0]} == */* ]] && ipsq=${words[0]%/*}/ipsq
    out=$("$ipsq" complete "${words[@]}" 2>/dev/null)
    status=$?

    # Of the word, bash replaces only what follows its last = or :.
    raw=${COMP_WORDS[COMP_CWORD]}
    [[ $raw == [:=] ]] && raw=
    kept=${words[-1]%"$raw"}
    case $status in
    0)
        for word in $out; do
            word=${word%%$'\t'*}
            word=${word#"$kept"}
            [[ $word == *[^[:alnum:]_/.,:=@%+-]* ]] && printf -v word %q "$word"
            COMPREPLY+=("$word")
        done
        ;;
    10)
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$raw"))
        ;;
    11)
        if declare -F _command_offset >/dev/null; then
            _command_offset "${at[out]:-$COMP_CWORD}"
        elif ((out == ${#words[@]} - 1)); then
            COMPREPLY=($(compgen -c -- "$raw" | sort -u))
        else
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -f -- "$raw"))
        fi
        ;;
    esac
}
complete -F _ipsq ipsq ipsrun
