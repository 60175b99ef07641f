//! Parses an `openssl.cnf` as OpenSSL does (config(5)), and finds mistakes because of which programs do not use gantry.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{fs, io};

use gantry_runtime::{bounded, rights, suggest};

use crate::output::Failure;

/// Returns the configuration file in OpenSSL's own folder. The error is a sentence.
pub(crate) fn system_file() -> Result<PathBuf, String> {
    let folder = super::openssl_output(&["version", "-d"]);
    let folder = folder.ok_or("openssl is not installed, or does not print the folder of its configuration")?;
    Ok(PathBuf::from(folder).join("openssl.cnf"))
}

/// Returns the file that programs read by default.
pub(crate) fn file_in_use() -> Result<PathBuf, String> {
    rights::variable("OPENSSL_CONF").map_or_else(system_file, |path| Ok(path.into()))
}

/// A configuration with all included files.
#[derive(Default)]
pub(crate) struct Conf {
    /// Lines in the order of the files; `None` for a line that a later line replaces.
    lines: Vec<Option<Line>>,
    /// Sections by name; a section may be empty.
    sections: HashMap<Rc<str>, Section>,
    /// Mistakes after which OpenSSL ignores the file, and included files of unknown content, each with its place.
    errors: Vec<String>,
    /// Included files that do not exist. OpenSSL ignores these lines.
    missing: Vec<String>,
    /// The folder of `.pragma includedir`.
    include_folder: Option<PathBuf>,
    /// True if variables need brackets (`.pragma dollarid`).
    requires_brackets: bool,
    /// Estimated bytes of memory for the configuration and its files.
    memory: usize,
}

/// The lines of a section, as indices into the lines of the configuration.
#[derive(Default)]
struct Section {
    lines: Vec<usize>,
    by_key: HashMap<String, usize>,
    /// The last line of each key. The keys are without their [number](base_key).
    by_base_key: HashMap<String, usize>,
}

/// A key and its value. If a section has a key twice, OpenSSL takes the last line.
pub(crate) struct Line {
    pub(crate) key: String,
    pub(crate) value: String,
    /// The text of the line, without a comment.
    pub(crate) text: String,
    pub(crate) file: Rc<Path>,
    /// The number of its first line in the file. `last_line` is the number of its last line: a backslash at the end joins lines.
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
}

impl Line {
    pub(crate) fn location(&self) -> String {
        format!("{}:{}", self.file.display(), self.last_line)
    }
}

/// A provider in a configuration's list of providers.
pub(crate) struct Provider<'c> {
    pub(crate) name: &'c str,
    /// The line in the list. Its value names the provider's section.
    pub(crate) line: &'c Line,
    pub(crate) activation: Activation,
    /// The line with `activate`.
    pub(crate) activation_line: Option<&'c Line>,
}

/// Activation of a provider in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    No,
    Yes,
    /// Active before OpenSSL 3.3 only, where `activate = 0` activates like any other value.
    Before3_3,
    /// Active before OpenSSL 3.3 only. Later releases stop reading at such a value, which is neither yes nor no.
    Misspelt,
}

impl Activation {
    /// Parses the value of `activate`.
    fn parse(value: &str) -> Self {
        match value {
            "1" | "yes" | "YES" | "true" | "TRUE" | "on" | "ON" => Self::Yes,
            "0" | "no" | "NO" | "false" | "FALSE" | "off" | "OFF" => Self::Before3_3,
            _ => Self::Misspelt,
        }
    }
}

/// The section of lines before the first section header.
const DEFAULT_SECTION: &str = "default";

/// The byte order mark. OpenSSL ignores it at the beginning of a file.
pub(crate) const BOM: char = '\u{feff}';

/// Most levels of included files.
const MAX_INCLUDE_DEPTH: usize = 10;
/// Most bytes of a value with variables (`MAX_CONF_VALUE_LENGTH` of OpenSSL).
const MAX_VALUE_LENGTH: usize = 65_536;
/// Most bytes of memory for a configuration. Debian's has 12 KB.
const MAX_MEMORY: usize = 4 << 20;
/// Bytes counted for a line, a section or an included file, in addition to its text.
const LINE_OVERHEAD: usize = 256;

/// OpenSSL's own keys of a provider's section.
const OPENSSL_KEYS: [&str; 4] = ["identity", "soft_load", "module", "activate"];

