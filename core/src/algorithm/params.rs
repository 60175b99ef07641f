//! The parameters of a session: an algorithm, a direction, keys.

use std::fmt;

use zeroize::Zeroizing;

use super::direction::Direction;
use super::error::Misuse;
use super::esp::Esp;
use super::ids::Algorithm;
use super::kind::Kind;
use super::lengths::Lengths;
use super::operation::Operation;
use super::prehash::Prehash;
use super::tags::tags_equal;

/// The parameters of a session: an algorithm, a direction, and keys.
///
/// Each clone has its own copy of the keys, and zeroizes it when dropped. A session keeps its parameters until it ends.
///
/// ```
/// use gantry_core::{Algorithm, SessionParams};
/// let digest = SessionParams::new(Algorithm::Sha256, &[]);
/// let ipsec = SessionParams::new(Algorithm::Aes128CbcHmacSha256, &[1; 16]).with_mac_key(&[2; 32]).with_tag_len(16);
/// assert_eq!(ipsec.tag_len(), 16);
/// ```
#[derive(Clone)]
pub struct SessionParams {
    algorithm: Algorithm,
    direction: Direction,
    key: Zeroizing<Vec<u8>>,
    mac_key: Zeroizing<Vec<u8>>,
    tag_len: usize,
    any_nonce: bool,
    ordered: bool,
    level: usize,
    signing: Signing,
    esp: Option<Esp>,
}

/// The parameters of signatures.
#[derive(Clone, Debug, Default)]
struct Signing {
    context: Vec<u8>,
    prehash: Prehash,
    deterministic: bool,
}

