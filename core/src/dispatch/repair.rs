//! What becomes of requests that did not end well on a device.

use super::direct::after;
use super::list::{Handle, List};
use super::request::Rare;
use crate::algorithm::{Error, Fault};
use crate::route::Route;

/// The device panicked over the first of the requests that have no result; the rest it has not seen.
#[cold]
pub(super) fn blame(route: Route, part: &mut List) {
    let mut fault = Fault::Panicked;
    part.each(|handle| {
        if handle.entry.outcome.is_none() && handle.fault().is_none() {
            handle.route = Some(route);
            handle.entry.finish(Err(std::mem::replace(&mut fault, Fault::failed("the driver panicked"))));
        }
    });
}

/// Counts a result that is not `Done`. `false` if it is a device's failure, and the request is to run elsewhere.
#[cold]
pub(super) fn settle(handle: &mut Handle) -> bool {
    let (shape, operation) = (handle.note.shape, handle.note.shape.operation);
    let mut tried = handle.note.tried;
    let (owner, request) = handle.parts();
    let Some(route) = request.route else { return true };
    let (site, here) = (owner.site(route.device, operation), owner.counters().here());
    let Rare { error: before, shadow, .. } = request.rare.take().map(|rare| *rare).unwrap_or_default();
    let fault = match (request.entry.outcome, request.entry.fault.take().map(|fault| *fault)) {
        // What another device said before is of no interest any more.
        (Some(outcome), _) => {
            let outcome = owner.verified(shadow, site, &mut request.entry.operands, outcome, route.device);
            request.entry.outcome = Some(outcome);
            here.outcome(site, outcome);
            return true;
        }
        (None, Some(fault)) => fault,
        (None, None) => {
            request.rare = before.map(|error| Box::new(Rare { error: Some(error), ..Rare::default() }));
            return true;
        }
    };
    here.fault(site, &fault);
    let is_spoilt = fault.spoils(shape);
    let algorithm = owner.params.algorithm();
    let error = match fault {
        Fault::Declined(why) => {
            let why = format!("{}: {why}", owner.gantry.devices()[route.device].name());
            Error::Unserved { algorithm, operation, reasons: vec![why] }
        }
        last => {
            owner.quarantine(route.device, site);
            Error::Device { algorithm, last }
        }
    };
    tried |= 1 << route.device;
    request.rare().error = Some(match (before, error) {
        (Some(Error::Unserved { mut reasons, .. }), Error::Unserved { reasons: more, .. }) => {
            reasons.extend(more);
            Error::Unserved { algorithm, operation, reasons }
        }
        (Some(failed @ Error::Device { .. }), Error::Unserved { .. }) => failed,
        (_, error) => error,
    });
    if let Some(bound) = &mut request.bound {
        // A piece is missing: what would come now is the digest of another message.
        *bound.broken = true;
        return true;
    }
    if is_spoilt {
        return true;
    }
    handle.note.tried = tried;
    false
}

/// Runs a request in this thread, after what devices have said that tried before; on one device after the other.
pub(super) fn run_here(handle: &mut Handle) {
    let (tried, shape) = (handle.note.tried, handle.note.shape);
    let copied = handle.copy_segments();
    let (owner, request) = handle.parts();
    let attempts = after(tried, request.take_error());
    let mut watch = owner.counters().watch(1);
    match owner.run_after(attempts, &mut request.entry.operands, shape, &mut watch, &mut request.route) {
        Ok(outcome) => request.entry.outcome = Some(outcome),
        Err(error) => request.rare().error = Some(error),
    }
    if let Some(route) = request.route.filter(|_| copied > 0) {
        owner.gantry.count_copied(route.device, owner.params.algorithm(), shape.operation, copied);
    }
}
