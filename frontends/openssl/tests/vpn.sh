#!/bin/sh
# OpenVPN between two networks, in namespaces of this script; a file of 1 MB goes through the tunnel:
#
#     unshare -rnmpf --mount-proc --kill-child sh vpn.sh CIPHER NEAR FAR
#
# NEAR and FAR are the OpenSSL configurations of either side. The control channel uses ChaCha20, so that only the tunnel uses
# CIPHER.
set -e
cipher=$1 near_conf=$2 far_conf=$3

far() {
    nsenter --net=/run/netns/far "$@"
}

mount -t tmpfs none /run
ip netns add far
ip link add near type veth peer name beyond netns far
ip link set lo up
ip link set near up
ip addr add 10.1.0.1/24 dev near
far ip link set lo up
far ip link set beyond up
far ip addr add 10.1.0.2/24 dev beyond

# If a side ends, the script ends.
trap 'exit 1' TERM
vpn() {
    conf=$1 log=$2
    shift 2
    print=$(openssl x509 -in cert.pem -noout -fingerprint -sha256)
    OPENSSL_CONF=$conf "$@" --dev tun --proto udp --port 1194 --verb 3 --disable-dco --ca cert.pem --cert cert.pem --key key.pem \
        --peer-fingerprint "${print#*=}" --tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256 \
        --data-ciphers "$cipher" --data-ciphers-fallback "$cipher" --auth SHA256 >"$log" 2>&1 || true
    kill $$
}
vpn "$near_conf" near.log openvpn --tls-server --dh none --ifconfig 10.2.0.1 10.2.0.2 &
vpn "$far_conf" far.log far openvpn --tls-client --remote 10.1.0.1 --ifconfig 10.2.0.2 10.2.0.1 &
python3 -m http.server 8000 >/dev/null 2>&1 &
until grep -qs 'Sequence Completed' near.log && grep -qs 'Sequence Completed' far.log; do sleep 0.1; done

far curl -sS --retry 30 --retry-connrefused --retry-delay 1 --max-time 60 -o got http://10.2.0.1:8000/file &
wait $!
cmp got file
grep "Data Channel: cipher '$cipher'" near.log
