//! Completions: polling, waiting, and taking requests back.

use std::ops::Deref;
use std::task::Waker;
use std::time::Duration;

use super::direct::{finalize_result, run_on_this_thread};
use super::dispatcher::{Dispatcher, release_pair};
use super::framework::Gantry;
use super::group::set_route_of_own_session;
use crate::algorithm::Shape;
use crate::devices::ActivePair;
use crate::request::{Handle, Inbox, List, Request};
use crate::route::Question;
use crate::stats::{Event, Site};
use crate::sync::{sleep, this_thread_waker};

/// Nanoseconds for which a thread spins for a device that can notify: about the cost of falling asleep and being woken.
const SPIN_NS: u64 = 50_000;

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    /// Collects and sorts completed requests, and serves the backlogs. Returns `true` if a request came back.
    pub(crate) fn poll(&mut self, gantry: &Gantry, done: &mut List) -> bool {
        let returned = self.collect(gantry);
        if returned.is_empty() {
            return false;
        }
        self.sort_completions(true, returned, done);
        true
    }

    /// Collects completed requests from our own queue pairs, the inbox, and the shared queue pairs.
    pub(crate) fn collect(&mut self, gantry: &Gantry) -> List {
        let mut returned = self.inbox.take();
        for active in &mut self.pairs {
            poll_pair(gantry, active, &mut returned);
        }
        self.pairs.retain(|active| active.pair.is_open() || active.pair.in_flight() > 0);
        if self.in_flight > self.in_own_pairs() + returned.len() {
            // Other threads may have put our requests into their batches, and sent them to any device.
            (0..gantry.devices().len()).for_each(|device| gantry.serve(device, true, &mut returned));
        } else {
            // Our completions made room for waiting requests.
            self.pairs.iter().for_each(|active| gantry.serve(active.device, true, &mut returned));
        }
        self.release_idle_pairs(gantry, self.in_flight == returned.len());
        returned
    }

    /// Releases idle queue pairs if they are scarce or all our requests are back. A thread that kept them and stopped calling could keep
    /// every other thread off the device.
    fn release_idle_pairs(&mut self, gantry: &Gantry, all_back: bool) {
        self.release_pairs(gantry, |active| all_back || gantry.devices()[active.device].has_few_pairs());
    }

    /// Releases the idle queue pairs that `which` selects.
    fn release_pairs(&mut self, gantry: &Gantry, which: impl Fn(&ActivePair) -> bool) {
        while let Some(idle) = self.pairs.iter().position(|active| active.is_idle() && which(active)) {
            release_pair(gantry, self.pairs.swap_remove(idle));
        }
    }

    fn in_own_pairs(&self) -> usize {
        self.pairs.iter().map(|active| active.pair.in_flight()).sum()
    }

    /// Polls until none of our requests is in flight, then releases the queue pairs.
    pub(crate) fn finish(&mut self, gantry: &Gantry, done: &mut List) {
        while self.in_flight > 0 {
            if !self.poll(gantry, done) {
                self.wait(gantry, None);
            }
        }
        self.close(gantry, done);
    }

    /// Waits until it makes sense to poll again, at most until `until`. May return early, as a [clock](crate::clock::Clock::wait) may.
    pub(crate) fn wait(&mut self, gantry: &Gantry, until: Option<u64>) {
        let clock = gantry.clock();
        let until = until.into_iter().chain(self.deadline(gantry)).min();
        // Sleeping delays the next poll, so spin for a moment first.
        let since = self.pairs.iter().filter_map(ActivePair::oldest_since).max();
        let has_spun = since.is_some_and(|since| clock.now().saturating_sub(since) > SPIN_NS);
        if has_spun && self.inbox.register_waker(this_thread_waker()) && self.arm(&this_thread_waker()) {
            let left = until.map_or(u64::MAX, |until| until.saturating_sub(clock.now()));
            sleep(Duration::from_nanos(left));
        }
        // Lets other threads run, and moves a simulated clock.
        clock.wait(until);
    }

    /// Returns the earlier of two times: when a device with our requests is late, and when the shared queue pairs must be polled.
    pub(crate) fn deadline(&self, gantry: &Gantry) -> Option<u64> {
        let own =
            self.pairs.iter().filter_map(|active| active.deadline(gantry.devices()[active.device].health())).min();
        let has_shared = self.in_flight > self.in_own_pairs();
        let common = gantry.devices().iter().filter(|_| has_shared).filter_map(|device| {
            let device = device.active()?;
            let waits = device.shared.has_requests() || !device.health.backlog.is_empty();
            waits.then(|| device.shared.deadline())?
        });
        own.into_iter().chain(common).min()
    }

    /// Releases the queue pairs, none of which has a request of ours.
    pub(crate) fn close(&mut self, gantry: &Gantry, done: &mut List) {
        loop {
            self.release_pairs(gantry, |_| true);
            if self.pairs.is_empty() {
                return;
            }
            // A device that claims to work in the calling thread has kept requests of other threads.
            let mut returned = List::new();
            self.pairs.iter_mut().for_each(|active| poll_pair(gantry, active, &mut returned));
            if returned.is_empty() {
                self.wait(gantry, None);
            }
            self.sort_completions(true, returned, done);
        }
    }

    /// Takes back all requests that no device has, drops the queue pairs, and collects the requests that the queue pairs return. Requests
    /// that are still in flight afterwards will not come back.
    pub(crate) fn abandon(&mut self, gantry: &Gantry, done: &mut List) {
        let mut returned = List::new();
        for active in &mut self.pairs {
            active.take_back(gantry.devices()[active.device].health(), &self.inbox, &mut returned);
        }
        if self.in_flight > returned.len() {
            for device in gantry.devices() {
                let Some(device) = device.active() else { continue };
                device.with_context(gantry.common(), gantry.learner(), |context| {
                    device.shared.abandon(context, &self.inbox, &mut returned);
                });
            }
        }
        returned.append(&mut self.inbox.take());
        self.keep_own(true, returned, done);
    }

    /// Takes one request back, if no device has it yet.
    pub(crate) fn withdraw(&mut self, gantry: &Gantry, is_it: impl Fn(&Request<'static>) -> bool) -> Option<Handle> {
        let devices = gantry.devices().iter().filter_map(|device| device.active());
        let handle = { devices }.find_map(|device| device.health.backlog.withdraw_one(&self.inbox, &is_it))?;
        self.in_flight -= 1;
        Some(handle)
    }

    /// Asks every device with our requests to wake `waker`. Returns `false` if a queue pair must be polled, as every shared one must.
    pub(crate) fn arm(&mut self, waker: &Waker) -> bool {
        self.in_flight == self.in_own_pairs() && self.pairs.iter_mut().all(|active| active.pair.arm(waker))
    }
}

