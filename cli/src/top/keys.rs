//! Keys from the bytes that a terminal sends. `crossterm` waits for the rest of a sequence for as long as it takes, and goes around in
//! circles at the end of a terminal; this program has signals to attend to meanwhile, and needs few keys.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    /// What would have been SIGINT.
    Interrupt,
    /// What would have been SIGTSTP.
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

/// Sequences behind `ESC [` or `ESC O`, as xterm and its kin send them.
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

/// Bytes that have come and may be the beginning of a key.
#[derive(Default)]
pub(super) struct Keys(Vec<u8>);

impl Keys {
    /// The keys that are whole now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
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

    /// Whether something has begun.
    pub(super) fn has_begun(&self) -> bool {
        !self.0.is_empty()
    }

    /// Nothing more has come: ESC was the key, and anything else was none.
    pub(super) fn end(&mut self) -> Option<Key> {
        (std::mem::take(&mut self.0) == [ESC]).then_some(Key::Escape)
    }
}

const ESC: u8 = 0x1b;

/// The first key, and its bytes; no key if they mean none here. `None` if they are not all there.
fn next(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = match bytes {
        [] | [ESC] => return None,
        [ESC, b'[' | b'O', rest @ ..] => {
            // Parameters, up to a final byte (ECMA-48, 5.4).
            let last = rest.iter().position(|byte| (0x40..0x7f).contains(byte))?;
            let key = SEQUENCES.iter().find(|(sequence, _)| *sequence == &rest[..=last]).map(|(_, key)| *key);
            return Some((key, last + 3));
        }
        // With Alt.
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
    fn keys_are_known_in_one_piece_and_in_several() {
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
        assert_eq!(Keys::default().take(bytes), keys);
        let mut pieces = Keys::default();
        let one_by_one: Vec<Key> = bytes.iter().flat_map(|byte| pieces.take(&[*byte])).collect();
        assert_eq!(one_by_one, keys);
        assert!(!pieces.has_begun());
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!(keys.take(b"\x1b"), []);
        assert!(keys.has_begun());
        assert_eq!(keys.end(), Some(Key::Escape));
        assert_eq!((keys.take(b"\x1b["), keys.end(), keys.has_begun()), (Vec::new(), None, false));
    }

    #[test]
    fn no_bytes_are_kept_for_ever() {
        let mut keys = Keys::default();
        for byte in 0..=u8::MAX {
            keys.take(&[ESC, b'[', byte]);
            keys.end();
            assert!(!keys.has_begun());
        }
    }
}
