//! Parses keys from the bytes of a terminal. The parser of `crossterm` does not suit: it blocks until a sequence is complete, and spins
//! when the terminal is gone. This program also has to handle signals, and needs few keys.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    /// Ctrl-C, which raw mode does not turn into SIGINT.
    Interrupt,
    /// Ctrl-Z, which raw mode does not turn into SIGTSTP.
    Stop,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Sequences after `ESC [` or `ESC O`, as in xterm and similar terminals.
const SEQUENCES: [(&[u8], Key); 12] = [
    (b"A", Key::Up),
    (b"B", Key::Down),
    (b"C", Key::Right),
    (b"D", Key::Left),
    (b"H", Key::Home),
    (b"F", Key::End),
    (b"1~", Key::Home),
    (b"4~", Key::End),
    (b"5~", Key::PageUp),
    (b"6~", Key::PageDown),
    (b"7~", Key::Home),
    (b"8~", Key::End),
];

/// Bytes that may be the beginning of a key.
#[derive(Default)]
pub(super) struct KeyParser(Vec<u8>);

impl KeyParser {
    /// Adds bytes, and returns the complete keys.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.0.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = &self.0[..];
        while let Some((key, length)) = next(rest) {
            keys.extend(key);
            rest = &rest[length..];
        }
        self.0 = rest.to_vec();
        keys
    }

    pub(super) fn has_partial_key(&self) -> bool {
        !self.0.is_empty()
    }

    /// Ends an incomplete key after a pause: a lone ESC is the Escape key, anything else is ignored.
    pub(super) fn finish(&mut self) -> Option<Key> {
        (std::mem::take(&mut self.0) == [ESC]).then_some(Key::Escape)
    }
}

const ESC: u8 = 0x1b;

/// Returns the first key and its length in bytes; no key for an unknown sequence. `None` if the sequence is incomplete.
fn next(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = match bytes {
        [] | [ESC] => return None,
        [ESC, b'[' | b'O', rest @ ..] => {
            // Parameters, up to a final byte (ECMA-48, 5.4).
            let last = rest.iter().position(|byte| (0x40..0x7f).contains(byte))?;
            let key = SEQUENCES.iter().find(|(sequence, _)| *sequence == &rest[..=last]).map(|(_, key)| *key);
            return Some((key, last + 3));
        }
        // A key with Alt.
        [ESC, ..] => return Some((None, 2)),
        [b'\r' | b'\n', ..] => Some(Key::Enter),
        [3, ..] => Some(Key::Interrupt),
        [26, ..] => Some(Key::Stop),
        [byte, ..] if matches!(byte, b' '..=b'~') => Some(Key::Char(char::from(*byte))),
        _ => None,
    };
    Some((key, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parsed_whole_and_byte_by_byte() {
        let bytes = b"q\x1b[A\x1bOB\x1b[5~\r\x1b[1;5C\x03\x1a\xc3\xa9x\x1bz ";
        let keys = [
            Key::Char('q'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::Enter,
            Key::Interrupt,
            Key::Stop,
            Key::Char('x'),
            Key::Char(' '),
        ];
        assert_eq!(KeyParser::default().parse(bytes), keys);
        let mut pieces = KeyParser::default();
        let one_by_one: Vec<Key> = bytes.iter().flat_map(|byte| pieces.parse(&[*byte])).collect();
        assert_eq!(one_by_one, keys);
        assert!(!pieces.has_partial_key());
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows() {
        let mut keys = KeyParser::default();
        assert_eq!(keys.parse(b"\x1b"), []);
        assert!(keys.has_partial_key());
        assert_eq!(keys.finish(), Some(Key::Escape));
        assert_eq!((keys.parse(b"\x1b["), keys.finish(), keys.has_partial_key()), (Vec::new(), None, false));
    }

    #[test]
    fn no_bytes_are_kept_forever() {
        let mut keys = KeyParser::default();
        for byte in 0..=u8::MAX {
            keys.parse(&[ESC, b'[', byte]);
            keys.finish();
            assert!(!keys.has_partial_key());
        }
    }
}
