//! The hash functions of a run: sessions of the framework, and functions that it does not have.

use std::io;
use std::sync::Arc;

use digest::DynDigest;
use digest::consts::{U16, U20, U28, U48};
use gantry_core::{Session, Stream};
use gantry_digest::{Hasher, finish_many, update_many};

use super::digest::Digest;
use super::names::HashId;

/// The functions of a file, in the order of the results. At least one.
pub(super) type Functions = Arc<[Function]>;

/// A hash function, ready for use.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) id: HashId,
    pub(super) implementation: Implementation,
}

/// The implementation of a function.
#[derive(Clone)]
pub(super) enum Implementation {
    /// The device that the framework chooses.
    Session(Session),
    /// `gantry-digest` itself (RFC 7693): no device has this function.
    Blake2b512,
    /// The crate `blake3`, which has lanes within one message.
    Blake3,
    /// A crate of RustCrypto, one message at a time: no device has this function.
    RustCrypto(NewHasher),
}

/// Begins a message of a function of RustCrypto.
type NewHasher = fn() -> Box<dyn DynDigest + Send>;

/// The functions behind [`Implementation::RustCrypto`], which lists of other programs use.
pub(super) const RUSTCRYPTO_FUNCTIONS: &[(&str, NewHasher)] = &[
    ("sha512-224", || Box::new(sha2::Sha512_224::default())),
    ("blake2b-128", || Box::new(blake2::Blake2b::<U16>::default())),
    ("blake2b-160", || Box::new(blake2::Blake2b::<U20>::default())),
    ("blake2b-224", || Box::new(blake2::Blake2b::<U28>::default())),
    ("blake2b-384", || Box::new(blake2::Blake2b::<U48>::default())),
    ("blake2s-256", || Box::new(blake2::Blake2s256::default())),
    ("sm3", || Box::new(sm3::Sm3::default())),
];

/// A message in progress.
pub(super) enum RunningHash {
    /// A message of one piece, which is hashed at once.
    OnePiece,
    Stream(Stream),
    LocalHash(LocalHash),
}

/// A message of a function outside the framework.
pub(super) enum LocalHash {
    Blake2b512(Box<Hasher<'static>>),
    Blake3(Box<blake3::Hasher>),
    RustCrypto(Box<dyn DynDigest + Send>),
}

impl Function {
    /// Returns a zero digest with the length of this function's digests.
    pub(super) fn zero_digest(&self) -> Digest {
        Digest::zero(self.id.digit_count() / 2)
    }

    /// Hashes one message.
    pub(super) fn digest(&self, message: &[u8]) -> io::Result<Digest> {
        let mut digest = self.zero_digest();
        match &self.implementation {
            Implementation::Session(session) => {
                session.digest(message, digest.bytes_mut()).map_err(io::Error::other)?;
            }
            Implementation::Blake2b512 | Implementation::Blake3 | Implementation::RustCrypto(_) => {
                let mut running = self.begin(1)?;
                running.update(message)?;
                running.finish(digest.bytes_mut())?;
            }
        }
        Ok(digest)
    }

    /// Begins a message in pieces, one of `side_by_side` messages that are hashed in parallel.
    pub(super) fn begin(&self, side_by_side: usize) -> io::Result<RunningHash> {
        Ok(match &self.implementation {
            Implementation::Session(session) => {
                RunningHash::Stream(session.stream(side_by_side).map_err(io::Error::other)?)
            }
            Implementation::Blake2b512 => RunningHash::LocalHash(LocalHash::Blake2b512(Box::new(Hasher::new(
                gantry_digest::Algorithm::Blake2b512,
            )))),
            Implementation::Blake3 => RunningHash::LocalHash(LocalHash::Blake3(Box::default())),
            Implementation::RustCrypto(begin) => RunningHash::LocalHash(LocalHash::RustCrypto(begin())),
        })
    }

    /// Begins a message of one piece.
    pub(super) fn begin_one_piece(&self) -> io::Result<RunningHash> {
        if matches!(self.implementation, Implementation::Session(_)) {
            Ok(RunningHash::OnePiece)
        } else {
            self.begin(1)
        }
    }
}

impl RunningHash {
    /// Adds a piece.
    pub(super) fn update(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            RunningHash::OnePiece => Err(io::ErrorKind::InvalidInput.into()),
            RunningHash::Stream(stream) => stream.update(piece).map_err(io::Error::other),
            RunningHash::LocalHash(local) => LocalHash::update_all(vec![(local, piece)]),
        }
    }

    /// Finishes a message in pieces.
    pub(super) fn finish(&mut self, digest: &mut [u8]) -> io::Result<()> {
        match self {
            RunningHash::OnePiece => Err(io::ErrorKind::InvalidInput.into()),
            RunningHash::Stream(stream) => stream.finish(digest).map_err(io::Error::other),
            RunningHash::LocalHash(local) => LocalHash::finish_all(vec![(local, digest)]),
        }
    }
}

impl LocalHash {
    /// Adds the next piece of each message, in parallel lanes if the function has them.
    pub(super) fn update_all(pieces: Vec<(&mut LocalHash, &[u8])>) -> io::Result<()> {
        let mut lanes = Vec::with_capacity(pieces.len());
        for (local, piece) in pieces {
            match local {
                LocalHash::Blake2b512(hasher) => lanes.push((&mut **hasher, piece)),
                LocalHash::Blake3(hasher) => {
                    hasher.update(piece);
                }
                LocalHash::RustCrypto(hasher) => hasher.update(piece),
            }
        }
        update_many(&mut lanes).map_err(io::Error::other)
    }

    /// Finishes each message, and writes its digest.
    pub(super) fn finish_all(ends: Vec<(&mut LocalHash, &mut [u8])>) -> io::Result<()> {
        let (mut lanes, mut digests) = (Vec::with_capacity(ends.len()), Vec::with_capacity(ends.len()));
        for (local, digest) in ends {
            match local {
                LocalHash::Blake2b512(hasher) => {
                    lanes.push(&mut **hasher);
                    digests.push(digest);
                }
                LocalHash::Blake3(hasher) => digest.copy_from_slice(hasher.finalize().as_bytes()),
                LocalHash::RustCrypto(hasher) => hasher.finalize_into_reset(digest).map_err(io::Error::other)?,
            }
        }
        let size = gantry_digest::Algorithm::Blake2b512.digest_size();
        let mut together = vec![0; lanes.len() * size];
        finish_many(&mut lanes, &mut together).map_err(io::Error::other)?;
        for (digest, found) in digests.iter_mut().zip(together.chunks_exact(size)) {
            digest.copy_from_slice(found);
        }
        Ok(())
    }
}
