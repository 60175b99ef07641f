//! What the context of a key derivation knows beside the host's own: its parameters, as far as lanes can derive with them.
//!
//! The host gets every parameter, too. It derives whatever is unusual, and so finds the errors.

use gantry_core::Kind;
use gantry_digest::{Algorithm, hkdf, hkdf_expand, hkdf_extract};
use zeroize::Zeroizing;

use crate::boundary::{Answer, Answers, Wrapped};
use crate::derivations::{Derived, Present};
use crate::table::{Kdf, Mode};

#[derive(Clone)]
pub(crate) struct Deriving {
    kdf: Kdf,
    /// `None`: lanes do not have it, or nobody has named it.
    digest: Option<Algorithm>,
    /// The password of PBKDF2, or the key of HKDF.
    secret: Option<Zeroizing<Vec<u8>>>,
    salt: Option<Zeroizing<Vec<u8>>>,
    info: Zeroizing<Vec<u8>>,
    iterations: u64,
    /// The bounds of SP 800-132 are looked at.
    is_checked: bool,
    stage: Stage,
    /// Something was said that only the host understands, or that it has refused.
    foreign: bool,
}

/// What of HKDF is wanted: `EVP_KDF_HKDF_MODE_*` (kdf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Both,
    Extract,
    Expand,
}

/// The names and numbers of stages in parameters.
const STAGES: [(&str, usize, Stage); 3] =
    [("EXTRACT_AND_EXPAND", 0, Stage::Both), ("EXTRACT_ONLY", 1, Stage::Extract), ("EXPAND_ONLY", 2, Stage::Expand)];

impl Deriving {
    pub(crate) fn new(wrapped: &Wrapped) -> Self {
        // A row of key derivations has no other mode.
        Self::of(if let Mode::Kdf(kdf) = wrapped.row().mode { kdf } else { Kdf::Pbkdf2 })
    }

    /// What the default provider begins with: of all releases, PBKDF2 has the same digest and iterations.
    fn of(kdf: Kdf) -> Self {
        Self {
            kdf,
            digest: (kdf == Kdf::Pbkdf2).then_some(Algorithm::Sha1),
            secret: None,
            salt: None,
            info: Zeroizing::default(),
            iterations: 2048,
            is_checked: false,
            stage: Stage::Both,
            foreign: false,
        }
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::of(self.kdf);
    }

    /// The host has refused some of what was said, and nobody knows which.
    pub(crate) fn refused(&mut self) {
        self.foreign = true;
    }

    /// The host has taken these parameters.
    pub(crate) fn told(&mut self, told: Answers<'_>) {
        let (known, is_all) = match self.kdf {
            Kdf::Pbkdf2 => {
                let ([secret, salt, digest, properties, iterations, pkcs5], is_all) =
                    told.of([c"pass", c"salt", c"digest", c"properties", c"iter", c"pkcs5"]);
                let known = self.take(secret, salt, digest, properties)
                    && take(iterations, Answer::number, |number| self.iterations = number as u64)
                    && take(pkcs5, Answer::number, |off| self.is_checked = off == 0);
                (known, is_all)
            }
            Kdf::Hkdf => {
                let ([secret, salt, digest, properties, info, mode], is_all) =
                    told.of([c"key", c"salt", c"digest", c"properties", c"info", c"mode"]);
                // OpenSSL 3.0 leaves a salt as it was when an empty one is told.
                let is_clear = !salt.is_empty() || self.salt.as_ref().is_none_or(|salt| salt.is_empty());
                let known = self.take(secret, salt, digest, properties)
                    && take(info, Answer::octets_or_none, |info| self.info = Zeroizing::new(info.to_vec()))
                    && take(mode, stage, |stage| self.stage = stage);
                (known && is_clear, is_all)
            }
        };
        // More than one value of a key have a meaning of their own: `info` is what all of them are together.
        self.foreign |= !known || !is_all || told.has_repeated();
    }

    /// What both have. Whether it was understood.
    fn take(&mut self, secret: Answer<'_>, salt: Answer<'_>, digest: Answer<'_>, properties: Answer<'_>) -> bool {
        if digest.is_there() {
            let named = digest.text().filter(|_| properties.text().is_none_or(<[u8]>::is_empty));
            self.digest = named.and_then(digest_named);
        }
        let kept = |bytes: &[u8]| Some(Zeroizing::new(bytes.to_vec()));
        take(secret, Answer::octets_or_none, |bytes| self.secret = kept(bytes))
            && take(salt, Answer::octets_or_none, |bytes| self.salt = kept(bytes))
    }

    /// The lanes, if what was said is for them; `None` is the host's. The thread counts among those that derive as long as the answer lives.
    pub(crate) fn enter<'w>(&self, wrapped: &'w Wrapped) -> Option<Present<'w>> {
        let digest = self.digest.filter(|_| !self.foreign && self.secret.is_some())?;
        let lanes = wrapped.framework()?.derivations()?;
        lanes.knows(digest).then(|| lanes.enter())
    }

    /// Derives a key in lanes, if that is faster and nothing is wrong with what was said. Otherwise it is the host's to derive it, or to say what
    /// is wrong.
    pub(crate) fn derive(&self, present: &Present<'_>, output: &mut [u8]) -> Option<Derived> {
        let (digest, secret) = (self.digest?, self.secret.as_ref()?);
        if output.is_empty() {
            return None;
        }
        match self.kdf {
            Kdf::Pbkdf2 if self.is_checked => None,
            Kdf::Pbkdf2 => present.pbkdf2((digest, secret, self.salt.as_ref()?, self.iterations), output),
            Kdf::Hkdf if secret.is_empty() => None,
            Kdf::Hkdf => {
                let salt = self.salt.as_ref().map_or(&[][..], |salt| salt);
                let derived = match self.stage {
                    Stage::Both => hkdf(digest, secret, salt, &self.info, output),
                    Stage::Extract => hkdf_extract(digest, secret, salt, output),
                    Stage::Expand => hkdf_expand(digest, secret, &self.info, output),
                };
                derived.ok().map(|()| Derived::Alone)
            }
        }
    }
}

/// Gives a value to `keep`, if there is any. Whether it was understood.
fn take<'c, T>(answer: Answer<'c>, read: impl Fn(Answer<'c>) -> Option<T>, keep: impl FnOnce(T)) -> bool {
    if answer.is_there() { read(answer).map(keep).is_some() } else { true }
}

/// A digest of lanes, by any of OpenSSL's names.
fn digest_named(name: &[u8]) -> Option<Algorithm> {
    let named = gantry_core::Algorithm::matching(str::from_utf8(name).ok()?).ok()?;
    let [digest] = named[..] else { return None };
    if digest.kind() == Kind::Digest { digest.name().parse().ok() } else { None }
}

fn stage(mode: Answer<'_>) -> Option<Stage> {
    let number = mode.number();
    let is_it = |(name, code, _): &&(&str, usize, Stage)| {
        number == Some(*code) || mode.text().is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes()))
    };
    STAGES.iter().find(is_it).map(|(.., stage)| *stage)
}
