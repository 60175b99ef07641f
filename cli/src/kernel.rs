//! `gantry kernel`: what the kernel's crypto drivers are, and what they are worth to a program.

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
    let view = View::of_this_machine(args.algorithm.as_deref())?;
    if args.json { output.json(&view) } else { output.write(&view.text()) }
}

/// Instructions that do the work of an engine: what stands in the kernel's name of an algorithm, and the flags of
/// `/proc/cpuinfo` (x86, then ARM), the best ones first.
const INSTRUCTIONS: &[(&str, &[&str])] = &[
    ("gcm(aes", &["vpclmulqdq", "pclmulqdq", "pmull"]),
    ("aes", &["vaes", "aes"]),
    ("sha1", &["sha_ni", "sha1"]),
    ("sha224", &["sha_ni", "sha2"]),
    ("sha256", &["sha_ni", "sha2"]),
    ("sha384", &["sha512"]),
    ("sha512", &["sha512"]),
    ("sha3-", &["sha3"]),
    ("sm3", &["sm3"]),
    ("sm4", &["sm4"]),
];

/// Everything that the command says.
#[derive(Serialize)]
struct View {
    kernel: String,
    /// `/dev/crypto` is there.
    dev_crypto: bool,
    /// By AF_ALG's types: why it does not work; `null` where it does.
    af_alg: BTreeMap<&'static str, Option<String>>,
    /// Instructions of this CPU that do an engine's work.
    instructions: Vec<&'static str>,
    /// Modules that drive engines, with the algorithms that they have.
    engines: BTreeMap<String, Vec<EngineAlgorithm>>,
    algorithms: Vec<Row>,
}

/// What an engine has.
#[derive(Serialize)]
struct EngineAlgorithm {
    name: String,
    driver: String,
    /// The kernel prefers it to the CPU.
    preferred: bool,
    /// Instructions of this CPU that do the same.
    instructions: Option<&'static str>,
    /// The device of Gantry that it is part of, when AF_ALG is turned on; `null` where programs do not reach it.
    device: Option<String>,
}

/// An algorithm of the kernel.
#[derive(Serialize)]
struct Row {
    name: String,
    /// The type by which AF_ALG has it; `null` where it is for the kernel alone.
    af_alg: Option<&'static str>,
    /// The first one wins.
    drivers: Vec<DriverRow>,
}

/// A driver of the kernel.
#[derive(Serialize)]
struct DriverRow {
    driver: String,
    module: String,
    priority: i32,
    asynchronous: bool,
    /// `cpu`, the module of an engine, or `both` for a template around an engine.
    computes: String,
}

