//! The kernel's list of crypto drivers: `/proc/crypto`, parsed and interpreted.
//!
//! The kernel has a name for each algorithm (`cbc(aes)`), and one for each driver of it (`cbc-aes-aesni`). It uses the driver with the
//! highest priority. It does not say where a driver computes. A driver's flag `async` does not show it either: the CPU's SIMD drivers have
//! the flag too, because they may hand work to a kernel thread. `Catalogue::engine` takes a driver with the flag for an engine's, except
//! SIMD drivers: they have an internal twin (`__cbc-aes-aesni`), or their module uses `cryptd` or `crypto_simd`. It judges a template
//! (`ccm_base(ctr-aes-aesni,...)`) by its parts.

use std::fs;
use std::io;

/// A driver, as `/proc/crypto` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The algorithm: `cbc(aes)`.
    pub name: String,
    /// The driver: `cbc-aes-aesni`.
    pub driver: String,
    /// The module of the driver; `kernel` if it is built in.
    pub module: String,
    /// Among drivers for one name, the highest priority wins.
    pub priority: i32,
    /// `skcipher`, `aead`, `shash`, `ahash`, `rng`, ...
    pub kind: String,
    /// True if the driver may answer later. It may still compute on the CPU.
    pub asynchronous: bool,
    /// True if the driver is only a part of other drivers, and not available by itself.
    pub internal: bool,
    /// True if the driver has passed the kernel's self-test.
    pub passed_self_test: bool,
}

impl Entry {
    /// Returns AF_ALG's type for this kind: `hash`, `skcipher`, `aead` or `rng`; `None` if there is none.
    pub fn socket_type(&self) -> Option<&'static str> {
        match self.kind.as_str() {
            "ahash" | "shash" => Some("hash"),
            "skcipher" | "lskcipher" => Some("skcipher"),
            "aead" => Some("aead"),
            "rng" => Some("rng"),
            _ => None,
        }
    }

    /// Returns the names inside a template's driver name: `aes-generic` for `cbc(aes-generic)`.
    fn parts(&self) -> impl Iterator<Item = &str> {
        let arguments = self.driver.split_once('(').map_or("", |(_, arguments)| arguments);
        arguments.split(['(', ')', ',']).filter(|part| !part.is_empty())
    }

    fn is_template(&self) -> bool {
        self.driver.contains('(')
    }
}

/// The place where a driver computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// On this CPU.
    Cpu,
    /// Off the CPU, in the engine that this module drives.
    Module(String),
    /// Partly in an engine and partly on this CPU: a template around an engine's driver.
    Mixed,
    /// Nowhere by itself: the driver is internal, or is a queue in front of another driver.
    None,
}

/// Prefixes of the names of drivers that use an engine but lack the flag `async`: the driver of AMD's Geode LX waits for its engine.
const SYNCHRONOUS_ENGINES: &[&str] = &["geode-"];

/// All drivers of a running kernel.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The drivers in the kernel's order.
    pub entries: Vec<Entry>,
    /// Modules that use `cryptd` or `crypto_simd`.
    simd_modules: Vec<String>,
}

impl Catalogue {
    /// Reads the catalogue of this machine. Algorithms that no program has used yet may be missing, because the kernel makes templates on
    /// demand.
    ///
    /// # Errors
    /// There is no `/proc/crypto`.
    pub fn read() -> io::Result<Self> {
        let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
        Ok(Self::parse(&fs::read_to_string("/proc/crypto")?, &modules))
    }

    /// Parses the texts of `/proc/crypto` and `/proc/modules`.
    pub fn parse(crypto: &str, modules: &str) -> Self {
        let mut entries = Vec::new();
        for paragraph in crypto.split("\n\n") {
            let mut entry = Entry::default();
            for (key, value) in paragraph.lines().filter_map(|line| line.split_once(':')) {
                let value = value.trim();
                match key.trim() {
                    "name" => value.clone_into(&mut entry.name),
                    "driver" => value.clone_into(&mut entry.driver),
                    "module" => value.clone_into(&mut entry.module),
                    "priority" => entry.priority = value.parse().unwrap_or(0),
                    "type" => value.clone_into(&mut entry.kind),
                    "async" => entry.asynchronous = value == "yes",
                    "internal" => entry.internal = value == "yes",
                    "selftest" => entry.passed_self_test = value == "passed",
                    _ => {}
                }
            }
            if !entry.driver.is_empty() {
                entries.push(entry);
            }
        }
        let simd_modules = (modules.lines())
            .filter_map(|line| {
                // Name, size, number of users, users: "cryptd 28672 2 crypto_simd,ghash_clmulni_intel, Live 0x0".
                let mut fields = line.split(' ');
                matches!(fields.next()?, "cryptd" | "crypto_simd").then(|| fields.nth(2)).flatten()
            })
            .flat_map(|users| users.split(','))
            .filter(|user| !user.is_empty() && *user != "-")
            .map(str::to_owned)
            .collect();
        Self { entries, simd_modules }
    }

