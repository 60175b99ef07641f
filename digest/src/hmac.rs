//! HMAC (RFC 2104): keys, and the HMACs of many messages in one call.

use alloc::boxed::Box;
use core::fmt;

use crate::algorithm::Algorithm;
use crate::column::Column;
use crate::error::Error;
use crate::hash_function::{AnySetup, GenericWork, HashFunction, check_output, plain_setup};
use crate::hasher::Hasher;
use crate::internal::job::Job;
use crate::internal::wipe::with_stack_wiped;
use crate::level::Level;
use crate::many::hash_messages;
use crate::messages::{Messages, Slices};

/// A prepared key of HMAC: the chaining values after the inner and the outer key block. A message that fits one block with its padding
/// takes two compressions instead of four. The key is zeroized on drop.
pub struct HmacKey {
    algorithm: Algorithm,
    setup: Box<AnySetup>,
}

impl HmacKey {
    /// Prepares a key of any length. Leaves no copy of it on the stack.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        let setup = with_stack_wiped(|| Box::new(plain_setup(algorithm).hmac(Level::in_use(), key)));
        HmacKey { algorithm, setup }
    }

    /// The hash function.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Starts a message under this key.
    pub fn hasher(&self) -> Hasher<'_> {
        Hasher::from_setup(self.algorithm, &self.setup)
    }

    pub(crate) fn setup(&self) -> &AnySetup {
        &self.setup
    }
}

impl fmt::Debug for HmacKey {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Writes the full-length HMACs of the messages under one key, one after the other.
pub fn hmac_many(key: &HmacKey, messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    hmac_messages(key, &Slices(messages), output)
}

/// Writes the full-length HMACs of the values under one key, in the layout of [`digest_column`](crate::digest_column).
pub fn hmac_column(key: &HmacKey, column: &Column<'_>, output: &mut [u8]) -> Result<(), Error> {
    hmac_messages(key, column, output)
}

fn hmac_messages(key: &HmacKey, messages: &dyn Messages, output: &mut [u8]) -> Result<(), Error> {
    with_stack_wiped(|| hash_messages(key.algorithm, &key.setup, None, messages, output))
}

/// Writes the full-length HMACs of the messages, each under its own key. All keys must be of one algorithm.
pub fn hmac_each(keys: &[HmacKey], messages: &[impl AsRef<[u8]>], output: &mut [u8]) -> Result<(), Error> {
    if keys.len() != messages.len() {
        return Err(Error::KeyCount { messages: messages.len(), keys: keys.len() });
    }
    // Without keys, the output must be empty for any algorithm.
    let Some(first) = keys.first() else { return check_output(Algorithm::Md5, 0, output) };
    if let Some(index) = keys.iter().position(|key| key.algorithm != first.algorithm) {
        return Err(Error::MixedAlgorithms { index });
    }
    check_output(first.algorithm, messages.len(), output)?;
    let size = first.algorithm.digest_size();
    with_stack_wiped(|| first.setup.run(EachKey { keys, messages: &Slices(messages), size, output }));
    Ok(())
}

struct EachKey<'a> {
    keys: &'a [HmacKey],
    messages: &'a dyn Messages,
    size: usize,
    output: &'a mut [u8],
}

impl GenericWork for EachKey<'_> {
    type Output = ();

    fn run<F: HashFunction>(self, _: &F::Setup) {
        let outputs = self.output.chunks_exact_mut(self.size);
        let mut pieces = self.keys.iter().zip(outputs).enumerate().filter_map(|(index, (key, output))| {
            let (setup, input) = (F::setup_of(&key.setup)?, self.messages.message(index)?);
            Some(Job { setup, stream: None, input, output: Some(output) })
        });
        F::run(Level::in_use(), true, &mut pieces);
    }
}
