//! Parses a line of a checksum file of any tool: file, functions, digests.
//!
//! | layout | written by | recognised by |
//! |---|---|---|
//! | `DIGEST  NAME`, `DIGEST *NAME`, `DIGEST NAME` | coreutils, BSD's `-r` | hexadecimal digits, a blank |
//! | `TAG (NAME) = DIGEST` | BSD, coreutils `--tag`, OpenSSL, RHash, b3sum | the tag |
//! | columns `size,md5,sha256,filename` | hashdeep 4 | a line that begins with `%%%%` |
//! | `DIGEST NAME`, relative to the bag, with escapes of CR, LF and % | BagIt (RFC 8493, section 2.1.3) | the file's name, in a bag |
//! | JSON objects | `gantry sum --json` | `{` |
//! | `DIGEST` alone | GitHub releases, Maven | the file's name, `NAME.sha256` |
//!
//! Digests may be in base64. Signatures around a list (OpenPGP, signify, minisign), sizes in BSD's `distinfo`, and comments do not
//! count as files.
//!
//! The lines are untrusted. Every function is total: it returns an answer for any bytes.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use super::bag_names::{Escapes, bag_name};
use super::bsd::{leading_tag, normalized};
use super::checkfile::{Format, Line, is_blank, parse_line, skip_blanks, without_line_end};
use super::digest::Digest;
use super::names::HashId;
use super::object::{Object, Recorded, Special};

/// Most columns of hashdeep; real files have a handful.
const MAX_COLUMNS: usize = 64;

/// Parses the lines of one checksum file.
#[derive(Clone, Debug)]
pub(crate) struct Recogniser {
    /// If not empty, only these functions count.
    only: Vec<HashId>,
    /// The function in the name of the checksum file.
    file_function: Option<HashId>,
    /// The name of the file for a line that has a digest and no name.
    bare_name: Option<Vec<u8>>,
    /// The function that an earlier file of the list has shown.
    learned_function: LearnedFunction,
    signed_part: SignedPart,
    layout: Layout,
    format: Format,
}

/// The function of a list whose lines do not state their function, once a listed file has shown it. Shared by the list's lines.
pub(crate) type LearnedFunction = Rc<Cell<Option<HashId>>>;

/// The part of a signed list that the next line belongs to.
#[derive(Clone, Copy, Debug)]
enum SignedPart {
    List,
    /// Headers of an OpenPGP message, up to an empty line (RFC 9580, section 7).
    Headers,
    /// An OpenPGP signature in ASCII armor.
    Signature,
    /// The line after a comment of signify or minisign: a signature in base64.
    Base64,
}

#[derive(Clone, Debug)]
enum Layout {
    Lines,
    Bag(Escapes),
    /// The function of each column; `None` for other columns. The last column is the file's name.
    Hashdeep(Vec<Option<HashId>>),
}

/// A line of any layout.
#[derive(Debug, PartialEq)]
pub(crate) enum Recognised<'a> {
    Blank,
    /// A file and its digests.
    Entry(Entry<'a>),
    /// The name of a symbolic link or folder.
    Special(Vec<u8>, Special),
    /// Anything else.
    Improper,
}

/// A file and its digests.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry<'a> {
    /// The file's name, with escapes undone. In a bag, the name is relative to the bag's folder, and below it.
    pub(crate) name: Cow<'a, [u8]>,
    /// The digests, at least one, each function once, in the order of functions.
    pub(crate) digests: Vec<(HashId, Digest)>,
    /// True if the line or the caller names the function, an earlier file has shown it, or no other function has digests of this length.
    pub(crate) is_certain: bool,
    /// The size and time of the file, if the line has them.
    pub(crate) recorded: Option<Recorded>,
}

