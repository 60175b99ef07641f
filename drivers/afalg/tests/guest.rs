//! What the driver does where the kernel is difficult. Each test runs in a guest of its own.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gantry_core::driver::{Driver, Found};
use gantry_core::route::Failover;
use gantry_core::{
    Algorithm as A, DeviceState, Gantry, Kind, Operation, Outcome, RegisteredDevice, Request, Session, SessionParams,
};
use gantry_driver_afalg::AfalgDriver;
use gantry_lab::in_guest;

const VIRTIO: &str = "afalg:virtio_crypto";
const CPU: &str = "afalg:cpu";
const PAGE: usize = 4096;

/// The module that has AES in the CPU's instructions.
#[cfg(target_arch = "aarch64")]
const AES: &str = "aes_ce_blk";
#[cfg(not(target_arch = "aarch64"))]
const AES: &str = "aesni_intel";

/// A session of AES-128-CBC on one device, with nobody to step in for it.
fn cbc(device: &str) -> Session {
    session(device, SessionParams::new(A::Aes128Cbc, &[7; 16]))
}

fn session(device: &str, params: SessionParams) -> Session {
    let gantry = Gantry::builder().driver(&Only(device)).build();
    assert_eq!(gantry.device(device).map(RegisteredDevice::state), Some(DeviceState::Ready), "{gantry:?}");
    gantry.session(params).unwrap()
}

/// The driver with one of its devices.
struct Only<'a>(&'a str);

impl Driver for Only<'_> {
    fn name(&self) -> &'static str {
        "afalg"
    }

    fn discover(&self) -> Vec<Found> {
        let is_it = |found: &Found| matches!(found, Found::Device(device) if device.info().name == self.0);
        AfalgDriver::new().discover().into_iter().filter(is_it).collect()
    }
}

/// Waits until the kernel has the engine, or has it no more.
fn wait_for_engine(there: bool) {
    while fs::read_to_string("/proc/crypto").unwrap().contains("virtio_crypto") != there {
        thread::sleep(Duration::from_millis(50));
    }
}

