//! Programs at the sockets of a data path hold nothing up.

use std::fs;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use gantry_abi_xfrm::constants::flag;
use gantry_abi_xfrm::{Datagram, Keys as Shown, Message};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr};
use serde_json::Value;

use crate::host::{Host, Pair, Plan, await_that};
use crate::keys::{Keys, Sa, hex};

/// Does something in a thread of the user `nobody`.
pub(crate) fn stranger<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let become_nobody = || {
        // SAFETY: three numbers. The call itself, unlike the function of the C library, changes the user of this thread alone.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(result, 0);
        work()
    };
    thread::scope(|scope| scope.spawn(become_nobody).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A host with a data path, whose SAs are too many for one report to fit into the buffer of a socket.
fn with_many_sas() -> Pair {
    let mut pair = Pair::joined();
    pair.a.serve(&Plan::default());
    let key = Keys::gcm();
    let commands = (0..1200_u32).map(|number| {
        let mut keys = key.clone();
        keys.key[..4].copy_from_slice(&number.to_be_bytes());
        format!("xfrm {}\n", Sa::new(&pair.a, &pair.b, 0x1_0000 + number, &keys).add())
    });
    pair.a.xfrm_batch(&commands.collect::<String>());
    pair
}

fn threads(host: &Host) -> usize {
    fs::read_dir(format!("/proc/{}/task", host.process())).unwrap().count()
}

#[test]
#[ignore = "as root, in network namespaces"]
fn strangers_see_counters_and_nothing_else() {
    let pair = Pair::tied(&Plan::default());
    let public = stranger(|| pair.a.view()).unwrap();
    assert!(public["counters"]["sent_packets"].is_u64(), "{public}");
    assert_eq!((&public["sas"], &public["rules"]), (&Value::Null, &Value::Null));
    assert_eq!(pair.a.status()["sas"].as_array().unwrap().len(), 2);
    assert_eq!(pair.a.status()["rules"].as_array().unwrap().len(), 4);
}

#[test]
#[ignore = "as root, in network namespaces"]
fn viewers_that_do_not_read_hold_nothing_up() {
    let pair = with_many_sas();
    let before = threads(&pair.a);
    let connect = || UnixStream::connect(pair.a.folder().join("status"));
    // Viewers of root, which get the SAs.
    let mut viewers: Vec<UnixStream> = (0..60).map(|_| connect().unwrap()).collect();
    assert!(pair.a.xfrm("state count").contains("SAD count 1200"));
    assert!(stranger(|| pair.a.view()).is_some());
    let during = threads(&pair.a);
    assert!(during <= before, "{before} threads, then {during}");
    // Each is closed, whether it has read all or not.
    for viewer in &mut viewers {
        let _ = viewer.read_to_end(&mut Vec::new());
    }
    assert_eq!(pair.a.status()["sas"].as_array().unwrap().len(), 1200);
}

/// A program's connection to the data path.
struct Program(OwnedFd);

impl Program {
    fn of(host: &Host) -> Self {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        let path = UnixAddr::new(&host.folder().join("xfrm")).unwrap();
        await_that("there is place for a connection", || socket::connect(fd.as_raw_fd(), &path).is_ok());
        Self(fd)
    }

    /// Sends a request that is to be acknowledged. Returns whether the socket took it.
    fn asks(&self, message: &Message) -> bool {
        let mut datagram = Datagram::new();
        datagram.push(message, flag::REQUEST | flag::ACK, 7, 0, Shown::Zeros);
        match socket::send(self.0.as_raw_fd(), datagram.as_bytes(), MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => true,
            Err(Errno::EAGAIN) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes an answer, if there is one.
    fn hears(&self) -> Option<Vec<u8>> {
        let mut answer = vec![0; 4096];
        let length = socket::recv(self.0.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT).ok()?;
        answer.truncate(length);
        Some(answer)
    }

    /// Asks, and waits for the answer.
    fn ask(&self, message: &Message) -> Vec<u8> {
        assert!(self.asks(message));
        let mut answer = None;
        await_that("it is answered", || {
            answer = self.hears();
            answer.is_some()
        });
        answer.unwrap()
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_program_that_does_not_read_is_not_read_either() {
    let mut pair = Pair::joined();
    pair.a.serve(&Plan::default());
    let (program, other) = (Program::of(&pair.a), Program::of(&pair.a));
    let request = Message::GetSadInfo(0);
    let most = 20_000;
    // Each answer to another program is a turn of the data path, in which it could have read this request.
    let sent = (0..most).take_while(|_| {
        (0..5).any(|_| {
            program.asks(&request) || {
                other.ask(&request);
                false
            }
        })
    });
    let sent = sent.count();
    assert!(sent < most, "all answers wait in the data path");
    assert!(pair.a.xfrm("state count").contains("SAD count 0"), "others are answered");
    // All answers come once it reads.
    let mut answers = 0;
    await_that("its answers come", || {
        answers += std::iter::from_fn(|| program.hears()).count();
        answers == sent
    });
    assert!(!program.ask(&request).is_empty());
}

/// A daemon's knowledge of numbers may be old, so no message sets those of an SA that is in use.
#[test]
#[ignore = "as root, in network namespaces"]
fn numbers_are_not_set_from_outside() {
    let mut pair = Pair::joined();
    pair.a.serve(&Plan::default());
    let keys = Keys::gcm();
    let sa = Sa { more: "replay-window 32 replay-oseq 100", ..Sa::new(&pair.a, &pair.b, 0x1001, &keys) };
    pair.a.xfrm(&sa.add());
    let id = gantry_abi_xfrm::SaId { destination: pair.b.outer[0], spi: 0x1001, protocol: 50 };
    let mut known = gantry_abi_xfrm::Sa::new(id, pair.a.outer[0]);
    known.replay = Some(gantry_abi_xfrm::Replay { output: 3, input: 0, bitmap: 0 });
    let event = gantry_abi_xfrm::AsyncEvent::of(&known, 0);
    let answer = Program::of(&pair.a).ask(&Message::NewAe(event.into()));
    let errno = i32::from_ne_bytes(*answer[16..].first_chunk().unwrap());
    assert_eq!(errno, -libc::EOPNOTSUPP);
    assert!(pair.a.xfrm("state list").contains("oseq 0x64"));
    let behind = sa.add().replace("state add", "state update").replace("replay-oseq 100", "replay-oseq 7");
    pair.a.xfrm(&behind);
    assert!(pair.a.xfrm("state list").contains("oseq 0x64"));
    let ahead = behind.replace("replay-oseq 7", "replay-oseq 700");
    assert!(pair.a.refused(&ahead).contains("the numbers of an SA go on by themselves"));
    assert!(pair.a.xfrm("state list").contains(&hex(&keys.key)));
}
