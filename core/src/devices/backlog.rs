//! Requests that wait for room in a full device. They are served in a fair order, with three priority classes.
//!
//! Within a class, the queues share the device by weight (start-time fair queueing: Goyal, Vin, Cheng, 1996). Each request gets a start tag
//! in the class's virtual time: the time at which the queue's earlier requests would have been served at the queue's share of the device.
//! The smallest start tag is served first. A higher class goes before a lower one, but only a limited number of times in a row, so that no
//! class starves.
//!
//! Any thread that finds room serves the backlog, including requests of other threads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::request::{Handle, Inbox, List, Request};
use crate::route::Load;
use crate::sync::{Mutex, lock};

/// The priority of a queue's requests on a device with too little room for all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Served first.
    RealTime,
    /// Served if no real-time request waits, and occasionally if one does; the default.
    #[default]
    Normal,
    /// Served if no higher class waits, and occasionally if one does.
    Bulk,
}

impl Priority {
    /// All classes, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::RealTime, Priority::Normal, Priority::Bulk];

    /// Returns the number of requests of higher classes that may be served in a row while a request of this class waits.
    pub const fn max_passed(self) -> u32 {
        match self {
            Priority::RealTime => 0,
            Priority::Normal => 8,
            Priority::Bulk => 32,
        }
    }
}

/// The sender of requests: its priority and share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) class: Priority,
    /// Share of the device, relative to other senders of the class.
    pub(crate) weight: u32,
}

impl Default for Sender {
    fn default() -> Self {
        Self { class: Priority::Normal, weight: 1 }
    }
}

/// The requests that wait for one device.
pub(crate) struct Backlog {
    /// The load of the device, which gets the number of waiting requests.
    load: Arc<Load>,
    schedule: Mutex<Schedule>,
}

#[derive(Default)]
struct Schedule {
    classes: [PriorityClass; 3],
    /// Counts arrivals: breaks ties between equal start tags.
    arrivals: u64,
    /// The positions of the requests that are being offered; kept to reuse the allocation.
    burst: Vec<Position>,
}

#[derive(Default)]
struct PriorityClass {
    waiting: BinaryHeap<WaitingRequest>,
    /// The virtual time: the start tag of the request served last.
    virtual_time: u64,
    /// Requests of higher classes served since the last request of this class, while a request of this class was waiting.
    passed: u32,
}

/// The position of a request in the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    start: u64,
    arrival: u64,
    class: usize,
    /// The field `passed` of each class before this request was taken. `put_back` restores it.
    passed: [u32; 3],
}

struct WaitingRequest {
    position: Position,
    handle: Handle,
}

impl PartialEq for WaitingRequest {
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position
    }
}
impl Eq for WaitingRequest {}
impl PartialOrd for WaitingRequest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for WaitingRequest {
    /// Reverses the order, because a heap returns its greatest element and the request with the smallest position must come first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        Reverse(self.position).cmp(&Reverse(other.position))
    }
}

/// The fixed cost of a request, in bytes.
const REQUEST_OVERHEAD_BYTES: u64 = 512;

/// Maximum number of requests offered at once.
const MAX_BURST: usize = 32;

