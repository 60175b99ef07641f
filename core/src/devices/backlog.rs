//! Requests that wait for a device that is full: in order, fairly, and with three classes of priority.
//!
//! Within a class the queues share the device by weight (start-time fair queueing: Goyal, Vin, Cheng, 1996): each request
//! gets a start tag in the class's virtual time, at which the queue's requests before it would have been served at its share
//! of the device, and the smallest start tag is served first. Between classes the higher one is served first, but passes a
//! lower one that waits at most so many times in a row: nobody starves.
//!
//! Any thread that finds room serves the backlog, whosever the requests are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::request::{Handle, Inbox, List, Request};
use crate::route::Load;
use crate::sync::{Mutex, lock};

/// How urgent the requests of a queue are, where a device has too little room for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Served first.
    RealTime,
    /// For what is neither.
    #[default]
    Normal,
    /// Served where there is room, and now and then where there is not.
    Bulk,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::RealTime, Priority::Normal, Priority::Bulk];

    /// How many requests of higher classes may be served in a row while one of this class waits.
    pub const fn patience(self) -> u32 {
        match self {
            Priority::RealTime => 0,
            Priority::Normal => 8,
            Priority::Bulk => 32,
        }
    }
}

/// Whose requests they are, as far as a backlog cares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) class: Priority,
    /// Its share of the device, relative to others of its class.
    pub(crate) weight: u32,
}

impl Default for Sender {
    fn default() -> Self {
        Self { class: Priority::Normal, weight: 1 }
    }
}

/// The requests that wait for one device.
pub(crate) struct Backlog {
    /// Knows how many wait.
    load: Arc<Load>,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    classes: [Class; 3],
    /// Counts arrivals, so that what is equal otherwise keeps its order.
    arrivals: u64,
    /// Where those of a burst stood; kept for its memory.
    burst: Vec<Turn>,
}

#[derive(Default)]
struct Class {
    waiting: BinaryHeap<Waiting>,
    /// The virtual time: the start tag of what was served last.
    now: u64,
    /// Requests of higher classes that were served since the last one of this class, while one waited.
    passed: u32,
}

/// Where a request stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    start: u64,
    arrival: u64,
    class: usize,
    passed: [u32; 3],
}

struct Waiting {
    turn: Turn,
    handle: Handle,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    /// A heap gives its greatest element; ours is the one that has waited for longest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        Reverse(self.turn).cmp(&Reverse(other.turn))
    }
}

/// What a request costs besides its bytes, in bytes.
const OVERHEAD: u64 = 512;

/// Most requests that are offered at once.
const BURST: usize = 32;

