//! The format of vectors, which `scripts/vectors.py` writes. `[algorithm]` begins a section. A vector is a block of lines that ends at an
//! empty line. A line is `key = hexadecimal`; the line `ptn = N` stands for an input of `N` bytes of a pattern (RFC 9861, section 5). `#`
//! begins a comment. In a section `[algorithm digest]` the inputs are messages, whose digests go to the algorithm.

use std::sync::Arc;

use gantry_core::{Algorithm, Prehash};

use crate::vector::{Expect, Vector};

/// Reasons why the result of a vector is undefined. `build/wycheproof.rs` of `gantry-vectors` refers to them by index.
const UNDEFINED_REASONS: [&str; 3] =
    ["Wycheproof accepts either answer", "a test of padding, which the caller adds", "a compressed public key"];

/// An error in a text, and its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) line: usize,
    pub(crate) what: &'static str,
}

/// Limits of a text, because a short text may request much memory.
pub(crate) struct Limits {
    pub(crate) vectors: usize,
    /// Bytes in all fields of all vectors.
    pub(crate) bytes: usize,
}

impl Limits {
    /// Returns limits for the crate's own texts.
    pub(crate) fn unlimited() -> Self {
        Self { vectors: usize::MAX, bytes: usize::MAX }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or("more bytes than a file may have")?;
        Ok(())
    }
}

/// Parses the vectors of the wanted algorithms. Only the titles of other sections are read.
pub(crate) fn parse(
    name: &Arc<str>,
    text: &str,
    wanted: &dyn Fn(Algorithm) -> bool,
    limits: &mut Limits,
) -> Result<Vec<Vector>, ParseError> {
    let mut vectors = Vec::new();
    let mut section: Option<Section> = None;
    let mut block: Option<Vector> = None;
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        let error_at = |what| ParseError { line: number, what };
        if line.is_empty() {
            let Some(vector) = block.take() else { continue };
            limits.vectors =
                limits.vectors.checked_sub(1).ok_or_else(|| error_at("more vectors than a file may have"))?;
            vectors.push(vector.validate().map_err(error_at)?);
        } else if line.starts_with('#') {
        } else if line.starts_with('[') {
            if block.is_some() {
                return Err(error_at("a section begins inside of a block"));
            }
            section = Some(Section::read(line).map_err(error_at)?);
        } else {
            let Section { algorithm, digest_function } =
                section.ok_or_else(|| error_at("a line before the first section"))?;
            if wanted(algorithm) {
                let new = || Vector { digest_function, ..Vector::new(algorithm, (name.clone(), number)) };
                block.get_or_insert_with(new).read(line, limits).map_err(error_at)?;
            }
        }
    }
    Ok(vectors)
}

#[derive(Clone, Copy)]
struct Section {
    algorithm: Algorithm,
    digest_function: Option<Algorithm>,
}

impl Section {
    fn read(line: &str) -> Result<Self, &'static str> {
        let title = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or("a title without ']'")?;
        // Matches the whole name only: the search for similar names would take long if a name is long.
        let named = |name| Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name);
        let mut names = title.split(' ').map(|name| named(name).ok_or("unknown algorithm"));
        let algorithm = names.next().unwrap_or(Err("a title without a name"))?;
        let digest_function = names.next().transpose()?;
        if names.next().is_some() {
            return Err("a title has more than two names");
        }
        Ok(Self { algorithm, digest_function })
    }
}

impl Vector {
    /// Reads one line of a block.
    fn read(&mut self, line: &str, limits: &mut Limits) -> Result<(), &'static str> {
        let (key, value) = line.split_once('=').ok_or("a line is not 'key = value'")?;
        let (key, value) = (key.trim(), value.trim());
        if key == "ptn" {
            let bytes = value.parse().map_err(|_| "not a number of bytes")?;
            limits.charge(bytes)?;
            self.input = ptn(bytes);
            return Ok(());
        }
        limits.charge(value.len() / 2)?;
        let value = unhex(value)?;
        let byte = || match value[..] {
            [byte] => Ok(byte),
            _ => Err("the value is not one byte"),
        };
        match key {
            "key" => self.key = value,
            "mac_key" | "public" => self.second_key = value,
            "iv" => self.iv = value,
            "aad" => self.aad = value,
            "input" => self.input = value,
            "output" => self.output = value,
            "tag" => self.tag = value,
            "prehash" => {
                self.prehash = match byte()? {
                    0 => Prehash::Mu,
                    identifier => Prehash::of_identifier(identifier).ok_or("unknown number of a hash function")?,
                }
            }
            "id" if value.len() <= 4 => {
                self.origin.1 = value.iter().fold(0, |id, byte| id << 8 | usize::from(*byte));
            }
            "invalid" => self.expect = Expect::Refused,
            "unknowable" => {
                let reason = UNDEFINED_REASONS.get(usize::from(byte()?)).ok_or("unknown number of a reason")?;
                self.expect = Expect::Undefined(reason);
            }
            "monte" => self.expect = Expect::MonteCarlo(usize::from(byte()?)),
            _ => return Err("an unknown key"),
        }
        Ok(())
    }

    /// Checks a complete vector.
    fn validate(self) -> Result<Self, &'static str> {
        match self.expect {
            // The last digests form the next message.
            Expect::MonteCarlo(width)
                if width == 0 || self.input.is_empty() || self.input.len() != self.output.len() =>
            {
                Err("invalid Monte Carlo test")
            }
            _ => Ok(self),
        }
    }
}

