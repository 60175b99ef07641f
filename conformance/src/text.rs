//! The format of vectors, which `scripts/vectors.py` writes: `[algorithm]` opens a section; a block of `key = hexadecimal` lines, or `ptn = bytes`
//! for that pattern as input, ends at an empty line; `#` starts a comment. In a section `[algorithm digest]` the inputs are messages, of
//! which the algorithm gets digests.

use std::sync::Arc;

use gantry_core::{Algorithm, Prehash};

use crate::vectors::{Expect, Vector};

/// Why nothing can be said of some: `build/wycheproof.rs` of `gantry-vectors` names them by their place.
const REASONS: [&str; 3] = [
    "Wycheproof accepts either answer",
    "what is wrong is the padding, which is the caller's",
    "a compressed public key",
];

/// What is wrong with a text, and in which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) what: &'static str,
}

/// How much a text may say: a short one may ask for much memory.
pub(crate) struct Room {
    pub(crate) vectors: usize,
    /// In all fields of all vectors.
    pub(crate) bytes: usize,
}

impl Room {
    /// For the crate's own texts.
    pub(crate) fn endless() -> Self {
        Self { vectors: usize::MAX, bytes: usize::MAX }
    }

    fn take(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or("more bytes than a file may have")?;
        Ok(())
    }
}

/// The vectors of the algorithms that are wanted. Of others only the titles are read.
pub(crate) fn parse(
    name: &Arc<str>,
    text: &str,
    wanted: &dyn Fn(Algorithm) -> bool,
    room: &mut Room,
) -> Result<Vec<Vector>, Problem> {
    let mut vectors = Vec::new();
    let mut section: Option<Section> = None;
    let mut block: Option<Vector> = None;
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        let at = |what| Problem { line: number, what };
        if line.is_empty() {
            let Some(vector) = block.take() else { continue };
            room.vectors = room.vectors.checked_sub(1).ok_or_else(|| at("more vectors than a file may have"))?;
            vectors.push(vector.whole().map_err(at)?);
        } else if line.starts_with('#') {
        } else if line.starts_with('[') {
            if block.is_some() {
                return Err(at("a section begins inside of a block"));
            }
            section = Some(Section::read(line).map_err(at)?);
        } else {
            let Section { algorithm, function } = section.ok_or_else(|| at("there is no section yet"))?;
            if wanted(algorithm) {
                let new = || Vector { function, ..Vector::new(algorithm, (name.clone(), number)) };
                block.get_or_insert_with(new).read(line, room).map_err(at)?;
            }
        }
    }
    Ok(vectors)
}

#[derive(Clone, Copy)]
struct Section {
    algorithm: Algorithm,
    function: Option<Algorithm>,
}

impl Section {
    fn read(line: &str) -> Result<Self, &'static str> {
        let title = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or("a title has no end")?;
        // By the whole name alone; a guess at what was meant would take long for a long one.
        let named = |name| Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name);
        let mut names = title.split(' ').map(|name| named(name).ok_or("the program does not know this algorithm"));
        let algorithm = names.next().unwrap_or(Err("a title without a name"))?;
        let function = names.next().transpose()?;
        if names.next().is_some() {
            return Err("a title has more than two names");
        }
        Ok(Self { algorithm, function })
    }
}

impl Vector {
    /// One line of its block.
    fn read(&mut self, line: &str, room: &mut Room) -> Result<(), &'static str> {
        let (key, value) = line.split_once('=').ok_or("a line is no 'key = value'")?;
        let (key, value) = (key.trim(), value.trim());
        if key == "ptn" {
            let bytes = value.parse().map_err(|_| "no number of bytes")?;
            room.take(bytes)?;
            self.input = ptn(bytes);
            return Ok(());
        }
        room.take(value.len() / 2)?;
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
                    identifier => Prehash::of_identifier(identifier).ok_or("no function has this number")?,
                }
            }
            "id" if value.len() <= 4 => {
                self.origin.1 = value.iter().fold(0, |id, byte| id << 8 | usize::from(*byte));
            }
            "invalid" => self.expect = Expect::Refused,
            "unknowable" => {
                let reason = REASONS.get(usize::from(byte()?)).ok_or("no reason has this number")?;
                self.expect = Expect::Unknowable(reason);
            }
            "monte" => self.expect = Expect::MonteCarlo(usize::from(byte()?)),
            _ => return Err("an unknown key"),
        }
        Ok(())
    }

    /// The vector, when nothing more comes.
    fn whole(self) -> Result<Self, &'static str> {
        match self.expect {
            // The last digests are the next message.
            Expect::MonteCarlo(width)
                if width == 0 || self.input.is_empty() || self.input.len() != self.output.len() =>
            {
                Err("this row of digests cannot be")
            }
            _ => Ok(self),
        }
    }
}

/// The pattern of RFC 9861, section 5.
fn ptn(bytes: usize) -> Vec<u8> {
    (0..=0xfa).cycle().take(bytes).collect()
}

fn unhex(digits: &str) -> Result<Vec<u8>, &'static str> {
    let value = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8).ok_or("not hexadecimal");
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Ok(value(high)? << 4 | value(low)?),
        _ => Err("half a byte"),
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<Vector>, Problem> {
        parse(&"x".into(), text, &|_| true, &mut Room { vectors: 3, bytes: 100 })
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
        assert_eq!(parse(&"x".into(), text, &sha1, &mut Room::endless()).unwrap().len(), 1);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (line, text, what) in [
            (1, "input = 00\n", "there is no section yet"),
            (1, "[sha1\n", "a title has no end"),
            (1, "[sha0]\n", "the program does not know this algorithm"),
            (1, "[]\n", "the program does not know this algorithm"),
            (1, "[ed25519 sha256 sha1]\n", "a title has more than two names"),
            (3, "[sha1]\ninput = 00\n[md5]\n", "a section begins inside of a block"),
            (2, "[sha1]\ninput\n", "a line is no 'key = value'"),
            (2, "[sha1]\ninput = 0\n", "half a byte"),
            (2, "[sha1]\ninput = 0x\n", "not hexadecimal"),
            (2, "[sha1]\ninput = é\n", "not hexadecimal"),
            (2, "[sha1]\nptn = -1\n", "no number of bytes"),
            (2, "[sha1]\nptn = 101\n", "more bytes than a file may have"),
            (
                3,
                "[sha1]\nptn = 60\ninput = 00112233445566778899001122334455667788990011223344556677889900112233445566778899aa\n",
                "more bytes than a file may have",
            ),
            (9, "[sha1]\nkey=\n\nkey=\n\nkey=\n\nkey=\n\n", "more vectors than a file may have"),
            (2, "[sha1]\nmonte =\n", "the value is not one byte"),
            (2, "[sha1]\nunknowable = 03\n", "no reason has this number"),
            (2, "[sha1]\nprehash = ff\n", "no function has this number"),
            (2, "[sha1]\nid = 0102030405\n", "an unknown key"),
            (2, "[sha1]\nsalt = 00\n", "an unknown key"),
            (5, "[sha1]\ninput = 00\noutput = 0000\nmonte = 03\n\n", "this row of digests cannot be"),
            (5, "[sha1]\ninput = 00\noutput = 00\nmonte = 00\n", "this row of digests cannot be"),
        ] {
            assert_eq!(all(text).map(|vectors| vectors.len()), Err(Problem { line, what }), "{text}");
        }
    }
}
