//! Streams of numbered packets, which show the packets that are lost.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gantry_lab::wait_until;
use nix::sys::socket::{setsockopt, sockopt};

use crate::namespace::Namespace;

/// Interval between two packets.
const INTERVAL: Duration = Duration::from_millis(2);
/// The time for a packet to arrive behind a later one.
const LATE_PACKET_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two checks for the end of a stream.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Datagrams from one host to another, until the stream is ended.
#[derive(Debug)]
pub(crate) struct Stream {
    progress: Arc<Progress>,
    /// Returns the numbers of refused packets.
    sender: JoinHandle<BTreeSet<u64>>,
    /// Returns the numbers of received packets, and the count of duplicates.
    receiver: JoinHandle<(BTreeSet<u64>, u64)>,
}

/// The state of a stream.
#[derive(Debug, Default)]
struct Progress {
    stop: AtomicBool,
    /// Number of packets sent or refused, which is also the number of the next packet.
    sent: AtomicU64,
    refused: AtomicU64,
    received: AtomicU64,
    /// The highest received number plus one.
    received_below: AtomicU64,
    /// The longest time between two received packets, in milliseconds.
    longest_pause_ms: AtomicU64,
    /// Set once the sender has stopped: the number of packets that count, and the number of packets among them that can arrive.
    expected: OnceLock<(u64, usize)>,
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
        let receiver = to.enter(|| UdpSocket::bind((destination, 0))).unwrap();
        let sender = from.enter(|| UdpSocket::bind((source, 0))).unwrap();
        receiver.set_read_timeout(Some(CHECK_INTERVAL)).unwrap();
        // The buffer then has room for all packets that arrive while the test has no CPU.
        setsockopt(&receiver, sockopt::RcvBufForce, &(16 << 20)).unwrap();
        let to = receiver.local_addr().unwrap();
        let progress = Arc::new(Progress::default());
        let sender = thread::spawn({
            let progress = Arc::clone(&progress);
            move || send(&sender, to, &progress)
        });
        let receiver = thread::spawn({
            let progress = Arc::clone(&progress);
            move || receive(&receiver, &progress)
        });
        Self { progress, sender, receiver }
    }

    /// Returns the number of the next packet.
    fn next_number(&self) -> u64 {
        self.progress.sent.load(Ordering::Relaxed)
    }

    /// Waits until `count` more packets have arrived.
    pub(crate) fn await_packets(&self, count: u64) {
        await_more("packets come", &self.progress.received, count);
    }

    /// Waits until the sender's own system has refused `count` more packets.
    pub(crate) fn await_refused(&self, count: u64) {
        await_more("packets are refused", &self.progress.refused, count);
    }

    /// Waits until a packet arrives that is sent from now on. Packets keep their order, so all earlier packets have then arrived or are
    /// lost. Returns the number of earlier packets.
    pub(crate) fn await_later_packet(&self) -> u64 {
        let next = self.next_number();
        wait_until("later packets come", || self.progress.received_below.load(Ordering::Relaxed) > next);
        next
    }

    /// Returns the longest time between two packets that arrived.
    pub(crate) fn longest_pause(&self) -> Duration {
        Duration::from_millis(self.progress.longest_pause_ms.load(Ordering::Relaxed))
    }

    /// Ends the stream. Returns the fate of the packets sent until now.
    pub(crate) fn end(self) -> Tally {
        let sent = self.await_later_packet();
        self.finish(sent)
    }

    /// Ends a stream whose packets no longer arrive.
    pub(crate) fn abandon(self) {
        self.finish(0);
    }

    /// Ends the stream. Returns the fate of the first `sent` packets.
    fn finish(self, sent: u64) -> Tally {
        self.progress.stop.store(true, Ordering::Relaxed);
        let mut refused = self.sender.join().unwrap();
        drop(refused.split_off(&sent));
        self.progress.expected.set((sent, sent as usize - refused.len())).unwrap();
        let (received, duplicates) = self.receiver.join().unwrap();
        let lost = (0..sent).filter(|number| !received.contains(number) && !refused.contains(number)).collect();
        Tally { sent, refused, lost, duplicates }
    }
}

/// Does work during which packets may be lost, until later packets arrive. Returns for each stream the numbers of packets that may be lost.
pub(crate) fn while_losing(streams: &[Stream], work: impl FnOnce()) -> Vec<Range<u64>> {
    let begin: Vec<u64> = streams.iter().map(Stream::await_later_packet).collect();
    work();
    for stream in streams {
        stream.await_later_packet();
    }
    // The packet that is being sent is not counted yet.
    begin.into_iter().zip(streams).map(|(begin, stream)| begin..stream.next_number() + 1).collect()
}

/// Ends the streams, and asserts that only packets of these losses are missing. Returns the tally of each stream.
#[track_caller]
pub(crate) fn assert_lost_within(streams: impl IntoIterator<Item = Stream>, losses: &[Vec<Range<u64>>]) -> Vec<Tally> {
    let tallies: Vec<Tally> = streams.into_iter().map(Stream::end).collect();
    for (at, tally) in tallies.iter().enumerate() {
        let may_be_lost = |number: &u64| losses.iter().any(|ranges| ranges[at].contains(number));
        assert!(tally.lost.iter().chain(&tally.refused).all(may_be_lost), "{losses:?}: {tally:?}");
    }
    tallies
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

/// Waits until a count has grown by `more`.
fn await_more(name: &str, count: &AtomicU64, more: u64) {
    let begin = count.load(Ordering::Relaxed);
    wait_until(name, || count.load(Ordering::Relaxed) >= begin + more);
}

fn send(socket: &UdpSocket, to: SocketAddr, progress: &Progress) -> BTreeSet<u64> {
    let (mut number, mut refused) = (0_u64, BTreeSet::new());
    while !progress.stop.load(Ordering::Relaxed) {
        // Payloads have 60 to 1,259 bytes.
        let mut payload = vec![0xA5; 60 + (number as usize * 37) % 1200];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        if socket.send_to(&payload, to).is_err() {
            refused.insert(number);
            progress.refused.fetch_add(1, Ordering::Relaxed);
        }
        number += 1;
        progress.sent.store(number, Ordering::Relaxed);
        thread::sleep(INTERVAL);
    }
    refused
}

fn receive(socket: &UdpSocket, progress: &Progress) -> (BTreeSet<u64>, u64) {
    let (mut received, mut duplicates) = (BTreeSet::new(), 0);
    let mut buffer = [0; 2048];
    let (mut end, mut last) = (None, None::<Instant>);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                assert!(buffer[8..length].iter().all(|byte| *byte == 0xA5), "a packet arrived with other content");
                let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                let pause = last.map_or(0, |last| last.elapsed().as_millis() as u64);
                last = Some(Instant::now());
                progress.longest_pause_ms.fetch_max(pause, Ordering::Relaxed);
                progress.received_below.fetch_max(number + 1, Ordering::Relaxed);
                if received.insert(number) {
                    progress.received.fetch_add(1, Ordering::Relaxed);
                } else {
                    duplicates += 1;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let Some((below, count)) = progress.expected.get() else { continue };
                let end = *end.get_or_insert_with(|| Instant::now() + LATE_PACKET_TIMEOUT);
                if received.range(..below).count() >= *count || Instant::now() >= end {
                    return (received, duplicates);
                }
            }
            // The receive is interrupted when a stopped process continues.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
}
