//! Numbers with units, for people.

use nix::unistd::{Uid, User};

/// Formats a number of bytes in powers of ten, as in MB/s.
pub(crate) fn bytes(number: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let unit = units.into_iter().find(|(unit, _)| number >= *unit);
    unit.map_or_else(|| format!("{number} B"), |(unit, name)| format!("{} {name}", tenths(number, unit)))
}

/// Formats a quotient with one decimal, truncated.
pub(crate) fn tenths(number: u64, divisor: u64) -> String {
    let tenths = u128::from(number) * 10 / u128::from(divisor);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Formats a share in percent, truncated: 100 % means all.
pub(crate) fn share(part: u64, all: u64) -> String {
    format!("{} %", u128::from(part) * 100 / u128::from(all.max(1)))
}

/// Formats a duration with about three digits and a unit.
pub(crate) fn duration(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        ..1e3 => (nanoseconds, "ns"),
        ..1e6 => (nanoseconds / 1e3, "us"),
        ..1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    let places = if number < 9.995 && unit != "ns" { 2 } else { usize::from(number < 99.95 && unit != "ns") };
    format!("{number:.places$} {unit}")
}

/// Returns the name of a user, or the UID.
pub(crate) fn user(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// Rounds to `places` decimals, for JSON.
pub(crate) fn round(number: f64, places: i32) -> f64 {
    let unit = 10_f64.powi(places);
    (number * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_bytes_with_a_unit() {
        let cases = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "999.9 kB"), (1_500_000, "1.5 MB")];
        for (number, text) in cases {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(bytes(u64::MAX), "18446744073.7 GB");
    }

    #[test]
    fn only_the_whole_is_a_hundred_percent() {
        assert_eq!(share(999, 1000), "99 %");
        assert_eq!(share(1000, 1000), "100 %");
        assert_eq!(share(0, 0), "0 %");
    }

    #[test]
    fn durations_have_a_unit_and_few_digits() {
        for (nanoseconds, text) in [
            (0.4, "0 ns"),
            (999.0, "999 ns"),
            (1234.0, "1.23 us"),
            (99_960.0, "100 us"),
            (25_000_000.0, "25.0 ms"),
            (2e9, "2.00 s"),
        ] {
            assert_eq!(duration(nanoseconds), text);
        }
    }
}
