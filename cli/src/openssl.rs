//! `gantry openssl`: the provider set up, explained, and watched at work.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::{Openssl, OpensslCommand};
use crate::output::{Failure, Output};
use crate::table::Table;

pub(crate) fn run(args: &Openssl, output: &mut Output) -> Result<(), Failure> {
    match &args.command {
        OpensslCommand::Config { system, file, undo } => config(*system, file.as_deref(), *undo, output),
        OpensslCommand::Info { conf } => info(conf.as_deref(), output),
        OpensslCommand::Doctor { command } => doctor(command, output),
    }
}

// ---- config

/// Between these lines everything is ours, so that it can be taken out again.
const BEGIN: &str = "# gantry: begin";
const END: &str = "# gantry: end";

/// What is added: the sections, and at the top of the file the line that leads to them.
///
/// The default provider is activated by name, so that programs go on if the module is not there; the random numbers stay
/// with it, because in 3.0 to 3.4 they would come through gantry otherwise. Two properties are asked for, because where a program
/// names one itself, what the configuration says of it is gone: `?provider=tpm2` is to find the keys of that provider, and
/// `provider!=fips` (stunnel) the ciphers of gantry.
fn sections(module: &Path, kept: &Kept) -> String {
    format!(
        "{BEGIN}\n[gantry_init]\nproviders = gantry_providers\nalg_section = gantry_algorithms\nrandom = gantry_random\n{}\
         \n[gantry_providers]\ndefault = gantry_default\ngantry = gantry_provider\n{}\n[gantry_default]\nactivate = 1\n\n\
         [gantry_provider]\nmodule = {}\nactivate = 1\n# CIPHERS = ALL, DIGESTS = ALL, POLICY, DEVICES, ...: see the book\n\n\
         [gantry_algorithms]\ndefault_properties = ?provider=gantry,?gantry.serves=yes\n\n[gantry_random]\nproperties = provider=default\n{END}\n",
        kept.init,
        kept.providers,
        module.display()
    )
}

/// What the sections that were in use say beside what ours say.
#[derive(Default)]
struct Kept {
    /// Lines of the first section, such as the one that leads to the settings of TLS.
    init: String,
    /// Lines that name other providers.
    providers: String,
}

impl Kept {
    /// Of the section that `openssl_conf` leads to. The error is a line that ours would have to say differently.
    fn of(text: &str, section: &str) -> Result<Self, String> {
        let mut kept = Self::default();
        for (line, key, value) in lines_of(text, section) {
            match key {
                "providers" => {
                    let others = lines_of(text, value).into_iter();
                    for (line, ..) in others.filter(|(_, name, _)| !["default", "gantry"].contains(name)) {
                        let _ = writeln!(kept.providers, "{line}");
                    }
                }
                "alg_section" | "random" => return Err(line.to_owned()),
                _ => {
                    let _ = writeln!(kept.init, "{line}");
                }
            }
        }
        Ok(kept)
    }
}

/// The lines of a section: as they stand, key and value.
fn lines_of<'t>(text: &'t str, section: &str) -> Vec<(&'t str, &'t str, &'t str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
        } else if let (true, Some((key, value))) = (inside, line.split_once('=')) {
            found.push((line, key.trim(), value.trim()));
        }
    }
    found
}

