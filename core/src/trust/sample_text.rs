//! Text to compress, for measurements.

#[rustfmt::skip]
const WORDS: [&[u8]; 32] = [
    b"the ", b"of ", b"and ", b"to ", b"in ", b"a ", b"is ", b"that ", b"for ", b"it ", b"as ", b"was ", b"with ", b"be ", b"by ", b"on ",
    b"request ", b"device ", b"lanes ", b"engine, ", b"packet ", b"machine. ", b"kernel ", b"session ",
    b"0x", b"12.", b"2048, ", b"\n", b"key: ", b"number ", b"\n    ", b"answer; ",
];

/// Returns `bytes` bytes that compress as well as English text or a log: by two thirds.
pub fn sample_text(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(state) * u64::from(below)) >> 32) as usize
    };
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.extend_from_slice(WORDS[random(32)]);
        // Letters that are not in the list, like names and numbers in a text.
        (0..random(4)).for_each(|_| text.push(b'a' + random(16) as u8));
    }
    text.truncate(bytes);
    text
}
