//! Keys of TLS groups, and agreements on secrets with these keys: ML-KEM, alone or together with a curve.

use std::sync::OnceLock;

use gantry_core::driver::Operands;
use gantry_core::{Outcome, SessionParams};
use zeroize::{Zeroize, Zeroizing};

use crate::groups::{Curve, Group, ML_KEM_SECRET_LEN, is_reduced};
use crate::libcrypto::{DefaultProviderKey, with_enough_stack};
use crate::provider::Provider;

/// Bytes of the seed of ML-KEM's private keys, d ‖ z.
const SEED_LEN: usize = 64;

/// A key of a group: empty, a peer's share, or a pair. It does not change once it is set.
pub(crate) struct GroupKey {
    pub(crate) group: &'static Group,
    share: OnceLock<Share>,
}

struct Share {
    /// The public key, as a client sends it.
    public: Box<[u8]>,
    /// The key of the curve: a pair, or a peer's public key.
    curve: Option<DefaultProviderKey>,
    /// The private key of ML-KEM.
    seed: Option<Box<Zeroizing<[u8; SEED_LEN]>>>,
}

/// The reason why a call is refused.
pub(crate) type RefusalReason = &'static str;

impl GroupKey {
    pub(crate) fn new(group: &'static Group) -> Self {
        Self { group, share: OnceLock::new() }
    }

    /// Returns the public key, as a client sends it.
    pub(crate) fn public(&self) -> Option<&[u8]> {
        Some(&self.share.get()?.public)
    }

    pub(crate) fn has_private(&self) -> bool {
        self.share.get().is_some_and(|share| share.seed.is_some())
    }

    /// Generates a pair.
    pub(crate) fn generate(provider: &Provider, group: &'static Group) -> Result<Self, RefusalReason> {
        let mut public = vec![0; group.client_share_len()].into_boxed_slice();
        let mut seed = Box::new(Zeroizing::new([0; SEED_LEN]));
        let (ml_kem, curve_part) = group.parts_mut(&mut public, group.ml_kem_public_len()).ok_or("wrong length")?;
        let operands = Operands::KeyGen { seed: &[], private: &mut **seed, public: ml_kem };
        run_ml_kem(provider, group, &[], operands)?;
        let curve = group.curve.map(|curve| generate_curve_key(provider, curve, curve_part)).transpose()?;
        let key = Self::new(group);
        let _ = key.share.set(Share { public, curve, seed: Some(seed) });
        Ok(key)
    }

    /// Sets the share of a peer. The share must have the right length and form. ML-KEM's key must be reduced (FIPS 203, 7.2), and the point
    /// must be on the curve.
    pub(crate) fn set_peer(&self, provider: &Provider, public: &[u8]) -> Result<(), RefusalReason> {
        let group = self.group;
        if public.len() != group.client_share_len() {
            return Err("the share has a wrong length");
        }
        let (ml_kem, point) = group.parts(public, group.ml_kem_public_len()).ok_or("the share has a wrong length")?;
        if !is_reduced(ml_kem) {
            return Err("the share's key of ML-KEM is not reduced");
        }
        let curve = group.curve.map(|curve| import_peer(provider, curve, point)).transpose()?;
        let share = Share { public: public.into(), curve, seed: None };
        self.share.set(share).map_err(|_| "the key is set already")
    }

    /// Agrees on a secret with the peer that sent this share, and writes the answer to the peer.
    pub(crate) fn encapsulate(
        &self,
        provider: &Provider,
        answer: &mut [u8],
        secret: &mut [u8],
    ) -> Result<(), RefusalReason> {
        let (group, share) = (self.group, self.share.get().ok_or("the key is not set")?);
        let (input, _) = group.parts(&share.public, group.ml_kem_public_len()).ok_or("the share has a wrong length")?;
        let (ciphertext, point) =
            group.parts_mut(answer, group.ml_kem_ciphertext_len()).ok_or("the buffer has a wrong length")?;
        let (output, agreed) = group.parts_mut(secret, ML_KEM_SECRET_LEN).ok_or("the buffer has a wrong length")?;
        let operands = Operands::Encapsulate { input, seed: &[], ciphertext, output };
        run_ml_kem(provider, group, &[], operands)?;
        if let (Some(curve), Some(peer)) = (group.curve, &share.curve) {
            let ours = generate_curve_key(provider, curve, point)?;
            agree(provider, curve, &ours, peer, agreed)?;
        }
        provider.count_agreement(group, true);
        Ok(())
    }

