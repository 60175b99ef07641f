use std::collections::BTreeMap;

use crate::openssl::measured::{Cell, HOST, Row, WORTH};

/// Purposes of algorithms: name, key of the configuration, part of the algorithm's name. The first match counts.
const USES: [(&str, &str, &str); 7] = [
    ("TLS records", "CIPHERS", "GCM"),
    ("TLS records", "CIPHERS", "Poly1305"),
    ("Disk encryption", "CIPHERS", "XTS"),
    ("Files and older protocols", "CIPHERS", ""),
    ("Signatures", "SIGNATURES", ""),
    ("Key exchange", "KEY_EXCHANGE", ""),
    ("Passwords", "KDFS", ""),
];

/// How an algorithm compares with OpenSSL, and how it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Assessment {
    /// Configured, and a device serves its requests.
    OnDevice,
    /// Not configured, and it would gain.
    WouldGain,
    /// Not configured; requests alone would gain, but keys and contexts were not measured.
    MayGain,
    /// A device is faster, but the policy names another one or earlier measurements disagree.
    InDoubt,
    /// OpenSSL is as fast, or faster.
    Stays,
    Untried,
}

impl Assessment {
    pub(super) fn of(row: &Row) -> Self {
        let on_device = row.cells.iter().any(Cell::is_on_device);
        let measured = row.cells.iter().any(|cell| cell.best.is_some());
        let gains = row.is_worth_it();
        match (row.served, on_device) {
            (true, true) => Self::OnDevice,
            (false, true) if gains && row.measured => Self::WouldGain,
            (false, true) if gains => Self::MayGain,
            _ if !measured => Self::Untried,
            _ if best(&[row]).is_some_and(|gain| gain >= WORTH) => Self::InDoubt,
            _ => Self::Stays,
        }
    }

    pub(super) fn code(self) -> &'static str {
        match self {
            Self::OnDevice => "led",
            Self::WouldGain => "would-gain",
            Self::MayGain => "may-gain",
            Self::InDoubt => "in-doubt",
            Self::Stays => "stays",
            Self::Untried => "untried",
        }
    }
}

pub(super) fn use_of(row: &Row) -> &'static str {
    let fits = |(_, key, part): &&(&str, &str, &str)| row.key == *key && row.name.contains(part);
    USES.iter().find(fits).map_or("", |(name, ..)| name)
}

/// Returns a sentence for each purpose and standing.
pub(super) fn verdict(rows: &[Row]) -> Vec<String> {
    let mut uses: Vec<&str> = USES.iter().map(|(name, ..)| *name).collect();
    uses.dedup();
    let mut parts = Vec::new();
    for name in uses {
        let mut by_assessment: BTreeMap<Assessment, Vec<&Row>> = BTreeMap::new();
        for row in rows.iter().filter(|row| use_of(row) == name) {
            by_assessment.entry(Assessment::of(row)).or_default().push(row);
        }
        parts.extend(
            by_assessment.into_iter().map(|(assessment, rows)| format!("{name}: {}", sentence(assessment, &rows))),
        );
    }
    parts
}

