//! The sessions that have requests in a queue.

use std::collections::{HashMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::dispatch::SessionCore;
use crate::request::Handle;

/// Each session has a place. It is held while it has requests in the queue, and not longer: its keys end with it. The place
/// stays its own for a while, because it will probably come again.
#[derive(Default)]
pub(super) struct QueueSessions {
    entries: Vec<Entry>,
    /// By the number of the session, which another one may have when it has ended: then that one gets the place.
    places: HashMap<usize, u32>,
    /// The one that came last.
    last: (usize, u32),
    /// Places whose session had no requests at some time.
    idle: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Entry {
    /// There while there are requests, which point to it.
    pub(super) core: Option<Arc<SessionCore>>,
    id: usize,
    requests: usize,
    /// The place is among the idle ones.
    listed: bool,
    /// Of a session that keeps order: its requests as they were submitted, and what has been done of them.
    pub(super) order: VecDeque<(u32, Option<Handle>)>,
}

/// Places that are never given to another session for want of room.
const FEW: usize = 64;

impl QueueSessions {
    /// Counts one more request of a session, and holds it. Returns its place.
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

    /// A place that no session needs now.
    fn take_idle(&mut self) -> Option<u32> {
        while self.entries.len() >= FEW {
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

    /// One request less. Lets the session go with its last one.
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

    /// What is done of sessions that keep order, and waits for what was submitted before.
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
    /// The session, which has requests in the queue.
    #[inline]
    pub(super) fn core(&self) -> &Arc<SessionCore> {
        self.core.as_ref().expect("a session with requests is held")
    }
}
