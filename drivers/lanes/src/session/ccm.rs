//! CCM sessions: compute the tags of many messages side by side, and encrypt the data of one message at a time.

use gantry_core::Outcome;
use gantry_core::driver::Buffers;

use super::aead::{Aead, ComputedTags, Message, OpenMessage, SealMessage};
use crate::aes::BLOCK_LEN;
use crate::ccm::{CcmKey, Nonce, TagJob};

/// AES-CCM.
pub(super) struct CcmRunner {
    pub(super) key: CcmKey,
    /// Length of a tag in bytes.
    pub(super) tag_len: usize,
}

fn nonce_of(iv: &[u8]) -> Nonce {
    Nonce::new(iv).expect("the length of the nonce was checked")
}

impl Aead for CcmRunner {
    fn runs_with(&self, other: &Self) -> bool {
        self.key.runs_with(&other.key)
    }

    fn allows(&self, iv: &[u8], data_len: usize, tag_len: usize) -> bool {
        tag_len == self.tag_len && Nonce::new(iv).is_some_and(|nonce| nonce.allows(data_len))
    }

    fn seal(&self, messages: &mut [SealMessage<'_, Self>]) {
        let mut tags = ComputedTags::zeroed();
        // Must precede encryption, which may be in place.
        self.authenticate(messages, |data| data.input(), &mut tags);
        for (message, tag) in messages.iter_mut().zip(&tags.0) {
            let bytes = message.tag.len();
            message.tag.copy_from_slice(&tag[..bytes]);
        }
        self.crypt(messages);
    }

    fn open(&self, messages: &mut [OpenMessage<'_, Self>]) {
        // The tag authenticates the plaintext.
        self.crypt(messages);
        let mut tags = ComputedTags::zeroed();
        self.authenticate(messages, |data| data.output(), &mut tags);
        tags.compare(messages);
        for forged in messages.iter_mut().filter(|message| message.outcome != Outcome::Done) {
            forged.data.output().fill(0);
        }
    }
}

impl CcmRunner {
    fn crypt<T>(&self, messages: &mut [Message<'_, Self, T>]) {
        let data = messages.iter_mut();
        self.key.crypt(data.map(|message| message.runner.key.data(nonce_of(message.iv), message.data.reborrow())));
    }

    /// Computes the tags of messages. `plain` returns the plaintext of a message.
    fn authenticate<T>(
        &self,
        messages: &mut [Message<'_, Self, T>],
        plain: impl for<'m> Fn(&'m mut Buffers<'_>) -> &'m [u8],
        tags: &mut ComputedTags<BLOCK_LEN>,
    ) {
        let count = messages.len();
        let jobs = messages.iter_mut().zip(&mut tags.0).map(|(message, tag)| TagJob {
            key: &message.runner.key,
            nonce: nonce_of(message.iv),
            aad: message.aad,
            data: plain(&mut message.data),
            tag_len: message.runner.tag_len,
            tag,
        });
        self.key.authenticate(count, jobs);
    }
}
