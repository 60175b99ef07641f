//! A batch of a caller who waits for it.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::backlog::Sender;
use super::dispatcher::Dispatcher;
use super::group::Group;
use super::inbox::Inbox;
use super::list::List;
use super::loan::Loan;
use super::request::{Bound, Request};
use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Misuse, Operation, Result};
use crate::stats::Site;

/// What a batch seldom has. In memory, which costs those nothing that have none of it.
#[derive(Default)]
struct Seldom {
    /// Requests that have an outcome before a device is asked.
    ended: bool,
    /// Requests that cannot share a route.
    apart: bool,
}

impl Seldom {
    #[cold]
    #[inline(never)]
    fn some_ended(&mut self) {
        self.ended = true;
    }

    #[cold]
    #[inline(never)]
    fn some_apart(&mut self) {
        self.apart = true;
    }
}

impl SessionCore {
    /// Runs a batch. `owner` is the session of the request in a place; they are `mixed` if that is not always `self`.
    #[inline]
    pub(crate) fn process<'s>(
        &self,
        mixed: bool,
        owner: impl Fn(usize) -> &'s SessionCore,
        requests: &mut [Request<'_>],
    ) -> Result<()> {
        let mut watch = self.counters().watch(requests.len());
        let here = watch.here();
        let home = Inbox::new();
        let mut dispatcher = Dispatcher::new(&home, Sender::default());
        let (mut group, mut seldom) = (Group::new(mixed), Seldom::default());
        let algorithm = self.params.algorithm();
        let examine = |place, request: &mut Request<'_>| {
            let owner = owner(place);
            request.begin();
            let (shape, outcome) = owner.limits.check(&request.entry.operands)?;
            if let Some(bound) = &request.bound {
                check_bound(shape.operation, bound, owner)?;
                if *bound.broken {
                    return Err(Error::Device { algorithm, last: Fault::Lost });
                }
            }
            request.note.algorithm = algorithm;
            request.note.shape = shape;
            if let Some(outcome) = outcome {
                here.outcome(Site::nowhere(algorithm, shape.operation), outcome);
                request.entry.outcome = Some(outcome);
                seldom.some_ended();
            } else if !group.takes_in(self, request) {
                seldom.some_apart();
            }
            Ok::<_, Error>(Some(NonNull::from(owner).cast()))
        };
        // SAFETY: sessions are borrowed by the caller for longer than the loan.
        let mut loan = unsafe { Loan::of(requests, &home, examine) }?;
        if seldom.ended {
            loan.leave_out_ended();
        }
        loan.run(|list| {
            let mut done = List::new();
            if seldom.apart {
                dispatcher.send_all(self, list, mixed, &mut watch, &mut done);
            } else {
                group.list = list;
                dispatcher.send(self, group, &mut watch, &mut done);
            }
            dispatcher.finish(&self.gantry, &mut done);
            done
        });
        if dispatcher.amiss
            && let Some(error) = requests.iter_mut().filter_map(Request::take_error).last()
        {
            return Err(error);
        }
        Ok(())
    }
}

/// The state of a stream never leaves its session's device: a wrong pairing is a mistake of the caller.
fn check_bound(operation: Operation, bound: &Bound<'_>, session: &SessionCore) -> std::result::Result<(), Misuse> {
    if bound.session == session.id() {
        return Ok(());
    }
    Err(Misuse::Stream { algorithm: session.params.algorithm(), operation })
}
