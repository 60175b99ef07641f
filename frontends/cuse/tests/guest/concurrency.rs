//! Many programs at once, while a program or the server is killed.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gantry_abi_cryptodev::CryptOp;
use gantry_core::{Algorithm, SessionParams};
use gantry_lab::wait_until;
use libc::{EINVAL, ENOMEM};

use crate::client::{Crypto, DEVICE, Rng, Server, address_of};

gantry_lab::in_guest! {
    ["--modules", "cuse", "--cpus", "2", "--timeout", "300"]
    fn many_programs_get_their_own_answers() {
        let mut server = Server::start();
        check_concurrent_threads();
        let mut clients: Vec<Child> = (0..8).map(|_| spawn_client("work")).collect();
        // Clients that are killed in the middle do not affect the others.
        for _ in 0..10 {
            let mut victim = spawn_client("work");
            thread::sleep(Duration::from_millis(30));
            victim.kill().unwrap();
            victim.wait().unwrap();
        }
        for client in &mut clients {
            assert!(client.wait().unwrap().success());
        }
        assert!(server.is_running());
    }

    fn a_long_request_does_not_delay_others() {
        let _server = Server::start();
        let crypto = Crypto::open();
        let long = crypto.cipher(2, &(1..=24).collect::<Vec<u8>>()).unwrap();
        let short = crypto.cipher(11, &[1; 16]).unwrap();
        // Triple DES over 16 MiB takes seconds here. Counts the requests that are answered meanwhile.
        let data = vec![0; 16 << 20];
        let answered = thread::scope(|scope| {
            let slow = scope.spawn(|| crypto.run(long, 0, &[0; 8], &data).map(|output| output.len()));
            thread::sleep(Duration::from_millis(100));
            let mut answered = 0;
            while !slow.is_finished() {
                crypto.run(short, 0, &[0; 16], &[0; 64]).unwrap();
                answered += 1;
            }
            assert_eq!(slow.join().unwrap(), Ok(16 << 20));
            answered
        });
        println!("{answered} short requests during a long one");
        assert!(answered > 10, "{answered}");
    }

    ["--modules", "cuse", "--timeout", "300"]
    fn limits_apply_to_each_user() {
        let _server = Server::start_as(0, &[("SESSIONS", "5".to_owned()), ("BYTES", "1000000".to_owned())]);
        let (one, two) = (Crypto::open(), Crypto::open());
        let sessions: Vec<u32> = (0..5).map(|_| one.hash(14, &[]).unwrap()).collect();
        assert_eq!(two.hash(14, &[]), Err(ENOMEM), "all files of a user together");
        // Another user has its own five sessions, and no access to the first user's.
        let other = program("sessions", 4321).env("THEIRS", sessions[1].to_string()).status().unwrap();
        assert!(other.success());
        assert!(one.digest(sessions[1], 0, b"still there", 20).is_ok());
        one.close(sessions[0]).unwrap();
        let cipher = two.cipher(11, &[1; 16]).unwrap();
        assert_eq!(two.run(cipher, 0, &[0; 16], &vec![0; 1_000_016 / 16 * 16]), Err(ENOMEM));
        // A request that exceeds the bytes left by other requests waits, and succeeds.
        thread::scope(|scope| {
            let large = || assert!(two.run(cipher, 0, &[0; 16], &vec![0; 800_000]).is_ok());
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(large)).collect();
            for thread in threads {
                thread.join().unwrap();
            }
        });
        drop(one);
        assert!(two.hash(14, &[]).is_ok(), "a closed file gives its sessions back");
    }

    fn clients_of_a_server_that_is_killed_get_errors() {
        let mut server = Server::start();
        let run = |_| program("until-error", 0).stdout(Stdio::piped()).spawn().unwrap();
        let mut clients: Vec<Child> = (0..4).map(run).collect();
        let mut lines: Vec<_> = clients.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap()).lines()).collect();
        for lines in &mut lines {
            assert!(lines.any(|line| line.unwrap().contains("READY")));
        }
        server.kill();
        for client in &mut clients {
            wait_until("a client ends", || client.try_wait().unwrap().is_some());
            assert!(client.wait().unwrap().success());
        }
        // A new server can take its place.
        let _server = Server::start();
        check_concurrent_threads();
    }

    ["--modules", "cuse", "--count", "--timeout", "300"]
    /// Messages that eight programs hash at the same time share the lanes of the CPU. The guest's only processor counts
    /// instructions, so the result is deterministic.
    fn eight_programs_get_more_throughput_than_one() {
        // Starts the server as the systemd unit does, and without the unit's capability.
        std::fs::set_permissions("/dev/cuse", std::fs::Permissions::from_mode(0o666)).unwrap();
        let servers: [(_, _, fn() -> Server); 2] =
            [("direct", 1.5, || Server::start_as_a_unit(1234)), ("retry", 1.2, || Server::start_without_rights(&[]))];
        for (access, least, server) in servers {
            let _server = server();
            // A new server needs some time to learn the costs of devices.
            total_rate("sha256", 16384, 8, 500);
            let best = |programs| (0..4).map(|_| total_rate("sha256", 16384, programs, 100)).fold(0.0, f64::max);
            let [one, eight] = [1, 8].map(best);
            println!("{access}: one {one:.0}/s, eight {eight:.0}/s, {:.2}x", eight / one);
            assert!(eight >= least * one, "{access}: {one} and {eight}");
        }
    }

    ["--modules", "cuse", "--count", "--timeout", "900"]
    /// Measures the cost of a request, and the throughput of eight programs on one server.
    fn rates() {
        for (access, server) in [("direct", Server::start as fn() -> Server), ("retry", || Server::start_without_rights(&[]))] {
            let server = server();
            if access == "retry" && server.is_module() {
                break;
            }
            for kind in ["aes-128-cbc", "sha256"] {
                for bytes in [16, 1024, 4096, 16384, 65536] {
                    let [one, eight] = [1, 8].map(|programs| total_rate(kind, bytes, programs, 500));
                    println!("RATE {access:6} {kind:11} {bytes:6} B  one {one:8.0}/s ({:6.1} us)  eight {eight:8.0}/s  {:.2}x", 1e6 / one, eight / one);
                }
            }
        }
    }
}

