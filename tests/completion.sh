#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# completion.sh BASH-FILE ZSH-FILE COMMAND: loads the completion for bash as a shell would, and
# compares what it offers; what both files offer is what COMMAND --help names. Prints TAP; exits 1
# if a case failed.
set -u

bash_file=$1 zsh_file=$2 command=$3
cases=0
fail=0

verdict() # label, what is wrong, if anything
{
    cases=$((cases + 1))
    if [ -z "$2" ]; then
        echo "ok $cases - $1"
    else
        echo "not ok $cases - $1"
        printf '%s\n' "$2" | sed 's/^/# /'
        fail=1
    fi
}

same() # label, wanted words, words found
{
    local wanted found

    wanted=$(tr ' ' '\n' <<<"$2" | sed '/^$/d' | sort)
    found=$(tr ' ' '\n' <<<"$3" | sed '/^$/d' | sort)
    if [ "$wanted" = "$found" ]; then
        verdict "$1" ''
    else
        verdict "$1" "wanted: ${wanted//$'\n'/ }; found: ${found//$'\n'/ }"
    fi
}

# What bash would be offered at the end of a line of these words, or at the word numbered in $at.
complete_words()
{
    COMP_WORDS=("$@")
    COMP_CWORD=${at:-$(($# - 1))}
    COMP_LINE="$*"
    COMP_POINT=${#COMP_LINE}
    COMPREPLY=()
    "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
}

offers() # wanted words, words on the line...
{
    local wanted=$1

    shift
    complete_words "$@"
    same "bash: $* -> $wanted" "$wanted" "${COMPREPLY[*]}"
}

# shellcheck source=completions/autobuf.bash
source "$bash_file"
function=$(complete -p autobuf | sed 's/.*-F \([^ ]*\).*/\1/')
hosts=$(mktemp)
trap 'rm -f "$hosts"' EXIT
printf '192.0.2.1 mirror.test\n192.0.2.2 mail.test\n192.0.2.3 other.test\n' >"$hosts"
HOSTFILE=$hosts # bash's own completion of host names reads it instead of /etc/hosts
all='-4 -6 -I -B --json --intent --budget --timeout --as-user --help'
explaining="$all --streams --bytes --sysctl --check"

offers 'probe explain watch serve measure paths run top --version --help' autobuf ''
offers 'probe paths' autobuf p
offers 'paths' autobuf pa
offers '--version --help' autobuf --
offers '' autobuf no-such-command
offers '' autobuf --version ''
offers "$all --available" autobuf probe -
offers "$explaining --rate --rtt --pid" autobuf explain -
offers "$$" autobuf explain --pid "$$"
offers "$$" autobuf explain --json --pid = "$$"
offers '--rate --rtt' autobuf explain --r
offers '' autobuf probe --r
offers "$explaining" autobuf explain mirror.test -
offers '-I -B --intent --budget --timeout --as-user --available --help' autobuf probe -4 --json -
offers '--rtt' autobuf explain --rate 400M --r
offers '--json --tune --intent --help' autobuf watch -
offers '--intent --help' autobuf watch --tune --json -
offers 'low-delay' autobuf watch --tune --intent l
offers "$$" autobuf watch --tune "$$"
offers '' autobuf watch 1 2
serving='--bind --port --rate --clients --per-address --transfer --help'
offers "$serving" autobuf serve -
offers "${serving#--bind }" autobuf serve --bind 192.0.2.1 -
offers "${serving/--port }" autobuf serve --port = 7411 --
offers '' autobuf serve --per-address ''
offers '' autobuf serve --clients = 7
offers '' autobuf serve m
offers '-4 -6 -I --json --intent --timeout --as-user --available --transfer --help' autobuf measure -
offers '--json --intent --as-user --available --transfer --help' autobuf measure -6 --timeout 500 mirror.test --
for option in --budget --rate --rtt --tune --bind --port --sysctl; do
    offers '' autobuf measure "$option"
done
at=2 offers '--json' autobuf probe --j mirror.test
offers 'throughput low-delay scavenger' autobuf probe --intent ''
offers 'low-delay' autobuf explain --intent l
offers 'throughput low-delay scavenger' autobuf probe --intent =
offers 'low-delay' autobuf probe --intent = low
offers '--intent=low-delay' autobuf probe --intent=l
for option in --budget --timeout --rate --rtt --streams --bytes; do
    offers '' autobuf explain "$option" ''
    offers '' autobuf explain "$option" = ''
done
offers '' autobuf serve --bind ''
running='--intent --max --keep-sizes --probe --log --report --help'
offers "$running" autobuf run -
offers '--max --probe --report --help' autobuf run --keep-sizes --intent low-delay --log "$hosts" -
offers 'low-delay' autobuf run --intent l
offers '' autobuf run --max ''
offers "$hosts" autobuf run --log "$hosts"
offers 'mapfile' autobuf run --report mapfil
offers "$hosts" autobuf run --report cat "$hosts"
offers '' autobuf run cat --rep
offers '' autobuf serve --port = 7
storing='--json --rate --rtt --hours --from --host --store --all --exported --help'
offers "$storing" autobuf paths -
offers '--json --rate --rtt --from --host --all --exported --help' autobuf paths --store "$hosts" --hours 3 set -
offers "$hosts" autobuf paths --store "$hosts"
offers 'list show set import export forget' autobuf paths ''
offers "$hosts" autobuf paths import "$hosts"
offers '' autobuf paths export ''
offers 'show set' autobuf paths --json s
offers 'mirror.test mail.test' autobuf paths show m
offers '' autobuf paths set m
lo=lo
[ -e /sys/class/net/lo ] || lo= # as in the root in which a package is built
offers "$lo" autobuf paths show mirror.test --from lo
offers '--json --socket --interval --count --help' autobuf top -
offers '--json --count --help' autobuf top --socket "$hosts" --interval 500 -
offers "$hosts" autobuf top --socket "$hosts"
offers '' autobuf top --count ''
offers '' autobuf top m
offers 'mirror.test mail.test' autobuf probe m
offers 'mirror.test' autobuf probe -4 --intent low-delay --budget = 20k mi
offers 'mirror.test' autobuf explain --json mi
offers '' autobuf probe mirror.test m
offers 'mirror.test mail.test' autobuf measure m
offers 'mirror.test' autobuf measure --timeout 500 mi
offers '' autobuf measure mirror.test : 7
offers '' autobuf measure mirror.test m
offers '' autobuf explain --rate 400M --rtt 100 m
offers '' autobuf explain --pid 17 m
unset HOSTFILE

# Known hosts, as bash-completion of either age has them.
# shellcheck disable=SC2317 # called by the completion
_known_hosts_real()
{
    COMPREPLY=("old:$*")
}
offers 'old:-- mi' autobuf probe mi
# shellcheck disable=SC2317
_comp_compgen_known_hosts()
{
    COMPREPLY=("new:$*")
}
offers 'new:-- mi' autobuf probe mi
unset -f _known_hosts_real _comp_compgen_known_hosts

# The program's own completion.
# shellcheck disable=SC2317
_command_offset()
{
    COMPREPLY=("old:$*")
}
offers 'old:4' autobuf run --max 1M rsync --a
# shellcheck disable=SC2317
_comp_command_offset()
{
    COMPREPLY=("new:$*")
}
offers 'new:2' autobuf run rsync --log x
unset -f _command_offset _comp_command_offset

# Nothing that the command does not know, and nothing forgotten.
help=$("$command" --help
    for name in probe explain watch serve measure paths run top; do "$command" "$name" --help; done)
names=$(
    grep -oE '^ +autobuf [a-z]+' <<<"$help" | grep -oE '[a-z]+$' | sort -u
    grep -oE -- '(^|[^A-Za-z-])-(-[a-z-]+|[0-9A-Za-z])' <<<"$help" | grep -oE -- '-.*' | sort -u
)
complete_words autobuf ''
offered=${COMPREPLY[*]}
for name in ${offered//--*/}; do
    complete_words autobuf "$name" -
    offered+=" ${COMPREPLY[*]}"
done
same 'bash: what --help names' "$names" "$(tr ' ' '\n' <<<"$offered" | sort -u)"
same 'zsh: what --help names' "$names" "$(
    grep -oE "^ +'[a-z]+:" "$zsh_file" | grep -oE '[a-z]+'
    grep -oE -- "[')\"](-[0-9A-Za-z]|--[a-z-]+)=?\\[" "$zsh_file" | grep -oE -- '-[0-9A-Za-z-]+' | sort -u
)"

cases=$((cases + 1))
if ! command -v zsh >/dev/null; then
    echo "ok $cases - zsh: syntax # SKIP zsh is not installed"
elif zsh -n "$zsh_file"; then
    echo "ok $cases - zsh: syntax"
else
    echo "not ok $cases - zsh: syntax"
    fail=1
fi
echo "1..$cases"
exit "$fail"
