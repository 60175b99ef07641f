//! The cryptodevs of [DPDK](https://www.dpdk.org): cards (QAT, CAAM, CCP, OcteonTX, ...), and libraries that DPDK presents like
//! cards (OpenSSL, ipsec-mb). DPDK calls the driver of a cryptodev a PMD (poll-mode driver).
//!
//! This crate is not linked with DPDK. A shim in C, `libgantry_dpdk.so.N`, is built once for each release of DPDK, and loaded when the
//! driver discovers devices. Without it, or without DPDK, the devices are excluded with the reason.
//!
//! Properties that a program should know:
//!
//! * DPDK starts once in a process, and never ends. Its interrupt thread and its memory remain.
//! * A child of `fork` cannot use the devices: every call there is a fault.
//! * Data is copied into DPDK's memory and back ([`DpdkDriver::copied_bytes`]). The exception is data in regions: `crypto_openssl` and
//!   `crypto_aesni_mb` use data in place if that is safe and the data is long enough ([`Options::lend_from`]).
//! * Cryptodev has no interrupts, so queues must be polled.
//! * DPDK cannot cancel. A dropped queue leaves its requests in the device, and their slots are reused after they have returned.
//!
//! | file | content |
//! |---|---|
//! | `library.rs` | finds the shim, starts DPDK once in a process, and starts devices |
//! | `device.rs`, `algorithms.rs` | a cryptodev as a device of Gantry, and its algorithms |
//! | `engine.rs` | a running device: its queue pairs, and the requests that DPDK keeps when a queue is dropped |
//! | `queue.rs` | a queue pair of Gantry: takes requests into slots, and completes them |
//! | `rsa.rs` | signatures of RSA |
//! | `session.rs` | writes requests into slots, takes results out, and selects the data in regions that is used in place |
//! | `missing.rs`, `pmds.rs` | missing parts of the machine, if DPDK did not start a device, and the packages of its PMDs |
//! | `shim/`, `sys.rs`, `sys/` | the C library, and its calls |

/// Maps algorithms to the operations of cryptodev.
#[cfg(target_os = "linux")]
mod algorithms;
/// Implements `Device`.
#[cfg(target_os = "linux")]
mod device;
/// A running cryptodev: its queue pairs, and the sessions that wait to be freed.
#[cfg(target_os = "linux")]
mod engine;
/// Faults and refusals that several modules return.
#[cfg(target_os = "linux")]
mod fault;
/// Loads the shim, starts DPDK and its devices.
#[cfg(target_os = "linux")]
mod library;
/// Finds out why a device cannot be used: packages, kernel drivers, permissions.
#[cfg(target_os = "linux")]
mod missing;
/// The PMDs of DPDK: their devices, and their packages.
#[cfg(target_os = "linux")]
mod pmds;
/// Gantry's side of a queue pair.
#[cfg(target_os = "linux")]
mod queue;
/// RSA signatures: the padding, and the powers that a device computes.
#[cfg(target_os = "linux")]
mod rsa;
/// Sessions, and the layout of requests in a slot.
#[cfg(target_os = "linux")]
mod session;
/// Calls of the shim, and all `unsafe`.
#[cfg(target_os = "linux")]
mod sys;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::path::PathBuf;

use gantry_core::driver::{Class, Driver, Found};

/// Options for starting DPDK, and the devices to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Devices: `crypto_openssl`, with arguments as DPDK takes them (`crypto_aesni_mb0,max_nb_queue_pairs=4`), or the address
    /// of a PCI device (`0000:3d:01.0`).
    pub devices: Vec<String>,
    /// Arguments of DPDK's EAL, added to the driver's own. The default needs no hugepages.
    pub eal: Vec<String>,
    /// DPDK's memory, in MiB. A queue takes 3 MiB; a device and its sessions need a few MiB more.
    pub memory_mib: u32,
    /// Path of the shim; `None`: the driver searches the usual places.
    pub shim: Option<PathBuf>,
    /// Number of queue pairs of each device, limited by the device's maximum. The default is one more than the number of CPUs.
    pub queue_pairs: Option<u32>,
    /// Minimum length, in bytes, of data in regions that a device uses in place, if it can; shorter data is copied. The default is the
    /// measured break-even.
    pub lend_from: usize,
}

/// Below this size, a copy costs less than lending (`benches/dpdk/lend` measures both; the numbers are in
/// `lab/notebook/engines.md`).
const DEFAULT_LEND_FROM: usize = 128;

impl Default for Options {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            eal: ["--no-huge", "--iova-mode=va"].map(str::to_owned).into(),
            memory_mib: 64,
            shim: None,
            queue_pairs: None,
            lend_from: DEFAULT_LEND_FROM,
        }
    }
}

/// Discovers the devices named in its options.
#[derive(Debug, Default)]
pub struct DpdkDriver {
    options: Options,
}

impl DpdkDriver {
    /// Makes a driver with these options. The options of DPDK apply only if DPDK has not been started in this process.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Returns the number of message bytes that were copied to and from the device of this name; `None` if the device does not run.
    pub fn copied_bytes(device: &str) -> Option<u64> {
        #[cfg(target_os = "linux")]
        return library::running(device.strip_prefix("dpdk:")?).map(|engine| engine.copied_bytes());
        #[cfg(not(target_os = "linux"))]
        return device.strip_prefix("dpdk:").and(None);
    }
}

impl Driver for DpdkDriver {
    fn name(&self) -> &'static str {
        "dpdk"
    }

    fn discover(&self) -> Vec<Found> {
        #[cfg(target_os = "linux")]
        return discover(&self.options);
        #[cfg(not(target_os = "linux"))]
        return self.options.devices.iter().map(|line| excluded(line, "this driver needs Linux".to_owned())).collect();
    }
}

#[cfg(target_os = "linux")]
fn discover(options: &Options) -> Vec<Found> {
    use std::sync::Arc;

    let lines = &options.devices;
    if lines.is_empty() {
        return Vec::new();
    }
    let shim = match library::start(options) {
        _ if sys::is_forked_child() => Err("DPDK belongs to the parent process".to_owned()),
        started => started,
    };
    let shim = match shim {
        Ok(shim) => shim,
        Err(reason) => return lines.iter().map(|line| excluded(line, reason.clone())).collect(),
    };
    // Workers come first, regardless of their order in the options, because DPDK looks for the workers of a scheduler when it makes the
    // scheduler.
    let (workers, others): (Vec<&String>, Vec<&String>) =
        lines.iter().partition(|line| library::is_worker(library::device_name(line), lines));
    let workers = workers.into_iter().map(|line| {
        let reason = library::plug_worker(shim, line, options)
            .err()
            .unwrap_or_else(|| "a scheduler uses this device as its worker".to_owned());
        excluded(line, reason)
    });
    let mut found: Vec<Found> = workers.collect();
    for (name, engine) in others.into_iter().flat_map(|line| library::start_engines(shim, line, options)) {
        found.push(match engine {
            Ok(engine) => Found::Device(Arc::new(device::DpdkDevice::new(&name, &shim.version(), engine))),
            Err(reason) => excluded(&name, reason),
        });
    }
    found
}

/// Reports a device of the options as one that cannot be used. `line` is its name, perhaps with arguments.
fn excluded(line: &str, reason: String) -> Found {
    let name = line.split(',').next().unwrap_or_default();
    let class = if name.contains(':') { Class::Hardware } else { Class::Software };
    Found::Excluded { name: format!("dpdk:{name}"), class, reason }
}
