//! Batches of one session.

use gantry_core::{Request, Result, Session};

/// Runs a batch in which every request has to succeed.
pub(crate) fn all(session: &Session, requests: &mut [Request<'_>]) -> Result<()> {
    session.process(requests)?;
    requests.iter_mut().try_for_each(|request| request.result()?.ok())
}

/// Runs a batch, and returns how each request ended.
pub(crate) fn each(session: &Session, requests: &mut [Request<'_>]) -> Result<Vec<Result<()>>> {
    Session::process_each(&vec![session; requests.len()], requests)?;
    Ok(requests.iter_mut().map(|request| request.result()?.ok()).collect())
}
