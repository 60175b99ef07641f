//! Algorithms that drivers bring: rows in addition to the rows of the table.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::ids::Algorithm;
use super::kind::Kind;
use super::row::AlgorithmInfo;
use super::table::TABLE;

/// A known answer of a driver's own algorithm: a device must give this answer before it serves the algorithm. Fields that the algorithm
/// does not have are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// The key; for signatures, key exchange, key encapsulation and encipherment, the private key.
    pub key: &'static [u8],
    /// The key of the MAC for encrypt-then-authenticate algorithms and their packets; the public key for signatures, key encapsulation and
    /// encipherment.
    pub second_key: &'static [u8],
    /// The IV; for key encapsulation, the random bytes from which the secret is made; for packets, the number in 8 bytes, big-endian.
    pub iv: &'static [u8],
    /// Associated data; for key encapsulation, the random bytes from which both keys are made; for signatures, the context. For packets, 6
    /// bytes: the SPI in 4, the next header in 1, and a last byte of 1 for 64-bit packet numbers or 0 for 32-bit ones.
    pub aad: &'static [u8],
    /// Message, plaintext or payload; for key exchange, the peer's public key.
    pub input: &'static [u8],
    /// Ciphertext, packet, digest, MAC, signature or secret; for key encapsulation, the ciphertext.
    pub output: &'static [u8],
    /// The tag of an AEAD; for key encapsulation, the secret.
    pub tag: &'static [u8],
}

/// An algorithm, and the fields of an [`Answer`].
pub(crate) struct KnownAnswer {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: &'static [u8],
    pub(crate) second_key: &'static [u8],
    pub(crate) iv: &'static [u8],
    pub(crate) aad: &'static [u8],
    pub(crate) input: &'static [u8],
    pub(crate) output: &'static [u8],
    pub(crate) tag: &'static [u8],
}

/// The reason why an algorithm was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// There is no room for another algorithm.
    #[error("{name}: there is no room for another algorithm")]
    Full {
        /// The name of the algorithm.
        name: &'static str,
    },
    /// Another algorithm has the name, or one of the aliases.
    #[error("{name}: there is another algorithm of this name")]
    Name {
        /// The name or alias that is taken.
        name: &'static str,
    },
    /// The row or one of the known answers is invalid.
    #[error("{name}: {why}")]
    Row {
        /// The name of the algorithm.
        name: &'static str,
        /// The error.
        why: &'static str,
    },
}

struct Registered {
    info: AlgorithmInfo,
    answers: Box<[KnownAnswer]>,
}

static ROWS: [OnceLock<Registered>; Algorithm::REGISTERED.len()] = [const { OnceLock::new() }; _];

/// Allows one registration at a time.
static REGISTERING: Mutex<()> = Mutex::new(());

/// The row of an unregistered algorithm.
static UNREGISTERED: AlgorithmInfo = AlgorithmInfo::new("unregistered", Kind::Digest);

impl Algorithm {
    /// Adds an algorithm to the tables for the rest of the process. A driver calls this before it declares its capabilities, and passes the
    /// result to [`Capability::new`](crate::driver::Capability::new). Sessions, batches, queues, statistics and look-ups by name then know
    /// the algorithm.
    ///
    /// `..`[`AlgorithmInfo::new`] fills in the fields that the row does not set; this function sets the id. At least one known answer is
    /// needed, because without one no device can serve an algorithm. Registering the same row again returns the same algorithm.
    pub fn register(info: AlgorithmInfo, answers: &[Answer]) -> Result<Algorithm, RegistrationError> {
        let _guard = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
        let name = info.name;
        let same = |row: &AlgorithmInfo| *row == AlgorithmInfo { algorithm: row.algorithm, ..info };
        if let Some((algorithm, _)) = registered_rows().find(|(_, row)| same(row)) {
            return Ok(algorithm);
        }
        check(&info, answers).map_err(|why| RegistrationError::Row { name, why })?;
        if let Some(name) = info.names().find(|name| Algorithm::matching(name).is_ok()) {
            return Err(RegistrationError::Name { name });
        }
        let free = ROWS.iter().position(|row| row.get().is_none()).ok_or(RegistrationError::Full { name })?;
        let algorithm = Algorithm::REGISTERED[free];
        let answers = answers.iter().map(|answer| {
            let Answer { key, second_key, iv, aad, input, output, tag } = *answer;
            KnownAnswer { algorithm, key, second_key, iv, aad, input, output, tag }
        });
        let info = AlgorithmInfo { algorithm, ..info };
        let _ = ROWS[free].set(Registered { info, answers: answers.collect() });
        Ok(algorithm)
    }

