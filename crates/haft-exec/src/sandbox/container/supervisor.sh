# Runs in a container from its beginning to its end. The first process only waits, so that it adopts and reaps orphans; the
# supervisor answers haft's requests on the pipe, and ends when the pipe is closed, which ends the whole container. It uses
# only builtins of every sh: when a program has reached the process limit, nothing else can be started. $1: maximum age in
# seconds.

read_stat() {
    fields=
    while IFS= read -r text || [ -n "$text" ]; do fields=$text; done < "/proc/$1/stat"
    # The name may contain any character; the fields start after its last parenthesis.
    fields=${fields##*") "}
    [ -n "$fields" ] || return 1
    set -- $fields
    state=$1 parent=$2 session=$4
}

# Every sh drops zero bytes, so all variables are one string.
has_mark() {
    [ -n "$2" ] || return 0
    while IFS= read -r text || [ -n "$text" ]; do
        case $text in *"HAFT_PROCESS=$2"*) return 0 ;; esac
    done < "/proc/$1/environ"
    return 1
}

# Finds the processes with a mark (without one, all), their descendants, and those that were found before: a process whose
# parent has ended has no ancestor in the tree any more.
members() {
    found=' ' others=
    for place in /proc/[0-9]*; do
        one=${place#/proc/}
        if [ "$one" = 1 ] || [ "$one" = "$self" ]; then continue; fi
        read_stat "$one" || continue
        case $state in Z | X | x) continue ;; esac
        if [ "$session" != 0 ] && [ "$session" = "$own" ]; then continue; fi
        case $known in *" $one "*) is_known=yes ;; *) is_known= ;; esac
        if [ -n "$is_known" ] || has_mark "$one" "$1"; then
            found="$found$one "
            # At once: a stopped process starts no others during the search.
            [ -z "$2" ] || kill "$2" "$one"
        else
            others="$others $one:$parent"
        fi
    done
    more=yes
    while [ -n "$more" ]; do
        more= rest=
        for one in $others; do
            case $found in
            *" ${one#*:} "*)
                found="$found${one%%:*} " more=yes
                [ -z "$2" ] || kill "$2" "${one%%:*}"
                ;;
            *) rest="$rest $one" ;;
            esac
        done
        others=$rest
    done
}

count() {
    set -- $found
    number=$#
}

end() {
    round=0 clear=0
    # Two empty rounds: during exec a process has no variables for a moment.
    while [ "$round" -lt 300 ] && [ "$clear" -lt 2 ]; do
        members "$1" -STOP
        if [ "$found" = ' ' ]; then
            clear=$((clear + 1))
        else
            clear=0
            kill -KILL $found
        fi
        round=$((round + 1))
    done
    known=
    members "$1"
    count
}

# Asks the processes to end. All are found before the first is asked.
ask() {
    known=
    members "$1"
    known=$found
    [ "$found" = ' ' ] || kill -TERM $found
}

listens() {
    for table in /proc/net/tcp /proc/net/tcp6; do
        while read -r number local remote state rest; do
            case "$local $state" in *":$1 0A") return 0 ;; esac
        done < "$table"
    done
    return 1
}

program() {
    folders=$PATH:
    while [ -n "$folders" ]; do
        at=${folders%%:*}/$1 folders=${folders#*:}
        if [ -f "$at" ] && [ -x "$at" ]; then return 0; fi
    done
    at=
    return 1
}

supervisor() {
    read -r self rest < /proc/self/stat
    read_stat "$self"
    own=$session known=
    echo 0 ready
    while IFS= read -r line; do
        id=${line%% *} line=${line#* }
        verb=${line%% *} what=${line#* }
        answer=no
        case $verb in
        ping) answer=yes ;;
        ask) ask "$what"; answer=yes ;;
        end) end "$what"; answer=$number ;;
        clear) end ''; answer=$number ;;
        left) known=; members "$what"; count; answer=$number ;;
        all) known=; members ''; count; answer=$number ;;
        listens) listens "$what" && answer=yes ;;
        find) program "$what"; answer=$at ;;
        runs) [ -f "$what" ] && [ -x "$what" ] && answer=yes ;;
        home)
            answer=/tmp
            # Podman sets the workspace for a user that the image does not know.
            case $HOME in
            '' | / | /workspace) ;;
            *) [ ! -d "$HOME" ] || answer=$HOME ;;
            esac
            ;;
        esac
        echo "$id $answer"
    done
}

exec 3<&0 </dev/null
supervisor <&3 3<&- 2>/dev/null &
supervisor=$!
exec 3<&-
(sleep "$1"; kill -KILL "$supervisor") >/dev/null 2>&1 &
wait "$supervisor"
