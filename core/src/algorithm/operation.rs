//! The table of operations. Requests, submissions, shadow copies, known answers and measurements read the rows of their operations here.

use std::fmt;

use super::direction::Direction;
use super::kind::Kind;
use super::row::AlgorithmInfo;

/// One operation on a message, a packet or keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Plaintext to ciphertext, without integrity.
    Encrypt,
    /// Ciphertext to plaintext, without integrity.
    Decrypt,
    /// Plaintext to ciphertext and tag.
    Seal,
    /// Ciphertext and tag to plaintext, or nothing.
    Open,
    /// Message to digest.
    Digest,
    /// Message to authentication code.
    Mac,
    /// Message to signature.
    Sign,
    /// Message and signature to a verdict.
    Verify,
    /// The public key of a peer to the secret shared with it.
    Derive,
    /// Random bytes to a private and a public key.
    KeyGen,
    /// The public key of a peer to a secret and its ciphertext.
    Encapsulate,
    /// The ciphertext of `Encapsulate` to its secret.
    Decapsulate,
    /// Data to compressed bytes.
    Compress,
    /// Compressed bytes to the data.
    Decompress,
    /// A payload to a packet.
    Protect,
    /// A packet to its payload, or nothing.
    Unprotect,
    /// A short message to a ciphertext for the owner of a public key.
    Encipher,
    /// The ciphertext of `Encipher` to its message.
    Decipher,
}

/// The length of a field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldLength {
    /// The operation has no such field.
    Nothing,
    /// [`AlgorithmInfo::iv`].
    Iv,
    /// The eight bytes of a packet's number, in network order.
    Number,
    /// One byte.
    NextHeader,
    /// The length of the request's data.
    Data,
    /// A packet whose payload has the length of the data.
    Packet,
    /// A length that suffices for any result of compression.
    Compressed,
    /// The tag length of the session: a digest, MAC, tag, signature, secret or enciphered message.
    Tag,
    /// A tag or signature that comes with the request, to be compared. A tag of another length is wrong.
    GivenTag,
    /// [`AlgorithmInfo::key`].
    Key,
    /// [`AlgorithmInfo::public_key`].
    PublicKey,
    /// The ciphertext of key encapsulation.
    Ciphertext,
    /// Random bytes from which keys are made, or none.
    KeySeed,
    /// Random bytes of an encapsulation, or none.
    Seed,
}

/// The key that a session needs for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOf {
    /// The secret or private key, if the algorithm has keys.
    Owner,
    /// The public key.
    Peer,
    /// No key. A request of `Encapsulate` has the public key as its data.
    Absent,
}

/// The part of a known answer ([`Answer`](crate::driver::Answer)) that has the bytes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerField {
    Nothing,
    Key,
    SecondKey,
    Iv,
    Aad,
    Input,
    Output,
    Tag,
}

/// A row of the table of operations.
#[derive(Debug)]
#[non_exhaustive]
pub struct OperationInfo {
    /// The operation.
    pub operation: Operation,
    /// The name in tables and JSON.
    pub name: &'static str,
    /// The kind of the algorithms that have the operation.
    pub kind: Kind,
    /// The direction of a session that runs this operation and not its inverse; `Both` if sessions of the kind have no direction.
    pub direction: Direction,
    /// The length of the IV, nonce, number or seed.
    pub iv: FieldLength,
    /// The length of the data that are read.
    pub input: FieldLength,
    /// The length of the main result.
    pub output: FieldLength,
    /// The length of the tag or of the second result.
    pub tag: FieldLength,
    /// The result may be shorter than its buffer, and its length is a result too.
    pub returns_length: bool,
    /// The operation may work on one buffer, in which the result replaces the data.
    pub in_place: bool,
    /// The operation detects input that its inverse cannot have made.
    pub detects_forgeries: bool,
    /// The operation that checks a result, if several results are valid.
    pub(crate) verifier: Option<Operation>,
    pub(crate) key: KeyOf,
    /// The parts of a known answer that have the IV, the input, the output and the tag.
    pub(crate) answer_fields: [AnswerField; 4],
}

