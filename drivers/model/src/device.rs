//! The modelled device.

use std::sync::Arc;

use gantry_core::driver::{
    Capability, Class, Device, DeviceInfo, DeviceSession, Inline, QueuePair, Refusal, Unsupported,
};
use gantry_core::{Fault, SessionParams};

use crate::card::{Card, Meter, ModelSession};
use crate::clock::ModelClock;
use crate::faults::{FaultInjector, gone_fault};
use crate::profile::{InvalidProfile, Profile};
use crate::queue::ModelQueue;
use crate::running::RunningCard;

pub(crate) struct ModelDevice {
    info: DeviceInfo,
    reference: Arc<dyn Device>,
    card: Arc<RunningCard>,
}

impl ModelDevice {
    pub(crate) fn new(
        profile: Profile,
        reference: Arc<dyn Device>,
        clock: ModelClock,
        faults: FaultInjector,
    ) -> Result<Self, InvalidProfile> {
        profile.validate()?;
        let mut capabilities = Vec::with_capacity(profile.rates.len());
        for rate in &*profile.rates {
            let offered = reference.info().capabilities.iter().find(|offered| offered.algorithm == rate.algorithm);
            let Some(offered) = offered.filter(|offered| offered.synchronous) else {
                return Err(profile.invalid(format!("the reference does not run {}", rate.algorithm)));
            };
            capabilities.push(Capability {
                operations: offered.operations,
                max_bytes: offered.max_bytes,
                lanes: profile.units,
                max_in_flight: if profile.is_software { usize::MAX } else { profile.ring },
                synchronous: profile.is_software,
                in_place: !profile.is_software || offered.in_place,
                ..Capability::new(rate.algorithm)
            });
        }
        let info = DeviceInfo {
            description: profile.description.clone().into_owned(),
            version: env!("CARGO_PKG_VERSION").into(),
            capabilities,
            ..DeviceInfo::new(format!("model:{}", profile.name), Class::Model)
        };
        let card = Arc::new(Card::new(profile, clock, faults));
        Ok(Self { info, reference, card: Arc::new(RunningCard::new(card)) })
    }

    pub(crate) fn meter(&self) -> Meter {
        self.card.meter()
    }
}

impl Device for ModelDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        if self.card.faults.is_gone() {
            return Err(gone_fault().into());
        }
        let rate = self.card.profile.rates.iter().find(|rate| rate.algorithm == params.algorithm());
        let rate = *rate.ok_or(Unsupported::because("the profile does not have the algorithm"))?;
        let reference = self.reference.open(params)?;
        Ok(Arc::new(ModelSession::new(reference, rate, self.card.card.clone())))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        if self.card.profile.is_software {
            return Ok(Some(Box::new(Inline)));
        }
        if self.card.faults.is_gone() {
            return Err(gone_fault());
        }
        self.card.start_thread()?;
        Ok(Some(Box::new(ModelQueue::new(self.card.clone()))))
    }
}
