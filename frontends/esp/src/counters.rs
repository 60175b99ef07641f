//! What became of packets: counters of the whole data path.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $text:literal])* $name:ident),* $(,)?) => {
        /// Counters since the start, for threads that share them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[doc = $text])* pub(crate) $name: Count,)*
        }

        impl Counters {
            /// All of them: name, text and value.
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($text),*), self.$name.get())),*]
            }
        }
    };
}

counters! {
    /// Packets that left through the tunnel.
    sent_packets,
    /// Bytes of them, before ESP.
    sent_bytes,
    /// Packets that arrived through the tunnel.
    received_packets,
    /// Bytes of them, after ESP.
    received_bytes,
    /// Passes of the sending side, each one batch for the devices.
    sent_batches,
    /// Passes of the receiving side, each one batch for the devices.
    received_batches,
    /// Packets that no policy lets leave.
    unprotected,
    /// Packets whose policy has no SA yet.
    without_sa,
    /// Packets that were too long for the path and may not be fragmented; the sender was told.
    too_long,
    /// Packets that were cut into fragments, before ESP or behind it.
    fragmented,
    /// What came from the stack and is no packet of IP.
    unreadable,
    /// Packets whose SA has come to the end of its volume or numbers.
    expired,
    /// Packets that no device sealed or opened.
    failed,
    /// Packets that the socket did not take.
    unsent,
    /// Datagrams that are too short for ESP.
    short,
    /// Packets of an SPI that there is not.
    unknown_spi,
    /// Packets that came before, or are older than the window.
    replayed,
    /// Packets whose integrity check value is wrong.
    forged,
    /// Packets that are malformed within ESP.
    malformed,
    /// Dummy packets (RFC 4303, 2.6).
    dummies,
    /// Packets that no policy lets in.
    unadmitted,
    /// Packets whose congestion was marked on the way, and whose sender knows no marks (RFC 6040).
    congested,
    /// Packets that the stack did not take.
    undelivered,
}

/// A counter.
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
