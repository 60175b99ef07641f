//! Anonymous network namespaces. A namespace disappears once its descriptor is closed and its processes have ended.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// Creates a namespace, and sets its device `lo` up.
    pub(crate) fn new() -> Self {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("root may make network namespaces");
            File::open("/proc/thread-self/ns/net").unwrap()
        };
        let namespace = Self(thread::spawn(make).join().unwrap());
        namespace.ip("link set lo up");
        // Duplicate address detection is useless here.
        namespace.sysctl("ipv6/conf/default/accept_dad", "0");
        namespace
    }

    /// Runs `work` in a thread within the namespace. Sockets and processes that it creates stay in the namespace.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Returns a path of the namespace, valid while this process holds it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs `ip` with arguments separated by spaces. Returns the output.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        let output =
            self.enter(|| Command::new("ip").args(arguments.split_whitespace()).output()).expect("ip is there");
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Sets a variable below /proc/sys/net.
    pub(crate) fn sysctl(&self, name: &str, value: &str) {
        self.enter(|| std::fs::write(format!("/proc/sys/net/{name}"), value)).expect("the variable is there");
    }

    pub(crate) fn index(&self, device: &str) -> u32 {
        self.enter(|| nix::net::if_::if_nametoindex(device)).expect("the device is there")
    }

    /// Joins two namespaces by a pair of devices, which are up.
    pub(crate) fn join(&self, device: &str, other: &Self, peer: &str) {
        self.ip(&format!("link add {device} type veth peer name {peer} netns {}", other.path()));
        self.ip(&format!("link set {device} up"));
        other.ip(&format!("link set {peer} up"));
    }
}
