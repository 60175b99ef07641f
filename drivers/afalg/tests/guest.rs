//! Tests of the driver's special cases for the kernel. Each test runs in its own guest.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gantry_core::driver::{Driver, Found};
use gantry_core::route::Failover;
use gantry_core::{
    Algorithm as A, DeviceState, Gantry, Kind, Operation, Outcome, RegisteredDevice, Request, Session, SessionParams,
};
use gantry_driver_afalg::AfalgDriver;
use gantry_lab::{in_guest, wait_until};

const VIRTIO: &str = "afalg:virtio_crypto";
const CPU: &str = "afalg:cpu";
const PAGE: usize = 4096;

/// The module that implements AES with the CPU's instructions.
#[cfg(target_arch = "aarch64")]
const AES: &str = "aes_ce_blk";
#[cfg(not(target_arch = "aarch64"))]
const AES: &str = "aesni_intel";

/// Opens a session of AES-128-CBC on a framework with one device only.
fn cbc(device: &str) -> Session {
    session(device, SessionParams::new(A::Aes128Cbc, &[7; 16]))
}

fn session(device: &str, params: SessionParams) -> Session {
    let gantry = Gantry::builder().driver(&SingleDeviceDriver(device)).build();
    assert_eq!(gantry.device(device).map(RegisteredDevice::state), Some(DeviceState::Ready), "{gantry:?}");
    gantry.session(params).unwrap()
}

/// The driver, restricted to one of its devices.
struct SingleDeviceDriver<'a>(&'a str);

impl Driver for SingleDeviceDriver<'_> {
    fn name(&self) -> &'static str {
        "afalg"
    }

    fn discover(&self) -> Vec<Found> {
        let is_it = |found: &Found| matches!(found, Found::Device(device) if device.info().name == self.0);
        AfalgDriver::new().discover().into_iter().filter(is_it).collect()
    }
}

/// Waits until the kernel lists the engine, or no longer lists it.
fn wait_for_engine(is_listed: bool) {
    wait_until("the engine comes or goes", || {
        fs::read_to_string("/proc/crypto").unwrap().contains("virtio_crypto") == is_listed
    });
}

/// Encrypts and decrypts on the device, and tells if the plaintext is restored.
fn round_trips(session: &Session, data: &[u8]) -> bool {
    let iv = vec![9; session.params().algorithm().info().iv.min];
    let (mut sealed, mut opened) = (vec![0; data.len()], vec![0; data.len()]);
    session.encrypt(&iv, (data, &mut sealed[..])).is_ok()
        && session.decrypt(&iv, (&sealed[..], &mut opened[..])).is_ok()
        && opened == data
}

