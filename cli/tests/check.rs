//! `gantry check` on this machine.

mod gantry;

use gantry::{command, failure, find, json, stdout};

#[test]
fn every_device_is_checked_and_passes() {
    let rows =
        json(&["check", "--all", "--json", "--seconds", "0", "--algorithm", "sha256,aes-128-cbc,chacha20-poly1305"]);
    for (device, algorithms) in [("software", 3), ("lanes", 2)] {
        let row = find(&rows, "device", device);
        assert_eq!(row["passed"], true, "{row}");
        assert_eq!(row["repeat"], serde_json::json!([]));
        assert_eq!((&row["whole"], &row["steps_left_out"]), (&true.into(), &0.into()));
        let parts = row["algorithms"].as_array().unwrap();
        let random = parts.iter().filter(|part| part["check"] == "random");
        assert_eq!(random.count(), algorithms);
        assert!(parts.iter().map(|part| part["cases"].as_u64().unwrap()).sum::<u64>() > 1000);
        assert!(parts.iter().all(|part| part["mismatches"] == 0));
    }
    assert!(!rows.iter().any(|row| row["device"] == "null"), "a device that is off is not checked");
}

/// How long it takes is not asserted here: what is left out says that it stops.
#[test]
fn without_time_something_of_everything_is_run_and_the_rest_is_counted() {
    let arguments = ["check", "--seconds", "0", "--algorithm", "sha256,rsa-2048-pkcs1"];
    let rows = json(&[&arguments[..], &["--json"]].concat());
    let parts: Vec<_> = rows.iter().flat_map(|row| row["algorithms"].as_array().unwrap()).collect();
    assert!(rows.iter().all(|row| row["passed"] == true));
    for part in parts.iter().filter(|part| part["check"] == "vectors" || part["check"] == "batches") {
        assert!(part["cases"].as_u64().unwrap() > 0, "{part}");
        assert!(part["left_out"]["there was no time for it"].as_u64().unwrap() > 0, "{part}");
    }
    // Everything has its own known answers.
    for part in parts.iter().filter(|part| part["check"] == "start") {
        assert_eq!(part["cases"], 1, "{part}");
    }
    for row in &rows {
        let [run, left_out] = ["steps", "steps_left_out"].map(|field| row[field].as_u64().unwrap());
        assert!(row["whole"] == false && run > 0 && left_out > 10 * run, "{row}");
    }
    let table = stdout(&arguments);
    assert!(table.contains(" steps of the suite ran in this time; --all runs all of them"), "{table}");
}

#[test]
fn more_time_is_more_of_the_suite() {
    let share = |arguments: &[&str]| {
        let rows = json(&[&["check", "--json", "--device", "software", "--algorithm", "md5"], arguments].concat());
        let [run, left_out] = ["steps", "steps_left_out"].map(|field| rows[0][field].as_u64().unwrap());
        (run, run + left_out)
    };
    let (none, all) = (share(&["--seconds", "0"]), share(&["--all", "--seconds", "0"]));
    assert!(none.0 < all.0 && all.0 == all.1, "{none:?} {all:?}");
    assert_eq!(none.1, all.1, "the suite is the same, whatever runs of it");
}

#[test]
fn one_device_can_be_checked_at_each_level() {
    for level in ["avx512", "vaes", "avx2", "base"] {
        let set = format!("cpu={level}");
        let table = stdout(&[
            "--set",
            &set,
            "check",
            "--device",
            "lanes",
            "--algorithm",
            "md5",
            "--seconds",
            "0",
            "--seed",
            "9",
        ]);
        assert!(table.contains("passed") && table.contains("seed 9"), "{table}");
    }
}

#[test]
fn what_cannot_be_checked_is_no_success() {
    let (code, message) = failure(&["check", "--device", "null"]);
    assert_eq!(code, 1);
    assert!(message.starts_with("gantry: null is excluded: off by default"), "{message}");
    let (code, message) = failure(&["check", "--device", "lanes", "--algorithm", "chacha20-poly1305"]);
    assert_eq!((code, message.as_str()), (1, "gantry: lanes serves none of these algorithms\n"));
    let (code, message) = failure(&["check", "--algorithm", "null"]);
    assert_eq!((code, message.as_str()), (1, "gantry: no device serves any of these algorithms\n"));
}

#[test]
fn nothing_but_the_report_is_written_where_there_is_no_terminal() {
    let output = command(&["check", "--device", "lanes", "--algorithm", "sha1", "--seconds", "0"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}
