//! A page of statistics is untrusted: its valid parts are read, with at most a multiple of its memory, and can be
//! shown.

#![no_main]

use gantry_lab::memory::{CountingAllocator, run_within};
use gantry_runtime::stats::{Process, Report, report_from_page};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

fuzz_target!(|page: &[u8]| {
    let mut report = run_within(16 * page.len() + (64 << 10), || report_from_page(page));
    let of_rows = report.rows.iter().flat_map(|row| [&row.algorithm, &row.operation]);
    let of_guests = report.guests.iter().flat_map(|guest| guest.numbers.keys().chain([&guest.name]));
    for text in of_rows.chain(of_guests) {
        assert!(!text.chars().any(|c| c.is_control() && c != '\t'), "{text:?}");
    }
    report.processes.push(Process { pid: 1, program: String::new(), started: 0, written: 0 });
    let read = Report::from_json(&report.to_json());
    assert!(read.is_ok_and(|read| read.guests.len() == report.guests.len()));
});
