//! What an `openssl.cnf` says, read as OpenSSL reads it (config(5)), and what in it keeps programs from gantry.

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
    lines: Vec<Line>,
    /// The sections, some of which may be empty.
    sections: Vec<String>,
    /// What OpenSSL stumbles over, and files whose contents are unknown, each with its place.
    wrong: Vec<String>,
    /// Included files that do not exist, which OpenSSL passes over.
    missing: Vec<String>,
    /// What `.pragma includedir` names.
    folder: Option<PathBuf>,
    /// `.pragma dollarid`: a variable has brackets.
    brackets: bool,
}

/// A key and its value. Of two in a section, OpenSSL takes the last.
pub(crate) struct Line {
    section: String,
    pub(crate) key: String,
    pub(crate) value: String,
    /// As it stands in the file, without a comment.
    pub(crate) text: String,
    pub(crate) file: Rc<Path>,
    /// The lines of the file that it takes, of which all but the last end in a backslash.
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
    /// Before 3.3, where `activate = 0` activates it like any other value.
    Before3_3,
    /// Before 3.3. Later releases read nothing more of a configuration with such a value.
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

/// The bytes that some editors put before a text, which OpenSSL passes over.
pub(crate) const BOM: char = '\u{feff}';

/// Files that include each other end somewhere.
const DEEPEST: usize = 10;

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
        conf.take_in(text, path, &mut TOP.to_owned(), 0);
        conf
    }

    /// The lines of a section; OpenSSL merges those of one name.
    pub(crate) fn section<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c Line> {
        self.lines.iter().filter(move |line| line.section == name)
    }

    pub(crate) fn line<'c>(&'c self, section: &'c str, key: &'c str) -> Option<&'c Line> {
        self.section(section).find(|line| line.key == key)
    }

    /// The line that leads to everything else.
    pub(crate) fn begin(&self) -> Option<&Line> {
        self.line(TOP, "openssl_conf")
    }

    /// Whether there is a section of this name, which may be empty.
    pub(crate) fn has(&self, section: &str) -> bool {
        self.sections.iter().any(|known| known == section)
    }

    /// What OpenSSL takes nothing of the file for, or what is not known of it: a sentence.
    pub(crate) fn wrong(&self) -> Option<&String> {
        self.wrong.first()
    }

    /// The list of providers, in its order.
    pub(crate) fn providers(&self) -> Vec<Provider<'_>> {
        let list = self.begin().and_then(|begin| self.line(&begin.value, "providers"));
        list.map_or_else(Vec::new, |list| self.section(&list.value).map(|line| self.provider(line)).collect())
    }

    fn provider<'c>(&'c self, line: &'c Line) -> Provider<'c> {
        let last = |key| self.section(&line.value).filter(move |line| own(&line.key) == key).last();
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
            if !keys.contains(&&*line.key) && !OPENSSLS.contains(&own(&line.key)) {
                found.push(format!("{}: there is no key {}{}", line.place(), line.key, suggest(&line.key, &keys)));
            }
        }
        found
    }

    fn take_in(&mut self, text: &str, file: &Path, section: &mut String, depth: usize) {
        let file: Rc<Path> = file.into();
        let (mut whole, mut first) = (String::new(), 1);
        let mut lines = text.strip_prefix(BOM).unwrap_or(text).lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
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
            let place = format!("{}:{number}", file.display());
            if said.is_empty() {
            } else if let Some(name) = said.strip_prefix('[') {
                match name.split_once(']') {
                    Some((name, _)) => {
                        name.trim().clone_into(section);
                        self.sections.push(section.clone());
                    }
                    None => self.wrong.push(format!("{place}: no ']' in this line: OpenSSL takes nothing of the file")),
                }
            } else if let Some(path) = directive(said, ".include") {
                let path = self.value_of(path, section, &place);
                self.include(&path, &place, section, depth);
            } else if let Some(pragma) = directive(said, ".pragma") {
                self.folder = pragma.strip_prefix("includedir:").map(PathBuf::from).or(self.folder.take());
                self.brackets =
                    pragma.strip_prefix("dollarid:").map_or(self.brackets, |value| ["on", "true"].contains(&value));
            } else if let Some((key, value)) = said.split_once('=') {
                let (section, key) = key.trim().split_once("::").unwrap_or((section, key.trim()));
                let value = self.value_of(value.trim(), section, &place);
                let (section, key) = (section.to_owned(), key.to_owned());
                self.lines.retain(|line| line.section != section || line.key != key);
                self.lines.push(Line { section, key, value, text: said.to_owned(), file: file.clone(), first, number });
            } else {
                self.wrong.push(format!("{place}: no '=' in this line: OpenSSL takes nothing of the file"));
            }
        }
    }

    /// A file, or the files of a folder. One that does not exist is no error to OpenSSL.
    fn include(&mut self, path: &str, place: &str, section: &mut String, depth: usize) {
        let folder = rights::variable("OPENSSL_CONF_INCLUDE").map(PathBuf::from).or(self.folder.clone());
        let path = folder.unwrap_or_default().join(path);
        if path.is_relative() {
            self.wrong
                .push(format!("{place}: each program looks for {} in the folder that it runs in", path.display()));
        }
        let mut files = vec![path.clone()];
        if let Ok(entries) = fs::read_dir(&path) {
            files = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|tail| tail == "cnf" || tail == "conf"));
            files.sort_unstable();
        }
        for file in files {
            match bounded::read(&file) {
                Ok(_) if depth >= DEEPEST => self.wrong.push(format!("{place}: files that include each other")),
                Ok(text) => self.take_in(&String::from_utf8_lossy(&text), &file, section, depth + 1),
                Err(error) => {
                    let gone = error.kind() == io::ErrorKind::NotFound;
                    let list = if gone { &mut self.missing } else { &mut self.wrong };
                    list.push(format!("{place}: {}", Failure::at(file.display(), &error)));
                }
            }
        }
    }

    /// A value without quotes and escapes, and with the values of its variables.
    fn value_of(&mut self, text: &str, section: &str, place: &str) -> String {
        let mut value = String::new();
        let mut rest = text.chars();
        let mut quote = None;
        while let Some(next) = rest.next() {
            match next {
                '\\' => value.extend(rest.next()),
                _ if quote == Some(next) => quote = None,
                '"' | '\'' | '`' if quote.is_none() => quote = Some(next),
                '$' if quote.is_none() && (!self.brackets || rest.as_str().starts_with(['{', '('])) => {
                    let (name, after) = variable(rest.as_str());
                    rest = after.chars();
                    if let Some(known) = self.variable(name, section) {
                        value += &known;
                    } else {
                        let said = format!("{place}: ${name} has no value: OpenSSL takes nothing of the file");
                        self.wrong.push(said);
                    }
                }
                _ => value.push(next),
            }
        }
        value
    }

    fn variable(&self, name: &str, section: &str) -> Option<String> {
        match name.split_once("::") {
            Some(("ENV", name)) => rights::variable(name)?.into_string().ok(),
            Some((section, name)) => Some(self.line(section, name)?.value.clone()),
            None => Some(self.line(section, name).or_else(|| self.line(TOP, name))?.value.clone()),
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

/// The name at the beginning, in brackets or not, and what comes after it.
fn variable(text: &str) -> (&str, &str) {
    for (open, close) in [('{', '}'), ('(', ')')] {
        if let Some((name, rest)) = text.strip_prefix(open).and_then(|rest| rest.split_once(close)) {
            return (name, rest);
        }
    }
    let ends = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    text.split_at(ends.unwrap_or(text.len()))
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
mod tests {
    use super::*;

    fn of(text: &str) -> Conf {
        Conf::of(text, Path::new("x.cnf"))
    }

    /// A configuration that is right, with these lines in gantry's section.
    fn with(lines: &str) -> String {
        format!(
            "openssl_conf = init\n[init]\nproviders = list\nalg_section = asked\n[list]\ndefault = host\ngantry = ours\n\
             [host]\nactivate = 1\n[asked]\ndefault_properties = ?provider=gantry\n[ours]\nactivate = 1\n{lines}"
        )
    }

    #[test]
    fn a_key_that_is_misspelt_is_named_with_what_was_meant() {
        assert_eq!(of(&with("CIPHERS = ALL\n1.module = gantry.so\nidentity = gantry\n")).complaints(), [""; 0]);
        for (line, said) in [
            ("CIPHER = ALL", "there is no key CIPHER; did you mean CIPHERS?"),
            ("ciphers = ALL", "there is no key ciphers; did you mean CIPHERS?"),
            ("1.CIPHERS = ALL", "there is no key 1.CIPHERS; did you mean CIPHERS?"),
            ("COALESCE = 5", "there is no key COALESCE; did you mean COALESCE_US?"),
        ] {
            assert_eq!(of(&with(line)).complaints(), [format!("x.cnf:14: {said}")]);
        }
        let [said] = &of(&with("LANES = 5")).complaints()[..] else { panic!() };
        assert!(gantry_openssl::KEYS.iter().all(|(key, _)| said.contains(key)), "{said}");
    }

    #[test]
    fn whatever_keeps_programs_from_gantry_is_named_with_its_place() {
        let right = with("");
        for (old, new, said) in [
            ("= init", "= nobody", "x.cnf:1: there is no section [nobody]"),
            ("= list", "= nobody", "x.cnf:3: there is no section [nobody]"),
            ("= ours", "= nobody", "x.cnf:7: there is no section [nobody]"),
            ("[ours]\nactivate = 1", "[ours]\nSTATS = off", "x.cnf: [ours] has no 'activate = 1'"),
            ("default = host\n", "", "x.cnf:3: the default provider is not activated by name"),
            ("[host]\nactivate = 1", "[host]\nsoft_load = 1", "x.cnf:3: the default provider is not activated by name"),
            ("?provider=gantry", "?provider=tpm2", "x.cnf: nothing asks for gantry's algorithms"),
            ("alg_section = asked\n", "", "x.cnf: nothing asks for gantry's algorithms"),
            ("[list]", "[list", "x.cnf:5: no ']' in this line"),
            ("default = host", "default host", "x.cnf:6: no '=' in this line"),
            ("[ours]", "[ours]\nmodule = /nowhere/gantry.so", "x.cnf:13: there is no /nowhere/gantry.so"),
        ] {
            assert!(right.contains(old));
            let found = of(&right.replacen(old, new, 1)).complaints();
            assert!(found.first().is_some_and(|found| found.starts_with(said)), "{old:?} as {new:?}: {found:?}");
        }
        // Nothing of ours, and nothing wrong: Debian's own has a section without a line.
        for text in ["a = b", "openssl_conf = init\n[init]\n"] {
            assert_eq!(of(text).complaints(), [""; 0]);
        }
    }

    #[test]
    fn lines_are_read_as_openssl_reads_them() {
        let conf = of(
            "# no = comment\nhome = /h # a comment\n[ a ]\nq = \"x # y\"\nescaped = \\#1\nlong = one \\\n  two\n\
                       v = $home/$q-${default::home}$(q)\nunknown = a$nobody\nq = 2\nb::other = 3\n[b]\n[a]\nlast = 4\n",
        );
        let values: Vec<_> = conf.section("a").map(|line| (&*line.key, &*line.value, line.number)).collect();
        let expected = [
            ("escaped", "#1", 5),
            ("long", "one   two", 7),
            ("v", "/h/x # y-/hx # y", 8),
            ("unknown", "a", 9),
            ("q", "2", 10),
            ("last", "4", 14),
        ];
        assert_eq!(values, expected);
        assert_eq!(conf.line("b", "other").unwrap().value, "3");
        assert_eq!(conf.line(TOP, "home").unwrap().text, "home = /h");
        assert_eq!(conf.wrong, ["x.cnf:9: $nobody has no value: OpenSSL takes nothing of the file"]);
        let long = conf.line("a", "long").unwrap();
        assert_eq!((long.first, long.number), (6, 7));
        let conf = of("\u{feff}a = 1\nb = 2 \\");
        assert!(conf.line(TOP, "a").is_some() && conf.line(TOP, "b").is_some_and(|line| line.value == "2"));
    }

    #[test]
    fn a_provider_is_active_by_the_last_value() {
        let of = |lines: &str| of(&format!("openssl_conf = i\n[i]\nproviders = l\n[l]\n1.x = p\n[p]\n{lines}"));
        for (lines, name, active) in [
            ("", "x", Active::No),
            ("activat = 1", "x", Active::No),
            ("activate = 1", "x", Active::Yes),
            ("activate = ON\nidentity = y", "y", Active::Yes),
            ("activate = off", "x", Active::Before3_3),
            ("2.activate = 1\nactivate = 0", "x", Active::Before3_3),
            ("activate = 0\n2.activate = 1", "x", Active::Yes),
            ("activate = Yes", "x", Active::Misspelt),
            ("activate =", "x", Active::Misspelt),
        ] {
            let conf = of(lines);
            let [provider] = &conf.providers()[..] else { panic!("{lines}") };
            assert_eq!((provider.name, provider.active), (name, active), "{lines}");
        }
    }

    #[test]
    fn what_is_included_is_part_of_it() {
        let folder = std::env::temp_dir().join(format!("gantry-conf-{}", std::process::id()));
        fs::create_dir_all(folder.join("parts")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("main.cnf", &format!(".pragma = dollarid:on\n.include = {}/parts\nlast = $1\n", folder.display()));
        write("parts/1.cnf", "top = 1\n[ours]\nCIPHERS = ALL\n");
        write("parts/2.conf", "DIGESTS = ALL\n");
        write("parts/3.txt", "nothing\n");
        let conf = Conf::read(&folder.join("main.cnf")).unwrap();
        let keys: Vec<_> = conf.section("ours").map(Line::place).collect();
        let place = |name: &str| folder.join(name).display().to_string();
        assert_eq!(keys, [place("parts/1.cnf:3"), place("parts/2.conf:1"), place("main.cnf:3")]);
        assert!(conf.line(TOP, "top").is_some() && conf.wrong.is_empty());

        write("main.cnf", &format!(".pragma includedir:{}\n.include loop.cnf\n.include none.cnf", folder.display()));
        write("loop.cnf", ".include loop.cnf");
        let [wrong, missing] = &Conf::read(&folder.join("main.cnf")).unwrap().complaints()[..] else { panic!() };
        assert!(wrong.ends_with("files that include each other") && missing.contains("none.cnf: No such file"));
        let [wrong, missing] = &of(".include none.cnf").complaints()[..] else { panic!() };
        assert_eq!(wrong, "x.cnf:1: each program looks for none.cnf in the folder that it runs in");
        assert!(missing.contains("none.cnf: No such file"));
        fs::remove_dir_all(folder).unwrap();
    }

    /// Memory that a configuration may take.
    const MOST_MEMORY: usize = 16 << 20;

    #[test]
    fn a_configuration_takes_no_more_memory_than_one_is_worth() {
        let doubled: String = (1..30).map(|line| format!("a{line} = $a{}$a{}\n", line - 1, line - 1)).collect();
        let named = format!("[{}]\n", "s".repeat(100_000)) + &"a=b\n".repeat(2000);
        let keys: String = (0..10_000).map(|key| format!("{key}=$v\n")).collect();
        for (bomb, text) in [
            ("values of twice the value before", format!("a0 = {}\n{doubled}", "x".repeat(100))),
            ("a section's name that lines share", named),
            ("a value that lines share", format!("v = {}\n{keys}", "v".repeat(10_000))),
            ("short lines", (0..300_000).map(|key| format!("{key:x}=\n")).collect()),
            ("short sections", (0..300_000).map(|name| format!("[{name:x}]\n")).collect()),
            ("short mistakes", "x\n".repeat(500_000)),
        ] {
            let (_, taken) = gantry_lab::memory::taken(|| of(&text).complaints().len());
            assert!(taken.bytes <= MOST_MEMORY, "{bomb}: {} bytes for {}", taken.bytes, text.len());
        }
    }

    #[test]
    fn a_value_longer_than_openssl_takes_is_named() {
        let text = format!("a = {}\nb = $a$a\nc = $a\n", "x".repeat(40_000));
        assert_eq!(of(&text).wrong, ["x.cnf:2: a value of more than 65536 bytes: OpenSSL takes nothing of the file"]);
        assert_eq!(of("a = ${b").wrong, ["x.cnf:1: no end of a variable's name: OpenSSL takes nothing of the file"]);
    }

    #[test]
    fn files_that_include_each_other_often_end() {
        let folder = std::env::temp_dir().join(format!("gantry-conf-often-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("often.cnf");
        fs::write(&path, format!(".include = {}\n", path.display()).repeat(100)).unwrap();
        let wrong = Conf::read(&path).unwrap().wrong;
        assert!(wrong.last().unwrap().ends_with("what follows is not looked at: there is more than 4 MiB of it"));
        fs::remove_dir_all(folder).unwrap();
    }
}
