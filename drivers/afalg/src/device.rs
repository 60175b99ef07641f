//! Finds devices, by trying each algorithm.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;

use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Refusal, Unsupported};
use gantry_core::{Algorithm, Kind, SessionParams};

use crate::catalogue::{Catalogue, Engine};
use crate::fault::system_message;
use crate::session;
use crate::sys::{Transform, page_size};

/// Engines that take less data than fits into a socket: the prefix of their drivers' names, and the maximum number of pages that the
/// buffers of one operation may touch.
///
/// Virtio's driver describes n pages by n(n+1)/2 descriptors of its ring. An operation of 32 pages needs more descriptors than the ring
/// has. This operation and all later ones wait forever (Linux 6.1 and 6.12).
const QUIRKS: &[(&str, usize)] = &[("virtio_crypto", 30)];

/// Maximum bytes of a message to hash in one request, because one `sendmsg` takes less than 2 GiB.
const MAX_HASH_BYTES: usize = 1 << 30;

/// Bytes of a socket's buffer that are reserved for the associated data of an AEAD.
const RESERVED_AAD_BYTES: usize = 32 << 10;

/// The name and the class of an excluded device, and the reason.
type Exclusion = (String, Class, String);

/// Errors about a single algorithm: it is missing, its test timed out, or its test failed (crypto/api.c in Linux).
/// Other errors are about AF_ALG as a whole.
const SINGLE_ALGORITHM_ERRORS: [i32; 3] = [libc::ENOENT, libc::ETIMEDOUT, libc::ELIBBAD];

/// Returns the devices and the excluded devices, or the reason why AF_ALG has none.
pub(crate) fn discover(ignore_quirks: bool) -> Result<Vec<Result<AfalgDevice, Exclusion>>, String> {
    let mut names: Vec<(&str, &str)> = Algorithm::ALL.iter().filter_map(|algorithm| kernel_name(*algorithm)).collect();
    names.dedup();
    // Binding makes the kernel load modules and make templates, so it comes before the kernel's list is read.
    let mut first_error = None;
    let mut available = Vec::new();
    for (kind, name) in names {
        match Transform::bind(kind, name) {
            Ok(_) => available.push(name),
            Err(error) if error.raw_os_error().is_some_and(|code| SINGLE_ALGORITHM_ERRORS.contains(&code)) => {
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(explain(&error)),
        }
    }
    let catalogue = Catalogue::read().map_err(|error| format!("/proc/crypto: {}", system_message(&error)))?;

    let mut engines: BTreeMap<String, Vec<AlgorithmDriver>> = BTreeMap::new();
    let mut excluded: BTreeMap<String, String> = BTreeMap::new();
    let mut cpu = Vec::new();
    for &algorithm in Algorithm::ALL {
        let Some((kind, name)) = kernel_name(algorithm) else { continue };
        let candidates = catalogue.candidates(kind, name);
        for entry in &candidates {
            let Engine::Module(module) = catalogue.engine(entry) else { continue };
            match AlgorithmDriver::new(algorithm, kind, &entry.driver, ignore_quirks) {
                Ok(algorithm_driver) => engines.entry(module).or_default().push(algorithm_driver),
                Err(error) => {
                    excluded.insert(module, format!("{}: {}", entry.driver, explain(&error)));
                }
            }
        }
        if available.contains(&name) {
            let best = candidates.iter().find(|entry| catalogue.engine(entry) == Engine::Cpu);
            let driver = best.map(|entry| entry.driver.clone()).or_else(|| catalogue.compose_on_cpu(name));
            cpu.extend(driver.and_then(|driver| AlgorithmDriver::new(algorithm, kind, &driver, ignore_quirks).ok()));
        }
    }
    if cpu.is_empty() && engines.is_empty() && excluded.is_empty() {
        let error = first_error.unwrap_or_else(|| io::ErrorKind::NotFound.into());
        return Err(explain(&error));
    }
    let mut found: Vec<Result<AfalgDevice, Exclusion>> = Vec::new();
    for (module, algorithm_drivers) in engines {
        let drivers = describe_drivers(&algorithm_drivers);
        let description = format!("the kernel's {drivers}, off the CPU");
        excluded.remove(&module);
        found.push(Ok(AfalgDevice::new(format!("afalg:{module}"), Class::Hardware, description, algorithm_drivers)));
    }
    let exclude = |(module, reason)| Err((format!("afalg:{module}"), Class::Hardware, reason));
    found.extend(excluded.into_iter().map(exclude));
    if !cpu.is_empty() {
        let description = "the kernel's own code on this CPU".to_owned();
        found.push(Ok(AfalgDevice::new("afalg:cpu".to_owned(), Class::Kernel, description, cpu)));
    }
    Ok(found)
}

/// Returns the kernel's type and name of an algorithm; `None` if AF_ALG does not have it in the same form.
pub(crate) fn kernel_name(algorithm: Algorithm) -> Option<(&'static str, &'static str)> {
    let info = algorithm.info();
    // The kernel's Poly1305 takes its key from the message, and no engine has the NULL cipher.
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

/// Returns the system's message, and its meaning for an operator.
pub(crate) fn explain(error: &io::Error) -> String {
    let reason = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            "this kernel has no AF_ALG: its module af_alg is missing or blocked, or crypto.af_alg_restrict disables it"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "this program may not open sockets of AF_ALG: a seccomp filter, a container, SELinux or AppArmor forbids it"
        }
        Some(libc::ENOSYS) => "a seccomp filter forbids sockets for this program",
        Some(libc::EMFILE | libc::ENFILE) => "no file descriptors are free",
        Some(libc::ENOENT) => {
            "the kernel does not offer it to programs: its modules (algif_hash, algif_skcipher, algif_aead) are missing or \
             blocked, or crypto.af_alg_restrict does not allow it"
        }
        _ => "AF_ALG does not work",
    };
    format!("{reason} ({})", system_message(error))
}

