use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use gantry::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Inline, QueuePair, Refusal, Unsupported};
use gantry::{Fault, SessionParams};

use crate::card::{Card, Meter};
use crate::faults::{Faults, gone};
use crate::profile::{Absurd, Profile};
use crate::queue::ModelQueue;
use crate::session::ModelSession;
use crate::time::Time;

pub(crate) struct ModelDevice {
    info: DeviceInfo,
    reference: Arc<dyn Device>,
    card: Arc<Running>,
}

impl ModelDevice {
    pub(crate) fn new(
        profile: Profile,
        reference: Arc<dyn Device>,
        time: Time,
        faults: Faults,
    ) -> Result<Self, Absurd> {
        profile.check()?;
        let mut capabilities = Vec::with_capacity(profile.rates.len());
        for rate in &*profile.rates {
            let theirs = reference.info().capabilities.iter().find(|theirs| theirs.algorithm == rate.algorithm);
            let Some(theirs) = theirs.filter(|theirs| theirs.direct) else {
                return Err(profile.absurd(format!("the reference does not run {}", rate.algorithm)));
            };
            capabilities.push(Capability {
                operations: theirs.operations,
                max_bytes: theirs.max_bytes,
                lanes: profile.units,
                ring: if profile.direct { usize::MAX } else { profile.ring },
                direct: profile.direct,
                in_place: !profile.direct || theirs.in_place,
                ..Capability::new(rate.algorithm)
            });
        }
        let info = DeviceInfo {
            description: profile.description.clone().into_owned(),
            version: env!("CARGO_PKG_VERSION").into(),
            capabilities,
            ..DeviceInfo::new(format!("model:{}", profile.name), Class::Model)
        };
        let card = Arc::new(Card::new(profile, time, faults));
        Ok(Self { info, reference, card: Arc::new(Running { card, thread: Mutex::default() }) })
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
            return Err(gone().into());
        }
        let rate = self.card.profile.rates.iter().find(|rate| rate.algorithm == params.algorithm());
        let rate = *rate.ok_or(Unsupported::because("the profile has no such algorithm"))?;
        let reference = self.reference.open(params)?;
        Ok(Arc::new(ModelSession::new(reference, rate, self.card.card.clone())))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        if self.card.profile.direct {
            return Ok(Some(Box::new(Inline)));
        }
        if self.card.faults.is_gone() {
            return Err(gone());
        }
        self.card.start()?;
        Ok(Some(Box::new(ModelQueue::new(self.card.clone()))))
    }
}

/// A card with its thread, which ends when the device and all of its queues are gone.
pub(crate) struct Running {
    card: Arc<Card>,
    /// Where time is real, from the first queue on.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Running {
    fn start(&self) -> Result<(), Fault> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && self.card.time.is_real() {
            let card = self.card.clone();
            let name = format!("model:{}", self.card.profile.name);
            let spawned = std::thread::Builder::new().name(name).spawn(move || card.work());
            *thread = Some(spawned.map_err(|error| Fault::failed(format!("no thread for the model: {error}")))?);
        }
        Ok(())
    }
}

impl Deref for Running {
    type Target = Card;

    fn deref(&self) -> &Card {
        &self.card
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.card.stop();
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // It panics only where the reference does, and then it has said so.
            let _ = thread.join();
        }
    }
}
