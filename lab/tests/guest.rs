//! The behaviour of `lab/guest`, which runs programs in guests.

use std::process::{Command, Output};

use gantry_lab::{in_guest, wait_until};

fn guest(options: &[&str], script: &str) -> Output {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/guest"))
        .arg("run")
        .args(options)
        .args(["--", "sh", "-c", script])
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
#[ignore = "needs a guest: make lab"]
fn output_errors_and_exit_code_come_back_and_nothing_is_written() {
    let folder = std::env::temp_dir();
    let file = folder.join("gantry-lab-was-here");
    let run = guest(&[], &format!("uname -r; pwd; echo wrong >&2; echo x >{0} && cat {0}; exit 7", file.display()));
    let here = std::env::current_dir().unwrap();
    let lines = text(&run.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with("6."), "{lines:?}");
    assert_eq!(lines[1..], [here.to_str().unwrap(), "x"]);
    assert!(text(&run.stderr).contains("wrong"));
    assert_eq!(run.status.code(), Some(7));
    assert!(!file.exists());
}

#[test]
#[ignore = "needs a guest: make lab"]
fn a_guest_that_hangs_is_ended_with_its_last_kernel_messages() {
    let run = guest(&["--timeout", "20"], "echo before the end >/dev/kmsg; sleep 1000");
    assert_eq!(run.status.code(), Some(124));
    let run = guest(&["--timeout", "60"], "echo the end is near; echo c >/proc/sysrq-trigger");
    assert_eq!(run.status.code(), Some(125));
    assert!(text(&run.stderr).contains("sysrq triggered crash"), "{}", text(&run.stderr));
    assert_eq!(text(&run.stdout), "the end is near\n");
}

/// On a machine that has no kernel yet, many guests begin at once.
#[test]
fn two_guests_fetch_a_missing_package_once() {
    let folder = std::env::temp_dir().join(format!("gantry-lab-fetch-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("tree/DEBIAN")).unwrap();
    std::fs::write(folder.join("tree/file"), "x").unwrap();
    std::fs::write(
        folder.join("tree/DEBIAN/control"),
        "Package: one\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: one\n",
    )
    .unwrap();
    // The archive answers late, so that both guests ask for the package before either has it.
    let script = r#"
import sys, threading, time
from importlib.machinery import SourceFileLoader
from pathlib import Path
sys.dont_write_bytecode = True
guest, folder = SourceFileLoader("guest", sys.argv[1]).load_module(), Path(sys.argv[2])
guest.CACHE = folder
def download(*_):
    time.sleep(0.5)
    return (folder / "one.deb").read_bytes()
guest.download = download
def fetch():
    guest.unpack("pool/one.deb", "", folder / "one")
    assert (folder / "one/file").read_text() == "x"
both = [threading.Thread(target=fetch) for _ in range(2)]
for thread in both: thread.start()
for thread in both: thread.join()
"#;
    let build = Command::new("dpkg-deb").args(["-b", "tree", "one.deb"]).current_dir(&folder).output().unwrap();
    assert!(build.status.success(), "{}", text(&build.stderr));
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");
    let run = Command::new("python3").args(["-W", "ignore", "-c", script, guest]).arg(&folder).output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(text(&run.stderr), "guest: fetching one.deb\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

in_guest! {
    ["--device", "virtio-crypto"]
    /// The device is there with its modules, and gone once QEMU's monitor removes it.
    fn a_device_comes_and_goes() {
        let has = || std::fs::read_dir("/sys/bus/virtio/drivers/virtio_crypto").unwrap().any(|entry| {
            entry.unwrap().file_name().to_str().unwrap().starts_with("virtio")
        });
        assert!(has());
        assert!(std::fs::read_to_string("/proc/crypto").unwrap().contains("virtio_crypto_aes_cbc"));
        assert!(Command::new("guest-monitor").args(["device_del", "crypto0"]).status().unwrap().success());
        wait_until("it is gone", || !has());
    }
}
