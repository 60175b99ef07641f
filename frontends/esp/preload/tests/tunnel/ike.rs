//! Messages of IKE that the kernel merges with ESP packets of the same peer (UDP GRO).

use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{self, AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, SockaddrIn};
use nix::sys::socket::{setsockopt, sockopt};

use crate::host::EVENT_TIMEOUT;
use crate::keys::{Keys, V4};
use crate::peer::{Peer, udp};
use crate::traffic::{MARKER, Udp};

/// The kind of a datagram in a train. A train consists of datagrams of one length that are sent in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Esp,
    Ike,
}
use Kind::{Esp, Ike};

/// Opens the socket of a daemon: it shares the port with the data path.
fn daemon(peer: &Peer) -> Udp {
    let host = &peer.pair.b;
    let socket = host.namespace.enter(|| {
        let fd = socket::socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&fd, sockopt::ReusePort, &true).unwrap();
        socket::bind(fd.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, 4500)).unwrap();
        UdpSocket::from(fd)
    });
    socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    Udp(socket)
}

/// Builds a message of IKE behind its marker (RFC 3948, 2.2; RFC 7296, 3.1).
fn ike(number: u8, bytes: usize) -> Vec<u8> {
    let mut datagram = vec![number; bytes];
    datagram[..4].fill(0);
    datagram[28..32].copy_from_slice(&(bytes as u32 - 4).to_be_bytes());
    datagram
}

#[test]
#[ignore = "needs root and network namespaces"]
fn each_datagram_of_a_train_reaches_its_reader() {
    for queues in [1, 3] {
        let peer = Peer::with_queues(&Keys::gcm(), "replay-window 32", queues);
        let (program, daemon) = (peer.pair.b.udp(peer.pair.b.inner[V4], 0), daemon(&peer));
        let port = program.local_addr().unwrap().port();
        let mut number = 0_u8;
        for train in [&[Esp, Esp, Esp, Ike][..], &[Ike, Esp, Ike], &[Esp, Ike, Ike], &[Ike, Ike], &[Ike], &[Esp]] {
            let first = number;
            let datagrams: Vec<Vec<u8>> = train
                .iter()
                .map(|kind| {
                    number += 1;
                    let packet = udp(peer.inner(V4), port, 0, &[&[number][..], MARKER].concat());
                    let sealed = peer.seal(&packet);
                    if *kind == Esp { sealed } else { ike(number, sealed.len()) }
                })
                .collect();
            peer.send_train(&datagrams);
            let mut buffer = [0; 2000];
            for (at, kind) in train.iter().enumerate() {
                let reader = if *kind == Esp { &program } else { &daemon };
                let (length, from) = reader.recv_from(&mut buffer).expect("the datagram arrives");
                if *kind == Esp {
                    assert_eq!(buffer[0], first + 1 + at as u8, "{train:?}");
                } else {
                    assert_eq!(buffer[..length], datagrams[at][..], "{train:?}");
                    assert_eq!(from, (peer.pair.a.outer[V4], 4500).into());
                }
            }
        }
    }
}

impl Peer {
    /// Sends datagrams of one length in one call. They arrive as one, because the devices do not split them.
    fn send_train(&self, datagrams: &[Vec<u8>]) {
        let stride = datagrams[0].len() as u16;
        let bytes = datagrams.concat();
        let controls = [ControlMessage::UdpGsoSegments(&stride)];
        let pieces = [IoSlice::new(&bytes)];
        let sent =
            socket::sendmsg::<SockaddrIn>(self.descriptor(), &pieces, &controls, MsgFlags::empty(), None).unwrap();
        assert_eq!(sent, bytes.len());
    }
}
