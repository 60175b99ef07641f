//! Whole messages: digests and HMACs of many of them in one call.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::family::{Family, Piece, Start, Work, check_output, plain};
use crate::hmac::{HmacKey, after_keys};
use crate::level::Level;

/// Writes the digest of each message, one behind the other.
///
/// `output` has [`digest_size`](Algorithm::digest_size) bytes for each message, or it is an error.
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
    whole(Level::in_use(), algorithm, Starts::One(plain(algorithm)), &Slices(messages), output)
}

/// Writes the HMAC (RFC 2104) of each message under one key, one behind the other, in full length.
pub fn hmac_many(key: &HmacKey, messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    hmac_of(key, &Slices(messages), output)
}

/// The same with a key for each message; all are of one algorithm.
pub fn hmac_each(keys: &[HmacKey], messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    if keys.len() != messages.len() {
        return Err(Error::KeyCount { messages: messages.len(), keys: keys.len() });
    }
    let Some(first) = keys.first() else { return check_output(Algorithm::Md5, 0, output) };
    if let Some(index) = keys.iter().position(|key| key.algorithm() != first.algorithm()) {
        return Err(Error::Mixed { index });
    }
    after_keys(|| whole(Level::in_use(), first.algorithm(), Starts::Each(keys), &Slices(messages), output))
}

/// The messages of one call.
pub(crate) trait Messages {
    fn count(&self) -> usize;

    /// A message; `None` for one that is missing, whose digest is zeros.
    fn message(&self, index: usize) -> Option<&[u8]>;
}

struct Slices<'a, T>(&'a [T]);

impl<T: AsRef<[u8]>> Messages for Slices<'_, T> {
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn message(&self, index: usize) -> Option<&[u8]> {
        Some(self.0[index].as_ref())
    }
}

/// Where messages start.
#[derive(Clone, Copy)]
pub(crate) enum Starts<'a> {
    One(&'a Start),
    /// As many as there are messages, of one algorithm.
    Each(&'a [HmacKey]),
}

/// HMACs of all messages under one key.
pub(crate) fn hmac_of(key: &HmacKey, messages: &dyn Messages, output: &mut [u8]) -> Result<(), Error> {
    after_keys(|| whole(Level::in_use(), key.algorithm(), Starts::One(key.start()), messages, output))
}

/// Runs whole messages.
pub(crate) fn whole(
    level: Level,
    algorithm: Algorithm,
    starts: Starts<'_>,
    messages: &dyn Messages,
    output: &mut [u8],
) -> Result<(), Error> {
    check_output(algorithm, messages.count(), output)?;
    let first = match starts {
        Starts::One(start) => start,
        Starts::Each([first, ..]) => first.start(),
        Starts::Each([]) => return Ok(()),
    };
    first.with(Whole { level, size: algorithm.digest_size(), starts, messages, output });
    Ok(())
}

struct Whole<'a> {
    level: Level,
    size: usize,
    starts: Starts<'a>,
    messages: &'a dyn Messages,
    output: &'a mut [u8],
}

impl Work for Whole<'_> {
    type Output = ();

    fn with<F: Family>(self, first: &F::Start) {
        let Whole { level, size, starts, messages, output } = self;
        let messages = output.chunks_exact_mut(size).enumerate().filter_map(|(index, output)| {
            let message = messages.message(index);
            if message.is_none() {
                output.fill(0);
            }
            Some((index, message?, output))
        });
        match starts {
            Starts::One(_) => F::run_whole(level, first, messages.map(|(_, input, output)| (input, output))),
            Starts::Each(keys) => {
                let mut pieces = messages.filter_map(|(index, input, output)| {
                    let start = F::start_of(keys[index].start())?;
                    Some(Piece { start, stream: None, input, output: Some(output) })
                });
                F::run(level, true, &mut pieces);
            }
        }
    }
}