    /// Returns the place where a driver computes.
    pub fn engine(&self, entry: &Entry) -> Engine {
        let is_queue = ["cryptd(", "pcrypt("].iter().any(|prefix| entry.driver.starts_with(prefix));
        if entry.internal || is_queue {
            return Engine::None;
        }
        if entry.is_template() {
            let find = |part: &str| self.entries.iter().find(|other| other.driver == part);
            let has_engine_part = entry.parts().filter_map(find).any(|part| self.is_off_cpu(part));
            return if has_engine_part { Engine::Mixed } else { Engine::Cpu };
        }
        if self.is_off_cpu(entry) { Engine::Module(module_name(entry)) } else { Engine::Cpu }
    }

    /// Returns a name's drivers that AF_ALG offers under this type, in the kernel's order of preference.
    pub fn candidates(&self, socket_type: &str, name: &str) -> Vec<&Entry> {
        let fits = |entry: &&Entry| entry.name == name && !entry.internal && entry.socket_type() == Some(socket_type);
        let mut found: Vec<&Entry> = self.entries.iter().filter(fits).collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.priority));
        found
    }

    /// Returns a name that makes the kernel compute the algorithm `name` on the CPU only: `cbc(aes)` may select an engine, but
    /// `cbc(aes-generic)` never does.
    pub(crate) fn compose_on_cpu(&self, name: &str) -> Option<String> {
        let (template, list) = name.strip_suffix(')')?.split_once('(')?;
        let parts: Option<Vec<String>> = arguments(list).map(|part| self.best_cpu_driver(part)).collect();
        Some(format!("{template}({})", parts?.join(",")))
    }

    fn best_cpu_driver(&self, name: &str) -> Option<String> {
        let fits = |entry: &&Entry| entry.name == name && self.engine(entry) == Engine::Cpu;
        let best = self.entries.iter().filter(fits).max_by_key(|entry| entry.priority);
        best.map(|entry| entry.driver.clone()).or_else(|| self.compose_on_cpu(name))
    }

    fn is_off_cpu(&self, entry: &Entry) -> bool {
        // The kernel reports the flag `async` for hashes, ciphers and AEADs, but not for RSA, so the other drivers of the module count too.
        let same_module = |other: &&Entry| entry.module != "kernel" && other.module == entry.module;
        self.is_marked_off_cpu(entry)
            || self.entries.iter().filter(same_module).any(|other| self.is_marked_off_cpu(other))
    }

    /// Returns whether the driver's own entry shows that it computes off the CPU.
    fn is_marked_off_cpu(&self, entry: &Entry) -> bool {
        let twin = format!("__{}", entry.driver);
        SYNCHRONOUS_ENGINES.iter().any(|prefix| entry.driver.starts_with(prefix))
            || entry.asynchronous
                && !entry.is_template()
                && !self.simd_modules.contains(&entry.module)
                && !self.entries.iter().any(|other| other.internal && other.driver == twin)
    }
}

/// Returns the module of a driver, or the first word of its name if it is built in.
fn module_name(entry: &Entry) -> String {
    if entry.module == "kernel" {
        entry.driver.split(['-', '_']).next().unwrap_or_default().to_owned()
    } else {
        entry.module.clone()
    }
}

