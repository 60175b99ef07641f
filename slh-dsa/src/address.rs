//! ADRS (FIPS 205, 4.2 and 11.2): the position of a hash in the scheme. It makes the inputs of all hashes different.

/// The type of an address (table 1).
#[derive(Clone, Copy)]
pub(crate) enum AddressKind {
    WotsHash = 0,
    WotsPublicKey = 1,
    Tree = 2,
    ForsTree = 3,
    ForsRoots = 4,
    WotsSecret = 5,
    ForsSecret = 6,
}

/// An address without its type.
#[derive(Clone, Copy, Default)]
pub(crate) struct Address {
    /// The layer of the tree, 0 at the bottom.
    pub(crate) layer: u32,
    /// The index of the tree in its layer.
    pub(crate) tree: u64,
    /// The index of the leaf with the one-time or few-time key; 0 for a node of the hypertree.
    pub(crate) key_pair: u32,
    /// The index of the chain, or the level of a node.
    pub(crate) row: u32,
    /// The index of the hash in its chain, or of the node in its level.
    pub(crate) index: u32,
}

/// Bytes of a compressed address, for SHA-2.
pub(crate) const COMPRESSED_ADDRESS_BYTES: usize = 22;
/// Bytes of an address for SHAKE.
pub(crate) const FULL_ADDRESS_BYTES: usize = 32;

impl Address {
    /// Writes the address, compressed if `bytes` has the length of a compressed one.
    pub(crate) fn write(&self, kind: AddressKind, bytes: &mut [u8]) {
        let (kind, rest) = if bytes.len() == COMPRESSED_ADDRESS_BYTES {
            bytes[0] = self.layer as u8;
            bytes[1..9].copy_from_slice(&self.tree.to_be_bytes());
            (kind as u8, &mut bytes[9..])
        } else {
            bytes[..4].copy_from_slice(&self.layer.to_be_bytes());
            // The number of a tree has twelve bytes; the upper four are always zero.
            bytes[4..8].fill(0);
            bytes[8..16].copy_from_slice(&self.tree.to_be_bytes());
            bytes[16..19].fill(0);
            (kind as u8, &mut bytes[19..])
        };
        rest[0] = kind;
        rest[1..5].copy_from_slice(&self.key_pair.to_be_bytes());
        rest[5..9].copy_from_slice(&self.row.to_be_bytes());
        rest[9..13].copy_from_slice(&self.index.to_be_bytes());
    }
}
