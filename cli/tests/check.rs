//! `gantry check` on this machine.

mod gantry;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gantry::{Folder, command, failure, find, json, stdout, text};
use serde_json::Value;

/// The program in its own folder, without files beside it.
struct Installed {
    folder: Folder,
    program: PathBuf,
}

impl Installed {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let program = folder.write("bin/gantry", "");
        fs::remove_file(&program).unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_gantry"));
        fs::hard_link(built, &program).unwrap_or_else(|_| gantry_lab::copy_program(built, &program));
        Self { folder, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path of the vectors in the installation.
    fn file(&self) -> PathBuf {
        let file = self.path("share/gantry/gantry-vectors.zlib");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    }

    /// Checks one algorithm of one device completely.
    fn check(&self, more: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        let whole = ["check", "--all", "--seconds", "0", "--device", "software", "--algorithm", "hmac-sha1"];
        command.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("GANTRY_CONFIG").args(whole).args(more);
        command.output().unwrap()
    }

    /// Returns the only row of the JSON, and the exit status.
    fn row(&self) -> (Value, Option<i32>) {
        let output = self.check(&["--json"]);
        (serde_json::from_str::<Value>(&text(&output.stdout)).unwrap()[0].take(), output.status.code())
    }

    /// Checks that an unusable file is reported and not used, that the program's own vectors run, and that the exit status is 1.
    fn refuses(&self, error: &str) {
        let output = self.check(&[]);
        let sentence = format!("without Wycheproof's vectors: {}: {error}\n", self.file().display());
        assert_eq!(text(&output.stderr), format!("gantry: {sentence}"));
        let table = text(&output.stdout);
        assert!(table.contains("  passed\n") && table.contains(&sentence), "{table}");
        assert!(!table.contains("the whole suite"), "{table}");
        assert_eq!(output.status.code(), Some(1));
        let (row, status) = self.row();
        assert_eq!((&row["passed"], &row["whole"], status), (&true.into(), &false.into(), Some(1)));
        let printed = row["wycheproof"]["unusable"].as_str().unwrap();
        assert!(printed.ends_with(&format!("gantry-vectors.zlib: {error}")), "{printed}");
    }
}

/// Returns the number of vectors that ran.
fn vectors(row: &Value) -> u64 {
    let parts = row["algorithms"].as_array().unwrap();
    parts.iter().find(|part| part["check"] == "vectors").unwrap()["cases"].as_u64().unwrap()
}

/// Packs a text like `gantry-vectors`.
fn packed(text: &str) -> Vec<u8> {
    // A stored block (RFC 1950, RFC 1951).
    let length = u16::try_from(text.len()).unwrap();
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in text.bytes() {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    let header = [&[0x78, 0x01, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes()].concat();
    [&header, text.as_bytes(), &(b << 16 | a).to_be_bytes()].concat()
}

#[test]
fn vectors_come_from_the_file_beside_the_program_or_from_the_installation() {
    let installed = Installed::new("check-vectors");
    let (without_file, status) = installed.row();
    assert_eq!(status, Some(0), "a program works without the file");
    let file_beside = installed.path("bin/gantry-vectors.zlib");
    if cfg!(feature = "more-vectors") {
        assert_eq!(
            (&without_file["wycheproof"]["from"], &without_file["whole"]),
            (&"the program".into(), &true.into())
        );
    } else {
        let missing = format!("there is no {}, and no {}", file_beside.display(), installed.file().display());
        assert_eq!(
            (&without_file["wycheproof"]["missing"], &without_file["whole"]),
            (&missing.as_str().into(), &false.into())
        );
        let output = installed.check(&[]);
        let table = text(&output.stdout);
        assert!(table.contains(&format!("\nwithout Wycheproof's vectors: {missing}\n")), "{table}");
        assert!(output.stderr.is_empty());
    }

    fs::write(installed.file(), gantry_vectors::PACKED).unwrap();
    let (whole, status) = installed.row();
    assert_eq!(whole["wycheproof"]["from"].as_str(), installed.file().to_str());
    assert_eq!((&whole["passed"], &whole["whole"], status), (&true.into(), &true.into(), Some(0)));
    let (few, many) = (vectors(&without_file), vectors(&whole));
    assert!(cfg!(feature = "more-vectors") && few == many || many > few + 100, "{few} {many}");
    let table = text(&installed.check(&[]).stdout);
    assert!(table.contains(&format!("\nwith Wycheproof's vectors, from {}\n", installed.file().display())), "{table}");
    assert!(table.contains("\nthe whole suite, "), "{table}");

    // The program finds its files through a link.
    let link = installed.path("link");
    symlink(&installed.program, &link).unwrap();
    let linked = Command::new(&link).args(["check", "--seconds", "0", "--algorithm", "md5"]).output().unwrap();
    assert!(text(&linked.stdout).contains("with Wycheproof's vectors, from "));

    // The file beside the program takes precedence, and its vectors run: a wrong one is a mismatch.
    let wrong = "= made up\n[hmac-sha1]\nkey = 00\ninput = 01\noutput = 0000000000000000000000000000000000000000\n";
    fs::write(&file_beside, packed(wrong)).unwrap();
    let (row, status) = installed.row();
    assert_eq!((row["wycheproof"]["from"].as_str(), status), (file_beside.to_str(), Some(1)));
    let problems = row["problems"].to_string();
    assert!(problems.contains("made up 2"), "{problems}");
}

#[test]
fn an_unusable_file_of_vectors_is_reported_without_delay() {
    let installed = Installed::new("check-damaged");
    let file = installed.file();
    let whole = gantry_vectors::PACKED;
    for (bytes, error) in [
        (&whole[..whole.len() / 2], "the end is missing"),
        (&[], "the end is missing"),
        (&whole[1..], "damaged, or not a file of vectors"),
        (&packed("= set\n[sha1]\ninput = 00\n\noutput = what\n"), "set, line 4: not hexadecimal"),
        (&packed("something else"), "not a file of vectors"),
    ] {
        fs::write(&file, bytes).unwrap();
        installed.refuses(error);
    }
    // This file is sparse.
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    installed.refuses("larger than 16 MiB");
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    installed.refuses("not a regular file");
    fs::remove_file(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    installed.refuses("not a regular file");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    installed.refuses("not a regular file");
}

#[test]
fn every_device_is_checked_and_passes() {
    let rows =
        json(&["check", "--all", "--json", "--seconds", "0", "--algorithm", "sha256,aes-128-cbc,chacha20-poly1305"]);
    for (device, algorithms) in [("software", 3), ("lanes", 2)] {
        let row = find(&rows, "device", device);
        assert_eq!(row["passed"], true, "{row}");
        assert_eq!(row["repeat"], serde_json::json!([]));
        assert_eq!(row["steps_left_out"], 0);
        let parts = row["algorithms"].as_array().unwrap();
        let random = parts.iter().filter(|part| part["check"] == "random");
        assert_eq!(random.count(), algorithms);
        assert!(parts.iter().map(|part| part["cases"].as_u64().unwrap()).sum::<u64>() > 1000);
        assert!(parts.iter().all(|part| part["mismatches"] == 0));
    }
    assert!(!rows.iter().any(|row| row["device"] == "null"), "a device that is off is not checked");
}

/// The time limit itself is not asserted: steps that were left out prove that it applies.
#[test]
fn without_time_a_part_of_everything_runs_and_the_report_counts_the_rest() {
    let arguments = ["check", "--seconds", "0", "--algorithm", "sha256,rsa-2048-pkcs1"];
    let rows = json(&[&arguments[..], &["--json"]].concat());
    let parts: Vec<_> = rows.iter().flat_map(|row| row["algorithms"].as_array().unwrap()).collect();
    assert!(rows.iter().all(|row| row["passed"] == true));
    for part in parts.iter().filter(|part| part["check"] == "vectors" || part["check"] == "batches") {
        assert!(part["cases"].as_u64().unwrap() > 0, "{part}");
        assert!(part["left_out"]["there was no time for it"].as_u64().unwrap() > 0, "{part}");
    }
    // Every algorithm has its own known answers.
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
fn more_time_runs_more_of_the_suite() {
    let share = |arguments: &[&str]| {
        let rows = json(&[&["check", "--json", "--device", "software", "--algorithm", "md5"], arguments].concat());
        let [run, left_out] = ["steps", "steps_left_out"].map(|field| rows[0][field].as_u64().unwrap());
        (run, run + left_out)
    };
    let (none, all) = (share(&["--seconds", "0"]), share(&["--all", "--seconds", "0"]));
    assert!(none.0 < all.0 && all.0 == all.1, "{none:?} {all:?}");
    assert_eq!(none.1, all.1, "the size of the suite does not depend on the time");
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
fn nothing_to_check_is_a_failure() {
    let (code, message) = failure(&["check", "--device", "null"]);
    assert_eq!(code, 1);
    assert!(message.starts_with("gantry: null is excluded: off by default"), "{message}");
    let (code, message) = failure(&["check", "--device", "lanes", "--algorithm", "chacha20-poly1305"]);
    assert_eq!((code, message.as_str()), (1, "gantry: lanes serves none of these algorithms\n"));
    let (code, message) = failure(&["check", "--algorithm", "null"]);
    assert_eq!((code, message.as_str()), (1, "gantry: no device serves any of these algorithms\n"));
}

#[test]
fn without_a_terminal_only_the_report_is_written() {
    let output = command(&["check", "--device", "lanes", "--algorithm", "sha1", "--seconds", "0"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}
