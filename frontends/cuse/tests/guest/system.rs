//! The files that `make install` installs, checked by their programs: systemd-sysusers, udev, systemd.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gantry_abi_cryptodev::Ioctl;

use crate::client::{Crypto, DEVICE, Server};

const PREFIX: &str = "/usr/local";

gantry_lab::in_guest! {
    ["--timeout", "200"]
    /// The group may serve, everyone may use the device, and no mode was changed by hand.
    fn udev_applies_the_owners_and_modes_of_the_rules() {
        install("sysusers", "lib/sysusers.d/gantry-devcrypto.conf");
        install("rules", "lib/udev/rules.d/60-gantry-devcrypto.rules");
        run(&["systemd-sysusers"]);
        let line = fs::read_to_string("/etc/group").unwrap();
        let line = line.lines().find(|line| line.starts_with("gantry-cuse:")).expect("the group").to_owned();
        let group: u32 = line.split(':').nth(2).unwrap().parse().unwrap();

        run(&["/lib/systemd/systemd-udevd", "--daemon"]);
        run(&["/sbin/modprobe", "cuse"]);
        run(&["udevadm", "settle"]);
        assert_eq!(owner_and_mode("/dev/cuse"), (0, group, 0o660));

        let _server = Server::start_as_a_unit(group);
        run(&["udevadm", "settle"]);
        assert_eq!(owner_and_mode(DEVICE), (0, 0, 0o666));
        let user_can_open = |device: &str| {
            let open = format!("exec 3<>{device}");
            Command::new("sh").args(["-c", &open]).uid(4321).gid(4321).status().unwrap().success()
        };
        assert!(user_can_open(DEVICE) && !user_can_open("/dev/cuse"));
        // Without the capability, a request has at most 128 KiB.
        let crypto = Crypto::open();
        let session = crypto.cipher(11, &[1; 16]).unwrap();
        assert!(crypto.run(session, 0, &[0; 16], &vec![0; 256 << 10]).is_ok());
        assert_eq!(crypto.call(Ioctl::GetDescriptor, &mut [0; 4]), Ok(()));
    }

    /// systemd accepts every setting of the unit, and finds the program.
    fn systemd_accepts_the_unit() {
        let unit = install("service", "lib/systemd/system/gantry-devcrypto.service");
        let verify = || Command::new("systemd-analyze").args(["verify", "--man=no", &unit]).output().unwrap();
        assert!(!verify().status.success(), "gantry is not installed yet");
        fs::create_dir_all(format!("{PREFIX}/bin")).unwrap();
        symlink(std::env::current_exe().unwrap(), format!("{PREFIX}/bin/gantry")).unwrap();
        let output = verify();
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // systemd only warns of unknown settings. Other units are ignored.
        let ours = errors.lines().filter(|line| line.contains("gantry")).collect::<Vec<_>>();
        assert!(output.status.success() && ours.is_empty(), "{text}{errors}");
        // The unit must permit enough sockets of AF_ALG, which the configuration can turn on.
        let unit = fs::read_to_string(&unit).unwrap();
        let setting = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or("").to_owned();
        assert!(setting("RestrictAddressFamilies").split(' ').any(|family| family == "AF_ALG"));
        // Needed for second descriptors.
        assert!(setting("SystemCallFilter").split(' ').any(|call| call == "ptrace"));
        let sessions = gantry_cuse::Limits::default().sessions;
        assert!(setting("LimitNOFILE").parse::<usize>().unwrap() > 2 * sessions, "two sockets a session");
    }
}

/// Installs a file at the place where `scripts/install` puts it.
fn install(kind: &str, place: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("system");
    let has_kind = |path: &Path| path.extension().is_some_and(|extension| extension == kind);
    let file = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| has_kind(path)).unwrap();
    let place = Path::new(PREFIX).join(place);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(&place, fs::read_to_string(file).unwrap().replace("@PREFIX@", PREFIX)).unwrap();
    place.to_str().unwrap().to_owned()
}

/// Runs a command that must succeed. The lab's guests are chroots, in which udev's commands do nothing unless told to ignore
/// that.
fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).env("SYSTEMD_IGNORE_CHROOT", "1").status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn owner_and_mode(path: &str) -> (u32, u32, u32) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.uid(), metadata.gid(), metadata.permissions().mode() & 0o7777)
}
