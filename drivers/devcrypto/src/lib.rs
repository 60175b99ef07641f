//! The crypto drivers of the Linux kernel, through `/dev/crypto` (cryptodev-linux): ioctls that work on the caller's memory
//! where it lies.
//!
//! The kernel chooses its driver for each algorithm, and says which. What it calls kernel-only is an engine: such algorithms
//! are the device `devcrypto:engine`, all others `devcrypto:cpu`.
//!
//! What has hurt others, and how it is kept away:
//!
//! * A session holds an IV and the state of a digest: every request brings its IV and begins a message of its own, so that
//!   threads can share it; each stream has a session for itself.
//! * After `fork` parent and child hold the same sessions. The child leaves the parent's streams alone, and closes none of
//!   its sessions.
//! * Data that does not lie as the driver wants it goes through a loop that copies a page at a time. That is slower, and for
//!   XTS wrong, because each page begins anew: there is no XTS here.
//! * A virtio engine stops for good at an operation of 32 pages: requests end below.
//! * A tag must lie behind its ciphertext. Ours need not, so AEADs go through a buffer of the session.

/// Devices, and what each one offers.
#[cfg(target_os = "linux")]
mod device;
/// Sessions, and messages in pieces.
#[cfg(target_os = "linux")]
mod session;
/// The ioctls.
#[cfg(target_os = "linux")]
mod sys;

use gantry_core::driver::{Class, Driver, Found};

/// Discovers what `/dev/crypto` leads to.
#[derive(Debug, Default)]
pub struct DevcryptoDriver;

impl Driver for DevcryptoDriver {
    fn name(&self) -> &'static str {
        "devcrypto"
    }

    fn discover(&self) -> Vec<Found> {
        #[cfg(target_os = "linux")]
        let found = device::discover();
        #[cfg(not(target_os = "linux"))]
        let found = Err("the driver speaks the ioctls of Linux only".to_owned());
        found.unwrap_or_else(|reason| vec![Found::Excluded { name: "devcrypto".into(), class: Class::Kernel, reason }])
    }
}