fn config(system: bool, file: Option<&Path>, undo: bool, output: &mut Output) -> Result<(), Failure> {
    let path = match (system, file) {
        (false, None) => {
            let module = module().unwrap_or_else(|| "/usr/lib/ossl-modules/gantry.so".into());
            return output.write(&format!("openssl_conf = gantry_init\n\n{}", sections(&module, &Kept::default())));
        }
        (_, Some(file)) => file.to_owned(),
        (true, None) => default_configuration()?,
    };
    let old = fs::read_to_string(&path).map_err(|error| Failure::at(path.display(), &error))?;
    let new = if undo {
        without(&old).ok_or_else(|| Failure::Failed(format!("{}: nothing of gantry is in it", path.display())))?
    } else {
        let module = module().ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", folders())))?;
        let clean = without(&old).unwrap_or_else(|| old.clone());
        with(&clean, &module)
            .map_err(|taken| Failure::Failed(format!("{}: '{taken}' has to be merged by hand", path.display())))?
    };
    let backup = PathBuf::from(format!("{}.before-gantry", path.display()));
    if !undo && !backup.exists() {
        fs::copy(&path, &backup).map_err(|error| Failure::at(backup.display(), &error))?;
    }
    replace(&path, &new)?;
    let mut said =
        format!("{}: {}\n", path.display(), if undo { "gantry is taken out" } else { "gantry is activated" });
    if !undo {
        let _ = writeln!(said, "{}: as it was before", backup.display());
    }
    output.write(&said)
}

/// A file is the old one or the new one, whatever happens in between.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = PathBuf::from(format!("{}.gantry-new", path.display()));
    let permissions = fs::metadata(path).map_err(|error| Failure::at(path.display(), &error))?.permissions();
    fs::write(&beside, text)
        .and_then(|()| fs::set_permissions(&beside, permissions))
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| Failure::at(path.display(), &error))
}

/// The old line stays, as a comment that `without` knows.
const WAS: &str = "# gantry: was: ";

/// The text with ours in it; the line that stands in the way where somebody else's sections are in use.
fn with(text: &str, module: &Path) -> Result<String, String> {
    let mut new = String::new();
    let mut kept = Kept::default();
    let mut led = false;
    for line in text.lines() {
        let said = line.split('#').next().unwrap_or_default();
        let (key, value) = said.split_once('=').map_or(("", ""), |(key, value)| (key.trim(), value.trim()));
        if key == "openssl_conf" && !led {
            kept = Kept::of(text, value)?;
            led = true;
            let _ = writeln!(new, "{WAS}{line}\nopenssl_conf = gantry_init");
        } else {
            let _ = writeln!(new, "{line}");
        }
    }
    if !led {
        new.insert_str(0, "# gantry: was: \nopenssl_conf = gantry_init\n");
    }
    new += &sections(module, &kept);
    Ok(new)
}

/// The text without ours, if there was any.
fn without(text: &str) -> Option<String> {
    let mut new = String::new();
    let (mut ours, mut found, mut skip) = (false, false, false);
    for line in text.lines() {
        match line {
            _ if skip => skip = false,
            BEGIN => (ours, found) = (true, true),
            END => ours = false,
            _ if ours => {}
            _ => match line.strip_prefix(WAS.trim_end()) {
                Some(was) => {
                    (skip, found) = (true, true);
                    if !was.trim().is_empty() {
                        let _ = writeln!(new, "{}", was.trim_start());
                    }
                }
                None => {
                    let _ = writeln!(new, "{line}");
                }
            },
        }
    }
    found.then_some(new)
}

fn folders() -> String {
    candidates().iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Where the module may be: where OpenSSL looks, where `make install` puts it, and beside this program.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(folder) = openssl_says(&["version", "-m"]) {
        found.push(PathBuf::from(folder).join("gantry.so"));
    }
    if let Some(beside) = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())) {
        found.push(beside.join("../lib/ossl-modules/gantry.so"));
        found.push(beside.join("libgantry_openssl.so"));
    }
    found
}

fn module() -> Option<PathBuf> {
    candidates().into_iter().find_map(|path| path.canonicalize().ok())
}

/// What stands in quotes in an answer of `openssl`.
fn openssl_says(arguments: &[&str]) -> Option<String> {
    let output = Command::new("openssl").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split('"').nth(1)?.to_owned())
}

fn default_configuration() -> Result<PathBuf, Failure> {
    let folder =
        openssl_says(&["version", "-d"]).ok_or_else(|| Failure::Failed("there is no openssl here".to_owned()))?;
    Ok(PathBuf::from(folder).join("openssl.cnf"))
}

