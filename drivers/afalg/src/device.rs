//! Devices, found by trying.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;

use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Refusal, Unsupported};
use gantry_core::{Algorithm, Kind, SessionParams};

use crate::catalogue::{Catalogue, Engine};
use crate::fault::words;
use crate::session;
use crate::sys::{Transform, page_size};

/// An engine that cannot take what fits into a socket: the beginning of its drivers' names, and the most pages that
/// buffers of one operation may touch.
///
/// Virtio's driver describes n pages by n(n+1)/2 descriptors of its ring, and at 32 pages they are more than there are:
/// the operation, and everything after it, then waits for good (Linux 6.1 and 6.12).
const QUIRKS: &[(&str, usize)] = &[("virtio_crypto", 30)];

/// A hash takes any length, and `sendmsg` less than 2 GiB.
const HASH_MAX: usize = 1 << 30;

/// What an AEAD leaves of a socket for associated data.
const ASSOCIATED_MAX: usize = 32 << 10;

/// Name, class, and why not.
type Excluded = (String, Class, String);

/// What the kernel says when it does not have an algorithm, when its test took too long, or failed (`crypto_larval_wait` in Linux's
/// crypto/api.c). Anything else is about AF_ALG as a whole.
const OF_ONE_ALGORITHM: [i32; 3] = [libc::ENOENT, libc::ETIMEDOUT, libc::ELIBBAD];

/// Every engine that can be reached, and those that cannot; or why none can.
pub(crate) fn discover(unlimited: bool) -> Result<Vec<Result<AfalgDevice, Excluded>>, String> {
    let mut names: Vec<(&str, &str)> = Algorithm::ALL.iter().filter_map(|algorithm| kernel_name(*algorithm)).collect();
    names.dedup();
    // Being asked, the kernel loads modules and makes templates; afterwards its list has them.
    let mut first = None;
    let mut reached = Vec::new();
    for (kind, name) in names {
        match Transform::bind(kind, name) {
            Ok(_) => reached.push(name),
            Err(error) if error.raw_os_error().is_some_and(|code| OF_ONE_ALGORITHM.contains(&code)) => {
                first.get_or_insert(error);
            }
            Err(error) => return Err(why_not(&error)),
        }
    }
    let catalogue = Catalogue::read().map_err(|error| format!("/proc/crypto: {}", words(&error)))?;

    let mut engines: BTreeMap<String, Vec<Offer>> = BTreeMap::new();
    let mut excluded: BTreeMap<String, String> = BTreeMap::new();
    let mut cpu = Vec::new();
    for &algorithm in Algorithm::ALL {
        let Some((kind, name)) = kernel_name(algorithm) else { continue };
        let candidates = catalogue.candidates(kind, name);
        for entry in &candidates {
            let Engine::Module(module) = catalogue.engine(entry) else { continue };
            match Offer::new(algorithm, kind, &entry.driver, unlimited) {
                Ok(offer) => engines.entry(module).or_default().push(offer),
                Err(error) => {
                    excluded.insert(module, format!("{}: {}", entry.driver, why_not(&error)));
                }
            }
        }
        if reached.contains(&name) {
            let best = candidates.iter().find(|entry| catalogue.engine(entry) == Engine::Cpu);
            let driver = best.map(|entry| entry.driver.clone()).or_else(|| catalogue.composed(name));
            cpu.extend(driver.and_then(|driver| Offer::new(algorithm, kind, &driver, unlimited).ok()));
        }
    }
    if cpu.is_empty() && engines.is_empty() && excluded.is_empty() {
        let error = first.unwrap_or_else(|| io::ErrorKind::NotFound.into());
        return Err(why_not(&error));
    }
    let mut found: Vec<Result<AfalgDevice, Excluded>> = Vec::new();
    for (module, offers) in engines {
        let drivers = distinct(&offers);
        let description = format!("the kernel's {drivers}, off the CPU");
        excluded.remove(&module);
        found.push(Ok(AfalgDevice::new(format!("afalg:{module}"), Class::Hardware, description, offers)));
    }
    let gone = |(module, why)| Err((format!("afalg:{module}"), Class::Hardware, why));
    found.extend(excluded.into_iter().map(gone));
    if !cpu.is_empty() {
        let description = "the kernel's own code on this CPU".to_owned();
        found.push(Ok(AfalgDevice::new("afalg:cpu".to_owned(), Class::Kernel, description, cpu)));
    }
    Ok(found)
}

