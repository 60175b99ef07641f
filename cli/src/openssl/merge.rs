//! Adds gantry to an existing configuration of OpenSSL. Algorithms that gantry does not serve keep their provider.
//!
//! OpenSSL merges sections of the same name. So gantry adds its lines in two blocks, at the beginning and at the end of the file. It copies
//! no section, so later changes of other lines stay in force.

use std::fmt::Write as _;
use std::path::Path;

use super::conf::{Activation, BOM, Conf, Line, Provider};
use super::groups;

/// The lines around each block.
const BEGIN: &str = "# gantry: begin";
const END: &str = "# gantry: end";

/// The first line of a block that follows a line without a line break.
const BEGIN_BEHIND_OPEN_LINE: &str = "# gantry: begin, in a line of its own";

/// Prefix that turns a line into a comment.
const COMMENT_PREFIX: &str = "# gantry: was: ";

/// OpenSSL's keys of the section that `openssl_conf` names. OpenSSL also accepts abbreviations, and stops reading at an unknown key.
const INIT_KEYS: [&str; 7] =
    ["oid_section", "stbl_section", "engines", "alg_section", "ssl_conf", "providers", "random"];

/// A plan to add gantry to a configuration.
#[derive(Debug)]
pub(crate) struct MergePlan {
    /// The lines of the first block.
    ///
    /// `alg_section` precedes `providers`: distributions that follow the kernel's FIPS mode set `fips=yes` after the list of providers, and
    /// a later `alg_section` would overwrite that.
    head: String,
    /// The lines of the last block, except the lines of the provider's section.
    tail: String,
    /// The first and last line number of the lines that become comments.
    commented_lines: Option<(usize, usize)>,
}

impl MergePlan {
    /// Makes a plan. The error is a sentence that names the line that prevents it.
    pub(crate) fn of(conf: &Conf, path: &Path, post_quantum: bool) -> Result<Self, String> {
        if let Some(wrong) = conf.first_error() {
            return Err(wrong.clone());
        }
        if let Some(line) = conf.gantry_line() {
            return Err(format!(
                "{}: gantry is in this list already, through lines that gantry did not add",
                line.location()
            ));
        }
        let mut plan = Self { head: String::new(), tail: String::new(), commented_lines: None };
        let init = if let Some(line) = conf.init_line() {
            named_section(conf, line)?
        } else {
            plan.head += "openssl_conf = gantry_init\n";
            "gantry_init"
        };
        if let Some(line) = conf.section(init).find(|line| !INIT_KEYS.contains(&&*line.key)) {
            let location = line.location();
            return Err(format!(
                "{location}: '{}' is not a key of OpenSSL, which may ignore all lines after it",
                line.key
            ));
        }
        let _ = writeln!(plan.head, "[{init}]");
        let algorithms = plan.algorithm_section(conf, init, path)?;
        let random = plan.random_section(conf, init)?;
        plan.add_provider(conf, init)?;
        if post_quantum {
            groups::add_group(conf, init, &mut plan.head, &mut plan.tail);
        }
        // OpenSSL 3.0 to 3.4 would get random numbers through gantry. So the random section prefers the default provider (`?`: a program
        // may name another generator) and removes gantry's default property (`-`).
        //
        // Other algorithms have two default properties. A property in a program's query replaces only the default property of the same
        // name. Gantry's keys and signatures lack `gantry.serves`, so `?provider=tpm2` finds the keys of that provider. Gantry's ciphers
        // have it, so `provider!=fips` (stunnel) still finds them.
        let _ = write!(
            plan.head,
            "[{algorithms}]\ndefault_properties = ?provider=gantry,?gantry.serves=yes\n\
             [{random}]\nproperties = ?provider=default,-gantry.serves\n[default]\n"
        );
        Ok(plan)
    }

    /// Returns the section of default properties, and adds its line to the first block. Keeps an existing section that does not choose
    /// among providers: Red Hat's is empty or has keys of its own, such as `rh-allow-sha1-signatures`.
    fn algorithm_section<'c>(&mut self, conf: &'c Conf, init: &'c str, path: &Path) -> Result<&'c str, String> {
        let Some(line) = conf.line(init, "alg_section") else {
            self.head += "alg_section = gantry_algorithms\n";
            return Ok("gantry_algorithms");
        };
        let section = named_section(conf, line)?;
        let chooses = |line: &&Line| line.key == "default_properties" || line.key == "fips_mode";
        if let Some(property) = conf.section(section).find(chooses) {
            return Err(format!(
                "{}: '{}' chooses among providers, and gantry cannot be preferred without changing that choice",
                property.location(),
                property.text
            ));
        }
        if *line.file != *path {
            return Err(format!("{}: '{}' has to be moved before 'providers' by hand", line.location(), line.text));
        }
        self.commented_lines = Some((line.first_line, line.last_line));
        let _ = writeln!(self.head, "alg_section = {section}");
        Ok(section)
    }

    /// Returns the section about random numbers. Adds its line to the first block if there is none.
    fn random_section<'c>(&mut self, conf: &'c Conf, init: &'c str) -> Result<&'c str, String> {
        let Some(line) = conf.line(init, "random") else {
            self.head += "random = gantry_random\n";
            return Ok("gantry_random");
        };
        let section = named_section(conf, line)?;
        match conf.section(section).find(|line| line.key.eq_ignore_ascii_case("properties")) {
            Some(property) => Err(format!(
                "{}: '{}' chooses among providers, so add -gantry.serves there by hand to keep random numbers from gantry",
                property.location(),
                property.text
            )),
            None => Ok(section),
        }
    }

