//! The sessions that have requests in a queue.

use std::collections::{HashMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::dispatch::SessionCore;
use crate::request::Handle;

/// A table of the sessions in a queue. A session is held only while it has requests here, so that its keys can be wiped. Its place, an
/// index in the table, stays reserved for a while, because the session will probably return.
#[derive(Default)]
pub(super) struct QueueSessions {
    entries: Vec<Entry>,
    /// Places by session id. When a session has ended, its id may be reused; the new session then gets the same place.
    places: HashMap<usize, u32>,
    /// The id of the last session to enter, and its place.
    last: (usize, u32),
    /// Places of sessions that had no requests at some time. Some of these sessions may have requests again.
    idle: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Entry {
    /// The session, held while it has requests, because they point to it.
    pub(super) core: Option<Arc<SessionCore>>,
    id: usize,
    requests: usize,
    /// The place is in `idle`.
    listed: bool,
    /// The requests of an ordered session in order of submission: the slot of each request, and its handle if it is done.
    pub(super) order: VecDeque<(u32, Option<Handle>)>,
}

/// Idle places are reused only once there are this many places.
const MIN_PLACES: usize = 64;

impl QueueSessions {
    /// Counts one more request of a session, and holds the session. Returns its place.
    pub(super) fn enter(&mut self, session: &Arc<SessionCore>) -> u32 {
        let id = session.id();
        let place = if self.last.0 == id { self.last.1 } else { self.find(id) };
        let entry = &mut self.entries[place as usize];
        if entry.core.is_none() {
            entry.core = Some(session.clone());
        }
        entry.requests += 1;
        place
    }

    #[inline(never)]
    fn find(&mut self, id: usize) -> u32 {
        let place = match self.places.get(&id) {
            Some(place) => *place,
            None => self.add(id),
        };
        self.last = (id, place);
        place
    }

    #[cold]
    fn add(&mut self, id: usize) -> u32 {
        let place = self.take_idle().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() as u32 - 1
        });
        self.entries[place as usize].id = id;
        self.places.insert(id, place);
        place
    }

    /// Returns a place that no session needs now.
    fn take_idle(&mut self) -> Option<u32> {
        while self.entries.len() >= MIN_PLACES {
            let place = self.idle.pop()?;
            let entry = &mut self.entries[place as usize];
            entry.listed = false;
            if entry.requests == 0 {
                self.places.remove(&entry.id);
                return Some(place);
            }
        }
        None
    }

    /// Counts one request less. Releases the session with its last request.
    pub(super) fn leave(&mut self, place: u32) {
        let entry = &mut self.entries[place as usize];
        entry.requests -= 1;
        if entry.requests == 0 {
            entry.core = None;
            if !entry.listed {
                entry.listed = true;
                self.idle.push(place);
            }
        }
    }

    /// Takes the finished requests of ordered sessions that wait for earlier requests of their session.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Handle> {
        self.entries.iter_mut().flat_map(|entry| entry.order.drain(..).filter_map(|(_, handle)| handle))
    }
}

impl Index<u32> for QueueSessions {
    type Output = Entry;

    #[inline]
    fn index(&self, place: u32) -> &Entry {
        &self.entries[place as usize]
    }
}

impl IndexMut<u32> for QueueSessions {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }
}

impl Entry {
    /// Returns the session, which must have requests in the queue.
    #[inline]
    pub(super) fn core(&self) -> &Arc<SessionCore> {
        self.core.as_ref().expect("a session with requests is held")
    }
}
