//! Untrusted compressed data. Decompression writes only to the buffer for the result, even if it fails. After a success, the result is
//! compressed in every format, and decompressed again without a change.
#![no_main]

use std::sync::LazyLock;

use gantry_core::{Algorithm, AlgorithmInfo, Error, Gantry, Outcome, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;
use libfuzzer_sys::fuzz_target;

static SESSIONS: LazyLock<[Session; 4]> = LazyLock::new(|| {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    [Algorithm::Deflate, Algorithm::Zlib, Algorithm::Gzip, Algorithm::Zstd]
        .map(|algorithm| gantry.session(SessionParams::new(algorithm, &[]).with_level(1)).unwrap())
});

/// Guard bytes after the room for a result.
const GUARD: [u8; 16] = [0xA5; 16];

/// Decompresses into a buffer of `room` bytes, and checks that nothing after it changes.
fn decompress(session: &Session, input: &[u8], room: usize) -> Result<Vec<u8>, Outcome> {
    let mut buffer = vec![0; room];
    buffer.extend_from_slice(&GUARD);
    let result = session.decompress(input, &mut buffer[..room]);
    assert_eq!(buffer[room..], GUARD);
    match result {
        Ok(length) => Ok(buffer[..length].to_vec()),
        Err(Error::Refused(outcome @ (Outcome::Malformed | Outcome::NoRoom))) => Err(outcome),
        Err(other) => panic!("{other}"),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&which, data)) = input.split_first() else { return };
    let session = &SESSIONS[usize::from(which & 3)];
    let Ok(plain) = decompress(session, data, 1 << 16) else { return };

    // The exact size is enough, and one byte less is not.
    assert_eq!(decompress(session, data, plain.len()).as_ref(), Ok(&plain));
    if !plain.is_empty() {
        assert_eq!(decompress(session, data, plain.len() - 1), Err(Outcome::NoRoom));
    }

    for other in &*SESSIONS {
        let mut buffer = vec![0; AlgorithmInfo::compressed_max(plain.len())];
        let length = other.compress(&plain, &mut buffer).unwrap();
        assert_eq!(decompress(other, &buffer[..length], plain.len()).as_ref(), Ok(&plain));
    }
});
