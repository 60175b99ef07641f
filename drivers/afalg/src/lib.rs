//! The crypto drivers of the Linux kernel, through AF_ALG: sockets that take data and give results.
//!
//! One device for each engine that the kernel drives (`afalg:virtio_crypto`, named as its module), and one,
//! `afalg:cpu`, for all that the kernel computes on the CPU itself, with the best driver that it has for each algorithm.
//! The kernel lists tens of drivers; what an operator decides about is an engine.
//!
//! AF_ALG is deprecated since Linux 7.2 and gets narrower with each release, in distributions' older kernels, too. So
//! nothing is concluded from a version: each algorithm is tried, and what does not work is excluded with the reason.
//!
//! What has hurt others, and how it is kept away:
//!
//! * A virtio engine stops for good at an operation of 32 pages, with its callers in uninterruptible sleep: see
//!   `QUIRKS` in `device.rs`.
//! * A `read` of more than is queued blocks, and one of less leaves the rest for the next request: results are read to
//!   their exact length.
//! * A request larger than a socket's buffer is cut into operations that chain their IVs, which asynchronous drivers and
//!   XTS do wrong: the capability ends where the buffer does, and every request brings its IV.
//! * `poll` says ready on idle sockets: nobody asks it.
//! * An operation socket holds one request: each request in flight has its own, which a pool in the session keeps.
//! * An engine that fails in the middle may have overwritten its input. Requests in place get their result in a buffer of
//!   the session first; that copy is small beside what an engine needs to start.
//! * After `fork` parent and child hold the same sockets, and would read each other's results: sockets from before a
//!   fork are not used after it.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
use std::sync::Arc;

use gantry_core::driver::{Class, Driver, Found};

/// What the kernel says of its drivers.
pub mod catalogue;
/// Devices, and what each one offers.
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod fault;
/// Sessions: keys in the kernel, and the sockets of requests.
#[cfg(target_os = "linux")]
mod session;
/// Messages in pieces: the state is in the kernel.
#[cfg(target_os = "linux")]
mod stream;
/// System calls.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod sys;

/// Whether AF_ALG has this name of an algorithm or driver, of the type `hash`, `skcipher`, `aead` or `rng`. The kernel may load
/// modules to find out.
///
/// # Errors
/// What the system said, in words.
pub fn try_bind(kind: &str, name: &str) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return sys::Transform::bind(kind, name).map(drop).map_err(|error| device::why_not(&error));
    #[cfg(not(target_os = "linux"))]
    return Err(format!("AF_ALG is Linux's: no {kind} {name}"));
}

/// Discovers the kernel's engines.
#[derive(Debug, Default)]
pub struct AfalgDriver {
    unlimited: bool,
}

impl AfalgDriver {
    /// As everybody wants it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Without the limits that known engines need. Such an engine then stops for good: for tests of what notices that.
    #[doc(hidden)]
    pub fn without_quirks() -> Self {
        Self { unlimited: true }
    }
}

impl Driver for AfalgDriver {
    fn name(&self) -> &'static str {
        "afalg"
    }

    #[cfg(target_os = "linux")]
    fn discover(&self) -> Vec<Found> {
        match device::discover(self.unlimited) {
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
        let _ = self.unlimited;
        let reason = "AF_ALG is Linux's".to_owned();
        vec![Found::Excluded { name: "afalg".into(), class: Class::Kernel, reason }]
    }
}
