//! Encrypt-then-authenticate sessions. The data of many messages go through the lanes of the cipher, and `aad ‖ iv ‖ ciphertext` of each
//! goes through the lanes of HMAC.

use std::sync::Arc;

use gantry_core::driver::{Buffers, DeviceSession};
use gantry_core::{Algorithm, Outcome, SessionParams};
use gantry_digest::Level;
use gantry_digest::internal::dispatch::{Hash, Kernels};
use gantry_digest::internal::hash::{self, Job, Setup, Stream};
use gantry_digest::internal::kernel::sha1::{self, Sha1};
use gantry_digest::internal::kernel::sha2::{self, Sha256, Sha512};
use gantry_digest::internal::wipe::{in_own_frame, overwrite_stack};

use super::LanesSession;
use super::aead::{Aead, ComputedTags, OpenMessage, SealMessage};
use crate::aes::{Aes, BLOCK_LEN};
use crate::cbc::{CbcJob, CbcKey};
use crate::groups::MAX_GROUP;
use crate::independent::IndependentKey;

/// Bytes of stack to overwrite after HMAC of [`MAX_GROUP`] messages, which copies its keys into lanes. HMAC uses at most 40 KiB of them,
/// for one message of SHA-512 with precomputed words.
const AUTHENTICATION_STACK_BYTES: usize = 48 << 10;

/// Maximum length of a tag in bytes (SHA-512).
const MAX_TAG_BYTES: usize = 64;

/// A cipher, and HMAC.
struct EtmRunner<C, H: Hash> {
    cipher: C,
    kernels: Kernels<H>,
    setup: Setup<H>,
    /// Length of a tag in bytes.
    tag_len: usize,
}

/// Opens a session of an encrypt-then-authenticate algorithm. `None` for any other algorithm, and for a key of the wrong length.
pub(super) fn session(level: Level, aes: Aes, params: &SessionParams) -> Option<Arc<dyn DeviceSession>> {
    match params.algorithm().info().cipher? {
        Algorithm::Aes128Cbc | Algorithm::Aes192Cbc | Algorithm::Aes256Cbc => {
            with_hmac(level, Cbc::new(aes, params.key())?, params)
        }
        Algorithm::Aes128Ctr | Algorithm::Aes192Ctr | Algorithm::Aes256Ctr => {
            with_hmac(level, Ctr(IndependentKey::ctr(aes, params.key())?), params)
        }
        _ => None,
    }
}

fn with_hmac<C: Cipher>(level: Level, cipher: C, params: &SessionParams) -> Option<Arc<dyn DeviceSession>> {
    fn session_with<C: Cipher, H: Hash>(
        level: Level,
        cipher: C,
        params: &SessionParams,
        initial: [H::Word; 8],
        digest_len: usize,
    ) -> Arc<dyn DeviceSession> {
        let kernels = H::kernels(level);
        let setup = Setup::hmac(kernels, initial, digest_len, params.mac_key());
        LanesSession::shared(EtmRunner { cipher, kernels, setup, tag_len: params.tag_len().min(digest_len) })
    }
    Some(match params.algorithm().info().digest? {
        Algorithm::Sha1 => session_with::<C, Sha1>(level, cipher, params, sha1::INITIAL, 20),
        Algorithm::Sha256 => session_with::<C, Sha256>(level, cipher, params, sha2::INITIAL_256, 32),
        Algorithm::Sha384 => session_with::<C, Sha512>(level, cipher, params, sha2::INITIAL_384, 48),
        Algorithm::Sha512 => session_with::<C, Sha512>(level, cipher, params, sha2::INITIAL_512, 64),
        _ => return None,
    })
}

/// A message for a cipher: its key, the IV, and the data.
type CipherMessage<'a, C> = (&'a C, [u8; BLOCK_LEN], Buffers<'a>);

/// A cipher, with a key.
trait Cipher: Send + Sync + Sized + 'static {
    /// The length of data is a multiple of this number of bytes.
    const BLOCK_LEN: usize;

    /// Returns true if messages under `other` may share a batch with messages under this key.
    fn runs_with(&self, other: &Self) -> bool;

    /// Encrypts all messages. `count` is their maximum number.
    fn encrypt<'a>(&'a self, count: usize, messages: impl Iterator<Item = CipherMessage<'a, Self>>);

    /// Decrypts messages.
    fn decrypt<'a>(&'a self, messages: impl Iterator<Item = CipherMessage<'a, Self>>);
}

struct Cbc {
    encrypt: CbcKey,
    decrypt: IndependentKey,
}

impl Cbc {
    fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        Some(Cbc { encrypt: CbcKey::new(aes, key)?, decrypt: IndependentKey::cbc(aes, key)? })
    }
}

impl Cipher for Cbc {
    const BLOCK_LEN: usize = BLOCK_LEN;

    fn runs_with(&self, other: &Self) -> bool {
        self.encrypt.runs_with(&other.encrypt)
    }

