//! Adds gantry to a configuration of somebody else. Every algorithm that gantry does not serve keeps its provider.
//!
//! OpenSSL merges sections of one name. So gantry's lines stand in two blocks, at the beginning and at the end of the file, and later changes of
//! other sections stay in force.

use std::fmt::Write as _;
use std::path::Path;

use super::conf::{Active, BOM, Conf, Line, Provider};

/// The lines around each block.
const BEGIN: &str = "# gantry: begin";
const END: &str = "# gantry: end";

/// The first line of a block behind a line without a line break.
const BEGIN_BEHIND_OPEN_LINE: &str = "# gantry: begin, in a line of its own";

/// Makes a comment of a line that OpenSSL must not read.
const WAS: &str = "# gantry: was: ";

/// OpenSSL's keys of the first section. OpenSSL also accepts abbreviations, and stops reading at an unknown key.
const MODULES: [&str; 7] = ["oid_section", "stbl_section", "engines", "alg_section", "ssl_conf", "providers", "random"];

/// How gantry is added to a configuration.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The lines of the first block.
    ///
    /// `alg_section` precedes `providers`: distributions that follow the kernel's FIPS mode set `fips=yes` behind the list of providers, and an
    /// `alg_section` after it would overwrite that.
    head: String,
    /// The lines of the last block, without those of the provider's section.
    tail: String,
    /// The first and last of the lines that become comments.
    out: Option<(usize, usize)>,
}

impl Plan {
    /// The error is a sentence that names the line in the way.
    pub(crate) fn of(conf: &Conf, path: &Path) -> Result<Self, String> {
        if let Some(wrong) = conf.wrong() {
            return Err(wrong.clone());
        }
        if let Some(line) = conf.gantry() {
            return Err(format!("{}: gantry is in this list already, by other lines than its own", line.place()));
        }
        let mut plan = Self { head: String::new(), tail: String::new(), out: None };
        let init = if let Some(line) = conf.begin() {
            section_of(conf, line)?
        } else {
            plan.head += "openssl_conf = gantry_init\n";
            "gantry_init"
        };
        if let Some(line) = conf.section(init).find(|line| !MODULES.contains(&&*line.key)) {
            let place = line.place();
            return Err(format!("{place}: '{}' is no key of OpenSSL's, which may read nothing after it", line.key));
        }
        let _ = writeln!(plan.head, "[{init}]");
        let algorithms = plan.algorithms(conf, init, path)?;
        let random = plan.random(conf, init)?;
        plan.providers(conf, init)?;
        // Random numbers would come through gantry in OpenSSL 3.0 to 3.4. So they prefer the default provider (`?`: a program may name another
        // generator) and ignore gantry's property (`-`).
        //
        // Everything else asks for two properties, because a property in a program's query replaces the one of this name: `?provider=tpm2` must
        // find the keys of that provider, and `provider!=fips` (stunnel) the ciphers of gantry.
        let _ = write!(
            plan.head,
            "[{algorithms}]\ndefault_properties = ?provider=gantry,?gantry.serves=yes\n\
             [{random}]\nproperties = ?provider=default,-gantry.serves\n[default]\n"
        );
        Ok(plan)
    }

    /// Returns the section of properties. An empty one, as Red Hat's, is used; any line in it already chooses among providers.
    fn algorithms<'c>(&mut self, conf: &'c Conf, init: &'c str, path: &Path) -> Result<&'c str, String> {
        let Some(line) = conf.line(init, "alg_section") else {
            self.head += "alg_section = gantry_algorithms\n";
            return Ok("gantry_algorithms");
        };
        let section = section_of(conf, line)?;
        if let Some(said) = conf.section(section).next() {
            return Err(format!(
                "{}: '{}' chooses among providers, and gantry cannot be preferred without changing that choice",
                said.place(),
                said.text
            ));
        }
        if *line.file != *path {
            return Err(format!("{}: '{}' has to be moved before 'providers' by hand", line.place(), line.text));
        }
        self.out = Some((line.first, line.number));
        let _ = writeln!(self.head, "alg_section = {section}");
        Ok(section)
    }

    /// Returns the section about random numbers.
    fn random<'c>(&mut self, conf: &'c Conf, init: &'c str) -> Result<&'c str, String> {
        let Some(line) = conf.line(init, "random") else {
            self.head += "random = gantry_random\n";
            return Ok("gantry_random");
        };
        let section = section_of(conf, line)?;
        match conf.section(section).find(|line| line.key.eq_ignore_ascii_case("properties")) {
            Some(said) => Err(format!(
                "{}: '{}' chooses among providers, and random numbers have to be kept from gantry there by hand (-gantry.serves)",
                said.place(),
                said.text
            )),
            None => Ok(section),
        }
    }

    /// Adds gantry to the list of providers, and activates the default provider if it is in use without that.
    fn providers(&mut self, conf: &Conf, init: &str) -> Result<(), String> {
        let list = if let Some(line) = conf.line(init, "providers") {
            section_of(conf, line)?
        } else {
            self.head += "providers = gantry_providers\n";
            "gantry_providers"
        };
        let providers = conf.providers();
        for provider in &providers {
            section_of(conf, provider.line)?;
        }
        stays_as_it_is(&providers)?;
        let _ = writeln!(self.tail, "[{list}]");
        match providers.iter().find(|provider| provider.name == "default") {
            // By name, so that programs work without the module.
            None => self.tail += "default = gantry_default\ngantry = gantry_provider\n[gantry_default]\nactivate = 1\n",
            Some(default) => {
                self.tail += "gantry = gantry_provider\n";
                if default.active != Active::Yes {
                    let _ = writeln!(self.tail, "[{}]\nactivate = 1", default.line.value);
                }
            }
        }
        Ok(())
    }

