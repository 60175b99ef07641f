#!/bin/sh
# Runs an unmodified IKE daemon of Debian in a mount namespace of its own: with the machine's root, or that of another
# Debian in a folder.
#
#     unshare -m sh daemon.sh ROOT FOLDER PROGRAM [ARGUMENTS]
#
# ROOT is / or the other Debian. FOLDER has the test's files, under the same path on both sides. /run is empty, for PID
# files of the daemon. Another Debian gets a /dev with the nodes that the daemon needs, and keeps its files on disk.
set -e
root=$1 folder=$2
shift 2
mount -t tmpfs none "${root%/}/run"
[ "$root" != / ] || exec "$@"
mount -t tmpfs none "$root/tmp"
mkdir -p "$root$folder"
mount --bind "$folder" "$root$folder"
mount -t tmpfs none "$root/dev"
mkdir "$root/dev/net"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 600 "$root/dev/net/tun" c 10 200
mount --rbind /proc "$root/proc"
exec chroot "$root" "$@"
