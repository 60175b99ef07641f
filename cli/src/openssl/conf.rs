//! What an `openssl.cnf` says, read as OpenSSL reads it (config(5)), and what in it keeps programs from gantry.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{fs, io};

use gantry_runtime::{bounded, rights, suggest};

use crate::output::Failure;

/// The file in OpenSSL's own folder. The error is a sentence.
pub(crate) fn of_the_system() -> Result<PathBuf, String> {
    let folder = super::openssl_says(&["version", "-d"]);
    let folder = folder.ok_or("there is no openssl here that says where its configuration is")?;
    Ok(PathBuf::from(folder).join("openssl.cnf"))
}

/// The file that programs read which say nothing else.
pub(crate) fn in_use() -> Result<PathBuf, String> {
    rights::variable("OPENSSL_CONF").map_or_else(of_the_system, |path| Ok(path.into()))
}

/// A configuration, with all that it includes.
#[derive(Default)]
pub(crate) struct Conf {
    /// In the order of the files; `None` for a line that a later one replaces.
    lines: Vec<Option<Line>>,
    /// Some of them may be empty.
    sections: HashMap<Rc<str>, Section>,
    /// Mistakes after which OpenSSL ignores the file, and included files of unknown content, each with its place.
    wrong: Vec<String>,
    /// Included files that do not exist. OpenSSL ignores these lines.
    missing: Vec<String>,
    /// What `.pragma includedir` names.
    folder: Option<PathBuf>,
    /// `.pragma dollarid`: a variable has brackets.
    brackets: bool,
    /// Bytes of memory for all of this, and for the files.
    taken: usize,
}

/// Places of a section's lines among those of the configuration.
#[derive(Default)]
struct Section {
    lines: Vec<usize>,
    by_key: HashMap<String, usize>,
    /// The last line of each key without its [number](own).
    by_own_key: HashMap<String, usize>,
}

/// A key and its value. Of two in a section, OpenSSL takes the last.
pub(crate) struct Line {
    pub(crate) key: String,
    pub(crate) value: String,
    /// As it stands in the file, without a comment.
    pub(crate) text: String,
    pub(crate) file: Rc<Path>,
    /// Its first and last line in the file: a backslash at the end joins lines.
    pub(crate) first: usize,
    pub(crate) number: usize,
}

impl Line {
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.number)
    }
}

/// A provider of the list.
pub(crate) struct Provider<'c> {
    pub(crate) name: &'c str,
    /// The line of the list, which names the section.
    pub(crate) line: &'c Line,
    pub(crate) active: Active,
    /// The line that says so.
    pub(crate) said: Option<&'c Line>,
}

/// Whether OpenSSL activates a provider of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Active {
    No,
    Yes,
    /// Before OpenSSL 3.3 only: there, `activate = 0` activates like any other value.
    Before3_3,
    /// Before OpenSSL 3.3 only: later releases stop reading at such a value.
    Misspelt,
}

impl Active {
    /// By the value of `activate`.
    fn of(value: &str) -> Self {
        match value {
            "1" | "yes" | "YES" | "true" | "TRUE" | "on" | "ON" => Self::Yes,
            "0" | "no" | "NO" | "false" | "FALSE" | "off" | "OFF" => Self::Before3_3,
            _ => Self::Misspelt,
        }
    }
}

/// The section of lines before the first that has a name.
const TOP: &str = "default";

/// The byte order mark. OpenSSL ignores it at the beginning of a file.
pub(crate) const BOM: char = '\u{feff}';

/// Files that include each other end somewhere.
const DEEPEST: usize = 10;
/// Most bytes of a value with variables (`MAX_CONF_VALUE_LENGTH` of OpenSSL).
const LONGEST: usize = 65_536;
/// Most bytes of memory for a configuration. Debian's has 12 KB.
const MOST: usize = 4 << 20;
/// Bytes that a line, a section or an included file counts for beside its text.
const LINE: usize = 256;

/// The keys of a provider's section that are OpenSSL's own.
const OPENSSLS: [&str; 4] = ["identity", "soft_load", "module", "activate"];