/// Makes a row with the values that most operations share: a message in, a result of the tag's length out.
const fn row(operation: Operation, name: &'static str, kind: Kind) -> OperationInfo {
    OperationInfo {
        operation,
        name,
        kind,
        direction: Direction::Both,
        iv: FieldLength::Nothing,
        input: FieldLength::Data,
        output: FieldLength::Tag,
        tag: FieldLength::Nothing,
        returns_length: false,
        in_place: false,
        detects_forgeries: false,
        verifier: None,
        key: KeyOf::Owner,
        answer_fields: [AnswerField::Iv, AnswerField::Input, AnswerField::Output, AnswerField::Nothing],
    }
}

/// Makes the row of an operation whose result is as long as its data, and may replace them.
const fn transform(operation: Operation, name: &'static str, kind: Kind, direction: Direction) -> OperationInfo {
    let answer_fields = match direction {
        Direction::Decrypt => [AnswerField::Iv, AnswerField::Output, AnswerField::Input, AnswerField::Nothing],
        _ => [AnswerField::Iv, AnswerField::Input, AnswerField::Output, AnswerField::Nothing],
    };
    OperationInfo {
        direction,
        iv: FieldLength::Iv,
        output: FieldLength::Data,
        in_place: true,
        answer_fields,
        ..row(operation, name, kind)
    }
}

const TABLE: [OperationInfo; Operation::ALL.len()] = {
    use AnswerField::Nothing;
    use Direction::{Decrypt as Backward, Encrypt as Forward};
    use Operation::{
        Compress, Decapsulate, Decipher, Decompress, Decrypt, Derive, Digest, Encapsulate, Encipher, Encrypt, KeyGen,
        Mac, Open, Protect, Seal, Sign, Unprotect, Verify,
    };
    [
        transform(Encrypt, "encrypt", Kind::Cipher, Forward),
        transform(Decrypt, "decrypt", Kind::Cipher, Backward),
        OperationInfo {
            tag: FieldLength::Tag,
            answer_fields: [AnswerField::Iv, AnswerField::Input, AnswerField::Output, AnswerField::Tag],
            ..transform(Seal, "seal", Kind::Aead, Forward)
        },
        OperationInfo {
            tag: FieldLength::GivenTag,
            detects_forgeries: true,
            answer_fields: [AnswerField::Iv, AnswerField::Output, AnswerField::Input, AnswerField::Tag],
            ..transform(Open, "open", Kind::Aead, Backward)
        },
        row(Digest, "digest", Kind::Digest),
        OperationInfo { iv: FieldLength::Iv, ..row(Mac, "mac", Kind::Mac) },
        OperationInfo { direction: Forward, verifier: Some(Verify), ..row(Sign, "sign", Kind::Signature) },
        OperationInfo {
            direction: Backward,
            output: FieldLength::Nothing,
            tag: FieldLength::GivenTag,
            detects_forgeries: true,
            key: KeyOf::Peer,
            answer_fields: [Nothing, AnswerField::Input, Nothing, AnswerField::Output],
            ..row(Verify, "verify", Kind::Signature)
        },
        OperationInfo { input: FieldLength::PublicKey, ..row(Derive, "derive", Kind::Exchange) },
        OperationInfo {
            direction: Forward,
            iv: FieldLength::KeySeed,
            input: FieldLength::Nothing,
            output: FieldLength::PublicKey,
            tag: FieldLength::Key,
            key: KeyOf::Absent,
            answer_fields: [AnswerField::Aad, Nothing, AnswerField::SecondKey, AnswerField::Key],
            ..row(KeyGen, "keygen", Kind::Kem)
        },
        OperationInfo {
            direction: Forward,
            iv: FieldLength::Seed,
            input: FieldLength::PublicKey,
            output: FieldLength::Ciphertext,
            tag: FieldLength::Tag,
            key: KeyOf::Absent,
            answer_fields: [AnswerField::Iv, AnswerField::SecondKey, AnswerField::Output, AnswerField::Tag],
            ..row(Encapsulate, "encapsulate", Kind::Kem)
        },
        OperationInfo {
            direction: Backward,
            input: FieldLength::Ciphertext,
            answer_fields: [Nothing, AnswerField::Output, AnswerField::Tag, Nothing],
            ..row(Decapsulate, "decapsulate", Kind::Kem)
        },
        OperationInfo {
            output: FieldLength::Compressed,
            returns_length: true,
            verifier: Some(Decompress),
            ..row(Compress, "compress", Kind::Compression)
        },
        OperationInfo {
            output: FieldLength::Data,
            returns_length: true,
            detects_forgeries: true,
            answer_fields: [Nothing, AnswerField::Output, AnswerField::Input, Nothing],
            ..row(Decompress, "decompress", Kind::Compression)
        },
        OperationInfo {
            iv: FieldLength::Number,
            output: FieldLength::Packet,
            tag: FieldLength::NextHeader,
            verifier: Some(Unprotect),
            ..transform(Protect, "protect", Kind::Packet, Forward)
        },
        OperationInfo {
            iv: FieldLength::Number,
            tag: FieldLength::NextHeader,
            detects_forgeries: true,
            ..transform(Unprotect, "unprotect", Kind::Packet, Backward)
        },
        OperationInfo {
            direction: Forward,
            verifier: Some(Decipher),
            key: KeyOf::Peer,
            ..row(Encipher, "encipher", Kind::Encipherment)
        },
        OperationInfo {
            direction: Backward,
            input: FieldLength::Tag,
            returns_length: true,
            answer_fields: [Nothing, AnswerField::Output, AnswerField::Input, Nothing],
            ..row(Decipher, "decipher", Kind::Encipherment)
        },
    ]
};

