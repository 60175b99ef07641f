//! The state of our contexts, in addition to the default provider's contexts: for each mode, when another device can serve a request.

pub(crate) mod aead;
pub(crate) mod chain;
pub(crate) mod cipher;
pub(crate) mod group;
pub(crate) mod kdf;
mod key;
pub(crate) mod key_pair;
mod keyed;
pub(crate) mod pipes;
pub(crate) mod slh_dsa;
