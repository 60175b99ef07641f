//! Summarizes the gains on a machine, by purpose of the algorithms.

use std::collections::BTreeMap;

use crate::openssl::measured::{Cell, HOST, MIN_GAIN, Row};

/// Purposes of algorithms: name, key of the configuration, part of the algorithm's name. The first match counts.
const PURPOSES: [(&str, &str, &str); 7] = [
    ("TLS records", "CIPHERS", "GCM"),
    ("TLS records", "CIPHERS", "Poly1305"),
    ("Disks", "CIPHERS", "XTS"),
    ("Files", "CIPHERS", ""),
    ("Signatures", "SIGNATURES", ""),
    ("Key exchange", "KEY_EXCHANGE", ""),
    ("Passwords", "KDFS", ""),
];

/// The gain of an algorithm compared with OpenSSL, and its configuration. The summary lists the variants in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Assessment {
    /// Configured, and a device serves its requests.
    OnDevice,
    /// Not configured, and it would gain.
    WouldGain,
    /// Not configured; the requests themselves would gain, but the cost of keys and contexts was not measured.
    MayGain,
    /// A device is faster, but the policy names another device, or earlier measurements disagree.
    InDoubt,
    /// OpenSSL is as fast, or faster.
    StaysOnHost,
    /// No measurement compares a device with OpenSSL.
    Untried,
}

impl Assessment {
    pub(super) fn of(row: &Row) -> Self {
        let on_device = row.cells.iter().any(Cell::is_on_device);
        let measured = row.cells.iter().any(|cell| cell.best.is_some());
        let gains = row.is_worth_it();
        match (row.served, on_device) {
            (true, true) => Self::OnDevice,
            (false, true) if gains && row.covers_whole_cost => Self::WouldGain,
            (false, true) if gains => Self::MayGain,
            _ if !measured => Self::Untried,
            _ if best_gain(&[row]).is_some_and(|gain| gain >= MIN_GAIN) => Self::InDoubt,
            _ => Self::StaysOnHost,
        }
    }

    /// Says how to gain, or why there is no gain.
    pub(super) fn remark(self) -> &'static str {
        match self {
            Self::WouldGain => "add it to openssl.cnf",
            Self::MayGain => "try it: keys and contexts were not measured",
            Self::InDoubt => "the policy or earlier measurements differ",
            Self::OnDevice | Self::StaysOnHost | Self::Untried => "",
        }
    }

    pub(super) fn code(self) -> &'static str {
        match self {
            Self::OnDevice => "led",
            Self::WouldGain => "would-gain",
            Self::MayGain => "may-gain",
            Self::InDoubt => "in-doubt",
            Self::StaysOnHost => "stays",
            Self::Untried => "untried",
        }
    }
}

pub(super) fn purpose_of(row: &Row) -> &'static str {
    let fits = |(_, key, part): &&(&str, &str, &str)| row.key == *key && row.name.contains(part);
    PURPOSES.iter().find(fits).map_or("", |(name, ..)| name)
}

/// A line of the summary: algorithms of the same purpose and assessment that differ in key size, parameter set or hash function.
#[derive(Debug, PartialEq)]
pub(super) struct SummaryLine {
    pub(super) purpose: &'static str,
    pub(super) algorithm: String,
    pub(super) served_by: String,
    pub(super) gain: String,
    pub(super) remark: &'static str,
}

/// Returns the lines by purpose and assessment.
pub(super) fn summarize(rows: &[Row]) -> Vec<SummaryLine> {
    let mut purposes: Vec<&str> = PURPOSES.iter().map(|(name, ..)| *name).collect();
    purposes.dedup();
    let mut lines = Vec::new();
    for purpose in purposes {
        let mut groups: BTreeMap<Assessment, Vec<(&str, Vec<&Row>)>> = BTreeMap::new();
        for row in rows.iter().filter(|row| purpose_of(row) == purpose) {
            let families = groups.entry(Assessment::of(row)).or_default();
            match families.iter_mut().find(|(name, _)| *name == family(&row.name)) {
                Some((_, members)) => members.push(row),
                None => families.push((family(&row.name), vec![row])),
            }
        }
        let each = groups
            .into_iter()
            .flat_map(|(assessment, families)| families.into_iter().map(move |family| (assessment, family)));
        lines.extend(each.map(|(assessment, (name, members))| SummaryLine {
            purpose,
            algorithm: title(name, &members, rows),
            served_by: if assessment == Assessment::OnDevice { devices(&members) } else { "OpenSSL".to_owned() },
            gain: gain_text(assessment, &members),
            remark: assessment.remark(),
        }));
    }
    lines
}

