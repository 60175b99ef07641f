//! What a line of a checksum file says, whoever wrote it: file, functions, digests.
//!
//! | layout | by whom | recognised by |
//! |---|---|---|
//! | `DIGEST  NAME`, `DIGEST *NAME`, `DIGEST NAME` | coreutils, BSD's `-r` | hexadecimal digits, a blank |
//! | `TAG (NAME) = DIGEST` | BSD, coreutils `--tag`, OpenSSL, b3sum | the tag |
//! | columns `size,md5,sha256,filename` | hashdeep 4 | a line that begins with `%%%%` |
//! | `DIGEST NAME`, relative to the bag, CR, LF and % as `%0D`, `%0A`, `%25` | BagIt (RFC 8493, section 2.1.3) | the file's name, and a bag around it |
//! | JSON objects | `gantry sum --json` | `{` |
//!
//! Lines come from files that anybody may have written. Every function here is total: any bytes give an answer.

use std::borrow::Cow;

use super::checkfile::{Format, Line, is_blank, parse_line, skip_blanks, without_end};
use super::digest::Digest;
use super::names::Id;
use super::object::Object;

/// Most columns of hashdeep, which has a handful.
const MOST_COLUMNS: usize = 64;

/// Reads the lines of one checksum file.
#[derive(Clone, Debug)]
pub(crate) struct Recogniser {
    /// Only these functions count, if there are any.
    only: Vec<Id>,
    /// The function that the name of the checksum file speaks of.
    of_file: Option<Id>,
    layout: Layout,
    format: Format,
}

#[derive(Clone, Debug)]
enum Layout {
    Lines,
    Bag,
    /// The function of each column; `None` for those that are no digests that we know. The last column is the file's name.
    Hashdeep(Vec<Option<Id>>),
}

/// A line of any layout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recognised<'a> {
    /// Nothing to check.
    Blank,
    /// A file, and what it should be.
    Entry(Entry<'a>),
    /// Anything else.
    Improper,
}

/// A file, and what it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The file's name, with escapes undone. Of a bag, relative to it, and below it.
    pub(crate) name: Cow<'a, [u8]>,
    /// At least one, each function once, in the order of functions.
    pub(crate) digests: Vec<(Id, Digest)>,
    /// Nothing but the length of the digest says which function it is of.
    pub(crate) assumed: bool,
}

impl Recogniser {
    /// For a checksum file of this name, without its folder; that of a bag with `in_bag`. If `only` has functions, all others are passed over.
    pub(crate) fn new(file: &[u8], in_bag: bool, only: &[Id]) -> Self {
        Self {
            only: only.to_vec(),
            of_file: Id::of_file(file),
            layout: if in_bag { Layout::Bag } else { Layout::Lines },
            format: Format::new("", 0),
        }
    }

