//! The shim (`shim/gantry_dpdk.h`), and all `unsafe` of this crate.
//!
//! What makes the raw pointers sound:
//!
//! 1. *The library stays.* It is never unloaded, so its function table and everything that it hands out are `'static`.
//! 2. *A slot has one owner.* [`Slot`] cannot be copied. Whoever holds it may use its memory; [`Pair::enqueue`] takes it, and only
//!    [`Pair::dequeue`] gives it back, when the device is done with it.
//! 3. *A session outlives its requests.* The queue keeps the [`Job`](gantry::driver::Job) of every slot in the device, which keeps
//!    the session; where it has to give up the job first, it reports that to the engine
//!    ([`Engine::abandon`](crate::engine::Engine::abandon)), which frees no session until those slots have come back.
//! 4. *A child does nothing.* After `fork` the memory is shared with the parent. Every public path asks [`forked`] first.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;

/// Whether the process has forked.
mod fork;

#[cfg(test)]
pub(crate) use fork::in_child;
pub(crate) use fork::{forked, watch_forks};

const ABI: u32 = 1;

/// Where data begin in a slot. What is authenticated before them ends here.
pub(crate) const DATA: usize = 1152;
/// Most bytes of data in a slot.
pub(crate) const MOST_DATA: usize = 16384;
/// The longest tag, which lies behind the data.
pub(crate) const MOST_TAG: usize = 64;
const ROOM: usize = DATA + MOST_DATA + 128;
pub(crate) const IV: usize = 16;
/// Completions that are taken from the device at a time.
const BURST: usize = 64;

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
#[derive(Clone, Copy)]
struct Memory {
    data: *mut u8,
    iv: *mut u8,
}

/// A request in a slot that it owns, ready for the device.
#[repr(C)]
pub(crate) struct Request {
    session: NonNull<c_void>,
    slot: Slot,
    kind: u32,
    packet: u32,
    packet_length: u32,
    cipher: u32,
    cipher_length: u32,
    auth: u32,
    auth_length: u32,
    tag: u32,
    aad: u32,
}

// SAFETY: the session may be used by any thread (rule 3 keeps it), the rest are numbers.
unsafe impl Send for Request {}

/// Where the parts of a request lie. Offsets count from the start of the slot's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) kind: u32,
    /// Where the packet begins that the device sees. It ends with the tag.
    pub(crate) packet: usize,
    /// Bytes of data, which begin at [`DATA`].
    pub(crate) data: usize,
    /// Bytes of the tag behind the data.
    pub(crate) tag: usize,
    /// Where associated data begin, of AEADs.
    pub(crate) aad: usize,
}