    /// Returns all algorithms: those of the table, then those that drivers have registered so far.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        rows_of_table().chain(registered_rows()).map(|(algorithm, _)| algorithm)
    }

    /// Returns the rows of [all](Self::all).
    pub(super) fn rows() -> impl Iterator<Item = &'static AlgorithmInfo> {
        rows_of_table().chain(registered_rows()).map(|(_, row)| row)
    }

    /// Returns the known answers that were registered with the algorithm.
    pub(crate) fn answers(self) -> &'static [KnownAnswer] {
        row_index(self).and_then(|index| ROWS[index].get()).map_or(&[], |registered| &registered.answers)
    }
}

fn rows_of_table() -> impl Iterator<Item = (Algorithm, &'static AlgorithmInfo)> {
    TABLE.iter().map(|row| (row.algorithm, row))
}

fn registered_rows() -> impl Iterator<Item = (Algorithm, &'static AlgorithmInfo)> {
    ROWS.iter().filter_map(OnceLock::get).map(|registered| (registered.info.algorithm, &registered.info))
}

/// Returns the index in `ROWS` of an algorithm that is not in the table.
fn row_index(algorithm: Algorithm) -> Option<usize> {
    (algorithm as usize).checked_sub(TABLE.len())
}

/// Returns the row of an algorithm that is not in the table.
#[cold]
pub(super) fn info(algorithm: Algorithm) -> &'static AlgorithmInfo {
    row_index(algorithm).and_then(|index| ROWS[index].get()).map_or(&UNREGISTERED, |registered| &registered.info)
}