/// Type and name of an algorithm in the kernel, where AF_ALG has it in a form that is ours.
pub(crate) fn kernel_name(algorithm: Algorithm) -> Option<(&'static str, &'static str)> {
    let info = algorithm.info();
    // The kernel's Poly1305 takes its key from the message, and the NULL cipher is no engine's.
    if info.kernel.is_empty() || matches!(algorithm, Algorithm::Poly1305 | Algorithm::Null) {
        return None;
    }
    Some(match info.kind {
        Kind::Digest | Kind::Mac => ("hash", info.kernel),
        Kind::Cipher => ("skcipher", info.kernel),
        Kind::Aead => ("aead", info.kernel),
        _ => return None,
    })
}

/// What the system said, and what an operator can conclude.
pub(crate) fn why_not(error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            "this kernel has no AF_ALG, may not load its module af_alg, or has it turned off (crypto.af_alg_restrict)"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "this program may not open sockets of AF_ALG: a seccomp filter, a container, SELinux or AppArmor forbids it"
        }
        Some(libc::ENOSYS) => "a seccomp filter takes sockets away from this program",
        Some(libc::EMFILE | libc::ENFILE) => "no descriptors are left",
        Some(libc::ENOENT) => {
            "the kernel does not offer it to programs: its modules (algif_hash, algif_skcipher, algif_aead) are missing or \
             blocked, or its list of allowed algorithms is without it (crypto.af_alg_restrict)"
        }
        _ => "AF_ALG does not work",
    };
    format!("{why} ({})", words(error))
}

fn distinct(offers: &[Offer]) -> String {
    let mut drivers: Vec<&str> = offers.iter().map(|offer| offer.driver.as_str()).collect();
    drivers.dedup();
    match drivers[..] {
        [first, ref rest @ ..] if rest.len() > 2 => format!("{first} and {} more", rest.len()),
        _ => drivers.join(", "),
    }
}

/// A driver of the kernel for one of our algorithms.
struct Offer {
    algorithm: Algorithm,
    kind: &'static str,
    driver: String,
    /// Bytes of a request in all.
    limit: usize,
}

impl Offer {
    fn new(algorithm: Algorithm, kind: &'static str, driver: &str, unlimited: bool) -> io::Result<Self> {
        let transform = Transform::bind(kind, driver)?;
        let limit = if kind == "hash" {
            HASH_MAX
        } else {
            let capacity = transform.accept()?.capacity()?;
            let quirk = QUIRKS.iter().find(|(prefix, _)| driver.starts_with(prefix) && !unlimited);
            // A buffer that begins within a page touches one more.
            quirk.map_or(capacity, |(_, pages)| capacity.min((pages - 1) * page_size()))
        };
        Ok(Self { algorithm, kind, driver: driver.to_owned(), limit })
    }

    fn capability(&self) -> Capability {
        Capability {
            max_bytes: match self.algorithm.kind() {
                Kind::Aead => self.limit.saturating_sub(ASSOCIATED_MAX),
                _ => self.limit,
            },
            streaming: self.kind == "hash",
            // Whether it pays is to be measured; company changes nothing about it.
            break_even: usize::MAX,
            ..Capability::new(self.algorithm)
        }
    }
}

pub(crate) struct AfalgDevice {
    info: DeviceInfo,
    offers: Vec<Offer>,
}

impl AfalgDevice {
    fn new(name: String, class: Class, description: String, mut offers: Vec<Offer>) -> Self {
        // Of several drivers of one engine the kernel's first choice.
        let mut seen = Vec::new();
        offers.retain(|offer| {
            !seen.contains(&offer.algorithm) && {
                seen.push(offer.algorithm);
                true
            }
        });
        let capabilities = offers.iter().map(Offer::capability).collect();
        let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let info = DeviceInfo { description, version, capabilities, ..DeviceInfo::new(name, class) };
        Self { info, offers }
    }
}

impl Device for AfalgDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let offer = self.offers.iter().find(|offer| offer.algorithm == params.algorithm());
        let Offer { kind, driver, limit, .. } = offer.ok_or(Unsupported::because("the device does not offer it"))?;
        Ok(Arc::new(session::open(params, kind, driver, *limit, self.info.class == Class::Hardware)?))
    }
}