/// The direction of a session that runs this operation and not its inverse. A session that verifies or enciphers has the public key, and
/// a session that generates keys or encapsulates has no key.
impl From<Operation> for Direction {
    fn from(operation: Operation) -> Self {
        operation.info().direction
    }
}

impl Operation {
    /// All operations.
    pub const ALL: &'static [Operation] = &[
        Operation::Encrypt,
        Operation::Decrypt,
        Operation::Seal,
        Operation::Open,
        Operation::Digest,
        Operation::Mac,
        Operation::Sign,
        Operation::Verify,
        Operation::Derive,
        Operation::KeyGen,
        Operation::Encapsulate,
        Operation::Decapsulate,
        Operation::Compress,
        Operation::Decompress,
        Operation::Protect,
        Operation::Unprotect,
        Operation::Encipher,
        Operation::Decipher,
    ];

    /// Returns the row of the operation.
    #[inline]
    pub fn info(self) -> &'static OperationInfo {
        static ROWS: [OperationInfo; Operation::ALL.len()] = TABLE;
        &ROWS[self as usize]
    }

    /// Returns the name in tables and JSON.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the index of the operation in the [operations](Kind::operations) of its kind.
    #[inline]
    pub const fn index(self) -> usize {
        const INDEXES: [u8; Operation::ALL.len()] = {
            let (mut indexes, mut at) = ([0; Operation::ALL.len()], 1);
            while at < indexes.len() {
                if TABLE[at].kind as u8 == TABLE[at - 1].kind as u8 {
                    indexes[at] = indexes[at - 1] + 1;
                }
                at += 1;
            }
            indexes
        };
        INDEXES[self as usize] as usize
    }

    /// Returns whether the operation takes the results of another operation of its kind as its input.
    pub fn is_inverse(self) -> bool {
        self.info().direction == Direction::Decrypt || self == Operation::Decompress
    }

    /// Returns `true` for `KeyGen` and the operations after it, which have their own layouts of operands. A function of their own, outside
    /// of the fast path, makes these operands.
    #[inline]
    pub(crate) const fn has_special_operands(self) -> bool {
        self as u8 >= Operation::KeyGen as u8
    }

    /// Returns [`OperationInfo::in_place`], from a constant instead of the row.
    #[inline]
    pub(crate) const fn writes_data(self) -> bool {
        const BITS: u32 = {
            let (mut bits, mut at) = (0, 0);
            while at < TABLE.len() {
                bits |= (TABLE[at].in_place as u32) << at;
                at += 1;
            }
            bits
        };
        BITS >> self as u32 & 1 == 1
    }

    /// Returns whether `Session::route` asks for a device that can work in place: for every operation of a kind whose capabilities have
    /// this flag by default.
    pub(crate) fn may_be_in_place(self) -> bool {
        !matches!(self.info().kind, Kind::Compression | Kind::Encipherment)
    }
}

