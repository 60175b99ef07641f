//! Numbered packets: the received and the lost ones.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::namespace::Namespace;
use gantry_lab::wait_until;

/// Interval between two packets.
const INTERVAL: Duration = Duration::from_millis(2);
/// The time for the last packet to arrive, and the interval of checks for the end.
const LAST_PACKET: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Datagrams from one host to another, until the stream is ended.
#[derive(Debug)]
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    sent_count: Arc<AtomicU64>,
    received_count: Arc<AtomicU64>,
    /// Number of packets that can arrive, once the sender has stopped.
    expected: Arc<OnceLock<u64>>,
    sender: JoinHandle<(u64, BTreeSet<u64>)>,
    receiver: JoinHandle<(BTreeSet<u64>, u64)>,
}

/// The fate of a stream's packets.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    /// Numbers of packets refused by the sender's own system: it had no route for them.
    pub(crate) refused: BTreeSet<u64>,
    /// Numbers of packets that were sent and did not arrive.
    pub(crate) lost: BTreeSet<u64>,
    /// Packets that arrived twice.
    pub(crate) duplicates: u64,
}

impl Tally {
    /// Asserts that every packet arrived once.
    #[track_caller]
    pub(crate) fn assert_all_arrived(&self) {
        assert!(self.sent > 0, "nothing was sent");
        assert!(
            self.lost.is_empty() && self.refused.is_empty() && self.duplicates == 0,
            "of {} packets {} are lost, {} were refused, {} arrived twice: {self:?}",
            self.sent,
            self.lost.len(),
            self.refused.len(),
            self.duplicates
        );
    }
}

impl Stream {
    /// Sends from an address of one host to an address of another.
    pub(crate) fn start((from, source): (&Namespace, IpAddr), (to, destination): (&Namespace, IpAddr)) -> Self {
        let (stop, sent_count, received_count) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::default());
        let receiver = to.enter(|| UdpSocket::bind((destination, 0))).unwrap();
        let sender = from.enter(|| UdpSocket::bind((source, 0))).unwrap();
        receiver.set_read_timeout(Some(CHECK_INTERVAL)).unwrap();
        let to = receiver.local_addr().unwrap();
        let sender = thread::spawn({
            let (stop, sent_count) = (stop.clone(), sent_count.clone());
            move || send(&sender, to, &stop, &sent_count)
        });
        let expected = Arc::new(OnceLock::new());
        let receiver = thread::spawn({
            let (expected, received_count): (_, Arc<AtomicU64>) = (expected.clone(), Arc::clone(&received_count));
            move || receive(&receiver, &expected, &received_count)
        });
        Self { stop, sent_count, received_count, expected, sender, receiver }
    }

    /// Returns the number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.sent_count.load(Ordering::Relaxed)
    }

    /// Waits until `count` more packets have arrived.
    pub(crate) fn await_packets(&self, count: u64) {
        let begin = self.received_count.load(Ordering::Relaxed);
        wait_until("packets come", || self.received_count.load(Ordering::Relaxed) >= begin + count);
    }

    /// Ends the stream, once all packets in flight have arrived.
    pub(crate) fn end(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let (sent, refused) = self.sender.join().unwrap();
        self.expected.set(sent - refused.len() as u64).unwrap();
        let (received, duplicates) = self.receiver.join().unwrap();
        let lost = (0..sent).filter(|number| !received.contains(number) && !refused.contains(number)).collect();
        Tally { sent, refused, lost, duplicates }
    }
}

/// Waits until `count` more packets have arrived in each direction.
pub(crate) fn await_packets(streams: &[Stream; 2], count: u64) {
    for stream in streams {
        stream.await_packets(count);
    }
}

/// Asserts that every packet arrived in both directions.
#[track_caller]
pub(crate) fn assert_all_arrived(streams: [Stream; 2]) {
    for tally in streams.map(Stream::end) {
        tally.assert_all_arrived();
    }
}

/// Transfers `count` bytes over TCP, and compares them.
pub(crate) fn transfer((from, source): (&Namespace, IpAddr), (to, destination): (&Namespace, IpAddr), count: usize) {
    let listener = to.enter(|| TcpListener::bind((destination, 0))).unwrap();
    let bytes: Vec<u8> = (0..count).map(|at| (at * at / 251) as u8).collect();
    let address = listener.local_addr().unwrap();
    let received = thread::spawn(move || {
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).map(|_| received)
    });
    let mut sender = from.enter(|| TcpStream::connect(address)).unwrap();
    assert_eq!(sender.local_addr().unwrap().ip(), source);
    sender.write_all(&bytes).unwrap();
    drop(sender);
    assert!(received.join().unwrap().unwrap() == bytes, "the received bytes differ from those sent");
}

fn send(socket: &UdpSocket, to: SocketAddr, stop: &AtomicBool, sent_count: &AtomicU64) -> (u64, BTreeSet<u64>) {
    let (mut number, mut refused) = (0_u64, BTreeSet::new());
    while !stop.load(Ordering::Relaxed) {
        // From 60 to 1,259 bytes.
        let mut payload = vec![0xA5; 60 + (number as usize * 37) % 1200];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        if socket.send_to(&payload, to).is_err() {
            refused.insert(number);
        }
        number += 1;
        sent_count.store(number, Ordering::Relaxed);
        thread::sleep(INTERVAL);
    }
    (number, refused)
}

fn receive(socket: &UdpSocket, expected: &OnceLock<u64>, received_count: &AtomicU64) -> (BTreeSet<u64>, u64) {
    let (mut received, mut duplicates) = (BTreeSet::new(), 0);
    let mut buffer = [0; 2048];
    let mut end = None;
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                assert!(buffer[8..length].iter().all(|byte| *byte == 0xA5), "a packet arrived with other content");
                let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                if received.insert(number) {
                    received_count.fetch_add(1, Ordering::Relaxed);
                } else {
                    duplicates += 1;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let Some(expected) = expected.get() else { continue };
                let end = *end.get_or_insert_with(|| Instant::now() + LAST_PACKET);
                if received.len() as u64 >= *expected || Instant::now() >= end {
                    return (received, duplicates);
                }
            }
            // A process that was stopped continues.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
}
