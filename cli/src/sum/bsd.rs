//! Lines with tags: `SHA256 (name) = digest`, as BSD, OpenSSL and RHash write them.

use std::borrow::Cow;

use super::names::HashId;

/// Returns the function of the tag at the beginning of a line, and the tag. RHash pads tags with blanks.
pub(crate) fn leading_tag(line: &[u8]) -> Option<(HashId, &'static str)> {
    let tags = HashId::all().flat_map(|id| id.tags().iter().map(move |&tag| (id, tag)));
    tags.into_iter().find(|(_, tag)| {
        let rest = line.strip_prefix(tag.as_bytes());
        rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"("))
    })
}

/// Returns a line with at most one blank after its tag, and without the colons of `openssl dgst -c` in its digest.
pub(crate) fn normalized<'a>(line: &'a [u8], tag: &str) -> Cow<'a, [u8]> {
    let begin = line.windows(tag.len()).position(|window| window == tag.as_bytes()).map_or(0, |at| at + tag.len());
    let open = begin + line[begin..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let Some(close) = line.iter().rposition(|&byte| byte == b')') else { return Cow::Borrowed(line) };
    if open <= begin + 1 && !line[close..].contains(&b':') {
        return Cow::Borrowed(line);
    }
    let mut plain = line[..begin].to_vec();
    plain.extend(&line[open.min(close)..close]);
    plain.extend(line[close..].iter().filter(|&&byte| byte != b':'));
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_and_colons_are_removed_and_names_kept() {
        for (line, expected) in [
            ("MD5    (a) = 00", "MD5(a) = 00"),
            ("MD5(a: b)= 00:11:22\n", "MD5(a: b)= 001122\n"),
            ("\\MD5 (a  (b:c) = 00", "\\MD5 (a  (b:c) = 00"),
            ("MD5   ", "MD5   "),
            ("MD5", "MD5"),
        ] {
            assert_eq!(normalized(line.as_bytes(), "MD5"), expected.as_bytes(), "{line}");
        }
    }
}