fn describe_drivers(algorithm_drivers: &[AlgorithmDriver]) -> String {
    let mut drivers: Vec<&str> = algorithm_drivers.iter().map(|one| one.driver.as_str()).collect();
    drivers.dedup();
    match drivers[..] {
        [first, ref rest @ ..] if rest.len() > 2 => format!("{first} and {} more", rest.len()),
        _ => drivers.join(", "),
    }
}

/// A driver of the kernel for one algorithm of Gantry.
struct AlgorithmDriver {
    algorithm: Algorithm,
    kind: &'static str,
    driver: String,
    /// Maximum bytes of a request, with associated data and tag.
    max_bytes: usize,
}

impl AlgorithmDriver {
    fn new(algorithm: Algorithm, kind: &'static str, driver: &str, ignore_quirks: bool) -> io::Result<Self> {
        let transform = Transform::bind(kind, driver)?;
        let max_bytes = if kind == "hash" {
            MAX_HASH_BYTES
        } else {
            let capacity = transform.accept()?.capacity()?;
            let quirk = QUIRKS.iter().find(|(prefix, _)| driver.starts_with(prefix) && !ignore_quirks);
            // A buffer that does not begin at a page boundary touches one page more.
            quirk.map_or(capacity, |(_, pages)| capacity.min((pages - 1) * page_size()))
        };
        Ok(Self { algorithm, kind, driver: driver.to_owned(), max_bytes })
    }

    fn capability(&self) -> Capability {
        Capability {
            max_bytes: match self.algorithm.kind() {
                Kind::Aead => self.max_bytes.saturating_sub(RESERVED_AAD_BYTES),
                _ => self.max_bytes,
            },
            streaming: self.kind == "hash",
            // Measurements decide whether the device pays; the batch size makes no difference.
            break_even: usize::MAX,
            ..Capability::new(self.algorithm)
        }
    }
}

pub(crate) struct AfalgDevice {
    info: DeviceInfo,
    algorithm_drivers: Vec<AlgorithmDriver>,
}

impl AfalgDevice {
    fn new(name: String, class: Class, description: String, mut algorithm_drivers: Vec<AlgorithmDriver>) -> Self {
        // If an engine has several drivers for an algorithm, the kernel's first choice is kept.
        let mut algorithms = Vec::new();
        algorithm_drivers.retain(|one| {
            !algorithms.contains(&one.algorithm) && {
                algorithms.push(one.algorithm);
                true
            }
        });
        let capabilities = algorithm_drivers.iter().map(AlgorithmDriver::capability).collect();
        let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        // A kernel in FIPS mode offers approved algorithms only, and stops if its tests fail (crypto/testmgr.c).
        let validated = fs::read_to_string("/proc/sys/crypto/fips_enabled").is_ok_and(|mode| mode.trim() == "1");
        let info = DeviceInfo { description, version, validated, capabilities, ..DeviceInfo::new(name, class) };
        Self { info, algorithm_drivers }
    }
}

impl Device for AfalgDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let algorithm_driver = self.algorithm_drivers.iter().find(|one| one.algorithm == params.algorithm());
        let AlgorithmDriver { kind, driver, max_bytes, .. } =
            algorithm_driver.ok_or(Unsupported::because("the device does not offer it"))?;
        Ok(Arc::new(session::open(params, kind, driver, *max_bytes, self.info.class == Class::Hardware)?))
    }
}