impl Request {
    pub(crate) fn new(slot: Slot, session: &Session, layout: &Layout) -> Self {
        let Layout { kind, packet, data, tag, aad } = *layout;
        assert!(packet <= DATA && aad <= DATA && data <= MOST_DATA && tag <= MOST_TAG, "a request within its slot");
        let front = (DATA - packet) as u32;
        Self {
            session: session.0,
            slot,
            kind,
            packet: packet as u32,
            packet_length: front + (data + tag) as u32,
            cipher: front,
            cipher_length: data as u32,
            auth: 0,
            auth_length: front + data as u32,
            tag: (DATA + data) as u32,
            aad: aad as u32,
        }
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    pub(crate) fn into_slot(self) -> Slot {
        self.slot
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Completion {
    slot: u32,
    status: u32,
}

#[repr(C)]
struct Interface {
    abi: u32,
    dpdk_abi: u32,
    version: unsafe extern "C" fn() -> *const c_char,
    start: unsafe extern "C" fn(c_int, *const *mut c_char) -> c_int,
    last_log: unsafe extern "C" fn(*mut c_char, u32),
    plug: unsafe extern "C" fn(*const c_char, *const c_char, *const c_char) -> c_int,
    find: unsafe extern "C" fn(*const c_char, *mut DeviceRecord) -> c_int,
    capabilities: unsafe extern "C" fn(u8, *mut Offer, u32) -> u32,
    configure: unsafe extern "C" fn(u8, u32, u32, u32) -> c_int,
    run: unsafe extern "C" fn(u8) -> c_int,
    stop: unsafe extern "C" fn(u8),
    session_new: unsafe extern "C" fn(u8, *const SessionRecord) -> *mut c_void,
    session_free: unsafe extern "C" fn(u8, *mut c_void),
    queue_new: unsafe extern "C" fn(u8, u32, u32, *mut Memory) -> *mut c_void,
    enqueue: unsafe extern "C" fn(*mut c_void, *const Request, u32) -> c_int,
    dequeue: unsafe extern "C" fn(*mut c_void, *mut Completion, u32) -> c_int,
}

/// The shim.
#[derive(Clone, Copy)]
pub(crate) struct Shim(&'static Interface);

impl Shim {
    /// Loads it, and with it the libraries of DPDK; the error is the dynamic linker's.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        use std::os::unix::ffi::OsStrExt;
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

    /// The symmetric cryptodev that the device `name` brought, if it did. One engine configures and runs it.
    pub(crate) fn find(self, name: &str) -> Option<Cryptodev> {
        let name = CString::new(name).ok()?;
        // SAFETY: numbers only, for all of which zero is a value.
        let mut record: DeviceRecord = unsafe { std::mem::zeroed() };
        // SAFETY: a C string and memory of the right type.
        let result = unsafe { (self.0.find)(name.as_ptr(), &raw mut record) };
        (result == 0).then(|| Cryptodev {
            shim: self,
            id: record.id,
            driver: string(&record.driver),
            hardware: record.features & 1 != 0,
            chains: record.features & 2 != 0,
            most_queues: record.most_queues,
            most_sessions: record.most_sessions,
        })
    }
}

fn string(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One cryptodev of DPDK.
pub(crate) struct Cryptodev {
    shim: Shim,
    id: u8,
    /// The name of its driver, which DPDK calls a PMD.
    pub(crate) driver: String,
    pub(crate) hardware: bool,
    /// Cipher and MAC in one operation.
    pub(crate) chains: bool,
    pub(crate) most_queues: u32,
    /// 0: no limit.
    pub(crate) most_sessions: u32,
}

impl Cryptodev {
    pub(crate) fn offers(&self) -> Vec<Offer> {
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
        NonNull::new(unsafe { (self.shim.0.session_new)(self.id, &raw const record) }).map(Session)
    }

    /// Frees and wipes a session of this device that no request in it uses any more (rule 3).
    #[allow(clippy::needless_pass_by_value, reason = "nobody has it afterwards")]
    pub(crate) fn free(&self, session: Session) {
        // SAFETY: it came from `session`, and this is the only one to have it.
        unsafe { (self.shim.0.session_free)(self.id, session.0.as_ptr()) };
    }

    /// The queue pair of this number, with memory for so many requests: `None` when memory ran out. Once for each number.
    pub(crate) fn pair(&self, number: u32, slots: u32) -> Option<(Pair, Vec<Slot>)> {
        let mut memory = vec![Memory { data: std::ptr::null_mut(), iv: std::ptr::null_mut() }; slots as usize];
        // SAFETY: room for the addresses of so many slots; the number is of a pair that `configure` made.
        let queue = NonNull::new(unsafe { (self.shim.0.queue_new)(self.id, number, slots, memory.as_mut_ptr()) })?;
        let inside = vec![false; memory.len()];
        Some((Pair { shim: self.shim, queue, memory, inside }, (0..slots).map(Slot).collect()))
    }
}

/// A session of DPDK.
pub(crate) struct Session(NonNull<c_void>);

// SAFETY: a session is read by the device and by any number of threads that put it into requests; nothing of it changes but by
// the device's own means (rte_cryptodev.h: sessions are shared by queue pairs).
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

/// A queue pair with its slots, for one thread at a time.
pub(crate) struct Pair {
    shim: Shim,
    queue: NonNull<c_void>,
    memory: Vec<Memory>,
    /// By slot: the device has it.
    inside: Vec<bool>,
}

// SAFETY: DPDK lets one thread at a time use a queue pair, whichever it is; the memory of the slots is only reached through
// the pair and the slots.
unsafe impl Send for Pair {}

/// A slot that the device does not have.
#[repr(transparent)]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    pub(crate) fn index(&self) -> usize {
        self.0 as usize
    }
}

/// The memory of a slot.
pub(crate) struct Room<'a> {
    /// [`DATA`] says where data begin.
    pub(crate) buffer: &'a mut [u8],
    pub(crate) iv: &'a mut [u8; IV],
}

/// How a device answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    BadTag,
    /// In words.
    Failed(&'static str),
}

/// Why a queue pair does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The device refuses the first of the requests for good.
    Refused,
    /// The device was stopped.
    Stopped,
}

impl Pair {
    pub(crate) fn room(&mut self, slot: &Slot) -> Room<'_> {
        let memory = self.memory[slot.index()];
        // SAFETY: the shim gave these addresses for the slot, with so many bytes behind them that it had zeroed or somebody has
        // written since; the device does not have it (rule 2), and `self` is borrowed for as long as the room.
        unsafe { Room { buffer: std::slice::from_raw_parts_mut(memory.data, ROOM), iv: &mut *memory.iv.cast() } }
    }

    /// Hands requests to the device, as many as it has room for, from the front.
    pub(crate) fn enqueue(&mut self, requests: &mut Vec<Request>) -> Result<(), Blocked> {
        // SAFETY: so many requests whose slots are ours to give (rule 2) and whose offsets are within them (`Request::new`).
        let taken = unsafe { (self.shim.0.enqueue)(self.queue.as_ptr(), requests.as_ptr(), requests.len() as u32) };
        match usize::try_from(taken) {
            Ok(taken) => {
                requests.drain(..taken).for_each(|request| self.inside[request.slot.index()] = true);
                Ok(())
            }
            Err(_) if taken == -libc::ENOTSUP => Err(Blocked::Stopped),
            Err(_) => Err(Blocked::Refused),
        }
    }

    /// Takes back what the device is done with, up to a burst, and says how many that were.
    pub(crate) fn dequeue(&mut self, mut each: impl FnMut(&mut Self, Slot, Status)) -> Result<usize, Blocked> {
        let mut done = [Completion::default(); BURST];
        // SAFETY: room for so many; the pair is this thread's as long as it is borrowed.
        let count = unsafe { (self.shim.0.dequeue)(self.queue.as_ptr(), done.as_mut_ptr(), BURST as u32) };
        let count = usize::try_from(count).map_err(|_| Blocked::Stopped)?;
        for Completion { slot, status } in done.into_iter().take(count) {
            // Rule 2 hangs on this: a slot must not come back twice.
            let inside = self.inside.get_mut(slot as usize).is_some_and(std::mem::take);
            assert!(inside, "DPDK gave back a request that it did not have");
            let status = match status {
                0 => Status::Done,
                1 => Status::BadTag,
                2 => Status::Failed("DPDK: the session is invalid"),
                3 => Status::Failed("DPDK: the arguments are invalid"),
                _ => Status::Failed("DPDK: the device reports an error"),
            };
            each(self, Slot(slot), status);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
