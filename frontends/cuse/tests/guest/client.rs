//! The operations of a program on `/dev/crypto`, and the process that serves this device.

#![allow(dead_code, reason = "each test uses its own part")]

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use gantry_abi_cryptodev::{CopyHashOp, CryptAuthOp, CryptOp, Ioctl, SessionInfoOp, SessionOp, Width};
use gantry_lab::wait_until;

pub(crate) const DEVICE: &str = "/dev/crypto";
/// An address without a mapping.
pub(crate) const UNMAPPED_ADDRESS: u64 = 8;

/// The server, as a separate process.
pub(crate) struct Server(Option<Child>);

impl Server {
    /// Starts a server with the intended privileges. If the device exists already (the kernel module is loaded), it is used
    /// instead: the tests hold for both.
    pub(crate) fn start() -> Self {
        Self::start_as(0, &[])
    }

    /// Starts a server that may not access its callers' memory.
    pub(crate) fn start_without_rights(limits: &[(&str, String)]) -> Self {
        fs::set_permissions("/dev/cuse", fs::Permissions::from_mode(0o666)).unwrap();
        Self::start_as(1234, limits)
    }

    /// Starts a server that gives all work to one device, possibly of AF_ALG.
    pub(crate) fn start_pinned(device: &str) -> Self {
        Self::start_as(0, &[("DEVICE", device.to_owned())])
    }

    pub(crate) fn start_as(uid: u32, limits: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.uid(uid).envs(limits.iter().cloned());
        let server = Self::start_with(command);
        if !server.is_module() {
            fs::set_permissions(DEVICE, fs::Permissions::from_mode(0o666)).unwrap();
        }
        server
    }

    /// Starts a server as the systemd unit does: as a user with the group of /dev/cuse, and with one capability, to access
    /// its callers' memory. The test has to set the device's mode.
    pub(crate) fn start_as_a_unit(group: u32) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1234", &format!("--regid={group}"), "--clear-groups", "--no-new-privs"]);
        command.args(["inh-caps", "ambient-caps", "bounding-set"].map(|set| format!("--{set}=-all,+sys_ptrace")));
        command.arg(std::env::current_exe().unwrap());
        Self::start_with(command)
    }

    /// Starts a server by this test program, or by a command that executes it.
    fn start_with(mut command: Command) -> Self {
        if Path::new(DEVICE).exists() {
            println!("the device exists already: {DEVICE}");
            return Self(None);
        }
        command.args(["--exact", "serve", "--include-ignored", "--nocapture"]).env("SERVE", "yes");
        let mut server = Self(Some(command.spawn().unwrap()));
        wait_until("the device exists", || {
            assert!(server.is_running(), "the server ended");
            Path::new(DEVICE).exists()
        });
        server
    }

    pub(crate) fn is_module(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| child.try_wait().unwrap().is_none())
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.0.as_ref().map(Child::id)
    }

    /// Returns the server's resources; `None` for the module.
    pub(crate) fn resources(&self) -> Option<Resources> {
        let process = format!("/proc/{}", self.pid()?);
        // A thread that has just given a caller its descriptor may still exist, but ends soon.
        let is_creating_descriptor = || {
            let threads = fs::read_dir(format!("{process}/task")).unwrap().flatten();
            let mut names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|name| name.trim_end() == "descriptor")
        };
        wait_until("no thread is creating a descriptor", || !is_creating_descriptor());
        let status = fs::read_to_string(format!("{process}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let descriptors = fs::read_dir(format!("{process}/fd")).unwrap().count();
        Some(Resources { memory: number("RssAnon:"), threads: number("Threads:"), descriptors })
    }

    pub(crate) fn kill(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Resources that must not grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources {
    /// KiB of anonymous memory.
    pub(crate) memory: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: usize,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        wait_until("the device is gone", || self.0.is_none() || !Path::new(DEVICE).exists());
    }
}

/// Runs the server's process.
pub(crate) fn serve() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse().unwrap());
    let default = gantry_cuse::Limits::default();
    let limits = gantry_cuse::Limits {
        sessions: number("SESSIONS").unwrap_or(default.sessions),
        bytes: number("BYTES").unwrap_or(default.bytes),
    };
    let mut config = gantry_runtime::Config::default();
    if let Ok(device) = std::env::var("DEVICE") {
        config.set("devices.afalg", "on", "the test").unwrap();
        config.set("policy", &format!("pin:{device}"), "the test").unwrap();
    }
    let gantry = gantry_runtime::open(config).unwrap();
    let Err(error) = gantry_cuse::Server::new(gantry, "crypto", limits).unwrap().run();
    panic!("{error}");
}

pub(crate) type Errno = i32;

/// An open file of the device.
pub(crate) struct Crypto(pub(crate) File);

