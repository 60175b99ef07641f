//! The way back: polling, waiting, and taking back.

use std::ops::Deref;
use std::task::Waker;
use std::time::Duration;

use super::dispatcher::{Dispatcher, put_away};
use super::framework::Gantry;
use super::inbox::Inbox;
use super::line::Line;
use super::list::{Handle, List};
use super::request::Request;
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
    pub(super) fn collect(&mut self, gantry: &Gantry) -> List {
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
    pub(super) fn close(&mut self, gantry: &Gantry, done: &mut List) {
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
