//! A card with its thread.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use gantry_core::Fault;

use crate::card::Card;

/// A card with its thread, which ends once the device and all of its queues are dropped.
pub(crate) struct RunningCard {
    pub(crate) card: Arc<Card>,
    /// Started with the first queue, in real time only.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl RunningCard {
    pub(crate) fn new(card: Arc<Card>) -> Self {
        Self { card, thread: Mutex::default() }
    }

    pub(crate) fn start_thread(&self) -> Result<(), Fault> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && self.card.clock.is_real() {
            let card = self.card.clone();
            let name = format!("model:{}", self.card.profile.name);
            let spawned = std::thread::Builder::new().name(name).spawn(move || card.run_thread());
            *thread =
                Some(spawned.map_err(|error| Fault::failed(format!("cannot start the thread of the model: {error}")))?);
        }
        Ok(())
    }
}

impl Deref for RunningCard {
    type Target = Card;

    fn deref(&self) -> &Card {
        &self.card
    }
}

impl Drop for RunningCard {
    fn drop(&mut self) {
        self.card.stop();
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // The thread panics only if the reference does, and that panic was already reported.
            let _ = thread.join();
        }
    }
}
