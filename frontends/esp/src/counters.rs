//! Packet counters of the whole data path.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $text:literal])* $name:ident),* $(,)?) => {
        /// Counters since the start, shared by all threads.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[doc = $text])* pub(crate) $name: Count,)*
        }

        impl Counters {
            /// Returns the name, description and value of each counter.
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($text),*), self.$name.get())),*]
            }
        }
    };
}

counters! {
    /// Packets sent through the tunnel.
    sent_packets,
    /// Bytes of sent packets, before ESP.
    sent_bytes,
    /// Packets received through the tunnel.
    received_packets,
    /// Bytes of received packets, after ESP.
    received_bytes,
    /// Batches of the sending side.
    sent_batches,
    /// Batches of the receiving side.
    received_batches,
    /// Packets dropped because no policy lets them leave.
    unprotected,
    /// Packets dropped because their policy has no SA yet.
    without_sa,
    /// Packets that exceed the path MTU and must not be fragmented; the sender is notified.
    too_long,
    /// Packets of transport mode with headers that it cannot carry, or incomplete ones.
    unfit,
    /// Packets fragmented before or after ESP.
    fragmented,
    /// Frames from the stack that are not IP packets.
    unreadable,
    /// Packets dropped because their SA has reached its volume limit or used all sequence numbers.
    expired,
    /// Packets that no device could seal or open.
    failed,
    /// Packets that the socket did not accept.
    unsent,
    /// Datagrams too short for ESP.
    short,
    /// Packets with an unknown SPI.
    unknown_spi,
    /// Packets in UDP whose SA is without UDP, and the reverse.
    mismatched,
    /// Packets that are replayed or older than the window.
    replayed,
    /// Packets with a wrong integrity check value.
    forged,
    /// Packets that are malformed within ESP.
    malformed,
    /// Dummy packets (RFC 4303, 2.6).
    dummies,
    /// Packets that no policy admits.
    unadmitted,
    /// Packets marked for congestion on the way whose sender does not support ECN (RFC 6040).
    congested,
    /// Packets that the stack did not accept.
    undelivered,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