/// CBC is its own proof: what was encrypted on the device is decrypted there, in chains that depend on every byte.
fn there_and_back(session: &Session, data: &[u8]) -> bool {
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

/// Gives a command to QEMU's monitor.
fn monitor(command: &[&str]) {
    assert!(Command::new("guest-monitor").args(command).status().unwrap().success());
}

in_guest! {
    ["--device", "virtio-crypto", "--modules", AES]
    /// 32 pages stop the engine for good. At most 30 are ever touched, wherever a buffer begins.
    fn the_largest_request_of_a_virtio_engine_leaves_it_alive() {
        let session = cbc(VIRTIO);
        let device = session.gantry().device(VIRTIO).unwrap();
        let most = device.capability(A::Aes128Cbc).unwrap().max_bytes;
        assert_eq!(most, 29 * PAGE);
        let iv = [1; 16];
        let (input, mut output) = (vec![3; most + PAGE], vec![0; most + PAGE]);
        for offset in [0, 1, 16, 100, PAGE - 1] {
            let (input, output) = (&input[offset..][..most], &mut output[offset..][..most]);
            assert!(session.encrypt(&iv, (input, output)).is_ok(), "{offset}");
        }
        let mut requests = [Request::encrypt(&iv, (&input[..most + 16], &mut output[..most + 16]))];
        assert!(session.process(&mut requests).is_err(), "longer requests go to other devices");
        assert!(there_and_back(&session, &[5; 64]));
    }

    /// An engine's devices and those of the CPU are told apart, though the kernel calls both asynchronous.
    fn engines_and_the_cpu_are_devices_of_different_classes() {
        let gantry = Gantry::builder().driver(&AfalgDriver::new()).build();
        let found: Vec<(&str, &str)> =
            gantry.devices().iter().map(|device| (device.name(), device.class().name())).collect();
        assert_eq!(found, [(VIRTIO, "hardware"), (CPU, "kernel")]);
        let cpu = gantry.device(CPU).unwrap();
        assert!(cpu.capability(A::Aes128Cbc).is_some() && cpu.capability(A::Sha256).is_some());
        assert!(there_and_back(&cbc(CPU), &[1; 4096]));
    }

    ["--device", "virtio-crypto", "--modules", AES, "--timeout", "900"]
    /// Requests that nobody has thought of, on all algorithms at once: every answer is right.
    fn random_requests_get_right_answers() {
        let gantry = Gantry::builder().driver(&AfalgDriver::new()).build();
        let before = open_descriptors();
        let (requests, seed) = gantry_lab::random_calls();
        assert_eq!(random(&gantry, requests, seed), 0);
        assert_eq!(open_descriptors(), before);
    }

    []
    fn a_seccomp_filter_is_a_reason() {
        // A filter is one thread's.
        let found = thread::spawn(|| {
            forbid_af_alg();
            excluded(&AfalgDriver::new())
        });
        let found = found.join().unwrap();
        assert!(matches!(&found[..], [(name, why)] if name == "afalg" && why.contains("seccomp")), "{found:?}");
    }

    /// A read of no bytes does not reach the kernel: the tag of an empty message must be looked at all the same.
    fn the_tag_of_an_empty_message_is_verified() {
        for algorithm in [A::Aes128Gcm, A::Aes128Ccm, A::Aes128CbcHmacSha256] {
            let session = session(CPU, SessionParams::new(algorithm, &[7; 16]).mac_key(&vec![8; algorithm.info().mac_key.max.min(32)]));
            let nonce = vec![2; if algorithm == A::Aes128CbcHmacSha256 { 16 } else { 12 }];
            let mut tag = vec![0; session.params().tag_length()];
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

    /// The data into the kernel, and the result out of it: as many as libkcapi makes.
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
            // The first ones open the session and a socket.
            requests(10);
            let [none, hundred] = [0, 100].map(|count| system_calls(|| requests(count)));
            assert_eq!(hundred - none, 200, "{algorithm}");
        }
    }

    /// Nonces that the kernel does not take go elsewhere, and nobody holds that against the device.
    fn a_nonce_of_another_length_is_declined() {
        let session = session(CPU, SessionParams::new(A::Aes128Gcm, &[7; 16]));
        let mut tag = [0; 16];
        let error = session.seal(&[1; 16], &[], &mut [0; 20], &mut tag).unwrap_err();
        assert!(error.to_string().contains("nonces of 12 bytes"), "{error}");
        let error = session.seal(&[1; 12], &vec![0; 300_000], &mut [0; 20], &mut tag).unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
        session.seal(&[1; 12], &vec![0; 100_000], &mut [0; 20], &mut tag).unwrap();
    }

    /// Parent and child share the sockets of a session. Neither ever reads the other's results.
    fn a_fork_shares_no_results() {
        let session = cbc(CPU);
        let hash = self::session(CPU, SessionParams::new(A::Sha256, &[]));
        let mut stream = hash.stream(1).unwrap();
        stream.update(b"before the fork").unwrap();
        assert!(there_and_back(&session, &[0; 64]), "the pool has a socket");
        // SAFETY: this process has one other thread, which waits for this one; the child ends by _exit.
        let child = unsafe { libc::fork() };
        let work = || (0..2000usize).all(|n| there_and_back(&session, &vec![n as u8; 16 * (1 + n % 50)]));
        if child == 0 {
            let lost = stream.update(b"by the child").is_err();
            let code = i32::from(!(work() && lost));
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) };
        }
        assert!(work());
        stream.update(b", and after it").unwrap();
        let (mut digest, mut whole) = ([0; 32], [0; 32]);
        stream.finish(&mut digest).unwrap();
        hash.digest(b"before the fork, and after it", &mut whole).unwrap();
        assert_eq!(digest, whole);
        let mut status = 0;
        // SAFETY: a number that is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    }

    /// Programs that are started inherit nothing, and sessions and errors leave nothing behind.
    fn descriptors_neither_leak_nor_spread() {
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
        // The first one opens the session.
        work(0);
        let before = open_descriptors();
        (0..500).for_each(work);
        assert_eq!(open_descriptors(), before);
    }

    /// A signal in the middle of a call is not the end of a request.
    fn signals_interrupt_nothing() {
        extern "C" fn nothing(_: i32) {}
        // SAFETY: a handler that does nothing, without SA_RESTART.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
        }
        let every = |microseconds| {
            let often = libc::timeval { tv_sec: 0, tv_usec: microseconds };
            let timer = libc::itimerval { it_interval: often, it_value: often };
            // SAFETY: a timer that calls the handler.
            assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) }, 0);
        };
        every(500);
        let session = cbc(CPU);
        let big = vec![6; 160_000];
        assert!((0..300).all(|_| there_and_back(&session, &big)));
        every(0);
    }

    ["--device", "virtio-crypto", "--timeout", "240", "--append", "sysctl.kernel.hung_task_timeout_secs=10"]
    /// With the limit lifted the same engine hangs in its driver, which the guest's kernel reports. Should it not, the test
    /// ends well in the guest, and fails for that.
    #[should_panic(expected = "a task hangs in the guest's kernel")]
    fn a_request_beyond_the_limit_hangs_in_the_kernel() {
        let gantry = Gantry::builder().driver(&AfalgDriver::without_quirks()).build();
        let session = gantry.with_policy(gantry_core::route::Pin { device: VIRTIO.into() });
        let session = session.session(SessionParams::new(A::Aes128Cbc, &[7; 16])).unwrap();
        let (input, mut output) = (vec![0; 40 * PAGE], vec![0; 40 * PAGE]);
        println!("{:?}", session.encrypt(&[0; 16], (&input[..], &mut output[..])));
    }

    ["--device", "virtio-crypto", "--timeout", "240", "--append", "sysctl.kernel.hung_task_timeout_secs=10"]
    /// A thread that is in an engine when its device is unplugged waits for good, because the kernel's driver answers nobody any
    /// more. Others are served. The guest's kernel reports the one that waits; should none ever wait, the test ends well in the
    /// guest, and fails for that.
    #[should_panic(expected = "a task hangs in the guest's kernel")]
    fn an_engine_that_is_unplugged_keeps_who_is_in_it() {
        let cpu = cbc(CPU);
        for _ in 0..10 {
            // Never closed: what the kernel does then to a device that is gone ends the guest.
            let engine: &'static Session = Box::leak(Box::new(cbc(VIRTIO)));
            let requests = AtomicUsize::new(0);
            thread::scope(|scope| {
                let in_it = scope.spawn(|| {
                    while there_and_back(engine, &vec![1; 65536]) {
                        requests.fetch_add(1, Ordering::Relaxed);
                    }
                });
                while requests.load(Ordering::Relaxed) < 10 {
                    thread::yield_now();
                }
                monitor(&["device_del", "crypto0"]);
                while !in_it.is_finished() {
                    assert!(there_and_back(&cpu, &[1; 4096]));
                    thread::sleep(Duration::from_millis(100));
                }
            });
            // Just then it was between two requests, and the next one was refused.
            println!("{} requests; then {:?}", requests.into_inner(), engine.gantry().device(VIRTIO).unwrap().state());
            wait_for_engine(false);
            monitor(&["device_add", "virtio-crypto-pci,id=crypto0,cryptodev=backend0,bus=slot0"]);
            wait_for_engine(true);
        }
    }

    ["--device", "virtio-crypto", "--modules", AES, "--timeout", "240"]
    /// The engine is plugged in while a program has a session.
    fn an_engine_that_is_plugged_in_serves_the_sessions_made_from_then_on() {
        wait_for_engine(true);
        monitor(&["device_del", "crypto0"]);
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

        monitor(&["device_add", "virtio-crypto-pci,id=crypto0,cryptodev=backend0,bus=slot0"]);
        wait_for_engine(true);
        assert_eq!(gantry.discover(&driver, |_| None), [VIRTIO]);
        let younger = session();
        younger.prepare(Operation::Encrypt, 64).unwrap(); // known answers take long in an emulated engine
        assert_eq!((runs_on(&younger).as_str(), runs_on(&older).as_str()), (VIRTIO, CPU));
        assert!(there_and_back(&younger, &[1; 4096]));
    }

    ["--device", "virtio-crypto", "--append", "module_blacklist=aesni_intel"]
    /// Without AES instructions the kernel prefers the engine, and the CPU's device does not become the engine's.
    fn the_cpu_is_the_cpu_where_the_kernel_prefers_an_engine() {
        let session = cbc(CPU);
        let most = session.gantry().device(CPU).unwrap().capability(A::Aes128Cbc).unwrap().max_bytes;
        assert!(most > 30 * PAGE && there_and_back(&session, &vec![1; most]), "all that a socket takes: {most}");
        let crypto = fs::read_to_string("/proc/crypto").unwrap();
        assert!(crypto.contains("cbc(aes-generic)") || crypto.contains("cbc(ecb(aes-generic))"), "{crypto}");
    }

    ["--append", "module_blacklist=af_alg"]
    fn a_kernel_without_af_alg_is_a_reason() {
        let found = excluded(&AfalgDriver::new());
        assert!(matches!(&found[..], [(name, why)] if name == "afalg" && why.contains("no AF_ALG")), "{found:?}");
    }

    ["--append", "module_blacklist=algif_hash,algif_skcipher,algif_aead"]
    fn a_kernel_without_its_types_is_a_reason() {
        let found = excluded(&AfalgDriver::new());
        assert!(matches!(&found[..], [(name, why)] if name == "afalg" && why.contains("algif_hash")), "{found:?}");
    }

    ["--device", "virtio-crypto", "--append", "module_blacklist=algif_skcipher"]
    /// What is there serves, and what is not is not offered.
    fn an_engine_that_cannot_be_reached_is_a_reason_and_hashes_work_on() {
        let driver = AfalgDriver::new();
        let found = excluded(&driver);
        assert!(matches!(&found[..], [(name, why)] if name == VIRTIO && why.contains("algif_skcipher")), "{found:?}");
        let gantry = Gantry::builder().driver(&driver).build();
        let cpu = gantry.device(CPU).unwrap();
        assert!(cpu.admit(A::Sha256).is_ok() && cpu.capability(A::Aes128Cbc).is_none());
    }
}

