use std::io::{self, Read};

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    read_up_to(file, buffer, None).map(|(length, _)| length)
}

/// Fills the buffer, or reads to the end of the file. Returns the number of bytes read, and true if the file is known to have ended. A
/// short read that brings the length to `expected` counts as the end, which saves a read of 0 bytes.
pub(crate) fn read_up_to(file: &mut impl Read, buffer: &mut [u8], expected: Option<u64>) -> io::Result<(usize, bool)> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => return Ok((length, true)),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if length < buffer.len() && expected == Some(length as u64) {
            return Ok((length, true));
        }
    }
    Ok((length, false))
}
