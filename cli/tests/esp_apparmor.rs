//! AppArmor in guests: under Debian's enforced profile of charon, `gantry esp` works with the additions in `contrib/esp/apparmor`.

mod gantry;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};

use gantry::{Folder, text};
use gantry_lab::wait_until;
use serde_json::Value;

const CHARON: &str = "/usr/lib/ipsec/charon";
/// The kernel's label of a process under the enforced profile.
const CONFINED: &str = "/usr/lib/ipsec/charon (enforce)\n";

gantry_lab::in_guest! {
    ["--modules", "tun,veth", "--timeout", "600"]
    /// The daemons find the data path and agree on keys, a packet passes, and the kernel denies nothing.
    fn confined_daemons_make_a_tunnel_with_the_snippet() {
        if !is_possible() {
            return;
        }
        let site = Site::new("/usr/local", &snippet("/usr/local"));
        let sides = [Side::new(&site, 1), Side::new(&site, 2)];
        sides[0].sh(&format!("ip link add outside type veth peer name outside netns {}", sides[1].owner.0.id()));
        let running = sides.each_ref().map(|side| {
            side.sh(&format!("ip address add 192.0.2.{}/24 dev outside && ip link set outside up", side.number));
            (side.start_data_path(), side.start_daemon())
        });
        for (side, (_, daemon)) in sides.iter().zip(&running) {
            assert!(side.load_connection());
            side.assert_confined(daemon);
        }
        sides[0].await_success("packets pass", "ping -c 1 -W 1 -I 10.1.0.1 10.2.0.1");
        for side in &sides {
            let status = side.status();
            assert_eq!(status["associations"], serde_json::json!({ "in": 1, "out": 1 }), "{status}");
        }
        assert_eq!(denials(), Vec::<String>::new());
    }

    /// The loader continues without the library, and the daemon uses the kernel's IPsec instead of the data path.
    fn a_confined_daemon_without_the_snippet_is_denied_the_library() {
        if !is_possible() {
            return;
        }
        let site = Site::new("/usr/local", "");
        let side = Side::new(&site, 1);
        let _running = (side.start_data_path(), side.start_daemon());
        let denied = format!("profile=\"{CHARON}\" name=\"{}\"", site.library());
        wait_until("the kernel denies the library", || denials().iter().any(|line| line.contains(&denied)));
        side.load_connection();
        assert_eq!(side.status()["policies"], 0, "{}", side.status());
    }

    /// Debian's profiles allow libraries in /usr/lib, and its kernels do not mediate sockets.
    fn a_package_needs_no_snippet_on_debian() {
        if !is_possible() {
            return;
        }
        let site = Site::new("/usr", "");
        let side = Side::new(&site, 1);
        let (_path, daemon) = (side.start_data_path(), side.start_daemon());
        assert!(side.load_connection());
        side.assert_confined(&daemon);
        assert_eq!(denials(), Vec::<String>::new());
    }
}

/// True if all requirements are met. If one is missing, counts the test as skipped.
fn is_possible() -> bool {
    let needed = [
        ("/usr/sbin/apparmor_parser", "apparmor_parser"),
        ("/usr/bin/ping", "ping"),
        ("/usr/sbin/swanctl", "swanctl"),
        (CHARON, "charon"),
    ];
    let missing = needed.into_iter().find(|(path, _)| !Path::new(path).exists());
    if let Some((_, name)) = missing {
        gantry_lab::skip(name);
    }
    missing.is_none()
}

/// The file that `make install` puts into `share/gantry/esp`.
fn snippet(prefix: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/esp/apparmor");
    fs::read_to_string(path).unwrap().replace("@PREFIX@", prefix)
}

/// The program and the library where `make install` puts them, and Debian's profile of charon, which is enforced until the site is dropped.
struct Site {
    prefix: &'static str,
}

impl Site {
    const PROFILE: &str = "/etc/apparmor.d/usr.lib.ipsec.charon";

    /// Loads the profile with the administrator's additions, and clears the kernel's log.
    fn new(prefix: &'static str, local: &str) -> Self {
        let site = Self { prefix };
        let library = std::env::current_exe().unwrap().with_file_name("libgantry_xfrm.so");
        for (from, to) in [(Path::new(env!("CARGO_BIN_EXE_gantry")), site.program()), (&library, site.library())] {
            fs::create_dir_all(Path::new(&to).parent().unwrap()).unwrap();
            gantry_lab::copy_program(from, to);
        }
        if !Path::new("/sys/kernel/security/apparmor").exists() {
            sh("mount -t securityfs none /sys/kernel/security");
        }
        // By default, the kernel drops all but ten messages in five seconds.
        fs::write("/proc/sys/kernel/printk_ratelimit_burst", "10000").unwrap();
        fs::write("/etc/apparmor.d/local/usr.lib.ipsec.charon", local).unwrap();
        sh(&format!("apparmor_parser --replace --skip-cache {}", Self::PROFILE));
        let loaded = fs::read_to_string("/sys/kernel/security/apparmor/profiles").unwrap();
        assert!(loaded.contains(CONFINED), "{loaded}");
        sh("dmesg --clear");
        site
    }