// ---- info

/// Lets `openssl` load the module with every algorithm, and shows the routes that it would take there.
fn info(conf: Option<&Path>, output: &mut Output) -> Result<(), Failure> {
    let folder = Folder::new()?;
    let mut command = Command::new("openssl");
    command.args(["list", "-providers"]).env("GANTRY_OPENSSL_STATS", &folder.0);
    if let Some(conf) = conf {
        command.env("OPENSSL_CONF", conf);
    } else if !active()? {
        // Nothing is installed: what would be, if it were.
        let module = module().ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", folders())))?;
        let conf = folder.0.join("openssl.cnf");
        let text = format!("openssl_conf = gantry_init\n\n{}", sections(&module, &Kept::default()));
        fs::write(&conf, text).map_err(|error| Failure::at(conf.display(), &error))?;
        command.env("OPENSSL_CONF", conf);
    }
    command.output().map_err(|error| Failure::at("openssl", &error))?;
    let Some(routes) = folder.files("routes")?.into_iter().next() else {
        return Err(Failure::Failed("openssl did not load gantry; `gantry openssl doctor` says why".to_owned()));
    };
    let text = fs::read_to_string(&routes).map_err(|error| Failure::at(routes.display(), &error))?;
    let mut lines = text.lines();
    let release = lines.next().unwrap_or_default();
    let mut table = Table::new(&["ALGORITHM", "NID", "SERVED", "64 B", "1 KiB", "16 KiB", "CLASS", "WHY"], &[1]);
    for line in lines {
        let mut cells = line.split('\t');
        let mut next = || cells.next().unwrap_or_default().to_owned();
        let (name, nid, served) = (next(), next(), next());
        let routes: Vec<String> = [next(), next(), next()].into();
        let part = |route: &String, at| route.split(' ').nth(at).unwrap_or("host").to_owned();
        let devices: Vec<String> =
            routes.iter().map(|route| if route.is_empty() { "host".into() } else { part(route, 0) }).collect();
        let (class, why) = match routes.last().filter(|route| !route.is_empty()) {
            Some(route) => (part(route, 1), part(route, 2)),
            None => ("software".to_owned(), "host-only".to_owned()),
        };
        let served = if served == "yes" { "yes".to_owned() } else { "if asked".to_owned() };
        table.row([name, nid, served, devices[0].clone(), devices[1].clone(), devices[2].clone(), class, why]);
    }
    output.write(&format!(
        "{release}. The policy names the devices; a program goes to them where they prove faster than the host there.\n\
         \"if asked\": only with CIPHERS, DIGESTS, MACS, SIGNATURES or KEY_EXCHANGE in the configuration.\n\n{}",
        table.render()
    ))
}

/// Whether the configuration that OpenSSL reads activates gantry.
fn active() -> Result<bool, Failure> {
    let path = std::env::var_os("OPENSSL_CONF").map_or_else(default_configuration, |path| Ok(path.into()))?;
    Ok(fs::read_to_string(path).is_ok_and(|text| mentions(&text)))
}

fn mentions(text: &str) -> bool {
    let asks = |line: &str| line.contains("gantry.serves=yes") || line.contains("provider=gantry");
    text.lines().any(|line| !line.trim_start().starts_with('#') && asks(line))
}

// ---- doctor

/// Runs a program and says what of its cryptography went through gantry, and what did not.
fn doctor(words: &[std::ffi::OsString], output: &mut Output) -> Result<(), Failure> {
    let folder = Folder::new()?;
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::Usage("which program?".to_owned()))?;
    let before = kernel_tls();
    let status = Command::new(program).args(arguments).env("GANTRY_OPENSSL_STATS", &folder.0).status();
    let status = status.map_err(|error| Failure::at(program.to_string_lossy(), &error))?;
    let mut text = format!("\n{} ended with {status}.\n", program.to_string_lossy());
    let mut reports = 0;
    for file in folder.files("")? {
        if file.extension().is_some_and(|tail| tail == "routes") {
            continue;
        }
        let Some(report) = Report::read(&file) else { continue };
        reports += 1;
        text += &report.text();
    }
    if reports == 0 {
        text += &why_not(&program.to_string_lossy())?;
    }
    let given = kernel_tls().saturating_sub(before);
    if given > 0 {
        let _ = writeln!(
            text,
            "\nMeanwhile programs of this machine gave the kernel {given} directions of TLS connections (kTLS): it makes their records."
        );
    }
    output.write(&text)
}

