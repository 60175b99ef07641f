//! The hash functions of a run: sessions of the framework, and two functions that it does not have.

use std::io;
use std::sync::Arc;

use gantry_core::{Session, Stream};
use gantry_digest::{Hasher, finish_many, update_many};

use super::digest::Digest;
use super::names::Id;

/// What each of some files is hashed with, in the order of the results. At least one.
pub(super) type Functions = Arc<[Function]>;

/// A hash function, ready for use.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) id: Id,
    pub(super) by: By,
}

/// Who computes it.
#[derive(Clone)]
pub(super) enum By {
    /// The device that the framework chooses.
    Session(Session),
    /// The lanes' crate itself (RFC 7693): no other device has this function.
    Blake2b512,
    /// The crate `blake3`, which has lanes within one message.
    Blake3,
}

/// A message in work.
pub(super) enum Running {
    /// It is hashed at once, when all of it is there.
    Message,
    Stream(Stream),
    Own(Own),
}

/// A message of a function that is no device's.
pub(super) enum Own {
    Blake2b512(Box<Hasher<'static>>),
    Blake3(Box<blake3::Hasher>),
}

impl Function {
    /// A digest of its length, to be written over.
    pub(super) fn blank(&self) -> Digest {
        Digest::zero(self.id.digits() / 2)
    }

    /// The digest of one message.
    pub(super) fn digest(&self, message: &[u8]) -> io::Result<Digest> {
        let mut digest = self.blank();
        match &self.by {
            By::Session(session) => session.digest(message, digest.bytes_mut()).map_err(io::Error::other)?,
            By::Blake2b512 | By::Blake3 => {
                let mut running = self.begin(1)?;
                running.update(message)?;
                running.finish(digest.bytes_mut())?;
            }
        }
        Ok(digest)
    }

    /// A message in pieces, one of so many side by side.
    pub(super) fn begin(&self, side_by_side: usize) -> io::Result<Running> {
        Ok(match &self.by {
            By::Session(session) => Running::Stream(session.stream(side_by_side).map_err(io::Error::other)?),
            By::Blake2b512 => {
                Running::Own(Own::Blake2b512(Box::new(Hasher::new(gantry_digest::Algorithm::Blake2b512))))
            }
            By::Blake3 => Running::Own(Own::Blake3(Box::default())),
        })
    }

    /// A message of one piece.
    pub(super) fn begin_message(&self) -> io::Result<Running> {
        if matches!(self.by, By::Session(_)) { Ok(Running::Message) } else { self.begin(1) }
    }
}

impl Running {
    /// Takes in a piece of a message in pieces, by itself.
    pub(super) fn update(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Running::Message => Err(io::ErrorKind::InvalidInput.into()),
            Running::Stream(stream) => stream.update(piece).map_err(io::Error::other),
            Running::Own(own) => Own::update_all(vec![(own, piece)]),
        }
    }

    /// Ends a message in pieces, by itself.
    pub(super) fn finish(&mut self, digest: &mut [u8]) -> io::Result<()> {
        match self {
            Running::Message => Err(io::ErrorKind::InvalidInput.into()),
            Running::Stream(stream) => stream.finish(digest).map_err(io::Error::other),
            Running::Own(own) => Own::finish_all(vec![(own, digest)]),
        }
    }
}

impl Own {
    /// Gives each its next piece, side by side where the function gains by it.
    pub(super) fn update_all(pieces: Vec<(&mut Own, &[u8])>) -> io::Result<()> {
        let mut lanes = Vec::with_capacity(pieces.len());
        for (own, piece) in pieces {
            match own {
                Own::Blake2b512(hasher) => lanes.push((&mut **hasher, piece)),
                Own::Blake3(hasher) => {
                    hasher.update(piece);
                }
            }
        }
        update_many(&mut lanes).map_err(io::Error::other)
    }

    /// Ends each, and writes its digest.
    pub(super) fn finish_all(ends: Vec<(&mut Own, &mut [u8])>) -> io::Result<()> {
        let (mut lanes, mut digests) = (Vec::with_capacity(ends.len()), Vec::with_capacity(ends.len()));
        for (own, digest) in ends {
            match own {
                Own::Blake2b512(hasher) => {
                    lanes.push(&mut **hasher);
                    digests.push(digest);
                }
                Own::Blake3(hasher) => digest.copy_from_slice(hasher.finalize().as_bytes()),
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
