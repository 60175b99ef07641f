//! The shim (`shim/gantry_dpdk.h`), and all `unsafe` of this crate.
//!
//! The raw pointers are sound by these rules:
//!
//! 1. *The library stays.* It is never unloaded, so its function table and all its objects are `'static`.
//! 2. *A slot has one owner.* [`Slot`] cannot be copied. Its owner may use its memory; [`Pair::enqueue`] takes it, and only
//!    [`Pair::dequeue`] gives it back, when the device is done with it.
//! 3. *A session outlives its requests.* The queue keeps the [`Job`](gantry_core::driver::Job) of every slot in the device, which keeps
//!    the session. If it must drop the job earlier, it reports that to the engine
//!    ([`Engine::abandon`](crate::engine::Engine::abandon)), which frees no session until those slots have returned.
//! 4. *A child does nothing.* After `fork` the memory is shared with the parent. Every public path checks [`is_forked_child`] first.
//! 5. *Lent memory stays.* A request may point to regions of a caller, which are not Rust references ([`Pair::lend`]). The pair has clones
//!    of them until the device returns the request, even if the request's job has ended.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;

/// Detection of forked processes.
mod fork;
mod pair;

#[cfg(test)]
pub(crate) use fork::in_child;
pub(crate) use fork::{is_forked_child, record_process};
use pair::Completion;
pub(crate) use pair::{Layout, LentMemory, Pair, QueueError, Request, Slot, SlotMemory, Status};

const SHIM_ABI: u32 = 3;

/// Offset of the data in a slot, in bytes. Authenticated bytes in front of the data end here.
pub(crate) const DATA_OFFSET: usize = 1152;
/// Maximum number of bytes of data in a slot.
pub(crate) const MAX_DATA_BYTES: usize = 16384;
/// Bytes of the longest tag, which follows the data.
pub(crate) const MAX_TAG_BYTES: usize = 64;
const BUFFER_BYTES: usize = DATA_OFFSET + MAX_DATA_BYTES + 128;
pub(crate) const IV_BYTES: usize = 16;

/// The lengths that a device supports, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LengthRange {
    pub(crate) min: u16,
    pub(crate) max: u16,
    pub(crate) step: u16,
    spare: u16,
}

impl LengthRange {
    pub(crate) fn allows(self, bytes: usize) -> bool {
        let LengthRange { min, max, step, .. } = self;
        let (min, max) = (usize::from(min), usize::from(max));
        bytes == min || bytes > min && bytes <= max && step > 0 && (bytes - min).is_multiple_of(usize::from(step))
    }
}

/// A device's support for one algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CapabilityRecord {
    pub(crate) kind: u32,
    pub(crate) algorithm: u32,
    pub(crate) key: LengthRange,
    pub(crate) tag: LengthRange,
    pub(crate) aad: LengthRange,
    pub(crate) iv: LengthRange,
}

#[repr(C)]
struct DeviceRecord {
    id: u8,
    name: [c_char; 64],
    driver: [c_char; 64],
    features: u32,
    most_queues: u32,
    most_sessions: u32,
    rsa: LengthRange,
}

/// An RSA key for a DPDK session. Numbers are big-endian.
pub(crate) struct RsaKey<'a> {
    pub(crate) modulus: &'a [u8],
    /// The public exponent.
    pub(crate) exponent: &'a [u8],
    /// The numbers for the Chinese remainder theorem (CRT), in the order of [`gantry_core::rsa`]: p, q, d mod p - 1, d mod q - 1, and the
    /// inverse of q mod p. Each is half as long as the modulus. `None`: a public key.
    pub(crate) crt_numbers: Option<&'a [u8]>,
}

/// The parameters of a DPDK session; `shim/gantry_dpdk.h` lists the fields of each kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct SessionConfig<'a> {
    pub(crate) kind: u32,
    pub(crate) cipher: u32,
    pub(crate) auth: u32,
    pub(crate) aead: u32,
    pub(crate) decrypt: bool,
    pub(crate) iv_len: usize,
    pub(crate) aad_len: usize,
    pub(crate) tag_len: usize,
    pub(crate) key: &'a [u8],
    pub(crate) auth_key: &'a [u8],
}

#[repr(C)]
struct SessionRecord {
    kind: u32,
    cipher: u32,
    auth: u32,
    aead: u32,
    decrypt: u32,
    iv_length: u32,
    aad_length: u32,
    tag_length: u32,
    key: *const u8,
    auth_key: *const u8,
    key_length: u32,
    auth_key_length: u32,
}