impl Kind {
    /// Returns the operations of this kind, in the order in which tables list them.
    pub const fn operations(self) -> &'static [Operation] {
        /// For each kind: the index of its first operation in the table, and the number of its operations.
        const COUNTS: [(u8, u8); Kind::ALL.len()] = {
            let (mut counts, mut at) = ([(0, 0); Kind::ALL.len()], 0);
            while at < TABLE.len() {
                let (before, own) = &mut counts[TABLE[at].kind as usize];
                if *own == 0 {
                    *before = at as u8;
                }
                *own += 1;
                at += 1;
            }
            counts
        };
        let (before, own) = COUNTS[self as usize];
        Operation::ALL.split_at(before as usize).1.split_at(own as usize).0
    }
}

impl OperationInfo {
    /// Returns whether the operation writes a tag or a second result. Also returns `true` for `Protect`, which only reads its next header.
    pub fn writes_tag(&self) -> bool {
        !matches!(self.tag, FieldLength::Nothing | FieldLength::GivenTag)
    }

    /// Returns whether the operation takes random bytes in place of an IV. The device may choose them.
    pub fn takes_seed(&self) -> bool {
        matches!(self.iv, FieldLength::Seed | FieldLength::KeySeed)
    }

    /// Returns whether the tag comes with the request.
    pub fn reads_tag(&self) -> bool {
        self.tag == FieldLength::GivenTag
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl AlgorithmInfo {
    /// Returns the length of a field for a request of `data_len` bytes in a session with tags of `tag_len` bytes. Assumes that seeds come
    /// from the caller.
    pub fn length(&self, field: FieldLength, data_len: usize, tag_len: usize) -> usize {
        match field {
            FieldLength::Nothing => 0,
            FieldLength::Iv => self.iv.max,
            FieldLength::Number => 8,
            FieldLength::NextHeader => 1,
            FieldLength::Data => data_len,
            FieldLength::Packet => self.packet_length(data_len, tag_len),
            FieldLength::Compressed => AlgorithmInfo::compressed_max(data_len),
            FieldLength::Tag | FieldLength::GivenTag => tag_len,
            FieldLength::Key => self.key.max,
            FieldLength::PublicKey => self.public_key.max,
            FieldLength::Ciphertext => self.encapsulation.0,
            FieldLength::KeySeed => self.key.min,
            FieldLength::Seed => self.encapsulation.1,
        }
    }

    /// Returns the number of data bytes that a request takes, if the data are a key, a ciphertext of fixed length, or nothing.
    pub fn fixed_data_length(&self, operation: Operation) -> Option<usize> {
        let input = operation.info().input;
        (input != FieldLength::Data).then(|| self.length(input, 0, self.tag.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a_kind_are_contiguous_in_the_table() {
        for (index, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!((*operation as usize, operation.info().operation), (index, *operation));
            assert_eq!(operation.info().kind.operations()[operation.index()], *operation);
        }
        assert_eq!(Kind::ALL.iter().map(|kind| kind.operations().len()).sum::<usize>(), Operation::ALL.len());
    }

    #[test]
    fn only_keyless_operations_and_those_without_an_inverse_have_no_direction() {
        for operation in Operation::ALL {
            let row = operation.info();
            let alone = row.kind.operations().len() == 1 || row.kind == Kind::Compression;
            assert_eq!(row.direction == Direction::Both, alone, "{operation}");
            assert!(
                row.verifier.is_none_or(|verifier| verifier.is_inverse() && verifier.info().kind == row.kind),
                "{operation}"
            );
        }
    }
}