/// The directions of TLS connections that programs have given to the kernel since it was started.
fn kernel_tls() -> u64 {
    given_to_the_kernel(&fs::read_to_string("/proc/net/tls_stat").unwrap_or_default())
}

/// In the words of Linux (Documentation/networking/tls.rst): those that its own code or a network card began with.
fn given_to_the_kernel(counters: &str) -> u64 {
    let lines = counters.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let given = lines.filter(|words| matches!(words[..], ["TlsTxSw" | "TlsRxSw" | "TlsTxDevice" | "TlsRxDevice", _]));
    given.filter_map(|words| words[1].parse::<u64>().ok()).sum()
}

/// What a process counted.
struct Report {
    program: String,
    /// Algorithm, forward and back, host and devices: requests and bytes.
    rows: Vec<(String, [[[u64; 2]; 2]; 2])>,
}

impl Report {
    fn read(path: &Path) -> Option<Self> {
        const ROW: usize = 64;
        let bytes = fs::read(path).ok()?;
        // The numbers come first, and there are as many rows of them as lines of text but one.
        let count = (0..=bytes.len() / ROW).find(|count| {
            let text = std::str::from_utf8(&bytes[count * ROW..]);
            text.is_ok_and(|text| text.lines().count() == count + 1 && !text.contains('\0'))
        })?;
        let text = std::str::from_utf8(&bytes[count * ROW..]).ok()?;
        let mut lines = text.lines();
        let program = lines.next()?.to_owned();
        let number = |row: usize, at: usize| {
            let from = row * ROW + 8 * at;
            u64::from_ne_bytes(bytes[from..from + 8].try_into().unwrap_or_default())
        };
        let rows = lines.enumerate().map(|(row, name)| {
            let side = |at| [number(row, at), number(row, at + 1)];
            (name.to_owned(), [[side(0), side(2)], [side(4), side(6)]])
        });
        Some(Self { program, rows: rows.collect() })
    }

    fn text(&self) -> String {
        let mut table = Table::new(&["ALGORITHM", "", "HOST", "BYTES", "DEVICES", "BYTES"], &[2, 3, 4, 5]);
        let mut any = false;
        for (name, directions) in &self.rows {
            for (direction, [host, device]) in ["forward", "back"].iter().zip(directions) {
                if host[0] + device[0] > 0 {
                    any = true;
                    let cells = [host[0], host[1], device[0], device[1]].map(|number| number.to_string());
                    table.row([name.clone(), (*direction).to_owned()].into_iter().chain(cells));
                }
            }
        }
        if any {
            format!("\n{}: through gantry went\n{}", self.program, table.render())
        } else {
            format!("\n{}: loaded gantry, and asked nothing of it\n", self.program)
        }
    }
}