/// Checks the properties of the row that request checks take for granted. Then checks the lengths of the answers against the row.
fn check(info: &AlgorithmInfo, answers: &[Answer]) -> Result<(), &'static str> {
    let AlgorithmInfo { key, iv, tag, .. } = info;
    let is_valid_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase());
    let has_valid_block = matches!(info.kind, Kind::Digest | Kind::Mac) || info.block.is_power_of_two();
    let lengths = [key, &info.public_key, &info.mac_key, iv, tag, &info.context, &info.levels];
    let has_valid_lengths = |answer: &Answer| match info.kind {
        Kind::Digest => tag.allows(answer.output.len()),
        Kind::Mac | Kind::Exchange => key.allows(answer.key.len()) && tag.allows(answer.output.len()),
        Kind::Cipher => key.allows(answer.key.len()) && answer.output.len() == answer.input.len(),
        Kind::Aead => {
            key.allows(answer.key.len()) && tag.allows(answer.tag.len()) && answer.output.len() == answer.input.len()
        }
        Kind::Signature | Kind::Encipherment => {
            key.allows(answer.key.len())
                && info.public_key.allows(answer.second_key.len())
                && tag.allows(answer.output.len())
        }
        Kind::Kem => {
            key.allows(answer.key.len())
                && info.public_key.allows(answer.second_key.len())
                && (answer.output.len(), answer.iv.len()) == info.encapsulation
                && tag.allows(answer.tag.len())
        }
        Kind::Packet => answer.aad.len() == 6 && answer.iv.len() == 8 && !answer.output.is_empty(),
        Kind::Compression => answer.key.is_empty() && !answer.output.is_empty(),
    };
    let has_valid_iv = |answer: &Answer| matches!(info.kind, Kind::Kem | Kind::Packet) || iv.allows(answer.iv.len());
    match () {
        () if !info.names().all(is_valid_name) => Err("a name that is empty, or not in lower case"),
        () if !has_valid_block || info.block == 0 => Err("a block that is not a power of two"),
        () if lengths.iter().any(|lengths| lengths.min > lengths.max || lengths.step == 0) => {
            Err("lengths with a step of 0, or with a minimum above the maximum")
        }
        // A request's IV is compared only with the shortest and the longest length, so every length between must be allowed.
        () if iv.step != 1 || info.max_data < info.min_data as u64 => Err("unsupported lengths of IVs or data"),
        () if info.kind == Kind::Exchange && info.generator.is_empty() => Err("a key exchange without a generator"),
        () if !info.levels.allows(info.default_level) => Err("a default level that is not one of its levels"),
        () if answers.is_empty() => Err("no known answers"),
        () if !answers.iter().all(|answer| has_valid_lengths(answer) && has_valid_iv(answer)) => {
            Err("a known answer with lengths that the row does not allow")
        }
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Lengths, Operation};

    fn row(name: &'static str) -> AlgorithmInfo {
        let key = Lengths::exactly(4);
        AlgorithmInfo { key, tag: Lengths::exactly(2), ..AlgorithmInfo::new(name, Kind::Mac) }
    }

    const ANSWER: Answer =
        Answer { key: &[1; 4], second_key: &[], iv: &[], aad: &[], input: b"x", output: &[7; 2], tag: &[] };

    /// This is a single test, because all tests of the process share the rows.
    #[test]
    fn registers_algorithms_until_the_table_is_full() {
        let wrong = |info, answers: &[Answer]| Algorithm::register(info, answers).unwrap_err().to_string();
        assert_eq!(wrong(row("parity"), &[]), "parity: no known answers");
        assert_eq!(wrong(row("SHA"), &[ANSWER]), "SHA: a name that is empty, or not in lower case");
        assert_eq!(wrong(row("sha2-256"), &[ANSWER]), "sha2-256: there is another algorithm of this name");
        let short = Answer { output: &[7; 1], ..ANSWER };
        assert_eq!(wrong(row("parity"), &[short]), "parity: a known answer with lengths that the row does not allow");
        assert_eq!(
            wrong(AlgorithmInfo { block: 0, ..row("parity") }, &[ANSWER]),
            "parity: a block that is not a power of two"
        );

        let parity = Algorithm::register(row("parity"), &[ANSWER]).unwrap();
        assert_eq!(Algorithm::register(row("parity"), &[ANSWER]), Ok(parity), "the same once more");
        let other = AlgorithmInfo { tag: Lengths::exactly(3), ..row("parity") };
        assert!(matches!(
            Algorithm::register(other, &[Answer { output: &[7; 3], ..ANSWER }]),
            Err(RegistrationError::Name { .. })
        ));
        assert_eq!("parity".parse(), Ok(parity));
        assert_eq!((parity.name(), parity.kind(), parity.info().algorithm), ("parity", Kind::Mac, parity));
        assert!(Algorithm::all().any(|algorithm| algorithm == parity) && !Algorithm::ALL.contains(&parity));
        assert_eq!(Algorithm::of_entry(parity.entry_index(Operation::Mac)), (parity, Operation::Mac));

        let names = ["r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"];
        let more: Vec<_> = names.map(|name| Algorithm::register(row(name), &[ANSWER])).into();
        assert!(more[..7].iter().all(Result::is_ok));
        assert_eq!(more[7], Err(RegistrationError::Full { name: "r9" }));
        let mut indexes: Vec<usize> = Algorithm::all()
            .flat_map(|algorithm| {
                algorithm.kind().operations().iter().map(move |operation| algorithm.entry_index(*operation))
            })
            .collect();
        let count = indexes.len();
        indexes.sort_unstable();
        indexes.dedup();
        assert!(indexes.len() == count && indexes.last() < Some(&Algorithm::ENTRY_COUNT));
    }
}
