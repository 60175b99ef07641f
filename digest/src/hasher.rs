//! Messages that arrive in pieces, one or many side by side.

use core::fmt;

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::hash_function::{AnySetup, AnyStream, GenericWork, HashFunction, check_output, plain_setup};
use crate::internal::job::Job;
use crate::level::Level;

/// Hashes a message that arrives in pieces. The result is a digest, or with a key ([`HmacKey::hasher`](crate::HmacKey::hasher)) an HMAC.
///
/// [`update`](Hasher::update) hashes one message alone. For many messages, [`update_many`] is faster: it hashes their pieces side by side.
/// Pieces of 64 KiB are large enough for full speed.
///
/// ```
/// use gantry_digest::{Algorithm, Hasher, finish_many, update_many};
///
/// let (mut a, mut b) = (Hasher::new(Algorithm::Sha1), Hasher::new(Algorithm::Sha1));
/// update_many(&mut [(&mut a, b"the first piece, "), (&mut b, b"")])?;
/// update_many(&mut [(&mut a, b"the second"), (&mut b, b"another message")])?;
/// let mut digests = [0; 2 * 20];
/// finish_many(&mut [&mut a, &mut b], &mut digests)?;
/// assert_eq!(digests[..3], [0xd6, 0x3c, 0x30]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
#[derive(Clone)]
pub struct Hasher<'k> {
    algorithm: Algorithm,
    setup: &'k AnySetup,
    stream: AnyStream,
}

impl Hasher<'static> {
    /// Starts a message, without a key.
    pub fn new(algorithm: Algorithm) -> Self {
        Self::from_setup(algorithm, plain_setup(algorithm))
    }
}

impl<'k> Hasher<'k> {
    /// Starts a message with `setup`.
    pub(crate) fn from_setup(algorithm: Algorithm, setup: &'k AnySetup) -> Self {
        Hasher { algorithm, setup, stream: setup.stream() }
    }
}

impl Hasher<'_> {
    /// The hash function.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Appends the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.setup.run(SinglePiece { stream: &mut self.stream, input: piece, output: None });
    }

    /// Ends the message, writes its digest and starts another message.
    pub fn finish(&mut self, output: &mut [u8]) -> Result<(), Error> {
        check_output(self.algorithm, 1, output)?;
        self.setup.run(SinglePiece { stream: &mut self.stream, input: &[], output: Some(output) });
        Ok(())
    }

    /// Discards the message so far.
    pub fn reset(&mut self) {
        self.stream = self.setup.stream();
    }
}

impl fmt::Debug for Hasher<'_> {
    /// Omits the state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Appends a piece to each hasher, side by side. Changes nothing and returns an error if the hashers differ in their algorithm.
pub fn update_many(pieces: &mut [(&mut Hasher<'_>, &[u8])]) -> Result<(), Error> {
    if let Some(algorithm) = common_algorithm(pieces.iter().map(|(hasher, _)| hasher.algorithm))? {
        let is_keyed = pieces.iter().any(|(hasher, _)| hasher.is_keyed());
        let pieces = pieces.iter_mut().map(|(hasher, input)| (&mut **hasher, *input, None));
        plain_setup(algorithm).run(Pieces { is_keyed, pieces });
    }
    Ok(())
}

/// Ends the message of each hasher and writes the digests, one after the other. Does nothing and returns an error if the hashers
/// differ in their algorithm, or if `output` does not have the length of all digests together.
pub fn finish_many(hashers: &mut [&mut Hasher<'_>], output: &mut [u8]) -> Result<(), Error> {
    let algorithm = common_algorithm(hashers.iter().map(|hasher| hasher.algorithm))?;
    // Without hashers, the output must be empty for any algorithm.
    check_output(algorithm.unwrap_or(Algorithm::Md5), hashers.len(), output)?;
    if let Some(algorithm) = algorithm {
        let is_keyed = hashers.iter().any(|hasher| hasher.is_keyed());
        let outputs = output.chunks_exact_mut(algorithm.digest_size());
        let pieces = hashers.iter_mut().zip(outputs).map(|(hasher, output)| (&mut **hasher, &[][..], Some(output)));
        plain_setup(algorithm).run(Pieces { is_keyed, pieces });
    }
    Ok(())
}

fn common_algorithm(mut algorithms: impl Iterator<Item = Algorithm>) -> Result<Option<Algorithm>, Error> {
    let first = algorithms.next();
    match algorithms.position(|algorithm| Some(algorithm) != first) {
        Some(place) => Err(Error::MixedAlgorithms { index: place + 1 }),
        None => Ok(first),
    }
}

impl Hasher<'_> {
    /// The setup, and the message so far.
    pub(crate) fn setup_and_stream(&self) -> (&AnySetup, &AnyStream) {
        (self.setup, &self.stream)
    }

    pub(crate) fn is_keyed(&self) -> bool {
        !core::ptr::eq(self.setup, plain_setup(self.algorithm))
    }
}

struct SinglePiece<'a> {
    stream: &'a mut AnyStream,
    input: &'a [u8],
    output: Option<&'a mut [u8]>,
}

impl GenericWork for SinglePiece<'_> {
    type Output = ();

    fn run<F: HashFunction>(self, setup: &F::Setup) {
        let SinglePiece { stream, input, output } = self;
        let stream = F::stream_of(stream);
        debug_assert!(stream.is_some(), "the stream must be of the hasher's function");
        F::run_one(Level::in_use(), Job { setup, stream, input, output });
    }
}

struct Pieces<I> {
    is_keyed: bool,
    pieces: I,
}

impl<'a, 'k: 'a, I> GenericWork for Pieces<I>
where
    I: Iterator<Item = (&'a mut Hasher<'k>, &'a [u8], Option<&'a mut [u8]>)>,
{
    type Output = ();

    fn run<F: HashFunction>(self, _: &F::Setup) {
        let mut pieces = self.pieces.filter_map(|(hasher, input, output)| {
            let (setup, stream) = (F::setup_of(hasher.setup)?, F::stream_of(&mut hasher.stream)?);
            Some(Job { setup, stream: Some(stream), input, output })
        });
        F::run(Level::in_use(), self.is_keyed, &mut pieces);
    }
}
