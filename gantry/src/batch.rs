//! Batches of one session.

use gantry_core::{Request, Result, Session};

/// Runs a batch. Returns the first error of a request, if any.
pub(crate) fn run_all(session: &Session, requests: &mut [Request<'_>]) -> Result<()> {
    session.process(requests)?;
    requests.iter_mut().try_for_each(|request| request.result()?.ok())
}

/// Runs a batch. Returns the result of each request: one that is invalid does not stop the others.
pub(crate) fn run_each(session: &Session, requests: &mut [Request<'_>]) -> Result<Vec<Result<()>>> {
    Session::process_each(&vec![session; requests.len()], requests)?;
    Ok(requests.iter_mut().map(|request| request.result()?.ok()).collect())
}
