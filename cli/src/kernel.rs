//! `gantry kernel`: the kernel's crypto drivers, and their use for programs.

mod verdict;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gantry_core::Algorithm;
use gantry_runtime::kernel::{Catalogue, Engine, Entry, try_bind};
use serde::Serialize;

use crate::args::Kernel;
use crate::output::{Failure, Output};
use crate::table::Table;

pub(crate) fn run(args: &Kernel, output: &mut Output) -> Result<(), Failure> {
    let report = KernelReport::of_this_machine(args.algorithm.as_deref())?;
    if args.json { output.json(&report) } else { output.write(&report.text()) }
}

/// CPU instructions that replace an engine.
struct Instructions {
    /// A part of the kernel's name of an algorithm.
    part: &'static str,
    /// Flags of `/proc/cpuinfo` (x86, then ARM), best first.
    flags: &'static [&'static str],
    /// The kernel modules that use these instructions, on x86-64 and on aarch64; empty if there is none.
    modules: [&'static str; 2],
}

const fn row(part: &'static str, flags: &'static [&'static str], modules: [&'static str; 2]) -> Instructions {
    Instructions { part, flags, modules }
}

/// The first row whose part is in the name of an algorithm counts.
const INSTRUCTIONS: &[Instructions] = &[
    row("gcm(aes", &["vpclmulqdq", "pclmulqdq", "pmull"], ["aesni_intel", "ghash_ce"]),
    row("ghash", &["pclmulqdq", "pmull"], ["ghash_clmulni_intel", "ghash_ce"]),
    row("aes", &["vaes", "aes"], ["aesni_intel", "aes_ce_blk"]),
    row("sha1", &["sha_ni", "sha1"], ["sha1_ssse3", "sha1_ce"]),
    row("sha224", &["sha_ni", "sha2"], ["sha256_ssse3", "sha2_ce"]),
    row("sha256", &["sha_ni", "sha2"], ["sha256_ssse3", "sha2_ce"]),
    row("sha384", &["sha512"], ["sha512_ssse3", "sha512_ce"]),
    row("sha512", &["sha512"], ["sha512_ssse3", "sha512_ce"]),
    row("sha3-", &["sha3"], ["", "sha3_ce"]),
    row("sm3", &["sm3"], ["sm3_avx_x86_64", "sm3_ce"]),
    row("sm4", &["sm4"], ["sm4_aesni_avx_x86_64", "sm4_ce"]),
];

#[derive(Serialize)]
struct KernelReport {
    /// A summary of the other fields in at most five lines.
    verdict: Vec<String>,
    kernel: String,
    dev_crypto: bool,
    /// For each AF_ALG type, the reason why it does not work; `null` if it works.
    af_alg: BTreeMap<&'static str, Option<String>>,
    /// Instructions of this CPU that can replace an engine.
    instructions: Vec<&'static str>,
    /// Algorithms of engines, by the module that drives the engine.
    engines: BTreeMap<String, Vec<EngineAlgorithm>>,
    algorithms: Vec<Row>,
}

#[derive(Serialize)]
struct EngineAlgorithm {
    name: String,
    driver: String,
    /// True if the kernel prefers the engine to the CPU.
    preferred: bool,
    /// Instructions of this CPU for the same algorithm.
    instructions: Option<&'static str>,
    /// Gantry's device for the algorithm, if AF_ALG is turned on; `null` if programs cannot reach the engine.
    device: Option<String>,
}

/// An algorithm of the kernel.
#[derive(Serialize)]
struct Row {
    name: String,
    /// The AF_ALG type of the algorithm; `null` if only the kernel can use the algorithm.
    af_alg: Option<&'static str>,
    /// Highest priority first; the kernel prefers the first.
    drivers: Vec<DriverRow>,
}

/// A driver of the kernel.
#[derive(Serialize)]
struct DriverRow {
    driver: String,
    module: String,
    priority: i32,
    asynchronous: bool,
    /// The part that computes: `cpu`, the module of an engine, or `both` for a template around an engine.
    computes: String,
}

