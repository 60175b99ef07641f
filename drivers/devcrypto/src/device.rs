use std::io;
use std::sync::Arc;

use gantry_abi_cryptodev::{CIPHERS, HASHES, SIOP_FLAG_KERNEL_DRIVER_ONLY};
use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Found, Refusal};
use gantry_core::{Algorithm, Kind, SessionParams};

use crate::session::{self, words};
use crate::sys::Crypto;

/// More pages need tables that the module may not get; it then copies.
const MAX_BYTES: usize = 16 << 20;
/// Drivers that cannot take that much: the beginning of their names, and the bytes of 29 pages, which touch 30. (A virtio
/// engine describes n pages by n(n+1)/2 descriptors of its ring, and stops for good at 32: Linux 6.1 and 6.12.)
const QUIRKS: &[(&str, usize)] = &[("virtio_crypto", 29 * 4096)];

/// How an algorithm is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Hash { number: u32 },
    Cipher { number: u32 },
    Aead { number: u32, ccm: bool },
}

pub(crate) fn way(algorithm: Algorithm) -> Option<Way> {
    if let Some(row) = HASHES.iter().find(|row| row.algorithm == algorithm) {
        return Some(Way::Hash { number: row.number });
    }
    // The NULL cipher is no engine's. XTS is wrong where data is copied, and takes whole blocks only.
    if matches!(algorithm, Algorithm::Null | Algorithm::Aes128Xts | Algorithm::Aes256Xts) {
        return None;
    }
    let row = CIPHERS.iter().find(|row| row.algorithms.contains(&algorithm))?;
    let number = row.number;
    Some(if row.is_aead() { Way::Aead { number, ccm: row.name.starts_with("ccm") } } else { Way::Cipher { number } })
}

/// Every algorithm that can be had, by trying; or why there is none.
pub(crate) fn discover() -> Result<Vec<Found>, String> {
    let crypto = Crypto::open().map_err(|error| why_not(&error))?;
    let mut offers: [Vec<Offer>; 2] = [Vec::new(), Vec::new()];
    for &algorithm in Algorithm::ALL {
        let Some(way) = way(algorithm) else { continue };
        match Offer::new(&crypto, algorithm, way) {
            Ok(offer) => offers[usize::from(offer.engine)].push(offer),
            // The kernel has no driver for it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(why_not(&error)),
        }
    }
    let [cpu, engine] = offers;
    let found: Vec<Found> = [("devcrypto:engine", Class::Hardware, engine), ("devcrypto:cpu", Class::Kernel, cpu)]
        .into_iter()
        .filter(|(_, _, offers)| !offers.is_empty())
        .map(|(name, class, offers)| Found::Device(Arc::new(DevcryptoDevice::new(name, class, &crypto, &offers)) as _))
        .collect();
    if found.is_empty() { Err("/dev/crypto has none of our algorithms".to_owned()) } else { Ok(found) }
}

fn why_not(error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOENT) => "there is no /dev/crypto: the module cryptodev is not loaded",
        Some(libc::EACCES | libc::EPERM) => "this user may not open /dev/crypto",
        Some(libc::ENOTTY) => "what is at /dev/crypto is no cryptodev",
        Some(libc::ENODEV | libc::ENXIO | libc::ENOTCONN | libc::ECONNABORTED) => "nobody serves /dev/crypto any more",
        Some(libc::ENOMEM) => "/dev/crypto gives this user no more sessions",
        _ => "/dev/crypto does not work",
    };
    format!("{why} ({})", words(error))
}

/// An algorithm, as the kernel has it.
struct Offer {
    algorithm: Algorithm,
    driver: String,
    engine: bool,
    max_bytes: usize,
    /// What misses these bits of an address is copied there.
    aligned: usize,
}

