//! The way back: polling, waiting, and taking back.

use std::ops::Deref;
use std::task::Waker;
use std::time::Duration;

use super::direct::{run_here, settle};
use super::dispatcher::{Dispatcher, put_away};
use super::framework::Gantry;
use super::group::address_by_owner;
use crate::algorithm::Shape;
use crate::devices::Line;
use crate::request::{Handle, Inbox, List, Request};
use crate::route::Question;
use crate::stats::{Event, Site};
use crate::sync::{sleep, this_thread};

/// So many nanoseconds a thread waits awake for a device that tells: about what it costs to fall asleep and to be woken.
const AWAKE: u64 = 50_000;

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    /// Takes what is ready, and passes on what waits. Whether something came back.
    pub(crate) fn poll(&mut self, gantry: &Gantry, done: &mut List) -> bool {
        let back = self.collect(gantry);
        if back.is_empty() {
            return false;
        }
        self.sort(true, back, done);
        true
    }

    /// What is back, from our own lines and from where others have a hand in it.
    pub(crate) fn collect(&mut self, gantry: &Gantry) -> List {
        let mut back = self.inbox.take();
        for line in &mut self.lines {
            poll_line(gantry, line, &mut back);
        }
        self.lines.retain(|line| line.pair.is_open() || line.pair.in_flight() > 0);
        if self.out > self.in_own_lines() + back.len() {
            // Somebody may have taken ours along, to wherever it was.
            (0..gantry.devices().len()).for_each(|device| gantry.serve(device, true, &mut back));
        } else {
            // Where ours made room, there is something for others.
            self.lines.iter().for_each(|line| gantry.serve(line.device, true, &mut back));
        }
        self.let_go(gantry, self.out == back.len());
        back
    }

    /// Lets others have queue pairs in which nothing is, where they are few or nothing of ours is out: who holds one and is not
    /// called any more would keep everybody else from the device.
    fn let_go(&mut self, gantry: &Gantry, all_back: bool) {
        self.put_away(gantry, |line| all_back || gantry.devices()[line.device].is_scarce());
    }

    /// Puts the queue pairs back in which nothing is, of the lines for which `which` says so.
    fn put_away(&mut self, gantry: &Gantry, which: impl Fn(&Line) -> bool) {
        while let Some(idle) = self.lines.iter().position(|line| line.is_idle() && which(line)) {
            put_away(gantry, self.lines.swap_remove(idle));
        }
    }

    fn in_own_lines(&self) -> usize {
        self.lines.iter().map(|line| line.pair.in_flight()).sum()
    }

    /// Polls until nothing is out, and puts the queues back.
    pub(crate) fn finish(&mut self, gantry: &Gantry, done: &mut List) {
        while self.out > 0 {
            if !self.poll(gantry, done) {
                self.wait(gantry, None);
            }
        }
        self.close(gantry, done);
    }

    /// Waits until it makes sense to poll again, or until then. Returns after a while even so, as [`Clock::wait`] does.
    pub(crate) fn wait(&mut self, gantry: &Gantry, until: Option<u64>) {
        let clock = gantry.clock();
        let until = until.into_iter().chain(self.deadline(gantry)).min();
        // Who falls asleep is late when it is time: a moment is waited for awake.
        let since = self.lines.iter().filter_map(Line::watched_since).max();
        let patient = since.is_some_and(|since| clock.now().saturating_sub(since) > AWAKE);
        if patient && self.inbox.sleep(this_thread()) && self.arm(&this_thread()) {
            let left = until.map_or(u64::MAX, |until| until.saturating_sub(clock.now()));
            sleep(Duration::from_nanos(left));
        }
        clock.wait(until);
    }

    /// When a device is late that has something of ours, or what is in the common lines is to be looked at.
    pub(crate) fn deadline(&self, gantry: &Gantry) -> Option<u64> {
        let own = self.lines.iter().filter_map(|line| line.deadline(gantry.devices()[line.device].health())).min();
        let elsewhere = self.out > self.in_own_lines();
        let common = gantry.devices().iter().filter(|_| elsewhere).filter_map(|device| {
            let present = device.present()?;
            let waits = present.shared.has_any() || !present.health.backlog.is_empty();
            waits.then(|| present.shared.until())?
        });
        own.into_iter().chain(common).min()
    }

    /// Puts the queues back, in which nothing of ours is.
    pub(crate) fn close(&mut self, gantry: &Gantry, done: &mut List) {
        loop {
            self.put_away(gantry, |_| true);
            if self.lines.is_empty() {
                return;
            }
            // A device that says of itself that it works in the calling thread has kept requests of others.
            let mut back = List::new();
            self.lines.iter_mut().for_each(|line| poll_line(gantry, line, &mut back));
            if back.is_empty() {
                self.wait(gantry, None);
            }
            self.sort(true, back, done);
        }
    }

    /// Ends everything: takes back what no device has, drops the lines, and takes what they give back. What then is still
    /// [`out`](Self::out) is in hands from which it does not come.
    pub(crate) fn abandon(&mut self, gantry: &Gantry, done: &mut List) {
        let mut back = List::new();
        for line in &mut self.lines {
            line.take_back(gantry.devices()[line.device].health(), &self.inbox, &mut back);
        }
        if self.out > back.len() {
            for device in gantry.devices() {
                let Some(present) = device.present() else { continue };
                present.with_served(gantry.common(), gantry.learner(), |served| {
                    present.shared.abandon(served, &self.inbox, &mut back);
                });
            }
        }
        back.append(&mut self.inbox.take());
        self.keep_own(true, back, done);
    }

    /// Takes one request back, if no device has it yet.
    pub(crate) fn withdraw(&mut self, gantry: &Gantry, is_it: impl Fn(&Request<'static>) -> bool) -> Option<Handle> {
        let present = gantry.devices().iter().filter_map(|device| device.present());
        let handle = { present }.find_map(|present| present.health.backlog.withdraw_one(&self.inbox, &is_it))?;
        self.out -= 1;
        Some(handle)
    }

    /// Lets every device that has requests of ours wake `waker`. `false` if one of them has to be polled, as those are that others
    /// have a hand in.
    pub(crate) fn arm(&mut self, waker: &Waker) -> bool {
        self.out == self.in_own_lines() && self.lines.iter_mut().all(|line| line.pair.arm(waker))
    }
}

