//! One device behind core, without failover to another device.

use gantry_core::route::Ask;
use gantry_core::{DeviceState, Gantry, Policy, RegisteredDevice, Result, Route, Session, SessionParams};

use crate::case::{Answer, Case, CaseError, Placement, run};

/// A device under test, or the one to compare with.
#[derive(Debug)]
pub(crate) struct Subject {
    gantry: Gantry,
    index: usize,
}

impl Subject {
    /// Returns `None` if no device has this name.
    pub(crate) fn new(gantry: &Gantry, name: &str) -> Option<Self> {
        let index = gantry.devices().iter().position(|device| device.name() == name)?;
        Some(Self { gantry: gantry.with_policy(OnlyDevice(index)), index })
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

/// The source of required answers: the reference. If it does not serve the request, the device itself runs the request alone; the vectors
/// have checked that path before.
pub(crate) struct Oracle {
    reference: Option<Session>,
    subject: Session,
}

impl Oracle {
    pub(crate) fn new(reference: Option<&Subject>, subject: &Subject, params: &SessionParams) -> Result<Self> {
        let offers = |reference: &&Subject| reference.device().capability(params.algorithm()).is_some();
        let reference = reference.filter(offers).and_then(|reference| reference.session(params.clone()).ok());
        Ok(Self { reference, subject: subject.session(params.clone())? })
    }

    pub(crate) fn answer(&self, case: &Case) -> std::result::Result<Answer, CaseError> {
        match self.reference.as_ref().map(|session| run(session, case, Placement::SEPARATE)) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(CaseError::Wrong(what))) => Err(CaseError::Wrong(format!("the reference: {what}"))),
            Some(Err(CaseError::Unsupported(_) | CaseError::Misuse(_))) | None => {
                run(&self.subject, case, Placement::SEPARATE)
            }
        }
    }
}

/// A policy that sends every request to one device, without failover.
#[derive(Debug)]
struct OnlyDevice(usize);

impl Policy for OnlyDevice {
    fn name(&self) -> &'static str {
        "only"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let choice = ask.choices().find(|choice| choice.device == self.0)?;
        Some(ask.all_to(&choice, gantry_core::route::Reason::Pinned))
    }
}