/// Returns the arguments of a template, which may be templates: `hmac(sha256),cbc(aes)`.
fn arguments(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    list.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, driver: &str, module: &str, kind: &str, flags: &str) -> String {
        let (asynchronous, internal) = (flags.contains('a'), flags.contains('i'));
        let word = |yes| if yes { "yes" } else { "no" };
        format!(
            "name         : {name}\ndriver       : {driver}\nmodule       : {module}\npriority     : 400\n\
             refcnt       : 1\nselftest     : passed\ninternal     : {}\ntype         : {kind}\nasync        : {}\n\n",
            word(internal),
            word(asynchronous)
        )
    }

    fn catalogue() -> Catalogue {
        let crypto = [
            entry("cbc(aes)", "virtio_crypto_aes_cbc", "virtio_crypto", "skcipher", "a"),
            entry("rsa", "virtio-crypto-rsa", "virtio_crypto", "akcipher", ""),
            entry("__cbc(aes)", "__cbc-aes-aesni", "aesni_intel", "skcipher", "i"),
            entry("__cbc(aes)", "cryptd(__cbc-aes-aesni)", "cryptd", "skcipher", "ai"),
            entry("cbc(aes)", "cbc-aes-aesni", "aesni_intel", "skcipher", "a"),
            entry("cbc(aes)", "cbc-aes-neonbs", "kernel", "skcipher", "a"),
            entry("__cbc(aes)", "__cbc-aes-neonbs", "kernel", "skcipher", "i"),
            entry("ghash", "ghash-clmulni", "ghash_clmulni_intel", "ahash", "a"),
            entry("aes", "aes-generic", "kernel", "cipher", ""),
            entry("hmac(sha256)", "hmac(sha256-avx2)", "kernel", "shash", ""),
            entry("cbc(aes)", "cbc-aes-caam", "kernel", "skcipher", "a"),
            entry("cbc(aes)", "geode-cbc-aes", "geode_aes", "skcipher", ""),
            entry(
                "authenc(hmac(sha256),cbc(aes))",
                "authenc(hmac(sha256-avx2),virtio_crypto_aes_cbc)",
                "authenc",
                "aead",
                "a",
            ),
            entry("ccm(aes)", "ccm_base(ctr-aes-aesni,cbcmac(aes-aesni))", "ccm", "aead", "a"),
        ];
        let modules = "cryptd 28672 2 crypto_simd,ghash_clmulni_intel, Live 0x0000000000000000\n\
                       crypto_simd 16384 1 aesni_intel, Live 0x0000000000000000\nvirtio_crypto 45056 0 - Live 0x0\n";
        Catalogue::parse(&crypto.concat(), modules)
    }

    #[test]
    fn an_asynchronous_driver_is_not_always_an_engine() {
        let catalogue = catalogue();
        let engine =
            |driver: &str| catalogue.engine(catalogue.entries.iter().find(|entry| entry.driver == driver).unwrap());
        for driver in [
            "cbc-aes-aesni",
            "cbc-aes-neonbs",
            "ghash-clmulni",
            "aes-generic",
            "hmac(sha256-avx2)",
            "ccm_base(ctr-aes-aesni,cbcmac(aes-aesni))",
        ] {
            assert_eq!(engine(driver), Engine::Cpu, "{driver}");
        }
        for (driver, module) in
            [("virtio_crypto_aes_cbc", "virtio_crypto"), ("geode-cbc-aes", "geode_aes"), ("cbc-aes-caam", "cbc")]
        {
            assert_eq!(engine(driver), Engine::Module(module.into()), "{driver}");
        }
        for driver in ["__cbc-aes-aesni", "cryptd(__cbc-aes-aesni)"] {
            assert_eq!(engine(driver), Engine::None, "{driver}");
        }
        assert_eq!(engine("authenc(hmac(sha256-avx2),virtio_crypto_aes_cbc)"), Engine::Mixed);
    }

    #[test]
    fn names_are_composed_of_drivers_on_the_cpu() {
        let mut catalogue = catalogue();
        catalogue.entries.retain(|entry| !matches!(entry.driver.as_str(), "cbc-aes-aesni" | "cbc-aes-neonbs"));
        assert_eq!(catalogue.compose_on_cpu("cbc(aes)").as_deref(), Some("cbc(aes-generic)"));
        let name = "authenc(hmac(sha256),cbc(aes))";
        assert_eq!(catalogue.compose_on_cpu(name).as_deref(), Some("authenc(hmac(sha256-avx2),cbc(aes-generic))"));
        assert_eq!(catalogue.compose_on_cpu("cbc(des3_ede)"), None);
        assert_eq!(catalogue.compose_on_cpu("sha256"), None);
    }

    #[test]
    fn parses_malformed_lists() {
        let found = catalogue();
        let drivers: Vec<&str> = found.candidates("hash", "ghash").iter().map(|entry| entry.driver.as_str()).collect();
        assert_eq!(drivers, ["ghash-clmulni"]);
        assert!(found.entries[0].asynchronous && found.entries[0].passed_self_test && !found.entries[0].internal);
        for text in ["", "\n\n\n", "name : x", ":::", "driver\n\n: : :\n", "driver : \u{fffd}\npriority : many"] {
            assert!(Catalogue::parse(text, text).entries.len() <= 1);
        }
    }
}
