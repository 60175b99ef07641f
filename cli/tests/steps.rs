//! Checks that the work for untrusted files grows linearly, not quadratically. valgrind counts the instructions.

mod gantry;

use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, text};
use gantry_lab::memory::concat_parts;

/// Returns the number of instructions of a command, even if the command fails. `None` without valgrind.
fn count_instructions(arguments: &[&str], folder: &Path) -> Option<u64> {
    let program = command(arguments);
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    valgrind.arg(program.get_program()).args(arguments).current_dir(folder);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => valgrind.env(name, value),
            None => valgrind.env_remove(name),
        };
    }
    // One thread, for reproducible counts.
    valgrind.env("GANTRY_THREADS", "1").env("GANTRY_STATS", folder).env("XDG_CACHE_HOME", folder);
    let output = valgrind.env("OPENSSL_CONF", "openssl.cnf").env_remove("GANTRY_DISABLE").output().ok()?;
    let message = text(&output.stderr);
    let refs = message.lines().find_map(|line| line.split_once("refs:"));
    let count = refs.unwrap_or_else(|| panic!("{arguments:?}: {message}")).1;
    Some(count.trim().replace(',', "").parse().unwrap())
}

/// Checks the growth of a command's instructions over inputs of three sizes, each twice as large as the previous one.
fn assert_grows_as_its_input(name: &str, least: usize, arguments: &[&str], make: impl Fn(&Folder, usize)) {
    let folder = Folder::new(name);
    let count = |size| {
        make(&folder, size);
        count_instructions(arguments, folder.path())
    };
    let Some(counts) = [least, 2 * least, 4 * least].into_iter().map(count).collect::<Option<Vec<_>>>() else {
        return gantry_lab::skip("valgrind");
    };
    let (once, twice) = (counts[1].saturating_sub(counts[0]), counts[2].saturating_sub(counts[1]));
    // Linear growth doubles the difference, quadratic growth quadruples it.
    assert!(twice < 3 * once, "{name}: {counts:?}");
}

#[test]
fn many_layers_of_a_torrent_take_linear_work() {
    assert_grows_as_its_input("steps-torrent", 500, &["torrent", "verify", "torrent"], |folder, size| {
        let root = |file: usize| format!("32:{file:032}");
        let file = |file: usize| format!("5:{file:05}d0:d6:lengthi32768e11:pieces root{}ee", root(file));
        let layer = |file: usize| format!("{}64:{}", root(file), "x".repeat(64));
        let info = "e12:meta versioni2e4:name1:n12:piece lengthi16384ee12:piece layersd";
        let [files, layers] = [concat_parts(size, file), concat_parts(size, layer)];
        folder.write("torrent", &format!("d4:infod9:file treed{files}{info}{layers}ee"));
    });
}

const ADVISE: [&str; 3] = ["advise", "--", "true"];

#[test]
fn many_lines_of_a_configuration_take_linear_work() {
    assert_grows_as_its_input("steps-lines", 2000, &ADVISE, |folder, size| {
        folder.write("openssl.cnf", &concat_parts(size, |line| format!("{line} = x\n")));
    });
}

#[test]
fn many_providers_of_a_configuration_take_linear_work() {
    assert_grows_as_its_input("steps-providers", 500, &ADVISE, |folder, size| {
        let lines = concat_parts(size, |line| format!("{line}.default = list\n"));
        let gantry = "gantry = ours\n[ours]\nactivate = 1\n";
        let begin = "openssl_conf = init\n[init]\nproviders = list\n[list]\n";
        folder.write("openssl.cnf", &format!("{begin}{lines}{gantry}"));
    });
}

#[test]
fn many_variables_of_a_configuration_take_linear_work() {
    assert_grows_as_its_input("steps-variables", 10_000, &ADVISE, |folder, size| {
        folder.write("openssl.cnf", &format!("a = {}\n", "${".repeat(size)));
    });
}

/// The statistics are of two processes with a PID that no running process can have.
#[test]
fn many_rows_of_statistics_take_linear_work() {
    assert_grows_as_its_input("steps-stat", 250, &["stat", "4194305"], |folder, size| {
        for file in ["a", "b"] {
            let row = |row: usize| {
                let site = format!(r#""device":"{file}{row}","class":null,"algorithm":"sha256","operation":"digest""#);
                let numbers = r#""requests":1,"bytes":1,"batches":0,"batched":0,"reasons":{},"events":{},"stages":{}"#;
                format!("{{{site},{numbers}}},")
            };
            let process = r#"{"pid":4194305,"program":"x","started":1,"written":1}"#;
            let rows = concat_parts(size, row);
            let text = format!(r#"{{"processes":[{process}],"rows":[{}]}}"#, rows.trim_end_matches(','));
            folder.write(if file == "a" { "4194305.1.1.json" } else { "4194305.1.2.json" }, &text);
        }
    });
}

/// The digest of `e`.
const SHA256: &str = "3f79bb7b435b05321651daefd374cdc681dc06faa65e374e38337b88ca046dea";

/// The files match the last digest of every listed file, but not the first.
#[test]
fn many_files_that_may_have_moved_take_linear_work() {
    assert_grows_as_its_input("steps-audit", 750, &["sum", "audit", "list", "dir"], |folder, size| {
        (0..size).for_each(|file| drop(folder.write(&format!("dir/new{file}"), "e")));
        let lines = concat_parts(size, |file| format!("1,{file:032x},{SHA256},./old{file}\n"));
        folder.write("list", &format!("%%%% HASHDEEP-1.0\n%%%% size,md5,sha256,filename\n{lines}"));
    });
}
