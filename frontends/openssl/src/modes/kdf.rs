//! Our own state of a key derivation context: the parameters, as far as lanes support them.
//!
//! The default provider receives every parameter too. It derives everything unusual, and reports the errors.

use gantry_core::Kind;
use gantry_digest::{Algorithm, hkdf, hkdf_expand, hkdf_extract};
use zeroize::Zeroizing;

use crate::derivations::{DerivingThread, LaneUse};
use crate::libcrypto::{ParamValue, ParamValues};
use crate::provider::WrappedAlgorithm;
use crate::table::{Kdf, Mode};

#[derive(Clone)]
pub(crate) struct KdfState {
    kdf: Kdf,
    /// The digest; `None` if it is not set, or lanes do not have it.
    digest: Option<Algorithm>,
    /// The password of PBKDF2, or the key of HKDF.
    secret: Option<Zeroizing<Vec<u8>>>,
    salt: Option<Zeroizing<Vec<u8>>>,
    info: Zeroizing<Vec<u8>>,
    iterations: u64,
    /// True if the bounds of SP 800-132 are enforced.
    enforces_bounds: bool,
    stage: Stage,
    /// True if a parameter was set that only the default provider understands, or that it refused.
    needs_default_provider: bool,
}

/// The steps of HKDF to run: `EVP_KDF_HKDF_MODE_*` (kdf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Both,
    Extract,
    Expand,
}

/// The stages' names and numbers in parameters.
const STAGES: [(&str, usize, Stage); 3] =
    [("EXTRACT_AND_EXPAND", 0, Stage::Both), ("EXTRACT_ONLY", 1, Stage::Extract), ("EXPAND_ONLY", 2, Stage::Expand)];

impl KdfState {
    pub(crate) fn new(wrapped: &WrappedAlgorithm) -> Self {
        // Rows of key derivations have no other mode.
        Self::with_defaults(if let Mode::Kdf(kdf) = wrapped.row().mode { kdf } else { Kdf::Pbkdf2 })
    }

    /// Returns the default provider's initial state. PBKDF2's digest and iterations are equal in all releases.
    fn with_defaults(kdf: Kdf) -> Self {
        Self {
            kdf,
            digest: (kdf == Kdf::Pbkdf2).then_some(Algorithm::Sha1),
            secret: None,
            salt: None,
            info: Zeroizing::default(),
            iterations: 2048,
            enforces_bounds: false,
            stage: Stage::Both,
            needs_default_provider: false,
        }
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::with_defaults(self.kdf);
    }

    /// Records that the default provider refused some of the parameters; it is unknown which.
    pub(crate) fn params_refused(&mut self) {
        self.needs_default_provider = true;
    }

    /// Records parameters that the default provider has accepted.
    pub(crate) fn params_accepted(&mut self, values: ParamValues<'_>) {
        let (is_understood, is_complete) = match self.kdf {
            Kdf::Pbkdf2 => {
                let ([secret, salt, digest, properties, iterations, pkcs5], is_complete) =
                    values.find_all([c"pass", c"salt", c"digest", c"properties", c"iter", c"pkcs5"]);
                let is_understood = self.take_common(secret, salt, digest, properties)
                    && take_param(iterations, ParamValue::number, |number| self.iterations = number as u64)
                    && take_param(pkcs5, ParamValue::number, |off| self.enforces_bounds = off == 0);
                (is_understood, is_complete)
            }
            Kdf::Hkdf => {
                let ([secret, salt, digest, properties, info, mode], is_complete) =
                    values.find_all([c"key", c"salt", c"digest", c"properties", c"info", c"mode"]);
                // OpenSSL 3.0 keeps the previous salt when it gets an empty one.
                let replaces_salt = !salt.is_empty() || self.salt.as_ref().is_none_or(|salt| salt.is_empty());
                let is_understood = self.take_common(secret, salt, digest, properties)
                    && take_param(info, ParamValue::octets_or_none, |info| self.info = Zeroizing::new(info.to_vec()))
                    && take_param(mode, parse_stage, |stage| self.stage = stage);
                (is_understood && replaces_salt, is_complete)
            }
        };
        // Repeated parameters have their own meaning: all values of `info` are concatenated.
        self.needs_default_provider |= !is_understood || !is_complete || values.has_repeated();
    }

