//! The sessions that have requests in a queue.

use std::collections::{HashMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::dispatch::SessionCore;
use crate::request::Handle;

/// A table of the sessions in a queue. A session is held only while it has requests here, so that its keys can be wiped. Its index in
/// the table stays reserved for a while, because the session will probably return.
#[derive(Default)]
pub(super) struct QueueSessions {
    entries: Vec<SessionEntry>,
    /// Indexes by session id. When a session has ended, its id may be reused; the new session then gets the same index.
    indexes: HashMap<usize, u32>,
    /// The id of the last session to enter, and its index.
    last_added: (usize, u32),
    /// Indexes of sessions that had no requests at some time. Some of these sessions may have requests again.
    idle: Vec<u32>,
}

#[derive(Default)]
pub(super) struct SessionEntry {
    /// The session, held while it has requests, because they point to it.
    pub(super) core: Option<Arc<SessionCore>>,
    id: usize,
    request_count: usize,
    /// The index is in `idle`.
    is_listed: bool,
    /// The requests of an ordered session in order of submission: the slot of each request, and its handle if it is done.
    pub(super) order: VecDeque<(u32, Option<Handle>)>,
}

/// Idle indexes are reused only once there are this many indexes.
const MIN_ENTRIES: usize = 64;

impl QueueSessions {
    /// Counts one more request of a session, and holds the session. Returns its index.
    pub(super) fn add_request(&mut self, session: &Arc<SessionCore>) -> u32 {
        let id = session.id();
        let index = if self.last_added.0 == id { self.last_added.1 } else { self.find_or_add(id) };
        let entry = &mut self.entries[index as usize];
        if entry.core.is_none() {
            entry.core = Some(session.clone());
        }
        entry.request_count += 1;
        index
    }

    #[inline(never)]
    fn find_or_add(&mut self, id: usize) -> u32 {
        let index = match self.indexes.get(&id) {
            Some(index) => *index,
            None => self.add(id),
        };
        self.last_added = (id, index);
        index
    }

    #[cold]
    fn add(&mut self, id: usize) -> u32 {
        let index = self.take_idle().unwrap_or_else(|| {
            self.entries.push(SessionEntry::default());
            self.entries.len() as u32 - 1
        });
        self.entries[index as usize].id = id;
        self.indexes.insert(id, index);
        index
    }

    /// Returns an index that no session needs now.
    fn take_idle(&mut self) -> Option<u32> {
        while self.entries.len() >= MIN_ENTRIES {
            let index = self.idle.pop()?;
            let entry = &mut self.entries[index as usize];
            entry.is_listed = false;
            if entry.request_count == 0 {
                self.indexes.remove(&entry.id);
                return Some(index);
            }
        }
        None
    }

    /// Counts one request less. Releases the session with its last request.
    pub(super) fn remove_request(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.request_count -= 1;
        if entry.request_count == 0 {
            entry.core = None;
            if !entry.is_listed {
                entry.is_listed = true;
                self.idle.push(index);
            }
        }
    }

    /// Takes the finished requests of ordered sessions that wait for earlier requests of their session.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Handle> {
        self.entries.iter_mut().flat_map(|entry| entry.order.drain(..).filter_map(|(_, handle)| handle))
    }
}

impl Index<u32> for QueueSessions {
    type Output = SessionEntry;

    #[inline]
    fn index(&self, index: u32) -> &SessionEntry {
        &self.entries[index as usize]
    }
}

impl IndexMut<u32> for QueueSessions {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut SessionEntry {
        &mut self.entries[index as usize]
    }
}

impl SessionEntry {
    /// Returns the session, which must have requests in the queue.
    #[inline]
    pub(super) fn core(&self) -> &Arc<SessionCore> {
        self.core.as_ref().expect("a session with requests is held")
    }
}
