//! The verdict: where the kernel's algorithms run, and how programs reach them.

use std::collections::BTreeMap;

use super::{DriverRow, INSTRUCTIONS, KernelReport, Row, matching_instruction};

/// Most names in a line. The table below the verdict has all names.
const MAX_LISTED_NAMES: usize = 6;

/// Returns at most five lines.
pub(super) fn lines(report: &KernelReport) -> Vec<String> {
    let (mut accelerated, mut on_cpu, mut plain) = (Vec::new(), Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
    for Row { name, drivers, .. } in &report.algorithms {
        let Some(first) = drivers.first() else { continue };
        match (first.computes.as_str(), missing_module(first, &report.instructions)) {
            ("cpu", Some(module)) => plain.entry(module).or_default().push(name),
            ("cpu", None) if is_plain(first) || matching_instruction(name, &report.instructions).is_none() => {}
            ("cpu", None) => on_cpu.push(name.as_str()),
            ("both", _) => accelerated.push(format!("{name} (partly)")),
            (module, _) => accelerated.push(format!("{name} ({module})")),
        }
    }
    let mut lines = vec![engine_line(report, &accelerated)];
    if !on_cpu.is_empty() {
        lines.push(format!("On the CPU's instructions: {}.", list(&on_cpu)));
    }
    if !plain.is_empty() {
        let names: Vec<&str> = plain.values().flatten().copied().collect();
        let user = if names.contains(&"xts(aes)") { " dm-crypt" } else { " Users of these in the kernel" };
        let verb = if user == " dm-crypt" { "is" } else { "are" };
        let modules = plain.keys().copied().collect::<Vec<_>>().join(" ");
        lines.push(format!(
            "In plain C, although this CPU has instructions: {}.{user} {verb} many times slower than with them. Try: modprobe -a {modules}",
            list(&names)
        ));
    }
    lines.extend(access_lines(report));
    lines
}

fn engine_line(report: &KernelReport, accelerated: &[String]) -> String {
    if !accelerated.is_empty() {
        return format!("On an accelerator: {}.", list(accelerated));
    }
    let modules: Vec<&str> = report.engines.keys().map(String::as_str).collect();
    if modules.is_empty() {
        "On an accelerator: nothing. There is none, or no module for it is loaded.".to_owned()
    } else {
        format!("On an accelerator: nothing. The kernel prefers the CPU to {}.", list(&modules))
    }
}

/// Describes how programs reach the drivers, and the engines.
fn access_lines(report: &KernelReport) -> Vec<String> {
    let troubles: Vec<(&str, &String)> =
        report.af_alg.iter().filter_map(|(kind, trouble)| Some((*kind, trouble.as_ref()?))).collect();
    let mut reasons: Vec<&String> = troubles.iter().map(|(_, reason)| *reason).collect();
    reasons.dedup();
    let af_alg = match reasons[..] {
        [] => "AF_ALG works".to_owned(),
        [reason] if troubles.len() == report.af_alg.len() => format!("AF_ALG does not work: {reason}"),
        _ => {
            let each = troubles.iter().map(|(kind, reason)| format!("for {kind}: {reason}"));
            format!("AF_ALG does not work {}", each.collect::<Vec<_>>().join("; "))
        }
    };
    let dev_crypto = if report.dev_crypto { "/dev/crypto exists" } else { "there is no /dev/crypto" };
    let mut lines = vec![format!("For programs: {af_alg}; {dev_crypto}.")];
    let is_unreachable = report.engines.values().flatten().all(|algorithm| algorithm.device.is_none());
    if !report.engines.is_empty() && is_unreachable {
        lines.push(
            "No accelerator is behind AF_ALG here, as in Linux 7.2 and late releases of 6.6 and 6.18. The ways to it are cryptodev-linux's /dev/crypto and DPDK."
                .to_owned(),
        );
    }
    lines
}

/// Returns true if a driver, or a part of it, is portable C.
fn is_plain(driver: &DriverRow) -> bool {
    plain_parts(driver).next().is_some()
}

/// Returns the algorithms that a driver computes in portable C: `aes` for the driver `cbc(aes-generic)`.
fn plain_parts(driver: &DriverRow) -> impl Iterator<Item = &str> {
    let parts = driver.driver.split(['(', ')', ',']);
    parts.filter_map(|part| part.strip_suffix("-generic").or_else(|| part.strip_suffix("-fixed-time")))
}

/// Returns the module that would do the work of a driver in portable C with instructions of this CPU.
fn missing_module(driver: &DriverRow, instructions: &[&'static str]) -> Option<&'static str> {
    plain_parts(driver).find_map(|part| {
        matching_instruction(part, instructions)?;
        let row = INSTRUCTIONS.iter().find(|row| part.contains(row.part))?;
        Some(row.modules[usize::from(cfg!(target_arch = "aarch64"))]).filter(|module| !module.is_empty())
    })
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_LISTED_NAMES).map(AsRef::as_ref).collect();
    let more = names.len() - shown.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &rest
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use gantry_runtime::kernel::{Catalogue, Entry};

    use super::*;

    fn verdict(drivers: &[(&str, &str, &str)], flags: &str, reaches: &dyn Fn(&Entry) -> bool) -> Vec<String> {
        let paragraphs = drivers.iter().map(|(name, driver, module)| {
            let is_engine = module.starts_with("virtio");
            let kind = match name.split('(').next() {
                Some("gcm") => "aead",
                Some("cbc" | "xts") => "skcipher",
                _ => "shash",
            };
            let asynchronous = if is_engine { "yes" } else { "no" };
            let priority = if is_engine { 150 } else { 100 };
            format!("name : {name}\ndriver : {driver}\nmodule : {module}\npriority : {priority}\ntype : {kind}\nasync : {asynchronous}\n\n")
        });
        let catalogue = Catalogue::parse(&paragraphs.collect::<String>(), "");
        let mut report = KernelReport::new(&catalogue, None, &format!("flags : {flags}\n"), reaches);
        report.af_alg = [("hash", None), ("skcipher", None)].into();
        let lines = lines(&report);
        assert!((2..=5).contains(&lines.len()), "{lines:?}");
        lines
    }

    #[test]
    fn a_missing_module_is_named_where_the_cpu_has_instructions() {
        let drivers = [
            ("xts(aes)", "xts(ecb(aes-generic))", "xts"),
            ("sha256", "sha256-generic", "kernel"),
            ("md5", "md5-generic", "kernel"),
        ];
        let lines = verdict(&drivers, "aes sha_ni", &|_| true);
        assert_eq!(
            lines[1],
            "In plain C, although this CPU has instructions: xts(aes), sha256. dm-crypt is many times slower than with them. \
             Try: modprobe -a aesni_intel sha256_ssse3"
        );
        let lines = verdict(&drivers, "fpu", &|_| true);
        assert!(!lines.iter().any(|line| line.contains("modprobe")), "{lines:?}");
        let lines = verdict(
            &[("cbc(aes)", "cbc-aes-aesni", "aesni_intel"), ("gcm(aes)", "generic-gcm-aesni", "aesni_intel")],
            "aes pclmulqdq",
            &|_| true,
        );
        assert_eq!(lines[1], "On the CPU's instructions: cbc(aes), gcm(aes).");
    }

    #[test]
    fn an_accelerator_is_named_with_its_module_and_the_way_to_it() {
        let engine = ("cbc(aes)", "virtio_crypto_aes_cbc", "virtio_crypto");
        let lines = verdict(&[engine, ("cbc(aes)", "cbc(aes-generic)", "cbc")], "fpu", &|_| true);
        assert_eq!(
            lines,
            ["On an accelerator: cbc(aes) (virtio_crypto).", "For programs: AF_ALG works; there is no /dev/crypto."]
        );
        let lines = verdict(&[engine], "fpu", &|_| false);
        assert!(lines[2].starts_with("No accelerator is behind AF_ALG here"), "{lines:?}");
        let lines = verdict(&[("md5", "md5-generic", "kernel")], "fpu", &|_| true);
        assert!(lines[0].starts_with("On an accelerator: nothing. There is none"), "{lines:?}");
    }

    #[test]
    fn reasons_against_af_alg_are_one_line() {
        let mut report = KernelReport::new(&Catalogue::parse("", ""), None, "", &|_| true);
        report.af_alg = [("hash", Some("gone".to_owned())), ("aead", Some("gone".to_owned()))].into();
        assert_eq!(access_lines(&report), ["For programs: AF_ALG does not work: gone; there is no /dev/crypto."]);
        report.af_alg.insert("skcipher", None);
        report.dev_crypto = true;
        assert_eq!(
            access_lines(&report),
            ["For programs: AF_ALG does not work for aead: gone; for hash: gone; /dev/crypto exists."]
        );
    }
}