    /// Takes the parameters that PBKDF2 and HKDF share. Returns true if lanes support their values.
    fn take_common(
        &mut self,
        secret: ParamValue<'_>,
        salt: ParamValue<'_>,
        digest: ParamValue<'_>,
        properties: ParamValue<'_>,
    ) -> bool {
        if digest.is_present() {
            let named = digest.text().filter(|_| properties.text().is_none_or(<[u8]>::is_empty));
            self.digest = named.and_then(digest_named);
        }
        let copy = |bytes: &[u8]| Some(Zeroizing::new(bytes.to_vec()));
        take_param(secret, ParamValue::octets_or_none, |bytes| self.secret = copy(bytes))
            && take_param(salt, ParamValue::octets_or_none, |bytes| self.salt = copy(bytes))
    }

    /// Registers the thread as one that derives, if lanes support the parameters; `None` means that the default provider derives. The
    /// thread counts until the result is dropped.
    pub(crate) fn register<'w>(&self, wrapped: &'w WrappedAlgorithm) -> Option<DerivingThread<'w>> {
        let digest = self.digest.filter(|_| !self.needs_default_provider && self.secret.is_some())?;
        let derivations = wrapped.framework()?.derivations()?;
        derivations.is_verified(digest).then(|| derivations.register())
    }

    /// Derives a key in lanes, if that is faster and no parameter is wrong. Otherwise the default provider derives it or reports the error.
    pub(crate) fn derive(&self, thread: &DerivingThread<'_>, output: &mut [u8]) -> Option<LaneUse> {
        let (digest, secret) = (self.digest?, self.secret.as_ref()?);
        if output.is_empty() {
            return None;
        }
        match self.kdf {
            Kdf::Pbkdf2 if self.enforces_bounds => None,
            Kdf::Pbkdf2 => thread.pbkdf2((digest, secret, self.salt.as_ref()?, self.iterations), output),
            Kdf::Hkdf if secret.is_empty() => None,
            Kdf::Hkdf => {
                let salt = self.salt.as_ref().map_or(&[][..], |salt| salt);
                let derived = match self.stage {
                    Stage::Both => hkdf(digest, secret, salt, &self.info, output),
                    Stage::Extract => hkdf_extract(digest, secret, salt, output),
                    Stage::Expand => hkdf_expand(digest, secret, &self.info, output),
                };
                derived.ok().map(|()| LaneUse::Alone)
            }
        }
    }
}

/// Passes the value to `keep`, if there is one. Returns false if `read` does not understand the value.
fn take_param<'c, T>(answer: ParamValue<'c>, read: impl Fn(ParamValue<'c>) -> Option<T>, keep: impl FnOnce(T)) -> bool {
    if answer.is_present() { read(answer).map(keep).is_some() } else { true }
}

/// Returns the lanes' digest with any of OpenSSL's names.
fn digest_named(name: &[u8]) -> Option<Algorithm> {
    let named = gantry_core::Algorithm::matching(str::from_utf8(name).ok()?).ok()?;
    let [digest] = named[..] else { return None };
    if digest.kind() == Kind::Digest { digest.name().parse().ok() } else { None }
}

fn parse_stage(mode: ParamValue<'_>) -> Option<Stage> {
    let number = mode.number();
    let matches = |(name, code, _): &&(&str, usize, Stage)| {
        number == Some(*code) || mode.text().is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes()))
    };
    STAGES.iter().find(matches).map(|(.., stage)| *stage)
}
