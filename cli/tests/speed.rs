//! `gantry speed`: consistency of its rows. Speed itself is not judged.

mod gantry;

use std::collections::BTreeSet;

use gantry::{Folder, command, failure, json, notes, stdout, text};
use serde_json::Value;

const FIELDS: [&str; 20] = [
    "algorithm",
    "operation",
    "device",
    "bytes",
    "batch",
    "threads",
    "requests",
    "wall_s",
    "cpu_s",
    "mb_per_s",
    "requests_per_s",
    "p50_ns",
    "p99_ns",
    "rounds",
    "spread",
    "outliers",
    "cpu_model",
    "cpu_level",
    "gantry_version",
    "date",
];

fn speed(arguments: &[&str]) -> Vec<Value> {
    json(&[&["speed", "--json", "--seconds", "0.01"], arguments].concat())
}

fn values<'r>(rows: &'r [Value], field: &str) -> BTreeSet<&'r str> {
    rows.iter().map(|row| row[field].as_str().unwrap()).collect()
}

#[test]
fn rows_have_every_field_and_consistent_numbers() {
    let rows = speed(&["sha256", "hmac-sha256", "aes-128-cbc", "aes-128-gcm", "--bytes", "64,1024", "--batch", "1,16"]);
    assert_eq!(values(&rows, "operation"), BTreeSet::from(["decrypt", "digest", "encrypt", "mac", "open", "seal"]));
    assert_eq!(values(&rows, "device"), BTreeSet::from(["lanes", "software"]));
    for row in &rows {
        let fields: BTreeSet<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, BTreeSet::from(FIELDS));
        let number = |field: &str| row[field].as_f64().unwrap();
        let near = |one: f64, other: f64| (one - other).abs() <= 0.001 * other.abs() + 0.1;
        assert!(number("wall_s") >= 0.01 && number("requests") > 0.0, "{row}");
        assert!(near(number("requests_per_s"), number("requests") / number("wall_s")), "{row}");
        assert!(near(number("mb_per_s"), number("requests_per_s") * number("bytes") / 1e6), "{row}");
        assert!(number("p50_ns") <= number("p99_ns"), "{row}");
        assert_eq!(row["requests"].as_u64().unwrap() % row["batch"].as_u64().unwrap(), 0, "{row}");
    }
    // The device `lanes` encrypts with CBC but does not decrypt, and no other device takes its place.
    let decrypting = |row: &&Value| row["operation"] == "decrypt";
    assert!(rows.iter().filter(decrypting).all(|row| row["device"] == "software"));
}

