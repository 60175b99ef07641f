//! File names in diagnostics, quoted for a shell as coreutils does.

use crate::io::sys;

/// Returns `name` unchanged if it is unambiguous, otherwise quoted for a shell: `'a b'`, `"it's"`, `'a'$'\n''b'`.
///
/// A colon also needs quotes, because it separates the name from the message after it.
pub(crate) fn quote(name: &[u8]) -> Vec<u8> {
    let pieces = pieces(name);
    let plain = !name.is_empty() && pieces.iter().all(|piece| piece.kind == Kind::Plain);
    if plain {
        return name.to_vec();
    }
    let has_apostrophe = name.contains(&b'\'');
    if has_apostrophe && pieces.iter().all(|piece| piece.in_double_quotes) {
        return [b"\"", name, b"\""].concat();
    }
    let mut out = vec![b'\''];
    // True inside $'...', false inside '...'. Coreutils scans a name with an apostrophe twice, and the second scan begins in the final
    // state of the first.
    let mut escaping = has_apostrophe && pieces.last().is_some_and(|piece| piece.kind == Kind::Escape);
    for piece in pieces {
        match piece.kind {
            Kind::Escape => {
                if !escaping {
                    out.extend(b"'$'");
                    escaping = true;
                }
                for &byte in piece.bytes {
                    escape(byte, &mut out);
                }
            }
            Kind::Apostrophe => {
                out.extend(b"'\\''");
                escaping = false;
            }
            Kind::Plain | Kind::Special => {
                if escaping {
                    out.extend(b"''");
                    escaping = false;
                }
                out.extend(piece.bytes);
            }
        }
    }
    out.push(b'\'');
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Literal in a shell.
    Plain,
    /// Literal inside apostrophes.
    Special,
    /// Ends the quotes.
    Apostrophe,
    /// Not printable.
    Escape,
}

/// One character of a name, of one or more bytes.
struct Piece<'a> {
    bytes: &'a [u8],
    kind: Kind,
    in_double_quotes: bool,
}

fn pieces(name: &[u8]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::with_capacity(name.len());
    let mut at = 0;
    while at < name.len() {
        let (length, printable) = sys::character(&name[at..]);
        let bytes = &name[at..at + length];
        let (kind, in_double_quotes) = match bytes {
            _ if !printable => (Kind::Escape, false),
            b"'" => (Kind::Apostrophe, true),
            b"{" | b"}" => (if name.len() == 1 { Kind::Special } else { Kind::Plain }, false),
            b"#" | b"~" if at == 0 => (Kind::Special, true),
            b"#" | b"~" => (Kind::Plain, false),
            b" " | b":" => (Kind::Special, true),
            b"!" | b"\"" | b"$" | b"&" | b"(" | b")" | b"*" | b";" | b"<" | b"=" | b">" | b"?" | b"[" | b"\\"
            | b"^" | b"`" | b"|" => (Kind::Special, false),
            _ => (Kind::Plain, true),
        };
        pieces.push(Piece { bytes, kind, in_double_quotes });
        at += length;
    }
    pieces
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return out.extend(format!("\\{byte:03o}").into_bytes()),
    };
    out.extend([b'\\', letter]);
}