fn excluded(driver: &AfalgDriver) -> Vec<(String, String)> {
    let reason = |found: Found| match found {
        Found::Excluded { name, reason, .. } => Some((name, reason)),
        Found::Device(_) => None,
    };
    driver.discover().into_iter().filter_map(reason).collect()
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs a command of QEMU's monitor.
fn run_monitor_command(command: &[&str]) {
    assert!(Command::new("guest-monitor").args(command).status().unwrap().success());
}

in_guest! {
    ["--device", "virtio-crypto", "--modules", AES]
    /// A request that touches 32 pages stops the engine for good. The driver's limit is 29 pages of data, which touch at most 30.
    fn the_largest_request_does_not_stop_a_virtio_engine() {
        let session = cbc(VIRTIO);
        let device = session.gantry().device(VIRTIO).unwrap();
        let max_bytes = device.capability(A::Aes128Cbc).unwrap().max_bytes;
        assert_eq!(max_bytes, 29 * PAGE);
        let iv = [1; 16];
        let (input, mut output) = (vec![3; max_bytes + PAGE], vec![0; max_bytes + PAGE]);
        for offset in [0, 1, 16, 100, PAGE - 1] {
            let (input, output) = (&input[offset..][..max_bytes], &mut output[offset..][..max_bytes]);
            assert!(session.encrypt(&iv, (input, output)).is_ok(), "{offset}");
        }
        let mut requests = [Request::encrypt(&iv, (&input[..max_bytes + 16], &mut output[..max_bytes + 16]))];
        assert!(session.process(&mut requests).is_err(), "the device takes no longer requests");
        assert!(round_trips(&session, &[5; 64]));
    }

    /// The driver distinguishes engines from the CPU, although the kernel calls both asynchronous.
    fn engines_and_the_cpu_are_devices_of_different_classes() {
        let gantry = Gantry::builder().driver(&AfalgDriver::new()).build();
        let found: Vec<(&str, &str)> =
            gantry.devices().iter().map(|device| (device.name(), device.class().name())).collect();
        assert_eq!(found, [(VIRTIO, "hardware"), (CPU, "kernel")]);
        let cpu = gantry.device(CPU).unwrap();
        assert!(cpu.capability(A::Aes128Cbc).is_some() && cpu.capability(A::Sha256).is_some());
        assert!(round_trips(&cbc(CPU), &[1; 4096]));
    }

    ["--device", "virtio-crypto", "--modules", AES, "--timeout", "900"]
    /// Random requests of all algorithms have correct results.
    fn random_requests_have_correct_results() {
        let gantry = Gantry::builder().driver(&AfalgDriver::new()).build();
        let before = open_descriptors();
        let (requests, seed) = gantry_lab::random_calls();
        assert_eq!(count_wrong_results(&gantry, requests, seed), 0);
        assert_eq!(open_descriptors(), before);
    }

    []
    fn a_seccomp_filter_is_reported() {
        // A seccomp filter applies to one thread, so the filter gets a thread of its own.
        let found = thread::spawn(|| {
            forbid_af_alg();
            excluded(&AfalgDriver::new())
        });
        let found = found.join().unwrap();
        assert!(matches!(&found[..], [(name, why)] if name == "afalg" && why.contains("seccomp")), "{found:?}");
    }

    /// A read of 0 bytes does not reach the kernel, but the tag of an empty message must be verified.
    fn the_tag_of_an_empty_message_is_verified() {
        for algorithm in [A::Aes128Gcm, A::Aes128Ccm, A::Aes128CbcHmacSha256] {
            let session = session(CPU, SessionParams::new(algorithm, &[7; 16]).with_mac_key(&vec![8; algorithm.info().mac_key.max.min(32)]));
            let nonce = vec![2; if algorithm == A::Aes128CbcHmacSha256 { 16 } else { 12 }];
            let mut tag = vec![0; session.params().tag_len()];
            session.seal(&nonce, &[], &mut [], &mut tag).unwrap();
            session.open(&nonce, &[], &mut [], &tag).unwrap();
            tag[0] ^= 1;
            for _ in 0..3 {
                assert!(session.open(&nonce, &[], &mut [], &tag).is_err(), "{algorithm}");
            }
            tag[0] ^= 1;
            session.open(&nonce, &[], &mut [], &tag).unwrap();
        }
    }

    /// One call sends the data and one reads the result, as in libkcapi.
    fn a_request_is_two_system_calls() {
        assert!(Command::new("mount").args(["-t", "tracefs", "tracefs", TRACING]).status().unwrap().success());
        for algorithm in [A::Aes128Cbc, A::Aes256Ctr, A::Aes128Gcm] {
            let aead = algorithm.kind() == Kind::Aead;
            let session = session(CPU, SessionParams::new(algorithm, &vec![7; algorithm.info().key.min]));
            let (mut data, mut tag) = (vec![1; 4096], [0; 16]);
            let mut requests = |count: usize| {
                for _ in 0..count {
                    if aead {
                        session.seal(&[2; 12], b"header", &mut data, &mut tag).unwrap();
                    } else {
                        session.encrypt(&[2; 16], &mut data[..]).unwrap();
                    }
                }
            };
            // The first requests open the session and a socket.
            requests(10);
            let [none, hundred] = [0, 100].map(|count| system_calls(|| requests(count)));
            assert_eq!(hundred - none, 200, "{algorithm}");
        }
    }

    /// The device declines nonces that the kernel does not support, and remains usable.
    fn a_nonce_of_another_length_is_declined() {
        let session = session(CPU, SessionParams::new(A::Aes128Gcm, &[7; 16]).with_any_nonce());
        let mut tag = [0; 16];
        let error = session.seal(&[1; 16], &[], &mut [0; 20], &mut tag).unwrap_err();
        assert!(error.to_string().contains("nonces of 12 bytes"), "{error}");
        let error = session.seal(&[1; 12], &vec![0; 300_000], &mut [0; 20], &mut tag).unwrap_err();
        assert!(error.to_string().contains("exceed the socket"), "{error}");
        session.seal(&[1; 12], &vec![0; 100_000], &mut [0; 20], &mut tag).unwrap();
    }

    /// A child inherits the sockets of a session, but neither process reads the other's results.
    fn a_forked_child_has_its_own_sockets() {
        let session = cbc(CPU);
        let hash = self::session(CPU, SessionParams::new(A::Sha256, &[]));
        let mut stream = hash.stream(1).unwrap();
        stream.update(b"before the fork").unwrap();
        assert!(round_trips(&session, &[0; 64]), "the pool has a socket");
        // SAFETY: the only other thread of this process waits for this one, and the child ends with _exit.
        let child = unsafe { libc::fork() };
        let work = || (0..2000usize).all(|n| round_trips(&session, &vec![n as u8; 16 * (1 + n % 50)]));
        if child == 0 {
            let is_lost = stream.update(b"by the child").is_err();
            let code = i32::from(!(work() && is_lost));
            // SAFETY: _exit ends the child without running the parent's destructors or exit handlers.
            unsafe { libc::_exit(code) };
        }
        assert!(work());
        stream.update(b", and after it").unwrap();
        let (mut digest, mut whole) = ([0; 32], [0; 32]);
        stream.finish(&mut digest).unwrap();
        hash.digest(b"before the fork, and after it", &mut whole).unwrap();
        assert_eq!(digest, whole);
        let mut status = 0;
        // SAFETY: the kernel writes to `status`, which is valid.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    }

    /// Programs started by this process inherit no sockets, and sessions and errors leak no descriptors.
    fn descriptors_are_neither_leaked_nor_inherited() {
        let session = session(CPU, SessionParams::new(A::Aes128Gcm, &[7; 16]));
        let hash = self::session(CPU, SessionParams::new(A::Sha256, &[]));
        let stream = hash.stream(1).unwrap();
        let seen = Command::new("sh").args(["-c", "ls -l /proc/self/fd"]).output().unwrap().stdout;
        assert!(!String::from_utf8_lossy(&seen).contains("socket"), "{}", String::from_utf8_lossy(&seen));
        let work = |n: u16| {
            assert!(session.open(&[1; 12], &[], &mut [0; 33], &[0; 16]).is_err(), "{n}");
            let mut copy = stream.clone();
            copy.update(b"more").unwrap();
            let one = session.gantry().session(SessionParams::new(A::Aes128Ctr, &[n.to_le_bytes()[0]; 16])).unwrap();
            one.encrypt(&[0; 16], &mut [0; 100]).unwrap();
        };
        // The first call opens the session.
        work(0);
        let before = open_descriptors();
        (0..500).for_each(work);
        assert_eq!(open_descriptors(), before);
    }

    /// A signal during a system call does not end the request.
    fn signals_do_not_fail_requests() {
        extern "C" fn nothing(_: i32) {}
        // SAFETY: the handler does nothing. It is installed without SA_RESTART, so signals interrupt system calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
        }
        let set_signal_interval = |microseconds| {
            let interval = libc::timeval { tv_sec: 0, tv_usec: microseconds };
            let timer = libc::itimerval { it_interval: interval, it_value: interval };
            // SAFETY: `timer` is valid, and the signal has a handler.
            assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) }, 0);
        };
        set_signal_interval(500);
        let session = cbc(CPU);
        let big = vec![6; 160_000];
        assert!((0..300).all(|_| round_trips(&session, &big)));
        set_signal_interval(0);
    }

    ["--device", "virtio-crypto", "--timeout", "240", "--append", "sysctl.kernel.hung_task_timeout_secs=10"]
    /// Without the driver's limit, the engine hangs in its kernel driver, which the guest's kernel reports. If it does not hang,
    /// this test fails, because it expects the report.
    #[should_panic(expected = "a task hangs in the guest's kernel")]
    fn a_request_beyond_the_limit_hangs_in_the_kernel() {
        let gantry = Gantry::builder().driver(&AfalgDriver::without_quirks()).build();
        let session = gantry.with_policy(gantry_core::route::Pin { device: VIRTIO.into() });
        let session = session.session(SessionParams::new(A::Aes128Cbc, &[7; 16])).unwrap();
        let (input, mut output) = (vec![0; 40 * PAGE], vec![0; 40 * PAGE]);
        println!("{:?}", session.encrypt(&[0; 16], (&input[..], &mut output[..])));
    }

    ["--device", "virtio-crypto", "--timeout", "240", "--append", "sysctl.kernel.hung_task_timeout_secs=10"]
    /// A thread with a request in an engine that is unplugged waits forever, because the kernel's driver no longer answers. Other threads
    /// are served. The guest's kernel reports the hanging thread. If none hangs, this test fails, because it expects the report.
    #[should_panic(expected = "a task hangs in the guest's kernel")]
    fn unplugging_an_engine_hangs_its_caller() {
        let cpu = cbc(CPU);
        for _ in 0..10 {
            // Leaked on purpose: closing the sockets of an unplugged device makes the kernel end the guest.
            let engine: &'static Session = Box::leak(Box::new(cbc(VIRTIO)));
            let requests = AtomicUsize::new(0);
            thread::scope(|scope| {
                let hung = scope.spawn(|| {
                    while round_trips(engine, &vec![1; 65536]) {
                        requests.fetch_add(1, Ordering::Relaxed);
                    }
                });
                wait_until("requests run", || requests.load(Ordering::Relaxed) >= 10);
                run_monitor_command(&["device_del", "crypto0"]);
                wait_until("its thread ends", || {
                    assert!(round_trips(&cpu, &[1; 4096]));
                    hung.is_finished()
                });
            });
            // The thread was between two requests, and its next request was refused.
            println!("{} requests; then {:?}", requests.into_inner(), engine.gantry().device(VIRTIO).unwrap().state());
            wait_for_engine(false);
            run_monitor_command(&["device_add", "virtio-crypto-pci,id=crypto0,cryptodev=backend0,bus=slot0"]);
            wait_for_engine(true);
        }
    }

    ["--device", "virtio-crypto", "--modules", AES, "--timeout", "240"]
    /// Sessions opened before the engine was plugged in stay on the CPU.
    fn a_hot_plugged_engine_serves_new_sessions() {
        wait_for_engine(true);
        run_monitor_command(&["device_del", "crypto0"]);
        wait_for_engine(false);
        let driver = AfalgDriver::new();
        let order = [VIRTIO, CPU].map(str::to_owned).to_vec();
        let gantry = Gantry::builder().driver(&driver).policy(Failover { order }).build();
        let runs_on = |session: &Session| {
            let mut data = [5; 64];
            let mut requests = [Request::encrypt(&[9; 16], &mut data)];
            session.process(&mut requests).unwrap();
            gantry.devices()[requests[0].route().unwrap().device].name().to_owned()
        };
        let session = || gantry.session(SessionParams::new(A::Aes128Cbc, &[7; 16])).unwrap();
        let older = session();
        assert_eq!(runs_on(&older), CPU);
        assert_eq!(gantry.discover(&driver, |_| None), [""; 0]);

        run_monitor_command(&["device_add", "virtio-crypto-pci,id=crypto0,cryptodev=backend0,bus=slot0"]);
        wait_for_engine(true);
        assert_eq!(gantry.discover(&driver, |_| None), [VIRTIO]);
        let younger = session();
        younger.prepare(Operation::Encrypt, 64).unwrap(); // known-answer tests are slow on an emulated engine
        assert_eq!((runs_on(&younger).as_str(), runs_on(&older).as_str()), (VIRTIO, CPU));
        assert!(round_trips(&younger, &[1; 4096]));
    }

    ["--device", "virtio-crypto", "--append", "module_blacklist=aesni_intel"]
    /// Without AES instructions the kernel prefers the engine, but the device `afalg:cpu` still uses the CPU.
    fn afalg_cpu_never_uses_an_engine() {
        let session = cbc(CPU);
        let max_bytes = session.gantry().device(CPU).unwrap().capability(A::Aes128Cbc).unwrap().max_bytes;
        assert!(max_bytes > 30 * PAGE && round_trips(&session, &vec![1; max_bytes]), "the capacity of a socket: {max_bytes}");
        let crypto = fs::read_to_string("/proc/crypto").unwrap();
        assert!(crypto.contains("cbc(aes-generic)") || crypto.contains("cbc(ecb(aes-generic))"), "{crypto}");
    }

    ["--append", "module_blacklist=af_alg"]
    fn a_missing_af_alg_is_reported() {
        let found = excluded(&AfalgDriver::new());
        assert!(matches!(&found[..], [(name, why)] if name == "afalg" && why.contains("no AF_ALG")), "{found:?}");
    }

    ["--append", "module_blacklist=algif_hash,algif_skcipher,algif_aead"]
    fn missing_socket_types_are_reported() {
        let found = excluded(&AfalgDriver::new());
        assert!(matches!(&found[..], [(name, why)] if name == "afalg" && why.contains("algif_hash")), "{found:?}");
    }

    ["--device", "virtio-crypto", "--append", "module_blacklist=algif_skcipher"]
    /// The driver offers only algorithms of types that the kernel has.
    fn an_unreachable_engine_is_excluded_and_hashes_still_work() {
        let driver = AfalgDriver::new();
        let found = excluded(&driver);
        assert!(matches!(&found[..], [(name, why)] if name == VIRTIO && why.contains("algif_skcipher")), "{found:?}");
        let gantry = Gantry::builder().driver(&driver).build();
        let cpu = gantry.device(CPU).unwrap();
        assert!(cpu.admit(A::Sha256).is_ok() && cpu.capability(A::Aes128Cbc).is_none());
    }
}

