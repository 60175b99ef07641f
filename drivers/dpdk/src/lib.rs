//! The cryptodevs of [DPDK](https://www.dpdk.org): cards (QAT, CAAM, CCP, OcteonTX, ...), and libraries that DPDK presents as
//! if they were cards (OpenSSL, ipsec-mb).
//!
//! Nothing here is linked with DPDK. A shim in C, `libgantry_dpdk.so.N`, is built once for each release of DPDK and loaded when
//! the driver is asked for devices; without it, or without DPDK, the devices are excluded with the reason.
//!
//! What a program should know:
//!
//! * DPDK starts once in a process, and does not end. It leaves a thread of its own behind (for interrupts), and its memory.
//! * A child of `fork` cannot use the devices: every call there is a fault.
//! * Data are copied into memory of DPDK's and back ([`DpdkDriver::copied`]), but for data in regions, which `crypto_openssl` and
//!   `crypto_aesni_mb` use where they lie if that is safe and there are enough of them ([`Options::lend_from`]).
//! * Cryptodev has no interrupts, so that a queue has to be polled.
//! * DPDK cannot cancel. A queue that is dropped leaves its requests in the device, whose slots are used again once they have come
//!   back.
//!
//! | file | content |
//! |---|---|
//! | `library.rs` | finds the shim, starts DPDK once in a process and brings devices up |
//! | `engine.rs` | a device that runs: its queue pairs, and the requests that DPDK keeps when a queue is dropped |
//! | `queue.rs` | a queue pair as Gantry uses it: takes requests into slots, and completes them |
//! | `rsa.rs` | signatures of RSA |
//! | `session.rs` | writes requests into slots, takes results out, and says which data in regions stay where they are |
//! | `missing.rs`, `pmds.rs` | what a machine lacks for a device that DPDK did not bring up, and the packages of its PMDs |
//! | `shim/`, `sys.rs`, `sys/` | the C library, and its calls |

/// Algorithms by the names of cryptodev, and the `Device`.
#[cfg(target_os = "linux")]
mod device;
/// A cryptodev that runs: its queue pairs, and the sessions that wait to be freed.
#[cfg(target_os = "linux")]
mod engine;
/// DPDK in this process: the shim, the start, the devices.
#[cfg(target_os = "linux")]
mod library;
/// Why a device cannot be used: packages, kernel drivers, permissions.
#[cfg(target_os = "linux")]
mod missing;
/// The PMDs of DPDK: their devices, and their packages.
#[cfg(target_os = "linux")]
mod pmds;
/// A queue pair as Gantry uses it.
#[cfg(target_os = "linux")]
mod queue;
/// Signatures of RSA: padding, and powers that a device computes.
#[cfg(target_os = "linux")]
mod rsa;
/// Sessions, and what requests look like in a slot.
#[cfg(target_os = "linux")]
mod session;
/// The shim, and all `unsafe`.
#[cfg(target_os = "linux")]
mod sys;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::path::PathBuf;

use gantry_core::driver::{Class, Driver, Found};

/// What to start DPDK with, and which devices to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Devices: `crypto_openssl`, with arguments as DPDK takes them (`crypto_aesni_mb0,max_nb_queue_pairs=4`), or the address
    /// of a PCI device (`0000:3d:01.0`).
    pub devices: Vec<String>,
    /// Arguments of DPDK's EAL beside those that are ours. The default needs no hugepages.
    pub eal: Vec<String>,
    /// Memory of DPDK, in MiB. A queue takes 3, and a device with its sessions some more.
    pub memory: u32,
    /// The shim; looked for in its usual places otherwise.
    pub shim: Option<PathBuf>,
    /// Queue pairs of each device, at most what it has; one more than there are CPUs otherwise.
    pub queues: Option<u32>,
    /// Bytes from which data in regions are used where they lie, by devices that can; what is shorter is copied. The default is
    /// where lending began to pay.
    pub lend_from: usize,
}

/// What a copy costs is less than what lending does below this size (`benches/dpdk/lend` measures both; the numbers are in
/// `lab/notebook/engines.md`).
const LEND_FROM: usize = 128;

impl Default for Options {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            eal: ["--no-huge", "--iova-mode=va"].map(str::to_owned).into(),
            memory: 64,
            shim: None,
            queues: None,
            lend_from: LEND_FROM,
        }
    }
}

/// Discovers the devices that it is told of.
#[derive(Debug, Default)]
pub struct DpdkDriver {
    options: Options,
}

impl DpdkDriver {
    /// With these options. Those that are DPDK's count where nobody in this process has started it.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Bytes of messages that were copied to and from the device of this name.
    pub fn copied(device: &str) -> Option<u64> {
        #[cfg(target_os = "linux")]
        return library::running(device.strip_prefix("dpdk:")?).map(|engine| engine.copied());
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
        return find(&self.options);
        #[cfg(not(target_os = "linux"))]
        return self.options.devices.iter().map(|line| excluded(line, "the driver is for Linux".to_owned())).collect();
    }
}

#[cfg(target_os = "linux")]
fn find(options: &Options) -> Vec<Found> {
    use std::sync::Arc;

    let lines = &options.devices;
    if lines.is_empty() {
        return Vec::new();
    }
    let shim = match library::start(options) {
        _ if sys::forked() => Err("DPDK belongs to the parent process".to_owned()),
        started => started,
    };
    let shim = match shim {
        Ok(shim) => shim,
        Err(why) => return lines.iter().map(|line| excluded(line, why.clone())).collect(),
    };
    // Workers first, whatever the order in the file: their scheduler looks for them when it is made.
    let (workers, others): (Vec<&String>, Vec<&String>) =
        lines.iter().partition(|line| library::is_worker(library::name_of(line), lines));
    let workers = workers.into_iter().map(|line| {
        let why = library::worker(shim, line, options).err().unwrap_or_else(|| "it works for a scheduler".to_owned());
        excluded(line, why)
    });
    let mut found: Vec<Found> = workers.collect();
    for (name, engine) in others.into_iter().flat_map(|line| library::engines(shim, line, options)) {
        found.push(match engine {
            Ok(engine) => Found::Device(Arc::new(device::DpdkDevice::new(&name, &shim.version(), engine))),
            Err(why) => excluded(&name, why),
        });
    }
    found
}

/// A line of the configuration that leads to no device.
fn excluded(line: &str, reason: String) -> Found {
    let name = line.split(',').next().unwrap_or_default();
    let class = if name.contains(':') { Class::Hardware } else { Class::Software };
    Found::Excluded { name: format!("dpdk:{name}"), class, reason }
}
