#!/bin/sh
# A fresh Debian in which a new user runs page.sh, beside an nginx that serves index.html under a certificate that the system
# trusts, in its own network:
#
#     unshare -nmpf --kill-child sh fresh.sh ROOT
#
# Both files are in ROOT.
set -e
mount --make-rprivate /
mount -t proc none "$1/proc"
mount --rbind /dev "$1/dev"
ip link set lo up
cat >"$1/server.sh" <<'END'
set -e
openssl req -x509 -newkey ed25519 -nodes -keyout /etc/ssl/private/server.pem -out /usr/local/share/ca-certificates/server.crt \
    -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost
update-ca-certificates
mkdir -p /srv/www
mv index.html /srv/www
cat >/etc/nginx/nginx.conf <<'CONF'
events {}
http {
    server {
        listen 127.0.0.1:443 ssl;
        ssl_certificate /usr/local/share/ca-certificates/server.crt;
        ssl_certificate_key /etc/ssl/private/server.pem;
        root /srv/www;
    }
}
CONF
nginx
END
in_it() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$1" sh -e "$2"
}
in_it "$1" server.sh >server.log 2>&1 || { cat server.log; exit 1; }
in_it "$1" page.sh
