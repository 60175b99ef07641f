//! Authenticated encryption that works on many messages at a time: batches, and what is known of a message in them.

use core::mem::MaybeUninit;

use gantry_core::driver::{Buffers, Offer, Operands};
use gantry_core::{Fault, Outcome, tags_equal};

use super::{Exceptions, Work, Works, of_one_length, wrong_operation};
use crate::groups::AT_ONCE;

/// A message to seal or to open. `T` is its tag: to be written, or to be compared.
pub(super) struct Message<'a, W, T> {
    pub(super) work: &'a W,
    pub(super) iv: &'a [u8],
    pub(super) aad: &'a [u8],
    pub(super) data: Buffers<'a>,
    pub(super) tag: T,
    /// [`Outcome::Done`], unless its tag is found to be bad.
    pub(super) outcome: Outcome,
    /// In its batch.
    place: usize,
}

/// A message whose tag is written.
pub(super) type Sealing<'a, W> = Message<'a, W, &'a mut [u8]>;
/// A message whose tag is compared.
pub(super) type Opening<'a, W> = Message<'a, W, &'a [u8]>;

/// The work of a session that seals and opens messages, at most [`AT_ONCE`] at a time.
pub(super) trait Aead: Send + Sync + Sized + 'static {
    /// Whether messages of that session, too, may be among those of this one.
    fn runs_with(&self, other: &Self) -> bool;

    /// Whether a message may have a nonce, data and a tag of these lengths. Core has checked them.
    fn allows(&self, iv: &[u8], data: usize, tag: usize) -> bool;

    fn seal(&self, messages: &mut [Sealing<'_, Self>]);

    /// Leaves the output of a message with a bad tag as it was, or zeros.
    fn open(&self, messages: &mut [Opening<'_, Self>]);
}

impl<'a, A: Aead, T: AsRef<[u8]>> Message<'a, A, T> {
    fn new(place: usize, work: &'a A, parts: Parts<'a, T>) -> Result<Self, Fault> {
        let (iv, aad, data, tag) = parts;
        if !work.allows(iv, data.len(), tag.as_ref().len()) {
            return Err(Fault::failed("a nonce, data or a tag of a wrong length"));
        }
        Ok(Message { work, iv, aad, data, tag, outcome: Outcome::Done, place })
    }
}

/// The computed tags of a group, in room for the longest: of a forgery it would be the right one. Leaves nothing behind.
pub(super) struct Tags<const LONGEST: usize>(pub(super) [[u8; LONGEST]; AT_ONCE]);

impl<const LONGEST: usize> Tags<LONGEST> {
    /// Room for them.
    pub(super) fn none() -> Self {
        Tags([[0; LONGEST]; AT_ONCE])
    }

    /// Notes which messages have other tags.
    pub(super) fn compare<W>(&self, messages: &mut [Opening<'_, W>]) {
        for (message, computed) in messages.iter_mut().zip(&self.0) {
            if !tags_equal(&computed[..message.tag.len()], message.tag) {
                message.outcome = Outcome::BadTag;
            }
        }
    }
}

impl<const LONGEST: usize> Drop for Tags<LONGEST> {
    fn drop(&mut self) {
        // Who has the address may read what is there, so the compiler leaves the zeros in.
        self.0 = [[0; LONGEST]; AT_ONCE];
        core::hint::black_box(&self.0);
    }
}

/// Nonce, associated data, data, and the tag.
type Parts<'a, T> = (&'a [u8], &'a [u8], Buffers<'a>, T);

fn to_seal(operands: Operands<'_>) -> Result<Parts<'_, &mut [u8]>, Fault> {
    match operands {
        Operands::Seal { iv, aad, data, tag } => Ok((iv, aad, data, tag)),
        _ => Err(wrong_operation()),
    }
}

fn to_open(operands: Operands<'_>) -> Result<Parts<'_, &[u8]>, Fault> {
    match operands {
        Operands::Open { iv, aad, data, tag } => Ok((iv, aad, data, tag)),
        _ => Err(wrong_operation()),
    }
}

impl<A: Aead> Work for A {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        if matches!(operands, Operands::Seal { .. }) {
            let mut message = Message::new(0, self, to_seal(operands)?)?;
            self.seal(core::slice::from_mut(&mut message));
            Ok(message.outcome)
        } else {
            let mut message = Message::new(0, self, to_open(operands)?)?;
            self.open(core::slice::from_mut(&mut message));
            Ok(message.outcome)
        }
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        if matches!(first, Operands::Seal { .. }) {
            run_batch(self, first, others, exceptions, to_seal, A::seal);
        } else {
            run_batch(self, first, others, exceptions, to_open, A::open);
        }
    }
}

/// Runs a batch, as many messages at a time as there may be.
fn run_batch<'a, A: Aead, T: AsRef<[u8]>>(
    lead: &'a A,
    first: Operands<'a>,
    others: &'a mut [Offer<'_>],
    exceptions: &mut Exceptions,
    parts: impl Fn(Operands<'a>) -> Result<Parts<'a, T>, Fault>,
    run: impl Fn(&A, &mut [Message<'a, A, T>]),
) {
    let mut works = Works::none();
    let others = others.iter_mut().map(|offer| {
        let (session, operands) = offer.parts();
        (works.of(session, |work: &A| of_one_length(lead.runs_with(work))), operands)
    });
    let mut all = core::iter::once((Ok(lead), first)).chain(others).enumerate();
    // (Not by way of `groups::in_groups`, to which messages would go through memory once more.)
    let mut group = [const { MaybeUninit::uninit() }; AT_ONCE];
    loop {
        let mut count = 0;
        while count < AT_ONCE
            && let Some((place, (work, operands))) = all.next()
        {
            match work.and_then(|work| Message::new(place, work, parts(operands)?)) {
                Ok(message) => {
                    group[count].write(message);
                    count += 1;
                }
                Err(fault) => exceptions.push((place, Err(fault))),
            }
        }
        if count == 0 {
            break;
        }
        // SAFETY: so many were just written.
        let messages = unsafe { group[..count].assume_init_mut() };
        run(lead, messages);
        let refused = messages.iter().filter(|message| message.outcome != Outcome::Done);
        exceptions.extend(refused.map(|message| (message.place, Ok(message.outcome))));
    }
    // Those that were refused come behind all that did not get into their group.
    exceptions.sort_unstable_by_key(|(place, _)| *place);
}

#[cfg(test)]
mod tests;
