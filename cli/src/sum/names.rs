//! The hash functions by the names that checksum files give them.
//!
//! Pure, so that the parsers of checksum files can be tested alone.

/// A hash function, as its place in [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u8);

/// One row.
struct Row {
    /// What `-a` calls it: the name in the table of algorithms of the framework, where it has one.
    name: &'static str,
    /// Names in BSD-style lines (`SHA256 (name) = digest`), of either case. The first is written.
    tags: &'static [&'static str],
    /// Other names that columns of hashdeep and names of files have.
    others: &'static [&'static str],
    /// Bytes of a digest.
    bytes: u8,
}

const fn row(name: &'static str, tags: &'static [&'static str], others: &'static [&'static str], bytes: u8) -> Row {
    Row { name, tags, others, bytes }
}

/// All of them. Of several with digests of one length, the first is the one that a line without a name means, because it
/// is what the tools of coreutils write.
///
/// Tags are those of coreutils 9, OpenSSL 3, FreeBSD and b3sum.
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
];

/// Most bytes of a digest.
pub(crate) const LONGEST: usize = 64;

impl Id {
    /// Every hash function.
    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        (0..NAMES.len() as u8).map(Self)
    }

    /// The function of this name, of either case: one that `-a`, a column of hashdeep, or a name of a file may have.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::all().find(|id| id.labels().any(|label| label.eq_ignore_ascii_case(name)))
    }

    /// The function that the name of a checksum file speaks of: `SHA256SUMS`, `a.iso.sha256`, `manifest-sha512.txt`.
    pub(crate) fn of_file(name: &[u8]) -> Option<Self> {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let named = |label: &str| {
            name.match_indices(label).any(|(place, _)| {
                let before = name[..place].chars().next_back();
                let behind = &name[place + label.len()..];
                let rest = behind.strip_prefix("sums").or_else(|| behind.strip_prefix("sum")).unwrap_or(behind);
                let apart = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
                // `b2` and `b3` are names of files that have nothing to do with digests, too.
                let ended = label.len() > 2 || rest.len() < behind.len() || behind.is_empty() && before == Some('.');
                apart(before) && apart(rest.chars().next()) && ended
            })
        };
        // The longest, because `sha512` is also in `sha512-256`.
        let labels = Self::all().flat_map(|id| id.labels().map(move |label| (label, id)));
        labels.filter(|(label, _)| named(label)).max_by_key(|(label, _)| label.len()).map(|(_, id)| id)
    }

    /// What `-a` calls it.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// Its name in the BSD-style lines that are written.
    pub(crate) fn tag(self) -> &'static str {
        self.tags()[0]
    }

    /// Its names in BSD-style lines.
    pub(crate) fn tags(self) -> &'static [&'static str] {
        self.row().tags
    }

    /// Hexadecimal digits of a digest.
    pub(crate) fn digits(self) -> usize {
        2 * usize::from(self.row().bytes)
    }

    fn labels(self) -> impl Iterator<Item = &'static str> {
        let row = self.row();
        std::iter::once(row.name).chain(row.others.iter().copied())
    }

    fn row(self) -> &'static Row {
        &NAMES[usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_the_function() {
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
            ("b3", None),
            ("b2-backup", None),
            ("mymd5x", None),
            ("sums", None),
            ("", None),
        ] {
            assert_eq!(Id::of_file(file.as_bytes()).map(Id::name), name, "{file}");
        }
    }

    #[test]
    fn no_name_means_two_functions() {
        let tags = Id::all().flat_map(|id| id.tags().iter().map(move |tag| (tag.to_lowercase(), id)));
        let labels = Id::all().flat_map(|id| id.labels().map(move |label| (label.to_lowercase(), id)));
        let all: Vec<(String, Id)> = tags.chain(labels).collect();
        for (name, id) in &all {
            assert!(all.iter().all(|(other, of)| other != name || of == id), "{name}");
        }
        assert!(Id::all().all(|id| id.digits() <= 2 * LONGEST));
    }
}