fn sentence(assessment: Assessment, rows: &[&Row]) -> String {
    let families = families(rows);
    let each = |about: &dyn Fn(&[&Row]) -> String| {
        list(&families.iter().map(|(name, rows)| format!("{name} ({})", about(rows))).collect::<Vec<_>>())
    };
    let gaining = |these: &dyn Fn(&Cell) -> bool| each(&|rows| gains(rows, these));
    let at_best = || each(&gain);
    let names = || list(&families.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let (verb, stay) = if families.len() == 1 { ("goes", "stays") } else { ("go", "stay") };
    match assessment {
        Assessment::OnDevice => format!("{} {verb} to {}.", gaining(&Cell::is_on_device), devices(rows)),
        Assessment::WouldGain => format!(
            "{} would gain, and the configuration does not name {}.",
            gaining(&Cell::is_worth_it),
            if families.len() == 1 { "it" } else { "them" }
        ),
        Assessment::MayGain => format!(
            "{} may gain: only the requests were measured, not the keys and contexts that a program makes for them.",
            gaining(&Cell::is_worth_it)
        ),
        Assessment::InDoubt => format!(
            "{} {stay} with OpenSSL: a device was faster here, but the policy names another one, or earlier measurements say otherwise.",
            at_best()
        ),
        Assessment::Stays => {
            format!("{} {stay} with OpenSSL; in brackets: the gain of the fastest device here.", at_best())
        }
        Assessment::Untried => format!("{} {stay} with OpenSSL: no device here could be measured.", names()),
    }
}

fn gain(rows: &[&Row]) -> String {
    best(rows).map_or_else(|| "-".to_owned(), |gain| format!("{gain:.2}x"))
}

/// Returns the best gain with the longest requests, for which the overhead of a device, which is not measured, is smallest.
fn best(rows: &[&Row]) -> Option<f64> {
    let longest = |row: &&Row| {
        row.operations().iter().filter_map(|operation| row.of(operation).last()?.gain()).max_by(f64::total_cmp)
    };
    rows.iter().filter_map(longest).max_by(f64::total_cmp)
}

/// Formats the gains in these cells, by operation.
fn gains(rows: &[&Row], selects: &dyn Fn(&Cell) -> bool) -> String {
    let mut parts: Vec<String> = Vec::new();
    let operations = rows.first().map(|row| row.operations()).unwrap_or_default();
    for operation in operations {
        let cells: Vec<&Cell> = rows.iter().flat_map(|row| row.of(operation)).filter(|cell| selects(cell)).collect();
        let found: Vec<f64> = cells.iter().filter_map(|cell| cell.gain()).collect();
        let min = found.iter().copied().fold(f64::INFINITY, f64::min);
        let max = found.iter().copied().fold(0.0, f64::max);
        let all = rows.iter().flat_map(|row| row.of(operation)).count() == cells.len();
        let mut sizes: Vec<u64> = cells.iter().map(|cell| cell.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.into_iter().map(size).collect();
        let at = if all { String::new() } else { format!(" at {}", list(&sizes)) };
        match found.len() {
            0 if cells.is_empty() => {}
            0 => parts.push(operation.to_owned()),
            _ if max - min < 0.05 => parts.push(format!("{operation} {max:.1}x{at}")),
            _ => parts.push(format!("{operation} {min:.1}x to {max:.1}x{at}")),
        }
    }
    parts.join(", ")
}

/// Names the devices that serve requests.
fn devices(rows: &[&Row]) -> String {
    let mut names: Vec<String> =
        rows.iter().flat_map(|row| &row.cells).map(|cell| cell.device.clone()).filter(|name| name != HOST).collect();
    names.sort_unstable();
    names.dedup();
    list(&names)
}

/// Groups rows that differ only in key size under one name.
fn families<'r>(rows: &[&'r Row]) -> Vec<(String, Vec<&'r Row>)> {
    let mut families: Vec<(String, Vec<&Row>)> = Vec::new();
    for &row in rows {
        let name = family(&row.name);
        match families.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => families.push((name, vec![row])),
        }
    }
    for (name, rows) in &mut families {
        if let [row] = rows[..] {
            name.clone_from(&row.name);
        }
    }
    families
}

fn family(name: &str) -> String {
    let sizes = ["-128-", "-192-", "-256-"];
    if name.starts_with("AES") {
        sizes.iter().fold(name.to_owned(), |name, size| name.replace(size, "-"))
    } else {
        name.to_owned()
    }
}

/// Formats a request size.
pub(super) fn size(bytes: u64) -> String {
    if bytes >= 1024 { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}

/// Joins names: "a, b and c".
pub(super) fn list(names: &[String]) -> String {
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
    fn each_use_gets_its_sentences() {
        let mut rows = vec![
            row("CIPHERS", "AES-128-GCM", true, &[("seal", 64, "host", 0.5), ("open", 64, "host", 0.7)]),
            row("CIPHERS", "AES-256-GCM", true, &[("seal", 64, "host", 0.98), ("open", 64, "host", 0.7)]),
            row("CIPHERS", "ChaCha20-Poly1305", true, &[("seal", 64, "host", 0.6)]),
            row("SIGNATURES", "ED25519", true, &[("sign", 64, "software", 4.6), ("verify", 64, "software", 1.5)]),
            row("SIGNATURES", "ONE-MORE", false, &[("sign", 64, "software", 2.3), ("verify", 64, "host", 0.9)]),
            row("KEY_EXCHANGE", "X25519", true, &[("derive", 64, "software", 1.3)]),
            row("KDFS", "HKDF", false, &[("derive", 64, "host", 0.0)]),
        ];
        rows[3].served = true;
        rows.push(row("KDFS", "PBKDF2", false, &[("derive", 32, "host", 0.96)]));
        assert_eq!(
            verdict(&rows),
            [
                "TLS records: AES-GCM (0.98x) and ChaCha20-Poly1305 (0.60x) stay with OpenSSL; in brackets: the gain of the fastest device here.",
                "Signatures: ED25519 (sign 4.6x, verify 1.5x) goes to software.",
                "Signatures: ONE-MORE (sign 2.3x) may gain: only the requests were measured, not the keys and contexts that a program makes for them.",
                "Key exchange: X25519 (derive 1.3x) would gain, and the configuration does not name it.",
                "Passwords: PBKDF2 (0.96x) stays with OpenSSL; in brackets: the gain of the fastest device here.",
                "Passwords: HKDF stays with OpenSSL: no device here could be measured.",
            ]
        );
    }

    #[test]
    fn families_have_one_name() {
        for (name, expected) in [("AES-128-GCM", "AES-GCM"), ("ChaCha20-Poly1305", "ChaCha20-Poly1305")] {
            assert_eq!(family(name), expected);
        }
    }
}
