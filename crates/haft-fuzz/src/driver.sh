# Runs as the first process of the sandbox: each text in a fresh copy of the fixture, one after the other.
# The opens of /mark tell in the log where a text begins and ends.
ulimit -c 0 -f 20480 -v 4000000
ulimit -u 500
is_dirty=1
exec 3</texts 2>/dev/null
while IFS= read -r -d '' text <&3; do
    if [[ $is_dirty ]]; then
        rm -rf /o/* /tmp/* || { chmod -R u+rwx /o /tmp; rm -rf /o/* /tmp/*; }
        cp -a /fixture/. /o/
    fi
    # Each text begins with a sign: `r` when it may change something, `k` when it should not.
    if [[ $text == r* ]]; then is_dirty=1; else is_dirty=; fi
    text=${text:1}
    : </mark/begin
    # What only looks gets the variables that haft gives it.
    (if [[ ! $is_dirty ]]; then . /quiet; fi; cd /o/w && exec timeout -s KILL 1 bash -c "$text" </dev/null >/tmp/out 2>&1 3<&-)
    # Everything but this first process: what runs on in the background would be taken for the next text's.
    kill -9 -1
    wait
    : </mark/end
done
