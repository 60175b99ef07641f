//! Lists of entries, linked through the entries themselves.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::entry::{EntryPtr, in_flight_id, is_returned, next, previous, set_in_flight_id, set_next, set_previous};

/// An intrusive list of entries. Every entry in a chain is alive, and only the owner of the chain uses the entry's list links. The caller
/// of [`push`](Self::push) guarantees both. A device may own the rest of the entry.
pub(crate) struct Chain {
    head: Option<EntryPtr>,
    tail: Option<EntryPtr>,
    len: usize,
}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self { head: None, tail: None, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<EntryPtr> {
        self.head
    }

    /// Adds an entry at the tail.
    ///
    /// # Safety
    ///
    /// The entry must stay alive, and no other code may use its list links, until it has left the chain (rules 1 and 2 of `entry.rs`).
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: EntryPtr) {
        set_next(entry, None);
        match self.tail {
            Some(tail) => set_next(tail, Some(entry)),
            None => self.head = Some(entry),
        }
        self.tail = Some(entry);
        self.len += 1;
    }

    /// Removes the first entry. Its link still points to the entry that followed it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<EntryPtr> {
        let entry = self.head?;
        self.head = next(entry);
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(entry)
    }

    /// Moves all entries of `other` to the tail.
    #[inline]
    pub(crate) fn append(&mut self, other: &mut Chain) {
        let other = std::mem::take(other);
        match self.tail {
            Some(tail) => {
                set_next(tail, other.head);
                self.tail = other.tail.or(self.tail);
                self.len += other.len;
            }
            None => *self = other,
        }
    }

    /// Removes and returns the first `count` entries, or all entries if there are fewer.
    pub(crate) fn take_front(&mut self, count: usize) -> Chain {
        if count >= self.len {
            return std::mem::take(self);
        }
        let head = self.head;
        let mut tail = None;
        for _ in 0..count {
            tail = self.pop();
        }
        let Some(last) = tail else { return Chain::new() };
        set_next(last, None);
        Chain { head, tail, len: count }
    }

    /// Makes a chain of entries that [`link`] has linked. If `last` is `None`, the chain is empty and `first` is ignored.
    ///
    /// # Safety
    ///
    /// The `len` entries from `first` to `last` must be linked, and must fulfil the conditions of [`push`](Self::push).
    #[inline]
    pub(crate) unsafe fn from_linked(first: EntryPtr, last: Option<EntryPtr>, len: usize) -> Self {
        let Some(last) = last else { return Chain::new() };
        set_next(last, None);
        Self { head: Some(first), tail: Some(last), len }
    }

    /// Returns the first and the last entry, for a list that several threads share.
    pub(crate) fn into_ends(self) -> Option<(EntryPtr, EntryPtr)> {
        Some((self.head?, self.tail?))
    }

    /// Makes a chain from `first`, as [`into_ends`](Self::into_ends) returned it. Several chains may be concatenated: the
    /// last entry of each then links to the first of the next.
    ///
    /// # Safety
    ///
    /// The caller must own all of these chains.
    pub(crate) unsafe fn from_first(first: Option<EntryPtr>) -> Self {
        let mut chain = Chain::new();
        let mut entry = first;
        while let Some(current) = entry {
            entry = next(current);
            // SAFETY: the chains were made by `push`, and the caller has passed them to this function.
            unsafe { chain.push(current) };
        }
        chain
    }

    #[inline]
    pub(crate) fn entries(&self) -> impl Iterator<Item = EntryPtr> + use<> {
        std::iter::successors(self.head, |entry| next(*entry))
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

/// Links an entry to the next entry of its chain.
#[inline]
pub(crate) fn link(entry: EntryPtr, following: Option<EntryPtr>) {
    set_next(entry, following);
}

/// Requests that are in a device, in the order in which it took them. Doubly linked, so that removing any request takes
/// constant time.
pub(crate) struct InFlight {
    chain: Chain,
    /// The id, unique in the process and never 0.
    id: usize,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        static NEXT_ID: AtomicUsize = AtomicUsize::new(1);
        Self { chain: Chain::new(), id: NEXT_ID.fetch_add(1, Ordering::Relaxed) }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.chain.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.chain.head.is_none()
    }

    pub(super) fn id(&self) -> usize {
        self.id
    }

    /// Returns the request that has been in the device for the longest time.
    pub(crate) fn oldest(&self) -> Option<EntryPtr> {
        self.chain.head
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = EntryPtr> + use<> {
        self.chain.entries()
    }

    /// Adds an entry that a device keeps.
    ///
    /// # Safety
    ///
    /// The entry must stay alive until it has left the list (rule 2 of `entry.rs`), and must be in no other chain.
    pub(crate) unsafe fn push(&mut self, entry: EntryPtr) {
        set_previous(entry, self.chain.tail);
        set_in_flight_id(entry, self.id);
        // SAFETY: the caller guarantees the conditions of `push`; the device has the entry, but never uses its list links.
        unsafe { self.chain.push(entry) };
    }

    /// Removes an entry that is in this list, from any position.
    pub(super) fn remove(&mut self, entry: EntryPtr) {
        debug_assert_eq!(in_flight_id(entry), self.id);
        let (preceding, following) = (previous(entry), next(entry));
        match preceding {
            Some(preceding) => set_next(preceding, following),
            None => self.chain.head = following,
        }
        match following {
            Some(following) => set_previous(following, preceding),
            None => self.chain.tail = preceding,
        }
        self.chain.len -= 1;
        set_in_flight_id(entry, 0);
    }

    /// Moves to `done` the requests that the device has returned, and returns their number. Such a request is still in the list if its job
    /// was dropped, or was completed by other means than this queue pair's `Completions`. Checks every entry of the list.
    pub(crate) fn take_returned(&mut self, done: &mut Chain) -> usize {
        let mut taken = 0;
        let mut entry = self.chain.head;
        while let Some(current) = entry {
            entry = next(current);
            if is_returned(current) {
                self.remove(current);
                // SAFETY: the device has returned the entry, and it has left the list.
                unsafe { done.push(current) };
                taken += 1;
            }
        }
        taken
    }
}
