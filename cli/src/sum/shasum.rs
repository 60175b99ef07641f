//! Files that `shasum` does not read as bytes: text with any line ends (`-U`), and bits in digits (`-0`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The way to read a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reading {
    #[default]
    Bytes,
    /// CR LF and CR count as LF.
    Text,
    /// Each `0` or `1` is a bit; other bytes do not count.
    Bits,
}

/// Splits off the mark before a name, `U` or `^`, if there is no file with the mark in its name and one without.
pub(super) fn marked(mut name: Vec<u8>) -> (Vec<u8>, Reading) {
    let reading = match name.first() {
        Some(b'U') => Reading::Text,
        Some(b'^') => Reading::Bits,
        _ => return (name, Reading::Bytes),
    };
    let there = |name: &[u8]| Path::new(OsStr::from_bytes(name)).symlink_metadata().is_ok();
    if there(&name) || !there(&name[1..]) {
        return (name, Reading::Bytes);
    }
    name.remove(0);
    (name, reading)
}

/// A file that is converted while it is read.
pub(super) struct Converted<R> {
    reader: BufReader<R>,
    reading: Reading,
    /// The last byte was a CR, whose LF does not count.
    after_cr: bool,
    /// Bits of the next byte behind a one.
    bits: u8,
}

impl Converted<File> {
    pub(super) fn open(path: &Path, reading: Reading) -> io::Result<Self> {
        Ok(Self::new(File::open(path)?, reading))
    }
}

impl<R: Read> Converted<R> {
    fn new(reader: R, reading: Reading) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, reader), reading, after_cr: false, bits: 1 }
    }

    /// Returns the byte that ends with this one of the file.
    fn convert(&mut self, byte: u8) -> Option<u8> {
        match self.reading {
            Reading::Bytes => Some(byte),
            Reading::Text => {
                let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
                match byte {
                    b'\n' if after_cr => None,
                    b'\r' => Some(b'\n'),
                    other => Some(other),
                }
            }
            Reading::Bits => {
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

    fn read(text: &[u8], reading: Reading) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Converted::new(text, reading).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn files_are_read_as_shasum_reads_them() {
        assert_eq!(read(b"a\r\nb\rc\n\r\n\r", Reading::Text).unwrap(), b"a\nb\nc\n\n\n");
        assert_eq!(read(b"0100 0001\n1111 1111", Reading::Bits).unwrap(), b"A\xff");
        assert!(read(b"0100000", Reading::Bits).is_err());
        assert_eq!(read(b"", Reading::Bits).unwrap(), b"");
        assert_eq!(read(b"\r\n", Reading::Bytes).unwrap(), b"\r\n");
    }
}