impl SessionParams {
    /// Makes parameters. `key` is empty for digests, both halves in order for XTS, and the private key for signatures, key exchange, key
    /// encapsulation and encipherment. Operations with another key, such as a public key, need [their direction](Self::with_direction).
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        Self {
            algorithm,
            direction: Direction::Both,
            key: Zeroizing::new(key.to_vec()),
            mac_key: Zeroizing::new(Vec::new()),
            tag_len: algorithm.info().default_tag_length(),
            any_nonce: false,
            ordered: false,
            level: algorithm.info().default_level,
            signing: Signing::default(),
            esp: None,
        }
    }

    /// Sets the security association of a session for packets.
    #[must_use]
    pub fn with_esp(mut self, esp: Esp) -> Self {
        self.esp = Some(esp);
        self
    }

    /// Returns the security association of a session for packets.
    pub fn esp(&self) -> Option<Esp> {
        self.esp
    }

    /// Sets the context string of signatures ([`AlgorithmInfo::context`](crate::AlgorithmInfo::context)), which names their purpose. A
    /// signature is not valid with another context. Empty by default.
    #[must_use]
    pub fn with_context(mut self, context: &[u8]) -> Self {
        self.signing.context = context.to_vec();
        self
    }

    /// Sets the input of signatures, if the algorithm has a choice. By default, the input is the message.
    #[must_use]
    pub fn with_prehash(mut self, prehash: Prehash) -> Self {
        self.signing.prehash = prehash;
        self
    }

    /// Makes signatures without a random number, so that all signatures of a message are equal. If the algorithm normally takes a random
    /// number, only devices with [`Capability::deterministic`](crate::driver::Capability::deterministic) serve such a session.
    #[must_use]
    pub fn deterministic(mut self) -> Self {
        self.signing.deterministic = true;
        self
    }

    /// Sets the compression level ([`AlgorithmInfo::levels`](crate::AlgorithmInfo::levels)). Sessions of any level decompress the result. A
    /// device with fewer levels uses its nearest level.
    #[must_use]
    pub fn with_level(mut self, level: usize) -> Self {
        self.level = level;
        self
    }

    /// Returns the compression level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Returns the context string of signatures.
    pub fn context(&self) -> &[u8] {
        &self.signing.context
    }

    /// Returns the input of signatures.
    pub fn prehash(&self) -> Prehash {
        self.signing.prehash
    }

    /// Returns whether signatures are made without a random number.
    pub fn is_deterministic(&self) -> bool {
        self.signing.deterministic
    }

    /// Returns whether two signatures, or two ciphertexts of encipherment, differ for the same message.
    pub(crate) fn is_randomized(&self) -> bool {
        self.algorithm.info().randomized && !self.signing.deterministic
    }

    /// Sets the second key, which encrypt-then-authenticate algorithms use for the MAC.
    #[must_use]
    pub fn with_mac_key(mut self, key: &[u8]) -> Self {
        self.mac_key = Zeroizing::new(key.to_vec());
        self
    }

    /// Sets the direction; the default is [`Direction::Both`]. An [`Operation`] as an argument selects the direction of that operation.
    #[must_use]
    pub fn with_direction(mut self, direction: impl Into<Direction>) -> Self {
        self.direction = direction.into();
        self
    }

    /// Sets the length of a MAC or tag, or of a digest whose length the caller chooses, in bytes. If not set, it is the algorithm's
    /// [default](crate::AlgorithmInfo::default_tag_length).
    #[must_use]
    pub fn with_tag_len(mut self, bytes: usize) -> Self {
        self.tag_len = bytes;
        self
    }

    /// Allows nonces of any length that the algorithm has ([`AlgorithmInfo::any_nonce`](crate::AlgorithmInfo::any_nonce)): 1 to 65,536
    /// bytes for AES-GCM. Without this setting, AES-GCM takes only nonces of 12 bytes.
    #[must_use]
    pub fn with_any_nonce(mut self) -> Self {
        self.any_nonce = true;
        self
    }

    /// Returns the allowed lengths of the session's IVs or nonces.
    pub fn iv_lengths(&self) -> Lengths {
        let info = self.algorithm.info();
        if self.any_nonce && info.any_nonce.max > 0 { info.any_nonce } else { info.iv }
    }

    /// Makes the requests of this session complete in the order in which a queue took them.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Returns whether requests complete in order.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Returns the algorithm of the session.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the key. Secret.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the second key of an encrypt-then-authenticate algorithm; empty for other algorithms. Secret.
    pub fn mac_key(&self) -> &[u8] {
        &self.mac_key
    }

    /// Returns the length in bytes of a digest, MAC, tag, signature or secret of this session; 0 for ciphers.
    pub fn tag_len(&self) -> usize {
        self.tag_len
    }

    /// Returns whether the session may run `operation`.
    #[inline]
    pub fn allows(&self, operation: Operation) -> bool {
        let row = operation.info();
        let is_any = row.direction == Direction::Both || self.direction == Direction::Both;
        row.kind == self.algorithm.kind() && (is_any || row.direction == self.direction)
    }

    /// Returns the same parameters with other keys.
    pub(crate) fn with_keys(&self, key: &[u8], mac_key: &[u8]) -> Self {
        let (key, mac_key) = (Zeroizing::new(key.to_vec()), Zeroizing::new(mac_key.to_vec()));
        let Self { algorithm, direction, tag_len, any_nonce, ordered, level, esp, .. } = *self;
        let signing = self.signing.clone();
        Self { algorithm, direction, key, mac_key, tag_len, any_nonce, ordered, level, signing, esp }
    }

    /// Checks all that can be checked without a device.
    pub(crate) fn check(&self) -> Result<(), Misuse> {
        let info = self.algorithm.info();
        let algorithm = self.algorithm;
        let takes = match (info.kind, self.direction) {
            (Kind::Signature, Direction::Decrypt) | (Kind::Encipherment, Direction::Encrypt) => info.public_key,
            (Kind::Kem, Direction::Encrypt) => Lengths::NONE,
            _ => info.key,
        };
        if !takes.allows(self.key.len()) {
            return Err(Misuse::KeyLength { algorithm, got: self.key.len(), takes });
        }
        if !info.mac_key.allows(self.mac_key.len()) {
            return Err(Misuse::MacKeyLength { algorithm, got: self.mac_key.len(), takes: info.mac_key });
        }
        if !info.tag.allows(self.tag_len) {
            return Err(Misuse::TagLength { algorithm, got: self.tag_len, takes: info.tag });
        }
        if !info.levels.allows(self.level) {
            return Err(Misuse::Level { algorithm, got: self.level, takes: info.levels });
        }
        let spi = self.esp.map(|esp| esp.spi);
        // RFC 4303, 2.1, reserves SPIs below 256.
        let fits = spi.map_or(info.kind != Kind::Packet, |spi| info.kind == Kind::Packet && spi >= 256);
        if !fits {
            return Err(Misuse::Spi { algorithm, got: spi.unwrap_or(0) });
        }
        self.check_signing()?;
        if matches!(algorithm, Algorithm::Aes128Xts | Algorithm::Aes256Xts) {
            let (first, second) = self.key.split_at(self.key.len() / 2);
            if tags_equal(first, second) {
                return Err(Misuse::XtsKeyHalves { algorithm });
            }
        }
        Ok(())
    }

    fn check_signing(&self) -> Result<(), Misuse> {
        let (algorithm, takes) = (self.algorithm, self.algorithm.info().context);
        let Signing { context, prehash, .. } = &self.signing;
        let got = context.len();
        // The representative μ already includes the context.
        if !takes.allows(got) || *prehash == Prehash::Mu && got > 0 {
            let takes = if *prehash == Prehash::Mu { Lengths::NONE } else { takes };
            return Err(Misuse::ContextLength { algorithm, got, takes });
        }
        // Only algorithms that take a context take anything but the message itself.
        let is_supported = match prehash {
            Prehash::Pure => true,
            Prehash::Mu => takes.max > 0 && !algorithm.is_slh_dsa(),
            Prehash::Hash(_) => takes.max > 0 && prehash.identifier().is_some(),
        };
        if is_supported { Ok(()) } else { Err(Misuse::Prehash { algorithm }) }
    }

    /// Returns the operation of this session's digest or MAC streams, if it has them.
    pub(crate) fn stream_operation(&self) -> Option<Operation> {
        match self.algorithm.kind() {
            Kind::Digest => Some(Operation::Digest),
            Kind::Mac if self.algorithm.info().iv.max == 0 => Some(Operation::Mac),
            Kind::Mac
            | Kind::Cipher
            | Kind::Aead
            | Kind::Signature
            | Kind::Exchange
            | Kind::Kem
            | Kind::Compression
            | Kind::Packet
            | Kind::Encipherment => None,
        }
    }
}