    /// Adds the lines to a text. `section` is the content of the provider's section.
    pub(crate) fn apply(&self, text: &str, section: &str) -> String {
        let (bom, text) = text.strip_prefix(BOM).map_or(("", text), |rest| ("\u{feff}", rest));
        let mut new = format!("{bom}{BEGIN}\n{}{END}\n", self.head);
        for (at, line) in text.split_inclusive('\n').enumerate() {
            if self.out.is_some_and(|(first, last)| (first..=last).contains(&(at + 1))) {
                new += WAS;
            }
            new += line;
        }
        let begin = if new.ends_with('\n') { BEGIN.to_owned() } else { format!("\n{BEGIN_BEHIND_OPEN_LINE}") };
        let _ = write!(new, "{begin}\n{}[gantry_provider]\n{section}{END}\n", self.tail);
        new
    }
}

/// The section that a line leads to.
fn section_of<'c>(conf: &Conf, line: &'c Line) -> Result<&'c str, String> {
    let none =
        || format!("{}: there is no section [{}], and OpenSSL reads nothing after this line", line.place(), line.value);
    conf.has(&line.value).then_some(&*line.value).ok_or_else(none)
}

/// Checks that gantry can be the last of these providers without a change for the others. The error is a sentence.
fn stays_as_it_is(providers: &[Provider<'_>]) -> Result<(), String> {
    let at = |provider: &Provider<'_>| format!("{}: {}", provider.line.place(), provider.name);
    let active = || providers.iter().filter(|provider| provider.active != Active::No);
    for (provider, line) in active().filter_map(|provider| Some((provider, provider.said?))) {
        // Whether it is activated depends on the release.
        let doubt = match provider.active {
            Active::Misspelt => "is neither yes nor no, and since OpenSSL 3.3 an error",
            Active::Before3_3 if provider.name == "fips" => "activates fips before OpenSSL 3.3",
            Active::Before3_3 if active().any(|other| other.name != "default") && provider.name == "default" => {
                "activates default before OpenSSL 3.3 only"
            }
            _ => continue,
        };
        return Err(format!("{}: '{}' {doubt}", line.place(), line.text));
    }
    if let Some(fips) = active().find(|provider| provider.name == "fips") {
        return Err(format!(
            "{} is activated, and gantry, whose algorithms are not validated, could be served in its place",
            at(fips)
        ));
    }
    let wrapped = active().any(|provider| provider.name == "default");
    if let Some(other) = active().next().filter(|_| !wrapped) {
        return Err(format!(
            "{} is activated and default is not: gantry wraps the default provider, and activating it would change what serves each algorithm",
            at(other)
        ));
    }
    // With `activate = 0` before OpenSSL 3.3 and since.
    let all: Vec<_> = active().collect();
    let in_later: Vec<_> = all.iter().copied().filter(|provider| provider.active == Active::Yes).collect();
    [all, in_later].iter().try_for_each(|active| keeps_its_order(active))
}

/// Checks the order of active providers: OpenSSL fetches from the first that has an algorithm, and sorts all others by name when it adds one.
fn keeps_its_order(active: &[&Provider<'_>]) -> Result<(), String> {
    let Some((last, sorted)) = active.split_last() else { return Ok(()) };
    let mut order = sorted.to_vec();
    order.sort_by_key(|provider| provider.name);
    order.push(last);
    // These two have nothing in common with gantry.
    let first = order.iter().find(|provider| !["base", "null"].contains(&provider.name));
    if let Some(other) = first.filter(|provider| provider.name != "default") {
        return Err(format!(
            "{}: {} comes before default, so it serves what both have, and gantry would take that over",
            other.line.place(),
            other.name
        ));
    }
    match order.windows(2).find(|pair| pair[0].name > pair[1].name) {
        None => Ok(()),
        Some(pair) => Err(format!(
            "{}: {} comes after {}, and with gantry behind both OpenSSL would sort them by name: list them by name first",
            pair[1].line.place(),
            pair[1].name,
            pair[0].name
        )),
    }
}

/// Removes gantry's lines; `None` without such lines.
pub(crate) fn without(text: &str) -> Option<String> {
    let (bom, text) = text.strip_prefix(BOM).map_or(("", text), |rest| ("\u{feff}", rest));
    let mut new = bom.to_owned();
    let (mut ours, mut found) = (false, false);
    for line in text.split_inclusive('\n') {
        match line.trim_end_matches('\n') {
            BEGIN => (ours, found) = (true, true),
            BEGIN_BEHIND_OPEN_LINE => {
                (ours, found) = (true, true);
                new.pop();
            }
            END => ours = false,
            _ if ours => {}
            _ => new += line.strip_prefix(WAS).unwrap_or(line),
        }
    }
    found.then_some(new)
}
