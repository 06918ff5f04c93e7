# What stays in a container from its beginning to its end. The first process only waits, so that it takes in and buries
# whatever loses its parent; the resident answers what haft asks on the pipe, and ends when the pipe does, and with it all
# there is here. Only what every sh has built in is used to answer: when a program has taken all processes that there may
# be, nothing else can be started. $1: seconds after which it ends in any case.

look() {
    fields=
    while IFS= read -r text || [ -n "$text" ]; do fields=$text; done < "/proc/$1/stat"
    # The name may hold anything; what counts is behind its last parenthesis.
    fields=${fields##*") "}
    [ -n "$fields" ] || return 1
    set -- $fields
    state=$1 parent=$2 session=$4
}

# Zero bytes are left out by every sh, so all variables are one text.
bears() {
    [ -n "$2" ] || return 0
    while IFS= read -r text || [ -n "$text" ]; do
        case $text in *"HAFT_PROCESS=$2"*) return 0 ;; esac
    done < "/proc/$1/environ"
    return 1
}

# Those that bear a mark, or with none all, those below them, and those that were once seen so: whose parent has ended is
# below nobody any more.
members() {
    found=' ' others=
    for place in /proc/[0-9]*; do
        one=${place#/proc/}
        if [ "$one" = 1 ] || [ "$one" = "$self" ]; then continue; fi
        look "$one" || continue
        case $state in Z | X | x) continue ;; esac
        if [ "$session" != 0 ] && [ "$session" = "$own" ]; then continue; fi
        case $known in *" $one "*) is_known=yes ;; *) is_known= ;; esac
        if [ -n "$is_known" ] || bears "$one" "$1"; then
            found="$found$one "
            # At once: who stands still makes no others while we look.
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
    # Twice nobody: one that just becomes another program has no variables for a moment.
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

# To end by themselves. All are found before the first is asked.
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

resident() {
    read -r self rest < /proc/self/stat
    look "$self"
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
            # Podman says the workspace for a user that the image does not know.
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
resident <&3 3<&- 2>/dev/null &
resident=$!
exec 3<&-
(sleep "$1"; kill -KILL "$resident") >/dev/null 2>&1 &
wait "$resident"