#[repr(C)]
struct RsaRecord {
    modulus: *const u8,
    exponent: *const u8,
    primes: *const u8,
    modulus_length: u32,
    exponent_length: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct SlotAddresses {
    data: *mut u8,
    iv: *mut u8,
}

#[repr(C)]
struct ShimFunctions {
    abi: u32,
    dpdk_abi: u32,
    version: unsafe extern "C" fn() -> *const c_char,
    start: unsafe extern "C" fn(c_int, *const *mut c_char) -> c_int,
    last_log: unsafe extern "C" fn(*mut c_char, u32),
    plug: unsafe extern "C" fn(*const c_char, *const c_char, *const c_char) -> c_int,
    find: unsafe extern "C" fn(*const c_char, u32, *mut DeviceRecord) -> c_int,
    capabilities: unsafe extern "C" fn(u8, *mut CapabilityRecord, u32) -> u32,
    configure: unsafe extern "C" fn(u8, u32, u32, u32) -> c_int,
    run: unsafe extern "C" fn(u8) -> c_int,
    stop: unsafe extern "C" fn(u8),
    session_new: unsafe extern "C" fn(u8, *const SessionRecord) -> *mut c_void,
    session_free: unsafe extern "C" fn(u8, *mut c_void),
    rsa_new: unsafe extern "C" fn(u8, *const RsaRecord) -> *mut c_void,
    rsa_free: unsafe extern "C" fn(u8, *mut c_void),
    queue_new: unsafe extern "C" fn(u8, u32, u32, *mut SlotAddresses) -> *mut c_void,
    enqueue: unsafe extern "C" fn(*mut c_void, *const Request, u32) -> c_int,
    dequeue: unsafe extern "C" fn(*mut c_void, *mut Completion, u32) -> c_int,
    redirect: unsafe extern "C" fn(*mut c_void, u32),
}

/// The loaded shim.
#[derive(Clone, Copy)]
pub(crate) struct Shim(&'static ShimFunctions);

impl Shim {
    /// Loads the shim and the libraries of DPDK. Errors come from the dynamic linker, or report a path that another user could
    /// change.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        use std::os::unix::ffi::OsStrExt;
        let path = &gantry_rights::resolve_trusted(path).map_err(|error| {
            let error = error.to_string();
            format!("{}: {}", path.display(), error.split(" (os error").next().unwrap_or_default())
        })?;
        let text = CString::new(path.as_os_str().as_bytes()).map_err(|_| "the path contains a zero byte".to_owned())?;
        // SAFETY: `text` is a C string. The libraries' initialisers run, as with any linked library.
        let library = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: after a failure it is a C string, valid until the next call of dl* in this thread.
            let reason = unsafe { libc::dlerror().as_ref().map(|reason| CStr::from_ptr(reason)) };
            return Err(reason.unwrap_or_default().to_string_lossy().into_owned());
        }
        // SAFETY: `library` is a handle from dlopen, and the name is a C string.
        let entry = unsafe { libc::dlsym(library, c"gantry_dpdk".as_ptr()) };
        if entry.is_null() {
            return Err(format!("{} is not Gantry's DPDK shim", path.display()));
        }
        // SAFETY: the symbol of this name is a function of this type in every version of the shim.
        let entry =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const ShimFunctions>(entry) };
        // SAFETY: the function takes no arguments and returns a table that begins with its version, in every version.
        let (interface, version) = unsafe {
            let interface = entry();
            (interface, (&raw const (*interface).abi).read())
        };
        if version != SHIM_ABI {
            return Err(format!(
                "{} has version {version} of the shim's interface, and this Gantry needs {SHIM_ABI}: rebuild it with scripts/dpdk",
                path.display()
            ));
        }
        // SAFETY: a table of this version has this type, and is static (rule 1).
        Ok(Self(unsafe { &*interface }))
    }

    /// Returns a text with DPDK's version and ABI number.
    pub(crate) fn version(self) -> String {
        // SAFETY: takes no arguments and returns a static C string (rte_version).
        let version = unsafe { CStr::from_ptr((self.0.version)()) };
        format!("{} (ABI {})", version.to_string_lossy(), self.0.dpdk_abi)
    }

    /// Returns DPDK's ABI number; 23 is the number of release 22.11.
    pub(crate) fn release(self) -> u32 {
        self.0.dpdk_abi
    }

    /// Calls `rte_eal_init`. Call it once in a process, from a temporary thread: DPDK binds the thread to the CPUs of its main lcore.
    pub(crate) fn start(self, arguments: Vec<CString>) -> Result<(), String> {
        // DPDK may keep the strings, and permutes the array.
        let mut raw: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
        let count = c_int::try_from(raw.len()).map_err(|_| "too many arguments".to_owned())?;
        raw.push(std::ptr::null_mut());
        // SAFETY: the array has `count` C strings that are never freed, followed by a null.
        let result = unsafe { (self.0.start)(count, raw.leak().as_ptr()) };
        if result == 0 { Ok(()) } else { Err(self.error_message(result)) }
    }

    /// Returns the error in DPDK's log, or else the meaning of the number.
    fn error_message(self, result: c_int) -> String {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: the buffer has the size that is passed; the function writes a C string.
        unsafe { (self.0.last_log)(text.as_mut_ptr(), text.len() as u32) };
        match string(&text) {
            message if message.is_empty() => std::io::Error::from_raw_os_error(-result).to_string(),
            message => message,
        }
    }

    /// Makes DPDK's `bus` ("vdev", "pci") bring up a device.
    pub(crate) fn plug(self, bus: &CStr, name: &str, arguments: &str) -> Result<(), String> {
        let [name, arguments] = [name, arguments].map(CString::new);
        let (Ok(name), Ok(arguments)) = (name, arguments) else {
            return Err("the device's name or arguments contain a zero byte".to_owned());
        };
        // SAFETY: the arguments are three C strings, which DPDK copies.
        let result = unsafe { (self.0.plug)(bus.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
        if result == 0 { Ok(()) } else { Err(self.error_message(result)) }
    }

    /// Finds the cryptodev of the device `name`: the symmetric one (perhaps with asymmetric operations too), or a purely
    /// asymmetric one. One engine configures and runs it.
    pub(crate) fn find(self, name: &str, asymmetric: bool) -> Option<Cryptodev> {
        let name = CString::new(name).ok()?;
        // SAFETY: the record consists of numbers, for which zero is valid.
        let mut record: DeviceRecord = unsafe { std::mem::zeroed() };
        // SAFETY: `name` is a C string, and `record` is memory of the right type.
        let result = unsafe { (self.0.find)(name.as_ptr(), asymmetric.into(), &raw mut record) };
        (result == 0).then(|| Cryptodev {
            shim: self,
            id: record.id,
            driver: string(&record.driver),
            is_hardware: record.features & 1 != 0,
            supports_chains: record.features & 2 != 0,
            can_write_out_of_place: record.features & 4 != 0,
            max_queue_pairs: record.most_queues,
            max_sessions: record.most_sessions,
            is_symmetric: !asymmetric,
            rsa: record.rsa,
        })
    }
}

fn string(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One cryptodev of DPDK.
#[allow(clippy::struct_excessive_bools, reason = "independent properties of a device")]
pub(crate) struct Cryptodev {
    shim: Shim,
    id: u8,
    /// The name of its driver, which DPDK calls a PMD.
    pub(crate) driver: String,
    pub(crate) is_hardware: bool,
    /// True if the device computes cipher and MAC in one operation.
    pub(crate) supports_chains: bool,
    /// True if the device can write to a different buffer than it reads.
    can_write_out_of_place: bool,
    pub(crate) max_queue_pairs: u32,
    /// Maximum number of sessions; 0 means no limit.
    pub(crate) max_sessions: u32,
    /// True if the device supports symmetric cryptography; it may support asymmetric cryptography as well.
    pub(crate) is_symmetric: bool,
    rsa: LengthRange,
}

impl Cryptodev {
    /// Returns whether requests may point to memory outside of DPDK. The PMD computes on the CPU, and only in calls of enqueue and dequeue.
    /// So it uses virtual addresses, and a request that it has not begun can be changed between two calls.
    pub(crate) fn supports_lending(&self) -> bool {
        self.can_write_out_of_place && ["crypto_openssl", "crypto_aesni_mb"].contains(&&*self.driver)
    }

    /// Returns whether the device computes powers with a modulus of `bytes` bytes.
    pub(crate) fn has_rsa(&self, bytes: usize) -> bool {
        let LengthRange { min, max, .. } = self.rsa;
        // A maximum of 0 means no limit.
        min > 0 && if max == 0 { bytes >= min.into() } else { self.rsa.allows(bytes) }
    }

    /// Returns the capabilities for symmetric cryptography.
    pub(crate) fn capabilities(&self) -> Vec<CapabilityRecord> {
        if !self.is_symmetric {
            return Vec::new();
        }
        let mut records = vec![CapabilityRecord::default(); 256];
        // SAFETY: `records` has as many rows of the right type as its length says; the function returns the number of written rows.
        let count = unsafe { (self.shim.0.capabilities)(self.id, records.as_mut_ptr(), records.len() as u32) };
        records.truncate(count as usize);
        records
    }

    /// Creates queue pairs and space for sessions, and starts the device.
    pub(crate) fn configure(&self, queues: u32, descriptors: u32, sessions: u32) -> Result<(), String> {
        // SAFETY: all arguments are numbers; `id` is the number of a cryptodev.
        let result = unsafe { (self.shim.0.configure)(self.id, queues, descriptors, sessions) };
        if result == 0 { Ok(()) } else { Err(self.shim.error_message(result)) }
    }

    /// Restarts a stopped device.
    #[cfg(test)]
    pub(crate) fn run(&self) -> bool {
        // SAFETY: the argument is a number; the device was configured.
        unsafe { (self.shim.0.run)(self.id) == 0 }
    }

    /// Stops the device, as an operator or another part of the process may do at any time. A stopped device takes and returns no requests.
    #[cfg(test)]
    pub(crate) fn stop(&self) {
        // SAFETY: the argument is a number; DPDK replaces the device's request functions by ones that do nothing.
        unsafe { (self.shim.0.stop)(self.id) };
    }

    /// Opens a session; `None` if the device refuses it or memory for sessions is exhausted. Calls must not overlap with each
    /// other or [`free_session`](Self::free_session).
    pub(crate) fn open_session(&self, config: &SessionConfig<'_>) -> Option<Session> {
        let SessionConfig { kind, cipher, auth, aead, decrypt, iv_len, aad_len, tag_len, key, auth_key } = *config;
        let record = SessionRecord {
            kind,
            cipher,
            auth,
            aead,
            decrypt: decrypt.into(),
            iv_length: iv_len as u32,
            aad_length: aad_len as u32,
            tag_length: tag_len as u32,
            key: key.as_ptr(),
            auth_key: auth_key.as_ptr(),
            key_length: key.len() as u32,
            auth_key_length: auth_key.len() as u32,
        };
        // SAFETY: the record has the keys with their lengths; DPDK copies the keys (rte_cryptodev_sym_session_create).
        let session = NonNull::new(unsafe { (self.shim.0.session_new)(self.id, &raw const record) });
        session.map(|pointer| Session { pointer, is_rsa: false })
    }

    /// Makes a session for a key of RSA.
    pub(crate) fn open_rsa_session(&self, key: &RsaKey<'_>) -> Option<Session> {
        let RsaKey { modulus, exponent, crt_numbers } = *key;
        assert!(
            crt_numbers.is_none_or(|numbers| numbers.len() == 5 * (modulus.len() / 2)),
            "a private key has five numbers of half the modulus's length"
        );
        let record = RsaRecord {
            modulus: modulus.as_ptr(),
            exponent: exponent.as_ptr(),
            primes: crt_numbers.map_or(std::ptr::null(), <[u8]>::as_ptr),
            modulus_length: modulus.len() as u32,
            exponent_length: exponent.len() as u32,
        };
        // SAFETY: the record has the key's numbers with their lengths; DPDK copies the numbers (rte_cryptodev_asym_session_create).
        let session = NonNull::new(unsafe { (self.shim.0.rsa_new)(self.id, &raw const record) });
        session.map(|pointer| Session { pointer, is_rsa: true })
    }

    /// Frees and wipes a session of this device that no request in the device uses any more (rule 3).
    #[allow(clippy::needless_pass_by_value, reason = "the session must not be used afterwards")]
    pub(crate) fn free_session(&self, session: Session) {
        let free = if session.is_rsa { self.shim.0.rsa_free } else { self.shim.0.session_free };
        // SAFETY: the session came from `open_rsa_session` or `open_session`, as its flag says, and is owned here.
        unsafe { free(self.id, session.pointer.as_ptr()) };
    }
}

/// A session of DPDK.
pub(crate) struct Session {
    pointer: NonNull<c_void>,
    is_rsa: bool,
}

// SAFETY: the device reads a session, and any number of threads put it into requests. Only the device changes it
// (rte_cryptodev.h: sessions are shared by queue pairs).
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::foreign_region;
