//! Whole messages: digests and HMACs of many of them in one call.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::family::{Family, Start, Stream, Work, check_output, plain};
use crate::hasher::Hasher;
use crate::hmac::{HmacKey, with_stack_wiped};
use crate::internal::job::Job;
use crate::level::Level;
use crate::messages::{Messages, Slices};

/// Writes the digests of the messages, one after the other.
///
/// `output` must have [`digest_size`](Algorithm::digest_size) bytes for each message.
///
/// ```
/// use gantry_digest::{Algorithm, digest_many};
///
/// let mut digests = [0; 2 * 32];
/// digest_many(Algorithm::Sha256, &["alice@example.org", "bob@example.org"], &mut digests)?;
/// assert_eq!(digests[..4], [0x7a, 0x64, 0xad, 0xf2]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn digest_many(algorithm: Algorithm, messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    hash_messages(Level::in_use(), algorithm, Starts::One(plain(algorithm)), &Slices(messages), output)
}

/// Writes the digests, or with a key the HMACs, of messages that each continue the message in `prefix`, one after the other.
///
/// Trees whose leaves and nodes have a byte of their own before them (RFC 6962) are hashed this way.
///
/// ```
/// use gantry_digest::{Algorithm, Hasher, digest_many_after};
///
/// let mut leaf = Hasher::new(Algorithm::Sha256);
/// leaf.update(&[0]);
/// let mut digests = [0; 2 * 32];
/// digest_many_after(&leaf, &["", "L123456"], &mut digests)?;
/// assert_eq!(digests[..4], [0x6e, 0x34, 0x0b, 0x9c]);
/// assert_eq!(digests[32..36], [0x39, 0x5a, 0xa0, 0x64]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn digest_many_after(prefix: &Hasher<'_>, messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    let (start, stream) = prefix.parts();
    let starts = Starts::After(start, stream);
    let mut work = || hash_messages(Level::in_use(), prefix.algorithm(), starts, &Slices(messages), output);
    if prefix.is_keyed() { with_stack_wiped(work) } else { work() }
}

/// Writes the full-length HMACs (RFC 2104) of the messages under one key, one after the other.
pub fn hmac_many(key: &HmacKey, messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    hmac_messages(key, &Slices(messages), output)
}

/// Writes the full-length HMACs of the messages, each under its own key. All keys must be of one algorithm.
pub fn hmac_each(keys: &[HmacKey], messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    if keys.len() != messages.len() {
        return Err(Error::KeyCount { messages: messages.len(), keys: keys.len() });
    }
    let Some(first) = keys.first() else { return check_output(Algorithm::Md5, 0, output) };
    if let Some(index) = keys.iter().position(|key| key.algorithm() != first.algorithm()) {
        return Err(Error::Mixed { index });
    }
    with_stack_wiped(|| {
        hash_messages(Level::in_use(), first.algorithm(), Starts::Each(keys), &Slices(messages), output)
    })
}

/// Starting states of messages.
#[derive(Clone, Copy)]
pub(crate) enum Starts<'a> {
    One(&'a Start),
    /// A start, and the bytes before each message.
    After(&'a Start, &'a Stream),
    /// One for each message, all of one algorithm.
    Each(&'a [HmacKey]),
}

/// Writes the HMACs of all messages under one key.
pub(crate) fn hmac_messages(key: &HmacKey, messages: &dyn Messages, output: &mut [u8]) -> Result<(), Error> {
    with_stack_wiped(|| hash_messages(Level::in_use(), key.algorithm(), Starts::One(key.start()), messages, output))
}

/// Runs whole messages.
pub(crate) fn hash_messages(
    level: Level,
    algorithm: Algorithm,
    starts: Starts<'_>,
    messages: &dyn Messages,
    output: &mut [u8],
) -> Result<(), Error> {
    check_output(algorithm, messages.count(), output)?;
    let first = match starts {
        Starts::One(start) | Starts::After(start, _) => start,
        Starts::Each([first, ..]) => first.start(),
        Starts::Each([]) => return Ok(()),
    };
    first.with(WholeMessages { level, size: algorithm.digest_size(), starts, messages, output });
    Ok(())
}

struct WholeMessages<'a> {
    level: Level,
    size: usize,
    starts: Starts<'a>,
    messages: &'a dyn Messages,
    output: &'a mut [u8],
}

impl Work for WholeMessages<'_> {
    type Output = ();

    fn with<F: Family>(self, first: &F::Start) {
        let WholeMessages { level, size, starts, messages, output } = self;
        match starts {
            Starts::One(_) => F::run_whole(level, first, None, messages, output),
            Starts::After(_, prefix) => {
                let mut prefix = prefix.clone();
                F::run_whole(level, first, F::stream_of(&mut prefix).as_deref(), messages, output);
            }
            Starts::Each(keys) => {
                let outputs = output.chunks_exact_mut(size);
                let mut pieces = keys.iter().zip(outputs).enumerate().filter_map(|(index, (key, output))| {
                    let (start, input) = (F::start_of(key.start())?, messages.message(index)?);
                    Some(Job { start, stream: None, input, output: Some(output) })
                });
                F::run(level, true, &mut pieces);
            }
        }
    }
}