impl View {
    fn of_this_machine(only: Option<&str>) -> Result<Self, Failure> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let af_alg = [("hash", "sha256"), ("skcipher", "cbc(aes)"), ("aead", "gcm(aes)"), ("rng", "stdrng")]
            .map(|(kind, name)| (kind, try_bind(kind, name).err()));
        // Read afterwards: the kernel has made what it was asked for.
        let catalogue = Catalogue::read()
            .map_err(|error| Failure::Failed(format!("/proc/crypto: {error}; this kernel has no crypto drivers")))?;
        let mut view = Self::new(&catalogue, only, &read("/proc/cpuinfo"));
        read("/proc/sys/kernel/osrelease").trim().clone_into(&mut view.kernel);
        view.dev_crypto = Path::new("/dev/crypto").exists();
        view.af_alg = af_alg.into_iter().collect();
        if view.algorithms.is_empty() {
            let name = only.unwrap_or("anything");
            return Err(Failure::Failed(format!(
                "the kernel has no driver for {name} now; it may load one when asked"
            )));
        }
        Ok(view)
    }

    fn new(catalogue: &Catalogue, only: Option<&str>, cpuinfo: &str) -> Self {
        let instructions = instructions(cpuinfo);
        let mut names: Vec<&Entry> = catalogue
            .entries
            .iter()
            .filter(|entry| catalogue.engine(entry) != Engine::None && wanted(&entry.name, only))
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
            for (place, (entry, engine)) in drivers.iter().enumerate() {
                let Engine::Module(module) = engine else { continue };
                let ours = Algorithm::ALL.iter().any(|algorithm| algorithm.info().kernel == entry.name);
                engines.entry(module.clone()).or_default().push(EngineAlgorithm {
                    name: entry.name.clone(),
                    driver: entry.driver.clone(),
                    preferred: place == 0,
                    instructions: same_work(name, &instructions),
                    device: entry.socket_type().filter(|_| ours).map(|_| format!("afalg:{module}")),
                });
            }
            let af_alg = drivers.iter().find_map(|(entry, _)| entry.socket_type());
            let drivers = drivers.iter().map(|(entry, engine)| DriverRow {
                driver: entry.driver.clone(),
                module: entry.module.clone(),
                priority: entry.priority,
                asynchronous: entry.asynchronous,
                computes: computes(engine),
            });
            algorithms.push(Row { name: name.clone(), af_alg, drivers: drivers.collect() });
        }
        Self { kernel: String::new(), dev_crypto: false, af_alg: BTreeMap::new(), instructions, engines, algorithms }
    }

    fn text(&self) -> String {
        let mut lines = vec![self.table()];
        lines.push(
            "Of several drivers the kernel takes the first, of the highest priority. AF_ALG can be asked for each."
                .into(),
        );
        lines.extend(self.trouble());
        lines.push(if self.dev_crypto { "/dev/crypto is there." } else { "There is no /dev/crypto." }.into());
        if self.engines.is_empty() {
            lines.push("No driver computes off the CPU: there is no engine, or no module for it is loaded.".into());
        }
        for (module, algorithms) in &self.engines {
            lines.push(format!("\nThe engine of {module}:"));
            lines.extend(algorithms.iter().map(|algorithm| format!("  {}: {}", algorithm.name, algorithm.verdict())));
        }
        lines.join("\n") + "\n"
    }

    /// Why AF_ALG does not work, said once where that is the same for all types.
    fn trouble(&self) -> Vec<String> {
        let mut reasons: Vec<Option<&String>> = self.af_alg.values().map(Option::as_ref).collect();
        reasons.dedup();
        match reasons[..] {
            [Some(why)] => vec![format!("AF_ALG does not work: {why}")],
            _ => (self.af_alg.iter())
                .filter_map(|(kind, trouble)| Some(format!("AF_ALG does not work for {kind}: {}", trouble.as_ref()?)))
                .collect(),
        }
    }

    fn table(&self) -> String {
        let mut table = Table::new(&["ALGORITHM", "DRIVER", "PRIORITY", "COMPUTES", "PROGRAMS REACH IT BY"], &[2]);
        for row in &self.algorithms {
            let reach = self.reach(row);
            for (place, driver) in row.drivers.iter().enumerate() {
                let (name, reach) = if place == 0 { (row.name.as_str(), reach) } else { ("", "") };
                let computes = match driver.computes.as_str() {
                    "cpu" => "on the CPU".to_owned(),
                    "both" => "partly in an engine".to_owned(),
                    module => format!("in the engine of {module}"),
                };
                table.row([name.into(), driver.driver.clone(), driver.priority.to_string(), computes, reach.into()]);
            }
        }
        table.render()
    }

    fn reach(&self, row: &Row) -> &'static str {
        match row.af_alg {
            Some(kind) if self.af_alg.get(kind).is_some_and(Option::is_some) => "AF_ALG, which does not work here",
            Some(_) if self.dev_crypto => "AF_ALG, /dev/crypto",
            Some(_) => "AF_ALG",
            None => "nothing: it is for the kernel itself",
        }
    }
}

impl EngineAlgorithm {
    fn verdict(&self) -> String {
        let Some(device) = &self.device else { return "for the kernel itself; programs do not reach it".to_owned() };
        let preferred = if self.preferred { "preferred by the kernel" } else { "second to the CPU for the kernel" };
        let worth = match self.instructions {
            Some(flag) => format!(
                "this CPU has instructions for it ({flag}), against which an engine wins on large requests or CPU time, \
                 or not at all"
            ),
            None => "this CPU has no instructions for it, so the engine may well win".to_owned(),
        };
        format!(
            "{preferred}; {worth}. To measure: gantry speed --devices afalg=on --device {device},software {}",
            self.name
        )
    }
}

fn wanted(name: &str, only: Option<&str>) -> bool {
    only.is_none_or(|only| {
        // Our names lead to the kernel's, and the kernel's to themselves.
        let ours = Algorithm::matching(only).unwrap_or_default();
        name == only || ours.iter().any(|algorithm| algorithm.info().kernel == name)
    })
}