    /// Adds gantry to the list of providers, and activates the default provider if it was active implicitly.
    fn add_provider(&mut self, conf: &Conf, init: &str) -> Result<(), String> {
        let list = if let Some(line) = conf.line(init, "providers") {
            named_section(conf, line)?
        } else {
            self.head += "providers = gantry_providers\n";
            "gantry_providers"
        };
        let providers = conf.providers();
        for provider in &providers {
            named_section(conf, provider.line)?;
        }
        check_other_providers(&providers)?;
        let _ = writeln!(self.tail, "[{list}]");
        match providers.iter().find(|provider| provider.name == "default") {
            // The default provider is activated by name, so that programs work without the module.
            None => self.tail += "default = gantry_default\ngantry = gantry_provider\n[gantry_default]\nactivate = 1\n",
            Some(default) => {
                self.tail += "gantry = gantry_provider\n";
                if default.activation != Activation::Yes {
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
            if self.commented_lines.is_some_and(|(first, last)| (first..=last).contains(&(at + 1))) {
                new += COMMENT_PREFIX;
            }
            new += line;
        }
        let begin = if new.ends_with('\n') { BEGIN.to_owned() } else { format!("\n{BEGIN_BEHIND_OPEN_LINE}") };
        let _ = write!(new, "{begin}\n{}[gantry_provider]\n{section}{END}\n", self.tail);
        new
    }
}

/// Returns the section that a line names.
fn named_section<'c>(conf: &Conf, line: &'c Line) -> Result<&'c str, String> {
    let error = || {
        format!("{}: there is no section [{}], so OpenSSL reads nothing after this line", line.location(), line.value)
    };
    conf.has_section(&line.value).then_some(&*line.value).ok_or_else(error)
}

/// Checks that gantry, as the last provider, would take over algorithms of the default provider only. The error is a sentence.
fn check_other_providers(providers: &[Provider<'_>]) -> Result<(), String> {
    let at = |provider: &Provider<'_>| format!("{}: {}", provider.line.location(), provider.name);
    let active = || providers.iter().filter(|provider| provider.activation != Activation::No);
    for (provider, line) in active().filter_map(|provider| Some((provider, provider.activation_line?))) {
        // Releases differ about these values.
        let doubt = match provider.activation {
            Activation::Misspelt => "is neither yes nor no, which is an error since OpenSSL 3.3",
            Activation::Before3_3 if provider.name == "fips" => "activates fips before OpenSSL 3.3",
            Activation::Before3_3 if active().any(|other| other.name != "default") && provider.name == "default" => {
                "activates default before OpenSSL 3.3 only"
            }
            _ => continue,
        };
        return Err(format!("{}: '{}' {doubt}", line.location(), line.text));
    }
    if let Some(fips) = active().find(|provider| provider.name == "fips") {
        return Err(format!("{} is activated, and could be replaced by gantry, which is not validated", at(fips)));
    }
    let wrapped = active().any(|provider| provider.name == "default");
    if let Some(other) = active().next().filter(|_| !wrapped) {
        return Err(format!(
            "{} is activated and default is not: gantry wraps the default provider, and activating it would change the provider of other algorithms",
            at(other)
        ));
    }
    // Check the order with and without the providers that have `activate = 0`, which activates before OpenSSL 3.3 only.
    let all: Vec<_> = active().collect();
    let in_later: Vec<_> = all.iter().copied().filter(|provider| provider.activation == Activation::Yes).collect();
    [all, in_later].iter().try_for_each(|active| check_order(active))
}

/// Checks that the default provider comes first, and that adding gantry keeps the order of active providers. OpenSSL fetches an algorithm
/// from the first provider that has it. When OpenSSL adds a provider, it sorts all others by name.
fn check_order(active: &[&Provider<'_>]) -> Result<(), String> {
    let Some((last, sorted)) = active.split_last() else { return Ok(()) };
    let mut order = sorted.to_vec();
    order.sort_by_key(|provider| provider.name);
    order.push(last);
    // These two have no algorithms in common with gantry.
    let first = order.iter().find(|provider| !["base", "null"].contains(&provider.name));
    if let Some(other) = first.filter(|provider| provider.name != "default") {
        return Err(format!(
            "{}: {} comes before default, so it serves algorithms of both, which gantry would take over",
            other.line.location(),
            other.name
        ));
    }
    match order.windows(2).find(|pair| pair[0].name > pair[1].name) {
        None => Ok(()),
        Some(pair) => Err(format!(
            "{}: {} comes after {}, but after gantry is added, OpenSSL would sort them by name; list them in that order",
            pair[1].line.location(),
            pair[1].name,
            pair[0].name
        )),
    }
}

/// Removes gantry's blocks, and restores the lines that became comments. Returns `None` if there is no block.
pub(crate) fn remove_gantry(text: &str) -> Option<String> {
    let (bom, text) = text.strip_prefix(BOM).map_or(("", text), |rest| ("\u{feff}", rest));
    let mut new = bom.to_owned();
    let (mut is_in_block, mut found) = (false, false);
    for line in text.split_inclusive('\n') {
        match line.trim_end_matches('\n') {
            BEGIN => (is_in_block, found) = (true, true),
            BEGIN_BEHIND_OPEN_LINE => {
                (is_in_block, found) = (true, true);
                new.pop();
            }
            END => is_in_block = false,
            _ if is_in_block => {}
            _ => new += line.strip_prefix(COMMENT_PREFIX).unwrap_or(line),
        }
    }
    found.then_some(new)
}
