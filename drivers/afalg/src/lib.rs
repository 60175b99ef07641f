//! The crypto drivers of the Linux kernel, through AF_ALG: sockets that take data and return results.
//!
//! Each engine that the kernel drives is a device (`afalg:virtio_crypto`, named after its module). The device `afalg:cpu` is for all
//! algorithms that the kernel computes on the CPU, with its best driver for each. The kernel's own list has dozens of drivers. They are not
//! devices here, because operators decide about engines.
//!
//! AF_ALG has been deprecated since Linux 7.2, and each release restricts it further. Distributions backport the restrictions. So the
//! driver draws no conclusion from a version. It tries each algorithm, and leaves out those that fail. An engine without any is excluded,
//! with a reason.
//!
//! Known problems, and their solutions:
//!
//! * A virtio engine stops forever at an operation of 32 pages, with its callers in uninterruptible sleep: see `QUIRKS` in `device.rs`.
//! * A `read` of more than the queued bytes blocks, and a shorter one leaves the rest for the next request: results are read to their exact
//!   length.
//! * A request larger than a socket's buffer is cut into operations that chain their IVs. Asynchronous drivers and XTS do this incorrectly.
//!   So the capability is limited to the buffer, and every request brings its IV.
//! * `poll` reports idle sockets as ready, so it is not used.
//! * An operation socket holds one request. Each request in flight has its own socket, from a pool in the session.
//! * An engine that fails during an operation may have overwritten its input. Requests in place first write their result to a buffer of the
//!   session. The copy is cheap compared with the engine's setup time.
//! * After `fork`, parent and child have the same sockets, and would read each other's results. Sockets from before a fork are not used
//!   after it.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
use std::sync::Arc;

use gantry_core::driver::{Class, Driver, Found};

/// The kernel's list of its drivers.
pub mod catalogue;
/// Devices and their capabilities.
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod fault;
/// Sessions: keys in the kernel, and the sockets of requests.
#[cfg(target_os = "linux")]
mod session;
/// Digests and MACs of messages that arrive in pieces. The kernel holds the state.
#[cfg(target_os = "linux")]
mod stream;
/// System calls.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod sys;

/// Checks whether AF_ALG has this algorithm or driver, of the type `hash`, `skcipher`, `aead` or `rng`. The kernel may load modules for
/// that.
///
/// # Errors
/// The likely reason, and the system's message.
pub fn try_bind(kind: &str, name: &str) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return sys::Transform::bind(kind, name).map(drop).map_err(|error| device::explain(&error));
    #[cfg(not(target_os = "linux"))]
    return Err(format!("AF_ALG needs Linux: no {kind} {name}"));
}

/// Discovers the kernel's engines, and the algorithms that it computes on the CPU.
#[derive(Debug, Default)]
pub struct AfalgDriver {
    ignore_quirks: bool,
}

impl AfalgDriver {
    /// Makes a driver that observes the limits of known engines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a driver without the limits of known engines, to test that such an engine then stops forever.
    #[doc(hidden)]
    pub fn without_quirks() -> Self {
        Self { ignore_quirks: true }
    }
}

impl Driver for AfalgDriver {
    fn name(&self) -> &'static str {
        "afalg"
    }

    #[cfg(target_os = "linux")]
    fn discover(&self) -> Vec<Found> {
        match device::discover(self.ignore_quirks) {
            Ok(found) => found
                .into_iter()
                .map(|found| match found {
                    Ok(device) => Found::Device(Arc::new(device) as _),
                    Err((name, class, reason)) => Found::Excluded { name, class, reason },
                })
                .collect(),
            Err(reason) => vec![Found::Excluded { name: "afalg".into(), class: Class::Kernel, reason }],
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn discover(&self) -> Vec<Found> {
        let _ = self.ignore_quirks;
        let reason = "AF_ALG needs Linux".to_owned();
        vec![Found::Excluded { name: "afalg".into(), class: Class::Kernel, reason }]
    }
}
