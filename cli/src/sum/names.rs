//! Names of hash functions in checksum files. This module does not use the framework, so the parsers of checksum files can be tested alone.

/// A hash function, as its index in [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HashId(u8);

/// Names and length of a hash function.
struct Row {
    /// The name for `-a`. It is the framework's name if the framework has the function.
    name: &'static str,
    /// Names in BSD-style lines (`SHA256 (name) = digest`), case-insensitive. The first one is used for output.
    tags: &'static [&'static str],
    /// Other names for `-a`, in column headings of hashdeep, and in file names.
    aliases: &'static [&'static str],
    /// Bytes of a digest.
    digest_size: u8,
}

const fn row(
    name: &'static str,
    tags: &'static [&'static str],
    aliases: &'static [&'static str],
    digest_size: u8,
) -> Row {
    Row { name, tags, aliases, digest_size }
}

/// All hash functions. A line that names no function stands for the first function whose digests have the length of its digest.
/// Therefore the functions of coreutils come before others of the same length.
///
/// The tags are as in coreutils 9, OpenSSL 3, FreeBSD and b3sum.
const NAMES: &[Row] = &[
    row("md5", &["MD5"], &[], 16),
    row("sha1", &["SHA1", "SHA-1"], &["sha-1"], 20),
    row("sha224", &["SHA224", "SHA2-224", "SHA-224"], &["sha-224"], 28),
    row("sha256", &["SHA256", "SHA2-256", "SHA-256"], &["sha-256"], 32),
    row("sha384", &["SHA384", "SHA2-384", "SHA-384"], &["sha-384"], 48),
    row("sha512", &["SHA512", "SHA2-512", "SHA-512"], &["sha-512"], 64),
    row("sha512-256", &["SHA512-256", "SHA512t256", "SHA512/256", "SHA2-512/256"], &["sha512t256"], 32),
    row("sha3-224", &["SHA3-224"], &["sha3_224"], 28),
    row("sha3-256", &["SHA3-256"], &["sha3_256"], 32),
    row("sha3-384", &["SHA3-384"], &["sha3_384"], 48),
    row("sha3-512", &["SHA3-512"], &["sha3_512"], 64),
    row("blake2b-256", &["BLAKE2b-256", "BLAKE2B-256"], &["blake2b256"], 32),
    row("blake2b-512", &["BLAKE2b", "BLAKE2b-512", "BLAKE2B-512"], &["blake2b512", "blake2b", "b2"], 64),
    row("blake3", &["BLAKE3"], &["b3"], 32),
    row("ripemd160", &["RIPEMD160", "RIPEMD-160", "RMD160"], &["ripemd-160", "rmd160"], 20),
    row("shake128", &["SHAKE128"], &[], 32),
    row("shake256", &["SHAKE256"], &[], 64),
    row("turboshake128", &["TURBOSHAKE128"], &[], 32),
    row("turboshake256", &["TURBOSHAKE256"], &[], 64),
    row("kt128", &["KT128"], &["k12"], 32),
    row("sha512-224", &["SHA512-224", "SHA512t224", "SHA512/224", "SHA2-512/224"], &["sha512t224"], 28),
    row("blake2b-128", &["BLAKE2b-128", "BLAKE2B-128"], &["blake2b128"], 16),
    row("blake2b-160", &["BLAKE2b-160", "BLAKE2B-160"], &["blake2b160"], 20),
    row("blake2b-224", &["BLAKE2b-224", "BLAKE2B-224"], &["blake2b224"], 28),
    row("blake2b-384", &["BLAKE2b-384", "BLAKE2B-384"], &["blake2b384"], 48),
    row("blake2s-256", &["BLAKE2s-256", "BLAKE2S-256", "BLAKE2s"], &["blake2s256", "blake2s"], 32),
    row("sm3", &["SM3"], &[], 32),
];

/// Most bytes of a digest.
pub(crate) const MAX_DIGEST_SIZE: usize = 64;