#[test]
fn every_algorithm_can_be_measured_on_every_device_that_serves_it() {
    let devices = ["--devices", "null=on"];
    let algorithms = json(&[&devices[..], &["algorithms", "--json"]].concat());
    let served = |row: &&Value| !row["devices"].as_array().unwrap().is_empty();
    // The parameter sets of SLH-DSA share their code, and a signature of the slowest takes seconds here.
    let slow = |name: &&str| name.starts_with("slh-dsa") && *name != "slh-dsa-sha2-128f";
    let algorithms: Vec<&Value> =
        algorithms.iter().filter(served).filter(|row| !slow(&row["name"].as_str().unwrap())).collect();
    let names: Vec<&str> = algorithms.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let options = ["speed", "--json", "--seconds", "0.001", "--bytes", "48", "--batch", "1,3", "--queue-depth", "3"];
    let rows = json(&[&devices[..], &options[..], &names[..]].concat());
    for algorithm in algorithms {
        let measured: BTreeSet<&str> = (rows.iter())
            .filter(|row| row["algorithm"] == algorithm["name"])
            .map(|row| row["device"].as_str().unwrap())
            .collect();
        let serve: BTreeSet<&str> =
            algorithm["devices"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(measured, serve, "{algorithm}");
    }
}

#[test]
fn threads_are_measured_together() {
    let rows = speed(&["sha256", "--device", "software", "--bytes", "1024", "--batch", "1", "--threads", "3"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["threads"], 3);
    let [wall, cpu] = ["wall_s", "cpu_s"].map(|field| rows[0][field].as_f64().unwrap());
    assert!(cpu > 0.0 && wall >= 0.01, "{}", rows[0]);
}

#[test]
fn auto_lets_the_policy_choose() {
    let rows = speed(&["cbc(aes)", "--device", "auto", "--operation", "encrypt", "--bytes", "64", "--batch", "16"]);
    assert_eq!(values(&rows, "algorithm"), BTreeSet::from(["aes-128-cbc", "aes-192-cbc", "aes-256-cbc"]));
    assert_eq!(values(&rows, "device"), BTreeSet::from(["auto"]));
}

#[test]
fn queues_have_rows_on_every_device_and_under_the_policy() {
    let arguments = ["aes-128-cbc", "aes-128-gcm", "hmac-sha256", "--bytes", "64", "--batch", "1,16"];
    let rows = speed(&[&arguments[..], &["--queue-depth", "1,20", "--device", "software,auto"]].concat());
    let queues: Vec<&Value> = rows.iter().filter(|row| row.get("queue_depth").is_some()).collect();
    assert_eq!(values(&rows, "operation"), BTreeSet::from(["decrypt", "encrypt", "mac", "open", "seal"]));
    for device in ["software", "auto"] {
        for operation in values(&rows, "operation") {
            let is_in_group = |row: &&&Value| row["device"] == device && row["operation"] == operation;
            let depths: Vec<u64> =
                queues.iter().filter(is_in_group).map(|row| row["queue_depth"].as_u64().unwrap()).collect();
            assert_eq!(depths, [1, 20], "{device} {operation}");
        }
    }
    assert_eq!(rows.len(), 2 * queues.len());
    for row in queues {
        let fields: BTreeSet<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, FIELDS.into_iter().chain(["queue_depth"]).collect());
        assert_eq!(row["batch"], 1);
        assert!(row["requests"].as_u64().unwrap() >= row["queue_depth"].as_u64().unwrap(), "{row}");
        let number = |field: &str| row[field].as_f64().unwrap();
        assert!(number("wall_s") >= 0.01 && number("mb_per_s") > 0.0, "{row}");
        assert!(number("p50_ns") > 0.0 && number("p50_ns") <= number("p99_ns"), "{row}");
    }
}

#[test]
fn queues_have_a_column_if_there_are_any() {
    let arguments = ["speed", "sha256", "--device", "lanes", "--bytes", "64", "--batch", "2", "--seconds", "0.001"];
    let with = [&arguments[..], &["--queue-depth", "33"]].concat();
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let table = stdout(&with);
    let lines: Vec<Vec<String>> = table.lines().map(cells).collect();
    assert_eq!(lines[0][4..7], ["BATCH", "QUEUE", "MB/s"]);
    assert_eq!((&*lines[1][5], &*lines[2][4], &*lines[2][5]), ("-", "1", "33"));
    assert!(!stdout(&arguments).contains("QUEUE"));
    let csv = stdout(&[&with[..], &["--csv"]].concat());
    let ends: Vec<&str> = csv.lines().map(|line| line.rsplit(',').next().unwrap()).collect();
    assert_eq!(ends, ["queue_depth", "", "33"]);
}

#[test]
fn impossible_depths_and_sizes_are_refused() {
    for (arguments, part) in [
        (&["--queue-depth", "0"][..], "not a number from 1 to 65536"),
        (&["--queue-depth", "65537"], "not a number from 1 to 65536"),
        (&["--queue-depth", "many"], "not a number from 1 to 65536"),
        (&["--alignment", "48"], "not a power of two up to 2097152"),
        (&["--alignment", "4096", "--queue-depth", "4"], "cannot be used with"),
        (&["--queue-depth", "65536", "--bytes", "65536"], "65536 requests of 65536 bytes need more than 4 GiB"),
        (&["--queue-depth", "65536", "--bytes", "1", "--threads", "1024"], "need more than 4 GiB of buffers"),
        (&["--batch", "1000000000", "--bytes", "1"], "1000000000 requests of 1 bytes need more than 4 GiB"),
        (&["--batch", "18446744073709551615"], "need more than 4 GiB of buffers"),
    ] {
        let (code, printed) = failure(&[&["speed", "sha256"], arguments].concat());
        assert!(code == 2 && printed.contains(part), "{arguments:?}: {code} {printed}");
    }
}

#[test]
fn a_device_that_cannot_run_a_request_is_not_replaced() {
    for (arguments, message) in [
        (
            &["chacha20-poly1305", "--device", "lanes"][..],
            "lanes does not serve chacha20-poly1305: the device does not offer it",
        ),
        (
            &["aes-128-cbc", "--device", "lanes", "--operation", "decrypt", "--bytes", "16"],
            "lanes does not decrypt 16 bytes with aes-128-cbc",
        ),
        (&["null"], "no device serves null"),
        (&["sha256", "--operation", "seal"], "no device can run any of these requests"),
    ] {
        let (code, printed) = failure(&[&["speed"], arguments].concat());
        assert_eq!((code, printed), (1, format!("gantry: {message}\n")));
    }
    let (code, printed) = failure(&["speed", "sha256", "--device", "null"]);
    assert!(code == 1 && printed.starts_with("gantry: null is excluded: "), "{printed}");
    let (code, printed) = failure(&["speed", "sha256", "--bytes", "1000000000000"]);
    assert!(code == 2 && printed.contains("more than 4 GiB"), "{printed}");
}

#[test]
fn sizes_that_an_algorithm_does_not_take_are_reported() {
    let output = command(&["speed", "aes-128-cbc", "--bytes", "10,16", "--batch", "1", "--seconds", "0.001", "--json"]);
    let output = { output }.output().unwrap();
    assert_eq!(notes(&output), ["gantry: aes-128-cbc takes no data of 10 bytes; this size is left out"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["bytes"] == 16));
}

#[test]
fn csv_has_the_fields_of_json() {
    let arguments = ["speed", "sha1", "--csv", "--seconds", "0.001", "--bytes", "16", "--batch", "1,2"];
    let csv = stdout(&arguments);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some(FIELDS.join(",").as_str()));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.len() == FIELDS.len() && row[0] == "sha1" && row[9].parse::<f64>().is_ok()));
}

