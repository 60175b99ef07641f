//! The state of our contexts beside the host's own: for each mode, when a request can leave the host.

pub(crate) mod aead;
pub(crate) mod chain;
pub(crate) mod cipher;
pub(crate) mod group;
pub(crate) mod kdf;
mod key;
mod keyed;
pub(crate) mod pair;
pub(crate) mod pipes;
pub(crate) mod slh_dsa;
