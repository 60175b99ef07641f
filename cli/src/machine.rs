//! CPU, version and date of measurements.

use std::fs::File;
use std::io::Read as _;
use std::time::{SystemTime, UNIX_EPOCH};

use gantry_core::Gantry;
use serde::Serialize;

/// Context of every measurement: machine, program and date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu_model: String,
    /// Level of the CPU instructions that the device `lanes` uses; `none` without this device.
    pub(crate) cpu_level: String,
    pub(crate) gantry_version: String,
    /// The date in UTC (RFC 3339).
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn of_this_machine(gantry: &Gantry) -> Self {
        let build = if cfg!(debug_assertions) { " debug" } else { "" };
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            cpu_model: cpu(),
            cpu_level: cpu_level(gantry).unwrap_or("none").to_owned(),
            gantry_version: format!("{}{build}", env!("CARGO_PKG_VERSION")),
            date: date(seconds),
        }
    }

    /// Formats the context as two lines of text.
    pub(crate) fn lines(&self) -> [String; 2] {
        let Self { cpu_model, cpu_level, gantry_version, date } = self;
        [format!("{cpu_model}, level {cpu_level}"), format!("gantry {gantry_version}, {date}")]
    }
}

/// Returns the model of the CPU.
pub(crate) fn cpu() -> String {
    cpu_model(&cpu_info())
}

/// Reads the beginning of /proc/cpuinfo, which describes the first CPU.
fn cpu_info() -> String {
    let mut text = Vec::new();
    let _ = File::open("/proc/cpuinfo").and_then(|file| file.take(64 << 10).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the name of a CPU; for ARM, the numbers of implementer and part.
fn cpu_model(info: &str) -> String {
    let value = |key: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        line.split_once(':').map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let numbers = || Some(format!("CPU {} {}", value("CPU implementer")?, value("CPU part")?));
    let name = value("model name").or_else(|| value("Model")).or_else(numbers);
    name.unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH))
}

/// Returns the CPU level from the description of the device `lanes`, which begins with `level avx2` or the like.
fn cpu_level(gantry: &Gantry) -> Option<&str> {
    let description = &gantry.device("lanes")?.details()?.description;
    description.strip_prefix("level ")?.split(',').next()
}

/// Formats seconds since 1970 in the Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin in
/// March).
pub(crate) fn date(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86400 + 719_468, seconds % 86400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
impl Machine {
    pub(crate) fn example() -> Self {
        let [cpu_model, cpu_level, gantry_version, date] =
            ["CPU <1>", "avx2", "1.0.0", "2026-01-01T00:00:00Z"].map(str::to_owned);
        Self { cpu_model, cpu_level, gantry_version, date }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn cpus_are_named_as_in_cpuinfo() {
        assert_eq!(cpu_model("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD  EPYC 9B45\n"), "AMD EPYC 9B45");
        assert_eq!(cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), "CPU 0x41 0xd0c");
        assert_eq!(cpu_model(""), format!("unknown {}", std::env::consts::ARCH));
    }
}
