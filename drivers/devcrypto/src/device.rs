//! Finds the algorithms behind `/dev/crypto`, and groups them into devices.

use std::io;
use std::sync::Arc;

use gantry_abi_cryptodev::SIOP_FLAG_KERNEL_DRIVER_ONLY;
use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Found, Refusal};
use gantry_core::{Algorithm, Kind, SessionParams};

use crate::session::{self, system_message};
use crate::session_kind::{SessionKind, session_kind};
use crate::sys::CryptoFile;

/// Maximum bytes of a request. For a larger one, the module may fail to allocate its tables of pages, and then copies the data.
const MAX_BYTES: usize = 16 << 20;
/// Drivers with a lower maximum: the prefix of their names, and the maximum bytes of a request.
///
/// A virtio engine describes n pages by n(n+1)/2 descriptors of its ring, and stops forever at 32 pages (Linux 6.1 and 6.12). The maximum
/// is 29 pages of 4096 bytes, which touch 30 pages if the buffer does not begin at a page boundary.
const QUIRKS: &[(&str, usize)] = &[("virtio_crypto", 29 * 4096)];

/// Returns the devices, by trying each algorithm, or the reason why there is none.
pub(crate) fn discover() -> Result<Vec<Found>, String> {
    let crypto = CryptoFile::open().map_err(|error| explain(&error))?;
    let mut algorithm_drivers: [Vec<AlgorithmDriver>; 2] = [Vec::new(), Vec::new()];
    for &algorithm in Algorithm::ALL {
        let Some(kind) = session_kind(algorithm) else { continue };
        match AlgorithmDriver::new(&crypto, algorithm, kind) {
            Ok(algorithm_driver) => algorithm_drivers[usize::from(algorithm_driver.is_engine)].push(algorithm_driver),
            // The kernel has no driver for the algorithm.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(explain(&error)),
        }
    }
    let [cpu, engine] = algorithm_drivers;
    let found: Vec<Found> = [("devcrypto:engine", Class::Hardware, engine), ("devcrypto:cpu", Class::Kernel, cpu)]
        .into_iter()
        .filter(|(_, _, algorithm_drivers)| !algorithm_drivers.is_empty())
        .map(|(name, class, algorithm_drivers)| {
            Found::Device(Arc::new(DevcryptoDevice::new(name, class, &crypto, &algorithm_drivers)) as _)
        })
        .collect();
    if found.is_empty() { Err("/dev/crypto has no algorithm that Gantry supports".to_owned()) } else { Ok(found) }
}

fn explain(error: &io::Error) -> String {
    let reason = match error.raw_os_error() {
        Some(libc::ENOENT) => "there is no /dev/crypto: the module cryptodev is not loaded",
        Some(libc::EACCES | libc::EPERM) => "this user may not open /dev/crypto",
        Some(libc::ENOTTY) => "/dev/crypto is not a cryptodev device",
        Some(libc::ENODEV | libc::ENXIO | libc::ENOTCONN | libc::ECONNABORTED) => "/dev/crypto is no longer served",
        Some(libc::ENOMEM) => "/dev/crypto has no more sessions for this user",
        _ => "/dev/crypto does not work",
    };
    format!("{reason} ({})", system_message(error))
}

/// A driver of the kernel for one algorithm.
struct AlgorithmDriver {
    algorithm: Algorithm,
    driver: String,
    is_engine: bool,
    max_bytes: usize,
    /// In bytes. Data is copied if its address is not a multiple of this.
    alignment: usize,
}