impl Conf {
    /// Reads a file. The error is a sentence with the file's name.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        Ok(Self::parse(&read(path)?, path))
    }

    /// Parses the text of the file at `path`, or text that will be written to it.
    pub(crate) fn parse(text: &str, path: &Path) -> Self {
        let mut conf = Self::default();
        conf.read_text(text, path, &mut DEFAULT_SECTION.into(), 0);
        conf
    }

    /// Returns the lines of a section; OpenSSL merges sections of the same name.
    pub(crate) fn section<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c Line> {
        let lines = self.sections.get(name).map_or(&[][..], |section| &section.lines);
        lines.iter().filter_map(|index| self.lines[*index].as_ref())
    }

    pub(crate) fn line(&self, section: &str, key: &str) -> Option<&Line> {
        let index = self.sections.get(section)?.by_key.get(key)?;
        self.lines[*index].as_ref()
    }

    /// Returns the line that names the section that OpenSSL reads first.
    pub(crate) fn init_line(&self) -> Option<&Line> {
        self.line(DEFAULT_SECTION, "openssl_conf")
    }

    /// True if there is a section of this name, which may be empty.
    pub(crate) fn has_section(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// Returns the first mistake or file of unknown content, as a sentence.
    pub(crate) fn first_error(&self) -> Option<&String> {
        self.errors.first()
    }

    /// Returns the list of providers in its order.
    pub(crate) fn providers(&self) -> Vec<Provider<'_>> {
        let list = self.init_line().and_then(|begin| self.line(&begin.value, "providers"));
        list.map_or_else(Vec::new, |list| self.section(&list.value).map(|line| self.provider(line)).collect())
    }

    fn provider<'c>(&'c self, line: &'c Line) -> Provider<'c> {
        let last = |key| self.lines[*self.sections.get(&*line.value)?.by_base_key.get(key)?].as_ref();
        let name = last("identity").map_or(base_key(&line.key), |line| &line.value);
        let activation_line = last("activate");
        Provider {
            name,
            line,
            activation: activation_line.map_or(Activation::No, |line| Activation::parse(&line.value)),
            activation_line,
        }
    }

    /// Returns the line of the list of providers that names gantry's section.
    pub(crate) fn gantry_line(&self) -> Option<&Line> {
        self.providers().into_iter().find(|provider| provider.name == "gantry").map(|provider| provider.line)
    }

    /// True if gantry is in the list of providers.
    pub(crate) fn lists_gantry(&self) -> bool {
        self.gantry_line().is_some()
    }

    fn is_active(&self, name: &str) -> bool {
        let active = |provider: &Provider<'_>| provider.name == name && provider.activation != Activation::No;
        self.providers().iter().any(active)
    }

    /// Returns sentences about mistakes, in the order in which OpenSSL would find them: lines because of which programs do not use gantry,
    /// and lines without effect.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut found = [&self.errors[..], &self.missing].concat();
        let section_exists = |line: &Line| self.has_section(&line.value);
        let mut missing =
            |line: &Line| found.push(format!("{}: there is no section [{}]", line.location(), line.value));
        let Some(begin) = self.init_line() else { return found };
        let Some(providers) = self.line(&begin.value, "providers") else {
            if !section_exists(begin) {
                missing(begin);
            }
            return found;
        };
        let Some(gantry) = self.gantry_line() else {
            if !section_exists(providers) {
                missing(providers);
            }
            return found;
        };
        if !section_exists(gantry) {
            missing(gantry);
            return found;
        }
        let section = &gantry.value;
        if !self.is_active("gantry") {
            found.push(format!("{}: [{section}] has no 'activate = 1'", gantry.file.display()));
        }
        if !self.is_active("default") {
            found.push(format!(
                "{}: the default provider is not activated by name ('activate = 1' in its section), so gantry has nothing to wrap",
                providers.location()
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
        let keys = gantry_openssl::CONFIG_KEYS.map(|(key, _)| key);
        for line in self.section(section) {
            if base_key(&line.key) == "module" && !Path::new(&line.value).exists() && line.value.starts_with('/') {
                found.push(format!("{}: there is no {}", line.location(), line.value));
            }
            let known = keys.contains(&&*line.key) || gantry_openssl::RETIRED_CONFIG_KEYS.contains(&&*line.key);
            if !known && !OPENSSL_KEYS.contains(&base_key(&line.key)) {
                found.push(format!("{}: there is no key {}{}", line.location(), line.key, suggest(&line.key, &keys)));
            }
        }
        found
    }

    fn read_text(&mut self, text: &str, file: &Path, section: &mut Rc<str>, depth: usize) {
        let file: Rc<Path> = file.into();
        self.memory = self.memory.saturating_add(text.len());
        let (mut joined, mut first_line) = (String::new(), 1);
        let mut lines = text.strip_prefix(BOM).unwrap_or(text).lines().enumerate().peekable();
        while let Some((at, line)) = lines.next().filter(|_| self.memory <= MAX_MEMORY) {
            let last_line = at + 1;
            joined += line;
            // A backslash joins lines, even comments.
            if joined.ends_with('\\') && !joined.ends_with("\\\\") {
                joined.pop();
                if lines.peek().is_some() {
                    continue;
                }
            }
            let statement = std::mem::take(&mut joined);
            let statement = without_comment(&statement).trim();
            let first_line = std::mem::replace(&mut first_line, last_line + 1);
            if statement.is_empty() {
                continue;
            }
            if let Err(error) = self.read_line(statement, &file, (first_line, last_line), section, depth) {
                self.record_fatal(&file, last_line, &error);
            }
        }
        // Report this once, not again for each file that includes this one.
        if self.memory > MAX_MEMORY && self.memory < usize::MAX {
            let about = format!("the rest was not read: the configuration has more than {} MiB", MAX_MEMORY >> 20);
            self.errors.push(format!("{}: {about}", file.display()));
            self.memory = usize::MAX;
        }
    }

    fn record_fatal(&mut self, file: &Path, last_line: usize, error: &str) {
        self.record_error(format!("{}:{last_line}: {error}; OpenSSL ignores the file", file.display()));
    }

    fn record_error(&mut self, error: String) {
        self.memory = self.memory.saturating_add(LINE_OVERHEAD + error.len());
        self.errors.push(error);
    }

    /// Parses a line without its comment. The error says why OpenSSL ignores the file.
    fn read_line(
        &mut self,
        statement: &str,
        file: &Rc<Path>,
        (first_line, last_line): (usize, usize),
        section: &mut Rc<str>,
        depth: usize,
    ) -> Result<(), String> {
        if let Some(name) = statement.strip_prefix('[') {
            let (name, _) = name.split_once(']').ok_or("no ']' in this line")?;
            *section = name.trim().into();
            self.section_of(section);
        } else if let Some(path) = directive(statement, ".include") {
            let path = self.value_of(path, section).map_err(|(_, error)| error)?;
            self.include(&path, &format!("{}:{last_line}", file.display()), section, depth);
        } else if let Some(pragma) = directive(statement, ".pragma") {
            self.include_folder = pragma.strip_prefix("includedir:").map(PathBuf::from).or(self.include_folder.take());
            self.requires_brackets = pragma
                .strip_prefix("dollarid:")
                .map_or(self.requires_brackets, |value| ["on", "true"].contains(&value));
        } else {
            let (key, value) = statement.split_once('=').ok_or("no '=' in this line")?;
            let (section, key) = key
                .trim()
                .split_once("::")
                .map_or((section.clone(), key.trim()), |(section, key)| (section.into(), key));
            let value = self.value_of(value.trim(), &section).unwrap_or_else(|(begin, error)| {
                self.record_fatal(file, last_line, &error);
                begin
            });
            self.memory = self.memory.saturating_add(LINE_OVERHEAD + statement.len() + value.len());
            let index = self.lines.len();
            let section_lines = self.section_of(&section);
            section_lines.lines.push(index);
            section_lines.by_base_key.insert(base_key(key).to_owned(), index);
            if let Some(replaced) = section_lines.by_key.insert(key.to_owned(), index) {
                self.lines[replaced] = None;
            }
            let (key, text, file) = (key.to_owned(), statement.to_owned(), file.clone());
            self.lines.push(Some(Line { key, value, text, file, first_line, last_line }));
        }
        Ok(())
    }

    fn section_of(&mut self, name: &Rc<str>) -> &mut Section {
        if !self.sections.contains_key(name) {
            self.memory = self.memory.saturating_add(LINE_OVERHEAD + name.len());
        }
        self.sections.entry(name.clone()).or_default()
    }

    /// Includes a file, or the files of a folder. For OpenSSL, a missing file is no error.
    fn include(&mut self, path: &str, location: &str, section: &mut Rc<str>, depth: usize) {
        let folder = rights::variable("OPENSSL_CONF_INCLUDE").map(PathBuf::from).or(self.include_folder.clone());
        let path = folder.unwrap_or_default().join(path);
        if path.is_relative() {
            self.record_error(format!(
                "{location}: each program looks for {} in its working directory",
                path.display()
            ));
        }
        let mut files = vec![path.clone()];
        if let Ok(entries) = fs::read_dir(&path) {
            files = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|tail| tail == "cnf" || tail == "conf"));
            files.sort_unstable();
        }
        for file in files {
            if self.memory > MAX_MEMORY {
                return;
            }
            self.memory += LINE_OVERHEAD;
            match bounded::read(&file) {
                Ok(_) if depth >= MAX_INCLUDE_DEPTH => {
                    self.record_error(format!("{location}: files include each other"));
                }
                Ok(text) => self.read_text(&String::from_utf8_lossy(&text), &file, section, depth + 1),
                Err(error) => {
                    let message = format!("{location}: {}", Failure::at(file.display(), &error));
                    if error.kind() == io::ErrorKind::NotFound {
                        self.memory += message.len();
                        self.missing.push(message);
                    } else {
                        self.record_error(message);
                    }
                }
            }
        }
    }

    /// Resolves quotes, escapes and variables of a value. The error has the part of the value that could be resolved, and the reason why
    /// OpenSSL ignores the file.
    fn value_of(&self, text: &str, section: &str) -> Result<String, (String, String)> {
        let (mut value, mut error) = (String::new(), None);
        let mut rest = text.chars();
        let mut quote = None;
        while let Some(next) = rest.next() {
            match next {
                '\\' => value.extend(rest.next()),
                _ if quote == Some(next) => quote = None,
                '"' | '\'' | '`' if quote.is_none() => quote = Some(next),
                '$' if quote.is_none() && (!self.requires_brackets || rest.as_str().starts_with(['{', '('])) => {
                    let Some((name, after)) = variable(rest.as_str()) else {
                        return Err((value, "a variable's name has no end".to_owned()));
                    };
                    rest = after.chars();
                    match self.variable(name, section) {
                        Some(known) if value.len() + known.len() > MAX_VALUE_LENGTH => {
                            return Err((value, format!("a value has more than {MAX_VALUE_LENGTH} bytes")));
                        }
                        Some(known) => value += &known,
                        None => error = Some(format!("${name} has no value")),
                    }
                }
                _ => value.push(next),
            }
        }
        match error {
            None => Ok(value),
            Some(error) => Err((value, error)),
        }
    }

    fn variable(&self, name: &str, section: &str) -> Option<Cow<'_, str>> {
        match name.split_once("::") {
            Some(("ENV", name)) => rights::variable(name)?.into_string().ok().map(Cow::from),
            Some((section, name)) => Some((&self.line(section, name)?.value).into()),
            None => Some((&self.line(section, name).or_else(|| self.line(DEFAULT_SECTION, name))?.value).into()),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = bounded::read(path).map_err(|error| Failure::at(path.display(), &error).to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a key without the prefix before a dot, which makes keys of the same name distinct.
fn base_key(key: &str) -> &str {
    key.split_once('.').map_or(key, |(_, base_key)| base_key)
}

fn directive<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(name)?;
    let rest = rest.trim_start().strip_prefix('=').or_else(|| rest.starts_with(char::is_whitespace).then_some(rest));
    Some(rest?.trim())
}

/// Splits the text at the end of the variable's name, which may be in brackets. `None` if a bracket is not closed.
fn variable(text: &str) -> Option<(&str, &str)> {
    for (open, close) in [('{', '}'), ('(', ')')] {
        if let Some(rest) = text.strip_prefix(open) {
            return rest.split_once(close);
        }
    }
    let ends = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    Some(text.split_at(ends.unwrap_or(text.len())))
}

/// Returns a line up to the first `#` that is neither quoted nor escaped.
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