/// Measures the total requests per second of `programs` programs, which start together and run for `time` milliseconds.
fn total_rate(kind: &str, bytes: usize, programs: usize, time: u64) -> f64 {
    let run = |_| {
        let mut command = program("rate", 0);
        command.env("TIME", time.to_string());
        command
            .env("KIND", kind)
            .env("BYTES", bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut children: Vec<Child> = (0..programs).map(run).collect();
    let mut lines: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap()).lines()).collect();
    let value_after = |lines: &mut std::io::Lines<BufReader<_>>, prefix: &str| {
        lines.find_map(|line| Some(line.unwrap().split_once(prefix)?.1.trim().to_owned())).unwrap()
    };
    for lines in &mut lines {
        value_after(lines, "READY");
    }
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let rates = lines.iter_mut().map(|lines| value_after(lines, "DONE ").parse::<f64>().unwrap()).sum();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    rates
}

/// Builds a command that runs this program as a client of the device.
fn program(role: &str, uid: u32) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "concurrency::client_process", "--include-ignored", "--nocapture"])
        .env("CLIENT", role)
        .uid(uid);
    command
}

fn spawn_client(role: &str) -> Child {
    program(role, 0).stdout(Stdio::null()).spawn().unwrap()
}

/// Not a test, but the process of a client.
#[test]
#[ignore = "the process of a client"]
fn client_process() {
    let Ok(what) = std::env::var("CLIENT") else { return };
    match what.as_str() {
        "work" => check_concurrent_threads(),
        "sessions" => {
            let crypto = Crypto::open();
            let sessions: Vec<Result<u32, i32>> = (0..6).map(|_| crypto.hash(14, &[])).collect();
            assert!(sessions[..5].iter().all(Result::is_ok) && sessions[5] == Err(ENOMEM), "{sessions:?}");
            let foreign_session = std::env::var("THEIRS").unwrap().parse().unwrap();
            assert_eq!(crypto.digest(foreign_session, 0, b"secrets", 20), Err(EINVAL));
            assert_eq!(crypto.info(foreign_session).err(), Some(EINVAL));
            assert_eq!(crypto.copy_hash(*sessions[0].as_ref().unwrap(), foreign_session), Err(libc::ENOENT));
            assert_eq!(crypto.close(foreign_session), Ok(()));
        }
        "until-error" => {
            let crypto = Crypto::open();
            let session = crypto.hash(104, &[]).unwrap();
            println!("READY");
            let errno = loop {
                if let Err(errno) = crypto.digest(session, 0, &[0; 4096], 32) {
                    break errno;
                }
            };
            assert!([libc::ECONNABORTED, libc::ENOTCONN, libc::ENODEV].contains(&errno), "errno {errno}");
            assert_ne!(crypto.digest(session, 0, &[0; 4096], 32), Ok(Vec::new()));
        }
        "rate" => {
            let bytes: usize = std::env::var("BYTES").unwrap().parse().unwrap();
            let crypto = Crypto::open();
            let data = vec![7; bytes];
            let mut output = vec![0; bytes];
            let cipher = std::env::var("KIND").unwrap() == "aes-128-cbc";
            let session = if cipher { crypto.cipher(11, &[1; 16]) } else { crypto.hash(104, &[]) }.unwrap();
            let mut digest = [0; 32];
            let (src, dst, mac, iv) =
                (address_of(&data), address_of(&output), address_of(&digest), address_of(&[0; 16]));
            let op = CryptOp { session, len: bytes as u32, src, dst, mac, iv, ..CryptOp::default() };
            println!("READY");
            std::io::stdin().read_line(&mut String::new()).unwrap();
            let time = Duration::from_millis(std::env::var("TIME").unwrap().parse().unwrap());
            let (start, mut count) = (Instant::now(), 0_u32);
            while start.elapsed() < time {
                crypto.crypt(op.clone()).unwrap();
                count += 1;
            }
            std::hint::black_box((&mut output, &mut digest));
            println!("DONE {}", f64::from(count) / start.elapsed().as_secs_f64());
        }
        other => panic!("{other}"),
    }
}