impl fmt::Debug for SessionParams {
    /// Shows lengths in place of keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionParams")
            .field("algorithm", &self.algorithm.name())
            .field("direction", &self.direction)
            .field("key", &format_args!("{} bytes", self.key.len()))
            .field("mac_key", &format_args!("{} bytes", self.mac_key.len()))
            .field("tag_len", &self.tag_len)
            .field("any_nonce", &self.any_nonce)
            .field("ordered", &self.ordered)
            .field("level", &self.level)
            .field("esp", &self.esp)
            .field("signing", &self.signing)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lengths_of_keys_and_tags_are_named() {
        let wrong = |params: SessionParams| params.check().unwrap_err().to_string();
        assert_eq!(
            wrong(SessionParams::new(Algorithm::Aes128Gcm, &[0; 15])),
            "aes-128-gcm: a key of 15 bytes; it takes 16"
        );
        assert_eq!(wrong(SessionParams::new(Algorithm::Sha256, &[0])), "sha256: a key of 1 bytes; it takes 0");
        assert_eq!(
            wrong(SessionParams::new(Algorithm::Aes128Ccm, &[0; 16]).with_tag_len(5)),
            "aes-128-ccm: a tag of 5 bytes; it takes 4 to 16 in steps of 2"
        );
        assert_eq!(
            wrong(SessionParams::new(Algorithm::Aes128Gcm, &[0; 16]).with_mac_key(&[1])),
            "aes-128-gcm: a MAC key of 1 bytes; it takes 0"
        );
        assert_eq!(
            wrong(SessionParams::new(Algorithm::Sha256, &[]).with_tag_len(16)),
            "sha256: a tag of 16 bytes; it takes 32"
        );
        assert_eq!(
            wrong(SessionParams::new(Algorithm::Shake128, &[]).with_tag_len(0)),
            "shake128: a tag of 0 bytes; it takes 1 to 65536"
        );
    }

    #[test]
    fn gcm_takes_nonces_of_other_lengths_only_on_request() {
        let gcm = SessionParams::new(Algorithm::Aes256Gcm, &[0; 32]);
        assert_eq!(gcm.iv_lengths(), Lengths::exactly(12));
        let any = gcm.with_any_nonce();
        assert_eq!(any.iv_lengths(), Lengths::range(1, 65_536, 1));
        assert_eq!(any.with_keys(&[1; 32], &[]).iv_lengths(), Lengths::range(1, 65_536, 1));
        let chacha = SessionParams::new(Algorithm::ChaCha20Poly1305, &[0; 32]).with_any_nonce();
        assert_eq!(chacha.iv_lengths(), Lengths::exactly(12));
    }

    #[test]
    fn checks_the_compression_level() {
        let at = |algorithm, level| {
            SessionParams::new(algorithm, &[]).with_level(level).check().map_err(|wrong| wrong.to_string())
        };
        assert_eq!(SessionParams::new(Algorithm::Gzip, &[]).level(), 6);
        assert_eq!((at(Algorithm::Zstd, 19), at(Algorithm::Gzip, 1)), (Ok(()), Ok(())));
        assert_eq!(at(Algorithm::Gzip, 10), Err("gzip: level 10; it takes 1 to 9".to_owned()));
        assert_eq!(at(Algorithm::Sha256, 1), Err("sha256: level 1; it takes 0".to_owned()));
    }

