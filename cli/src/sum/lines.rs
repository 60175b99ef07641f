//! The lines of a checksum file in the encodings that programs write: UTF-8 with or without a byte order mark, and UTF-16
//! with a byte order mark (Windows PowerShell). Lines may end with NUL (`sum -z`).

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// Longest line, in bytes or in units of UTF-16. Names that a system can open are far shorter. Longer lines count as improper, so that a
/// file without line ends does not fill the memory.
const MAX_LINE_LENGTH: u64 = 1 << 20;

/// Most bytes at the beginning of a file that decide its encoding.
const HEAD_SIZE: usize = 64 << 10;

/// The lines of a checksum file.
pub(crate) struct Lines<R> {
    reader: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    encoding: Encoding,
}

#[derive(Clone, Copy)]
pub(crate) enum Encoding {
    /// Lines as coreutils reads them.
    Raw,
    /// Lines that end with this byte.
    Bytes(u8),
    Utf16 {
        big_endian: bool,
    },
}

impl<R: Read> Lines<R> {
    /// Reads the beginning of a file, which shows the encoding unless `known` states it.
    pub(crate) fn new(mut source: R, known: Option<Encoding>) -> io::Result<Self> {
        let mut head = vec![0; HEAD_SIZE];
        let mut length = 0;
        // A byte order mark has up to three bytes.
        while length < 3 {
            match source.read(&mut head[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        head.truncate(length);
        let (mark, encoding) = match &head[..] {
            _ if let Some(known) = known => (0, known),
            [0xff, 0xfe, ..] => (2, Encoding::Utf16 { big_endian: false }),
            [0xfe, 0xff, ..] => (2, Encoding::Utf16 { big_endian: true }),
            [0xef, 0xbb, 0xbf, rest @ ..] => (3, Encoding::Bytes(line_end(rest))),
            all => (0, Encoding::Bytes(line_end(all))),
        };
        let mut head = Cursor::new(head);
        head.set_position(mark);
        Ok(Self { reader: BufReader::with_capacity(HEAD_SIZE, head.chain(source)), encoding })
    }

    /// Returns true if the next line has been read from the source, so that [`next`](Self::next) does not wait.
    pub(crate) fn has_next(&self) -> bool {
        let end = if let Encoding::Bytes(end) = self.encoding { end } else { b'\n' };
        let (head, _) = self.reader.get_ref().get_ref();
        let rest = head.get_ref().get(head.position() as usize..).unwrap_or_default();
        self.reader.buffer().contains(&end) || rest.contains(&end)
    }

    /// Reads a line into `line`, as UTF-8 and with a newline at its end. Returns `None` at the end of the file, and false for a line that
    /// is too long, or not valid in the encoding.
    pub(crate) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
        line.clear();
        match self.encoding {
            Encoding::Raw => self.next_of_bytes(b'\n', line),
            Encoding::Bytes(end) => {
                let whole = self.next_of_bytes(end, line)?;
                if end == 0 {
                    line.pop_if(|last| *last == 0);
                    line.push(b'\n');
                }
                Ok(whole.map(|whole| whole && !line.contains(&0)))
            }
            Encoding::Utf16 { big_endian } => self.next_of_utf16(big_endian, line),
        }
    }

    fn next_of_bytes(&mut self, end: u8, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
        if self.reader.by_ref().take(MAX_LINE_LENGTH).read_until(end, line)? == 0 {
            return Ok(None);
        }
        let whole = (line.len() as u64) < MAX_LINE_LENGTH || line.last() == Some(&end);
        if !whole {
            self.reader.skip_until(end)?;
        }
        Ok(Some(whole))
    }

    fn next_of_utf16(&mut self, big_endian: bool, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
        let (mut units, mut whole, mut empty) = (Vec::new(), true, true);
        while let Some(first) = self.next_byte()? {
            empty = false;
            let Some(second) = self.next_byte()? else {
                whole = false;
                break;
            };
            let unit = if big_endian { [first, second] } else { [second, first] };
            let unit = u16::from_be_bytes(unit);
            if (units.len() as u64) < MAX_LINE_LENGTH {
                units.push(unit);
            } else {
                whole = false;
            }
            if unit == u16::from(b'\n') {
                break;
            }
        }
        for letter in char::decode_utf16(units) {
            match letter {
                Ok(letter) => line.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(_) => whole = false,
            }
        }
        Ok((!empty).then(|| whole && !line.contains(&0)))
    }

    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.reader.fill_buf()?.first().copied();
        if byte.is_some() {
            self.reader.consume(1);
        }
        Ok(byte)
    }
}

/// Returns the byte that ends lines: NUL if the beginning of the list has a NUL. Names in such a list may contain newlines.
fn line_end(head: &[u8]) -> u8 {
    if head.contains(&0) { 0 } else { b'\n' }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines, and `None` for an improper line.
    fn lines(bytes: &[u8], raw: bool) -> Vec<Option<String>> {
        /// Returns one byte at a time, as a slow pipe does.
        struct Slow<'a>(&'a [u8]);

        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
                buffer[0] = *first;
                self.0 = rest;
                Ok(1)
            }
        }

        fn all(source: impl Read, raw: bool) -> Vec<Option<String>> {
            let known = raw.then_some(Encoding::Raw);
            let (mut lines, mut line) = (Lines::new(source, known).unwrap(), Vec::new());
            let next = || {
                let whole = lines.next(&mut line).unwrap()?;
                Some(whole.then(|| String::from_utf8(line.clone()).unwrap()))
            };
            std::iter::from_fn(next).collect()
        }

        // The first bytes of a slow list do not show that its lines end with NUL.
        if !bytes.contains(&0) || bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || raw {
            assert_eq!(all(Slow(bytes), raw), all(bytes, raw));
        }
        all(bytes, raw)
    }

    fn some(lines: &[&str]) -> Vec<Option<String>> {
        lines.iter().map(|line| Some((*line).to_owned())).collect()
    }

    #[test]
    fn every_encoding_gives_the_same_lines() {
        let text = "00  a\r\n11  \u{e4}\u{1f511}\n22  c";
        let lines_of_it = some(&["00  a\r\n", "11  \u{e4}\u{1f511}\n", "22  c"]);
        assert_eq!(lines(text.as_bytes(), false), lines_of_it);
        assert_eq!(lines(text.as_bytes(), true), lines_of_it);
        assert_eq!(lines(&[b"\xef\xbb\xbf", text.as_bytes()].concat(), false), lines_of_it);
        let units: Vec<u16> = std::iter::once(0xfeff).chain(text.encode_utf16()).collect();
        let (little, big): (Vec<u8>, Vec<u8>) = (
            units.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
            units.iter().flat_map(|unit| unit.to_be_bytes()).collect(),
        );
        assert_eq!(lines(&little, false), lines_of_it);
        assert_eq!(lines(&big, false), lines_of_it);
        assert_eq!(lines(&little[..little.len() - 1], false).last(), Some(&None), "half a unit");
        assert_eq!(lines(b"\xff\xfe\x00\xd8\n\0", false), [None], "half a character");
    }

    #[test]
    fn lines_that_end_with_nul_may_contain_newlines() {
        assert_eq!(lines(b"00  a\nb\x0011  c\0", false), some(&["00  a\nb\n", "11  c\n"]));
        assert_eq!(lines(b"00  a\x0011  c", false), some(&["00  a\n", "11  c\n"]));
        assert_eq!(lines(b"00  a\0b\n", true), some(&["00  a\0b\n"]), "as coreutils");
    }

    #[test]
    fn a_nul_after_the_first_lines_makes_its_line_improper() {
        let long = "00  a\n".repeat(HEAD_SIZE);
        let all = lines(&[long.as_bytes(), b"11  b\0c\n22  d\n"].concat(), false);
        assert_eq!(all[HEAD_SIZE..], [None, Some("22  d\n".to_owned())]);
    }

    #[test]
    fn a_byte_order_mark_alone_is_an_empty_file() {
        for bytes in [&b""[..], b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"] {
            assert_eq!(lines(bytes, false), []);
        }
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let long = [vec![b'x'; 3 << 20], b"\n22  d\n".to_vec()].concat();
        assert_eq!(lines(&long, false), [None, Some("22  d\n".to_owned())]);
        let wide: Vec<u8> = [vec![0xff, 0xfe], long.iter().flat_map(|byte| [*byte, 0]).collect()].concat();
        assert_eq!(lines(&wide, false), [None, Some("22  d\n".to_owned())]);
    }
}