/// Runs about `requests` random requests on all devices: encryption and decryption, or a hash as a whole and in pieces. Returns
/// the number of wrong pairs.
fn count_wrong_results(gantry: &Gantry, requests: usize, seed: u64) -> usize {
    let mut state = seed;
    let mut below = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let (mut wrong, mut done) = (0, 0);
    while done < requests {
        let device = &gantry.devices()[below(gantry.devices().len())];
        let capabilities = device.capabilities();
        let algorithm = capabilities[below(capabilities.len())].algorithm;
        let info = algorithm.info();
        let key: Vec<u8> = (0..info.key.min.max(16).min(info.key.max)).map(|_| below(256) as u8).collect();
        let pinned = gantry.with_policy(gantry_core::route::Pin { device: device.name().to_owned() });
        let params = SessionParams::new(algorithm, &key).with_mac_key(&key[..16.min(info.mac_key.max)]);
        let Ok(session) = pinned.session(params) else { continue };
        for _ in 0..20 {
            let max_length = if below(20) == 0 { 100_000 } else { 600 };
            let length = (below(max_length) / info.block.max(1) * info.block.max(1)).max(info.min_data);
            let data: Vec<u8> = (0..length).map(|at| (at ^ done) as u8).collect();
            let iv = vec![done as u8; if info.iv.allows(12) { 12 } else { info.iv.min }];
            let good = match info.kind {
                Kind::Cipher => round_trips(&session, &data),
                Kind::Aead => {
                    let (mut sealed, mut tag) = (data.clone(), vec![0; session.params().tag_len()]);
                    let sealed_well = session.seal(&iv, b"header", &mut sealed, &mut tag).is_ok();
                    let corrupted = below(2) == 0;
                    tag[0] ^= u8::from(corrupted);
                    let opened = session.open(&iv, b"header", &mut sealed, &tag);
                    sealed_well
                        && if corrupted {
                            opened.is_err() && sealed.iter().all(|byte| *byte == 0)
                        } else {
                            sealed == data
                        }
                }
                Kind::Digest | Kind::Mac => {
                    let (mut whole, mut pieces) = (vec![0; info.tag.max], vec![0; info.tag.max]);
                    let mut request = if info.kind == Kind::Mac {
                        [Request::mac(&data, &mut whole)]
                    } else {
                        [Request::digest(&data, &mut whole)]
                    };
                    let completed =
                        session.process(&mut request).is_ok() && request[0].outcome() == Some(Outcome::Done);
                    let mut stream = session.stream(1).unwrap();
                    let cut = below(length + 1);
                    let updated = stream.update(&data[..cut]).is_ok() && stream.clone().update(b"astray").is_ok();
                    completed
                        && updated
                        && stream.update(&data[cut..]).is_ok()
                        && stream.finish(&mut pieces).is_ok()
                        && pieces == whole
                }
                _ => panic!("{algorithm} by the kernel"),
            };
            wrong += usize::from(!good);
            if !good {
                eprintln!("{algorithm} on {}, {length} bytes: {:?}", device.name(), device.state());
            }
            // Each round has two requests.
            done += 2;
        }
    }
    wrong
}