/// Why a program did not load the module.
fn why_not(program: &str) -> Result<String, Failure> {
    let mut text = String::from("It did not load gantry.\n");
    if std::env::var_os("GANTRY_DISABLE").is_some() {
        text += "- GANTRY_DISABLE is set.\n";
    }
    let conf = std::env::var_os("OPENSSL_CONF").map_or_else(default_configuration, |path| Ok(path.into()))?;
    match fs::read_to_string(&conf) {
        Err(error) => {
            let _ = writeln!(text, "- {}: {error}", conf.display());
        }
        Ok(read) if !mentions(&read) => {
            let _ = writeln!(text, "- {} does not activate it: gantry openssl config --system does.", conf.display());
        }
        Ok(read) => {
            for line in read.lines().filter_map(|line| line.split_once('=')).filter(|(key, _)| key.trim() == "module") {
                if !Path::new(line.1.trim()).exists() {
                    let _ = writeln!(text, "- {}: there is no {}", conf.display(), line.1.trim());
                }
            }
        }
    }
    let found = Command::new("sh").args(["-c", "command -v -- \"$0\"", program]).output();
    let path = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let linked = Command::new("ldd").arg(&path).output();
    let linked = linked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let libraries = [
        (
            "libcrypto.so.3",
            "it links OpenSSL 3: does it read openssl.cnf? Some programs read another section, or none.",
        ),
        (
            "libcrypto.so.4",
            "it links OpenSSL 4: does it read openssl.cnf? Some programs read another section, or none.",
        ),
        ("libcrypto.so.1", "it links OpenSSL 1, which knows no providers."),
        ("libgnutls", "it links GnuTLS, which knows no providers."),
        ("libnss3", "it links NSS, which knows no providers."),
        ("libmbedcrypto", "it links Mbed TLS, which knows no providers."),
    ];
    let before = text.len();
    for (library, says) in libraries {
        if linked.contains(library) {
            let _ = writeln!(text, "- {path}: {says}");
        }
    }
    if text.len() == before {
        let _ = writeln!(
            text,
            "- {path}: it links no TLS library that is known here: it may be static, a script, or load one later."
        );
    }
    Ok(text)
}

/// A folder for the files of other processes, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("gantry-openssl-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| Failure::at(path.display(), &error))?;
        Ok(Self(path))
    }

    /// Its files, in order, or those with an extension.
    fn files(&self, extension: &str) -> Result<Vec<PathBuf>, Failure> {
        let entries = fs::read_dir(&self.0).map_err(|error| Failure::at(self.0.display(), &error))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| extension.is_empty() || path.extension().is_some_and(|tail| tail == extension));
        files.sort();
        Ok(files)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_again() {
        let module = Path::new("/x/gantry.so");
        for old in ["", "a = b\n", "openssl_conf = openssl_init\n[openssl_init]\nproviders = p\n", "[x]\ny = 1\n"] {
            let new = with(old, module).unwrap();
            assert!(mentions(&new) && new.contains("module = /x/gantry.so"), "{new}");
            assert_eq!(without(&new).unwrap(), old);
            assert_eq!(new.lines().filter(|line| line.starts_with("openssl_conf")).count(), 1);
        }
        assert_eq!(without("a = b\n"), None);
    }

    #[test]
    fn connections_that_the_kernel_was_given_are_counted() {
        let counters = "TlsCurrTxSw                     \t2\nTlsCurrRxSw                     \t0\nTlsTxSw                         \t5\n\
                        TlsRxSw                         \t3\nTlsTxDevice                     \t1\nTlsRxDevice                     \t0\n\
                        TlsDecryptError                 \t7\n";
        assert_eq!(given_to_the_kernel(counters), 9);
        assert_eq!(given_to_the_kernel(""), 0);
    }

    #[test]
    fn what_others_configured_stays_in_force() {
        let old = "openssl_conf = init # theirs\n[init]\nproviders = list\nssl_conf = ssl_sect\n[list]\ndefault = d\n\
                   legacy = l\n[l]\nactivate = 1\n";
        let new = with(old, Path::new("/x")).unwrap_or_default();
        assert!(lines_of(&new, "gantry_init").contains(&("ssl_conf = ssl_sect", "ssl_conf", "ssl_sect")), "{new}");
        assert!(lines_of(&new, "gantry_providers").iter().any(|(_, name, _)| *name == "legacy"), "{new}");
        let taken = with("openssl_conf = init\n[init]\nalg_section = fips\n", Path::new("/x"));
        assert_eq!(taken, Err("alg_section = fips".to_owned()));
    }
}
