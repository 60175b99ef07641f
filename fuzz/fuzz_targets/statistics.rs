//! A file of statistics is untrusted: it is accepted or refused, with at most a multiple of its memory. An accepted one can be added to
//! others, and is written as it was read.

#![no_main]

use gantry_lab::memory::{CountingAllocator, run_within};
use gantry_runtime::stats::Report;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

fuzz_target!(|text: &str| {
    let Ok(report) = run_within(16 * text.len() + (64 << 10), || Report::from_json(text)) else { return };
    let json = report.to_json();
    assert_eq!(Report::from_json(&json).unwrap().to_json(), json);
    let mut sum = Report::default();
    sum.merge(report.clone());
    sum.merge(report);
    assert!(Report::from_json(&sum.to_json()).is_ok());
});
