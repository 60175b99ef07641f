//! Files that are not hashed as whole files of bytes: text with any line ends (`shasum -U`), bits in digits (`shasum -0`), and pieces
//! (`hashdeep -p`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The way to read a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReadMode {
    #[default]
    Bytes,
    /// CR LF and CR count as LF.
    Text,
    /// Each `0` or `1` is a bit; other bytes do not count.
    Bits,
    /// A range of the file's bytes. The name states the first and the last byte: `NAME offset FIRST-LAST`.
    Piece,
}

/// Returns the way to read a file, and its name without the mark before it, `U` or `^`. A mark or a piece counts only if no file has the
/// full name, and a file has the name without the mark or piece. The name of a piece stays as it is.
pub(super) fn split_mark(mut name: Vec<u8>) -> (Vec<u8>, ReadMode) {
    let (file, read_mode) = match name.first() {
        Some(b'U') => (&name[1..], ReadMode::Text),
        Some(b'^') => (&name[1..], ReadMode::Bits),
        _ => (&name[..], ReadMode::Bytes),
    };
    let exists = |name: &[u8]| Path::new(OsStr::from_bytes(name)).symlink_metadata().is_ok();
    if read_mode != ReadMode::Bytes && exists(file) && !exists(&name) {
        name.remove(0);
        return (name, read_mode);
    }
    let is_piece = piece(&name).is_some_and(|(file, _)| exists(file)) && !exists(&name);
    (name, if is_piece { ReadMode::Piece } else { ReadMode::Bytes })
}

/// Opens a file that is not read as bytes.
pub(super) fn open(name: &[u8], read_mode: ReadMode) -> io::Result<Box<dyn Read + Send>> {
    let open = |name| File::open(Path::new(OsStr::from_bytes(name)));
    let Some((file, (first, length))) = piece(name).filter(|_| read_mode == ReadMode::Piece) else {
        return Ok(Box::new(Converted::new(open(name)?, read_mode)));
    };
    let mut file = open(file)?;
    file.seek(SeekFrom::Start(first))?;
    Ok(Box::new(file.take(length)))
}

/// Splits the name of a piece into the name of its file, the offset of its first byte, and its length.
fn piece(name: &[u8]) -> Option<(&[u8], (u64, u64))> {
    const OFFSET: &[u8] = b" offset ";
    let place = name.windows(OFFSET.len()).rposition(|window| window == OFFSET)?;
    let (first, last) = std::str::from_utf8(&name[place + OFFSET.len()..]).ok()?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((&name[..place], (first, last.checked_sub(first)?.checked_add(1)?)))
}

/// A file that is converted while it is read.
struct Converted<R> {
    reader: BufReader<R>,
    read_mode: ReadMode,
    /// True if the last byte was a CR: an LF after it does not count.
    after_cr: bool,
    /// The bits so far of the next byte, after a leading 1 bit.
    bits: u8,
}

impl<R: Read> Converted<R> {
    fn new(reader: R, read_mode: ReadMode) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, reader), read_mode, after_cr: false, bits: 1 }
    }

    /// Returns the converted byte that this byte of the file completes, if any.
    fn convert(&mut self, byte: u8) -> Option<u8> {
        match self.read_mode {
            ReadMode::Bytes | ReadMode::Piece => Some(byte),
            ReadMode::Text => {
                let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
                match byte {
                    b'\n' if after_cr => None,
                    b'\r' => Some(b'\n'),
                    other => Some(other),
                }
            }
            ReadMode::Bits => {
                let bit = byte.checked_sub(b'0').filter(|bit| *bit <= 1)?;
                let full = self.bits >= 0x80;
                let byte = self.bits << 1 | bit;
                self.bits = if full { 1 } else { byte };
                full.then_some(byte)
            }
        }
    }
}

impl<R: Read> Read for Converted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        while length < buffer.len() {
            let Some(&byte) = self.reader.fill_buf()?.first() else {
                if self.bits != 1 {
                    return Err(io::Error::other("the bits are no whole bytes"));
                }
                break;
            };
            self.reader.consume(1);
            if let Some(converted) = self.convert(byte) {
                buffer[length] = converted;
                length += 1;
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], read_mode: ReadMode) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Converted::new(text, read_mode).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn files_are_read_as_shasum_reads_them() {
        assert_eq!(read(b"a\r\nb\rc\n\r\n\r", ReadMode::Text).unwrap(), b"a\nb\nc\n\n\n");
        assert_eq!(read(b"0100 0001\n1111 1111", ReadMode::Bits).unwrap(), b"A\xff");
        assert!(read(b"0100000", ReadMode::Bits).is_err());
        assert_eq!(read(b"", ReadMode::Bits).unwrap(), b"");
        assert_eq!(read(b"\r\n", ReadMode::Bytes).unwrap(), b"\r\n");
    }

    #[test]
    fn pieces_are_parsed_as_hashdeep_prints_them() {
        assert_eq!(piece(b"a offset 0-4095"), Some((&b"a"[..], (0, 4096))));
        assert_eq!(piece(b"a offset 1-2 offset 10-10"), Some((&b"a offset 1-2"[..], (10, 1))));
        for name in ["a", "a offset ", "a offset 1", "a offset 2-1", "a offset x-1", "a offset 0-18446744073709551615"]
        {
            assert_eq!(piece(name.as_bytes()), None, "{name}");
        }
    }
}
