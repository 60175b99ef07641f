//! The parser of checksum files: turns a line into a digest and a name.
//!
//! The parser accepts three formats: `DIGEST  NAME` (GNU; `*` before the name marks binary mode), `DIGEST NAME` (reversed BSD) and `SHA256
//! (NAME) = DIGEST` (BSD, and OpenSSL's spelling without the blanks). A leading backslash means that `\n`, `\r` and `\\` in the name are
//! escapes.
//!
//! The lines are untrusted. Every function is total: it returns an answer for any bytes.

use std::borrow::Cow;

/// The expected format of lines, and the state of the parser.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    /// The algorithm's name in a BSD-style line, such as `SHA256`.
    pub(crate) tag: &'static str,
    /// Number of hexadecimal digits of a digest.
    pub(crate) digit_count: usize,
    /// True if lines are in reversed BSD format, false if they are in GNU format, `None` until a line decides between them. The decision
    /// stays for the rest of the run, because a name with a leading blank is ambiguous.
    pub(crate) reversed: Option<bool>,
}

/// A line of a checksum file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Nothing to check: a comment or an empty line.
    Blank,
    /// A file and the digest it should have.
    Entry {
        /// The file's name, with escapes undone.
        name: Cow<'a, [u8]>,
        /// The digest, in hexadecimal digits of either case.
        digest: &'a [u8],
    },
    Improper,
}

impl Format {
    /// Creates a format before the first line.
    pub(crate) fn new(tag: &'static str, digit_count: usize) -> Self {
        Self { tag, digit_count, reversed: None }
    }
}

/// Parses one line, with or without its line end.
pub(crate) fn parse_line<'a>(line: &'a [u8], format: &mut Format) -> Line<'a> {
    if line.first() == Some(&b'#') {
        return Line::Blank;
    }
    let line = without_line_end(line);
    if line.is_empty() {
        return Line::Blank;
    }
    match parse_entry(line, format) {
        Some((name, digest)) => Line::Entry { name, digest },
        None => Line::Improper,
    }
}

/// Strips the line end of Unix or Windows.
pub(crate) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

type Entry<'a> = (Cow<'a, [u8]>, &'a [u8]);

fn parse_entry<'a>(line: &'a [u8], format: &mut Format) -> Option<Entry<'a>> {
    let line = skip_blanks(line);
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    if let Some(rest) = line.strip_prefix(format.tag.as_bytes()) {
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        return parse_bsd(rest.strip_prefix(b"(")?, escaped, format);
    }
    // A digest, a blank and at least one more character.
    if line.len() < format.digit_count + 2 {
        return None;
    }
    let (digest, rest) = line.split_at(format.digit_count);
    let (&separator, rest) = rest.split_first()?;
    if !is_blank(separator) || !digest.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let marked = rest.len() > 1 && matches!(rest[0], b' ' | b'*');
    let name = if !marked {
        if format.reversed == Some(false) {
            return None;
        }
        format.reversed = Some(true);
        rest
    } else if format.reversed == Some(true) {
        rest
    } else {
        format.reversed = Some(false);
        &rest[1..]
    };
    Some((file_name(name, escaped)?, digest))
}

/// Parses `NAME) = DIGEST`; the name ends at the last parenthesis.
fn parse_bsd<'a>(line: &'a [u8], escaped: bool, format: &Format) -> Option<Entry<'a>> {
    let close = line.iter().rposition(|&b| b == b')')?;
    let name = file_name(&line[..close], escaped)?;
    let digest = skip_blanks(skip_blanks(&line[close + 1..]).strip_prefix(b"=")?);
    let digest = until_nul(digest);
    let is_digest = digest.len() == format.digit_count && digest.iter().all(u8::is_ascii_hexdigit);
    is_digest.then_some((name, digest))
}

/// Returns the name as the operating system sees it: up to a NUL, and with escapes undone if the line has a leading backslash.
fn file_name(raw: &[u8], escaped: bool) -> Option<Cow<'_, [u8]>> {
    if !escaped {
        return Some(Cow::Borrowed(until_nul(raw)));
    }
    let mut name = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        name.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            0 => return None,
            plain => plain,
        });
    }
    Some(Cow::Owned(name))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

pub(crate) fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&b| !is_blank(b)).unwrap_or(bytes.len());
    &bytes[start..]
}

pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "d41d8cd98f00b204e9800998ecf8427e";

    fn md5() -> Format {
        Format::new("MD5", 32)
    }

    fn name_of(line: &str) -> Option<Vec<u8>> {
        match parse_line(line.as_bytes(), &mut md5()) {
            Line::Entry { name, digest } => {
                assert_eq!(digest, DIGEST.as_bytes());
                Some(name.into_owned())
            }
            Line::Blank | Line::Improper => None,
        }
    }

    #[test]
    fn every_format_gives_name_and_digest() {
        for line in [
            format!("{DIGEST}  a b"),
            format!("{DIGEST} *a b\r\n"),
            format!("{DIGEST} a b\n"),
            format!(" \t{DIGEST}\ta b"),
            format!("MD5 (a b) = {DIGEST}"),
            format!("MD5(a b)= {DIGEST}"),
        ] {
            assert_eq!(name_of(&line).as_deref(), Some(&b"a b"[..]), "{line:?}");
        }
    }

    #[test]
    fn escapes_are_undone_only_after_a_leading_backslash() {
        assert_eq!(name_of(&format!("\\{DIGEST}  a\\nb\\\\\\r")).unwrap(), b"a\nb\\\r");
        assert_eq!(name_of(&format!("\\MD5 (a\\nb) = {DIGEST}")).unwrap(), b"a\nb");
        assert_eq!(name_of(&format!("{DIGEST}  a\\nb")).unwrap(), b"a\\nb");
        assert_eq!(name_of(&format!("\\{DIGEST}  a\\t")), None);
        assert_eq!(name_of(&format!("\\{DIGEST}  a\\")), None);
    }

    #[test]
    fn the_first_line_decides_between_gnu_and_reversed() {
        let (gnu, reversed) = (format!("{DIGEST}  a"), format!("{DIGEST} a"));
        let mut format = md5();
        assert!(matches!(parse_line(gnu.as_bytes(), &mut format), Line::Entry { .. }));
        assert_eq!(parse_line(reversed.as_bytes(), &mut format), Line::Improper);
        let mut format = md5();
        assert!(matches!(parse_line(reversed.as_bytes(), &mut format), Line::Entry { .. }));
        match parse_line(gnu.as_bytes(), &mut format) {
            Line::Entry { name, .. } => assert_eq!(*name, *b" a"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_prefix_of_a_line_panics() {
        for line in [format!("\\{DIGEST}  a\\\\b"), format!(" \\MD5 (a\\n) = {DIGEST}\0x"), "MD5 ()".to_owned()] {
            for end in 0..=line.len() {
                for start in 0..=end {
                    parse_line(&line.as_bytes()[start..end], &mut md5());
                }
            }
        }
    }
}
