//! The provider's section of `openssl.cnf`, and the environment.

use std::path::PathBuf;

use gantry_core::driver::Class;
use gantry_core::route::SizeSet;
use gantry_core::{Algorithm, same_name};
use gantry_runtime::rights::variable;
use gantry_runtime::{Config, suggest};

use crate::table::{KEY_PAIR_ALGORITHMS, Mode, Row, SIGNATURE_ROWS};

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct Settings {
    pub(crate) ciphers: Selection,
    pub(crate) signatures: Selection,
    pub(crate) exchanges: Selection,
    pub(crate) derivations: Selection,
    /// The four selections as configured. While a `gantry` command counts or measures, the four fields above select everything.
    configured: [Selection; 4],
    pub(crate) soft_drivers: SoftDrivers,
    /// True if we serve TLS groups.
    pub(crate) groups: bool,
    /// True if every operation of this provider fails.
    pub(crate) force_fail: bool,
    /// True if a `gantry` command reads the counters. Algorithms that the configuration leaves out are then offered too: we count their
    /// requests, and the default provider runs them.
    pub(crate) counts_all: bool,
    /// The output file of measurements for `gantry advise` and `gantry openssl config`, and the algorithms to measure, if not all.
    pub(crate) measure: Option<(PathBuf, Option<String>)>,
    pub(crate) runtime: Config,
    /// True if the configuration names a policy: its routes are followed for requests of every size.
    pub(crate) has_named_policy: bool,
}

/// The algorithms of a kind that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Default: the algorithms that are known to gain.
    Faster,
    /// `ALL` without a named policy or device: the algorithms that may gain on devices that every machine has.
    MaybeFaster,
    All,
    None,
    /// Gantry's algorithms, and OpenSSL's names, which select the rows that have no algorithm of Gantry.
    Named(Vec<Algorithm>, Vec<String>),
}

impl Selection {
    /// Returns true if a row is served under OpenSSL release `version`.
    pub(crate) fn serves(&self, row: &Row, version: (u32, u32)) -> bool {
        match self {
            Selection::Faster => row.faster_before.is_some_and(|release| version < release),
            Selection::MaybeFaster => row.may_be_faster(version),
            Selection::All => true,
            Selection::None => false,
            Selection::Named(algorithms, names) => match row.algorithm {
                Some(algorithm) => algorithms.contains(&algorithm),
                None => names.iter().any(|name| name.eq_ignore_ascii_case(row.name)),
            },
        }
    }
}

/// `USE_SOFTDRIVERS`, with the devcrypto engine's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoftDrivers {
    /// 0: hardware only.
    Never,
    /// 1: any device.
    Allowed,
    /// 2: hardware, and the kernel's drivers, some of which may be software.
    Kernel,
}

impl SoftDrivers {
    pub(crate) fn allows(self, class: Class) -> bool {
        match class {
            Class::Hardware | Class::Gpu | Class::Model => true,
            Class::Kernel => self != SoftDrivers::Never,
            // Software, SIMD, and classes that are unknown here.
            _ => self == SoftDrivers::Allowed,
        }
    }
}

/// The keys of the provider's section in `openssl.cnf`, each with a description of its values.
///
/// A provider can ask OpenSSL for the value of a key, but not for a list of the keys in its section. To find misspelt keys, a program must
/// read the file.
pub const CONFIG_KEYS: [(&str, &str); 11] = [
    ("CIPHERS", "ALL, NONE or names separated by commas"),
    ("SIGNATURES", "ALL, NONE or names separated by commas"),
    ("KEY_EXCHANGE", "ALL, NONE or names separated by commas"),
    ("KDFS", "ALL, NONE or names separated by commas"),
    ("TLS_GROUPS", "yes or no"),
    ("USE_SOFTDRIVERS", "0 (hardware only), 1 (any device) or 2 (hardware and kernel)"),
    ("DEVICES", "NAME=on or NAME=off, separated by commas"),
    ("POLICY", "the name of a policy, as in gantry.toml"),
    ("REQUIRE", "none or validated"),
    ("STATS", "auto, off, on or the absolute path of a folder"),
    ("FORCE_FAIL", "yes or no"),
];

