//! Packets with numbers: which came, and which did not.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::gateway::await_that;
use crate::namespace::Namespace;

/// How often a packet is sent.
const PACE: Duration = Duration::from_millis(2);
/// How long the last of them may take, and how often somebody looks whether it is enough.
const LAST: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// Datagrams from one host to another, until somebody says that it is enough.
#[derive(Debug)]
pub(crate) struct Stream {
    enough: Arc<AtomicBool>,
    got: Arc<AtomicU64>,
    /// How many can come, once nothing is sent any more.
    due: Arc<OnceLock<u64>>,
    sender: JoinHandle<(u64, BTreeSet<u64>)>,
    receiver: JoinHandle<(BTreeSet<u64>, u64)>,
}

/// What became of them.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    /// Numbers that the sender's own system refused: it had no route for them.
    pub(crate) refused: BTreeSet<u64>,
    /// Numbers of those that were sent and did not come.
    pub(crate) lost: BTreeSet<u64>,
    /// Packets that came twice.
    pub(crate) twice: u64,
}

impl Tally {
    /// Every packet came, once.
    #[track_caller]
    pub(crate) fn is_whole(&self) {
        assert!(self.sent > 0, "nothing was sent");
        assert!(
            self.lost.is_empty() && self.refused.is_empty() && self.twice == 0,
            "of {} packets {} are lost, {} were refused, {} came twice: {self:?}",
            self.sent,
            self.lost.len(),
            self.refused.len(),
            self.twice
        );
    }
}

impl Stream {
    /// Sends from an address of one host to an address of another.
    pub(crate) fn start((from, source): (&Namespace, IpAddr), (to, destination): (&Namespace, IpAddr)) -> Self {
        let (enough, got) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let receiver = to.enter(|| UdpSocket::bind((destination, 0))).unwrap();
        let sender = from.enter(|| UdpSocket::bind((source, 0))).unwrap();
        receiver.set_read_timeout(Some(LOOK)).unwrap();
        let to = receiver.local_addr().unwrap();
        let sender = thread::spawn({
            let enough = enough.clone();
            move || send(&sender, to, &enough)
        });
        let due = Arc::new(OnceLock::new());
        let receiver = thread::spawn({
            let (due, got) = (due.clone(), got.clone());
            move || receive(&receiver, &due, &got)
        });
        Self { enough, got, due, sender, receiver }
    }

    /// Waits until so many more have come.
    pub(crate) fn pass(&self, count: u64) {
        let begin = self.got.load(Ordering::Relaxed);
        await_that("packets come", || self.got.load(Ordering::Relaxed) >= begin + count);
    }

    /// Ends it, once all that is on the way has come.
    pub(crate) fn end(self) -> Tally {
        self.enough.store(true, Ordering::Relaxed);
        let (sent, refused) = self.sender.join().unwrap();
        self.due.set(sent - refused.len() as u64).unwrap();
        let (came, twice) = self.receiver.join().unwrap();
        let lost = (0..sent).filter(|number| !came.contains(number) && !refused.contains(number)).collect();
        Tally { sent, refused, lost, twice }
    }
}

/// Waits until so many more have come, either way.
pub(crate) fn pass(streams: &[Stream; 2], count: u64) {
    for stream in streams {
        stream.pass(count);
    }
}

/// Every packet came, either way.
#[track_caller]
pub(crate) fn are_whole(streams: [Stream; 2]) {
    for tally in streams.map(Stream::end) {
        tally.is_whole();
    }
}

/// So many bytes over TCP, which come as they left.
pub(crate) fn transfer((from, source): (&Namespace, IpAddr), (to, destination): (&Namespace, IpAddr), count: usize) {
    let listener = to.enter(|| TcpListener::bind((destination, 0))).unwrap();
    let bytes: Vec<u8> = (0..count).map(|at| (at * at / 251) as u8).collect();
    let address = listener.local_addr().unwrap();
    let got = thread::spawn(move || {
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).map(|_| got)
    });
    let mut sender = from.enter(|| TcpStream::connect(address)).unwrap();
    assert_eq!(sender.local_addr().unwrap().ip(), source);
    sender.write_all(&bytes).unwrap();
    drop(sender);
    assert!(got.join().unwrap().unwrap() == bytes, "other bytes came than were sent");
}

fn send(socket: &UdpSocket, to: SocketAddr, enough: &AtomicBool) -> (u64, BTreeSet<u64>) {
    let (mut number, mut refused) = (0_u64, BTreeSet::new());
    while !enough.load(Ordering::Relaxed) {
        // From 60 to 1,260 bytes.
        let mut payload = vec![0xA5; 60 + (number as usize * 37) % 1200];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        if socket.send_to(&payload, to).is_err() {
            refused.insert(number);
        }
        number += 1;
        thread::sleep(PACE);
    }
    (number, refused)
}

fn receive(socket: &UdpSocket, due: &OnceLock<u64>, got: &AtomicU64) -> (BTreeSet<u64>, u64) {
    let (mut came, mut twice) = (BTreeSet::new(), 0);
    let mut buffer = [0; 2048];
    let mut end = None;
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                assert!(buffer[8..length].iter().all(|byte| *byte == 0xA5), "a packet came with other content");
                let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                if came.insert(number) {
                    got.fetch_add(1, Ordering::Relaxed);
                } else {
                    twice += 1;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let Some(due) = due.get() else { continue };
                let end = *end.get_or_insert_with(|| Instant::now() + LAST);
                if came.len() as u64 >= *due || Instant::now() >= end {
                    return (came, twice);
                }
            }
            // A process that was stopped goes on.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
}
