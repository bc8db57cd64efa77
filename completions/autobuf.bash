# SPDX-License-Identifier: MIT
# Completion of autobuf(1) for bash. Where bash-completion is there, hosts are its known hosts.

_autobuf_hosts() # what is typed so far
{
    if declare -F _comp_compgen_known_hosts >/dev/null; then
        _comp_compgen_known_hosts -- "$1" # bash-completion 2.12 and later
    elif declare -F _known_hosts_real >/dev/null; then
        _known_hosts_real -- "$1"
    else
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$1")
    fi
}

_autobuf_files() # of _autobuf()'s cur
{
    compopt -o filenames 2>/dev/null # folders can be entered, and blanks are quoted
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

# Of the words on the line: the command, whether and where there is a host (or a program), and the options, in
# _autobuf()'s variables. The one under the cursor does not count.
_autobuf_scan()
{
    local i word value=

    for ((i = 1; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == COMP_CWORD)); then
            value=
            continue
        fi
        case $word in
        = | '') ;; # of --option=value: the value is still to come
        -*)
            used+=("$word")
            value=
            [[ $word == @(-I|--@(intent|budget|timeout|rate|rtt|streams|bytes|bind|port|clients|per-address|transfer|max|log|hours|from|store|socket|interval|count|pid)) ]] &&
                value=1
            ;;
        *)
            if [[ $value ]]; then
                value=
            elif [[ ! $command ]]; then
                command=$word
            else
                [[ $host ]] || host_at=$i
                host=$word
            fi
            ;;
        esac
    done
}

# The options that the line can still take.
_autobuf_options()
{
    local -a options=(-4 -6 -I -B --json --intent --budget --timeout --as-user)
    local option taken=" ${used[*]} "

    case $command in
    explain)
        options+=(--streams --bytes --sysctl --check)
        [[ $host ]] || options+=(--rate --rtt --pid)
        ;;
    probe) options+=(--available) ;;
    watch) options=(--json --tune --intent) ;;
    serve) options=(--bind --port --rate --clients --per-address --transfer) ;;
    measure) options=(-4 -6 -I --json --intent --timeout --as-user --available --transfer) ;;
    paths) options=(--json --rate --rtt --hours --from --host --store --all --exported) ;;
    top) options=(--json --socket --interval --count) ;;
    run) options=(--intent --max --keep-sizes --probe --log --report) ;;
    esac
    options+=(--help)
    for option in "${options[@]}"; do
        [[ $taken == *" $option "* ]] && continue
        [[ $option == -[46] && $taken == *' '-[46]' '* ]] && continue
        printf '%s\n' "$option"
    done
}

# What the program that is run takes, as its own completion knows it.
_autobuf_program()
{
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$host_at" # bash-completion 2.12 and later
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$host_at"
    else
        _autobuf_files
    fi
}

_autobuf()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' host='' host_at=0 i
    local -a used=()

    COMPREPLY=()
    # --option=value comes as three words, unless somebody took = out of COMP_WORDBREAKS.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    _autobuf_scan
    if [[ $command == run && $host ]]; then
        _autobuf_program
        return
    fi
    if [[ $cur == --intent=* ]]; then
        mapfile -t COMPREPLY < <(compgen -P --intent= -W 'throughput low-delay scavenger' -- "${cur#*=}")
        return
    fi
    if [[ ! $command ]]; then
        ((COMP_CWORD == 1)) &&
            mapfile -t COMPREPLY < <(
                compgen -W 'probe explain watch serve measure paths run top --version --help' -- "$cur")
        return
    fi
    case $prev in
    --intent)
        mapfile -t COMPREPLY < <(compgen -W 'throughput low-delay scavenger' -- "$cur")
        return
        ;;
    --log | --store | --socket)
        _autobuf_files
        return
        ;;
    --budget | --max | --timeout | --rate | --rtt | --streams | --bytes | --bind | --port | --clients | --per-address | --transfer | --hours | --interval | --count)
        return # one's own
        ;;
    -I | --from)
        mapfile -t COMPREPLY < <(cd /sys/class/net 2>/dev/null && compgen -G "$cur*")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_autobuf_options)" -- "$cur")
    elif [[ $command == watch || $prev == --pid ]]; then
        [[ $host ]] || mapfile -t COMPREPLY < <(
            cd /proc && compgen -G '[0-9]*' | grep -E "^$cur")
    elif [[ $command == paths && ! $host ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'list show set import export forget' -- "$cur")
    elif [[ $command == paths ]]; then
        case $host in
        show) _autobuf_hosts "$cur" ;;
        import) _autobuf_files ;;
        esac
    elif [[ $command == run ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    elif [[ $command == explain && " ${used[*]} " == *' --check '* ]]; then
        [[ $host ]] || _autobuf_files
    elif [[ $command != @(serve|top) && ! $host && " ${used[*]}" != *' --'@(rate|rtt|pid)* ]]; then
        _autobuf_hosts "$cur"
    fi
}

complete -F _autobuf autobuf