fn computes(engine: &Engine) -> String {
    match engine {
        Engine::Cpu | Engine::None => "cpu".to_owned(),
        Engine::Mixed => "both".to_owned(),
        Engine::Module(module) => module.clone(),
    }
}

/// Those flags of `/proc/cpuinfo` that matter.
fn instructions(cpuinfo: &str) -> Vec<&'static str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags: Vec<&str> =
        line.and_then(|line| line.split_once(':')).map_or("", |(_, flags)| flags).split(' ').collect();
    let mut found: Vec<&str> =
        INSTRUCTIONS.iter().flat_map(|(_, known)| *known).copied().filter(|known| flags.contains(known)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn same_work(name: &str, instructions: &[&'static str]) -> Option<&'static str> {
    let (_, known) = INSTRUCTIONS.iter().find(|(part, _)| name.contains(part))?;
    known.iter().find(|flag| instructions.contains(flag)).copied()
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

    fn view(only: Option<&str>, flags: &str) -> View {
        let crypto = [
            entry("cbc(aes)", "virtio_crypto_aes_cbc", "virtio_crypto", 150, "skcipher", "a"),
            entry("__cbc(aes)", "__cbc-aes-aesni", "aesni_intel", 400, "skcipher", "i"),
            entry("cbc(aes)", "cbc-aes-aesni", "aesni_intel", 400, "skcipher", "a"),
            entry("rsa", "virtio-crypto-rsa", "virtio_crypto", 150, "akcipher", "a"),
            entry("md5", "md5-generic", "kernel", 0, "shash", ""),
        ];
        View::new(&Catalogue::parse(&crypto.concat(), ""), only, &format!("processor : 0\nflags : {flags}\n"))
    }

    #[test]
    fn the_driver_of_the_highest_priority_comes_first_and_engines_are_told_from_the_cpu() {
        let view = view(None, "fpu");
        let names: Vec<&str> = view.algorithms.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["cbc(aes)", "md5", "rsa"], "what programs reach first; nothing internal");
        let drivers: Vec<(&str, &str)> =
            view.algorithms[0].drivers.iter().map(|row| (row.driver.as_str(), row.computes.as_str())).collect();
        assert_eq!(drivers, [("cbc-aes-aesni", "cpu"), ("virtio_crypto_aes_cbc", "virtio_crypto")]);
        let engine = &view.engines["virtio_crypto"];
        assert!(engine[0].device.as_deref() == Some("afalg:virtio_crypto") && !engine[0].preferred);
        assert_eq!(engine[1].device, None, "rsa is no algorithm of ours");
    }

    #[test]
    fn what_is_wrong_with_af_alg_is_said_once() {
        let mut view = view(None, "");
        view.af_alg = [("hash", Some("gone".to_owned())), ("aead", Some("gone".to_owned()))].into();
        assert!(view.text().contains("AF_ALG does not work: gone\n"), "{}", view.text());
        view.af_alg.insert("skcipher", None);
        assert!(view.text().contains("AF_ALG does not work for aead: gone\nAF_ALG does not work for hash: gone\n"));
    }

    #[test]
    fn instructions_of_the_cpu_speak_against_an_engine() {
        assert!(
            view(None, "fpu")
                .text()
                .contains("cbc(aes): second to the CPU for the kernel; this CPU has no instructions")
        );
        let text = view(None, "fpu aes sha_ni").text();
        assert!(text.contains("this CPU has instructions for it (aes)"), "{text}");
        assert!(text.contains("rsa: for the kernel itself"), "{text}");
        assert_eq!(view(None, "aes vaes").engines["virtio_crypto"][0].instructions, Some("vaes"));
        assert!(instructions("").is_empty());
    }

    #[test]
    fn one_algorithm_is_shown_by_its_name_or_ours() {
        for name in ["cbc(aes)", "aes-128-cbc"] {
            let view = view(Some(name), "");
            assert_eq!(view.algorithms.len(), 1, "{name}");
            assert_eq!(view.algorithms[0].name, "cbc(aes)");
        }
        assert!(view(Some("sha3-256"), "").algorithms.is_empty());
    }
}
