//! ESP (RFC 4303): the parameters of sessions for packets, and the layout of packets.
//!
//! A packet is a header (the SPI and the low 32 bits of the packet's sequence number), the IV, the encrypted data and the tag. The data end
//! in a trailer: padding, its length, and the next header.

/// The parameters of a security association, which a session for packets needs in addition to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Esp {
    /// The security parameters index (RFC 4303, 2.1).
    pub spi: u32,
    /// Sequence numbers have 64 bits instead of 32. A packet then carries only the lower half of its number (RFC 4303, 2.2.1).
    pub extended: bool,
}

/// The length of the SPI and of the sequence number in a packet, in bytes.
pub const HEADER_LEN: usize = 8;
/// The length of the trailer without its padding, in bytes: one for the length of the padding, and one for the next header.
pub const TRAILER_LEN: usize = 2;

/// Writes the trailer (RFC 4303, 2.4 to 2.6): padding, its length and the next header. The trailer fills `data` behind the first `payload`
/// bytes, and has [`TRAILER_LEN`] to 257 bytes. Does nothing if `data` is shorter than [`TRAILER_LEN`].
pub fn write_trailer(data: &mut [u8], payload: usize, next_header: u8) {
    let Some((rest, trailer)) = data.split_last_chunk_mut::<TRAILER_LEN>() else { return };
    let padding = rest.get_mut(payload..).unwrap_or_default();
    *trailer = [padding.len() as u8, next_header];
    // The bytes of the padding are 1, 2, 3 and so on (RFC 4303, 2.4).
    for (byte, value) in padding.iter_mut().zip(1..=u8::MAX) {
        *byte = value;
    }
}

/// Reads the trailer, and returns the length of the payload and the next header.
///
/// # Errors
/// A description of the error in the trailer.
pub fn read_trailer(data: &[u8]) -> Result<(usize, u8), &'static str> {
    let (rest, &[padding, next_header]) = data.split_last_chunk().ok_or("no trailer")?;
    let payload = rest.len().checked_sub(padding.into()).ok_or("more padding than data")?;
    let is_valid = rest[payload..].iter().zip(1..=u8::MAX).all(|(byte, value)| *byte == value);
    if is_valid { Ok((payload, next_header)) } else { Err("invalid padding") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_round_trip_and_invalid_ones_are_rejected() {
        for length in TRAILER_LEN..40 {
            for payload in 0..=length - TRAILER_LEN {
                let mut data = vec![0xEE; length];
                write_trailer(&mut data, payload, 41);
                assert_eq!(read_trailer(&data), Ok((payload, 41)));
                assert_eq!(data[..payload], vec![0xEE; payload]);
            }
        }
        assert_eq!(read_trailer(&[4]), Err("no trailer"));
        assert_eq!(read_trailer(&[1, 2, 4]), Err("more padding than data"));
        assert_eq!(read_trailer(&[7, 1, 1, 2, 4]), Err("invalid padding"));
    }
}