/// Keys of earlier releases, which are ignored: OpenSSL itself serves digests and MACs.
pub const RETIRED_CONFIG_KEYS: [&str; 2] = ["DIGESTS", "MACS"];

/// Algorithm names of earlier releases, which are ignored likewise.
const RETIRED_ALGORITHM_NAMES: [&str; 3] = ["ECDSA", "RSA", "ECDH"];

impl Settings {
    /// Returns settings that serve nothing.
    pub(crate) fn serving_nothing() -> Self {
        Self {
            ciphers: Selection::None,
            signatures: Selection::None,
            exchanges: Selection::None,
            derivations: Selection::None,
            configured: [const { Selection::None }; 4],
            soft_drivers: SoftDrivers::Allowed,
            groups: false,
            force_fail: false,
            counts_all: false,
            measure: None,
            runtime: Config::default(),
            has_named_policy: false,
        }
    }

    /// Returns the sizes of requests that another device than the default provider may serve, until measurements are known.
    pub(crate) fn initial_sizes(&self) -> SizeSet {
        if self.has_named_policy { SizeSet::ALL } else { SizeSet::LARGE }
    }

    /// Reads the section through `value`, on top of Gantry's own files and variables. An error in the section is a sentence that names the
    /// key and the values it takes.
    pub(crate) fn read(value: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let runtime = Config::from_env().map_err(|error| error.to_string())?;
        let only = || variable(MEASURED_ALGORITHMS_VARIABLE).and_then(|only| only.into_string().ok());
        let measure = variable(REPORT_FILE_VARIABLE).map(|file| (file.into(), only()));
        let counts_all = gantry_runtime::stats::is_watched();
        Self { counts_all, measure, runtime, groups: true, ..Self::serving_nothing() }.with_section(value)
    }

    /// Applies the section on top of these settings.
    fn with_section(self, value: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut settings = self;
        settings.selections().into_iter().for_each(|selection| *selection = Selection::Faster);
        for (key, takes) in CONFIG_KEYS {
            if let Some(value) = value(key) {
                let problem = settings.set(key, value.trim());
                problem.map_err(|problem| {
                    let takes = if problem.ends_with('?') {
                        format!(" {key} takes {takes}")
                    } else {
                        format!("; it takes {takes}")
                    };
                    format!("{key} = {value}: {problem}{takes}")
                })?;
            }
        }
        let shown = settings.runtime.show();
        let mut named = shown.iter().filter(|shown| shown.origin != gantry_runtime::Origin::Default);
        settings.has_named_policy |= named.any(|shown| shown.key == "policy");
        let has_named_device = shown.iter().any(|shown| {
            shown.key.starts_with("devices.") && shown.value == "on" && shown.origin != gantry_runtime::Origin::Default
        });
        let all = if settings.has_named_policy || has_named_device { Selection::All } else { Selection::MaybeFaster };
        let (forces_failure, selects_all) = (settings.force_fail, settings.counts_all || settings.measure.is_some());
        settings.configured = settings.selections().map(|selection| {
            let configured = match &*selection {
                Selection::Faster if forces_failure => Selection::All,
                Selection::All if !forces_failure => all.clone(),
                other => other.clone(),
            };
            *selection = if selects_all { Selection::All } else { configured.clone() };
            configured
        });
        Ok(settings)
    }

    /// Returns true if the configuration itself selects a row, not only a `gantry` command that counts or measures. Key types are always
    /// selected.
    pub(crate) fn configuration_serves(&self, row: &Row, version: (u32, u32)) -> bool {
        // In the order of `CONFIG_KEYS`.
        let key = match row.mode {
            Mode::Aead(_) | Mode::Xts | Mode::Chain(_) => 0,
            Mode::Signature | Mode::SlhDsa => 1,
            Mode::Exchange => 2,
            Mode::Kdf(_) => 3,
            Mode::Kem | Mode::KeyType => return true,
        };
        self.configured[key].serves(row, version)
    }

