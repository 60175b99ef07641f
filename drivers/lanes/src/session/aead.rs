//! Authenticated encryption of many messages at a time: batches and their messages.

use core::mem::MaybeUninit;

use gantry_core::driver::{Buffers, Offer, Operands};
use gantry_core::{Fault, Outcome, tags_equal};

use super::{Exceptions, Runner, RunnerCache, require_equal_lengths, wrong_operation};
use crate::groups::MAX_GROUP;

/// A message to seal or to open. `T` is its tag: mutable to write it, shared to compare it.
pub(super) struct Message<'a, R, T> {
    pub(super) runner: &'a R,
    pub(super) iv: &'a [u8],
    pub(super) aad: &'a [u8],
    pub(super) data: Buffers<'a>,
    pub(super) tag: T,
    /// [`Outcome::Done`], unless the tag is wrong.
    pub(super) outcome: Outcome,
    /// The index in the batch.
    index: usize,
}

/// A message whose tag is written.
pub(super) type SealMessage<'a, R> = Message<'a, R, &'a mut [u8]>;
/// A message whose tag is compared.
pub(super) type OpenMessage<'a, R> = Message<'a, R, &'a [u8]>;

/// The runner of a session that seals and opens messages, at most [`MAX_GROUP`] at a time.
pub(super) trait Aead: Send + Sync + Sized + 'static {
    /// Returns true if messages of `other` may share a batch with messages of this session.
    fn runs_with(&self, other: &Self) -> bool;

    /// Returns true if a message may have a nonce, data and a tag of these lengths. Core has checked them already.
    fn allows(&self, iv: &[u8], data_len: usize, tag_len: usize) -> bool;

    fn seal(&self, messages: &mut [SealMessage<'_, Self>]);

    /// Decrypts messages. Leaves the output of a message with a wrong tag unchanged, or fills it with zeros.
    fn open(&self, messages: &mut [OpenMessage<'_, Self>]);
}

impl<'a, A: Aead, T: AsRef<[u8]>> Message<'a, A, T> {
    fn new(index: usize, runner: &'a A, parts: MessageParts<'a, T>) -> Result<Self, Fault> {
        let (iv, aad, data, tag) = parts;
        if !runner.allows(iv, data.len(), tag.as_ref().len()) {
            return Err(Fault::failed("the nonce, the data or the tag has a wrong length"));
        }
        Ok(Message { runner, iv, aad, data, tag, outcome: Outcome::Done, index })
    }
}

/// The computed tags of a group, each with space for the longest tag. Wiped when dropped, because a computed tag is the valid tag for a
/// forged message.
pub(super) struct ComputedTags<const MAX_TAG_BYTES: usize>(pub(super) [[u8; MAX_TAG_BYTES]; MAX_GROUP]);

impl<const MAX_TAG_BYTES: usize> ComputedTags<MAX_TAG_BYTES> {
    /// Returns tags that are all zero.
    pub(super) fn zeroed() -> Self {
        ComputedTags([[0; MAX_TAG_BYTES]; MAX_GROUP])
    }

    /// Sets the outcome of messages with a different tag.
    pub(super) fn compare<R>(&self, messages: &mut [OpenMessage<'_, R>]) {
        for (message, computed) in messages.iter_mut().zip(&self.0) {
            if !tags_equal(&computed[..message.tag.len()], message.tag) {
                message.outcome = Outcome::BadTag;
            }
        }
    }
}

impl<const MAX_TAG_BYTES: usize> Drop for ComputedTags<MAX_TAG_BYTES> {
    fn drop(&mut self) {
        // `black_box` takes the address, so the compiler must keep the zeros.
        self.0 = [[0; MAX_TAG_BYTES]; MAX_GROUP];
        core::hint::black_box(&self.0);
    }
}

/// Nonce, associated data, data, and the tag.
type MessageParts<'a, T> = (&'a [u8], &'a [u8], Buffers<'a>, T);

fn seal_parts(operands: Operands<'_>) -> Result<MessageParts<'_, &mut [u8]>, Fault> {
    match operands {
        Operands::Seal { iv, aad, data, tag } => Ok((iv, aad, data, tag)),
        _ => Err(wrong_operation()),
    }
}

fn open_parts(operands: Operands<'_>) -> Result<MessageParts<'_, &[u8]>, Fault> {
    match operands {
        Operands::Open { iv, aad, data, tag } => Ok((iv, aad, data, tag)),
        _ => Err(wrong_operation()),
    }
}

impl<A: Aead> Runner for A {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        if matches!(operands, Operands::Seal { .. }) {
            let mut message = Message::new(0, self, seal_parts(operands)?)?;
            self.seal(core::slice::from_mut(&mut message));
            Ok(message.outcome)
        } else {
            let mut message = Message::new(0, self, open_parts(operands)?)?;
            self.open(core::slice::from_mut(&mut message));
            Ok(message.outcome)
        }
    }

    fn run_batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        if matches!(first, Operands::Seal { .. }) {
            run_messages(self, first, others, exceptions, seal_parts, A::seal);
        } else {
            run_messages(self, first, others, exceptions, open_parts, A::open);
        }
    }
}

/// Runs a batch, at most [`MAX_GROUP`] messages at a time.
fn run_messages<'a, A: Aead, T: AsRef<[u8]>>(
    first_runner: &'a A,
    first: Operands<'a>,
    others: &'a mut [Offer<'_>],
    exceptions: &mut Exceptions,
    parts: impl Fn(Operands<'a>) -> Result<MessageParts<'a, T>, Fault>,
    run: impl Fn(&A, &mut [Message<'a, A, T>]),
) {
    let mut runners = RunnerCache::empty();
    let others = others.iter_mut().map(|offer| {
        let (session, operands) = offer.parts();
        (runners.of(session, |runner: &A| require_equal_lengths(first_runner.runs_with(runner))), operands)
    });
    let mut all = core::iter::once((Ok(first_runner), first)).chain(others).enumerate();
    // Does not use `groups::run_in_groups`, which would copy messages through memory once more.
    let mut group = [const { MaybeUninit::uninit() }; MAX_GROUP];
    loop {
        let mut count = 0;
        while count < MAX_GROUP
            && let Some((index, (runner, operands))) = all.next()
        {
            match runner.and_then(|runner| Message::new(index, runner, parts(operands)?)) {
                Ok(message) => {
                    group[count].write(message);
                    count += 1;
                }
                Err(fault) => exceptions.push((index, Err(fault))),
            }
        }
        if count == 0 {
            break;
        }
        // SAFETY: the loop above wrote the first `count` elements.
        let messages = unsafe { group[..count].assume_init_mut() };
        run(first_runner, messages);
        let refused = messages.iter().filter(|message| message.outcome != Outcome::Done);
        exceptions.extend(refused.map(|message| (message.index, Ok(message.outcome))));
    }
    // Within a group, wrong tags were added after the faults, so the order has to be restored.
    exceptions.sort_unstable_by_key(|(index, _)| *index);
}

#[cfg(test)]
mod tests;
