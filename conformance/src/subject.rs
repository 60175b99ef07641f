//! One device, reached as programs reach it but with nobody to step in for it.

use gantry_core::route::Ask;
use gantry_core::{DeviceState, Gantry, Policy, RegisteredDevice, Result, Route, Session, SessionParams};

use crate::case::{Answer, Case, Placement, Trouble, run};

/// A device under test, or the one to compare with.
#[derive(Debug)]
pub(crate) struct Subject {
    gantry: Gantry,
    index: usize,
}

impl Subject {
    /// `None` when no device has this name.
    pub(crate) fn new(gantry: &Gantry, name: &str) -> Option<Self> {
        let index = gantry.devices().iter().position(|device| device.name() == name)?;
        Some(Self { gantry: gantry.with_policy(Only(index)), index })
    }

    pub(crate) fn session(&self, params: SessionParams) -> Result<Session> {
        self.gantry.session(params)
    }

    pub(crate) fn device(&self) -> &RegisteredDevice {
        &self.gantry.devices()[self.index]
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.device().state() == DeviceState::Ready
    }
}

/// What an answer must be: the reference's, or where it has none, the device's own for a request by itself, which the
/// vectors have judged before.
pub(crate) struct Truth {
    reference: Option<Session>,
    own: Session,
}

impl Truth {
    pub(crate) fn new(reference: Option<&Subject>, subject: &Subject, params: &SessionParams) -> Result<Self> {
        let offers = |reference: &&Subject| reference.device().capability(params.algorithm()).is_some();
        let reference = reference.filter(offers).and_then(|reference| reference.session(params.clone()).ok());
        Ok(Self { reference, own: subject.session(params.clone())? })
    }

    pub(crate) fn answer(&self, case: &Case) -> std::result::Result<Answer, Trouble> {
        match self.reference.as_ref().map(|session| run(session, case, Placement::SEPARATE)) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(Trouble::Wrong(what))) => Err(Trouble::Wrong(format!("the reference: {what}"))),
            Some(Err(Trouble::Unsupported(_) | Trouble::Misuse(_))) | None => run(&self.own, case, Placement::SEPARATE),
        }
    }
}

/// Every request to one device, and to no other one when that fails.
#[derive(Debug)]
struct Only(usize);

impl Policy for Only {
    fn name(&self) -> &'static str {
        "only"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let choice = ask.choices().find(|choice| choice.device == self.0)?;
        Some(ask.all_to(&choice, gantry_core::route::Reason::Pinned))
    }
}