    /// Agrees on the secret that a peer's answer contains. ML-KEM yields a pseudorandom secret for a wrong ciphertext.
    pub(crate) fn decapsulate(
        &self,
        provider: &Provider,
        answer: &[u8],
        secret: &mut [u8],
    ) -> Result<(), RefusalReason> {
        let (group, share) = (self.group, self.share.get().ok_or("the key is not set")?);
        let seed = share.seed.as_ref().ok_or("the key is not private")?;
        if answer.len() != group.server_share_len() {
            return Err("the answer has a wrong length");
        }
        let (input, point) =
            group.parts(answer, group.ml_kem_ciphertext_len()).ok_or("the answer has a wrong length")?;
        let (output, agreed) = group.parts_mut(secret, ML_KEM_SECRET_LEN).ok_or("the buffer has a wrong length")?;
        run_ml_kem(provider, group, &seed[..], Operands::Decapsulate { input, output })?;
        if let (Some(curve), Some(ours)) = (group.curve, &share.curve) {
            agree(provider, curve, ours, &import_peer(provider, curve, point)?, agreed)?;
        }
        provider.count_agreement(group, false);
        Ok(())
    }
}

/// Runs a request of ML-KEM. `key` is the private key to decapsulate, and empty for other operations.
fn run_ml_kem(provider: &Provider, group: &Group, key: &[u8], operands: Operands<'_>) -> Result<(), RefusalReason> {
    let device = provider.software().ok_or("this build has no ML-KEM")?;
    let params = SessionParams::new(group.ml_kem, key).with_direction(operands.operation());
    let outcome = with_enough_stack(|| device.open(&params).ok().and_then(|session| session.run(operands).ok()));
    match outcome.flatten() {
        Some(Outcome::Done) => Ok(()),
        Some(_) => Err("the key of ML-KEM is invalid"),
        None => Err("ML-KEM failed"),
    }
}

/// Generates a pair of the curve, and writes its public key.
fn generate_curve_key(
    provider: &Provider,
    curve: Curve,
    public: &mut [u8],
) -> Result<DefaultProviderKey, RefusalReason> {
    let key = provider.curve(curve).and_then(|algorithm| algorithm.generate(curve)).ok_or("the curve's keys failed")?;
    if key.encode(public) { Ok(key) } else { Err("the curve's key has another form") }
}

/// Reads a peer's public key.
fn import_peer(provider: &Provider, curve: Curve, public: &[u8]) -> Result<DefaultProviderKey, RefusalReason> {
    let algorithm =
        provider.curve(curve).filter(|_| curve.has_tls_form(public)).ok_or("the share has no uncompressed point")?;
    algorithm.import_peer(curve, public).ok_or("the share's point is not on the curve")
}

/// Agrees on a secret. The default provider refuses X25519's secret of zeros (RFC 7748, 6.1).
fn agree(
    provider: &Provider,
    curve: Curve,
    ours: &DefaultProviderKey,
    peer: &DefaultProviderKey,
    secret: &mut [u8],
) -> Result<(), RefusalReason> {
    let agreement = provider.curve(curve).and_then(|algorithm| algorithm.agreement(ours, peer));
    let is_derived = agreement.is_some_and(|agreement| agreement.derive(secret));
    // Reads every byte: the time to find the first one that is not zero would depend on the secret.
    let or_of_bytes = secret.iter().fold(0_u8, |bits, byte| bits | *byte);
    if is_derived && or_of_bytes != 0 {
        return Ok(());
    }
    secret.zeroize();
    Err("the curve yields no secret")
}
