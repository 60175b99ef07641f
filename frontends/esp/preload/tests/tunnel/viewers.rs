//! Programs at the sockets of a data path do not delay it.

use std::fs;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use gantry_abi_xfrm::constants::flag;
use gantry_abi_xfrm::{Datagram, KeyVisibility, Message};
use gantry_lab::wait_until;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr};
use serde_json::Value;

use crate::host::{Host, Pair, Plan};
use crate::keys::{Keys, Sa, hex};

/// Runs `work` in a thread of the user `nobody`.
pub(crate) fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let become_nobody = || {
        // SAFETY: the arguments are three numbers. The raw call changes the user of this thread alone, unlike the function of
        // the C library.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(result, 0);
        work()
    };
    thread::scope(|scope| scope.spawn(become_nobody).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Creates a host with a data path whose report of its SAs does not fit the buffer of a socket.
fn with_many_sas() -> Pair {
    let mut pair = Pair::linked();
    pair.a.serve(&Plan::default());
    let key = Keys::gcm();
    let commands = (0..1200_u32).map(|number| {
        let mut keys = key.clone();
        keys.key[..4].copy_from_slice(&number.to_be_bytes());
        format!("xfrm {}\n", Sa::new(&pair.a, &pair.b, 0x1_0000 + number, &keys).add_command())
    });
    pair.a.xfrm_batch(&commands.collect::<String>());
    pair
}

fn threads(host: &Host) -> usize {
    fs::read_dir(format!("/proc/{}/task", host.process())).unwrap().count()
}

#[test]
#[ignore = "needs root and network namespaces"]
fn other_users_see_only_counters() {
    let pair = Pair::with_tunnel(&Plan::default());
    let public = as_nobody(|| pair.a.try_status()).unwrap();
    assert!(public["counters"]["sent_packets"].is_u64(), "{public}");
    assert_eq!((&public["sas"], &public["rules"]), (&Value::Null, &Value::Null));
    assert_eq!(pair.a.status()["sas"].as_array().unwrap().len(), 2);
    assert_eq!(pair.a.status()["rules"].as_array().unwrap().len(), 4);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn viewers_that_do_not_read_delay_nothing() {
    let pair = with_many_sas();
    let before = threads(&pair.a);
    let connect = || UnixStream::connect(pair.a.folder().join("status"));
    // These viewers run as root, so they get the SAs.
    let mut viewers: Vec<UnixStream> = (0..60).map(|_| connect().unwrap()).collect();
    assert!(pair.a.xfrm("state count").contains("SAD count 1200"));
    assert!(as_nobody(|| pair.a.try_status()).is_some());
    let during = threads(&pair.a);
    assert!(during <= before, "{before} threads, then {during}");
    // Each viewer is closed, even if it has not read everything.
    for viewer in &mut viewers {
        let _ = viewer.read_to_end(&mut Vec::new());
    }
    assert_eq!(pair.a.status()["sas"].as_array().unwrap().len(), 1200);
}

/// A program's connection to the data path.
struct Program(OwnedFd);

impl Program {
    fn new(host: &Host) -> Self {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        let path = UnixAddr::new(&host.folder().join("xfrm")).unwrap();
        wait_until("a connection is accepted", || socket::connect(fd.as_raw_fd(), &path).is_ok());
        Self(fd)
    }

    /// Sends a request that is to be acknowledged. Returns whether the socket accepted it.
    fn try_request(&self, message: &Message) -> bool {
        let mut datagram = Datagram::new();
        datagram.push(message, flag::REQUEST | flag::ACK, 7, 0, KeyVisibility::Zeros);
        match socket::send(self.0.as_raw_fd(), datagram.as_bytes(), MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => true,
            Err(Errno::EAGAIN) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Receives an answer, if there is one.
    fn try_receive(&self) -> Option<Vec<u8>> {
        let mut answer = vec![0; 4096];
        let length = socket::recv(self.0.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT).ok()?;
        answer.truncate(length);
        Some(answer)
    }

    /// Sends a request, and waits for the answer.
    fn request(&self, message: &Message) -> Vec<u8> {
        assert!(self.try_request(message));
        let mut answer = None;
        wait_until("the request is answered", || {
            answer = self.try_receive();
            answer.is_some()
        });
        answer.unwrap()
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn no_requests_are_read_from_a_program_that_does_not_read_answers() {
    let mut pair = Pair::linked();
    pair.a.serve(&Plan::default());
    let (program, other) = (Program::new(&pair.a), Program::new(&pair.a));
    let request = Message::GetSadInfo(0);
    let most = 20_000;
    // Each answer to the other program is a turn of the data path, in which the data path could have read this request.
    let sent = (0..most).take_while(|_| {
        (0..5).any(|_| {
            program.try_request(&request) || {
                other.request(&request);
                false
            }
        })
    });
    let sent = sent.count();
    assert!(sent < most, "the data path read all requests");
    assert!(pair.a.xfrm("state count").contains("SAD count 0"), "others are answered");
    // All answers arrive once the program reads.
    let mut answers = 0;
    wait_until("all answers arrive", || {
        answers += std::iter::from_fn(|| program.try_receive()).count();
        answers == sent
    });
    assert!(!program.request(&request).is_empty());
}

/// A daemon may have outdated sequence numbers, so no message sets the numbers of an SA in use.
#[test]
#[ignore = "needs root and network namespaces"]
fn no_message_changes_the_sequence_numbers_of_an_sa() {
    let mut pair = Pair::linked();
    pair.a.serve(&Plan::default());
    let keys = Keys::gcm();
    let sa = Sa { options: "replay-window 32 replay-oseq 100", ..Sa::new(&pair.a, &pair.b, 0x1001, &keys) };
    pair.a.xfrm(&sa.add_command());
    let id = gantry_abi_xfrm::SaId { destination: pair.b.outer[0], spi: 0x1001, protocol: 50 };
    let mut outdated = gantry_abi_xfrm::Sa::new(id, pair.a.outer[0]);
    outdated.replay = Some(gantry_abi_xfrm::Replay { output: 3, input: 0, bitmap: 0 });
    let event = gantry_abi_xfrm::AsyncEvent::of(&outdated, 0);
    let answer = Program::new(&pair.a).request(&Message::NewAe(event.into()));
    let errno = i32::from_ne_bytes(*answer[16..].first_chunk().unwrap());
    assert_eq!(errno, -libc::EOPNOTSUPP);
    assert!(pair.a.xfrm("state list").contains("oseq 0x64"));
    let backward = sa.add_command().replace("state add", "state update").replace("replay-oseq 100", "replay-oseq 7");
    pair.a.xfrm(&backward);
    assert!(pair.a.xfrm("state list").contains("oseq 0x64"));
    let forward = backward.replace("replay-oseq 7", "replay-oseq 700");
    assert!(pair.a.refused(&forward).contains("an update cannot advance the sequence numbers"));
    assert!(pair.a.xfrm("state list").contains(&hex(&keys.key)));
}
