//! What came back from devices: done, to be repaired, or others'.

use std::ops::Deref;

use super::address::address_by_owner;
use super::dispatcher::Dispatcher;
use super::inbox::Inbox;
use super::list::{Handle, List};
use super::repair::{run_here, settle};
use super::request::Request;
use crate::algorithm::Shape;
use crate::route::Question;
use crate::stats::{Event, Site};

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    /// What came back: ours are repaired and done, those of others are told.
    pub(super) fn sort(&mut self, mut mixed: bool, mut back: List, done: &mut List) {
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

    pub(super) fn keep_own(&mut self, mixed: bool, mut back: List, own: &mut List) {
        // Only lines and coalescers serve others.
        if mixed || !self.lines.is_empty() {
            self.deliver_foreign(&mut back);
        }
        self.out -= back.len();
        own.append(&mut back);
    }

    pub(super) fn deliver_foreign(&self, list: &mut List) {
        if list.iter().all(|request| request.is_at_home(&self.inbox)) {
            return;
        }
        list.extract(|request| !request.is_at_home(&self.inbox)).for_each(Handle::deliver);
    }

    /// Runs each request by itself.
    pub(super) fn run_one_by_one(&mut self, mut list: List, done: &mut List) {
        self.amiss = true;
        list.each(run_here);
        self.deliver_foreign(&mut list);
        done.append(&mut list);
    }
}