    /// Reads one line, with or without its line end.
    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Recognised<'a> {
        let bare = without_end(line);
        // Not in a bag, whose names must stay below it.
        if let Some(header) = bare.strip_prefix(b"%%%% ")
            && !matches!(self.layout, Layout::Bag)
        {
            return self.header(header);
        }
        let hashdeep = matches!(self.layout, Layout::Hashdeep(_));
        if bare.is_empty() || bare[0] == b'#' && (!hashdeep || bare.starts_with(b"##")) {
            return Recognised::Blank;
        }
        let entry = match &self.layout {
            Layout::Hashdeep(columns) => self.hashdeep(columns, bare),
            Layout::Bag => self.bag(bare),
            Layout::Lines if bare[0] == b'{' => self.json(bare),
            Layout::Lines => self.line(line),
        };
        entry.filter(|entry| !entry.name.is_empty()).map_or(Recognised::Improper, Recognised::Entry)
    }

    /// `%%%% HASHDEEP-1.0`, or `%%%% ` and the names of columns.
    fn header<'a>(&mut self, header: &[u8]) -> Recognised<'a> {
        let text = String::from_utf8_lossy(header);
        let columns: Vec<&str> = text.split(',').take(MOST_COLUMNS + 1).collect();
        if text.starts_with("HASHDEEP-") {
            self.layout = Layout::Hashdeep(Vec::new());
        } else if columns.last() == Some(&"filename") {
            let functions = columns[..columns.len() - 1].iter().map(|name| Id::of_name(name)).collect();
            self.layout = Layout::Hashdeep(functions);
        } else {
            return Recognised::Improper;
        }
        Recognised::Blank
    }

    fn hashdeep<'a>(&self, columns: &[Option<Id>], line: &'a [u8]) -> Option<Entry<'a>> {
        let mut cells = line.splitn(columns.len() + 1, |&byte| byte == b',');
        let mut digests = Vec::new();
        for column in columns {
            let cell = cells.next()?;
            if let Some(id) = column {
                digests.push((*id, Digest::of(*id, cell)?));
            }
        }
        let name = cells.next().filter(|name| !name.contains(&0))?;
        self.entry(Cow::Borrowed(name), digests, false)
    }

    fn bag<'a>(&self, line: &'a [u8]) -> Option<Entry<'a>> {
        let end = line.iter().position(|&byte| is_blank(byte))?;
        let name = skip_blanks(&line[end..]);
        // Writers of md5sum's lines made some bags.
        let name = below(percent_decoded(name.strip_prefix(b"*").unwrap_or(name)))?;
        let (id, assumed) = self.function(end)?;
        self.entry(name, vec![(id, Digest::of(id, &line[..end])?)], assumed)
    }

    fn json<'a>(&self, line: &[u8]) -> Option<Entry<'a>> {
        let object: Object<'_> =
            serde_json::from_slice(line).ok().filter(|object: &Object<'_>| object.verdict.is_none())?;
        let name = object.name().filter(|name| !name.contains(&0))?;
        self.entry(Cow::Owned(name), object.digests.0, false)
    }

    /// A line of coreutils or BSD.
    fn line<'a>(&mut self, line: &'a [u8]) -> Option<Entry<'a>> {
        let start = skip_blanks(line);
        let start = start.strip_prefix(b"\\").unwrap_or(start);
        let (id, tag, assumed) = if let Some((id, tag)) = tag(start) {
            (id, tag, false)
        } else {
            let digits = start.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let (id, assumed) = self.function(digits)?;
            (id, id.tag(), assumed)
        };
        self.format.tag = tag;
        self.format.digits = id.digits();
        match parse_line(line, &mut self.format) {
            Line::Entry { name, digest } => {
                let digests = vec![(id, Digest::from_hex(digest))];
                self.entry(name, digests, assumed)
            }
            Line::Blank | Line::Improper => None,
        }
    }

    /// The function that a digest of so many digits is of, and whether only its length says so.
    fn function(&self, digits: usize) -> Option<(Id, bool)> {
        let fits = |id: &Id| id.digits() == digits;
        if !self.only.is_empty() {
            return self.only.iter().copied().find(fits).map(|id| (id, false));
        }
        let named = self.of_file.filter(fits).map(|id| (id, false));
        named.or_else(|| Id::all().find(fits).map(|id| (id, Id::all().filter(fits).count() > 1)))
    }

    fn entry<'a>(&self, name: Cow<'a, [u8]>, mut digests: Vec<(Id, Digest)>, assumed: bool) -> Option<Entry<'a>> {
        if !self.only.is_empty() {
            digests.retain(|(id, _)| self.only.contains(id));
        }
        digests.sort_unstable_by_key(|(id, _)| *id);
        // Twice the same function with two digests is no digest that a file could have.
        let unique = digests.windows(2).all(|pair| pair[0].0 != pair[1].0);
        (unique && !digests.is_empty()).then_some(Entry { name, digests, assumed })
    }
}

/// The functions whose digests are as long as one of this function.
pub(crate) fn of_one_length(id: Id) -> impl Iterator<Item = Id> {
    Id::all().filter(move |other| other.digits() == id.digits() && *other != id)
}

/// The function whose tag a BSD-style line begins with, and that tag.
fn tag(line: &[u8]) -> Option<(Id, &'static str)> {
    let tags = Id::all().flat_map(|id| id.tags().iter().map(move |&tag| (id, tag)));
    tags.into_iter().find(|(_, tag)| {
        let rest = line.strip_prefix(tag.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"(") || rest.starts_with(b" ("))
    })
}

/// `%0D`, `%0A` and `%25` undone. Other percent signs stay: writers of older versions of BagIt escaped nothing.
fn percent_decoded(name: &[u8]) -> Cow<'_, [u8]> {
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
            Some(b"%25") => b'%',
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

