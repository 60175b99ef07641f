//! Company for requests that come one at a time.
//!
//! Lanes pay when several requests run side by side, and most programs ask for one at a time, on many threads. Requests of
//! all threads for the same algorithm meet in one place. Whoever finds enough of them there takes them all along and runs
//! them. There is no helper thread: the one who makes the company complete does the work, and one who has waited for long
//! enough goes with those that are there.
//!
//! Threads that ask for one thing at a time wait only where there are more of them than CPUs. Then somebody has to wait anyway,
//! and whoever lays a request down lets another thread run: no CPU is idle for the sake of company, and nobody has to be woken.
//! What that costs is measured, as CPU time of the thread that waited; company that saves less is not looked for.
//!
//! A piece of a message meets others as a whole one does. Where a message is to live is another question, which has to be answered
//! before its first piece: a caller who has a place of his own for it asks with [`Session::begin`](crate::Session::begin).

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{LocalKey, Thread};
use std::time::Duration;

use crate::dispatch::Dispatcher;
use crate::driver::Operands;
use crate::error::Result;
use crate::inbox::Inbox;
use crate::job::List;
use crate::request::{Request, Shape};
use crate::route::{Company, Question};
use crate::session::Inner;
use crate::stack::Stack;
use crate::stats::{Stats, Watch};
use crate::sync::{AtomicUsize, Ordering};
use crate::trial::Trial;
use crate::{Outcome, Stream};

/// Requests of fewer bytes are never worth a wait: they are done before another thread runs.
pub(crate) const SMALLEST: usize = 4 << 10;

/// After so long a thread goes with those that are there, however few, unless the framework says otherwise.
pub(crate) const LONGEST: Duration = Duration::from_millis(1);
/// A thread lets others run this many times for each request that it would like to have, before it goes with those that are there.
const TURNS: usize = 2;
/// How long a thread whose request others have sleeps, until it looks whether a device is to be polled.
const LOOK: Duration = Duration::from_micros(500);
/// Of so many waits of a thread one is measured.
const MEASURED: u32 = 64;
/// After so many requests of a thread that did not wait, because that is too dear, it is thought to be less dear.
const FORGET: u32 = 1024;

/// What it costs to let other threads run, on the machine at hand.
pub(crate) struct Waits {
    cores: usize,
    /// Nanoseconds that a thread waits at most; 0: nobody waits.
    longest: u64,
    /// Nanoseconds of CPU time, for one thread and one request.
    cost: AtomicUsize,
}

impl Waits {
    pub(crate) fn new(longest: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Self { cores, longest, cost: AtomicUsize::new(2500) }
    }

    /// How many of the threads of the process there are to a CPU. Those who run on the other CPUs are no company: they do not wait.
    fn crowd(&self) -> usize {
        if self.longest == 0 { 0 } else { Stats::threads() / self.cores }
    }

    /// Takes in what a wait cost, by a small step: a thread may have had other things to do in it, a signal for one. Steps
    /// down are longer, because a wait that is thought too dear is not measured again.
    fn learn(&self, ns: u64) {
        let (old, ns) = (self.cost.load(Ordering::Relaxed), usize::try_from(ns).unwrap_or(usize::MAX));
        let new = if ns > old { old + (ns - old).min(old / 128) } else { old - (old - ns).min(old / 64) };
        self.cost.store(new.max(128), Ordering::Relaxed);
    }

    /// Whether a wait is worth it for so many nanoseconds. What was a little too dear is thought to be less so from time to
    /// time, for that reason.
    fn pays(&self, saving_ns: u32) -> bool {
        thread_local! {
            static LEFT: Cell<u32> = const { Cell::new(FORGET) };
        }
        let (cost, saving) = (self.cost.load(Ordering::Relaxed), saving_ns as usize);
        // On a 32-bit machine there may be no double of it.
        if (saving..saving.saturating_mul(2)).contains(&cost) && is_due(&LEFT, FORGET) {
            self.learn(0);
        }
        cost < saving
    }
}

/// Counts down from `every`.
fn is_due(left: &'static LocalKey<Cell<u32>>, every: u32) -> bool {
    left.set(left.get().checked_sub(1).unwrap_or(every - 1));
    left.get() == 0
}