impl Offer {
    fn new(crypto: &Crypto, algorithm: Algorithm, way: Way) -> io::Result<Self> {
        // Parts of a triple-DES key must differ.
        let key: Vec<u8> = (1..=64).take(algorithm.info().key.min).collect();
        let mac = algorithm.kind() == Kind::Mac;
        let handle = match way {
            Way::Hash { number } => crypto.session((0, &[]), (number, if mac { b"a key" } else { b"" }))?,
            Way::Cipher { number } | Way::Aead { number, .. } => crypto.session((number, &key), (0, &[]))?,
        };
        let info = handle.info()?;
        let name = if matches!(way, Way::Hash { .. }) { info.hash_driver } else { info.cipher_driver };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let driver = String::from_utf8_lossy(name).into_owned();
        let quirk = QUIRKS.iter().find(|(prefix, _)| driver.starts_with(prefix));
        Ok(Self {
            algorithm,
            engine: info.flags & SIOP_FLAG_KERNEL_DRIVER_ONLY != 0,
            max_bytes: quirk.map_or(MAX_BYTES, |(_, bytes)| *bytes),
            aligned: usize::from(info.align_mask) + 1,
            driver,
        })
    }

    fn capability(&self, class: Class) -> Capability {
        let info = self.algorithm.info();
        let streams = match info.kind {
            Kind::Digest | Kind::Mac => true,
            // Others would have to go on in the middle of a block, and the kernel begins a new one with each request.
            Kind::Cipher => info.block > 1,
            _ => false,
        };
        Capability {
            max_bytes: self.max_bytes,
            // Who works elsewhere may fail in the middle, when the input is overwritten already: engines, and servers.
            in_place: class == Class::Kernel && !self.driver.starts_with("gantry-") || info.kind == Kind::Aead,
            streaming: streams,
            // Whether it pays is to be measured; company changes nothing about it.
            break_even: usize::MAX,
            ..Capability::new(self.algorithm)
        }
    }
}

struct DevcryptoDevice {
    info: DeviceInfo,
    crypto: Crypto,
}

impl DevcryptoDevice {
    fn new(name: &str, class: Class, crypto: &Crypto, offers: &[Offer]) -> Self {
        let mut drivers: Vec<&str> = offers.iter().map(|offer| offer.driver.as_str()).collect();
        drivers.dedup();
        let aligned = offers.iter().map(|offer| offer.aligned).max().unwrap_or(1);
        let (first, more) = (drivers.first().copied().unwrap_or_default(), drivers.len().saturating_sub(1));
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        let copies =
            if aligned > 1 { format!("; data at multiples of {aligned} bytes is not copied") } else { String::new() };
        let info = DeviceInfo {
            description: format!("/dev/crypto: {first}{others}{copies}"),
            version: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            capabilities: offers.iter().map(|offer| offer.capability(class)).collect(),
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
    fn algorithms_are_asked_for_by_the_numbers_of_the_interface() {
        assert_eq!(way(Algorithm::Aes192Cbc), Some(Way::Cipher { number: 11 }));
        assert_eq!(way(Algorithm::HmacSha1), Some(Way::Hash { number: 7 }));
        assert_eq!(way(Algorithm::Aes256Gcm), Some(Way::Aead { number: 50, ccm: false }));
        assert_eq!(way(Algorithm::Aes128Ccm), Some(Way::Aead { number: 51, ccm: true }));
        for none in [Algorithm::Null, Algorithm::Aes256Xts, Algorithm::Sha3_256, Algorithm::ChaCha20] {
            assert_eq!(way(none), None, "{none}");
        }
    }

    #[test]
    fn an_engine_that_stops_at_32_pages_is_never_sent_more_than_30() {
        let offer = |driver: &str| Offer {
            algorithm: Algorithm::Aes128Cbc,
            driver: driver.to_owned(),
            engine: true,
            max_bytes: QUIRKS.iter().find(|(prefix, _)| driver.starts_with(prefix)).map_or(MAX_BYTES, |quirk| quirk.1),
            aligned: 16,
        };
        // A buffer that begins within a page touches one more.
        let virtio = offer("virtio_crypto_aes_cbc").capability(Class::Hardware);
        assert!(virtio.max_bytes.div_ceil(4096) < 30);
        assert!(!virtio.in_place, "it may fail when the input is overwritten already");
        assert!(offer("cbc-aes-aesni").capability(Class::Kernel).max_bytes > virtio.max_bytes);
    }
}