    #[test]
    fn a_digest_of_any_length_has_a_default() {
        let length = |params: SessionParams| params.check().map(|()| params.tag_len());
        assert_eq!(length(SessionParams::new(Algorithm::Shake128, &[])), Ok(32));
        assert_eq!(length(SessionParams::new(Algorithm::TurboShake256, &[])), Ok(64));
        assert_eq!(length(SessionParams::new(Algorithm::Kt128, &[]).with_tag_len(64 << 10)), Ok(64 << 10));
    }

    #[test]
    fn an_xts_key_needs_two_different_halves() {
        let same = SessionParams::new(Algorithm::Aes256Xts, &[7; 64]);
        assert!(matches!(same.check(), Err(Misuse::XtsKeyHalves { .. })));
        let mut key = [7; 64];
        key[63] = 8;
        assert_eq!(SessionParams::new(Algorithm::Aes256Xts, &key).check(), Ok(()));
    }

    #[test]
    fn a_session_of_one_direction_refuses_the_other() {
        let sealing = SessionParams::new(Algorithm::Aes128Gcm, &[0; 16]).with_direction(Direction::Encrypt);
        assert!(
            sealing.allows(Operation::Seal) && !sealing.allows(Operation::Open) && !sealing.allows(Operation::Encrypt)
        );
    }

    #[test]
    fn key_encapsulation_has_a_private_key_or_none() {
        let open =
            |direction: Direction, key: &[u8]| SessionParams::new(Algorithm::MlKem768, key).with_direction(direction);
        for length in [64, 2400] {
            assert_eq!(open(Direction::Both, &vec![1; length]).check(), Ok(()));
            assert_eq!(open(Operation::Decapsulate.into(), &vec![1; length]).check(), Ok(()));
        }
        let encapsulates = open(Operation::Encapsulate.into(), &[]);
        assert_eq!(encapsulates.check(), Ok(()));
        assert!(encapsulates.allows(Operation::KeyGen) && encapsulates.allows(Operation::Encapsulate));
        assert!(!encapsulates.allows(Operation::Decapsulate));
        let wrong = open(Direction::Both, &[1; 65]).check().unwrap_err();
        assert_eq!(wrong.to_string(), "ml-kem-768: a key of 65 bytes; it takes 64 or 2400");
        assert!(
            open(Operation::KeyGen.into(), &[1; 64]).check().is_err()
                && open(Operation::Decapsulate.into(), &[]).check().is_err()
        );
    }

    #[test]
    fn only_signatures_that_have_them_take_a_context_and_a_hash() {
        let signs = SessionParams::new(Algorithm::MlDsa44, &[1; 32]);
        let plain = SessionParams::new(Algorithm::Ed25519, &[1; 32]);
        assert_eq!(
            signs.clone().with_context(&[7; 255]).with_prehash(Prehash::Hash(Algorithm::Sha512)).check(),
            Ok(())
        );
        assert_eq!(signs.clone().with_prehash(Prehash::Mu).deterministic().check(), Ok(()));
        let wrong = |params: SessionParams| params.check().unwrap_err().to_string();
        assert_eq!(
            wrong(signs.clone().with_context(&[7; 256])),
            "ml-dsa-44: a context of 256 bytes; it takes 0 to 255"
        );
        assert_eq!(wrong(plain.clone().with_context(&[7])), "ed25519: a context of 1 bytes; it takes 0");
        assert_eq!(
            wrong(signs.clone().with_context(&[7]).with_prehash(Prehash::Mu)),
            "ml-dsa-44: a context of 1 bytes; it takes 0"
        );
        let error = ": unsupported prehash mode";
        assert_eq!(wrong(plain.with_prehash(Prehash::Mu)), format!("ed25519{error}"));
        assert_eq!(wrong(signs.with_prehash(Prehash::Hash(Algorithm::Md5))), format!("ml-dsa-44{error}"));
        let hashes =
            SessionParams::new(Algorithm::SlhDsaSha2_128s, &[1; 48]).with_prehash(Prehash::Hash(Algorithm::Shake256));
        assert_eq!(hashes.clone().with_context(&[7; 255]).deterministic().check(), Ok(()));
        assert_eq!(wrong(hashes.with_prehash(Prehash::Mu)), format!("slh-dsa-sha2-128s{error}"));
    }

    #[test]
    fn debug_output_holds_no_key() {
        let params = SessionParams::new(Algorithm::HmacSha256, b"secret").with_mac_key(b"hidden");
        let text = format!("{params:?}");
        assert!(text.contains("6 bytes") && !text.contains("secret") && !text.contains("115"), "{text}");
    }
}