impl HashId {
    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        (0..NAMES.len() as u8).map(Self)
    }

    /// Returns the function with this name, from `-a`, a column heading of hashdeep, or a part of a file name. Case does not matter.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|id| id.labels().any(|label| label.eq_ignore_ascii_case(name)))
    }

    /// Returns the function that the name of a checksum file contains, such as `SHA256SUMS`, `a.iso.sha256` or `manifest-sha512.txt`.
    pub(crate) fn from_file_name(name: &[u8]) -> Option<Self> {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        // Returns the end of the last place where a label stands alone.
        let last_end = |label: &'static str| {
            let stands_alone = |place: usize| {
                let letter_before = name[..place].chars().next_back();
                let tail = &name[place + label.len()..];
                let rest = tail.strip_prefix("sums").or_else(|| tail.strip_prefix("sum")).unwrap_or(tail);
                let is_boundary = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
                // Names of unrelated files contain `b2` and `b3`, too. These count only before `sum` or `sums`, or as a file extension.
                let counts =
                    label.len() > 2 || rest.len() < tail.len() || tail.is_empty() && letter_before == Some('.');
                is_boundary(letter_before) && is_boundary(rest.chars().next()) && counts
            };
            let places = name.match_indices(label).map(|(place, _)| place);
            places.filter(|place| stands_alone(*place)).map(|place| place + label.len()).max()
        };
        // The last label counts, because names of programs come first, and the longest, because `sha512-256` contains `sha512`.
        let labels = Self::all().flat_map(|id| id.labels().map(move |label| (label, id)));
        let ends = labels.filter_map(|(label, id)| Some(((last_end(label)?, label.len()), id)));
        ends.max_by_key(|(end, _)| *end).map(|(_, id)| id)
    }

    /// Returns the name for `-a`.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the name for output in BSD-style lines.
    pub(crate) fn tag(self) -> &'static str {
        self.tags()[0]
    }

    /// Returns all names in BSD-style lines.
    pub(crate) fn tags(self) -> &'static [&'static str] {
        self.row().tags
    }

    /// Returns the number of hexadecimal digits of a digest.
    pub(crate) fn digit_count(self) -> usize {
        2 * usize::from(self.row().digest_size)
    }

    fn labels(self) -> impl Iterator<Item = &'static str> {
        let row = self.row();
        std::iter::once(row.name).chain(row.aliases.iter().copied())
    }

    fn row(self) -> &'static Row {
        &NAMES[usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_function_in_a_file_name() {
        for (file, name) in [
            ("SHA256SUMS", Some("sha256")),
            ("sha256sum.txt", Some("sha256")),
            ("MD5SUMS", Some("md5")),
            ("debian.iso.sha512", Some("sha512")),
            ("SHA512-256SUMS", Some("sha512-256")),
            ("manifest-sha3-256.txt", Some("sha3-256")),
            ("tagmanifest-md5.txt", Some("md5")),
            ("B2SUMS", Some("blake2b-512")),
            ("x.b3", Some("blake3")),
            ("BLAKE3-1.5.0.tar.gz.sha256", Some("sha256")),
            ("blake3_sha256sums.txt", Some("sha256")),
            ("sha512-256.sha256", Some("sha256")),
            ("sha512-256.txt", Some("sha512-256")),
            ("sha3-512-tool.sha512", Some("sha512")),
            ("blake2b-1.0.tar.gz.sha512", Some("sha512")),
            ("b3", None),
            ("b2-backup", None),
            ("mymd5x", None),
            ("sums", None),
            ("", None),
        ] {
            assert_eq!(HashId::from_file_name(file.as_bytes()).map(HashId::name), name, "{file}");
        }
    }

    #[test]
    fn names_are_unambiguous() {
        let tags = HashId::all().flat_map(|id| id.tags().iter().map(move |tag| (tag.to_lowercase(), id)));
        let labels = HashId::all().flat_map(|id| id.labels().map(move |label| (label.to_lowercase(), id)));
        let all: Vec<(String, HashId)> = tags.chain(labels).collect();
        for (name, id) in &all {
            assert!(all.iter().all(|(other, of)| other != name || of == id), "{name}");
        }
        assert!(HashId::all().all(|id| id.digit_count() <= 2 * MAX_DIGEST_SIZE));
    }
}
