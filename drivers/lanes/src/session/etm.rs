//! Sessions of encrypt-then-authenticate: the data of many messages go through the lanes of the cipher, and what they are authenticated by,
//! `aad ‖ iv ‖ ciphertext`, through those of HMAC.

use gantry_core::driver::Buffers;
use gantry_core::{Algorithm, Outcome, SessionParams};
use gantry_digest::Level;
use gantry_digest::hash::{self, Job, Start, Stream};
use gantry_digest::kernel::sha1::{self, Sha1};
use gantry_digest::kernel::sha2::{self, Sha256, Sha512};
use gantry_digest::kernel::{Hash, Kernels};
use gantry_digest::wipe::{below, overwrite};

use super::Work;
use super::aead::{Aead, Opening, Sealing, Tags};
use crate::aes::{Aes, BLOCK};
use crate::cbc::{CbcJob, CbcKey};
use crate::groups::AT_ONCE;
use crate::independent::IndependentKey;

/// Bytes of the stack that HMAC of [`AT_ONCE`] messages may use, which copies its keys into lanes: the most is that of one message of
/// SHA-512 with words made ahead, 40 KiB.
const AUTHENTICATING: usize = 48 << 10;

/// Most bytes of a tag (SHA-512).
const LONGEST_TAG: usize = 64;

/// A cipher, and HMAC.
struct EtmWork<C, H: Hash> {
    cipher: C,
    kernels: Kernels<H>,
    start: Start<H>,
    /// Bytes of a tag.
    tag: usize,
}

/// The work of such an algorithm. `None` for another one, and for a key that is not as long as the cipher's.
pub(super) fn boxed(level: Level, aes: Aes, params: &SessionParams) -> Option<Box<dyn Work>> {
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

fn with_hmac<C: Cipher>(level: Level, cipher: C, params: &SessionParams) -> Option<Box<dyn Work>> {
    fn over<C: Cipher, H: Hash>(
        level: Level,
        cipher: C,
        params: &SessionParams,
        initial: [H::Word; 8],
        digest: usize,
    ) -> Box<dyn Work> {
        let kernels = H::kernels(level);
        let start = Start::hmac(kernels, initial, digest, params.second_key());
        Box::new(EtmWork { cipher, kernels, start, tag: params.tag_length().min(digest) })
    }
    Some(match params.algorithm().info().digest? {
        Algorithm::Sha1 => over::<C, Sha1>(level, cipher, params, sha1::INITIAL, 20),
        Algorithm::Sha256 => over::<C, Sha256>(level, cipher, params, sha2::INITIAL_256, 32),
        Algorithm::Sha384 => over::<C, Sha512>(level, cipher, params, sha2::INITIAL_384, 48),
        Algorithm::Sha512 => over::<C, Sha512>(level, cipher, params, sha2::INITIAL_512, 64),
        _ => return None,
    })
}

/// A message for a cipher: its key, the IV, and the data.
type Ciphering<'a, C> = (&'a C, [u8; BLOCK], Buffers<'a>);

/// The cipher, with a key.
trait Cipher: Send + Sync + Sized + 'static {
    /// Data are a multiple of so many bytes.
    const BLOCK: usize;

    /// Whether messages under that key, too, may be among those under this one.
    fn runs_with(&self, other: &Self) -> bool;

    /// Encrypts so many messages or fewer.
    fn encrypt<'a>(&'a self, count: usize, messages: impl Iterator<Item = Ciphering<'a, Self>>);

    /// Decrypts messages.
    fn decrypt<'a>(&'a self, messages: impl Iterator<Item = Ciphering<'a, Self>>);
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
    const BLOCK: usize = BLOCK;

    fn runs_with(&self, other: &Self) -> bool {
        self.encrypt.runs_with(&other.encrypt)
    }

    fn encrypt<'a>(&'a self, count: usize, messages: impl Iterator<Item = Ciphering<'a, Self>>) {
        self.encrypt.run(count, messages.map(|(key, iv, data)| CbcJob { key: &key.encrypt, iv, data }));
    }

    fn decrypt<'a>(&'a self, messages: impl Iterator<Item = Ciphering<'a, Self>>) {
        self.decrypt.run(messages.map(|(key, iv, data)| key.decrypt.message(iv, data)));
    }
}

