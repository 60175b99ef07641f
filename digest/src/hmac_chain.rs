//! A chain of HMACs, the loop of PBKDF2. `hash` and `sponge` advance many side by side.

/// A chain of HMACs, in which each HMAC is over the one before. `S` is the type of its hash function's setup.
pub(crate) struct HmacChain<'a, S> {
    /// The starting state of HMACs under the key.
    pub(crate) setup: &'a S,
    /// The last HMAC, in full length.
    pub(crate) digest: &'a mut [u8],
    /// The XOR of all HMACs.
    pub(crate) sum: &'a mut [u8],
}