/// Takes what is ready in a line.
fn poll_line(gantry: &Gantry, line: &mut Line, back: &mut List) {
    let health = gantry.devices()[line.device].health();
    line.poll(health, gantry.common(), gantry.learner(), back);
}

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    /// What came back: ours are repaired and done, those of others are told.
    pub(crate) fn sort(&mut self, mut mixed: bool, mut back: List, done: &mut List) {
        while !back.is_empty() {
            let mut own = List::new();
            self.keep_own(mixed, std::mem::take(&mut back), &mut own);
            if own.iter().all(Request::is_done) {
                return done.append(&mut own);
            }
            self.amiss = true;
            for mut handle in own {
                if handle.is_done() || settle(&mut handle) {
                    done.push(handle);
                } else {
                    self.again(handle, &mut back, done);
                }
            }
            mixed = true;
        }
    }

    /// Runs a request elsewhere that a device failed to do: in this thread, or in a ring, from which it comes back as others do.
    #[cold]
    fn again(&mut self, mut handle: Handle, back: &mut List, done: &mut List) {
        let owner = handle.owner();
        let Shape { operation, bytes, .. } = handle.note.shape;
        let tried = handle.note.tried;
        let route = owner.ask(&Question::one(handle.note.shape, tried));
        let ring = route.and_then(|route| {
            let place = owner.place(route.device)?;
            let ring = tried >> route.device & 1 == 0 && !owner.candidates[place].capability.direct;
            ring.then_some((route, place))
        });
        let gantry = owner.gantry.clone();
        let Some((route, place)) = ring.filter(|(route, place)| address_by_owner(&mut handle, *place, *route)) else {
            run_here(&mut handle);
            return done.push(handle);
        };
        let site = Site::new(route.device, handle.note.algorithm, operation);
        let mut watch = gantry.counters().watch(1);
        watch.sent(site, route.reason, 1, bytes);
        watch.here().event(site, Event::Retried, 1);
        let (owner, request) = handle.parts();
        owner.attest(place, request);
        handle.note.tried |= 1 << route.device;
        handle.note.since = gantry.clock().now().max(1);
        self.submit(&gantry, route.device, site, List::from_iter([handle]), false, back);
    }

    pub(crate) fn keep_own(&mut self, mixed: bool, mut back: List, own: &mut List) {
        // Only lines and coalescers serve others.
        if mixed || !self.lines.is_empty() {
            self.deliver_foreign(&mut back);
        }
        self.out -= back.len();
        own.append(&mut back);
    }

    pub(crate) fn deliver_foreign(&self, list: &mut List) {
        if list.iter().all(|request| request.is_at_home(&self.inbox)) {
            return;
        }
        list.extract(|request| !request.is_at_home(&self.inbox)).for_each(Handle::deliver);
    }

    /// Runs each request by itself.
    pub(crate) fn run_one_by_one(&mut self, mut list: List, done: &mut List) {
        self.amiss = true;
        list.each(run_here);
        self.deliver_foreign(&mut list);
        done.append(&mut list);
    }
}
