//! The shim (`shim/gantry_dpdk.h`), and all `unsafe` of this crate.
//!
//! What makes the raw pointers sound:
//!
//! 1. *The library stays.* It is never unloaded, so its function table and everything that it hands out are `'static`.
//! 2. *A slot has one owner.* [`Slot`] cannot be copied. Whoever holds it may use its memory; [`Pair::enqueue`] takes it, and only
//!    [`Pair::dequeue`] gives it back, when the device is done with it.
//! 3. *A session outlives its requests.* The queue keeps the [`Job`](gantry_core::driver::Job) of every slot in the device, which keeps
//!    the session; where it has to give up the job first, it reports that to the engine
//!    ([`Engine::abandon`](crate::engine::Engine::abandon)), which frees no session until those slots have come back.
//! 4. *A child does nothing.* After `fork` the memory is shared with the parent. Every public path asks [`forked`] first.
//! 5. *Lent memory stays.* A request may point to regions of a caller's, which are no Rust references ([`Pair::lend`]). The pair has
//!    clones of them until the device gives the request back, whatever becomes of its job.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;

/// Whether the process has forked.
mod fork;
mod pair;

#[cfg(test)]
pub(crate) use fork::in_child;
pub(crate) use fork::{forked, starts_here};
use pair::Completion;
pub(crate) use pair::{Blocked, Layout, Lent, Pair, Request, Room, Slot, Status};

const ABI: u32 = 3;

/// Where data begin in a slot. What is authenticated before them ends here.
pub(crate) const DATA: usize = 1152;
/// Most bytes of data in a slot.
pub(crate) const MOST_DATA: usize = 16384;
/// The longest tag, which lies behind the data.
pub(crate) const MOST_TAG: usize = 64;
const ROOM: usize = DATA + MOST_DATA + 128;
pub(crate) const IV: usize = 16;

/// Lengths that a device takes, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: u16,
    pub(crate) max: u16,
    pub(crate) step: u16,
    spare: u16,
}

impl Range {
    pub(crate) fn allows(self, bytes: usize) -> bool {
        let Range { min, max, step, .. } = self;
        let (min, max) = (usize::from(min), usize::from(max));
        bytes == min || bytes > min && bytes <= max && step > 0 && (bytes - min).is_multiple_of(usize::from(step))
    }
}

/// One algorithm of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) kind: u32,
    pub(crate) algorithm: u32,
    pub(crate) key: Range,
    pub(crate) tag: Range,
    pub(crate) aad: Range,
    pub(crate) iv: Range,
}

#[repr(C)]
struct DeviceRecord {
    id: u8,
    name: [c_char; 64],
    driver: [c_char; 64],
    features: u32,
    most_queues: u32,
    most_sessions: u32,
    rsa: Range,
}

/// A key of RSA, for a session of DPDK. Numbers have their high byte first.
pub(crate) struct RsaKey<'a> {
    pub(crate) modulus: &'a [u8],
    /// The public one.
    pub(crate) exponent: &'a [u8],
    /// As [`gantry_core::rsa`] has them behind the private exponent: five numbers of half the bytes of the modulus. `None`: a public key.
    pub(crate) primes: Option<&'a [u8]>,
}

/// What a session of DPDK is made from; `shim/gantry_dpdk.h` says which field counts for which kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Recipe<'a> {
    pub(crate) kind: u32,
    pub(crate) cipher: u32,
    pub(crate) auth: u32,
    pub(crate) aead: u32,
    pub(crate) decrypt: bool,
    pub(crate) iv: usize,
    pub(crate) aad: usize,
    pub(crate) tag: usize,
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
struct Memory {
    data: *mut u8,
    iv: *mut u8,
}

