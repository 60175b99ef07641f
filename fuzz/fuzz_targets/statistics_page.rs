//! Any process may have something that looks like a page of statistics: it is read, as far as it makes sense, and can be shown.

#![no_main]

use gantry_runtime::stats::{Process, Report, rows_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|page: &[u8]| {
    let rows = rows_of(page);
    for text in rows.iter().flat_map(|row| [&row.algorithm, &row.operation]) {
        assert!(!text.chars().any(|c| c.is_control() && c != '\t'), "{text:?}");
    }
    let process = Process { pid: 1, program: String::new(), started: 0, written: 0 };
    let report = Report { processes: vec![process], rows };
    assert!(Report::from_json(&report.to_json()).is_ok());
});