impl AlgorithmDriver {
    fn new(crypto: &CryptoFile, algorithm: Algorithm, kind: SessionKind) -> io::Result<Self> {
        // All bytes of the key differ, because the kernel may reject a triple-DES key with equal parts.
        let key: Vec<u8> = (1..=64).take(algorithm.info().key.min).collect();
        let mac = algorithm.kind() == Kind::Mac;
        let kernel_session = match kind {
            SessionKind::Hash { number } => {
                crypto.open_session((0, &[]), (number, if mac { b"a key" } else { b"" }))?
            }
            SessionKind::Cipher { number } | SessionKind::Aead { number, .. } => {
                crypto.open_session((number, &key), (0, &[]))?
            }
        };
        let info = kernel_session.info()?;
        let name = if matches!(kind, SessionKind::Hash { .. }) { info.hash_driver } else { info.cipher_driver };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let driver = String::from_utf8_lossy(name).into_owned();
        let quirk = QUIRKS.iter().find(|(prefix, _)| driver.starts_with(prefix));
        Ok(Self {
            algorithm,
            is_engine: info.flags & SIOP_FLAG_KERNEL_DRIVER_ONLY != 0,
            max_bytes: quirk.map_or(MAX_BYTES, |(_, bytes)| *bytes),
            alignment: usize::from(info.align_mask) + 1,
            driver,
        })
    }

    fn capability(&self, class: Class) -> Capability {
        let info = self.algorithm.info();
        let streams = match info.kind {
            Kind::Digest | Kind::Mac => true,
            // Streams of other ciphers would have to continue within a block, but the kernel begins a new block with each request.
            Kind::Cipher => info.block > 1,
            _ => false,
        };
        Capability {
            max_bytes: self.max_bytes,
            // Engines may fail during an operation, after the input has been overwritten. So may a Gantry server behind `/dev/crypto`, with
            // drivers named `gantry-...`. AEADs use a buffer of the session.
            in_place: class == Class::Kernel && !self.driver.starts_with("gantry-") || info.kind == Kind::Aead,
            streaming: streams,
            // Measurements decide whether the device pays; the batch size makes no difference.
            break_even: usize::MAX,
            ..Capability::new(self.algorithm)
        }
    }
}

struct DevcryptoDevice {
    info: DeviceInfo,
    crypto: CryptoFile,
}

impl DevcryptoDevice {
    fn new(name: &str, class: Class, crypto: &CryptoFile, algorithm_drivers: &[AlgorithmDriver]) -> Self {
        let mut drivers: Vec<&str> = algorithm_drivers.iter().map(|one| one.driver.as_str()).collect();
        drivers.dedup();
        let alignment = algorithm_drivers.iter().map(|one| one.alignment).max().unwrap_or(1);
        let (first, more) = (drivers.first().copied().unwrap_or_default(), drivers.len().saturating_sub(1));
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        let copies =
            if alignment > 1 { format!("; data aligned to {alignment} bytes is not copied") } else { String::new() };
        let info = DeviceInfo {
            description: format!("/dev/crypto: {first}{others}{copies}"),
            version: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            capabilities: algorithm_drivers.iter().map(|one| one.capability(class)).collect(),
            ..DeviceInfo::new(name, class)
        };
        Self { info, crypto: crypto.clone() }
    }
}

impl Device for DevcryptoDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(session::open(&self.crypto, params)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtio_engine_gets_at_most_30_pages() {
        let algorithm_driver = |driver: &str| AlgorithmDriver {
            algorithm: Algorithm::Aes128Cbc,
            driver: driver.to_owned(),
            is_engine: true,
            max_bytes: QUIRKS.iter().find(|(prefix, _)| driver.starts_with(prefix)).map_or(MAX_BYTES, |quirk| quirk.1),
            alignment: 16,
        };
        // A buffer that does not begin at a page boundary touches one page more.
        let virtio = algorithm_driver("virtio_crypto_aes_cbc").capability(Class::Hardware);
        assert!(virtio.max_bytes.div_ceil(4096) < 30);
        assert!(!virtio.in_place, "it may fail after overwriting the input");
        assert!(algorithm_driver("cbc-aes-aesni").capability(Class::Kernel).max_bytes > virtio.max_bytes);
    }
}
