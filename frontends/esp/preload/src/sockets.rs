//! The descriptors that lead to the server, and the state that outlives a connection: port, groups, unanswered requests.
//!
//! The table has up to [`MAX_SOCKETS`] rows; one more socket fails with EMFILE. A program has one to three such sockets, so a check of any
//! other descriptor costs one to three loads. A descriptor number alone proves nothing: programs close descriptors in ways that this
//! library does not see, and numbers are reused. So a row is valid only while its descriptor is a socket with the row's inode
//! number. Two sockets that exist at the same time never have the same inode number. Rows of closed sockets are reused. `close` and `dup2`
//! thus need no interception, and `fork` copies the table with the descriptors.
//!
//! A descriptor made by `dup` is in no row. It can send and receive, but the program sees the addresses and options of a Unix
//! socket, not of a netlink socket. iproute2, strongSwan and libreswan do not duplicate XFRM sockets.
//!
//! The table has no locks: in a child of `fork` a field can have a value that another thread of the parent was about to change.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of sockets at a time.
const MAX_SOCKETS: usize = 64;
/// Maximum number of unanswered requests that a socket remembers.
pub(crate) const MAX_UNANSWERED: usize = 32;

/// A row of the table.
pub(crate) struct Socket {
    descriptor: AtomicI32,
    /// Inode of the socket, 0 for a free row.
    inode: AtomicU64,
    /// Inode of the socket that is about to replace the row's socket.
    next_inode: AtomicU64,
    /// Port that the program sees, its `nl_pid`.
    pub(crate) port: AtomicU32,
    /// Groups that the program has joined: bit n - 1 is group n.
    pub(crate) groups: AtomicU32,
    /// True if the program has set NETLINK_EXT_ACK. Error answers to its requests then contain a text.
    pub(crate) wants_texts: AtomicBool,
    /// True if there is no server. The descriptor then refers to a socket that never becomes readable.
    pub(crate) is_silent: AtomicBool,
    /// True while a thread is replacing the socket.
    pub(crate) is_replacing: AtomicBool,
    /// Sequence numbers of unanswered requests, each with bit 32 set; 0 is a free entry.
    unanswered: [AtomicU64; MAX_UNANSWERED],
}

static SOCKETS: [Socket; MAX_SOCKETS] = [const { Socket::new() }; MAX_SOCKETS];
/// Rows from this index on have never been used.
static USED_ROWS: AtomicUsize = AtomicUsize::new(0);

/// Returns the row of a descriptor that leads to the server.
pub(crate) fn find(descriptor: c_int) -> Option<&'static Socket> {
    all().find(|socket| socket.descriptor.load(Ordering::Acquire) == descriptor && socket.is_valid())
}

/// Iterates over all rows that have ever been used.
pub(crate) fn all() -> impl Iterator<Item = &'static Socket> {
    SOCKETS.iter().take(USED_ROWS.load(Ordering::Acquire))
}

/// Reserves a row for a new descriptor; `None` if all are in use.
pub(crate) fn add(descriptor: c_int, port: u32) -> Option<&'static Socket> {
    for (index, socket) in SOCKETS.iter().enumerate() {
        if socket.is_valid() || socket.is_replacing.swap(true, Ordering::AcqRel) {
            continue;
        }
        // Another thread may have taken the row in between.
        let is_free = !socket.is_valid();
        if is_free {
            socket.port.store(port, Ordering::Relaxed);
            socket.groups.store(0, Ordering::Relaxed);
            socket.wants_texts.store(false, Ordering::Relaxed);
            socket.is_silent.store(false, Ordering::Relaxed);
            socket.forget_all();
            socket.next_inode.store(0, Ordering::Relaxed);
            socket.inode.store(inode(descriptor), Ordering::Relaxed);
            socket.descriptor.store(descriptor, Ordering::Release);
            USED_ROWS.fetch_max(index + 1, Ordering::AcqRel);
        }
        socket.is_replacing.store(false, Ordering::Release);
        if is_free {
            return Some(socket);
        }
    }
    None
}

impl Socket {
    const fn new() -> Self {
        Self {
            descriptor: AtomicI32::new(-1),
            inode: AtomicU64::new(0),
            next_inode: AtomicU64::new(0),
            port: AtomicU32::new(0),
            groups: AtomicU32::new(0),
            wants_texts: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            is_replacing: AtomicBool::new(false),
            unanswered: [const { AtomicU64::new(0) }; MAX_UNANSWERED],
        }
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.descriptor.load(Ordering::Acquire)
    }

    /// Returns whether the descriptor still refers to the socket of this row.
    pub(crate) fn is_valid(&self) -> bool {
        let row_inode = self.inode.load(Ordering::Acquire);
        if row_inode == 0 {
            return false;
        }
        let inode = inode(self.descriptor());
        inode == row_inode || (inode != 0 && inode == self.next_inode.load(Ordering::Acquire))
    }

    /// Calls `replace`, which makes the row's descriptor refer to the socket of `other` and returns whether that succeeded. Returns the
    /// same value. Other threads find the row before, during and after the call.
    pub(crate) fn replace_socket(&self, other: c_int, replace: impl FnOnce() -> bool) -> bool {
        let inode = inode(other);
        self.next_inode.store(inode, Ordering::Release);
        let replaced = replace();
        if replaced {
            self.inode.store(inode, Ordering::Release);
        }
        replaced
    }

    /// Remembers a request until it is answered. If the list is full, the request is not remembered.
    pub(crate) fn remember(&self, sequence: u32) {
        let entry = unanswered_entry(sequence);
        for slot in &self.unanswered {
            if slot.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    pub(crate) fn forget(&self, sequence: u32) {
        let entry = unanswered_entry(sequence);
        for slot in &self.unanswered {
            if slot.compare_exchange(entry, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    pub(crate) fn forget_all(&self) {
        for slot in &self.unanswered {
            slot.store(0, Ordering::Release);
        }
    }

    /// Iterates over the unanswered requests.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = u32> {
        self.unanswered
            .iter()
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|&entry| entry != 0)
            .map(|entry| entry as u32)
    }
}

const fn unanswered_entry(sequence: u32) -> u64 {
    1 << 32 | sequence as u64
}

/// Returns the inode of a socket descriptor; 0 if the descriptor is invalid or not a socket.
fn inode(descriptor: c_int) -> u64 {
    let previous_errno = crate::errno();
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure has room for the result of `fstat`; an invalid descriptor is an error.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } != 0 {
        crate::fail(previous_errno);
        return 0;
    }
    // SAFETY: `fstat` has succeeded, so the structure is initialized.
    let status = unsafe { status.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "`st_ino` has 32 bits on 32-bit ARM")]
    let inode = status.st_ino as u64;
    if status.st_mode & libc::S_IFMT == libc::S_IFSOCK { inode } else { 0 }
}
