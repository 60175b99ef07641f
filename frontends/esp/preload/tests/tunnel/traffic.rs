//! Traffic between hosts inside the tunnel.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Deref;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use crate::host::{EVENT_TIMEOUT, Host};

/// A marker in every 16 bytes of payload, by which packets in clear are found on the wire.
pub(crate) const MARKER: &[u8; 8] = b"in clear";

/// Builds a payload of `bytes` bytes without repeated parts.
pub(crate) fn payload(bytes: usize) -> Vec<u8> {
    let blocks = (0_u64..).flat_map(|at| [*MARKER, at.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()].concat());
    blocks.take(bytes).collect()
}

/// A UDP socket with a timeout. A read with a timeout is interrupted when a stopped process continues (signal(7)); the
/// read is then repeated.
pub(crate) struct Udp(pub(crate) UdpSocket);

impl Udp {
    pub(crate) fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buffer).map(|(length, _)| length)
    }

    pub(crate) fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        loop {
            match self.0.recv_from(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                got => return got,
            }
        }
    }
}

impl Deref for Udp {
    type Target = UdpSocket;

    fn deref(&self) -> &UdpSocket {
        &self.0
    }
}

impl Host {
    /// Opens a UDP socket, bound to an address of the host and a port; 0 is any.
    pub(crate) fn udp(&self, address: IpAddr, port: u16) -> Udp {
        let socket = self.namespace.enter(|| UdpSocket::bind((address, port))).unwrap();
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        Udp(socket)
    }

    /// Opens a UDP socket without an address, like programs that only send.
    pub(crate) fn udp_unbound(&self, family: usize) -> Udp {
        self.udp([Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()][family], 0)
    }

    /// Runs a program on the host, with arguments separated by spaces.
    pub(crate) fn run(&self, program: &str, arguments: &str) -> Output {
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace());
        self.namespace.enter(|| command.output()).unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// Panics unless `count` packets of `ping` are answered.
    pub(crate) fn pings(&self, count: usize, arguments: &str, to: IpAddr) {
        for at in 0..count {
            // Pings one by one: after the first answer, `ping` waits for the others no longer than the first one took.
            let (got, text) = self.ping(arguments, to);
            assert_eq!(got, 1, "packet {at}: {text}");
        }
    }

    /// Sends one packet with `ping`. Returns the number of answers, and the output.
    pub(crate) fn ping(&self, arguments: &str, to: IpAddr) -> (usize, String) {
        let output = self.run("ping", &format!("-n -c 1 -W 5 {arguments} {to}"));
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (text.lines().filter(|line| line.contains("bytes from")).count(), text)
    }
}

/// Sends a datagram of each size in both directions.
pub(crate) fn datagrams(from: &Host, to: &Host, inner: usize, sizes: impl Iterator<Item = usize>) {
    let (near, far) = (from.udp(from.inner[inner], 0), to.udp(to.inner[inner], 0));
    near.connect(far.local_addr().unwrap()).unwrap();
    let mut buffer = vec![0; 1 << 16];
    for size in sizes {
        let sent = payload(size);
        near.send(&sent).unwrap();
        let (got, sender) = far.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{size} bytes sent: {error}"));
        assert!(buffer[..got] == sent, "{size} bytes sent");
        far.send_to(&buffer[..got], sender).unwrap();
        let got = near.recv(&mut buffer).unwrap_or_else(|error| panic!("{size} bytes returned: {error}"));
        assert!(buffer[..got] == sent, "{size} bytes returned");
    }
}

/// Sends `bytes` bytes over TCP, and compares them at the other end.
pub(crate) fn stream(from: &Host, to: &Host, inner: usize, bytes: usize) {
    stream_while(from, to, inner, bytes, |_| {});
}

/// Like [`stream`], and calls `each` after each part of 64 KiB, with the number of the part.
pub(crate) fn stream_while(from: &Host, to: &Host, inner: usize, bytes: usize, mut each: impl FnMut(usize)) {
    let listener = to.namespace.enter(|| TcpListener::bind((to.inner[inner], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let sent = payload(bytes);
    // TCP waits twice as long after each loss in a row.
    let limit = EVENT_TIMEOUT * 6;
    thread::scope(|scope| {
        let receive = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(limit)).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).map(|_| got)
        });
        let mut stream =
            from.namespace.enter(|| TcpStream::connect_timeout(&address, EVENT_TIMEOUT)).expect("the stream connects");
        stream.set_write_timeout(Some(limit)).unwrap();
        for (at, part) in sent.chunks(1 << 16).enumerate() {
            stream.write_all(part).expect("bytes are accepted");
            each(at);
        }
        drop(stream);
        let got = receive.join().unwrap().expect("all bytes arrive");
        assert!(got == sent, "{} of {bytes} bytes, or others", got.len());
    });
}

/// A continuous flow of numbered datagrams from one host to another, and the datagrams that have arrived.
pub(crate) struct Flow {
    stop: Arc<AtomicBool>,
    /// Returns the number of sent datagrams.
    sender: JoinHandle<u32>,
    /// Returns the numbers of the datagrams that have arrived.
    receiver: JoinHandle<Vec<u32>>,
}

impl Flow {
    pub(crate) fn start(from: &Host, to: &Host, inner: usize) -> Self {
        let (near, far) = (from.udp(from.inner[inner], 0), to.udp(to.inner[inner], 0));
        near.connect(far.local_addr().unwrap()).unwrap();
        // Leaves room for bursts after a pause, on both hosts.
        from.namespace.ip("link set gantry0 txqueuelen 20000");
        setsockopt(&*far, sockopt::RcvBufForce, &(16 << 20)).unwrap();
        let (stop, expected) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let (stopped, sent) = (Arc::clone(&stop), Arc::clone(&expected));
        let sender = thread::spawn(move || {
            let mut count = 0_u32;
            while !stopped.load(Ordering::Relaxed) {
                // A datagram that the host refuses counts as lost.
                let _ = near.send(&[&count.to_be_bytes()[..], MARKER].concat());
                count += 1;
                thread::sleep(Duration::from_millis(1));
            }
            *sent.get_or_init(|| count)
        });
        let receiver = thread::spawn(move || {
            // Datagrams still missing this long after the last one count as lost.
            far.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let (mut got, mut buffer) = (Vec::new(), [0; 64]);
            loop {
                // This number is loaded before the receive, so that no datagram is missed.
                let expected = expected.get();
                if expected.is_some_and(|expected| got.len() >= *expected as usize) {
                    return got;
                }
                match far.recv(&mut buffer) {
                    Ok(length) => got.push(u32::from_be_bytes(*buffer[..length].first_chunk().unwrap())),
                    Err(_) if expected.is_some() => return got,
                    Err(_) => {}
                }
            }
        });
        Self { stop, sender, receiver }
    }

    /// Ends the flow. Returns the number of sent datagrams, and the arrived ones in their order.
    pub(crate) fn finish(self) -> (u32, Vec<u32>) {
        self.stop.store(true, Ordering::Relaxed);
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }

    /// Ends the flow, and panics if a datagram was lost, duplicated or reordered.
    pub(crate) fn assert_complete_and_in_order(self) {
        let (sent, got) = self.finish();
        let wrong = (0..).zip(&got).find(|(expected, got)| expected != *got);
        assert!(wrong.is_none() && got.len() == sent as usize, "{} of {sent}; first {wrong:?}", got.len());
    }
}