impl Backlog {
    pub(crate) fn new(load: Arc<Load>) -> Self {
        Self { load, turns: Mutex::default() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.load.waiting() == 0
    }

    /// Adds requests at the end of their sender's share. `turn` is the sender's own place in virtual time.
    pub(crate) fn push(&self, list: &mut List, sender: Sender, turn: &mut u64) {
        let mut turns = lock(&self.turns);
        let class = sender.class as usize;
        for handle in std::mem::take(list) {
            turns.arrivals += 1;
            let start = turns.classes[class].now.max(*turn);
            let cost = (handle.note.shape.bytes as u64).saturating_add(OVERHEAD).saturating_mul(256);
            *turn = start.saturating_add(cost / u64::from(sender.weight.max(1)));
            let turn = Turn { start, arrival: turns.arrivals, class, passed: [0; 3] };
            turns.classes[class].waiting.push(Waiting { turn, handle });
        }
        self.load.set_waiting(turns.len());
    }

    /// Offers requests in their order, those of one algorithm and operation at a time, for as long as all are taken. The
    /// backlog is not locked while they are offered. One thread at a time serves it; the shared lines see to that.
    pub(crate) fn serve(&self, mut offer: impl FnMut(&mut List)) {
        if self.is_empty() {
            return;
        }
        let mut turns = lock(&self.turns);
        let mut burst = std::mem::take(&mut turns.burst);
        loop {
            let mut offered = turns.next_burst(&mut burst);
            self.load.set_waiting(turns.len());
            if offered.is_empty() {
                break;
            }
            drop(turns);
            offer(&mut offered);
            turns = lock(&self.turns);
            let full = !offered.is_empty();
            turns.put_back(&mut burst, offered);
            if full {
                break;
            }
        }
        turns.burst = burst;
        self.load.set_waiting(turns.len());
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> List {
        self.extract(|_| true)
    }

    /// Takes what is at home in this inbox.
    pub(crate) fn withdraw(&self, home: &Inbox) -> List {
        self.extract(|request| request.is_at_home(home))
    }

    /// Takes the one request that `is_it`, of those that are at home in this inbox.
    pub(crate) fn withdraw_one(&self, home: &Inbox, is_it: impl Fn(&Request<'static>) -> bool) -> Option<Handle> {
        self.extract(|request| request.is_at_home(home) && is_it(request)).pop()
    }

    fn extract(&self, out: impl Fn(&Request<'static>) -> bool) -> List {
        let mut extracted = List::new();
        if self.is_empty() {
            return extracted;
        }
        let mut turns = lock(&self.turns);
        for class in &mut turns.classes {
            let mut waiting = std::mem::take(&mut class.waiting).into_sorted_vec();
            waiting.reverse(); // the first in turn comes last in the order of the heap
            for entry in waiting {
                if out(&entry.handle) { extracted.push(entry.handle) } else { class.waiting.push(entry) }
            }
        }
        self.load.set_waiting(turns.len());
        extracted
    }
}

impl Turns {
    fn len(&self) -> usize {
        self.classes.iter().map(|class| class.waiting.len()).sum()
    }

    /// The class whose turn it is.
    fn class(&self) -> Option<usize> {
        let waits = |class: &usize| !self.classes[*class].waiting.is_empty();
        let first = (0..3).find(waits)?;
        // One that has been patient for long enough goes before the highest.
        let impatient = |class: &usize| self.classes[*class].passed >= Priority::ALL[*class].patience();
        Some((first + 1..3).rev().filter(waits).find(impatient).unwrap_or(first))
    }

    /// The next requests that can be offered together. `stood` becomes where each stood.
    fn next_burst(&mut self, stood: &mut Vec<Turn>) -> List {
        let mut burst = List::new();
        let mut kind = None;
        stood.clear();
        while burst.len() < BURST {
            let Some(class) = self.class() else { break };
            let Some(next) = self.classes[class].waiting.peek() else { break };
            let this = (next.handle.note.algorithm, next.handle.note.shape.operation);
            if *kind.get_or_insert(this) != this {
                break;
            }
            let passed = self.classes.each_ref().map(|class| class.passed);
            for lower in &mut self.classes[class + 1..] {
                lower.passed += u32::from(!lower.waiting.is_empty());
            }
            let class = &mut self.classes[class];
            let Some(Waiting { turn, handle }) = class.waiting.pop() else { break };
            class.passed = 0;
            class.now = class.now.max(turn.start);
            stood.push(Turn { passed, ..turn });
            burst.push(handle);
        }
        burst
    }

    /// The end of a burst that found no room: it has its turn again.
    fn put_back(&mut self, burst: &mut Vec<Turn>, left: List) {
        let taken = burst.len() - left.len();
        if let Some(first) = burst.get(taken) {
            for (class, passed) in self.classes.iter_mut().zip(first.passed) {
                class.passed = passed;
            }
        }
        for (turn, handle) in burst.drain(..).skip(taken).zip(left) {
            self.classes[turn.class].waiting.push(Waiting { turn: Turn { passed: [0; 3], ..turn }, handle });
        }
    }
}

#[cfg(all(test, loom))]
mod races {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::dispatch::races::{request, session, slots};
    use crate::sync::try_lock;

    /// A device that is full until it is unblocked, with its backlog and the lock of its shared lines.
    struct Full {
        free: Mutex<usize>,
        taken: Mutex<List>,
        backlog: Backlog,
        lines: Mutex<()>,
    }

    impl Full {
        fn new() -> Self {
            Self {
                free: Mutex::new(0),
                taken: Mutex::new(List::new()),
                backlog: Backlog::new(Arc::default()),
                lines: Mutex::new(()),
            }
        }

        fn offer(&self, offered: &mut List) {
            let mut free = lock(&self.free);
            while *free > 0
                && let Some(handle) = offered.pop()
            {
                *free -= 1;
                lock(&self.taken).push(handle);
            }
        }

        fn unblock(&self) {
            *lock(&self.free) += 1;
        }

        fn push(&self, mut list: List) {
            self.backlog.push(&mut list, Sender::default(), &mut 0);
        }

        /// As the shared lines do it: where another thread is at it, that is as good.
        fn serve(&self) {
            let Some(_lines) = try_lock(&self.lines) else { return };
            self.backlog.serve(|offered| self.offer(offered));
        }

        /// The same where somebody gives up.
        fn withdraw(&self, home: &Inbox) -> List {
            let _lines = lock(&self.lines);
            self.backlog.withdraw(home)
        }
    }

    /// FreeBSD: the driver said ERESTART, then called crypto_unblock, and only then was it marked as blocked: nobody ever asked it
    /// again. Whoever waits for the request looks again here, and to look once is enough.
    #[test]
    fn unblock_between_the_full_answer_and_the_blocked_mark() {
        loom::model(|| {
            let (session, home) = (session(), Inbox::new());
            let device = Arc::new(Full::new());
            let mut list = request(&session, &home, 1);
            let submitter = thread::spawn({
                let device = device.clone();
                move || {
                    device.offer(&mut list); // the full answer, perhaps
                    device.push(list); // the mark
                    device.serve();
                }
            });
            device.unblock();
            device.serve();
            submitter.join().unwrap();
            device.serve();
            assert_eq!(slots(std::mem::take(&mut *lock(&device.taken))), [1], "it is in the device, once");
            assert!(device.backlog.is_empty());
        });
    }

    /// FreeBSD: a queue that was being emptied met a driver that was unblocked at the same moment, and a request ran twice or never.
    #[test]
    fn queue_drained_while_a_device_unblocks() {
        loom::model(|| {
            let (session, home) = (session(), Inbox::new());
            let device = Arc::new(Full::new());
            for slot in [1, 2] {
                device.push(request(&session, &home, slot));
            }
            let server = thread::spawn({
                let device = device.clone();
                move || {
                    device.unblock();
                    device.serve();
                }
            });
            let mut all = device.withdraw(&home);
            assert!(device.backlog.is_empty(), "nothing is left behind");
            server.join().unwrap();
            assert!(device.backlog.is_empty(), "nothing comes back to where nobody looks");
            all.append(&mut lock(&device.taken));
            assert_eq!(slots(all), [1, 2], "each is in one place");
        });
    }
}
