#!/usr/bin/env bash
# Creates target/tools/containers/docker for the container tests: Docker's command line, connected to podman's service
# by a socket in a temporary folder. The service starts on demand and stops after half a minute without use. Run after
# containers.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
tools=$(readlink -f target/tools/containers)

if ! command -v docker > /dev/null; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    # Debian 13 has the command line in a separate package; before, it comes with the daemon, which is not started.
    for package in docker-cli docker.io; do
        $as_root apt-get install -y --no-install-recommends "$package" && break
    done
fi
docker=$(command -v docker)

cat > "$tools/docker.new" <<DOCKER
#!/bin/sh
folder=/tmp/haft-docker-\$(id -u)
[ "\$1" != --version ] || exec $docker --version
umask 077
mkdir -p "\$folder"
export DOCKER_HOST=unix://\$folder/podman.sock DOCKER_CONFIG=\$folder
# The process that starts the service holds the first lock until it runs; the service holds the second lock while it runs.
exec 9> "\$folder/starting"
flock 9
if flock --nonblock "\$folder/running" true; then
    rm -f "\$folder/podman.sock"
    setsid flock "\$folder/running" $tools/podman system service --time 30 "\$DOCKER_HOST" 9>&- > "\$folder/log" 2>&1 < /dev/null &
    tries=0
    until $docker version > /dev/null 2>&1 9>&- || [ "\$tries" = 100 ]; do
        tries=\$((tries + 1))
        sleep 0.1
    done
fi
exec 9>&-
exec $docker "\$@"
DOCKER
chmod +x "$tools/docker.new"
mv "$tools/docker.new" "$tools/docker"
