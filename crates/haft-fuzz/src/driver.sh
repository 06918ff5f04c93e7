# The first process of the sandbox. It runs each text in turn in a fresh copy of the fixture.
# Opening the files below /mark shows in the log where a text begins and ends.
ulimit -c 0 -f 20480 -v 4000000
ulimit -u 500
is_dirty=1
exec 3</texts 2>/dev/null
while IFS= read -r -d '' text <&3; do
    if [[ $is_dirty ]]; then
        rm -rf /o/* /tmp/* || { chmod -R u+rwx /o /tmp; rm -rf /o/* /tmp/*; }
        cp -a /fixture/. /o/
    fi
    # Each text has a prefix: `r` if it may change something, `k` if it is read-only.
    if [[ $text == r* ]]; then is_dirty=1; else is_dirty=; fi
    text=${text:1}
    : </mark/begin
    # A read-only text gets the variables that haft sets for read-only commands.
    (if [[ ! $is_dirty ]]; then . /quiet; fi; cd /o/w && exec timeout -s KILL 1 bash -c "$text" </dev/null >/tmp/out 2>&1 3<&-)
    # Kill everything but this first process: background processes would be counted for the next text.
    kill -9 -1
    wait
    : </mark/end
done