/// A name that stays below the bag. RFC 8493, section 5.1: others may lead anywhere, and are not to be followed.
fn below(name: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    let upward = name.split(|&byte| byte == b'/').any(|part| part == b"..");
    (!upward && !name.starts_with(b"/") && !name.starts_with(b"~") && !name.contains(&0)).then_some(name)
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
                entry.assumed,
            )),
            Recognised::Blank => Some(("blank".to_owned(), Vec::new(), false)),
            Recognised::Improper => None,
        }
    }

    fn id(name: &str) -> Id {
        Id::of_name(name).unwrap()
    }

    #[test]
    fn tags_lengths_and_the_name_of_the_file_tell_the_function() {
        for (file, line, functions, assumed) in [
            ("sums", format!("{MD5}  a"), "md5", false),
            ("sums", format!("{SHA256}  a"), "sha256", true),
            ("SHA3-256SUMS", format!("{SHA256} *a\r\n"), "sha3-256", false),
            ("MD5SUMS", format!("{SHA256}  a"), "sha256", true),
            ("MD5SUMS", format!("BLAKE3 (a) = {SHA256}"), "blake3", false),
            ("sums", format!("\\SHA2-256(a)= {SHA256}"), "sha256", false),
        ] {
            let found = read(&mut Recogniser::new(file.as_bytes(), false, &[]), &line);
            assert_eq!(found, Some(("a".to_owned(), vec![functions], assumed)), "{file}: {line}");
        }
    }

    #[test]
    fn named_functions_are_the_only_ones_that_count() {
        let mut only = Recogniser::new(b"sums", false, &[id("sha3-256"), id("md5")]);
        assert_eq!(read(&mut only, &format!("{SHA256}  a")).unwrap().1, ["sha3-256"]);
        assert_eq!(read(&mut only, &format!("SHA256 (a) = {SHA256}")), None);
        assert_eq!(read(&mut only, "%%%% size,md5,sha256,filename").unwrap().0, "blank");
        assert_eq!(read(&mut only, &format!("0,{MD5},{SHA256},a")).unwrap().1, ["md5"]);
    }

    #[test]
    fn columns_of_hashdeep_are_those_that_it_names() {
        let mut list = Recogniser::new(b"known", false, &[]);
        for line in ["%%%% HASHDEEP-1.0", "%%%% size,md5,sha256,whirlpool,filename", "## Invoked from: /"] {
            assert_eq!(read(&mut list, line).unwrap().0, "blank");
        }
        let line = format!("0,{MD5},{SHA256},ff,./a, b\n");
        assert_eq!(read(&mut list, &line), Some(("./a, b".to_owned(), vec!["md5", "sha256"], false)));
        assert_eq!(read(&mut list, &format!("0,{SHA256},{MD5},ff,a")), None);
        assert_eq!(read(&mut list, &format!("0,{MD5}")), None);
    }

    #[test]
    fn names_of_a_bag_are_decoded_and_stay_below_it() {
        let mut bag = Recogniser::new(b"manifest-md5.txt", true, &[]);
        assert_eq!(read(&mut bag, &format!("{MD5} \t*data/a%0Ab%25%41")).unwrap().0, "data/a\nb%%41");
        assert_eq!(read(&mut bag, "%%%% size,md5,filename"), None);
        for name in ["../a", "data/../../a", "/etc/passwd", "~root/x", ""] {
            assert_eq!(read(&mut bag, &format!("{MD5}  {name}")), None, "{name}");
        }
    }

    #[test]
    fn objects_of_ours_are_read_and_verdicts_are_not() {
        let mut list = Recogniser::new(b"sums.json", false, &[]);
        let line = format!(r#"{{"path":"a\nb","size":0,"digests":{{"md5":"{MD5}","sha256":"{SHA256}","new":"x"}}}}"#);
        assert_eq!(read(&mut list, &line), Some(("a\nb".to_owned(), vec!["md5", "sha256"], false)));
        let line = format!(r#"{{"path":"?","path_hex":"61ff","digests":{{"md5":"{MD5}"}}}}"#);
        let Recognised::Entry(entry) = list.read(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(*entry.name, *b"a\xff");
        for line in [
            format!(r#"{{"path":"a","verdict":"failed","digests":{{"md5":"{MD5}"}}}}"#),
            r#"{"path":"a","error":"gone"}"#.to_owned(),
            r#"{"path":"a","digests":{}}"#.to_owned(),
            r#"{"path":"a","digests":{"md5":"00"}}"#.to_owned(),
            "{".to_owned(),
        ] {
            assert_eq!(read(&mut list, &line), None, "{line}");
        }
    }

    #[test]
    fn a_line_takes_no_more_memory_than_some_times_its_bytes() {
        let object = |key: &str, value: &str| {
            let size = 300_000 / value.len();
            format!(r#"{{"path":"a","digests":{{"md5":"{MD5}"}},"{key}":[{}0]}}"#, format!("{value},").repeat(size))
        };
        let unknown = gantry_lab::memory::many(20_000, |name| format!(r#""x{name}":"","#));
        for (bomb, line) in [
            ("objects", object("more", r#"{"":0}"#)),
            ("arrays", object("more", "[]")),
            ("numbers", object("more", "0")),
            ("unknown functions", format!(r#"{{"path":"a","digests":{{{unknown}"md5":"{MD5}"}}}}"#)),
            ("columns", format!("%%%% {}filename", "a,".repeat(150_000))),
            ("columns of one function", format!("%%%% {}filename", "md5,".repeat(75_000))),
        ] {
            let mut recogniser = Recogniser::new(b"sums", false, &[]);
            let (read, taken) = gantry_lab::memory::taken(|| read(&mut recogniser, &line).is_some());
            assert!(read || line.starts_with('%'), "{bomb}");
            assert!(taken.bytes <= 4 * line.len(), "{bomb}: {} bytes for {}", taken.bytes, line.len());
        }
    }
}