    fn program(&self) -> String {
        format!("{}/bin/gantry", self.prefix)
    }

    fn library(&self) -> String {
        format!("{}/lib/gantry/libgantry_xfrm.so", self.prefix)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        sh(&format!("apparmor_parser --remove {}", Self::PROFILE));
    }
}

/// Returns the kernel's denials since the profile was loaded.
fn denials() -> Vec<String> {
    let log = sh("dmesg");
    log.lines().filter(|line| line.contains("apparmor=\"DENIED\"")).map(str::to_owned).collect()
}

/// One of two machines, with its own network and /run.
struct Side<'a> {
    site: &'a Site,
    number: u8,
    /// The process that owns the namespaces.
    owner: Running,
}

impl<'a> Side<'a> {
    fn new(site: &'a Site, number: u8) -> Self {
        let line = "mount -t tmpfs tmpfs /run && touch /run/is-own && exec sleep infinity";
        let owner = Command::new("unshare").args(["--net", "--mount", "sh", "-c", line]).spawn().unwrap();
        let side = Self { site, number, owner: Running(owner) };
        side.await_success("the side has its own namespaces", "test -e /run/is-own");
        side.sh(&format!("ip link set lo up && ip address add 10.{number}.0.1/32 dev lo"));
        side
    }

    /// Prepares a shell command on this side.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        let owner = self.owner.0.id().to_string();
        command.args(["--target", &owner, "--net", "--mount", "sh", "-c", line]);
        command
    }

    fn sh(&self, line: &str) -> String {
        succeeds(line, &self.command(line).output().unwrap())
    }

    fn start(&self, line: &str) -> Running {
        Running(self.command(&format!("exec {line}")).spawn().unwrap())
    }

    fn start_data_path(&self) -> Running {
        let path = self.start(&format!("{} esp serve --protect 10.{}.0.0/16", self.site.program(), 3 - self.number));
        self.await_success("the data path answers", &format!("{} esp status", self.site.program()));
        path
    }

    /// Starts the daemon; `gantry esp exec` becomes the daemon, so the PID is the daemon's.
    fn start_daemon(&self) -> Running {
        self.start(&format!("{} esp exec -- {CHARON}", self.site.program()))
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.sh(&format!("{} esp status --json", self.site.program()))).unwrap()
    }

    /// Checks that the daemon is confined, and that it has loaded the library and installed its trap policies in the data path.
    #[track_caller]
    fn assert_confined(&self, daemon: &Running) {
        let of_daemon = |name| fs::read_to_string(format!("/proc/{}/{name}", daemon.0.id())).unwrap();
        assert_eq!(of_daemon("attr/current"), CONFINED);
        assert!(of_daemon("maps").contains(&self.site.library()));
        assert_eq!(self.status()["policies"], 3, "{}", self.status());
    }

    fn await_success(&self, event: &str, line: &str) {
        wait_until(event, || self.command(line).output().unwrap().status.success());
    }

    /// Gives the daemon a connection with trap policies. Returns true if the daemon accepts it.
    fn load_connection(&self) -> bool {
        let (ours, theirs) = (self.number, 3 - self.number);
        let text = format!(
            "connections {{ net {{
                local_addrs = 192.0.2.{ours}
                remote_addrs = 192.0.2.{theirs}
                encap = yes
                local {{ auth = psk
                    id = side{ours} }}
                remote {{ auth = psk
                    id = side{theirs} }}
                children {{ net {{
                    local_ts = 10.{ours}.0.0/16
                    remote_ts = 10.{theirs}.0.0/16
                    esp_proposals = aes128gcm16
                    start_action = trap }} }} }} }}
            secrets {{ ike {{ secret = \"a secret of both sides\" }} }}\n"
        );
        let file = Folder::new(&format!("side{ours}"));
        let file = file.write("swanctl.conf", &text);
        self.await_success("charon answers", "swanctl --stats");
        self.command(&format!("swanctl --load-all --file {}", file.display())).output().unwrap().status.success()
    }
}

/// A program that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the output of a shell command.
#[track_caller]
fn sh(line: &str) -> String {
    succeeds(line, &Command::new("sh").args(["-c", line]).output().unwrap())
}

#[track_caller]
fn succeeds(line: &str, output: &Output) -> String {
    assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
