#!/bin/sh
# strongSwan between two networks, in namespaces of this script: keys by IKEv2, and a file of 1 MB through ESP.
#
#     unshare -rnmpf --mount-proc --kill-child sh ike.sh IKE ESP NEAR FAR
#
# IKE and ESP are proposals, NEAR and FAR the OpenSSL configurations of either side. All cryptography is OpenSSL's: no other crypto plugin
# is loaded. ESP is libipsec's, in the process, because not every kernel supports it.
set -e
ike=$1 esp=$2 near_conf=$3 far_conf=$4

far() {
    nsenter --net=/run/netns/far "$@"
}

mount -t tmpfs none /run
ip netns add far
ip link add near type veth peer name beyond netns far
for command in "" far; do
    $command ip link set lo up
done
ip link set near up
ip addr add 10.1.0.1/24 dev near
ip addr add 10.2.0.1/32 dev lo
far ip link set beyond up
far ip addr add 10.1.0.2/24 dev beyond
far ip addr add 10.2.0.2/32 dev lo

# Configures and starts the daemon of a side. If a daemon ends, the script ends.
trap 'exit 1' TERM
side() {
    name=$1 here=$2 there=$3 other=$4
    cat >"$name.strongswan" <<END
charon {
    load = random nonce openssl kdf kernel-libipsec kernel-netlink socket-default vici updown
    install_virtual_ip = no
    filelog { log { path = $PWD/$name.log
        default = 1
        flush_line = yes } }
    plugins { vici { socket = unix://$PWD/$name.vici } }
}
END
    cat >"$name.swanctl" <<END
connections { net { version = 2
    local_addrs = 10.1.0.$here
    remote_addrs = 10.1.0.$there
    proposals = $ike
    local { auth = psk
        id = $name }
    remote { auth = psk
        id = $other }
    children { net { local_ts = 10.2.0.$here/32
        remote_ts = 10.2.0.$there/32
        esp_proposals = $esp } } } }
secrets { ike { secret = "of both" } }
END
}
daemon() {
    name=$1 conf=$2
    shift 2
    OPENSSL_CONF=$conf STRONGSWAN_CONF=$name.strongswan "$@" unshare -m sh -c 'mount -t tmpfs none /run; exec /usr/lib/ipsec/charon' \
        >>"$name.log" 2>&1 || true
    kill $$
}
side near 1 2 far
side far 2 1 near
daemon near "$near_conf" &
daemon far "$far_conf" far &
for name in near far; do
    until [ -S $name.vici ]; do sleep 0.1; done
    swanctl --load-all --file $name.swanctl --uri "unix://$PWD/$name.vici" >/dev/null 2>&1
done
swanctl --initiate --timeout 20 --child net --uri "unix://$PWD/near.vici"

python3 -m http.server 8000 >/dev/null 2>&1 &
far curl -sS --interface 10.2.0.2 --retry 30 --retry-connrefused --retry-delay 1 --max-time 60 -o got http://10.2.0.1:8000/file &
wait $!
cmp got file
swanctl --list-sas --uri "unix://$PWD/near.vici"
