//! `gantry bench`: scores follow from their parts. Nothing here judges how good any is.

mod gantry;

use std::fs;

use gantry::{Folder, command, failure, find, run, text};
use serde_json::Value;

/// One short run for all tests that only look.
fn bench(folder: &Folder, arguments: &[&str]) -> std::process::Output {
    let output = command(&[&["bench", "--seconds", "0.01"], arguments].concat())
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("{field} of {value}"))
}

#[test]
fn scores_follow_from_their_parts_and_are_kept_shown_and_compared() {
    let folder = Folder::new("bench");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (saved, page) = (path("saved.json"), path("page.html"));
    let printed = parsed(&bench(&folder, &["--json", "--save", &saved]).stdout);
    assert_eq!(parsed(&fs::read(&saved).unwrap()), printed);
    for field in ["cpu_model", "cpu_level", "gantry_version", "date", "policy"] {
        assert!(!printed[field].as_str().unwrap().is_empty(), "{field}");
    }
    assert!(printed["trusted"].is_boolean() && (0.0..=1.0).contains(&number(&printed, "others")));
    let scores = printed["scores"].as_array().unwrap();
    let uses: Vec<&str> = scores.iter().map(|score| score["use"].as_str().unwrap()).collect();
    assert_eq!(uses, ["tls", "vpn", "disk", "files", "signatures"]);
    for (name, amount) in
        [("tls", 1.0), ("vpn", 4.0 * 1420e-9), ("disk", 2.0 * 4096e-9), ("files", 1.0), ("signatures", 3.0)]
    {
        let score = find(scores, "use", name);
        for (total, time) in [("score", "ns"), ("software", "software_ns")] {
            let parts = score["parts"].as_array().unwrap().iter();
            let ns: f64 = parts.map(|part| number(part, "times") * number(part, time)).sum();
            let expected = amount / (ns / 1e9);
            assert!((number(score, total) / expected - 1.0).abs() < 0.001, "{name} {total}: {expected} {score}");
        }
        assert!((number(score, "score") / number(score, "software") / number(score, "ratio") - 1.0).abs() < 0.001);
        assert!(number(score, "noise") >= 0.0);
        assert!(score["parts"].as_array().unwrap().iter().all(|part| number(part, "rounds") >= 4.0), "{score}");
    }

    // The next one beside it, from a file that claims to be of another CPU, and that is twice as good at disks.
    let mut other = printed.clone();
    other["cpu_model"] = "Other <CPU>".into();
    other["scores"][2]["score"] = (number(&scores[2], "score") * 1000.0).into();
    other["scores"][3]["formula"] = "something else".into();
    let other = folder.write("other.json", &other.to_string()).display().to_string();
    let compared = parsed(&bench(&folder, &["--compare", &other, "--json"]).stdout);
    assert_eq!(compared["baseline"]["cpu_model"], "Other <CPU>");
    let scores = compared["scores"].as_array().unwrap();
    let disk = &find(scores, "use", "disk")["change"];
    assert!(disk["differs"] == true && number(disk, "ratio") < 0.1, "{disk}");
    assert!(find(scores, "use", "files").get("change").is_none());

    let shown = text(&bench(&folder, &["--compare", &other, "--html", &page]).stdout);
    assert!(shown.starts_with("USE ") && shown.contains("BEFORE") && shown.contains("TLS server"), "{shown}");
    assert!(shown.contains("These are different CPUs") && shown.contains("not compared"), "{shown}");
    assert!(
        shown.lines().count() <= 20 && shown.lines().all(|line| line.chars().count() <= 120),
        "one screen: {shown}"
    );

    let page = fs::read_to_string(page).unwrap();
    let body = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let document = roxmltree::Document::parse(body).unwrap();
    let drawing = |node: &roxmltree::Node| node.has_tag_name(("http://www.w3.org/2000/svg", "svg"));
    assert_eq!(document.descendants().filter(drawing).count(), 2);
    assert!(page.contains("Other &lt;CPU&gt;") && !page.contains("Other <CPU>"));
    for none in ["<script", "http://", "https://", "src=", "href=", "@import", "url("] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(none), "{none}");
    }
    assert!(page.contains("prefers-color-scheme:dark"));
}

#[test]
fn another_route_is_scored_when_it_is_configured() {
    let folder = Folder::new("bench-policy");
    let output = command(&["--policy", "pin:software", "bench", "--seconds", "0.01", "--json"])
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    let bench = parsed(&output.stdout);
    assert_eq!(bench["policy"], "pin");
}

#[test]
fn files_that_are_no_results_and_cannot_be_written_are_refused_before_anything_is_measured() {
    let folder = Folder::new("bench-files");
    let text = folder.write("text", "hello").display().to_string();
    let json = folder.write("json", "{\"format\": 1}").display().to_string();
    let directory = folder.path().display().to_string();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = pipe.display().to_string();
    for (arguments, part) in [
        (["--compare", &*text], "this is no result of gantry bench"),
        (["--compare", &json], "this is no result of gantry bench"),
        (["--compare", "/dev/zero"], "this is no result of gantry bench"),
        (["--compare", &directory], "this is no result of gantry bench"),
        (["--compare", &pipe], "this is no result of gantry bench"),
        (["--compare", "/nowhere/a"], "/nowhere/a: No such file or directory"),
        (["--save", "/nowhere/a"], "/nowhere/a: No such file or directory"),
        (["--html", "/nowhere/a"], "/nowhere/a: No such file or directory"),
    ] {
        let (code, said) = failure(&[&["bench"], &arguments[..]].concat());
        assert!(code == 1 && said.contains(part), "{arguments:?}: {code} {said}");
    }
    for wrong in ["0", "-1", "soon"] {
        assert_eq!(run(&["bench", "--seconds", wrong]).status.code(), Some(2));
    }
}
