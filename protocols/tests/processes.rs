//! A packet number is used in one process only: a forked child, however created and of any PID, cannot seal with its copy of the counter.

#[path = "common/mod.rs"]
mod common;
#[path = "../../core/tests/filter/mod.rs"]
mod filter;

use std::env;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::process::{self, Command};

use common::gantry;
use gantry_core::Gantry;
use gantry_protocols::esp::{self, Association, Mode};
use gantry_protocols::srtp::{self, Context};
use gantry_protocols::tls::{self, Aead, Epoch};
use gantry_protocols::{Packet, PacketError};

/// Sending ends of every protocol, each with unused numbers.
struct Ends {
    esp: esp::Outbound,
    srtp: srtp::Outbound,
    tls: tls::Outbound,
    /// A TLS end whose keys were replaced.
    updated: tls::Outbound,
}

impl Ends {
    fn new(gantry: &Gantry) -> Self {
        let tls = || Epoch::new(tls::Suite::Tls13(Aead::AesGcm), &[3; 16], &[4; 12]).outbound(gantry).unwrap();
        let mut updated = tls();
        updated.rekey(&[5; 16], &[6; 12]).unwrap();
        let esp = Association::new(0x1234, esp::Suite::AesGcm { icv: 16 }, &[7; 20], &[]).mode(Mode::Payload);
        let srtp = Context::new(srtp::Suite::AeadAes128Gcm, &[8; 16], &[9; 12]);
        Self { esp: esp.outbound(gantry).unwrap(), srtp: srtp.outbound(gantry).unwrap(), tls: tls(), updated }
    }

    /// Seals the next packet of each end.
    fn seal(&self) -> [Result<(), PacketError>; 5] {
        let mut buffer = [0; 200];
        let mut seal = |seal: &dyn Fn(&mut Packet<'_>) -> Result<(), PacketError>| {
            buffer[64..68].copy_from_slice(&[0x80, 96, 0, 1]);
            seal(&mut Packet::new(&mut buffer, 64..100))
        };
        [
            seal(&|packet| self.esp.seal(packet)),
            seal(&|packet| self.srtp.seal(packet)),
            seal(&|packet| self.srtp.seal_control(packet)),
            seal(&|packet| self.tls.seal(packet)),
            seal(&|packet| self.updated.seal(packet)),
        ]
    }

    fn refuse(&self) -> bool {
        self.seal().iter().all(|result| *result == Err(PacketError::Forked))
    }
}

/// Returns whether `check` holds in a child process. `create` creates the child: it returns 0 in the child and the child's PID in the
/// parent. `check` must not take locks, because another thread of the parent may hold them.
fn holds_in(create: impl FnOnce() -> libc::pid_t, check: impl FnOnce() -> bool) -> bool {
    match create() {
        0 => {
            let holds = check();
            // SAFETY: `_exit` takes any status and ends the process.
            unsafe { libc::_exit(i32::from(!holds)) }
        }
        child => {
            let mut status = -1;
            // SAFETY: the child is ours, and `status` is a valid place for a number.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

fn fork() -> libc::pid_t {
    // SAFETY: the child calls only functions that are safe after `fork` (see `holds_in`), and exits at once.
    unsafe { libc::fork() }
}

/// Creates a child without the C library's knowledge.
fn clone(flags: libc::c_int) -> libc::pid_t {
    // SAFETY: as in `fork`; the child does not share the parent's memory.
    unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags | libc::SIGCHLD), 0, 0, 0, 0) as libc::pid_t }
}

/// Creates a child with this PID, without the C library's knowledge.
fn clone_as(pid: libc::pid_t) -> libc::pid_t {
    let mut arguments = libc::clone_args {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: (&raw const pid) as u64,
        set_tid_size: 1,
        cgroup: 0,
    };
    // SAFETY: as in `clone`; the arguments and the PID live until the call returns.
    unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of_val(&arguments)) as libc::pid_t }
}