impl Recogniser {
    /// Creates a parser for a checksum file of this name, without its folder. `bag` has the escapes of the bag that the file belongs to. If
    /// `only` is not empty, ignores all other functions.
    pub(crate) fn new(file: &[u8], bag: Option<Escapes>, only: &[HashId]) -> Self {
        Self {
            only: only.to_vec(),
            file_function: HashId::from_file_name(file),
            bare_name: bare_name(file),
            learned_function: LearnedFunction::default(),
            signed_part: SignedPart::List,
            layout: bag.map_or(Layout::Lines, Layout::Bag),
            format: Format::new("", 0),
        }
    }

    /// Sets the folder of the list. The file of a digest without a name is in the same folder.
    pub(crate) fn below(&mut self, folder: &[u8]) {
        if let Some(name) = self.bare_name.take() {
            let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
            self.bare_name = Some([folder, separator, &name].concat());
        }
    }

    /// Parses one line, with or without its line end.
    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Recognised<'a> {
        let stripped = without_line_end(line);
        // A header of columns does not count in a bag, where names must stay below the bag.
        if let Some(header) = stripped.strip_prefix(b"%%%% ")
            && !matches!(self.layout, Layout::Bag(_))
        {
            return self.header(header);
        }
        // A bag has neither signatures nor comments in its manifests.
        if !matches!(self.layout, Layout::Bag(_)) && self.is_framing(stripped) {
            return Recognised::Blank;
        }
        let hashdeep = matches!(self.layout, Layout::Hashdeep(_));
        if stripped.is_empty() || stripped[0] == b'#' && (!hashdeep || stripped.starts_with(b"##")) {
            return Recognised::Blank;
        }
        let entry = match &self.layout {
            Layout::Hashdeep(columns) => self.hashdeep(columns, stripped),
            Layout::Bag(escapes) => self.bag(stripped, *escapes),
            Layout::Lines if stripped[0] == b'{' => return self.json(stripped),
            Layout::Lines => self.line(line),
        };
        Self::recognised(entry)
    }

    fn recognised(entry: Option<Entry<'_>>) -> Recognised<'_> {
        match entry {
            // No file has such a name.
            Some(entry) if entry.name.is_empty() || entry.name.contains(&0) => Recognised::Improper,
            // The digests are of functions that do not count.
            Some(entry) if entry.digests.is_empty() => Recognised::Blank,
            Some(entry) => Recognised::Entry(entry),
            None => Recognised::Improper,
        }
    }

    /// Returns the place that receives the function of the list's lines.
    pub(crate) fn learned_function(&self) -> LearnedFunction {
        self.learned_function.clone()
    }

    /// Returns true if a line belongs to a signature around the list, or to other known lines that name no digest.
    fn is_framing(&mut self, line: &[u8]) -> bool {
        let (signed_part, is_framing) = match (self.signed_part, line) {
            (SignedPart::List, b"-----BEGIN PGP SIGNED MESSAGE-----") => (SignedPart::Headers, true),
            (SignedPart::List, b"-----BEGIN PGP SIGNATURE-----") => (SignedPart::Signature, true),
            (SignedPart::List, _)
                if line.starts_with(b"untrusted comment: ") || line.starts_with(b"trusted comment: ") =>
            {
                (SignedPart::Base64, true)
            }
            (SignedPart::List, _) => (SignedPart::List, is_of_distinfo(line) || line.starts_with(b";")),
            (SignedPart::Headers, b"") | (SignedPart::Signature, b"-----END PGP SIGNATURE-----") => {
                (SignedPart::List, true)
            }
            (SignedPart::Headers, _) if line.starts_with(b"Hash: ") => (SignedPart::Headers, true),
            (SignedPart::Signature, _) if is_armor(line) => (SignedPart::Signature, true),
            (SignedPart::Base64, _) if is_armor(line) => (SignedPart::List, true),
            // Treat any other line as a line of the list, so that no line hides in a signature.
            _ => (SignedPart::List, false),
        };
        self.signed_part = signed_part;
        is_framing
    }

    /// Parses `%%%% HASHDEEP-1.0`, or `%%%% ` and the names of columns.
    fn header<'a>(&mut self, header: &[u8]) -> Recognised<'a> {
        let text = String::from_utf8_lossy(header);
        let columns: Vec<&str> = text.split(',').take(MAX_COLUMNS + 1).collect();
        if text.starts_with("HASHDEEP-") {
            self.layout = Layout::Hashdeep(Vec::new());
        } else if columns.last() == Some(&"filename") {
            let functions = columns[..columns.len() - 1].iter().map(|name| HashId::from_name(name)).collect();
            self.layout = Layout::Hashdeep(functions);
        } else {
            return Recognised::Improper;
        }
        Recognised::Blank
    }

    fn hashdeep<'a>(&self, columns: &[Option<HashId>], line: &'a [u8]) -> Option<Entry<'a>> {
        let mut cells = line.splitn(columns.len() + 1, |&byte| byte == b',');
        let mut digests = Vec::new();
        for column in columns {
            let cell = cells.next()?;
            if let Some(id) = column {
                digests.push((*id, Digest::parse(*id, cell)?));
            }
        }
        self.entry(Cow::Borrowed(cells.next()?), digests, true)
    }

    fn bag<'a>(&self, line: &'a [u8], escapes: Escapes) -> Option<Entry<'a>> {
        let end = line.iter().position(|&byte| is_blank(byte))?;
        let name = skip_blanks(&line[end..]);
        // Some bags were made with md5sum, which marks binary mode.
        let name = bag_name(name.strip_prefix(b"*").unwrap_or(name), escapes)?;
        let (id, is_certain) = self.function_of_length(end)?;
        self.entry(name, vec![(id, Digest::parse(id, &line[..end])?)], is_certain)
    }

    fn json<'a>(&self, line: &[u8]) -> Recognised<'a> {
        let object = serde_json::from_slice(line).ok().filter(|object: &Object<'_>| object.verdict.is_none());
        let name = object.as_ref().and_then(Object::name).filter(|name| !name.is_empty() && !name.contains(&0));
        let (Some(object), Some(name)) = (object, name) else { return Recognised::Improper };
        if let Some(special) = object.special() {
            return Recognised::Special(name, special);
        }
        let recorded = object.recorded();
        let entry = self.entry(Cow::Owned(name), object.digests.0, true);
        Self::recognised(entry.map(|entry| Entry { recorded, ..entry }))
    }

    /// Parses a line of coreutils or BSD.
    fn line<'a>(&mut self, line: &'a [u8]) -> Option<Entry<'a>> {
        let start = skip_blanks(line);
        let start = start.strip_prefix(b"\\").unwrap_or(start);
        let tagged = leading_tag(start);
        let (id, tag, is_certain) = if let Some((id, tag)) = tagged {
            (id, tag, true)
        } else {
            let digit_count = start.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let Some((id, is_certain)) = self.function_of_length(digit_count) else {
                return self.base64(without_line_end(start));
            };
            if without_line_end(start).len() == digit_count {
                let name = Cow::Owned(self.bare_name.clone()?);
                return self.entry(name, vec![(id, Digest::from_hex(&start[..digit_count]))], is_certain);
            }
            (id, id.tag(), is_certain)
        };
        self.format.tag = tag;
        self.format.digit_count = id.digit_count();
        let before = self.format.reversed;
        // Forget a decision for GNU format, because a name after a single blank is never ambiguous here.
        self.format.reversed = before.filter(|reversed| *reversed);
        let line = if tagged.is_some() { normalized(line, tag) } else { Cow::Borrowed(line) };
        let parsed = match parse_line(&line, &mut self.format) {
            Line::Entry { name, digest } => Some((name.into_owned(), Digest::from_hex(digest))),
            Line::Blank | Line::Improper => None,
        };
        self.format.reversed = before.or(self.format.reversed);
        let (name, digest) = parsed?;
        self.entry(Cow::Owned(name), vec![(id, digest)], is_certain)
    }

    /// Parses a line with a digest in base64, which `sha256-` or another name of a function may precede.
    fn base64<'a>(&self, line: &'a [u8]) -> Option<Entry<'a>> {
        let end = line.iter().position(|&byte| is_blank(byte)).unwrap_or(line.len());
        let (text, rest) = line.split_at(end);
        let named = text.iter().position(|&byte| byte == b'-').map(|dash| (&text[..dash], &text[dash + 1..]));
        let named = named.and_then(|(label, text)| Some((HashId::from_name(std::str::from_utf8(label).ok()?)?, text)));
        let digest = data_encoding::BASE64.decode(named.map_or(text, |(_, text)| text)).ok()?;
        let (id, is_certain) = match named {
            Some((id, _)) => (id, true),
            None => self.function_of_length(2 * digest.len())?,
        };
        let digest = (2 * digest.len() == id.digit_count()).then(|| Digest::from_bytes(&digest))?;
        let name = match rest {
            [] => Cow::Owned(self.bare_name.clone()?),
            [_, b' ' | b'*', name @ ..] | [_, name @ ..] => Cow::Borrowed(name),
        };
        self.entry(name, vec![(id, digest)], is_certain)
    }

    /// Returns the function of a digest of `digit_count` digits, and false if other functions are possible.
    fn function_of_length(&self, digit_count: usize) -> Option<(HashId, bool)> {
        let fits = |id: &HashId| id.digit_count() == digit_count;
        let known_function = self.only.iter().copied().find(fits).or_else(|| self.learned_function.get().filter(fits));
        if let Some(id) = known_function {
            return Some((id, true));
        }
        if let Some(id) = self.file_function.filter(fits) {
            return Some((id, false));
        }
        let mut all = HashId::all().filter(fits);
        let first = all.next()?;
        Some((first, all.next().is_none()))
    }

    fn entry<'a>(
        &self,
        name: Cow<'a, [u8]>,
        mut digests: Vec<(HashId, Digest)>,
        is_certain: bool,
    ) -> Option<Entry<'a>> {
        if digests.is_empty() {
            return None;
        }
        if !self.only.is_empty() {
            digests.retain(|(id, _)| self.only.contains(id));
        }
        digests.sort_unstable_by_key(|(id, _)| *id);
        // No file can have two digests of the same function.
        let unique = digests.windows(2).all(|pair| pair[0].0 != pair[1].0);
        unique.then_some(Entry { name, digests, is_certain, recorded: None })
    }
}

