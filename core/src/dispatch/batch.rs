//! Batches whose caller waits for them.

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
use crate::request::{BorrowedBatch, Inbox, List, Request, StreamBinding};
use crate::stats::Site;

/// Rare properties of a batch. Kept in memory rather than registers, so that common batches do not pay for them.
#[derive(Default)]
struct RareFlags {
    /// Some requests have an outcome without a device.
    ended: bool,
    /// Some requests cannot share a route.
    separate: bool,
}

impl RareFlags {
    #[cold]
    #[inline(never)]
    fn set_ended(&mut self) {
        self.ended = true;
    }

    #[cold]
    #[inline(never)]
    fn set_separate(&mut self) {
        self.separate = true;
    }
}

impl SessionCore {
    /// Runs a batch of this session. If a request fails the checks, returns its error and runs none. Otherwise returns the error of the
    /// last request that no device served, if there is one.
    #[inline]
    pub(crate) fn process(&self, requests: &mut [Request<'_>]) -> Result<()> {
        let mut timer = self.counters().timer(requests.len());
        let counters = timer.counters();
        let inbox = Inbox::new();
        let mut dispatcher = Dispatcher::new(&inbox, Sender::default());
        let (mut group, mut flags) = (Group::new(false, requests.len()), RareFlags::default());
        let examine = |_, request: &mut Request<'_>| {
            if let Some(outcome) = self.examine(request)? {
                counters
                    .count_outcome(Site::without_device(request.meta.algorithm, request.meta.shape.operation), outcome);
                request.entry.outcome = Some(outcome);
                flags.set_ended();
            } else if !group.try_add(self, request) {
                flags.set_separate();
            }
            Ok::<_, Error>(Some(NonNull::from(self).cast()))
        };
        // SAFETY: the caller borrows the session for longer than the batch.
        let mut batch = unsafe { BorrowedBatch::new(requests, &inbox, examine) }?;
        if flags.ended {
            batch.remove_finished();
        }
        batch.run(|list| {
            let mut done = List::new();
            if flags.separate {
                dispatcher.send_all(self, list, false, &mut timer, &mut done);
            } else {
                group.list = list;
                dispatcher.send(self, group, &mut timer, &mut done);
            }
            dispatcher.finish(&self.gantry, &mut done);
            done
        });
        if dispatcher.has_errors
            && let Some(error) = requests.iter_mut().filter_map(Request::take_error).last()
        {
            return Err(error);
        }
        Ok(())
    }

    /// Runs requests of any sessions of this framework. `session_of` returns the session of the request at an index. An error stays with
    /// its request.
    pub(crate) fn process_each<'s>(&self, session_of: impl Fn(usize) -> &'s SessionCore, requests: &mut [Request<'_>]) {
        /// Requests of one algorithm and operation, which share routes.
        struct RequestClass<'s> {
            lead: &'s SessionCore,
            operation: Operation,
            /// The requests belong to several sessions.
            mixed: bool,
        }
        let mut timer = self.counters().timer(requests.len());
        let counters = timer.counters();
        let inbox = Inbox::new();
        let mut dispatcher = Dispatcher::new(&inbox, Sender::default());
        let (mut classes, mut ended) = (SmallVec::<[RequestClass<'s>; 4]>::new(), false);
        let examine = |index, request: &mut Request<'_>| {
            let session = session_of(index);
            match session.examine(request) {
                Ok(None) => {
                    let (algorithm, operation) = (request.meta.algorithm, request.meta.shape.operation);
                    let is_of_class = |class: &&mut RequestClass<'s>| {
                        class.operation == operation && class.lead.params.algorithm() == algorithm
                    };
                    match classes.iter_mut().find(is_of_class) {
                        Some(class) => class.mixed |= !std::ptr::eq(class.lead, session),
                        None => classes.push(RequestClass { lead: session, operation, mixed: false }),
                    }
                }
                Ok(Some(outcome)) => {
                    counters.count_outcome(
                        Site::without_device(request.meta.algorithm, request.meta.shape.operation),
                        outcome,
                    );
                    request.entry.outcome = Some(outcome);
                    ended = true;
                }
                Err(error) => {
                    request.refuse(error);
                    ended = true;
                }
            }
            Ok::<_, Infallible>(Some(NonNull::from(session).cast()))
        };
        // SAFETY: the caller borrows the sessions for longer than the batch.
        let Ok(mut batch) = unsafe { BorrowedBatch::new(requests, &inbox, examine) };
        if ended {
            batch.remove_finished();
        }
        batch.run(|mut list| {
            let mut done = List::new();
            for RequestClass { lead, operation, mixed } in classes {
                let algorithm = lead.params.algorithm();
                let is_of_class = |request: &Request<'_>| {
                    request.meta.algorithm == algorithm && request.meta.shape.operation == operation
                };
                let all = list.iter().all(is_of_class);
                let class = if all { std::mem::take(&mut list) } else { list.extract(|request| is_of_class(request)) };
                dispatcher.send_all(lead, class, mixed, &mut timer, &mut done);
            }
            dispatcher.finish(&self.gantry, &mut done);
            done
        });
    }

    /// Checks a request before it runs. Returns its outcome if it has one without a device.
    #[inline]
    fn examine(&self, request: &mut Request<'_>) -> Result<Option<Outcome>> {
        request.clear_result();
        let algorithm = self.params.algorithm();
        request.meta.algorithm = algorithm;
        let (shape, outcome) = self.limits.check(&request.entry.operands)?;
        request.meta.shape = shape;
        if let Some(stream) = &request.stream {
            check_stream(shape.operation, stream, self)?;
            if *stream.has_lost_chunk {
                return Err(Error::Device { algorithm, last: Fault::Lost });
            }
        } else if matches!(request.entry.operands, Operands::Update { .. } | Operands::Finish { .. }) {
            return Err(Misuse::Stream { algorithm, operation: shape.operation }.into());
        }
        Ok(outcome)
    }
}

/// Checks that a stream belongs to the session: the stream's state cannot leave the session's device.
fn check_stream(
    operation: Operation,
    stream: &StreamBinding<'_>,
    session: &SessionCore,
) -> std::result::Result<(), Misuse> {
    if stream.session == session.id() {
        return Ok(());
    }
    Err(Misuse::Stream { algorithm: session.params.algorithm(), operation })
}
