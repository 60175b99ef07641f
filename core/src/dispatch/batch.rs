//! A batch of a caller who waits for it.

#![allow(unsafe_code)]

use std::convert::Infallible;
use std::ptr::NonNull;

use smallvec::SmallVec;

use super::dispatcher::Dispatcher;
use super::group::Group;
use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Misuse, Operation, Outcome, Result};
use crate::devices::Sender;
use crate::driver::Operands;
use crate::request::{Bound, Inbox, List, Loan, Request};
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
    /// Runs a batch of this session.
    #[inline]
    pub(crate) fn process(&self, requests: &mut [Request<'_>]) -> Result<()> {
        let mut watch = self.counters().watch(requests.len());
        let here = watch.here();
        let home = Inbox::new();
        let mut dispatcher = Dispatcher::new(&home, Sender::default());
        let (mut group, mut seldom) = (Group::new(false), Seldom::default());
        let examine = |_, request: &mut Request<'_>| {
            if let Some(outcome) = self.examine(request)? {
                here.outcome(Site::nowhere(request.note.algorithm, request.note.shape.operation), outcome);
                request.entry.outcome = Some(outcome);
                seldom.some_ended();
            } else if !group.takes_in(self, request) {
                seldom.some_apart();
            }
            Ok::<_, Error>(Some(NonNull::from(self).cast()))
        };
        // SAFETY: the session is borrowed by the caller for longer than the loan.
        let mut loan = unsafe { Loan::of(requests, &home, examine) }?;
        if seldom.ended {
            loan.leave_out_ended();
        }
        loan.run(|list| {
            let mut done = List::new();
            if seldom.apart {
                dispatcher.send_all(self, list, false, &mut watch, &mut done);
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

    /// Runs requests of any sessions of this framework: `owner` is the session of the request in a place. An error stays with its request.
    pub(crate) fn process_each<'s>(&self, owner: impl Fn(usize) -> &'s SessionCore, requests: &mut [Request<'_>]) {
        /// Requests of one algorithm and operation share routes, in the order in which each comes first.
        struct Kin<'s> {
            lead: &'s SessionCore,
            operation: Operation,
            /// They are of several sessions.
            mixed: bool,
        }
        let mut watch = self.counters().watch(requests.len());
        let here = watch.here();
        let home = Inbox::new();
        let mut dispatcher = Dispatcher::new(&home, Sender::default());
        let (mut kins, mut ended) = (SmallVec::<[Kin<'s>; 4]>::new(), false);
        let examine = |place, request: &mut Request<'_>| {
            let owner = owner(place);
            match owner.examine(request) {
                Ok(None) => {
                    let (algorithm, operation) = (request.note.algorithm, request.note.shape.operation);
                    let is_kin =
                        |kin: &&mut Kin<'s>| kin.operation == operation && kin.lead.params.algorithm() == algorithm;
                    match kins.iter_mut().find(is_kin) {
                        Some(kin) => kin.mixed |= !std::ptr::eq(kin.lead, owner),
                        None => kins.push(Kin { lead: owner, operation, mixed: false }),
                    }
                }
                Ok(Some(outcome)) => {
                    here.outcome(Site::nowhere(request.note.algorithm, request.note.shape.operation), outcome);
                    request.entry.outcome = Some(outcome);
                    ended = true;
                }
                Err(error) => {
                    request.refuse(error);
                    ended = true;
                }
            }
            Ok::<_, Infallible>(Some(NonNull::from(owner).cast()))
        };
        // SAFETY: sessions are borrowed by the caller for longer than the loan.
        let Ok(mut loan) = unsafe { Loan::of(requests, &home, examine) };
        if ended {
            loan.leave_out_ended();
        }
        loan.run(|mut list| {
            let mut done = List::new();
            for Kin { lead, operation, mixed } in kins {
                let algorithm = lead.params.algorithm();
                let is_kin = |request: &Request<'_>| {
                    request.note.algorithm == algorithm && request.note.shape.operation == operation
                };
                let all = list.iter().all(is_kin);
                let kin = if all { std::mem::take(&mut list) } else { list.extract(|request| is_kin(request)) };
                dispatcher.send_all(lead, kin, mixed, &mut watch, &mut done);
            }
            dispatcher.finish(&self.gantry, &mut done);
            done
        });
    }

    /// Looks at a request before it is run; its outcome, where it has one without a device.
    #[inline]
    fn examine(&self, request: &mut Request<'_>) -> Result<Option<Outcome>> {
        request.begin();
        let algorithm = self.params.algorithm();
        request.note.algorithm = algorithm;
        let (shape, outcome) = self.limits.check(&request.entry.operands)?;
        request.note.shape = shape;
        if let Some(bound) = &request.bound {
            check_bound(shape.operation, bound, self)?;
            if *bound.broken {
                return Err(Error::Device { algorithm, last: Fault::Lost });
            }
        } else if matches!(request.entry.operands, Operands::Update { .. } | Operands::Finish { .. }) {
            return Err(Misuse::Stream { algorithm, operation: shape.operation }.into());
        }
        Ok(outcome)
    }
}

/// The state of a stream never leaves its session's device: a wrong pairing is a mistake of the caller.
fn check_bound(operation: Operation, bound: &Bound<'_>, session: &SessionCore) -> std::result::Result<(), Misuse> {
    if bound.session == session.id() {
        return Ok(());
    }
    Err(Misuse::Stream { algorithm: session.params.algorithm(), operation })
}