impl Crypto {
    pub(crate) fn open() -> Self {
        Self(OpenOptions::new().read(true).write(true).open(DEVICE).unwrap())
    }

    /// Issues any ioctl with any argument.
    pub(crate) fn ioctl(&self, code: u32, argument: u64) -> Result<(), Errno> {
        // SAFETY: the kernel accesses only buffers of the tests, which are alive and long enough, or unmapped addresses,
        // which it detects.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), u64::from(code) as _, argument) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) }
    }

    pub(crate) fn call(&self, ioctl: Ioctl, bytes: &mut [u8]) -> Result<(), Errno> {
        self.ioctl(ioctl.code(Width::NATIVE), bytes.as_mut_ptr().expose_provenance() as u64)
    }

    pub(crate) fn session(&self, op: SessionOp) -> Result<u32, Errno> {
        let mut bytes = op.to_bytes(Width::NATIVE);
        self.call(Ioctl::OpenSession, &mut bytes)?;
        Ok(SessionOp::from_bytes(&bytes, Width::NATIVE).unwrap().session)
    }

    pub(crate) fn cipher(&self, number: u32, key: &[u8]) -> Result<u32, Errno> {
        self.session(SessionOp {
            cipher: number,
            key_len: key.len() as u32,
            key: address_of(key),
            ..SessionOp::default()
        })
    }

    pub(crate) fn hash(&self, number: u32, key: &[u8]) -> Result<u32, Errno> {
        let mac_key_len = key.len() as u32;
        self.session(SessionOp { mac: number, mac_key_len, mac_key: address_of(key), ..SessionOp::default() })
    }

    pub(crate) fn cipher_and_mac(&self, cipher: (u32, &[u8]), mac: (u32, &[u8])) -> Result<u32, Errno> {
        self.session(SessionOp {
            cipher: cipher.0,
            key_len: cipher.1.len() as u32,
            key: address_of(cipher.1),
            mac: mac.0,
            mac_key_len: mac.1.len() as u32,
            mac_key: address_of(mac.1),
            session: 0,
        })
    }

    pub(crate) fn close(&self, session: u32) -> Result<(), Errno> {
        self.call(Ioctl::CloseSession, &mut session.to_ne_bytes())
    }

    pub(crate) fn info(&self, session: u32) -> Result<SessionInfoOp, Errno> {
        let mut bytes = SessionInfoOp { session, ..SessionInfoOp::default() }.to_bytes(Width::NATIVE);
        self.call(Ioctl::SessionInfo, &mut bytes)?;
        Ok(SessionInfoOp::from_bytes(&bytes, Width::NATIVE).unwrap())
    }

    pub(crate) fn copy_hash(&self, to: u32, from: u32) -> Result<(), Errno> {
        self.call(Ioctl::CopyHash, &mut CopyHashOp { to, from }.to_bytes(Width::NATIVE))
    }

    pub(crate) fn crypt(&self, op: CryptOp) -> Result<(), Errno> {
        self.call(Ioctl::Crypt, &mut op.to_bytes(Width::NATIVE))
    }

    pub(crate) fn auth_crypt(&self, op: CryptAuthOp) -> Result<CryptAuthOp, Errno> {
        let mut bytes = op.to_bytes(Width::NATIVE);
        self.call(Ioctl::AuthCrypt, &mut bytes)?;
        Ok(CryptAuthOp::from_bytes(&bytes, Width::NATIVE).unwrap())
    }

    /// Passes data through a cipher, from one buffer into another. An empty IV continues from the previous request.
    pub(crate) fn run(&self, session: u32, op: u16, iv: &[u8], data: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut output = vec![0xEE; data.len()];
        let (len, src, dst) = (data.len() as u32, address_of(data), address_of_mut(&mut output));
        let iv = if iv.is_empty() { 0 } else { address_of(iv) };
        self.crypt(CryptOp { session, op, len, src, dst, iv, ..CryptOp::default() })?;
        Ok(output)
    }

    /// Performs a step of a digest.
    pub(crate) fn digest(&self, session: u32, flags: u16, data: &[u8], bytes: usize) -> Result<Vec<u8>, Errno> {
        let mut digest = vec![0; bytes];
        let (len, src, mac) = (data.len() as u32, address_of(data), address_of_mut(&mut digest));
        self.crypt(CryptOp { session, flags, len, src, mac, ..CryptOp::default() })?;
        Ok(digest)
    }
}

pub(crate) fn address_of(bytes: &[u8]) -> u64 {
    bytes.as_ptr().expose_provenance() as u64
}

pub(crate) fn address_of_mut(bytes: &mut [u8]) -> u64 {
    bytes.as_mut_ptr().expose_provenance() as u64
}

pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 24
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next() as u8).take(length).collect()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }
}