/// Runs a test again as the first process of a PID namespace, with root's rights in the namespace. Returns whether this process is that
/// run.
fn is_first(test: &str) -> bool {
    const MARK: &str = "GANTRY_TEST_FIRST";
    if env::var_os(MARK).is_some() {
        assert_eq!(process::id(), 1);
        return true;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        gantry_lab::skip("PID namespaces");
        return false;
    }
    let output = unshare().arg(env::current_exe().unwrap()).args(["--exact", test]).env(MARK, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    false
}

#[test]
fn a_child_seals_nothing() {
    let ends = Ends::new(&gantry());
    for create in [fork, || clone(0)] {
        assert!(holds_in(create, || ends.refuse()));
        // The grandchild tries to seal before its parent does.
        assert!(holds_in(create, || holds_in(create, || ends.refuse()) && ends.refuse()));
    }
    assert_eq!(ends.seal(), [const { Ok(()) }; 5]);
}

#[test]
fn a_child_with_the_pid_of_its_parent_seals_nothing() {
    if !is_first("a_child_with_the_pid_of_its_parent_seals_nothing") {
        return;
    }
    let gantry = gantry();
    let ends = Ends::new(&gantry);
    let holds = || process::id() == 1 && ends.refuse() && Ends::new(&gantry).seal() == [const { Ok(()) }; 5];
    assert!(holds_in(|| clone(libc::CLONE_NEWPID), holds), "by clone");
    // SAFETY: affects later children of this thread only, which creates no other threads.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
    assert!(holds_in(fork, holds), "by fork");
    assert_eq!(ends.seal(), [const { Ok(()) }; 5]);
}

/// A process creates ends and exits. Its child then creates a process with the same PID.
#[test]
fn a_later_process_with_the_same_pid_seals_nothing() {
    if !is_first("a_later_process_with_the_same_pid_seals_nothing") {
        return;
    }
    let gantry = gantry();
    let (mut exit_sender, exit_receiver) = pipe();
    let (result_sender, mut result_receiver) = pipe();
    let child = fork();
    if child == 0 {
        let ends = Ends::new(&gantry);
        let pid = process::id().cast_signed();
        if fork() == 0 {
            drop(result_receiver);
            (&exit_receiver).read_exact(&mut [0]).unwrap();
            let holds = holds_in(|| clone_as(pid), || process::id().cast_signed() == pid && ends.refuse());
            (&result_sender).write_all(&[u8::from(holds)]).unwrap();
        }
        // SAFETY: `_exit` takes any status and ends the process.
        unsafe { libc::_exit(0) }
    }
    drop(result_sender);
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    exit_sender.write_all(&[1]).unwrap();
    let mut holds = [0];
    result_receiver.read_exact(&mut holds).expect("the child ended as it should");
    assert_eq!(holds, [1]);
}

/// Before Linux 4.14, children of a bare `clone` are not detected.
#[test]
fn refuses_to_seal_on_kernels_without_wipe_on_fork() {
    if !filter::is_alone("refuses_to_seal_on_kernels_without_wipe_on_fork") || !filter::refuse_wiped_pages() {
        return;
    }
    let gantry = gantry();
    let esp = || Association::new(0x1234, esp::Suite::AesGcm { icv: 16 }, &[7; 20], &[]);
    let srtp = || Context::new(srtp::Suite::AeadAes128Gcm, &[8; 16], &[9; 12]);
    let tls = || Epoch::new(tls::Suite::Tls13(Aead::AesGcm), &[3; 16], &[4; 12]);
    assert_eq!(esp().outbound(&gantry).err(), Some(esp::ParameterError::UndetectedFork));
    assert_eq!(srtp().outbound(&gantry).err(), Some(srtp::ParameterError::UndetectedFork));
    assert_eq!(tls().outbound(&gantry).err(), Some(tls::ParameterError::UndetectedFork));
    // Received packets have their numbers already.
    assert!(esp().inbound(&gantry).is_ok() && srtp().inbound(&gantry).is_ok() && tls().inbound(&gantry).is_ok());
}

/// Returns the write end and the read end of a pipe.
fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors, which nothing else owns.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (File::from_raw_fd(ends[1]), File::from_raw_fd(ends[0]))
    }
}