struct Ctr(IndependentKey);

impl Cipher for Ctr {
    const BLOCK: usize = 1;

    fn runs_with(&self, other: &Self) -> bool {
        self.0.runs_with(&other.0)
    }

    fn encrypt<'a>(&'a self, _count: usize, messages: impl Iterator<Item = Ciphering<'a, Self>>) {
        self.decrypt(messages);
    }

    fn decrypt<'a>(&'a self, messages: impl Iterator<Item = Ciphering<'a, Self>>) {
        self.0.run(messages.map(|(key, iv, data)| key.0.message(iv, data)));
    }
}

impl<C: Cipher, H: Hash> Aead for EtmWork<C, H> {
    fn runs_with(&self, other: &Self) -> bool {
        self.cipher.runs_with(&other.cipher)
    }

    fn allows(&self, iv: &[u8], data: usize, tag: usize) -> bool {
        iv.len() == BLOCK && data.is_multiple_of(C::BLOCK) && tag == self.tag
    }

    fn seal(&self, messages: &mut [Sealing<'_, Self>]) {
        let count = messages.len();
        let data =
            messages.iter_mut().map(|message| (&message.work.cipher, iv_of(message.iv), message.data.reborrow()));
        self.cipher.encrypt(count, data);
        self.authenticate(messages.iter_mut().map(|message| Authenticated {
            start: &message.work.start,
            parts: [message.aad, message.iv, message.data.output()],
            tag: message.tag,
        }));
    }

    fn open(&self, messages: &mut [Opening<'_, Self>]) {
        let mut computed = Tags::<LONGEST_TAG>::none();
        self.authenticate(messages.iter().zip(&mut computed.0).map(|(message, computed)| Authenticated {
            start: &message.work.start,
            parts: [message.aad, message.iv, message.data.input()],
            tag: &mut computed[..message.work.tag],
        }));
        computed.compare(messages);
        // Of the others nothing is written.
        let genuine = messages.iter_mut().filter(|message| message.outcome == Outcome::Done);
        self.cipher.decrypt(genuine.map(|message| (&message.work.cipher, iv_of(message.iv), message.data.reborrow())));
    }
}

fn iv_of(iv: &[u8]) -> [u8; BLOCK] {
    *iv.as_array().expect("a message has an IV that is allowed")
}

/// The place of the data among the parts of a message.
const DATA: usize = 2;

/// A message that is authenticated.
struct Authenticated<'a, H: Hash> {
    start: &'a Start<H>,
    /// Associated data, IV, and the data.
    parts: [&'a [u8]; 3],
    tag: &'a mut [u8],
}

impl<C: Cipher, H: Hash> EtmWork<C, H> {
    /// The tags of messages side by side, at most [`AT_ONCE`], each with its own key. Leaves nothing behind.
    fn authenticate<'a>(&self, messages: impl Iterator<Item = Authenticated<'a, H>>) {
        below(|| self.in_lanes(messages));
        overwrite::<AUTHENTICATING>();
    }

    fn in_lanes<'a>(&self, messages: impl Iterator<Item = Authenticated<'a, H>>) {
        let mut all = [const { None }; AT_ONCE];
        let mut long = false;
        for (place, mut message) in all.iter_mut().zip(messages) {
            let mut stream = Stream::new(message.start);
            // What is in front of the data is mostly less than a block. They stay where they are, and need not begin with one.
            if message.parts[..DATA].iter().map(|part| part.len()).sum::<usize>() < H::BLOCK {
                for part in &mut message.parts[..DATA] {
                    stream.begin_with(core::mem::take(part));
                }
            } else {
                long = true;
            }
            *place = Some((message, stream));
        }
        for part in if long { 0 } else { DATA }..=DATA {
            let jobs = all.iter_mut().flatten().map(|(message, stream)| Job {
                start: message.start,
                stream: Some(stream),
                input: message.parts[part],
                output: if part == DATA { Some(&mut *message.tag) } else { None },
            });
            hash::run(self.kernels, jobs);
        }
    }
}
