//! The crypto drivers of the Linux kernel, through `/dev/crypto` (cryptodev-linux): ioctls that work on the caller's memory in place.
//!
//! The kernel chooses its driver for each algorithm, and reports it. It marks the drivers of engines, which programs reach only through the
//! kernel (`SIOP_FLAG_KERNEL_DRIVER_ONLY`). Their algorithms are the device `devcrypto:engine`, and all others `devcrypto:cpu`.
//!
//! Known problems, and their solutions:
//!
//! * A session holds an IV and the state of a digest. Every request brings its IV and begins its own message, so that threads can share the
//!   session. Each stream opens its own session; duplicates of a cipher's stream share theirs.
//! * After `fork`, parent and child have the same sessions. In the child, the parent's digest streams fail, and dropping the parent's
//!   sessions does not close them.
//! * Data with a wrong alignment goes through a loop that copies one page at a time. This is slower, and wrong for XTS, because the cipher
//!   starts again with each page. So there is no XTS here.
//! * A virtio engine stops forever at an operation of 32 pages: requests are shorter.
//! * A tag must follow its ciphertext. In Gantry it need not, so AEADs use a buffer of the session.

/// Devices and their capabilities.
#[cfg(target_os = "linux")]
mod device;
/// Sessions, and messages in pieces.
#[cfg(target_os = "linux")]
mod session;
/// Kinds of sessions.
#[cfg(target_os = "linux")]
mod session_kind;
/// The ioctls.
#[cfg(target_os = "linux")]
mod sys;

use gantry_core::driver::{Class, Driver, Found};

/// Discovers the drivers behind `/dev/crypto`.
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
        let found = Err("this driver needs Linux".to_owned());
        found.unwrap_or_else(|reason| vec![Found::Excluded { name: "devcrypto".into(), class: Class::Kernel, reason }])
    }
}
