//! Message authentication codes.

use gantry_core::{Error, Outcome, Request, Result, SessionParams};

use crate::algorithms::Mac;
use crate::batch;
use crate::key::key;

pub use crate::bytes::Output as Tag;
pub use gantry_core::Stream;

key! {
    /// The key of a MAC. HMAC takes a key of any length and is as strong as its key.
    Key, Mac, key
}

/// A handle of a MAC with its key.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &gantry_core::Gantry, key: &Key) -> Result<Self> {
        gantry.session(SessionParams::new(key.algorithm.algorithm(), &key.bytes)).map(Self)
    }

    /// Returns a handle for the same key that truncates tags to `bytes` bytes.
    ///
    /// # Errors
    /// [`Misuse::TagLength`](gantry_core::Misuse::TagLength) if the algorithm has no tags of this length.
    pub fn with_tag_len(&self, bytes: usize) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().with_tag_len(bytes)).map(Self)
    }

    /// Computes the tag of a message on this thread.
    pub fn mac(&self, message: &[u8]) -> Result<Tag> {
        let mut tag = Tag::zeros(self.0.params().tag_len());
        self.0.mac(message, tag.as_mut_bytes())?;
        Ok(tag)
    }

    /// Verifies the tag of a message in constant time.
    ///
    /// # Errors
    /// [`Outcome::BadTag`] as [`Error::Refused`] if the tag is wrong.
    pub fn verify(&self, message: &[u8], tag: &[u8]) -> Result<()> {
        self.0.verify(message, tag)
    }

    /// Computes the tags of many messages, side by side if a device has lanes.
    pub fn mac_many<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<Vec<Tag>> {
        let mut tags = vec![Tag::zeros(self.0.params().tag_len()); messages.len()];
        let pairs = messages.iter().zip(&mut tags);
        let mut requests: Vec<_> =
            pairs.map(|(message, tag)| Request::mac(message.as_ref(), tag.as_mut_bytes())).collect();
        batch::run_all(&self.0, &mut requests)?;
        Ok(tags)
    }

    /// Verifies many messages with their tags. Each message has its own result.
    ///
    /// # Errors
    /// The correct tag of a message cannot be computed.
    pub fn verify_many<M: AsRef<[u8]>, T: AsRef<[u8]>>(&self, messages: &[(M, T)]) -> Result<Vec<Result<()>>> {
        let computed = self.mac_many(&messages.iter().map(|(message, _)| message).collect::<Vec<_>>())?;
        let verdict = |(computed, (_, tag)): (&Tag, &(M, T))| {
            if computed == tag { Ok(()) } else { Err(Error::Refused(Outcome::BadTag)) }
        };
        Ok(computed.iter().zip(messages).map(verdict).collect())
    }

    /// Starts a message that arrives in chunks.
    pub fn stream(&self) -> Result<Stream> {
        self.0.stream(1)
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}