    fn selections(&mut self) -> [&mut Selection; 4] {
        let Self { ciphers, signatures, exchanges, derivations, .. } = self;
        [ciphers, signatures, exchanges, derivations]
    }

    /// Returns the value of a key in Gantry's own configuration.
    fn runtime_value(&self, key: &str) -> Option<String> {
        self.runtime.show().into_iter().find(|shown| shown.key == key).map(|shown| shown.value)
    }

    /// Returns the device to which the policy pins all requests, if it pins them.
    pub(crate) fn pinned_device(&self) -> Option<String> {
        self.runtime_value("policy")?.strip_prefix("pin:").map(str::to_owned)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let wrong = || Err("not a value of this key".to_owned());
        match (key, value) {
            ("CIPHERS", list) => self.ciphers = parse_selection(list, &crate::table::CIPHERS)?,
            ("SIGNATURES", list) => self.signatures = parse_selection(list, &KEY_PAIR_ALGORITHMS[..SIGNATURE_ROWS])?,
            ("KEY_EXCHANGE", list) => self.exchanges = parse_selection(list, &KEY_PAIR_ALGORITHMS[SIGNATURE_ROWS..])?,
            ("KDFS", list) => self.derivations = parse_selection(list, &crate::table::KDFS)?,
            ("TLS_GROUPS", "yes") => self.groups = true,
            ("TLS_GROUPS", "no") => self.groups = false,
            ("USE_SOFTDRIVERS", "0") => self.soft_drivers = SoftDrivers::Never,
            ("USE_SOFTDRIVERS", "1") => self.soft_drivers = SoftDrivers::Allowed,
            ("USE_SOFTDRIVERS", "2") => self.soft_drivers = SoftDrivers::Kernel,
            ("DEVICES", value) => self.runtime.set("devices", value, "DEVICES").map_err(|error| error.to_string())?,
            ("POLICY", value) => {
                self.runtime.set("policy", value, "POLICY").map_err(|error| error.to_string())?;
                self.has_named_policy = true;
            }
            ("REQUIRE", value) => self.runtime.set("require", value, "REQUIRE").map_err(|error| error.to_string())?,
            ("STATS", value) => self.runtime.set("stats", value, "STATS").map_err(|error| error.to_string())?,
            ("FORCE_FAIL", "yes") => self.force_fail = true,
            ("FORCE_FAIL", "no") => self.force_fail = false,
            _ => return wrong(),
        }
        Ok(())
    }
}

/// The variable that names the output file of measurements.
pub const REPORT_FILE_VARIABLE: &str = "GANTRY_OPENSSL_MEASURED";

/// The variable that lists the algorithms to measure, separated by commas; without it, all are measured.
pub const MEASURED_ALGORITHMS_VARIABLE: &str = "GANTRY_OPENSSL_MEASURE";