impl Inner {
    /// Runs one request on the calling thread, with those of other threads where that is better for all of them.
    pub(crate) fn run_in_company(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
    ) -> Result<Outcome> {
        let presence = self.presence(shape, true);
        match presence.company() {
            Some(company) => self.gather(company, Request::new(operands.reborrow(), None), shape),
            None => self.run_direct(operands, shape, watch),
        }
    }

    /// Counts the calling thread among those that have a request for which company would pay, if it would. `begins`: it may be done
    /// alone as well, as a message that lives with the lanes already may not.
    pub(crate) fn presence(&self, shape: Shape, begins: bool) -> Presence<'_> {
        let waits = self.gantry.waits();
        // Nothing that threads share is written as long as each can have a CPU, or company does not pay.
        let most = waits.crowd();
        if most > 1 {
            let Company { requests, saving_ns } = self.company(shape.operation, shape.bytes, most);
            if requests > 1 && waits.pays(saving_ns) {
                let meeting = self.gantry.meeting(self.params.algorithm());
                meeting.enter();
                let looks = !begins || meeting.trial.looks_for_company(shape.bytes, self.gantry.clock().now());
                let comes = looks && meeting.threads() / waits.cores >= requests;
                return Presence { meeting: Some(meeting), company: if comes { requests } else { 1 } };
            }
        }
        Presence::default()
    }

    /// The same for work that others than our devices may do. It is work all the same: policies learn what company is worth after
    /// enough of it, wherever it was done.
    pub(crate) fn presence_of_work(&self, shape: Shape) -> Presence<'_> {
        let presence = self.presence(shape, true);
        if presence.meeting.is_none() && self.gantry.waits().crowd() > 1 {
            let _ = self.ask(&Question::one(shape, 0));
        }
        presence
    }

    /// Runs a request with so many others if they come.
    pub(crate) fn gather(&self, company: usize, mut request: Request<'_>, shape: Shape) -> Result<Outcome> {
        let meeting = self.gantry.meeting(self.params.algorithm());
        self.dispatch(&mut request, shape, |dispatcher, list, home, done| {
            self.meet(dispatcher, meeting, company, list, home, done);
            dispatcher.finish(&self.gantry, done);
        });
        request.body.end(self.params.algorithm())
    }

    /// Lays a request down, and waits until it is back or in a line of our own.
    fn meet(
        &self,
        dispatcher: &mut Dispatcher<&Inbox>,
        meeting: &Meeting,
        company: usize,
        request: List,
        home: &Inbox,
        done: &mut List,
    ) {
        let (gantry, clock) = (&self.gantry, self.gantry.clock());
        thread_local! {
            static LEFT: Cell<u32> = const { Cell::new(0) };
        }
        let before = if is_due(&LEFT, MEASURED) { clock.cpu() } else { None };
        let mut there = dispatcher.post(meeting, request);
        let end = clock.now().saturating_add(gantry.waits().longest);
        let mut turns = TURNS * company;
        while there < company && turns > 0 && clock.now() < end {
            std::thread::yield_now();
            if dispatcher.poll(gantry, done) {
                break;
            }
            there = meeting.there();
            turns -= 1;
        }
        if done.is_empty() {
            dispatcher.gather(self, meeting, done);
            if !done.is_empty() || dispatcher.has_lines() {
                return;
            }
        }
        // Others have it.
        turns = TURNS * company;
        let mut slept = 0;
        while done.is_empty() && !dispatcher.poll(gantry, done) {
            if turns > 0 {
                std::thread::yield_now();
                turns -= 1;
            } else if home.sleep(this_thread()) {
                std::thread::park_timeout(LOOK);
                slept = 1;
            }
        }
        if let Some((before, after)) = before.zip(clock.cpu()) {
            // The one who wakes spends about as much as the one who sleeps.
            gantry.waits().learn(after.saturating_sub(before) << slept);
        }
    }
}

/// Wakes the calling thread.
pub(crate) fn this_thread() -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    }
    WAKER.with(Clone::clone)
}

/// How a message begins, from [`Session::begin`](crate::Session::begin).
pub enum Beginning<'s> {
    /// On a device that works on several at a time: it has the first piece, together with what other threads had.
    Together(Stream),
    /// Nothing was done: wherever the caller has the message, it is as well off there.
    Alone(Presence<'s>),
}

/// As long as this lives, other threads count with the one that has it: who is at work alone while there are more threads than CPUs
/// would have waited for company, if there were any.
#[derive(Default)]
pub struct Presence<'s> {
    meeting: Option<&'s Meeting>,
    company: usize,
}

