//! Linux guests under QEMU: the driver of the guest's kernel, the kernel's own tests of the driver, and requests of programs.

use std::fs;
use std::io::{IoSlice, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_vhost_user::{Counters, Limits, Server, Socket};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, AlgAddr, ControlMessage, MsgFlags, SockFlag, SockType, accept, bind, sendmsg, setsockopt, socket,
    sockopt,
};

/// Runs two guests at once, and one of them again.
#[test]
#[ignore = "needs a guest: make lab"]
fn linux_encrypts_in_two_guests_at_once_and_after_a_restart() {
    if gantry_lab::is_guest() {
        return check_in_guest();
    }
    let folder = std::env::temp_dir().join(format!("gantry-linux-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let server = Server::new(framework()).unwrap();
    let paths = ["vm1", "vm2"].map(|name| folder.join(format!("{name}.sock")));
    for path in &paths {
        let socket = Socket { path: path.clone(), mode: 0o600, owner: (None, None) };
        server.listen(&socket, Limits::default(), Counters::default()).unwrap();
    }
    let guests = paths.each_ref().map(|path| boot_guest(path));
    guests.into_iter().for_each(assert_passed);
    assert_passed(boot_guest(&paths[0]));
    for ((name, counters), connections) in server.guests().into_iter().zip([2, 1]) {
        assert_eq!(
            (counters.connections, counters.sessions, counters.broken),
            (connections, 0, 0),
            "{name}: {counters:?}"
        );
        assert!(counters.requests >= connections * SIZES.len() as u64 && counters.refused == 0, "{name}: {counters:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Bytes of requests. Linux' driver supports at most 31 pages in a request.
const SIZES: [usize; 6] = [16, 1024, 4096, 65_536, 118_784, 126_976];
const KEY: [u8; 32] = [3; 32];
const IV: [u8; 16] = [5; 16];

/// Runs in the guest: the kernel's tests of the driver have passed, and its ciphertext is correct for every size.
fn check_in_guest() {
    let algorithms = fs::read_to_string("/proc/crypto").unwrap();
    let ours = algorithms.split("\n\n").find(|block| block.contains("virtio_crypto_aes_cbc"));
    assert!(ours.is_some_and(|block| block.contains("selftest     : passed")), "{ours:?}");
    let session = framework().session(SessionParams::new(Algorithm::Aes256Cbc, &KEY)).unwrap();
    for size in SIZES {
        let data: Vec<u8> = (0..size).map(|at| (at * 7 + at / 251) as u8).collect();
        let sealed = crypt_in_kernel(libc::ALG_OP_ENCRYPT, &data);
        let mut expected = data.clone();
        session.encrypt(&IV, &mut expected[..]).unwrap();
        assert!(sealed == expected, "{size} bytes");
        assert!(crypt_in_kernel(libc::ALG_OP_DECRYPT, &sealed) == data, "{size} bytes");
    }
}

/// Runs data through the kernel's driver, by AF_ALG.
fn crypt_in_kernel(operation: libc::c_int, data: &[u8]) -> Vec<u8> {
    let key = socket(AddressFamily::Alg, SockType::SeqPacket, SockFlag::empty(), None).unwrap();
    bind(key.as_raw_fd(), &AlgAddr::new("skcipher", "virtio_crypto_aes_cbc")).unwrap();
    setsockopt(&key, sockopt::AlgSetKey::default(), &KEY).unwrap();
    // SAFETY: the descriptor is new and has no other owner.
    let requests = unsafe { OwnedFd::from_raw_fd(accept(key.as_raw_fd()).unwrap()) };
    let control_messages = [ControlMessage::AlgSetOp(&operation), ControlMessage::AlgSetIv(&IV)];
    let sent =
        sendmsg::<()>(requests.as_raw_fd(), &[IoSlice::new(data)], &control_messages, MsgFlags::empty(), None).unwrap();
    assert_eq!(sent, data.len());
    let mut result = vec![0; data.len()];
    fs::File::from(requests).read_exact(&mut result).unwrap();
    result
}

/// Boots a guest whose crypto device is served at `path`, and which runs this test.
fn boot_guest(path: &Path) -> Child {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/guest"))
        .args(["run", "--vhost-user", path.to_str().unwrap(), "--timeout", "300"])
        // The kernel's own tests, which are off in other guests.
        .args(["--append", "cryptomgr.notests=0"])
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "linux_encrypts_in_two_guests_at_once_and_after_a_restart"])
        .args(["--include-ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lab/guest starts")
}

fn assert_passed(guest: Child) {
    let output = guest.wait_with_output().unwrap();
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}\n{errors}", output.status);
}

fn framework() -> Gantry {
    gantry_runtime::open(gantry_runtime::Config::default()).unwrap()
}
