//! Torrents: files as lists of SHA-1 digests.

mod lab;

use std::path::Path;

use lab::{Lab, Server, TAKEN, installed, noise, port, text};

/// The place in a torrent from which on it says what was hashed, and not when and by whom.
fn info(torrent: &[u8]) -> &[u8] {
    let mark = b"4:infod";
    let at = torrent.windows(mark.len()).position(|window| window == mark).expect("a torrent");
    &torrent[at..]
}

#[test]
fn transmission_creates_torrents_and_verifies_them() {
    if !installed("transmission-create") || !installed("transmission-daemon") || !installed("transmission-remote") {
        return;
    }
    let lab = Lab::new("torrent");
    let mut data = noise(3_000_000);
    lab.write("file", &data);
    let (taken, none) = (lab.configuration(TAKEN), Path::new("/dev/null"));
    let failed = lab.configuration("CIPHERS = NONE\nDIGESTS = SHA1\nMACS = NONE\nFORCE_FAIL = yes");
    let create = |configuration: &Path| {
        let output = lab.sh("rm -f torrent; transmission-create -s 64 -o torrent file", configuration);
        let torrent = std::fs::read(lab.path("torrent")).unwrap_or_default();
        (output.status.success(), torrent, text(&output))
    };
    let (_, plain, _) = create(none);
    let (created, torrent, said) = create(&taken);
    assert!(created, "{said}");
    assert_eq!(info(&plain), info(&torrent));
    let (created, torrent, _) = create(&failed);
    assert!(!created || info(&plain) != info(&torrent), "not used");

    lab.write("torrent", &plain);
    // How many per cent of the file are what the torrent says.
    let verify = |configuration: &Path, name: &str| -> Option<String> {
        let (port, peer) = (port(), port());
        let mut daemon = lab.command("transmission-daemon", configuration);
        daemon.args(["--foreground", "--no-portmap", "--no-dht", "--no-lpd", "--no-utp", "--no-auth"]);
        daemon.args(["--rpc-bind-address", "127.0.0.1", "--bind-address-ipv4", "127.0.0.1", "--config-dir", name]);
        daemon.args(["--port", &port.to_string(), "--peerport", &peer.to_string(), "--download-dir"]).arg(&lab.folder);
        let _daemon: Server = lab.serve(&mut daemon, port);
        let remote = format!("transmission-remote 127.0.0.1:{port}");
        let script = format!(
            "{remote} --add torrent >/dev/null; {remote} --torrent all --verify >/dev/null\n\
             while {remote} --torrent all --info | grep -q 'State: .*Verify'; do sleep 0.1; done\n\
             {remote} --torrent all --info | sed -n 's/^ *Percent Done: //p'"
        );
        let output = lab.sh(&script, none);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    assert_eq!(verify(&taken, "taken").as_deref(), Some("100%"), "{}", lab.log());
    assert_ne!(verify(&failed, "failed").as_deref(), Some("100%"), "not used");
    // Who finds a file good does not find every file good.
    data[1_000_000] ^= 1;
    lab.write("file", &data);
    let damaged = verify(&taken, "damaged").unwrap();
    assert!(damaged.starts_with("97."), "{damaged}");
}