impl Presence<'_> {
    /// How many may meet now.
    pub(crate) fn company(&self) -> Option<usize> {
        (self.company > 1).then_some(self.company)
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if let Some(meeting) = self.meeting {
            meeting.leave();
        }
    }
}

/// Where requests of one algorithm wait for company.
#[repr(align(128))] // a cache line of its own, and the one that comes along
pub(crate) struct Meeting {
    waiting: Stack,
    /// At least as many as there are in `waiting`.
    count: AtomicUsize,
    /// Threads and queues that have something for which company would pay.
    threads: AtomicUsize,
    trial: Trial,
}

impl Default for Meeting {
    fn default() -> Self {
        Self {
            waiting: Stack::new(),
            count: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            trial: Trial::default(),
        }
    }
}

impl Meeting {
    /// Lays requests down. Returns how many lie there.
    pub(crate) fn post(&self, list: List) -> usize {
        let posted = list.len();
        // First, so that the count is never too low and nobody waits for one who is there.
        let count = self.count.fetch_add(posted, Ordering::SeqCst) + posted;
        self.waiting.push(list);
        count
    }

    /// How many requests lie there, or were there a moment ago.
    fn there(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> List {
        let list = self.waiting.take();
        let counted = self.count.fetch_sub(list.len(), Ordering::SeqCst);
        debug_assert!(counted >= list.len(), "nobody waits for one who is there");
        list
    }

    /// Somebody comes who has a request for which company would pay.
    pub(crate) fn enter(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    /// One of those goes.
    pub(crate) fn leave(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod races {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::Session;
    use crate::races::{Bell, request, session, slots};

    /// What `Inner::meet` does, without devices: lays a request down, takes along what is there, and sleeps until its own is
    /// back. Returns which ones it ran. Nobody looks again after a while here.
    fn meet(meeting: &Meeting, session: &Session, slot: u32) -> Vec<u32> {
        const COMPANY: usize = 2;
        let home = Inbox::new();
        let (mut own, mut ran) = (List::new(), Vec::new());
        let there = meeting.post(request(session, &home, slot));
        if there < COMPANY && meeting.there() < COMPANY {
            thread::yield_now();
            own.append(&mut home.take());
        }
        if own.is_empty() {
            for handle in meeting.take() {
                ran.push(handle.link.slot);
                if handle.is_at_home(&home) { own.push(handle) } else { handle.deliver() }
            }
        }
        while own.is_empty() {
            let bell = Bell::new();
            if home.sleep(bell.clone().into()) {
                bell.wait();
            }
            own.append(&mut home.take());
        }
        assert_eq!(slots(own), [slot], "its own, once");
        home.settle();
        ran
    }

    #[test]
    fn who_meets_is_run_once_and_woken() {
        loom::model(|| {
            let (session, meeting) = (session(), Arc::new(Meeting::default()));
            let threads = [1, 2].map(|slot| {
                let (session, meeting) = (session.clone(), meeting.clone());
                thread::spawn(move || meet(&meeting, &session, slot))
            });
            let mut ran: Vec<u32> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            ran.sort_unstable();
            assert_eq!(ran, [1, 2]);
            assert_eq!((meeting.there(), meeting.take().len()), (0, 0));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waits_that_cost_more_than_they_save_stop_and_are_tried_again_by_and_by() {
        let waits = Waits::new(LONGEST);
        let saving = 3000;
        assert!(waits.pays(saving));
        let mut learned = 0;
        while waits.pays(saving) {
            waits.learn(1_000_000);
            learned += 1;
        }
        assert!((8..64).contains(&learned), "one that was interrupted proves nothing: {learned}");
        assert!(waits.pays(4 * saving), "it pays for more");
        assert!(waits.pays(u32::MAX), "on a 32-bit machine too");

        let refused = (0..).take_while(|_| !waits.pays(saving)).take(10 * FORGET as usize).count();
        assert!(refused >= FORGET as usize - 1 && refused <= 2 * FORGET as usize, "{refused}");
        for _ in 0..1000 {
            waits.learn(200);
        }
        assert!(waits.pays(250) && !waits.pays(150), "it is what it costs now");

        // Far too dear for one that saves little: it is not tried, whatever is forgotten.
        while waits.pays(saving) {
            waits.learn(1_000_000);
        }
        assert!((0..10 * FORGET).all(|_| !waits.pays(saving / 3)));
    }
}
