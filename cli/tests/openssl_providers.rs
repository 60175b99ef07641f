//! `gantry openssl config` on existing configurations: each algorithm keeps its provider, except algorithms that gantry takes over from the
//! default provider.

mod gantry;
mod installed;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gantry::{status_and_stderr, text};
use installed::{EVERYTHING, Installed, earlier_lines};

/// Property queries of programs, in addition to the default properties of the configuration.
const QUERIES: [&str; 7] =
    ["fips=yes", "-fips", "provider=default", "provider=tpm2", "provider=pkcs11", "?provider=pkcs11", "?provider=tpm2"];

/// The expected result of a row.
enum Expectation {
    /// Gantry is added.
    Added,
    /// The file does not change, and the reason contains this text.
    Refused(&'static str),
}
use Expectation::{Added, Refused};

/// Sections of active providers.
const SECTIONS: &str = "[default_sect]\nactivate = 1\n[base_sect]\nactivate = 1\n[legacy_sect]\nactivate = 1\n[fips_sect]\n@FIPS@activate = 1\n\
                        [tpm2_sect]\nmodule = @/tpm2.so\nactivate = 1\n[pkcs11_sect]\nmodule = @/pkcs11.so\nactivate = 1\n\
                        [oqs_sect]\nmodule = @/oqsprovider.so\nactivate = 1\n[symcrypt_sect]\nmodule = @/symcryptprovider.so\nactivate = 1\n";

/// A configuration with these providers in its list, in this order, each with one of [`SECTIONS`].
fn listed(lines: &str) -> String {
    format!("openssl_conf = init\n[init]\nproviders = list\n[list]\n{lines}\n{SECTIONS}")
}

/// Rows of name, configuration, and expected result.
fn table() -> Vec<(&'static str, String, Expectation)> {
    let own = |text: &str| text.to_owned();
    // Fedora's package of OpenSSL has this configuration.
    let fedora = |tuned: &str| {
        format!(
            "openssl_conf = openssl_init\nHOME = .\n\n[openssl_init]\nproviders = provider_sect\n# Load default TLS policy configuration\n\
             ssl_conf = ssl_module\nalg_section = evp_properties\n\n[ evp_properties ]\n# This section is intentionally added empty here \
             to be tuned on particular systems\n{tuned}\n[provider_sect]\ndefault = default_sect\n##legacy = legacy_sect\n\n[default_sect]\n\
             activate = 1\n\n#Place the third party provider configuration files into this folder\n.include @/openssl.d\n\n[ ssl_module ]\n\n\
             system_default = crypto_policy\n\n[ crypto_policy ]\n\n.include = @/opensslcnf.config\n"
        )
    };
    let switched = |provider: &str, value: &str| {
        listed(&format!("default = default_sect\n{provider} = switched"))
            + &format!("[switched]\nmodule = @/{provider}.so\nactivate = {value}\n")
    };
    let asking = |properties: &str, lines: &str| {
        listed(lines).replace("providers = list", "providers = list\nalg_section = algs")
            + &format!("[algs]\ndefault_properties = {properties}\n")
    };
    vec![
        ("nothing at all", own(""), Added),
        (
            "no section of providers",
            own("openssl_conf = openssl_init\n[openssl_init]\n[req]\ndefault_bits = 2048\n"),
            Added,
        ),
        ("a list of none", listed(""), Added),
        (
            "the authors' file",
            own(
                "openssl_conf = openssl_init\n[openssl_init]\nproviders = provider_sect\n[provider_sect]\ndefault = default_sect\n\
                 # fips = fips_sect\n[default_sect]\n# activate = 1\n[ca]\ndefault_ca = CA_default\n",
            ),
            Added,
        ),
        ("default", listed("default = default_sect"), Added),
        (
            "tpm2 under another name",
            listed("default = default_sect\nx = x") + "[x]\nidentity = tpm2\nmodule = @/tpm2.so\nactivate = 1\n",
            Added,
        ),
        ("default, misspelled", listed("defualt = default_sect"), Refused("default is not")),
        ("default with a misspelled key", listed("default = x") + "[x]\nactivat = 1\n", Added),
        ("default without a section", listed("default = x"), Refused("no section [x]")),
        ("a misspelled key before the providers", listed("").replace("providers", "providrs"), Refused("providrs")),
        (
            "the beginning of a key's name, which is enough",
            listed("fips = fips_sect").replace("providers", "provider"),
            Refused("provider"),
        ),
        ("fips alone", listed("fips = fips_sect"), Refused("fips is activated")),
        ("fips and base", listed("fips = fips_sect\nbase = base_sect"), Refused("fips is activated")),
        (
            "fips and base, default not activated",
            listed("fips = fips_sect\nbase = base_sect\ndefault = x") + "[x]\n",
            Refused("fips is activated"),
        ),
        ("default after fips", listed("fips = fips_sect\nbase = base_sect\ndefault = default_sect"), Refused("fips")),
        ("default before fips", listed("default = default_sect\nfips = fips_sect"), Refused("fips")),
        (
            "fips, listed and not activated",
            listed("default = default_sect\nfips = x") + "[x]\nmodule = @/fips.so\n",
            Added,
        ),
        ("fips is wanted", asking("fips=yes", "fips = fips_sect\nbase = base_sect"), Refused("fips=yes")),
        ("fips is wanted beside default", asking("fips=yes", "default = default_sect"), Refused("fips=yes")),
        (
            "fips is wanted by its old name",
            asking("", "default = default_sect").replace("default_properties =", "fips_mode = yes"),
            Refused("fips_mode"),
        ),
        ("legacy after default", listed("default = default_sect\nlegacy = legacy_sect"), Added),
        ("legacy before default", listed("legacy = legacy_sect\ndefault = default_sect"), Refused("legacy")),
        ("base before default", listed("base = base_sect\ndefault = default_sect"), Added),
        ("pkcs11", listed("default = default_sect\npkcs11 = pkcs11_sect"), Added),
        ("pkcs11 before default", listed("pkcs11 = pkcs11_sect\ndefault = default_sect"), Refused("pkcs11")),
        ("tpm2", listed("default = default_sect\ntpm2 = tpm2_sect"), Added),
        (
            "tpm2 before pkcs11",
            listed("default = default_sect\ntpm2 = tpm2_sect\npkcs11 = pkcs11_sect"),
            Refused("by name"),
        ),
        (
            "tpm2 is preferred",
            asking("?provider=tpm2", "default = default_sect\ntpm2 = tpm2_sect"),
            Refused("?provider=tpm2"),
        ),
        ("oqs", listed("default = default_sect\nlegacy = legacy_sect\noqsprovider = oqs_sect"), Added),
        ("oqs before default", listed("oqsprovider = oqs_sect\ndefault = default_sect"), Refused("oqsprovider")),
        ("symcrypt", listed("default = default_sect\nsymcryptprovider = symcrypt_sect"), Added),
        (
            "symcrypt before default",
            listed("symcryptprovider = symcrypt_sect\ndefault = default_sect"),
            Refused("symcryptprovider"),
        ),
        (
            "symcrypt in the place of default",
            listed("symcryptprovider = symcrypt_sect\nbase = base_sect"),
            Refused("default is not"),
        ),
        (
            "symcrypt is preferred",
            asking("?provider=symcryptprovider", "default = default_sect\nsymcryptprovider = symcrypt_sect"),
            Refused("?provider=symcryptprovider"),
        ),
        ("Fedora", fedora(""), Added),
        ("Fedora, tuned", fedora("default_properties = fips=yes\n"), Refused("fips=yes")),
        (
            "random numbers by another generator",
            listed("default = default_sect").replace("[list]", "random = rand\n[rand]\nrandom = HASH-DRBG\n[list]"),
            Added,
        ),
        (
            "random numbers by properties",
            listed("default = default_sect")
                .replace("[list]", "random = rand\n[rand]\nproperties = provider=tpm2\n[list]"),
            Refused("provider=tpm2"),
        ),
        ("default, switched off before OpenSSL 3.3 knew how", listed("default = x") + "[x]\nactivate = 0\n", Added),
        (
            "default, switched off beside another",
            listed("default = x\nlegacy = legacy_sect") + "[x]\nactivate = no\n",
            Refused("OpenSSL 3.3"),
        ),
        ("tpm2, switched off", switched("tpm2", "off"), Added),
        ("fips, switched off", switched("fips", "0"), Refused("OpenSSL 3.3")),
        ("tpm2, with a wrong switch", switched("tpm2", "maybe"), Refused("activate = maybe")),
        ("an included file", own("openssl_conf = init\n.include @/included.cnf\n[init]\nproviders = list\n"), Added),
        (
            "an included file with fips",
            own("openssl_conf = init\n.include @/fips.cnf\n[init]\nproviders = list\n"),
            Refused("fips"),
        ),
        ("a file that is not there yet", listed("default = default_sect") + ".include @/none.cnf\n", Added),
        (
            "a file that is looked for in the program's folder",
            listed("default = default_sect") + ".include fipsmodule.cnf\n",
            Refused("fipsmodule.cnf"),
        ),
        ("a variable without a value", listed("default = default_sect") + "x = $nobody\n", Refused("nobody")),
        ("a line without an equals sign", listed("default = default_sect") + "x\n", Refused("no '='")),
        ("gantry, by hand", listed("default = default_sect\ngantry = x") + "[x]\nactivate = 1\n", Refused("gantry")),
    ]
}

/// A release of OpenSSL to test.
struct Release {
    /// A wrapper that runs a program with the release's libraries.
    run: Option<PathBuf>,
    lister: PathBuf,
    /// The lines of the section of the release's fips provider.
    fips: String,
}

impl Release {
    /// Returns the lines that `who.c` prints: the provider of each algorithm under a configuration.
    fn answers(&self, configuration: &Path) -> Vec<String> {
        let mut command = self.run.as_ref().map_or_else(
            || Command::new(&self.lister),
            |run| {
                let mut command = Command::new(run);
                command.arg(&self.lister);
                command
            },
        );
        let output =
            command.args(QUERIES).env("OPENSSL_CONF", configuration).env_remove("GANTRY_DISABLE").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect()
    }
}

/// Compiles a file of `cli/tests/providers`.
fn compile(source: &str, to: &Path, options: &[String]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/providers").join(source);
    let mut compile = Command::new("cc");
    compile
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-o"])
        .arg(to)
        .arg(source)
        .args(options);
    assert!(compile.status().unwrap().success());
}

/// Compiles dummy providers, in place of real ones that this machine may lack.
fn stubs(installed: &Installed) {
    for (name, more) in
        [("fips", ",fips=yes"), ("tpm2", ""), ("pkcs11", ""), ("oqsprovider", ""), ("symcryptprovider", "")]
    {
        let named = [format!("-DNAME=\"{name}\""), format!("-DMORE=\"{more}\"")];
        let options = [&["-shared".to_owned(), "-fPIC".to_owned()], &named[..]].concat();
        compile("stub.c", &installed.0.join(format!("{name}.so")), &options);
    }
}

fn of_this_machine(installed: &Installed) -> Release {
    let lister = installed.0.join("who");
    compile("who.c", &lister, &["-lcrypto".to_owned()]);
    Release { run: None, lister, fips: format!("module = {}/fips.so\n", installed.0.display()) }
}

/// Runs `gantry openssl config` with these options.
fn config(installed: &Installed, file: &Path, options: &[&str]) -> (i32, String) {
    let arguments = [&["openssl", "config", "--file", file.to_str().unwrap()], options].concat();
    let output = installed.command(Path::new("/dev/null"), &arguments).output().unwrap();
    if output.status.success() { (0, text(&output.stdout)) } else { status_and_stderr(&output) }
}

fn each_algorithm_keeps_its_provider(installed: &Installed, release: &Release) {
    fs::create_dir_all(installed.0.join("openssl.d")).unwrap();
    installed.write("opensslcnf.config", "CipherString = DEFAULT@SECLEVEL=2\n");
    let fill = |text: &str| text.replace("@FIPS@", &release.fips).replace('@', &installed.0.display().to_string());
    installed.write(
        "openssl.d/pkcs11.cnf",
        &fill("[provider_sect]\npkcs11 = pkcs11_sect\n[pkcs11_sect]\nmodule = @/pkcs11.so\nactivate = 1\n"),
    );
    for provider in ["default", "fips"] {
        let included = format!("[list]\ndefault = default_sect\n{provider} = {provider}_sect\n{SECTIONS}");
        let name = if provider == "fips" { "fips.cnf" } else { "included.cnf" };
        installed.write(name, &fill(&included));
    }
    let mut wrong = String::new();
    for (name, row, becomes) in table() {
        let text = fill(&row);
        let before = release.answers(&installed.write("before.cnf", &text));
        let file = installed.write("openssl.cnf", &(text.clone() + &earlier_lines()));
        let config = |options: &[&str]| {
            let (code, message) = config(installed, &file, options);
            (code, message, fs::read_to_string(&file).unwrap())
        };
        let (code, message, new) = config(&[]);
        match becomes {
            Refused(error) => {
                if code != 1 || !message.contains(error) {
                    let _ = writeln!(wrong, "{name}: ends with {code}: {message}");
                }
                if new != text.clone() + &earlier_lines() {
                    let _ =
                        writeln!(wrong, "{name}: changed; now: {:?}", differences(&before, &release.answers(&file)));
                }
            }
            Added if code == 0 => {
                let after = release.answers(&file);
                let moved = differences(&before, &after);
                if !moved.is_empty() || !after.iter().any(|line| line == "\tCIPHER AES-128-GCM\tgantry") {
                    let _ = writeln!(wrong, "{name}: moved: {moved:?}\n{new}");
                }
                if config(&[]).2 != new || config(&["--undo"]).2 != text {
                    let _ = writeln!(wrong, "{name}: once more, or undone: {:?}", fs::read_to_string(&file).unwrap());
                }
            }
            Added => {
                let _ = writeln!(wrong, "{name}: ends with {code}: {message}");
            }
        }
        let _ = fs::remove_file(installed.0.join("openssl.cnf.before-gantry"));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Returns the answers that differ, except algorithms that gantry took over from the default provider.
fn differences<'a>(before: &'a [String], after: &'a [String]) -> Vec<(&'a String, &'a String)> {
    assert_eq!(before.len(), after.len());
    let taken = |(before, after): &(&String, &String)| {
        let parts = before.strip_suffix("default").zip(after.strip_suffix("gantry"));
        before == after || parts.is_some_and(|(before, after)| before == after)
    };
    before.iter().zip(after).filter(|pair| !taken(pair)).collect()
}

/// Queries `fips=yes`, once by the configuration and once by the program. The only provider except gantry is the default provider.
fn nothing_of_gantry_is_validated(installed: &Installed, release: &Release) {
    let conf = installed.configuration(&installed.module(), EVERYTHING);
    let everything = fs::read_to_string(&conf).unwrap();
    let wanted = everything.replace("default_properties = ", "default_properties = fips=yes,");
    for (text, query) in [(&everything, "fips=yes\t"), (&wanted, "\t")] {
        let answers = release.answers(&installed.write("openssl.cnf", text));
        let matching: Vec<_> =
            answers.iter().filter(|line| line.starts_with(query) && !line.starts_with("\tR")).collect();
        assert!(matching.len() > 30 && matching.iter().all(|line| line.ends_with("\tnobody")), "{matching:#?}");
    }
    // gantry is active, and serves queries without fips.
    let others = release.answers(&installed.write("openssl.cnf", &wanted));
    assert!(others.iter().any(|line| line == "-fips\tCIPHER AES-128-GCM\tgantry"), "{others:#?}");
}

#[test]
fn each_algorithm_keeps_its_provider_here() {
    let installed = Installed::new("providers");
    stubs(&installed);
    let release = of_this_machine(&installed);
    each_algorithm_keeps_its_provider(&installed, &release);
    nothing_of_gantry_is_validated(&installed, &release);
}

/// Uses Debian's own fips and pkcs11 providers.
#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn each_algorithm_keeps_its_provider_in_3_5_and_4_0() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/openssl-command");
    for series in ["3.5", "4.0"] {
        let fetched = Command::new(&script).arg(series).output().unwrap();
        assert!(fetched.status.success(), "{}", text(&fetched.stderr));
        let openssl = PathBuf::from(text(&fetched.stdout).trim());
        let folder = openssl.parent().unwrap();
        let found = |name: &str| {
            let found = Command::new("find").arg(folder).args(["-type", "f", "-name", name]).output().unwrap();
            text(&found.stdout).lines().next().map(PathBuf::from)
        };
        let installed = Installed::new(&format!("providers-{series}"));
        stubs(&installed);
        let lister = installed.0.join("who");
        let libcrypto = found("libcrypto.so.*").unwrap().display().to_string();
        compile("who.c", &lister, &[libcrypto, "-Wl,--allow-shlib-undefined".to_owned()]);
        // The real pkcs11 provider loads this machine's tokens, and SoftHSM crashes OpenSSL 3.5 even without gantry.
        let has_softhsm = Path::new("/usr/lib/x86_64-linux-gnu/softhsm").exists();
        for name in ["fips.so", "pkcs11.so"] {
            if let Some(real) = found(name).filter(|_| name == "fips.so" || !has_softhsm) {
                fs::copy(real, installed.0.join(name)).unwrap();
            }
        }
        let fips = installed.0.join("fips.so");
        let install = Command::new(&openssl).arg("fipsinstall").arg("-module").arg(&fips).output().unwrap();
        assert!(install.status.success(), "{}", text(&install.stderr));
        let lines: String = text(&install.stdout)
            .lines()
            .filter(|line| line.contains(" = ") && !line.starts_with("activate"))
            .flat_map(|line| [line, "\n"])
            .collect();
        let release =
            Release { run: Some(folder.join("run")), lister, fips: format!("module = {}\n{lines}", fips.display()) };
        each_algorithm_keeps_its_provider(&installed, &release);
        nothing_of_gantry_is_validated(&installed, &release);
        measured_algorithms_are_served(&installed, &release, series);
    }
}

/// In later releases, the provider serves little without lists of algorithms, so `config` must measure with such a release, and not with
/// the release of this machine.
fn measured_algorithms_are_served(installed: &Installed, release: &Release, series: &str) {
    let file = installed.write("measured.cnf", "");
    let folder = release.run.as_ref().unwrap().parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let arguments = ["openssl", "config", "--file", file.to_str().unwrap()];
    let output = installed.command(Path::new("/dev/null"), &arguments).env("PATH", &path).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let new = fs::read_to_string(&file).unwrap();
    assert!(new.contains(&format!("# Measured with openssl {series}: ")), "{new}");
    // Gantry's Ed25519 is faster than OpenSSL's in every release, even in a debug build.
    assert!(new.contains("\nSIGNATURES = ED25519\n"), "{new}");
    assert!(release.answers(&file).iter().any(|line| line == "\tSIGNATURE ED25519\tgantry"));
    let message = installed.command(&file, &["advise"]).env("PATH", &path).output().unwrap();
    let message = text(&message.stdout);
    let line = message.lines().find(|line| line.starts_with("Signatures") && line.contains("SLH-DSA"));
    assert!(line.is_some_and(|line| line.contains("OpenSSL") && line.contains("not measured")), "{message}");
    assert!(message.lines().count() <= 30, "{message}");
}
