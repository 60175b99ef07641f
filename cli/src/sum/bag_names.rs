//! The names in the manifests of a bag: their escapes, and paths that lead out of the bag.

use std::borrow::Cow;

/// The characters that `%` escapes in the names of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// CR and LF: bags before version 1.0, in which `%25` is literal.
    LineEnds,
    /// CR, LF and `%` (RFC 8493, section 2.1.3).
    All,
}

/// Decodes a name in a bag; `None` unless its file is below the bag's folder.
pub(crate) fn bag_name(name: &[u8], escapes: Escapes) -> Option<Cow<'_, [u8]>> {
    below(percent_decoded(name, escapes))
}

/// Decodes the escapes of a bag. Other percent signs stay.
fn percent_decoded(name: &[u8], escapes: Escapes) -> Cow<'_, [u8]> {
    if !name.contains(&b'%') {
        return Cow::Borrowed(name);
    }
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, behind)) = rest.split_first() {
        let escape = rest.get(..3).map(<[u8]>::to_ascii_uppercase);
        let plain = match escape.as_deref() {
            Some(b"%0D") => b'\r',
            Some(b"%0A") => b'\n',
            Some(b"%25") if escapes == Escapes::All => b'%',
            _ => {
                decoded.push(byte);
                rest = behind;
                continue;
            }
        };
        decoded.push(plain);
        rest = &rest[3..];
    }
    Cow::Owned(decoded)
}

/// Returns a name whose file is below the bag's folder. Returns `None` for other names, which may lead anywhere (RFC 8493, section 5.1).
fn below(name: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    let upward = name.split(|&byte| byte == b'/').any(|part| part == b"..");
    (!upward && !name.starts_with(b"/") && !name.starts_with(b"~") && !name.contains(&0)).then_some(name)
}