/// So many requests of all ciphers of all devices, there and back, and of hashes in pieces and as a whole. Returns how many
/// pairs were wrong.
fn random(gantry: &Gantry, requests: usize, seed: u64) -> usize {
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
        let alone = gantry.with_policy(gantry_core::route::Pin { device: device.name().to_owned() });
        let params = SessionParams::new(algorithm, &key).mac_key(&key[..16.min(info.mac_key.max)]);
        let Ok(session) = alone.session(params) else { continue };
        for _ in 0..20 {
            let most = if below(20) == 0 { 100_000 } else { 600 };
            let length = (below(most) / info.block.max(1) * info.block.max(1)).max(info.min_data);
            let data: Vec<u8> = (0..length).map(|at| (at ^ done) as u8).collect();
            let iv = vec![done as u8; if info.iv.allows(12) { 12 } else { info.iv.min }];
            let good = match info.kind {
                Kind::Cipher => there_and_back(&session, &data),
                Kind::Aead => {
                    let (mut sealed, mut tag) = (data.clone(), vec![0; session.params().tag_length()]);
                    let sealed_well = session.seal(&iv, b"header", &mut sealed, &mut tag).is_ok();
                    let spoiled = below(2) == 0;
                    tag[0] ^= u8::from(spoiled);
                    let opened = session.open(&iv, b"header", &mut sealed, &tag);
                    sealed_well
                        && if spoiled {
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
                    let ran = session.process(&mut request).is_ok() && request[0].outcome() == Some(Outcome::Done);
                    let mut stream = session.stream(1).unwrap();
                    let cut = below(length + 1);
                    let fed = stream.update(&data[..cut]).is_ok() && stream.clone().update(b"astray").is_ok();
                    ran && fed
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
            // There and back, or as a whole and in pieces.
            done += 2;
        }
    }
    wrong
}

/// Where the kernel says what happens in it.
const TRACING: &str = "/sys/kernel/tracing";

/// System calls of this thread meanwhile, some for the count itself among them. The clock is left out, which on most machines is
/// read without one.
fn system_calls(work: impl FnOnce()) -> usize {
    let set = |file: &str, value: &str| fs::write(format!("{TRACING}/{file}"), value).unwrap();
    // SAFETY: a number that is this thread's.
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

/// From now on `socket(AF_ALG)` fails with EPERM (seccomp(2)).
fn forbid_af_alg() {
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, answer) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut program = [
        step(load, 0, 0, 0), // the number of the call
        step(equal, libc::SYS_socket as u32, 0, 3),
        step(load, 16, 0, 0), // its first argument
        step(equal, libc::AF_ALG as u32, 0, 1),
        step(answer, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        step(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a filter program with its length.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}