#[test]
fn a_plot_is_an_image_with_a_line_for_each_device_and_batch() {
    let folder = Folder::new("plot");
    let file = folder.path().join("speed.svg").display().to_string();
    let rows = speed(&["sha256", "sha1", "--bytes", "16,64,256", "--batch", "1,16", "--plot", &file]);
    let svg = std::fs::read_to_string(&file).unwrap();
    let image = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = image.descendants().filter_map(|node| node.text()).collect();
    for text in ["sha256 digest", "sha1 digest", "MB/s", "bytes in a request", "lanes, batch 16", "software, batch 1"] {
        assert!(texts.contains(&text), "{text}");
    }
    let drawn = image.descendants().filter(|node| node.has_tag_name("polyline"));
    let lines = drawn.filter(|line| line.attribute("points").unwrap().split(' ').count() == 3).count();
    assert_eq!(lines * 3, rows.len());

    let (code, message) = failure(&["speed", "sha1", "--plot", "/nowhere/speed.svg"]);
    assert_eq!((code, message.as_str()), (1, "gantry: /nowhere/speed.svg: No such file or directory\n"));
}

#[test]
fn openssl_has_rows_for_its_algorithms() {
    if std::process::Command::new("openssl").arg("version").output().is_err() {
        return gantry_lab::skip("openssl");
    }
    let arguments = ["speed", "sha256", "poly1305", "--bytes", "64", "--batch", "1", "--seconds", "0.01"];
    let output = command(&[&arguments[..], &["--compare", "openssl", "--json"]].concat()).output().unwrap();
    assert_eq!(notes(&output), ["gantry: openssl speed has no poly1305 mac"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let theirs: Vec<&Value> = rows.iter().filter(|row| row["device"] == "openssl").collect();
    assert_eq!(theirs.len(), 1);
    assert_eq!((&theirs[0]["algorithm"], &theirs[0]["batch"]), (&"sha256".into(), &1.into()));
    assert!(theirs[0]["requests"].as_u64().unwrap() > 0 && theirs[0]["cpu_s"].as_f64().unwrap() > 0.0);

    let path = command(&[&arguments[..], &["--compare", "openssl"]].concat()).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(path.status.code(), Some(1));
    assert!(text(&path.stderr).starts_with("gantry: openssl cannot be run: "), "{}", text(&path.stderr));
}