/// The mount point of the kernel's tracing.
const TRACING: &str = "/sys/kernel/tracing";

/// Returns the number of this thread's system calls during `work`, which includes some of the measurement. Reads of the clock do not
/// count, because most machines need no system call for them.
fn system_calls(work: impl FnOnce()) -> usize {
    let set = |file: &str, value: &str| fs::write(format!("{TRACING}/{file}"), value).unwrap();
    // SAFETY: gettid takes no arguments and always succeeds.
    let thread = unsafe { libc::gettid() };
    set(
        "events/raw_syscalls/sys_enter/filter",
        &format!("common_pid == {thread} && id != {}", libc::SYS_clock_gettime),
    );
    set("trace", "");
    set("events/raw_syscalls/sys_enter/enable", "1");
    work();
    set("events/raw_syscalls/sys_enter/enable", "0");
    let trace = fs::read_to_string(format!("{TRACING}/trace")).unwrap();
    trace.lines().filter(|line| line.contains("sys_enter: NR")).count()
}

/// Makes `socket(AF_ALG)` fail with EPERM on this thread from now on (seccomp(2)).
fn forbid_af_alg() {
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, answer) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut program = [
        step(load, 0, 0, 0), // the number of the system call
        step(equal, libc::SYS_socket as u32, 0, 3),
        step(load, 16, 0, 0), // its first argument
        step(equal, libc::AF_ALG as u32, 0, 1),
        step(answer, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        step(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: `filter` has a valid program and its length.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}
