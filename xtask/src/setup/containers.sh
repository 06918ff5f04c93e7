#!/usr/bin/env bash
# Creates what the container tests need, below target/tools/containers: a podman with its own storage, so that the user's
# storage is not touched, and an image of programs of this machine: busybox for nearly everything, bash, perl.
set -euo pipefail
cd "$(dirname "$0")/../../.."
tools=$PWD/target/tools/containers
image=$tools/image
rm -rf "$image"
mkdir -p "$tools" "$image/bin" "$image/etc" "$image/proc" "$image/sys" "$image/dev" "$image/tmp" "$image/run" "$image/root"

# Limits below those of any machine (raising one needs a right that a test may not have), a cgroup manager that needs no service, and no journal.
cat > "$tools/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
CONF

# crun refuses machines with both versions of cgroups. Without the mount of version 2 it sees only one. The mount is removed
# only for this program.
cat > "$tools/podman" <<PODMAN
#!/bin/sh
export CONTAINERS_CONF=$tools/containers.conf
run='exec podman --root $tools/storage --runroot $tools/run "\$@"'
if [ -d /sys/fs/cgroup/unified ] && [ "\$(id -u)" = 0 ]; then
    exec unshare --mount sh -c "umount /sys/fs/cgroup/unified; \$run" podman "\$@"
fi
eval "\$run"
PODMAN
chmod +x "$tools/podman"

cp "$(command -v busybox)" "$image/bin/busybox"
for applet in $("$image/bin/busybox" --list); do
    [ "$applet" = busybox ] || ln -sf busybox "$image/bin/$applet"
done
for program in "$(command -v bash)" /usr/bin/perl; do
    name=${program##*/}
    rm -f "$image/bin/$name"
    cp -L "$program" "$image/bin/$name"
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$image${library%/*}"
        cp -L "$library" "$image$library"
    done
done
for folder in /usr/lib/*/perl-base; do
    mkdir -p "$image${folder%/*}"
    cp -R "$folder" "$image${folder%/*}/"
done
echo 'root:x:0:0:root:/root:/bin/sh' > "$image/etc/passwd"

# For `haft bench` and manual tests: haft --config target/tools/containers/config.toml.
cat > "$tools/config.toml" <<CONFIG
sandbox = "container"
[container]
engine = "$tools/podman"
image = "haft-test"
CONFIG

tar -C "$image" -cf "$tools/image.tar" .
"$tools/podman" import --change 'ENTRYPOINT ["/bin/false"]' "$tools/image.tar" haft-test
# An image without a shell.
mkdir -p "$tools/bare"
tar -C "$tools/bare" -cf "$tools/bare.tar" .
"$tools/podman" import "$tools/bare.tar" haft-bare
rm -rf "$image" "$tools/image.tar" "$tools/bare" "$tools/bare.tar"