    fn encrypt<'a>(&'a self, count: usize, messages: impl Iterator<Item = CipherMessage<'a, Self>>) {
        self.encrypt.run(count, messages.map(|(key, iv, data)| CbcJob { key: &key.encrypt, iv, data }));
    }

    fn decrypt<'a>(&'a self, messages: impl Iterator<Item = CipherMessage<'a, Self>>) {
        self.decrypt.run(messages.map(|(key, iv, data)| key.decrypt.message(iv, data)));
    }
}

struct Ctr(IndependentKey);

impl Cipher for Ctr {
    const BLOCK_LEN: usize = 1;

    fn runs_with(&self, other: &Self) -> bool {
        self.0.runs_with(&other.0)
    }

    fn encrypt<'a>(&'a self, _count: usize, messages: impl Iterator<Item = CipherMessage<'a, Self>>) {
        self.decrypt(messages);
    }

    fn decrypt<'a>(&'a self, messages: impl Iterator<Item = CipherMessage<'a, Self>>) {
        self.0.run(messages.map(|(key, iv, data)| key.0.message(iv, data)));
    }
}

impl<C: Cipher, H: Hash> Aead for EtmRunner<C, H> {
    fn runs_with(&self, other: &Self) -> bool {
        self.cipher.runs_with(&other.cipher)
    }

    fn allows(&self, iv: &[u8], data_len: usize, tag_len: usize) -> bool {
        iv.len() == BLOCK_LEN && data_len.is_multiple_of(C::BLOCK_LEN) && tag_len == self.tag_len
    }

    fn seal(&self, messages: &mut [SealMessage<'_, Self>]) {
        let count = messages.len();
        let data =
            messages.iter_mut().map(|message| (&message.runner.cipher, iv_of(message.iv), message.data.reborrow()));
        self.cipher.encrypt(count, data);
        self.authenticate(messages.iter_mut().map(|message| MacInput {
            setup: &message.runner.setup,
            parts: [message.aad, message.iv, message.data.output()],
            tag: message.tag,
        }));
    }

    fn open(&self, messages: &mut [OpenMessage<'_, Self>]) {
        let mut computed = ComputedTags::<MAX_TAG_BYTES>::zeroed();
        self.authenticate(messages.iter().zip(&mut computed.0).map(|(message, computed)| MacInput {
            setup: &message.runner.setup,
            parts: [message.aad, message.iv, message.data.input()],
            tag: &mut computed[..message.runner.tag_len],
        }));
        computed.compare(messages);
        // Messages with a wrong tag are not decrypted.
        let genuine = messages.iter_mut().filter(|message| message.outcome == Outcome::Done);
        self.cipher
            .decrypt(genuine.map(|message| (&message.runner.cipher, iv_of(message.iv), message.data.reborrow())));
    }
}

fn iv_of(iv: &[u8]) -> [u8; BLOCK_LEN] {
    *iv.as_array().expect("the length of the IV was checked")
}

/// The index of the data in `parts` of a message.
const DATA_PART: usize = 2;

/// A message to be authenticated.
struct MacInput<'a, H: Hash> {
    setup: &'a Setup<H>,
    /// Associated data, IV, and the data.
    parts: [&'a [u8]; 3],
    tag: &'a mut [u8],
}

impl<C: Cipher, H: Hash> EtmRunner<C, H> {
    /// Computes the tags of at most [`MAX_GROUP`] messages side by side, each with its own key. Wipes the stack it used.
    fn authenticate<'a>(&self, messages: impl Iterator<Item = MacInput<'a, H>>) {
        in_own_frame(|| self.compute_tags(messages));
        overwrite_stack::<AUTHENTICATION_STACK_BYTES>();
    }

    fn compute_tags<'a>(&self, messages: impl Iterator<Item = MacInput<'a, H>>) {
        let mut all = [const { None }; MAX_GROUP];
        let mut has_long_prefix = false;
        for (slot, mut message) in all.iter_mut().zip(messages) {
            let mut stream = Stream::new(message.setup);
            // Associated data and IV are mostly shorter than a block. The stream then buffers them, and the data need not be copied to
            // begin at a block boundary.
            if message.parts[..DATA_PART].iter().map(|part| part.len()).sum::<usize>() < H::BLOCK_SIZE {
                for part in &mut message.parts[..DATA_PART] {
                    stream.begin_with(core::mem::take(part));
                }
            } else {
                has_long_prefix = true;
            }
            *slot = Some((message, stream));
        }
        for part in if has_long_prefix { 0 } else { DATA_PART }..=DATA_PART {
            let jobs = all.iter_mut().flatten().map(|(message, stream)| Job {
                setup: message.setup,
                stream: Some(stream),
                input: message.parts[part],
                output: if part == DATA_PART { Some(&mut *message.tag) } else { None },
            });
            hash::run(self.kernels, jobs);
        }
    }
}
