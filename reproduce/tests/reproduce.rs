//! Published figures, simulated.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gantry-reproduce")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the rows of a simulation whose figures are all within their bounds.
fn report(work: &str) -> Vec<Value> {
    let output = run(&[work, "--simulated", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], true);
    report["rows"].as_array().unwrap().clone()
}

#[test]
fn the_cards_of_2003_are_as_fast_as_published() {
    let rows = report("cards");
    let of = |table: &str| rows.iter().filter(|row| row["table"] == table).count();
    assert_eq!(["1", "5", "6", "7", "8"].map(|number| of(&format!("Table {number}"))), [3, 99, 99, 33, 66]);
    assert!(rows.iter().all(|row| row["ok"] == true && row["published"].is_number() && row["at_least"].is_number()));
    let cell = rows.iter().find(|row| row["case"] == "bcm5822 md5 8192 bytes, FreeBSD").unwrap();
    assert_eq!(cell["published"], 531.9);
    let of_published = cell["found"].as_f64().unwrap() / 531.9;
    assert!((cell["deviation"].as_f64().unwrap() - 100.0 * (of_published - 1.0)).abs() < 1e-6);
}

#[test]
fn a_simulation_is_the_same_at_every_run() {
    assert_eq!(report("cards"), report("cards"));
    assert_eq!(report("flow-control"), report("flow-control"));
    assert_eq!(report("sec"), report("sec"));
}

#[test]
fn a_full_ring_loses_no_request() {
    let rows = report("flow-control");
    let found = |case: &str| rows.iter().find(|row| row["case"] == case).unwrap()["found"].clone();
    assert!(found("requests that found the ring full").as_f64() >= Some(40.0));
    assert_eq!(found("requests lost or failed"), 0.0);
    assert_eq!(found("wrong results"), 0.0);
}

#[test]
fn engine_and_cpu_of_a_board_are_both_useful() {
    let rows = report("boards");
    let promised = |what: &str| {
        let of = |row: &&Value| row["case"].as_str().unwrap().ends_with(what) && row["at_least"].is_number();
        rows.iter().filter(of).count()
    };
    // Each size; sizes from 1 KiB; sizes at which the engine can save CPU time.
    let counts = ["latency, 1 in flight", "latency, 8 in flight", "CPU time that offload saves"].map(promised);
    assert_eq!(counts, [11, 5, 9]);
}

#[test]
fn small_frames_grow_with_partitions_and_large_ones_fill_the_engine() {
    let rows = report("sec");
    let rate = |bytes: u32, case: &str| {
        let case = format!("{bytes} bytes, {case}");
        rows.iter().find(|row| row["case"] == case.as_str()).unwrap()["found"].as_f64().unwrap()
    };
    assert!(
        rate(64, "1x1") < rate(64, "2x1") && rate(64, "2x1") < rate(64, "3x1") && rate(64, "3x1") < rate(64, "4x1")
    );
    assert!(rate(64, "4x4") < 1000.0, "small frames are bounded by the rate of requests");
    for full in ["1x4", "1x16", "3x4", "4x4"] {
        assert!((3500.0..=3601.0).contains(&rate(65_536, full)), "{full}");
    }
    let shapes = rows.iter().filter(|row| row["at_least"].is_number());
    assert_eq!((shapes.count(), rows.len()), (5, 60));
}

/// Measured rates depend on the machine, so only their presence is checked.
#[test]
fn partitions_of_an_engine_are_guests_over_vhost_user() {
    let output = run(&["sec", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let rows = report["rows"].as_array().unwrap();
    let of = |table: &str| rows.iter().filter(|row| row["table"] == table).count();
    assert_eq!([of("simulated"), of("vhost-user")], [60, 60]);
    assert!(rows.iter().all(|row| row["found"].as_f64().is_some_and(|found| found > 0.0)));
    assert!(output.status.success());
}

#[test]
fn every_published_figure_has_its_deviation() {
    for work in ["cards", "boards", "flow-control"] {
        let rows = report(work);
        let published = |row: &&Value| row["published"].as_f64().is_some_and(|published| published != 0.0);
        assert!(rows.iter().filter(published).count() > 0);
        assert!(rows.iter().filter(published).all(|row| row["deviation"].is_number()), "{work}");
        let table = run(&[work, "--simulated"]);
        assert!(text(&table.stdout).contains('%'), "{work}");
    }
    assert!(text(&run(&["boards", "--simulated"]).stdout).contains("DEVIATION"));
    assert!(text(&run(&["flow-control", "--simulated"]).stdout).contains("DEVIATION"));
}

#[test]
fn the_tables_show_published_figures_next_to_ours() {
    let output = run(&["cards", "--simulated"]);
    let table = text(&output.stdout);
    assert!(table.contains("hifn7951  des-ede3-cbc      8           1.9    1.9   +0.7%           1.2    1.2   -2.3%"));
    assert!(table.contains("The worst cell is 19.7 % from the paper; the limit is 20 %."), "{table}");
    assert!(!table.contains("Tables 2, 3 and 4"), "that takes real time");
}