impl Backlog {
    pub(crate) fn new(load: Arc<Load>) -> Self {
        Self { load, schedule: Mutex::default() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.load.waiting() == 0
    }

    /// Adds requests behind the earlier requests of their sender. `next_start` is the earliest start of the sender's next request in
    /// virtual time; each added request advances it.
    pub(crate) fn push(&self, list: &mut List, sender: Sender, next_start: &mut u64) {
        let mut schedule = lock(&self.schedule);
        let class = sender.class as usize;
        for handle in std::mem::take(list) {
            schedule.arrivals += 1;
            let start = schedule.classes[class].virtual_time.max(*next_start);
            // In 1/256 of a byte, so that the division by the weight loses little.
            let cost = (handle.meta.shape.bytes as u64).saturating_add(REQUEST_OVERHEAD_BYTES).saturating_mul(256);
            *next_start = start.saturating_add(cost / u64::from(sender.weight.max(1)));
            let position = Position { start, arrival: schedule.arrivals, class, passed: [0; 3] };
            schedule.classes[class].waiting.push(WaitingRequest { position, handle });
        }
        self.load.set_waiting(schedule.len());
    }

    /// Offers requests in order, grouped by algorithm and operation, as long as the device takes all of them. The backlog is not locked
    /// during an offer. Callers hold the lock of the shared queue pairs, so that one thread at a time serves the backlog.
    pub(crate) fn serve(&self, mut offer: impl FnMut(&mut List)) {
        if self.is_empty() {
            return;
        }
        let mut schedule = lock(&self.schedule);
        let mut burst = std::mem::take(&mut schedule.burst);
        loop {
            let mut offered = schedule.next_burst(&mut burst);
            self.load.set_waiting(schedule.len());
            if offered.is_empty() {
                break;
            }
            drop(schedule);
            offer(&mut offered);
            schedule = lock(&self.schedule);
            let is_full = !offered.is_empty();
            schedule.put_back(&mut burst, offered);
            if is_full {
                break;
            }
        }
        schedule.burst = burst;
        self.load.set_waiting(schedule.len());
    }

    /// Takes all requests.
    pub(crate) fn take(&self) -> List {
        self.extract(|_| true)
    }

    /// Takes the requests that return to this inbox.
    pub(crate) fn withdraw(&self, inbox: &Inbox) -> List {
        self.extract(|request| request.comes_back_to(inbox))
    }

    /// Takes the request that returns to this inbox and for which `is_it` returns `true`.
    pub(crate) fn withdraw_one(&self, inbox: &Inbox, is_it: impl Fn(&Request<'static>) -> bool) -> Option<Handle> {
        self.extract(|request| request.comes_back_to(inbox) && is_it(request)).pop()
    }

    fn extract(&self, selects: impl Fn(&Request<'static>) -> bool) -> List {
        let mut extracted = List::new();
        if self.is_empty() {
            return extracted;
        }
        let mut schedule = lock(&self.schedule);
        for class in &mut schedule.classes {
            let mut waiting = std::mem::take(&mut class.waiting).into_sorted_vec();
            waiting.reverse(); // the heap's order is reversed
            for entry in waiting {
                if selects(&entry.handle) { extracted.push(entry.handle) } else { class.waiting.push(entry) }
            }
        }
        self.load.set_waiting(schedule.len());
        extracted
    }
}

impl Schedule {
    fn len(&self) -> usize {
        self.classes.iter().map(|class| class.waiting.len()).sum()
    }

    /// Returns the class to serve next.
    fn next_class(&self) -> Option<usize> {
        let waits = |class: &usize| !self.classes[*class].waiting.is_empty();
        let first = (0..3).find(waits)?;
        // A class that was passed over too often goes before the highest class that waits. The lowest such class goes first.
        let is_overdue = |class: &usize| self.classes[*class].passed >= Priority::ALL[*class].max_passed();
        Some((first + 1..3).rev().filter(waits).find(is_overdue).unwrap_or(first))
    }

    /// Returns the next requests that can be offered together. Fills `positions` with their positions.
    fn next_burst(&mut self, positions: &mut Vec<Position>) -> List {
        let mut burst = List::new();
        let mut kind = None;
        positions.clear();
        while burst.len() < MAX_BURST {
            let Some(class) = self.next_class() else { break };
            let Some(next) = self.classes[class].waiting.peek() else { break };
            let next_kind = (next.handle.meta.algorithm, next.handle.meta.shape.operation);
            if *kind.get_or_insert(next_kind) != next_kind {
                break;
            }
            let passed = self.classes.each_ref().map(|class| class.passed);
            for lower in &mut self.classes[class + 1..] {
                lower.passed += u32::from(!lower.waiting.is_empty());
            }
            let class = &mut self.classes[class];
            let Some(WaitingRequest { position, handle }) = class.waiting.pop() else { break };
            class.passed = 0;
            class.virtual_time = class.virtual_time.max(position.start);
            positions.push(Position { passed, ..position });
            burst.push(handle);
        }
        burst
    }

    /// Puts back the requests of a burst for which there was no room, with their old positions.
    fn put_back(&mut self, burst: &mut Vec<Position>, refused: List) {
        let taken = burst.len() - refused.len();
        if let Some(first) = burst.get(taken) {
            for (class, passed) in self.classes.iter_mut().zip(first.passed) {
                class.passed = passed;
            }
        }
        for (position, handle) in burst.drain(..).skip(taken).zip(refused) {
            self.classes[position.class]
                .waiting
                .push(WaitingRequest { position: Position { passed: [0; 3], ..position }, handle });
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

    /// A device that is full until it is unblocked, with its backlog and the lock of its shared queue pairs.
    struct Full {
        free: Mutex<usize>,
        taken: Mutex<List>,
        backlog: Backlog,
        pairs: Mutex<()>,
    }

    impl Full {
        fn new() -> Self {
            Self {
                free: Mutex::new(0),
                taken: Mutex::new(List::new()),
                backlog: Backlog::new(Arc::default()),
                pairs: Mutex::new(()),
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

        /// Works like `SharedPairs::serve`: does nothing if another thread is serving.
        fn serve(&self) {
            let Some(_pairs) = try_lock(&self.pairs) else { return };
            self.backlog.serve(|offered| self.offer(offered));
        }

        /// Works like `SharedPairs::abandon`.
        fn withdraw(&self, inbox: &Inbox) -> List {
            let _pairs = lock(&self.pairs);
            self.backlog.withdraw(inbox)
        }
    }

    /// In FreeBSD, a driver returned ERESTART, then called crypto_unblock, and was marked as blocked only after that, so it was never
    /// called again. Here a thread that waits for the request serves the backlog again, and one such call is enough.
    #[test]
    fn unblock_between_the_full_answer_and_the_blocked_mark() {
        loom::model(|| {
            let (session, inbox) = (session(), Inbox::new());
            let device = Arc::new(Full::new());
            let mut list = request(&session, &inbox, 1);
            let submitter = thread::spawn({
                let device = device.clone();
                move || {
                    device.offer(&mut list); // the device may answer that it is full
                    device.push(list); // marks the device as blocked
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

    /// In FreeBSD, a driver was unblocked while its queue was drained, and a request ran twice or never.
    #[test]
    fn queue_drained_while_a_device_unblocks() {
        loom::model(|| {
            let (session, inbox) = (session(), Inbox::new());
            let device = Arc::new(Full::new());
            for slot in [1, 2] {
                device.push(request(&session, &inbox, slot));
            }
            let server = thread::spawn({
                let device = device.clone();
                move || {
                    device.unblock();
                    device.serve();
                }
            });
            let mut all = device.withdraw(&inbox);
            assert!(device.backlog.is_empty(), "nothing is left behind");
            server.join().unwrap();
            assert!(device.backlog.is_empty(), "no request returns after the last look");
            all.append(&mut lock(&device.taken));
            assert_eq!(slots(all), [1, 2], "each is in one place");
        });
    }
}