/// Runs threads with sessions of their own and a shared one, and compares all answers.
fn check_concurrent_threads() {
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    let crypto = Crypto::open();
    assert!(std::path::Path::new(DEVICE).exists());
    let shared = crypto.hash(104, &[]).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (crypto, gantry) = (&crypto, &gantry);
            scope.spawn(move || {
                let key = [thread; 16];
                let cipher = crypto.cipher(11, &key).unwrap();
                let reference = gantry.session(SessionParams::new(Algorithm::Aes128Cbc, &key)).unwrap();
                let digests = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
                let mut rng = Rng(u64::from(thread) + u64::from(std::process::id()) * 8);
                for _ in 0..40 {
                    let length = rng.pick(&[16, 64, 1024, 4096, 65536, 200_000]);
                    let data = rng.bytes(length);
                    let mut expected = data.clone();
                    reference.encrypt(&[9; 16], &mut expected).unwrap();
                    assert!(crypto.run(cipher, 0, &[9; 16], &data).unwrap() == expected);
                    let mut digest = [0; 32];
                    digests.digest(&data, &mut digest).unwrap();
                    assert_eq!(crypto.digest(shared, 0, &data, 32).unwrap(), digest);
                }
                assert_eq!(crypto.run(cipher, 7, &[9; 16], &[0; 16]), Err(EINVAL));
            });
        }
    });
}