/// Returns the pattern of RFC 9861, section 5.
fn ptn(bytes: usize) -> Vec<u8> {
    (0..=0xfa).cycle().take(bytes).collect()
}

fn unhex(digits: &str) -> Result<Vec<u8>, &'static str> {
    let value = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8).ok_or("not hexadecimal");
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Ok(value(high)? << 4 | value(low)?),
        _ => Err("an odd number of hexadecimal digits"),
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<Vector>, ParseError> {
        parse(&"x".into(), text, &|_| true, &mut Limits { vectors: 3, bytes: 100 })
    }

    #[test]
    fn a_block_becomes_a_vector() {
        let text = "# Origin: nowhere\n\n[sha1]\n\ninput = 00ff\noutput = ab\n\n# more\n[aes-128-gcm]\n\nkey =\ninvalid = 01\n";
        let vectors = all(text).unwrap();
        let [digest, aead] = &vectors[..] else { panic!("two blocks") };
        assert_eq!((digest.algorithm, &*digest.origin.0, digest.origin.1), (Algorithm::Sha1, "x", 5));
        assert_eq!((&digest.input[..], &digest.output[..], digest.expect), (&[0, 255][..], &[0xab][..], Expect::Match));
        assert_eq!((aead.algorithm, aead.expect), (Algorithm::Aes128Gcm, Expect::Refused));
        let sha1 = |algorithm| algorithm == Algorithm::Sha1;
        assert_eq!(parse(&"x".into(), text, &sha1, &mut Limits::unlimited()).unwrap().len(), 1);
    }

    #[test]
    fn errors_name_the_line() {
        for (line, text, what) in [
            (1, "input = 00\n", "a line before the first section"),
            (1, "[sha1\n", "a title without ']'"),
            (1, "[sha0]\n", "unknown algorithm"),
            (1, "[]\n", "unknown algorithm"),
            (1, "[ed25519 sha256 sha1]\n", "a title has more than two names"),
            (3, "[sha1]\ninput = 00\n[md5]\n", "a section begins inside of a block"),
            (2, "[sha1]\ninput\n", "a line is not 'key = value'"),
            (2, "[sha1]\ninput = 0\n", "an odd number of hexadecimal digits"),
            (2, "[sha1]\ninput = 0x\n", "not hexadecimal"),
            (2, "[sha1]\ninput = é\n", "not hexadecimal"),
            (2, "[sha1]\nptn = -1\n", "not a number of bytes"),
            (2, "[sha1]\nptn = 101\n", "more bytes than a file may have"),
            (
                3,
                "[sha1]\nptn = 60\ninput = 00112233445566778899001122334455667788990011223344556677889900112233445566778899aa\n",
                "more bytes than a file may have",
            ),
            (9, "[sha1]\nkey=\n\nkey=\n\nkey=\n\nkey=\n\n", "more vectors than a file may have"),
            (2, "[sha1]\nmonte =\n", "the value is not one byte"),
            (2, "[sha1]\nunknowable = 03\n", "unknown number of a reason"),
            (2, "[sha1]\nprehash = ff\n", "unknown number of a hash function"),
            (2, "[sha1]\nid = 0102030405\n", "an unknown key"),
            (2, "[sha1]\nsalt = 00\n", "an unknown key"),
            (5, "[sha1]\ninput = 00\noutput = 0000\nmonte = 03\n\n", "invalid Monte Carlo test"),
            (5, "[sha1]\ninput = 00\noutput = 00\nmonte = 00\n", "invalid Monte Carlo test"),
        ] {
            assert_eq!(all(text).map(|vectors| vectors.len()), Err(ParseError { line, what }), "{text}");
        }
    }
}
