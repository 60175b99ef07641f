use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use gantry_core::Fault;

use crate::card::Card;

/// A card with its thread, which ends when the device and all of its queues are gone.
pub(crate) struct Running {
    pub(crate) card: Arc<Card>,
    /// Where time is real, from the first queue on.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Running {
    pub(crate) fn new(card: Arc<Card>) -> Self {
        Self { card, thread: Mutex::default() }
    }

    pub(crate) fn start(&self) -> Result<(), Fault> {
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