#[repr(C)]
struct Interface {
    abi: u32,
    dpdk_abi: u32,
    version: unsafe extern "C" fn() -> *const c_char,
    start: unsafe extern "C" fn(c_int, *const *mut c_char) -> c_int,
    last_log: unsafe extern "C" fn(*mut c_char, u32),
    plug: unsafe extern "C" fn(*const c_char, *const c_char, *const c_char) -> c_int,
    find: unsafe extern "C" fn(*const c_char, u32, *mut DeviceRecord) -> c_int,
    capabilities: unsafe extern "C" fn(u8, *mut Offer, u32) -> u32,
    configure: unsafe extern "C" fn(u8, u32, u32, u32) -> c_int,
    run: unsafe extern "C" fn(u8) -> c_int,
    stop: unsafe extern "C" fn(u8),
    session_new: unsafe extern "C" fn(u8, *const SessionRecord) -> *mut c_void,
    session_free: unsafe extern "C" fn(u8, *mut c_void),
    rsa_new: unsafe extern "C" fn(u8, *const RsaRecord) -> *mut c_void,
    rsa_free: unsafe extern "C" fn(u8, *mut c_void),
    queue_new: unsafe extern "C" fn(u8, u32, u32, *mut Memory) -> *mut c_void,
    enqueue: unsafe extern "C" fn(*mut c_void, *const Request, u32) -> c_int,
    dequeue: unsafe extern "C" fn(*mut c_void, *mut Completion, u32) -> c_int,
    redirect: unsafe extern "C" fn(*mut c_void, u32),
}