impl KernelReport {
    fn of_this_machine(only: Option<&str>) -> Result<Self, Failure> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let af_alg = [("hash", "sha256"), ("skcipher", "cbc(aes)"), ("aead", "gcm(aes)"), ("rng", "stdrng")]
            .map(|(kind, name)| (kind, try_bind(kind, name).err()));
        // The tests above made the kernel create algorithms on request, so read the catalogue after them.
        let catalogue = Catalogue::read()
            .map_err(|error| Failure::Failed(format!("/proc/crypto: {error}; this kernel has no crypto drivers")))?;
        let reaches = |entry: &Entry| entry.socket_type().is_some_and(|kind| try_bind(kind, &entry.driver).is_ok());
        let mut report = Self::new(&catalogue, only, &read("/proc/cpuinfo"), &reaches);
        read("/proc/sys/kernel/osrelease").trim().clone_into(&mut report.kernel);
        report.dev_crypto = Path::new("/dev/crypto").exists();
        report.af_alg = af_alg.into_iter().collect();
        if report.algorithms.is_empty() {
            let name = only.unwrap_or("anything");
            return Err(Failure::Failed(format!(
                "the kernel has no driver for {name} now; it may load one on request"
            )));
        }
        report.verdict = verdict::lines(&report);
        Ok(report)
    }

    /// Creates the report. `reaches` returns true if AF_ALG offers a driver to programs.
    fn new(catalogue: &Catalogue, only: Option<&str>, cpuinfo: &str, reaches: &dyn Fn(&Entry) -> bool) -> Self {
        let instructions = instructions(cpuinfo);
        let mut names: Vec<&Entry> = catalogue
            .entries
            .iter()
            .filter(|entry| catalogue.engine(entry) != Engine::None && is_wanted(&entry.name, only))
            .collect();
        names.sort_unstable_by(|a, b| (a.socket_type().is_none(), &a.name).cmp(&(b.socket_type().is_none(), &b.name)));
        names.dedup_by(|a, b| a.name == b.name);

        let mut engines: BTreeMap<String, Vec<EngineAlgorithm>> = BTreeMap::new();
        let mut algorithms = Vec::new();
        for Entry { name, .. } in &names {
            let mut drivers: Vec<(&Entry, Engine)> = (catalogue.entries.iter())
                .filter(|entry| entry.name == *name)
                .map(|entry| (entry, catalogue.engine(entry)))
                .filter(|(_, engine)| *engine != Engine::None)
                .collect();
            drivers.sort_by_key(|(entry, _)| std::cmp::Reverse(entry.priority));
            for (index, (entry, engine)) in drivers.iter().enumerate() {
                let Engine::Module(module) = engine else { continue };
                let is_supported = Algorithm::ALL.iter().any(|algorithm| algorithm.info().kernel == entry.name);
                engines.entry(module.clone()).or_default().push(EngineAlgorithm {
                    name: entry.name.clone(),
                    driver: entry.driver.clone(),
                    preferred: index == 0,
                    instructions: matching_instruction(name, &instructions),
                    device: (is_supported && reaches(entry)).then(|| format!("afalg:{module}")),
                });
            }
            let af_alg = drivers.iter().find_map(|(entry, _)| entry.socket_type());
            let drivers = drivers.iter().map(|(entry, engine)| DriverRow {
                driver: entry.driver.clone(),
                module: entry.module.clone(),
                priority: entry.priority,
                asynchronous: entry.asynchronous,
                computes: computing_part(engine),
            });
            algorithms.push(Row { name: name.clone(), af_alg, drivers: drivers.collect() });
        }
        let (verdict, kernel, af_alg) = (Vec::new(), String::new(), BTreeMap::new());
        Self { verdict, kernel, dev_crypto: false, af_alg, instructions, engines, algorithms }
    }

    fn text(&self) -> String {
        let mut lines = self.verdict.clone();
        lines.push(String::new());
        lines.push(self.table());
        lines.push(
            "The kernel prefers the first driver of an algorithm, which has the highest priority. AF_ALG can use any."
                .into(),
        );
        for (module, algorithms) in &self.engines {
            lines.push(format!("\nThe engine of {module}:"));
            lines.extend(algorithms.iter().map(|algorithm| format!("  {}: {}", algorithm.name, algorithm.verdict())));
        }
        lines.join("\n") + "\n"
    }

    fn table(&self) -> String {
        let mut table = Table::new(&["ALGORITHM", "DRIVER", "PRIORITY", "COMPUTES", "PROGRAMS REACH IT BY"], &[2]);
        for row in &self.algorithms {
            let access_path = self.access_path(row);
            for (index, driver) in row.drivers.iter().enumerate() {
                let (name, access_path) = if index == 0 { (row.name.as_str(), access_path) } else { ("", "") };
                let computes = match driver.computes.as_str() {
                    "cpu" => "on the CPU".to_owned(),
                    "both" => "partly in an engine".to_owned(),
                    module => format!("in the engine of {module}"),
                };
                table.add_row([
                    name.into(),
                    driver.driver.clone(),
                    driver.priority.to_string(),
                    computes,
                    access_path.into(),
                ]);
            }
        }
        table.render()
    }

    fn access_path(&self, row: &Row) -> &'static str {
        match row.af_alg {
            Some(kind) if self.af_alg.get(kind).is_some_and(Option::is_some) => "AF_ALG, which does not work here",
            Some(_) if self.dev_crypto => "AF_ALG, /dev/crypto",
            Some(_) => "AF_ALG",
            None => "nothing: for the kernel only",
        }
    }
}

