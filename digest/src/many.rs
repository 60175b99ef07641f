//! Whole messages: digests of many of them in one call.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::hash_function::{AnySetup, AnyStream, GenericWork, HashFunction, check_output, plain_setup};
use crate::hasher::Hasher;
use crate::internal::wipe::with_stack_wiped;
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
    hash_messages(algorithm, plain_setup(algorithm), None, &Slices(messages), output)
}

/// Writes the digests of messages, one after the other. Each message continues the one in `prefix`. If `prefix` has a key, writes HMACs.
///
/// This hashes the leaves and nodes of trees that put one byte before each leaf and another before each node (RFC 6962).
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
    let (setup, stream) = prefix.setup_and_stream();
    let mut work = || hash_messages(prefix.algorithm(), setup, Some(stream), &Slices(messages), output);
    if prefix.is_keyed() { with_stack_wiped(work) } else { work() }
}

/// Runs whole messages, each after the message in `prefix`, if there is one.
pub(crate) fn hash_messages(
    algorithm: Algorithm,
    setup: &AnySetup,
    prefix: Option<&AnyStream>,
    messages: &dyn Messages,
    output: &mut [u8],
) -> Result<(), Error> {
    check_output(algorithm, messages.count(), output)?;
    setup.run(WholeMessages { prefix, messages, output });
    Ok(())
}

struct WholeMessages<'a> {
    prefix: Option<&'a AnyStream>,
    messages: &'a dyn Messages,
    output: &'a mut [u8],
}

impl GenericWork for WholeMessages<'_> {
    type Output = ();

    fn run<F: HashFunction>(self, setup: &F::Setup) {
        let WholeMessages { prefix, messages, output } = self;
        let Some(prefix) = prefix else { return F::run_whole(Level::in_use(), setup, None, messages, output) };
        let mut prefix = prefix.clone();
        F::run_whole(Level::in_use(), setup, F::stream_of(&mut prefix).as_deref(), messages, output);
    }
}
