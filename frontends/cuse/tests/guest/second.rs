//! CRIOGET: a second descriptor of the same open file, which is independent of the first.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gantry_abi_cryptodev::Ioctl;
use gantry_lab::wait_until;
use libc::{EINVAL, EMFILE};

use crate::client::{Crypto, DEVICE, Errno, Server};

const SHA256: u32 = 104;

gantry_lab::in_guest! {
    ["--modules", "cuse", "--cpus", "2", "--timeout", "300"]
    fn a_second_descriptor_outlives_the_first() {
        let _server = Server::start();
        // As in OpenSSL's engine and cryptodev-linux's tests: the first descriptor is closed at once, or after the second.
        let first = Crypto::open();
        let second = second_descriptor(&first).unwrap();
        assert_ne!(first.0.as_raw_fd(), second.0.as_raw_fd());
        drop(first);
        assert_hashes(&second);

        // Both refer to one open file: they share its sessions until both are closed.
        let (first, third) = (second, second_descriptor(&Crypto::open()).unwrap());
        let second = second_descriptor(&first).unwrap();
        let session = first.hash(SHA256, &[]).unwrap();
        drop(first);
        assert!(second.digest(session, 0, b"still there", 32).is_ok());
        assert_eq!(third.info(session).err(), Some(EINVAL));
        let flags = |crypto: &Crypto| {
            // SAFETY: the call takes no addresses.
            unsafe { libc::fcntl(crypto.0.as_raw_fd(), libc::F_GETFD) }
        };
        assert_eq!(flags(&second), 0, "inherited across exec, like the module's");
    }

    /// All registers of the caller are preserved, for any thread of a program, and for any number of callers.
    fn many_threads_ask_for_descriptors_at_a_time() {
        let _server = Server::start();
        let crypto = Crypto::open();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        assert_hashes(&second_descriptor(&crypto).unwrap());
                    }
                });
            }
        });
        assert_eq!(open_descriptors(), 1);
    }

    /// Signals are neither lost nor end the call.
    fn signals_are_handled_and_the_call_is_restarted() {
        static HANDLED: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn handle(_: libc::c_int) {
            HANDLED.fetch_add(1, Ordering::Relaxed);
        }
        let _server = Server::start();
        let crypto = Crypto::open();
        let real_time = libc::SIGRTMIN() + 1;
        for signal in [libc::SIGUSR1, real_time] {
            // SAFETY: the handler only adds to an atomic number. Without flags the kernel does not restart calls.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
            }
        }
        // SAFETY: the call takes no addresses.
        let caller = unsafe { libc::pthread_self() };
        let done = AtomicBool::new(false);
        let sent = thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut sent = 0;
                while !done.load(Ordering::Relaxed) {
                    let signal = if sent % 2 == 0 { libc::SIGUSR1 } else { real_time };
                    // SAFETY: the thread waits for this one before it ends.
                    assert_eq!(unsafe { libc::pthread_kill(caller, signal) }, 0);
                    sent += 1;
                    // One at a time: equal pending signals are merged.
                    while HANDLED.load(Ordering::Relaxed) < sent {
                        thread::yield_now();
                    }
                    // In an emulator a call takes milliseconds, and would be restarted forever.
                    thread::sleep(Duration::from_millis(sent as u64 % 8));
                }
                sent
            });
            let results: Vec<_> = (0..300).map(|_| second_descriptor(&crypto).map(|_| ())).collect();
            done.store(true, Ordering::Relaxed);
            assert_eq!(results, vec![Ok(()); 300]);
            sender.join().unwrap()
        });
        assert_eq!(HANDLED.load(Ordering::Relaxed), sent);
        assert!(sent > 10, "{sent}");
        assert_eq!(open_descriptors(), 1, "no descriptor was made twice");
    }

    fn descriptor_limits_are_those_of_the_caller() {
        let _server = Server::start();
        let crypto = Crypto::open();
        // SAFETY: the structure is alive.
        unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            let low_limit = libc::rlimit { rlim_cur: u64::from(crypto.0.as_raw_fd().cast_unsigned()) + 1, ..limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const low_limit), 0);
            assert_eq!(second_descriptor(&crypto).err(), Some(EMFILE));
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        }
        assert_hashes(&second_descriptor(&crypto).unwrap());
    }

    /// A thread has only one tracer: under a debugger CRIOGET fails, and the program gets an error.
    fn a_program_that_is_traced_already_gets_an_error() {
        let _server = Server::start();
        let child = client("traced").spawn().unwrap().id().cast_signed();
        let mut status = -1;
        // The child's threads may be reported, too.
        // SAFETY: the status is alive, and no other code waits for a process here: the server keeps running.
        while unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } != child {}
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:x}");
    }

    /// Programs that die during the call leave no resources behind in the server.
    fn programs_killed_during_the_call_leak_nothing() {
        let mut server = Server::start();
        let crypto = Crypto::open();
        for turn in 0..20 {
            let mut child = client("forever").stdout(Stdio::null()).spawn().unwrap();
            thread::sleep(Duration::from_millis(20 + turn));
            child.kill().unwrap();
            child.wait().unwrap();
            assert_hashes(&second_descriptor(&crypto).unwrap());
        }
        assert!(server.is_running());
        // A thread of the server ends soon after its caller.
        let threads = |server: &Server| server.resources().map_or(0, |resources| resources.threads);
        // Two threads of the test harness, and a worker for each processor.
        wait_until("four threads are left", || threads(&server) <= 4);
    }

    /// A server that may not trace its caller cannot give it a descriptor.
    fn a_server_without_rights_gives_no_descriptor() {
        let server = Server::start_without_rights(&[]);
        if server.is_module() {
            return;
        }
        assert_eq!(second_descriptor(&Crypto::open()).err(), Some(EINVAL));
    }
}

/// Calls CRIOGET. Error 0 means that it returned the same descriptor.
fn second_descriptor(crypto: &Crypto) -> Result<Crypto, Errno> {
    let mut descriptor = [0xFF; 4];
    crypto.call(Ioctl::GetDescriptor, &mut descriptor)?;
    let number = i32::from_ne_bytes(descriptor);
    if number == crypto.0.as_raw_fd() {
        return Err(0);
    }
    // SAFETY: a new descriptor without another owner.
    Ok(Crypto(unsafe { File::from_raw_fd(number) }))
}

fn assert_hashes(crypto: &Crypto) {
    let session = crypto.hash(SHA256, &[]).unwrap();
    let digest = crypto.digest(session, 0, b"abc", 32).unwrap();
    assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
    crypto.close(session).unwrap();
}

fn open_descriptors() -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.as_path() == Path::new(DEVICE)).count()
}

/// Builds a command that runs this program as a client of the device.
fn client(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "second::client_process", "--include-ignored", "--nocapture"]);
    command.env("SECOND", role).uid(4321);
    command
}

/// Not a test, but the process of a client.
#[test]
#[ignore = "the process of a client"]
fn client_process() {
    let Ok(what) = std::env::var("SECOND") else { return };
    let crypto = Crypto::open();
    match what.as_str() {
        "forever" => loop {
            assert_hashes(&second_descriptor(&crypto).unwrap());
        },
        "traced" => {
            // SAFETY: the call takes no addresses.
            assert_eq!(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) }, 0);
            assert_eq!(second_descriptor(&crypto).err(), Some(EINVAL));
        }
        other => panic!("{other}"),
    }
}