impl Conf {
    /// The error is a sentence with the file's name.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        Ok(Self::of(&read(path)?, path))
    }

    /// The same of a text that is, or is to be, the file at `path`.
    pub(crate) fn of(text: &str, path: &Path) -> Self {
        let mut conf = Self::default();
        conf.take_in(text, path, &mut TOP.into(), 0);
        conf
    }

    /// The lines of a section; OpenSSL merges those of one name.
    pub(crate) fn section<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c Line> {
        let lines = self.sections.get(name).map_or(&[][..], |section| &section.lines);
        lines.iter().filter_map(|place| self.lines[*place].as_ref())
    }

    pub(crate) fn line(&self, section: &str, key: &str) -> Option<&Line> {
        let place = self.sections.get(section)?.by_key.get(key)?;
        self.lines[*place].as_ref()
    }

    /// The line that leads to everything else.
    pub(crate) fn begin(&self) -> Option<&Line> {
        self.line(TOP, "openssl_conf")
    }

    /// Whether there is a section of this name, which may be empty.
    pub(crate) fn has(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// The first mistake or file of unknown content, as a sentence.
    pub(crate) fn wrong(&self) -> Option<&String> {
        self.wrong.first()
    }

    /// Returns the list of providers in its order.
    pub(crate) fn providers(&self) -> Vec<Provider<'_>> {
        let list = self.begin().and_then(|begin| self.line(&begin.value, "providers"));
        list.map_or_else(Vec::new, |list| self.section(&list.value).map(|line| self.provider(line)).collect())
    }

    fn provider<'c>(&'c self, line: &'c Line) -> Provider<'c> {
        let last = |key| self.lines[*self.sections.get(&*line.value)?.by_own_key.get(key)?].as_ref();
        let name = last("identity").map_or(own(&line.key), |line| &line.value);
        let said = last("activate");
        Provider { name, line, active: said.map_or(Active::No, |line| Active::of(&line.value)), said }
    }

    /// The line of the list of providers that leads to gantry's section.
    pub(crate) fn gantry(&self) -> Option<&Line> {
        self.providers().into_iter().find(|provider| provider.name == "gantry").map(|provider| provider.line)
    }

    /// Whether gantry is in the list of providers.
    pub(crate) fn names_gantry(&self) -> bool {
        self.gantry().is_some()
    }

    fn is_active(&self, name: &str) -> bool {
        let active = |provider: &Provider<'_>| provider.name == name && provider.active != Active::No;
        self.providers().iter().any(active)
    }

    /// What in this file keeps programs from gantry, or has no effect: sentences, in the order in which OpenSSL would come upon it.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut found = [&self.wrong[..], &self.missing].concat();
        let leads = |line: &Line| self.has(&line.value);
        let mut missing = |line: &Line| found.push(format!("{}: there is no section [{}]", line.place(), line.value));
        let Some(begin) = self.begin() else { return found };
        let Some(providers) = self.line(&begin.value, "providers") else {
            if !leads(begin) {
                missing(begin);
            }
            return found;
        };
        let Some(gantry) = self.gantry() else {
            if !leads(providers) {
                missing(providers);
            }
            return found;
        };
        if !leads(gantry) {
            missing(gantry);
            return found;
        }
        let section = &gantry.value;
        if !self.is_active("gantry") {
            found.push(format!("{}: [{section}] has no 'activate = 1'", gantry.file.display()));
        }
        if !self.is_active("default") {
            found.push(format!(
                "{}: the default provider is not activated by name ('activate = 1' in its section): gantry has nothing to wrap",
                providers.place()
            ));
        }
        let properties = self.line(&begin.value, "alg_section").map(|line| &line.value);
        let properties = properties.and_then(|section| self.line(section, "default_properties"));
        if properties.is_none_or(|line| !line.value.contains("gantry")) {
            found.push(format!(
                "{}: nothing asks for gantry's algorithms ('default_properties = ?provider=gantry,?gantry.serves=yes' in the alg_section)",
                begin.file.display()
            ));
        }
        let keys = gantry_openssl::KEYS.map(|(key, _)| key);
        for line in self.section(section) {
            if own(&line.key) == "module" && !Path::new(&line.value).exists() && line.value.starts_with('/') {
                found.push(format!("{}: there is no {}", line.place(), line.value));
            }
            let known = keys.contains(&&*line.key) || gantry_openssl::RETIRED.contains(&&*line.key);
            if !known && !OPENSSLS.contains(&own(&line.key)) {
                found.push(format!("{}: there is no key {}{}", line.place(), line.key, suggest(&line.key, &keys)));
            }
        }
        found
    }

    fn take_in(&mut self, text: &str, file: &Path, section: &mut Rc<str>, depth: usize) {
        let file: Rc<Path> = file.into();
        self.taken = self.taken.saturating_add(text.len());
        let (mut whole, mut first) = (String::new(), 1);
        let mut lines = text.strip_prefix(BOM).unwrap_or(text).lines().enumerate().peekable();
        while let Some((at, line)) = lines.next().filter(|_| self.taken <= MOST) {
            let number = at + 1;
            whole += line;
            // What ends in a backslash goes on in the next line, a comment, too.
            if whole.ends_with('\\') && !whole.ends_with("\\\\") {
                whole.pop();
                if lines.peek().is_some() {
                    continue;
                }
            }
            let said = std::mem::take(&mut whole);
            let said = without_comment(&said).trim();
            let first = std::mem::replace(&mut first, number + 1);
            if said.is_empty() {
                continue;
            }
            if let Err(wrong) = self.take_in_line(said, &file, (first, number), section, depth) {
                self.is_fatal(&file, number, &wrong);
            }
        }
        // Said once, and not again by the files that include this one.
        if self.taken > MOST && self.taken < usize::MAX {
            let about = format!("what follows is not looked at: there is more than {} MiB of it", MOST >> 20);
            self.wrong.push(format!("{}: {about}", file.display()));
            self.taken = usize::MAX;
        }
    }

    fn is_fatal(&mut self, file: &Path, number: usize, wrong: &str) {
        self.is_wrong(format!("{}:{number}: {wrong}: OpenSSL takes nothing of the file", file.display()));
    }

    fn is_wrong(&mut self, wrong: String) {
        self.taken = self.taken.saturating_add(LINE + wrong.len());
        self.wrong.push(wrong);
    }

    /// A line of a file, without a comment. The error says why OpenSSL takes nothing of the file.
    fn take_in_line(
        &mut self,
        said: &str,
        file: &Rc<Path>,
        (first, number): (usize, usize),
        section: &mut Rc<str>,
        depth: usize,
    ) -> Result<(), String> {
        if let Some(name) = said.strip_prefix('[') {
            let (name, _) = name.split_once(']').ok_or("no ']' in this line")?;
            *section = name.trim().into();
            self.section_of(section);
        } else if let Some(path) = directive(said, ".include") {
            let path = self.value_of(path, section).map_err(|(_, wrong)| wrong)?;
            self.include(&path, &format!("{}:{number}", file.display()), section, depth);
        } else if let Some(pragma) = directive(said, ".pragma") {
            self.folder = pragma.strip_prefix("includedir:").map(PathBuf::from).or(self.folder.take());
            self.brackets =
                pragma.strip_prefix("dollarid:").map_or(self.brackets, |value| ["on", "true"].contains(&value));
        } else {
            let (key, value) = said.split_once('=').ok_or("no '=' in this line")?;
            let (section, key) = key
                .trim()
                .split_once("::")
                .map_or((section.clone(), key.trim()), |(section, key)| (section.into(), key));
            let value = self.value_of(value.trim(), &section).unwrap_or_else(|(begin, wrong)| {
                self.is_fatal(file, number, &wrong);
                begin
            });
            self.taken = self.taken.saturating_add(LINE + said.len() + value.len());
            let place = self.lines.len();
            let of = self.section_of(&section);
            of.lines.push(place);
            of.by_own_key.insert(own(key).to_owned(), place);
            if let Some(before) = of.by_key.insert(key.to_owned(), place) {
                self.lines[before] = None;
            }
            let (key, text, file) = (key.to_owned(), said.to_owned(), file.clone());
            self.lines.push(Some(Line { key, value, text, file, first, number }));
        }
        Ok(())
    }

    fn section_of(&mut self, name: &Rc<str>) -> &mut Section {
        if !self.sections.contains_key(name) {
            self.taken = self.taken.saturating_add(LINE + name.len());
        }
        self.sections.entry(name.clone()).or_default()
    }

    /// A file, or the files of a folder. One that does not exist is no error to OpenSSL.
    fn include(&mut self, path: &str, place: &str, section: &mut Rc<str>, depth: usize) {
        let folder = rights::variable("OPENSSL_CONF_INCLUDE").map(PathBuf::from).or(self.folder.clone());
        let path = folder.unwrap_or_default().join(path);
        if path.is_relative() {
            self.is_wrong(format!("{place}: each program looks for {} in the folder that it runs in", path.display()));
        }
        let mut files = vec![path.clone()];
        if let Ok(entries) = fs::read_dir(&path) {
            files = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|tail| tail == "cnf" || tail == "conf"));
            files.sort_unstable();
        }
        for file in files {
            if self.taken > MOST {
                return;
            }
            self.taken += LINE;
            match bounded::read(&file) {
                Ok(_) if depth >= DEEPEST => self.is_wrong(format!("{place}: files that include each other")),
                Ok(text) => self.take_in(&String::from_utf8_lossy(&text), &file, section, depth + 1),
                Err(error) => {
                    let said = format!("{place}: {}", Failure::at(file.display(), &error));
                    if error.kind() == io::ErrorKind::NotFound {
                        self.taken += said.len();
                        self.missing.push(said);
                    } else {
                        self.is_wrong(said);
                    }
                }
            }
        }
    }

    /// A value without quotes and escapes, and with the values of its variables. The error has the rest of the value, and says why OpenSSL takes
    /// nothing of the file.
    fn value_of(&self, text: &str, section: &str) -> Result<String, (String, String)> {
        let (mut value, mut wrong) = (String::new(), None);
        let mut rest = text.chars();
        let mut quote = None;
        while let Some(next) = rest.next() {
            match next {
                '\\' => value.extend(rest.next()),
                _ if quote == Some(next) => quote = None,
                '"' | '\'' | '`' if quote.is_none() => quote = Some(next),
                '$' if quote.is_none() && (!self.brackets || rest.as_str().starts_with(['{', '('])) => {
                    let Some((name, after)) = variable(rest.as_str()) else {
                        return Err((value, "no end of a variable's name".to_owned()));
                    };
                    rest = after.chars();
                    match self.variable(name, section) {
                        Some(known) if value.len() + known.len() > LONGEST => {
                            return Err((value, format!("a value of more than {LONGEST} bytes")));
                        }
                        Some(known) => value += &known,
                        None => wrong = Some(format!("${name} has no value")),
                    }
                }
                _ => value.push(next),
            }
        }
        match wrong {
            None => Ok(value),
            Some(wrong) => Err((value, wrong)),
        }
    }

    fn variable(&self, name: &str, section: &str) -> Option<Cow<'_, str>> {
        match name.split_once("::") {
            Some(("ENV", name)) => rights::variable(name)?.into_string().ok().map(Cow::from),
            Some((section, name)) => Some((&self.line(section, name)?.value).into()),
            None => Some((&self.line(section, name).or_else(|| self.line(TOP, name))?.value).into()),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = bounded::read(path).map_err(|error| Failure::at(path.display(), &error).to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A key without what stands before a point, by which people tell apart keys that would be the same.
fn own(key: &str) -> &str {
    key.split_once('.').map_or(key, |(_, own)| own)
}

fn directive<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(name)?;
    let rest = rest.trim_start().strip_prefix('=').or_else(|| rest.starts_with(char::is_whitespace).then_some(rest));
    Some(rest?.trim())
}

/// The name at the beginning, in brackets or not, and what comes after it. `None` if a bracket is not closed.
fn variable(text: &str) -> Option<(&str, &str)> {
    for (open, close) in [('{', '}'), ('(', ')')] {
        if let Some(rest) = text.strip_prefix(open) {
            return rest.split_once(close);
        }
    }
    let ends = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    Some(text.split_at(ends.unwrap_or(text.len())))
}

/// A line up to the first `#` that is neither quoted nor behind a backslash.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, next) in line.char_indices() {
        match next {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if quote == Some(next) => quote = None,
            '"' | '\'' | '`' if quote.is_none() => quote = Some(next),
            '#' if quote.is_none() => return &line[..at],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
#[path = "conf/tests.rs"]
mod tests;