/// Names a line: its only algorithm, the family if all its algorithms are in the line, or else the family and their number.
fn title(name: &str, members: &[&Row], rows: &[Row]) -> String {
    let all = rows.iter().filter(|row| family(&row.name) == name).count();
    match members {
        [one] => one.name.clone(),
        _ if members.len() == all => name.to_owned(),
        _ => format!("{name} ({} of {all})", members.len()),
    }
}

fn gain_text(assessment: Assessment, rows: &[&Row]) -> String {
    let text = match assessment {
        Assessment::OnDevice => gains_text(rows, &Cell::is_on_device),
        Assessment::WouldGain | Assessment::MayGain => gains_text(rows, &Cell::is_worth_it),
        _ => best_gain(rows).map_or_else(String::new, |gain| format!("{gain:.2}x")),
    };
    if text.is_empty() { "not measured".to_owned() } else { text }
}

/// Returns the best gain with the longest requests. The overhead of a device is not measured, and it matters least for long requests.
fn best_gain(rows: &[&Row]) -> Option<f64> {
    let longest = |row: &&Row| {
        row.operations().iter().filter_map(|operation| row.cells_of(operation).last()?.gain()).max_by(f64::total_cmp)
    };
    rows.iter().filter_map(longest).max_by(f64::total_cmp)
}

/// Formats the gains in the selected cells, by operation.
fn gains_text(rows: &[&Row], selects: &dyn Fn(&Cell) -> bool) -> String {
    let operations = rows.first().map(|row| row.operations()).unwrap_or_default();
    let gain_of = |operation: &str| {
        let cells = rows.iter().flat_map(|row| row.cells_of(operation)).filter(|cell| selects(cell));
        let found: Vec<f64> = cells.filter_map(Cell::gain).collect();
        let min = found.iter().copied().fold(f64::INFINITY, f64::min);
        let max = found.iter().copied().fold(0.0, f64::max);
        match found.len() {
            0 => None,
            _ if max - min < 0.05 => Some(format!("{operation} {max:.1}x")),
            _ => Some(format!("{operation} {min:.1}x to {max:.1}x")),
        }
    };
    operations.into_iter().filter_map(gain_of).collect::<Vec<_>>().join(", ")
}

/// Names the devices that serve requests.
fn devices(rows: &[&Row]) -> String {
    let mut names: Vec<String> =
        rows.iter().flat_map(|row| &row.cells).map(|cell| cell.device.clone()).filter(|name| name != HOST).collect();
    names.sort_unstable();
    names.dedup();
    join_names(&names)
}

/// Returns an algorithm's name without its key size, parameter set or hash function.
fn family(name: &str) -> &str {
    let families = ["SLH-DSA", "PBKDF2"];
    if let Some(family) = families.iter().find(|family| name.starts_with(**family)) {
        return family;
    }
    let modes = ["AES-GCM", "AES-XTS", "AES-ECB", "AES-CBC", "AES-CTR"];
    let is_of = |family: &&&str| name.starts_with("AES-") && name.ends_with(&family[3..]);
    modes.iter().find(is_of).copied().unwrap_or(name)
}