/// Returns the file's name if the list's name is the file's name followed by the name of a function: `a.iso.sha256`.
fn bare_name(list: &[u8]) -> Option<Vec<u8>> {
    let dot = list.iter().rposition(|&byte| byte == b'.').filter(|dot| *dot > 0)?;
    let extension = std::str::from_utf8(&list[dot + 1..]).ok()?.to_ascii_lowercase();
    HashId::from_name(extension.strip_suffix("sum").unwrap_or(&extension))?;
    Some(list[..dot].to_vec())
}

/// True for a line of ASCII armor: base64, its checksum, a header such as `Version: x`, or an empty line.
fn is_armor(line: &[u8]) -> bool {
    let key = line.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    key > 0 && line[key..].starts_with(b": ")
        || line.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
}

/// True for the lines of BSD's `distinfo` that are not about digests: `SIZE (name) = 1`, `TIMESTAMP = 1`.
fn is_of_distinfo(line: &[u8]) -> bool {
    let number = line.iter().rposition(|&byte| byte == b' ').map(|place| &line[place + 1..]);
    let is_field = line.starts_with(b"SIZE (") || line.starts_with(b"TIMESTAMP = ");
    is_field && number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}

/// Returns the other functions with digests of the same length.
pub(crate) fn others_of_same_length(id: HashId) -> impl Iterator<Item = HashId> {
    HashId::all().filter(move |other| other.digit_count() == id.digit_count() && *other != id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn read(recogniser: &mut Recogniser, line: &str) -> Option<(String, Vec<&'static str>, bool)> {
        match recogniser.read(line.as_bytes()) {
            Recognised::Entry(entry) => Some((
                String::from_utf8_lossy(&entry.name).into_owned(),
                entry.digests.iter().map(|(id, _)| id.name()).collect(),
                entry.is_certain,
            )),
            Recognised::Blank => Some(("blank".to_owned(), Vec::new(), true)),
            Recognised::Special(name, Special::Link(target)) => {
                Some((format!("{} -> {}", name.escape_ascii(), target.escape_ascii()), Vec::new(), true))
            }
            Recognised::Special(name, Special::Folder) => Some((format!("{}/", name.escape_ascii()), Vec::new(), true)),
            Recognised::Improper => None,
        }
    }

    fn id(name: &str) -> HashId {
        HashId::from_name(name).unwrap()
    }

    #[test]
    fn the_function_is_told_by_tag_length_or_file_name() {
        for (file, line, functions, is_certain) in [
            ("sums", format!("{MD5}  a"), "md5", false),
            ("sums", format!("{SHA256}  a"), "sha256", false),
            ("SHA3-256SUMS", format!("{SHA256} *a\r\n"), "sha3-256", false),
            ("MD5SUMS", format!("{SHA256}  a"), "sha256", false),
            ("MD5SUMS", format!("BLAKE3 (a) = {SHA256}"), "blake3", true),
            ("sums", format!("\\SHA2-256(a)= {SHA256}"), "sha256", true),
        ] {
            let found = read(&mut Recogniser::new(file.as_bytes(), None, &[]), &line);
            assert_eq!(found, Some(("a".to_owned(), vec![functions], is_certain)), "{file}: {line}");
        }
    }

    #[test]
    fn functions_that_are_not_named_are_ignored() {
        let mut only = Recogniser::new(b"sums", None, &[id("sha3-256"), id("md5")]);
        assert_eq!(read(&mut only, &format!("{SHA256}  a")).unwrap().1, ["sha3-256"]);
        assert_eq!(read(&mut only, &format!("SHA256 (a) = {SHA256}")).unwrap().0, "blank");
        assert_eq!(read(&mut only, "%%%% size,md5,sha256,filename").unwrap().0, "blank");
        assert_eq!(read(&mut only, &format!("0,{MD5},{SHA256},a")).unwrap().1, ["md5"]);
    }

    #[test]
    fn columns_of_hashdeep_are_parsed_by_its_header() {
        let mut list = Recogniser::new(b"known", None, &[]);
        for line in ["%%%% HASHDEEP-1.0", "%%%% size,md5,sha256,whirlpool,filename", "## Invoked from: /"] {
            assert_eq!(read(&mut list, line).unwrap().0, "blank");
        }
        let line = format!("0,{MD5},{SHA256},ff,./a, b\n");
        assert_eq!(read(&mut list, &line), Some(("./a, b".to_owned(), vec!["md5", "sha256"], true)));
        assert_eq!(read(&mut list, &format!("0,{SHA256},{MD5},ff,a")), None);
        assert_eq!(read(&mut list, &format!("0,{MD5}")), None);
    }

    #[test]
    fn names_in_a_bag_are_decoded_and_stay_below_it() {
        let mut bag = Recogniser::new(b"manifest-md5.txt", Some(Escapes::All), &[]);
        assert_eq!(read(&mut bag, &format!("{MD5} \t*data/a%0Ab%25%41")).unwrap().0, "data/a\nb%%41");
        let mut old = Recogniser::new(b"manifest-md5.txt", Some(Escapes::LineEnds), &[]);
        assert_eq!(read(&mut old, &format!("{MD5}  data/a%0Ab%25%41")).unwrap().0, "data/a\nb%25%41");
        for line in ["%%%% size,md5,filename", "; a comment", "-----BEGIN PGP SIGNATURE-----"] {
            assert_eq!(read(&mut bag, line), None, "{line}");
        }
        for name in ["../a", "data/../../a", "/etc/passwd", "~root/x", ""] {
            assert_eq!(read(&mut bag, &format!("{MD5}  {name}")), None, "{name}");
        }
    }

    #[test]
    fn a_name_with_a_nul_is_improper_in_every_layout() {
        let base64 = data_encoding::BASE64.encode(&[0; 32]);
        for line in [
            format!("sha256-{base64}  a\0b"),
            format!("{base64} a\0b"),
            format!(r#"{{"path":"a\u0000b","digests":{{"md5":"{MD5}"}}}}"#),
            format!("\\{MD5}  a\0b"),
        ] {
            assert_eq!(read(&mut Recogniser::new(b"SHA256SUMS", None, &[]), &line), None, "{line}");
        }
        let mut columns = Recogniser::new(b"known", None, &[]);
        assert_eq!(read(&mut columns, "%%%% md5,filename").unwrap().0, "blank");
        assert_eq!(read(&mut columns, &format!("{MD5},a\0b")), None);
        let mut bag = Recogniser::new(b"manifest-md5.txt", Some(Escapes::All), &[]);
        assert_eq!(read(&mut bag, &format!("{MD5}  a\0b")), None);
    }

    #[test]
    fn parses_json_of_gantry_sum_except_verdicts() {
        let mut list = Recogniser::new(b"sums.json", None, &[]);
        let line = format!(r#"{{"path":"a\nb","size":0,"digests":{{"md5":"{MD5}","sha256":"{SHA256}","new":"x"}}}}"#);
        assert_eq!(read(&mut list, &line), Some(("a\nb".to_owned(), vec!["md5", "sha256"], true)));
        let line = format!(r#"{{"path":"?","path_hex":"61ff","digests":{{"md5":"{MD5}"}}}}"#);
        let Recognised::Entry(entry) = list.read(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(*entry.name, *b"a\xff");
        assert_eq!(read(&mut list, r#"{"path":"a","type":"folder"}"#).unwrap().0, "a/");
        assert_eq!(read(&mut list, r#"{"path":"a","type":"link","target_hex":"ff"}"#).unwrap().0, "a -> \\xff");
        for line in [
            format!(r#"{{"path":"a","verdict":"failed","digests":{{"md5":"{MD5}"}}}}"#),
            r#"{"path":"a","error":"gone"}"#.to_owned(),
            r#"{"path":"a","type":"link"}"#.to_owned(),
            r#"{"path":"a","type":"socket"}"#.to_owned(),
            r#"{"path":"a","digests":{}}"#.to_owned(),
            r#"{"path":"a","digests":{"md5":"00"}}"#.to_owned(),
            "{".to_owned(),
        ] {
            assert_eq!(read(&mut list, &line), None, "{line}");
        }
    }

    #[test]
    fn memory_for_a_line_is_bounded_by_its_length() {
        let object = |key: &str, value: &str| {
            let size = 300_000 / value.len();
            format!(r#"{{"path":"a","digests":{{"md5":"{MD5}"}},"{key}":[{}0]}}"#, format!("{value},").repeat(size))
        };
        let unknown = gantry_lab::memory::concat_parts(20_000, |name| format!(r#""x{name}":"","#));
        for (bomb, line) in [
            ("objects", object("more", r#"{"":0}"#)),
            ("arrays", object("more", "[]")),
            ("numbers", object("more", "0")),
            ("unknown functions", format!(r#"{{"path":"a","digests":{{{unknown}"md5":"{MD5}"}}}}"#)),
            ("columns", format!("%%%% {}filename", "a,".repeat(150_000))),
            ("columns of one function", format!("%%%% {}filename", "md5,".repeat(75_000))),
        ] {
            let mut recogniser = Recogniser::new(b"sums", None, &[]);
            let (is_valid, memory) = gantry_lab::memory::measure(|| read(&mut recogniser, &line).is_some());
            assert!(is_valid || line.starts_with('%'), "{bomb}");
            assert!(memory.peak_bytes <= 4 * line.len(), "{bomb}: {} bytes for {}", memory.peak_bytes, line.len());
        }
    }
}