impl EngineAlgorithm {
    fn verdict(&self) -> String {
        let Some(device) = &self.device else { return "for the kernel only; programs cannot use it".to_owned() };
        let preferred = if self.preferred { "preferred by the kernel" } else { "not preferred by the kernel" };
        let worth = match self.instructions {
            Some(flag) => format!(
                "this CPU has instructions for it ({flag}), so an engine may only win on large requests or CPU time, \
                 or not at all"
            ),
            None => "this CPU has no instructions for it, so the engine may be faster".to_owned(),
        };
        format!(
            "{preferred}; {worth}. To measure: gantry speed --devices afalg=on --device {device},software {}",
            self.name
        )
    }
}

fn is_wanted(name: &str, only: Option<&str>) -> bool {
    only.is_none_or(|only| {
        // Accept Gantry's names and the kernel's.
        let algorithms = Algorithm::matching(only).unwrap_or_default();
        name == only || algorithms.iter().any(|algorithm| algorithm.info().kernel == name)
    })
}

fn computing_part(engine: &Engine) -> String {
    match engine {
        Engine::Cpu | Engine::None => "cpu".to_owned(),
        Engine::Mixed => "both".to_owned(),
        Engine::Module(module) => module.clone(),
    }
}

/// Returns the relevant flags of `/proc/cpuinfo`.
fn instructions(cpuinfo: &str) -> Vec<&'static str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags: Vec<&str> =
        line.and_then(|line| line.split_once(':')).map_or("", |(_, flags)| flags).split(' ').collect();
    let mut found: Vec<&str> =
        INSTRUCTIONS.iter().flat_map(|row| row.flags).copied().filter(|known| flags.contains(known)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn matching_instruction(name: &str, instructions: &[&'static str]) -> Option<&'static str> {
    let row = INSTRUCTIONS.iter().find(|row| name.contains(row.part))?;
    row.flags.iter().find(|flag| instructions.contains(flag)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, driver: &str, module: &str, priority: i32, kind: &str, flags: &str) -> String {
        let yes = |flag| if flags.contains(flag) { "yes" } else { "no" };
        format!(
            "name : {name}\ndriver : {driver}\nmodule : {module}\npriority : {priority}\ninternal : {}\ntype : {kind}\n\
             async : {}\n\n",
            yes('i'),
            yes('a')
        )
    }

    fn report(only: Option<&str>, flags: &str) -> KernelReport {
        let crypto = [
            entry("cbc(aes)", "virtio_crypto_aes_cbc", "virtio_crypto", 150, "skcipher", "a"),
            entry("__cbc(aes)", "__cbc-aes-aesni", "aesni_intel", 400, "skcipher", "i"),
            entry("cbc(aes)", "cbc-aes-aesni", "aesni_intel", 400, "skcipher", "a"),
            entry("rsa", "virtio-crypto-rsa", "virtio_crypto", 150, "akcipher", "a"),
            entry("md5", "md5-generic", "kernel", 0, "shash", ""),
        ];
        KernelReport::new(
            &Catalogue::parse(&crypto.concat(), ""),
            only,
            &format!("processor : 0\nflags : {flags}\n"),
            &|_| true,
        )
    }

    #[test]
    fn drivers_are_sorted_by_priority_and_engines_are_recognised() {
        let report = report(None, "fpu");
        let names: Vec<&str> = report.algorithms.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["cbc(aes)", "md5", "rsa"], "algorithms for programs first; no internal ones");
        let drivers: Vec<(&str, &str)> =
            report.algorithms[0].drivers.iter().map(|row| (row.driver.as_str(), row.computes.as_str())).collect();
        assert_eq!(drivers, [("cbc-aes-aesni", "cpu"), ("virtio_crypto_aes_cbc", "virtio_crypto")]);
        let engine = &report.engines["virtio_crypto"];
        assert!(engine[0].device.as_deref() == Some("afalg:virtio_crypto") && !engine[0].preferred);
        assert_eq!(engine[1].device, None, "Gantry does not have rsa");
    }

    #[test]
    fn instructions_of_the_cpu_are_weighed_against_an_engine() {
        assert!(
            report(None, "fpu").text().contains("cbc(aes): not preferred by the kernel; this CPU has no instructions")
        );
        let text = report(None, "fpu aes sha_ni").text();
        assert!(text.contains("this CPU has instructions for it (aes)"), "{text}");
        assert!(text.contains("rsa: for the kernel only"), "{text}");
        assert_eq!(report(None, "aes vaes").engines["virtio_crypto"][0].instructions, Some("vaes"));
        assert!(instructions("").is_empty());
    }

    #[test]
    fn finds_an_algorithm_by_its_kernel_name_or_gantrys() {
        for name in ["cbc(aes)", "aes-128-cbc"] {
            let report = report(Some(name), "");
            assert_eq!(report.algorithms.len(), 1, "{name}");
            assert_eq!(report.algorithms[0].name, "cbc(aes)");
        }
        assert!(report(Some("sha3-256"), "").algorithms.is_empty());
    }
}