/// Formats a request size.
pub(super) fn format_size(bytes: u64) -> String {
    if bytes >= 1024 { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}

/// Joins names: "a, b and c".
pub(super) fn join_names(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openssl::measured::tests::row;

    #[test]
    fn each_family_has_one_line_for_each_assessment() {
        let slh_dsa = |name: &str, device: &str| row("SIGNATURES", name, false, &[("sign", 64, device, 0.0)]);
        let mut rows = vec![
            row("CIPHERS", "AES-128-GCM", true, &[("seal", 64, "host", 0.5), ("open", 64, "host", 0.7)]),
            row("CIPHERS", "AES-256-GCM", true, &[("seal", 64, "host", 0.98), ("open", 64, "host", 0.7)]),
            row("CIPHERS", "ChaCha20-Poly1305", true, &[("seal", 64, "host", 0.6)]),
            row("CIPHERS", "AES-128-CTR", true, &[("encrypt", 64, "lanes", 1.2), ("encrypt", 1024, "lanes", 1.9)]),
            row("CIPHERS", "AES-192-CTR", true, &[("encrypt", 64, "host", 1.0), ("encrypt", 1024, "lanes", 1.6)]),
            row("CIPHERS", "AES-256-CTR", true, &[("encrypt", 64, "host", 1.0)]),
            row("SIGNATURES", "ED25519", true, &[("sign", 64, "software", 4.6), ("verify", 64, "software", 1.5)]),
            row("SIGNATURES", "ONE-MORE", false, &[("sign", 64, "software", 2.3), ("verify", 64, "host", 0.9)]),
            slh_dsa("SLH-DSA-SHA2-128s", "software"),
            slh_dsa("SLH-DSA-SHAKE-128f", "software"),
            row("KEY_EXCHANGE", "X25519", true, &[("derive", 64, "software", 1.3)]),
            row("KDFS", "PBKDF2-SHA256", false, &[("derive", 32, "host", 0.96)]),
        ];
        let served = ["ED25519", "SLH-DSA-SHA2-128s", "SLH-DSA-SHAKE-128f"];
        rows.iter_mut().filter(|row| served.contains(&&*row.name)).for_each(|row| row.served = true);
        let lines = summarize(&rows);
        let texts: Vec<[&str; 5]> = lines
            .iter()
            .map(|line| [line.purpose, &line.algorithm, &line.served_by, &line.gain, line.remark])
            .collect();
        let [add, try_it] = [Assessment::WouldGain, Assessment::MayGain].map(Assessment::remark);
        assert_eq!(
            texts,
            [
                ["TLS records", "AES-GCM", "OpenSSL", "0.98x", ""],
                ["TLS records", "ChaCha20-Poly1305", "OpenSSL", "0.60x", ""],
                ["Files", "AES-CTR (2 of 3)", "OpenSSL", "encrypt 1.2x to 1.9x", add],
                ["Files", "AES-256-CTR", "OpenSSL", "1.00x", ""],
                ["Signatures", "ED25519", "software", "sign 4.6x, verify 1.5x", ""],
                ["Signatures", "SLH-DSA", "software", "not measured", ""],
                ["Signatures", "ONE-MORE", "OpenSSL", "sign 2.3x", try_it],
                ["Key exchange", "X25519", "OpenSSL", "derive 1.3x", add],
                ["Passwords", "PBKDF2-SHA256", "OpenSSL", "0.96x", ""],
            ]
        );
    }

    /// A served algorithm without a measurement must not count as unserved.
    #[test]
    fn unmeasured_algorithms_are_served_or_untried() {
        let mut slh_dsa = row("SIGNATURES", "SLH-DSA-SHA2-128s", false, &[("sign", 64, "software", 0.0)]);
        assert_eq!(Assessment::of(&slh_dsa), Assessment::Untried);
        slh_dsa.served = true;
        assert_eq!(Assessment::of(&slh_dsa), Assessment::OnDevice);
    }

    #[test]
    fn families_have_one_name() {
        for (name, expected) in [
            ("AES-128-GCM", "AES-GCM"),
            ("AES-256-XTS", "AES-XTS"),
            ("ChaCha20-Poly1305", "ChaCha20-Poly1305"),
            ("DES-EDE3-CBC", "DES-EDE3-CBC"),
            ("SLH-DSA-SHAKE-256f", "SLH-DSA"),
            ("PBKDF2-SHA512", "PBKDF2"),
        ] {
            assert_eq!(family(name), expected);
        }
    }
}
