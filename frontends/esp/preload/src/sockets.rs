//! Which descriptors are the server's, and what must outlive a connection: port, groups, requests without answer.
//!
//! A table has up to [`MOST`] of them; one more fails with EMFILE. A program has one to three, so a look at a descriptor that
//! is none of them costs that many loads. A descriptor alone proves nothing, because programs close descriptors in ways
//! that this library does not see, and their numbers are used again. So a row counts only while its descriptor is the socket
//! with the row's inode number, which the system gives to no other socket meanwhile. Rows whose socket has gone are used
//! again. `close` and `dup2` need no watching then, and `fork` copies the table with the descriptors.
//!
//! A descriptor made by `dup` is in no row: it sends and receives, but has the addresses and options of a unix socket.
//! None of iproute2, strongSwan and libreswan does that. The table has no locks: a child of `fork` may find any of its
//! fields as another thread of the parent left them.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Most sockets at a time.
const MOST: usize = 64;
/// Most requests without answer that a socket remembers.
pub(crate) const MOST_WAITING: usize = 32;

/// A row of the table.
pub(crate) struct Socket {
    descriptor: AtomicI32,
    /// Inode of the socket, 0 for a free row.
    inode: AtomicU64,
    /// Inode of the socket that is about to take its place.
    next: AtomicU64,
    /// Port that the program sees, its `nl_pid`.
    pub(crate) port: AtomicU32,
    /// Groups that the program has joined: bit n - 1 is group n.
    pub(crate) groups: AtomicU32,
    /// NETLINK_EXT_ACK.
    pub(crate) texts: AtomicBool,
    /// There is no server: the descriptor is a silent socket.
    pub(crate) parked: AtomicBool,
    /// A thread is replacing the socket.
    pub(crate) busy: AtomicBool,
    /// Sequence numbers of requests without answer, each with bit 32 set; 0 is none.
    waiting: [AtomicU64; MOST_WAITING],
}

static SOCKETS: [Socket; MOST] = [const { Socket::new() }; MOST];
/// Rows from here on have never been used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The row of a descriptor that is the server's.
pub(crate) fn find(descriptor: c_int) -> Option<&'static Socket> {
    all().find(|socket| socket.descriptor.load(Ordering::Acquire) == descriptor && socket.is_there())
}

/// All rows that have ever been used.
pub(crate) fn all() -> impl Iterator<Item = &'static Socket> {
    SOCKETS.iter().take(USED.load(Ordering::Acquire))
}

/// A row for a new descriptor; `None` when all are in use.
pub(crate) fn add(descriptor: c_int, port: u32) -> Option<&'static Socket> {
    for (place, socket) in SOCKETS.iter().enumerate() {
        if socket.is_there() || socket.busy.swap(true, Ordering::AcqRel) {
            continue;
        }
        // Another thread may have taken it between the two.
        let free = !socket.is_there();
        if free {
            socket.port.store(port, Ordering::Relaxed);
            socket.groups.store(0, Ordering::Relaxed);
            socket.texts.store(false, Ordering::Relaxed);
            socket.parked.store(false, Ordering::Relaxed);
            socket.forget_all();
            socket.next.store(0, Ordering::Relaxed);
            socket.inode.store(inode(descriptor), Ordering::Relaxed);
            socket.descriptor.store(descriptor, Ordering::Release);
            USED.fetch_max(place + 1, Ordering::AcqRel);
        }
        socket.busy.store(false, Ordering::Release);
        if free {
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
            next: AtomicU64::new(0),
            port: AtomicU32::new(0),
            groups: AtomicU32::new(0),
            texts: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            waiting: [const { AtomicU64::new(0) }; MOST_WAITING],
        }
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.descriptor.load(Ordering::Acquire)
    }

    /// Whether the descriptor is still the socket of this row.
    pub(crate) fn is_there(&self) -> bool {
        let known = self.inode.load(Ordering::Acquire);
        if known == 0 {
            return false;
        }
        let inode = inode(self.descriptor());
        inode == known || (inode != 0 && inode == self.next.load(Ordering::Acquire))
    }

    /// Puts the socket `other` in the place of this one, by `replace`. Other threads find the row all the while.
    pub(crate) fn become_socket(&self, other: c_int, replace: impl FnOnce() -> bool) -> bool {
        let inode = inode(other);
        self.next.store(inode, Ordering::Release);
        let replaced = replace();
        if replaced {
            self.inode.store(inode, Ordering::Release);
        }
        replaced
    }

    /// Remembers a request until it is answered. With too many, it is not remembered.
    pub(crate) fn remember(&self, sequence: u32) {
        let entry = entry(sequence);
        for place in &self.waiting {
            if place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    pub(crate) fn forget(&self, sequence: u32) {
        let entry = entry(sequence);
        for place in &self.waiting {
            if place.compare_exchange(entry, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    pub(crate) fn forget_all(&self) {
        for place in &self.waiting {
            place.store(0, Ordering::Release);
        }
    }

    /// The requests without answer.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u32> {
        self.waiting
            .iter()
            .map(|place| place.load(Ordering::Acquire))
            .filter(|&entry| entry != 0)
            .map(|entry| entry as u32)
    }
}

const fn entry(sequence: u32) -> u64 {
    1 << 32 | sequence as u64
}

/// The inode of a descriptor that is a socket, otherwise 0.
fn inode(descriptor: c_int) -> u64 {
    let before = crate::errno();
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure has room for what `fstat` writes; a number that is no descriptor is an error.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } != 0 {
        crate::fail(before);
        return 0;
    }
    // SAFETY: `fstat` has succeeded, so the structure is written.
    let status = unsafe { status.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "it has 32 bits on 32-bit ARM")]
    let inode = status.st_ino as u64;
    if status.st_mode & libc::S_IFMT == libc::S_IFSOCK { inode } else { 0 }
}