/// The shim.
#[derive(Clone, Copy)]
pub(crate) struct Shim(&'static Interface);

impl Shim {
    /// Loads it, and with it the libraries of DPDK; the error is the dynamic linker's, or about a path that another user could change.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        use std::os::unix::ffi::OsStrExt;
        let path = &gantry_rights::loadable(path).map_err(|error| {
            let error = error.to_string();
            format!("{}: {}", path.display(), error.split(" (os error").next().unwrap_or_default())
        })?;
        let text = CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path with a zero byte".to_owned())?;
        // SAFETY: a C string. Initialisers of the libraries run, as those of any library that is linked.
        let library = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: after a failure it is a C string, good until the next call of dl* in this thread.
            let why = unsafe { libc::dlerror().as_ref().map(|why| CStr::from_ptr(why)) };
            return Err(why.unwrap_or_default().to_string_lossy().into_owned());
        }
        // SAFETY: a handle that dlopen gave, and a C string.
        let entry = unsafe { libc::dlsym(library, c"gantry_dpdk".as_ptr()) };
        if entry.is_null() {
            return Err(format!("{} is no shim of Gantry's", path.display()));
        }
        // SAFETY: the symbol of this name is a function of this type in every version of the shim.
        let entry = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const Interface>(entry) };
        // SAFETY: it takes nothing, and returns a table that begins with its version, whichever that is.
        let (interface, version) = unsafe {
            let interface = entry();
            (interface, (&raw const (*interface).abi).read())
        };
        if version != ABI {
            return Err(format!(
                "{} has version {version} of the shim's interface, and this Gantry needs {ABI}: build it anew with scripts/dpdk",
                path.display()
            ));
        }
        // SAFETY: a table of this version is of this type, and static (rule 1).
        Ok(Self(unsafe { &*interface }))
    }

    /// DPDK's version and the number of its ABI, for people.
    pub(crate) fn version(self) -> String {
        // SAFETY: takes nothing, and returns a C string that is static (rte_version).
        let version = unsafe { CStr::from_ptr((self.0.version)()) };
        format!("{} (ABI {})", version.to_string_lossy(), self.0.dpdk_abi)
    }

    /// The number of DPDK's ABI: 23 is that of 22.11.
    pub(crate) fn release(self) -> u32 {
        self.0.dpdk_abi
    }

    /// `rte_eal_init`. Once in a process, from a thread that ends: it is bound to the CPUs of DPDK's main lcore.
    pub(crate) fn start(self, arguments: Vec<CString>) -> Result<(), String> {
        // DPDK may keep the strings, and permutes the array.
        let mut raw: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
        let count = c_int::try_from(raw.len()).map_err(|_| "too many arguments".to_owned())?;
        raw.push(std::ptr::null_mut());
        // SAFETY: `count` C strings that are never freed, and a null behind them.
        let result = unsafe { (self.0.start)(count, raw.leak().as_ptr()) };
        if result == 0 { Ok(()) } else { Err(self.why(result)) }
    }

    /// The error in DPDK's log, or else what the number says.
    fn why(self, result: c_int) -> String {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: memory with its size; it writes a C string.
        unsafe { (self.0.last_log)(text.as_mut_ptr(), text.len() as u32) };
        match string(&text) {
            said if said.is_empty() => std::io::Error::from_raw_os_error(-result).to_string(),
            said => said,
        }
    }

    /// Has DPDK's `bus` ("vdev", "pci") bring up a device.
    pub(crate) fn plug(self, bus: &CStr, name: &str, arguments: &str) -> Result<(), String> {
        let [name, arguments] = [name, arguments].map(CString::new);
        let (Ok(name), Ok(arguments)) = (name, arguments) else { return Err("a name with a zero byte".to_owned()) };
        // SAFETY: three C strings, which DPDK copies.
        let result = unsafe { (self.0.plug)(bus.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
        if result == 0 { Ok(()) } else { Err(self.why(result)) }
    }

    /// The cryptodev that the device `name` brought, if it did: the one for symmetric cryptography, or one for asymmetric cryptography
    /// alone. One engine configures and runs it.
    pub(crate) fn find(self, name: &str, asymmetric: bool) -> Option<Cryptodev> {
        let name = CString::new(name).ok()?;
        // SAFETY: numbers only, for all of which zero is a value.
        let mut record: DeviceRecord = unsafe { std::mem::zeroed() };
        // SAFETY: a C string and memory of the right type.
        let result = unsafe { (self.0.find)(name.as_ptr(), asymmetric.into(), &raw mut record) };
        (result == 0).then(|| Cryptodev {
            shim: self,
            id: record.id,
            driver: string(&record.driver),
            hardware: record.features & 1 != 0,
            chains: record.features & 2 != 0,
            out_of_place: record.features & 4 != 0,
            most_queues: record.most_queues,
            most_sessions: record.most_sessions,
            symmetric: !asymmetric,
            rsa: record.rsa,
        })
    }
}

fn string(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One cryptodev of DPDK.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Cryptodev {
    shim: Shim,
    id: u8,
    /// The name of its driver, which DPDK calls a PMD.
    pub(crate) driver: String,
    pub(crate) hardware: bool,
    /// Cipher and MAC in one operation.
    pub(crate) chains: bool,
    /// From one buffer into another.
    out_of_place: bool,
    pub(crate) most_queues: u32,
    /// 0: no limit.
    pub(crate) most_sessions: u32,
    /// It has symmetric cryptography, perhaps beside asymmetric.
    pub(crate) symmetric: bool,
    rsa: Range,
}

impl Cryptodev {
    /// Whether requests may point to memory that is not DPDK's. The PMD computes on the CPU, and only in calls of enqueue and
    /// dequeue; so it knows virtual addresses, and a request that it has not begun with can be changed between two calls.
    pub(crate) fn lends(&self) -> bool {
        self.out_of_place && ["crypto_openssl", "crypto_aesni_mb"].contains(&&*self.driver)
    }

    /// Whether it computes powers with a modulus of so many bytes.
    pub(crate) fn has_rsa(&self, bytes: usize) -> bool {
        let Range { min, max, .. } = self.rsa;
        // No maximum is no limit.
        min > 0 && if max == 0 { bytes >= min.into() } else { self.rsa.allows(bytes) }
    }

    /// Of symmetric cryptography.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        if !self.symmetric {
            return Vec::new();
        }
        let mut offers = vec![Offer::default(); 256];
        // SAFETY: so many rows of the right type; it returns how many it wrote.
        let count = unsafe { (self.shim.0.capabilities)(self.id, offers.as_mut_ptr(), offers.len() as u32) };
        offers.truncate(count as usize);
        offers
    }

    /// Makes queue pairs and room for sessions, and starts the device.
    pub(crate) fn configure(&self, queues: u32, descriptors: u32, sessions: u32) -> Result<(), String> {
        // SAFETY: numbers only; `id` is a cryptodev's.
        let result = unsafe { (self.shim.0.configure)(self.id, queues, descriptors, sessions) };
        if result == 0 { Ok(()) } else { Err(self.shim.why(result)) }
    }

    /// Lets a device run again that was stopped.
    #[cfg(test)]
    pub(crate) fn run(&self) -> bool {
        // SAFETY: a number; it was configured.
        unsafe { (self.shim.0.run)(self.id) == 0 }
    }

    /// What an operator or another part of the process may do at any time: no request moves any more.
    #[cfg(test)]
    pub(crate) fn stop(&self) {
        // SAFETY: a number; its functions for requests become ones that do nothing.
        unsafe { (self.shim.0.stop)(self.id) };
    }

    /// `None` where the device, or memory for sessions, refuses. Calls must not overlap with each other or [`free`](Self::free).
    pub(crate) fn session(&self, recipe: &Recipe<'_>) -> Option<Session> {
        let Recipe { kind, cipher, auth, aead, decrypt, iv, aad, tag, key, auth_key } = *recipe;
        let record = SessionRecord {
            kind,
            cipher,
            auth,
            aead,
            decrypt: decrypt.into(),
            iv_length: iv as u32,
            aad_length: aad as u32,
            tag_length: tag as u32,
            key: key.as_ptr(),
            auth_key: auth_key.as_ptr(),
            key_length: key.len() as u32,
            auth_key_length: auth_key.len() as u32,
        };
        // SAFETY: keys with their lengths, which DPDK copies (rte_cryptodev_sym_session_create).
        let session = NonNull::new(unsafe { (self.shim.0.session_new)(self.id, &raw const record) });
        session.map(|pointer| Session { pointer, rsa: false })
    }

    /// The same for a key of RSA.
    pub(crate) fn rsa_session(&self, key: &RsaKey<'_>) -> Option<Session> {
        let RsaKey { modulus, exponent, primes } = *key;
        assert!(primes.is_none_or(|primes| primes.len() == 5 * (modulus.len() / 2)), "five numbers of half the bytes");
        let record = RsaRecord {
            modulus: modulus.as_ptr(),
            exponent: exponent.as_ptr(),
            primes: primes.map_or(std::ptr::null(), <[u8]>::as_ptr),
            modulus_length: modulus.len() as u32,
            exponent_length: exponent.len() as u32,
        };
        // SAFETY: numbers with their lengths, of which DPDK makes copies (rte_cryptodev_asym_session_create).
        let session = NonNull::new(unsafe { (self.shim.0.rsa_new)(self.id, &raw const record) });
        session.map(|pointer| Session { pointer, rsa: true })
    }

    /// Frees and wipes a session of this device that no request in it uses any more (rule 3).
    #[allow(clippy::needless_pass_by_value, reason = "nobody has it afterwards")]
    pub(crate) fn free(&self, session: Session) {
        let free = if session.rsa { self.shim.0.rsa_free } else { self.shim.0.session_free };
        // SAFETY: it came from `rsa_session` or `session`, as its mark says, and this is the only one to have it.
        unsafe { free(self.id, session.pointer.as_ptr()) };
    }
}

/// A session of DPDK.
pub(crate) struct Session {
    pointer: NonNull<c_void>,
    rsa: bool,
}

// SAFETY: a session is read by the device and by any number of threads that put it into requests; nothing of it changes but by
// the device's own means (rte_cryptodev.h: sessions are shared by queue pairs).
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::foreign;