/// Parses a list of algorithms by OpenSSL's names or ours, in any spelling. Each algorithm must be of a kind that `rows` has.
fn parse_selection(list: &str, rows: &[Row]) -> Result<Selection, String> {
    match list {
        "ALL" => return Ok(Selection::All),
        "NONE" => return Ok(Selection::None),
        _ => {}
    }
    let (mut algorithms, mut names) = (Vec::new(), Vec::new());
    for name in list.split([',', ' ', ':']).filter(|name| !name.is_empty()) {
        if let Some(row) = rows.iter().find(|row| same_name(row.name, name)) {
            algorithms.extend(row.algorithm);
            names.push(row.name.to_owned());
            continue;
        }
        // Earlier releases had rows with these names.
        if RETIRED_ALGORITHM_NAMES.iter().any(|retired| same_name(retired, name)) {
            names.push(name.to_owned());
            continue;
        }
        // Algorithms without a row stay with OpenSSL: naming one is not an error.
        let is_kind = |found: &Algorithm| rows.iter().any(|row| row.kind() == Some(found.kind()));
        let mut found = Algorithm::matching(name).unwrap_or_default().into_iter().filter(is_kind).peekable();
        if found.peek().is_none() {
            let known: Vec<_> = rows.iter().map(|row| row.name).collect();
            return Err(format!("'{name}' is not an algorithm of this kind{}", suggest(name, &known)));
        }
        algorithms.extend(found);
    }
    if algorithms.is_empty() && names.is_empty() {
        Err("the list is empty".to_owned())
    } else {
        Ok(Selection::Named(algorithms, names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{CIPHERS, KDFS};

    fn settings_of(section: &[(&str, &str)]) -> Result<Settings, String> {
        let value = |key: &str| Some(section.iter().find(|(name, _)| *name == key)?.1.to_owned());
        Settings::serving_nothing().with_section(value)
    }

    #[test]
    fn an_empty_section_serves_only_algorithms_that_are_faster() {
        let settings = settings_of(&[]).unwrap();
        let served = |version| {
            let rows = CIPHERS.iter().filter(|row| settings.ciphers.serves(row, version));
            rows.map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(served((3, 0)), ["AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "AES-256-XTS"]);
        assert_eq!(served((3, 2)), ["AES-256-XTS"]);
        assert!(served((4, 0)).is_empty());
        assert!(!settings.force_fail && !settings.counts_all);
    }

    #[test]
    fn lists_accept_names_of_openssl_and_of_gantry() {
        let settings = settings_of(&[("CIPHERS", "aes-128-cbc,DES3")]).unwrap();
        let serves = |name| settings.ciphers.serves(CIPHERS.iter().find(|row| row.name == name).unwrap(), (4, 0));
        assert!(serves("AES-128-CBC") && serves("DES-EDE3-CBC") && !serves("AES-256-CBC"));
        let settings = settings_of(&[("KDFS", "hkdf")]).unwrap();
        assert!(settings.derivations.serves(&KDFS[1], (4, 0)) && !settings.derivations.serves(&KDFS[0], (3, 0)));
    }

    #[test]
    fn names_have_any_spelling_and_wrong_ones_get_a_suggestion() {
        for name in ["AES-128-GCM", "aes-128-gcm", "AES128GCM", "aes_128_gcm", "id-aes128-GCM", "AES/128/GCM"] {
            let settings = settings_of(&[("CIPHERS", name)]).unwrap();
            let served = CIPHERS.iter().filter(|row| settings.ciphers.serves(row, (4, 0))).map(|row| row.name);
            assert_eq!(served.collect::<Vec<_>>(), ["AES-128-GCM"], "{name}");
        }
        for (key, name) in [("KDFS", "pbkdf-2"), ("SIGNATURES", "Ed-25519"), ("SIGNATURES", "slh_dsa_sha2_128s")] {
            assert!(settings_of(&[(key, name)]).is_ok(), "{name}");
        }
        for (key, name, end) in [
            (
                "CIPHERS",
                "aes-128-cbd",
                "did you mean AES-128-CBC? CIPHERS takes ALL, NONE or names separated by commas",
            ),
            ("KDFS", "pbkdf", "did you mean PBKDF2? KDFS takes ALL, NONE or names separated by commas"),
            ("KDFS", "argon2id", "there are PBKDF2, HKDF; it takes ALL, NONE or names separated by commas"),
        ] {
            let wrong = settings_of(&[(key, name)]).unwrap_err();
            assert_eq!(wrong, format!("{key} = {name}: '{name}' is not an algorithm of this kind; {end}"));
        }
    }

    /// Earlier releases served these.
    #[test]
    fn names_without_a_row_are_accepted() {
        for (key, value) in [
            ("CIPHERS", "AES-128-CCM"),
            ("SIGNATURES", "ECDSA,RSA"),
            ("KEY_EXCHANGE", "ECDH"),
            ("DIGESTS", "SHA2-256"),
            ("MACS", "HMAC"),
        ] {
            let settings = settings_of(&[(key, value), ("POLICY", "latency")]).unwrap();
            let rows = CIPHERS.iter().chain(&KEY_PAIR_ALGORITHMS);
            let named = rows.filter(|row| settings.configuration_serves(row, (4, 0)) && value.contains(row.name));
            assert_eq!(named.count(), 0, "{key} = {value}");
        }
        let mut settings = settings_of(&[("CIPHERS", "AES-128-CCM AES-128-GCM")]).unwrap();
        let [ciphers, ..] = settings.selections();
        assert_eq!(
            CIPHERS.iter().filter(|row| ciphers.serves(row, (4, 0))).map(|row| row.name).collect::<Vec<_>>(),
            ["AES-128-GCM"]
        );
    }

    #[test]
    fn all_selects_what_may_be_faster_unless_a_policy_or_device_is_named() {
        let all = ("CIPHERS", "ALL");
        let served = |more: &[(&str, &str)], version| {
            let settings = settings_of(&[&[all], more].concat()).unwrap();
            CIPHERS.iter().filter(|row| settings.ciphers.serves(row, version)).map(|row| row.name).collect::<Vec<_>>()
        };
        let cbc = ["AES-128-CBC", "AES-192-CBC", "AES-256-CBC"];
        assert_eq!(served(&[], (4, 0)), cbc);
        let gcm = ["AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "AES-256-XTS", "AES-128-XTS"];
        assert_eq!(served(&[], (3, 0)), gcm, "pipelines came with 3.5");
        for more in [("POLICY", "latency"), ("DEVICES", "afalg=on"), ("FORCE_FAIL", "yes")] {
            assert_eq!(served(&[more], (4, 0)).len(), CIPHERS.len(), "{more:?}");
        }
        assert_eq!(served(&[("DEVICES", "lanes=off")], (4, 0)), cbc);
        let served = |rows: &[Row]| {
            let rows = rows.iter().filter(|row| Selection::MaybeFaster.serves(row, (3, 0)));
            rows.map(|row| row.name).collect::<Vec<_>>()
        };
        // Among the devices that every machine has, only software serves these.
        let pairs: &[&str] = if cfg!(feature = "software") { &["ED25519", "X25519"] } else { &[] };
        assert_eq!(served(&KEY_PAIR_ALGORITHMS), pairs);
    }

    #[test]
    fn forced_failures_reach_every_algorithm_that_was_not_left_out() {
        let mut settings = settings_of(&[("FORCE_FAIL", "yes"), ("SIGNATURES", "NONE")]).unwrap();
        let mut expected = [const { Selection::All }; 4];
        expected[1] = Selection::None;
        assert_eq!(settings.selections().map(|selection| selection.clone()), expected);
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_values_of_its_key() {
        for (key, value) in [
            ("CIPHERS", "aes-128-cbd"),
            ("CIPHERS", "sha256"),
            ("CIPHERS", ""),
            ("SIGNATURES", "x25519"),
            ("KEY_EXCHANGE", "ed25519"),
            ("KDFS", "scrypt"),
            ("USE_SOFTDRIVERS", "3"),
            ("DEVICES", "lanes"),
            ("DEVICES", "software=off"),
            ("POLICY", "fastest"),
            ("REQUIRE", "fips"),
            ("STATS", "here"),
            ("FORCE_FAIL", "maybe"),
            ("TLS_GROUPS", "X25519"),
        ] {
            let error = settings_of(&[(key, value)]).unwrap_err();
            let takes = CONFIG_KEYS.iter().find(|(name, _)| *name == key).unwrap().1;
            assert!(error.starts_with(&format!("{key} = {value}: ")) && error.ends_with(takes), "{error}");
        }
    }
}