/// Collects completed requests of a queue pair.
fn poll_pair(gantry: &Gantry, active: &mut ActivePair, returned: &mut List) {
    let health = gantry.devices()[active.device].health();
    active.poll(health, gantry.common(), gantry.learner(), returned);
}

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    /// Sorts requests that came back: completes ours, retries failed ones, and delivers the others to their owners. `mixed`: some requests
    /// may belong to other threads.
    pub(crate) fn sort_completions(&mut self, mut mixed: bool, mut returned: List, done: &mut List) {
        while !returned.is_empty() {
            let mut own = List::new();
            self.keep_own(mixed, std::mem::take(&mut returned), &mut own);
            if own.iter().all(Request::is_done) {
                return done.append(&mut own);
            }
            self.has_errors = true;
            for mut handle in own {
                if handle.is_done() || finalize_result(&mut handle) {
                    done.push(handle);
                } else {
                    self.retry(handle, &mut returned, done);
                }
            }
            mixed = true;
        }
    }

    /// Retries a failed request on another device: in this thread, or on a queue pair, from which it comes back like others.
    #[cold]
    fn retry(&mut self, mut handle: Handle, returned: &mut List, done: &mut List) {
        let session = handle.session();
        let Shape { operation, bytes, .. } = handle.meta.shape;
        let tried_devices = handle.meta.tried_devices;
        let route = session.ask(&Question::one(handle.meta.shape, tried_devices));
        let ring = route.and_then(|route| {
            let index = session.candidate_index(route.device)?;
            let ring = tried_devices >> route.device & 1 == 0 && !session.candidates[index].capability.synchronous;
            ring.then_some((route, index))
        });
        let gantry = session.gantry.clone();
        let Some((route, index)) = ring.filter(|(route, index)| set_route_of_own_session(&mut handle, *index, *route))
        else {
            run_on_this_thread(&mut handle);
            return done.push(handle);
        };
        let site = Site::new(route.device, handle.meta.algorithm, operation);
        let mut timer = gantry.counters().timer(1);
        timer.count_sent(site, route.reason, 1, bytes);
        timer.counters().count_event(site, Event::Retried, 1);
        let (session, request) = handle.parts();
        session.keep_shadow_if_due(index, request);
        handle.meta.tried_devices |= 1 << route.device;
        handle.meta.since = gantry.clock().now().max(1);
        self.submit(&gantry, route.device, site, List::from_iter([handle]), false, returned);
    }

    /// Moves our requests to `own`, and delivers the others. `mixed`: some requests may belong to other threads.
    pub(crate) fn keep_own(&mut self, mixed: bool, mut returned: List, own: &mut List) {
        // Only queue pairs and coalescers serve other threads.
        if mixed || !self.pairs.is_empty() {
            self.deliver_foreign(&mut returned);
        }
        self.in_flight -= returned.len();
        own.append(&mut returned);
    }

    /// Delivers the requests of other threads to their inboxes, and leaves ours in the list.
    pub(crate) fn deliver_foreign(&self, list: &mut List) {
        if list.iter().all(|request| request.comes_back_to(&self.inbox)) {
            return;
        }
        list.extract(|request| !request.comes_back_to(&self.inbox)).for_each(Handle::deliver);
    }

    /// Runs each request alone.
    pub(crate) fn run_one_by_one(&mut self, mut list: List, done: &mut List) {
        self.has_errors = true;
        list.each(run_on_this_thread);
        self.deliver_foreign(&mut list);
        done.append(&mut list);
    }
}
