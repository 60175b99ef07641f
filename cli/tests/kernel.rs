//! Commands on a real kernel, in guests.

mod gantry;

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};

use gantry::{find, json, stdout};
use gantry_lab::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

gantry_lab::in_guest! {
    ["--device", "virtio-crypto", "--modules", "aesni_intel", "--timeout", "300"]
    /// The command shows the engine, the preferred driver, alternatives, and the interfaces by which programs reach the engine.
    fn an_engine_is_explained() {
        let on = ["--devices", "afalg=on"];
        let devices = json(&["devices", "--json", on[0], on[1]]);
        assert_eq!(find(&devices, "name", "afalg:virtio_crypto")["class"], "hardware");
        assert_eq!(find(&devices, "name", "afalg:cpu")["class"], "kernel");

        let kernel: Value = serde_json::from_str(&stdout(&["kernel", "--json"])).unwrap();
        let engine = &kernel["engines"]["virtio_crypto"][0];
        assert_eq!(engine["name"], "cbc(aes)", "{kernel}");
        assert_eq!(engine["device"], "afalg:virtio_crypto");
        assert_eq!(engine["preferred"], false);
        assert!(engine["instructions"].is_string());
        let Value::Array(algorithms) = &kernel["algorithms"] else { panic!("{kernel}") };
        let cbc = find(algorithms, "name", "cbc(aes)");
        assert_eq!((&cbc["af_alg"], &cbc["drivers"][0]["driver"]), (&"skcipher".into(), &"cbc-aes-aesni".into()));

        let text = stdout(&["kernel"]);
        let on_the_cpu = text.lines().find_map(|line| line.strip_prefix("On the CPU's instructions: ")).unwrap();
        assert!(on_the_cpu.split(", ").any(|name| name == "cbc(aes)") && !text.contains("modprobe"), "{text}");
        let text = stdout(&["kernel", "cbc(aes)"]);
        assert!(text.starts_with("On an accelerator: nothing. The kernel prefers the CPU to virtio_crypto.\n"), "{text}");
        assert!(text.contains("virtio_crypto_aes_cbc") && text.contains("The engine of virtio_crypto"), "{text}");
        let route = stdout(&["route", "aes-128-cbc", "--bytes", "65536", on[0], on[1]]);
        assert!(route.contains("afalg:virtio_crypto") && route.contains("software"), "{route}");
    }

    ["--device", "virtio-crypto", "--timeout", "300"]
    /// Names the module that is missing, and the algorithm of the engine.
    fn a_missing_module_is_named() {
        let text = stdout(&["kernel"]);
        assert!(text.starts_with("On an accelerator: cbc(aes) (virtio_crypto), "), "{text}");
        if fs::read_to_string("/proc/cpuinfo").unwrap().split_whitespace().any(|flag| flag == "aes") {
            assert!(text.contains("\nIn plain C, although this CPU has instructions: ") && text.contains("modprobe -a aesni_intel"), "{text}");
        }
    }

    ["--modules", "cuse", "--timeout", "300"]
    /// `gantry devcrypto serve` serves programs; here `gantry` is also the program.
    fn dev_crypto_is_served() {
        let _server = Server::start(&[]);
        let devices = json(&["devices", "--json", "--devices", "devcrypto=on"]);
        assert_eq!(find(&devices, "name", "devcrypto:cpu")["state"], "ready");
        stdout(&["check", "--devices", "devcrypto=on", "--device", "devcrypto:cpu", "--algorithm", "md5,aes-256-ctr", "--all", "--seconds", "0.1"]);
    }

    ["--device", "virtio-crypto", "--modules", "cuse", "--timeout", "300"]
    /// An engine is plugged in; on SIGHUP the server finds and serves it.
    fn a_server_finds_a_new_engine() {
        monitor(&["device_del", "crypto0"]);
        wait_for_engine(false);
        let mut server = Server::start(&["--devices", "afalg=on"]);
        monitor(&["device_add", "virtio-crypto-pci,id=crypto0,cryptodev=backend0,bus=slot0"]);
        wait_for_engine(true);
        assert_eq!(server.look_again(), "gantry: SIGHUP: new: afalg:virtio_crypto");
        assert_eq!(server.look_again(), "gantry: SIGHUP: no new device");
        assert!(std::path::Path::new("/dev/crypto").exists(), "the server has stopped serving");
    }
}

/// A running `gantry devcrypto serve`. `start` stands in for systemd, and waits for the message `READY=1`.
struct Server {
    child: Child,
    /// Lines of its stderr.
    lines: Lines<BufReader<ChildStderr>>,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let folder = gantry::Folder::new("ready");
        let path = folder.path().join("socket");
        let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let mut command: Command = gantry::command(&["devcrypto", "serve"]);
        let mut child = command.args(options).env("NOTIFY_SOCKET", &path).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut message = [0; 100];
        let length = socket.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"READY=1");
        assert_eq!(lines.next().unwrap().unwrap(), "gantry: serving /dev/crypto");
        Self { child, lines }
    }

    /// Sends SIGHUP, and returns the server's message.
    fn look_again(&mut self) -> String {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGHUP).unwrap();
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a command to QEMU's monitor.
fn monitor(command: &[&str]) {
    assert!(Command::new("guest-monitor").args(command).status().unwrap().success());
}

fn wait_for_engine(is_present: bool) {
    wait_until("the engine comes or goes", || {
        fs::read_to_string("/proc/crypto").unwrap().contains("virtio_crypto") == is_present
    });
}
