use std::collections::BTreeMap;

use crate::openssl::measured::{Cell, HOST, Row, WORTH};

/// What algorithms are used for: the key of the configuration that names them, and a part of their names. The first that fits counts.
const USES: [(&str, &str, &str); 7] = [
    ("TLS records", "CIPHERS", "GCM"),
    ("TLS records", "CIPHERS", "Poly1305"),
    ("Disk encryption", "CIPHERS", "XTS"),
    ("Files and older protocols", "CIPHERS", ""),
    ("Signatures", "SIGNATURES", ""),
    ("Key exchange", "KEY_EXCHANGE", ""),
    ("Passwords", "KDFS", ""),
];

/// How an algorithm stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Served, and a device has requests of it.
    Led,
    /// Not served, and it would gain.
    Gains,
    /// The same by its requests; but there is more to it.
    Perhaps,
    /// A device is faster, but not the one that the policy names, or not by what programs learned earlier.
    InDoubt,
    /// OpenSSL is as fast, or faster.
    Stays,
    /// It cannot be tried.
    Untried,
}

impl Standing {
    pub(super) fn of(row: &Row) -> Self {
        let led = row.cells.iter().any(Cell::is_led);
        let tried = row.cells.iter().any(|cell| cell.best.is_some());
        let gains = row.is_worth_it();
        match (row.served, led) {
            (true, true) => Self::Led,
            (false, true) if gains && row.measured => Self::Gains,
            (false, true) if gains => Self::Perhaps,
            _ if !tried => Self::Untried,
            _ if best(&[row]).is_some_and(|gain| gain >= WORTH) => Self::InDoubt,
            _ => Self::Stays,
        }
    }

    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Led => "led",
            Self::Gains => "would-gain",
            Self::Perhaps => "may-gain",
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

/// A sentence for each use and standing.
pub(super) fn verdict(rows: &[Row]) -> Vec<String> {
    let mut uses: Vec<&str> = USES.iter().map(|(name, ..)| *name).collect();
    uses.dedup();
    let mut said = Vec::new();
    for name in uses {
        let mut standings: BTreeMap<Standing, Vec<&Row>> = BTreeMap::new();
        for row in rows.iter().filter(|row| use_of(row) == name) {
            standings.entry(Standing::of(row)).or_default().push(row);
        }
        said.extend(standings.into_iter().map(|(standing, rows)| format!("{name}: {}", sentence(standing, &rows))));
    }
    said
}

fn sentence(standing: Standing, rows: &[&Row]) -> String {
    let families = families(rows);
    let each = |about: &dyn Fn(&[&Row]) -> String| {
        list(&families.iter().map(|(name, rows)| format!("{name} ({})", about(rows))).collect::<Vec<_>>())
    };
    let gaining = |these: &dyn Fn(&Cell) -> bool| each(&|rows| gains(rows, these));
    let at_best = || each(&gain);
    let names = || list(&families.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let (verb, stay) = if families.len() == 1 { ("goes", "stays") } else { ("go", "stay") };
    match standing {
        Standing::Led => format!("{} {verb} to {}.", gaining(&Cell::is_led), devices(rows)),
        Standing::Gains => format!(
            "{} would gain, and the configuration does not name {}.",
            gaining(&Cell::is_worth_it),
            if families.len() == 1 { "it" } else { "them" }
        ),
        Standing::Perhaps => format!(
            "{} may gain: these are the requests alone, without the keys and contexts that each program makes for them.",
            gaining(&Cell::is_worth_it)
        ),
        Standing::InDoubt => format!(
            "{} {stay} with OpenSSL: a device was faster here, but the policy names another one, or what programs learned of this machine earlier says otherwise.",
            at_best()
        ),
        Standing::Stays => {
            format!("{} {stay} with OpenSSL: in brackets, the best of the devices here.", at_best())
        }
        Standing::Untried => format!("{} {stay} with OpenSSL: no device here can be tried against it.", names()),
    }
}

fn gain(rows: &[&Row]) -> String {
    best(rows).map_or_else(|| "-".to_owned(), |gain| format!("{gain:.2}x"))
}

/// The best gain with the longest requests. What the way to a device takes, which is not in it, is then little of it.
fn best(rows: &[&Row]) -> Option<f64> {
    let longest = |row: &&Row| {
        row.operations().iter().filter_map(|operation| row.of(operation).last()?.gain()).max_by(f64::total_cmp)
    };
    rows.iter().filter_map(longest).max_by(f64::total_cmp)
}

/// By operation, what devices gain in those cells.
fn gains(rows: &[&Row], in_these: &dyn Fn(&Cell) -> bool) -> String {
    let mut said: Vec<String> = Vec::new();
    let operations = rows.first().map(|row| row.operations()).unwrap_or_default();
    for operation in operations {
        let cells: Vec<&Cell> = rows.iter().flat_map(|row| row.of(operation)).filter(|cell| in_these(cell)).collect();
        let found: Vec<f64> = cells.iter().filter_map(|cell| cell.gain()).collect();
        let least = found.iter().copied().fold(f64::INFINITY, f64::min);
        let most = found.iter().copied().fold(0.0, f64::max);
        let all = rows.iter().flat_map(|row| row.of(operation)).count() == cells.len();
        let mut sizes: Vec<u64> = cells.iter().map(|cell| cell.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.into_iter().map(size).collect();
        let at = if all { String::new() } else { format!(" at {}", list(&sizes)) };
        match found.len() {
            0 if cells.is_empty() => {}
            0 => said.push(operation.to_owned()),
            _ if most - least < 0.05 => said.push(format!("{operation} {most:.1}x{at}")),
            _ => said.push(format!("{operation} {least:.1}x to {most:.1}x{at}")),
        }
    }
    said.join(", ")
}

/// The devices that have requests.
fn devices(rows: &[&Row]) -> String {
    let mut names: Vec<String> =
        rows.iter().flat_map(|row| &row.cells).map(|cell| cell.device.clone()).filter(|name| name != HOST).collect();
    names.sort_unstable();
    names.dedup();
    list(&names)
}

/// Rows that differ in the size of their keys only, under one name.
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

/// A size of requests.
pub(super) fn size(bytes: u64) -> String {
    if bytes >= 1024 { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}

/// "a, b and c".
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
                "TLS records: AES-GCM (0.98x) and ChaCha20-Poly1305 (0.60x) stay with OpenSSL: in brackets, the best of the devices here.",
                "Signatures: ED25519 (sign 4.6x, verify 1.5x) goes to software.",
                "Signatures: ONE-MORE (sign 2.3x) may gain: these are the requests alone, without the keys and contexts that each program makes for them.",
                "Key exchange: X25519 (derive 1.3x) would gain, and the configuration does not name it.",
                "Passwords: PBKDF2 (0.96x) stays with OpenSSL: in brackets, the best of the devices here.",
                "Passwords: HKDF stays with OpenSSL: no device here can be tried against it.",
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
