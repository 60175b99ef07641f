#!/bin/sh
# An IKE daemon of Debian, unmodified, in a file system of its own: the machine's, or that of another Debian in a folder.
#
#     unshare -m sh daemon.sh ROOT FOLDER PROGRAM [ARGUMENTS]
#
# ROOT is / or the other Debian, FOLDER is where the test has its files: both sides know it by the same name. /run is empty, because daemons
# write their numbers there. Another Debian gets a /dev with what the daemon needs, and keeps what it has on disk.
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
