//! Compares the book with the program: runs every command of a page, and compares its output with the page.
//!
//! A page has its commands in blocks of the language `console`: a line with `$ ` begins a command, lines with `> ` continue it, and other
//! lines are its output. The commands of a page run in one shell, in their own folder, which is `/home/alice` in the book. The installed
//! program is below `/usr/local` in the book. In output, a line `...` stands for any lines, and ` ...` at the end of a line for any rest. A
//! comment right above a block describes exceptions:
//!
//! ```text
//! <!-- not run: REASON -->     needs root, a network, hardware, minutes
//! <!-- exit status 1 -->       of the block's last command
//! <!-- numbers vary -->        times, rates and counts may differ, words may not
//! ```

mod book;
mod gantry;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Command;

use book::{
    Block, Difference, Directive, Example, PageSandbox, blocks, book, commands, compare, output_matches, pages,
};
use gantry::text;

/// Writes the program's output into a page, with `GANTRY_DECLARE=1`.
fn rewrite_page(page: &str, found: &[Difference]) {
    let path = book().join(page);
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    for (first, count, new) in found.iter().rev().filter_map(|difference| difference.should_be.clone()) {
        lines.splice(first..first + count, new);
    }
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Returns every difference between a page and the program, in order.
fn differences(page: &str) -> Vec<Difference> {
    let (mut examples, mut left_out) = (Vec::new(), Vec::new());
    for block in blocks(page).iter().filter(|block| block.language == "console") {
        match &block.directive {
            Directive::NotRun(reason) => left_out.push((block.line, commands(block).len(), reason.clone())),
            _ => examples.extend(commands(block)),
        }
    }
    let (count, commands): (usize, usize) = (left_out.iter().map(|(_, count, _)| count).sum(), examples.len());
    let mut printed = format!("docs/src/{page}: {commands} commands run, {count} not\n");
    for (line, count, reason) in left_out {
        writeln!(printed, "    {count} of line {line}: {reason}").unwrap();
    }
    // The test harness hides `eprint!` of a test that passes.
    let _ = std::io::stderr().write_all(printed.as_bytes());
    compare(page, &examples)
}

/// Programs that pages need and machines may lack.
const REQUIRED_PROGRAMS: &[(&str, &str)] = &[("guide-tls.md", "openssl"), ("monitoring.md", "curl")];

fn check_page(page: &str) {
    let needed = REQUIRED_PROGRAMS.iter().filter(|(of, _)| *of == page).map(|&(_, program)| program);
    if let Some(missing) = needed.into_iter().find(|program| Command::new(program).arg("--version").output().is_err()) {
        return gantry_lab::skip(missing);
    }
    let found = differences(page);
    if std::env::var_os("GANTRY_DECLARE").is_some() {
        rewrite_page(page, &found);
    }
    let messages: Vec<&str> = found.iter().map(|difference| &*difference.message).collect();
    assert!(messages.is_empty(), "{}", messages.join("\n"));
}

macro_rules! pages {
    ($($test:ident: $page:literal;)+) => {
        const RUN: &[&str] = &[$($page),+];
        $(#[test]
        fn $test() {
            check_page($page);
        })+
    };
}

pages! {
    first_steps: "getting-started.md";
    tls_servers: "guide-tls.md";
    boards: "guide-boards.md";
    commands_of_the_reference: "command.md";
    digests_of_files: "sum.md";
    ciphers_over_files: "crypt.md";
    blocks_and_pieces: "verity.md";
    configuration: "configuration.md";
    statistics: "statistics.md";
    monitoring: "monitoring.md";
    troubleshooting: "troubleshooting.md";
    routes: "routes.md";
}

#[test]
fn every_page_with_commands_is_run() {
    for page in pages() {
        let blocks = blocks(&page);
        let runs = |block: &&Block| block.language == "console" && !matches!(block.directive, Directive::NotRun(_));
        assert!(
            RUN.contains(&&*page) || blocks.iter().find(runs).is_none(),
            "{page} has commands, and no test runs them"
        );
        for block in &blocks {
            let languages = ["console", "c", "rust", "rust,ignore", "pycon", "toml", "ini", "text", "nginx"];
            assert!(
                languages.contains(&&*block.language),
                "{page}:{}: commands are in blocks of the language console, others are {languages:?}",
                block.line
            );
            let commands = if runs(&block) { commands(block) } else { Vec::new() };
            for example in commands {
                assert!(!example.command.contains("sudo "), "{page}:{}: not to be run by a test", example.line);
            }
        }
    }
    for guide in pages().iter().filter(|page| page.starts_with("guide-")) {
        let text = fs::read_to_string(book().join(guide)).unwrap();
        let outside = text.lines().filter(|line| line.starts_with("    ")).count();
        let inside =
            blocks(guide).iter().flat_map(|block| &block.lines).filter(|line| line.starts_with("    ")).count();
        assert_eq!(outside, inside, "{guide}: commands of guides are in fenced blocks");
    }
}

/// Commands that are not in every build.
const OPTIONAL_COMMANDS: &[&str] = &["advise"];

/// Returns the first name or option of a command that the program's help does not have.
fn unknown_word(command: &str) -> Option<String> {
    let words = command.split_whitespace().skip_while(|word| word.rsplit('/').next() != Some("gantry")).skip(1);
    let words: Vec<&str> =
        words.take_while(|word| !["--", "|", "||", "&", "&&", ";", ">", "#"].contains(word)).collect();
    let mut names = Vec::new();
    let mut plain = words.iter().enumerate().filter(|&(place, word)| {
        let value = place > 0 && ["--set", "--devices", "--policy"].contains(&words[place - 1]);
        !word.starts_with('-') && !value
    });
    let help = |names: &[&str]| gantry::run(&[names, &["--help"]].concat());
    for name in plain.by_ref().take(2).map(|(_, &word)| word) {
        // The second word of a command with subcommands must be one of the subcommands.
        let has_commands = names.is_empty() || text(&help(&names).stdout).contains("\nCommands:\n");
        if has_commands {
            names.push(name);
        }
    }
    if names.is_empty() || OPTIONAL_COMMANDS.contains(&names[0]) {
        return None;
    }
    let output = help(&names);
    let help_text = text(&output.stdout);
    let mut options = words.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap());
    let missing =
        if output.status.success() { options.find(|option| !help_text.contains(option)) } else { Some(names[0]) };
    missing.map(|word| format!("{word} of: {command}"))
}

#[test]
fn commands_that_are_not_run_have_known_names_and_options() {
    for page in pages() {
        for block in blocks(&page).iter().filter(|block| matches!(block.directive, Directive::NotRun(_))) {
            for example in commands(block) {
                assert_eq!(unknown_word(&example.command), None, "docs/src/{page}:{}", example.line);
            }
        }
    }
    assert_eq!(
        unknown_word("sudo gantry openssl config --sistem").as_deref(),
        Some("--sistem of: sudo gantry openssl config --sistem")
    );
    assert_eq!(
        unknown_word("gantry openssl conf --system").as_deref(),
        Some("openssl of: gantry openssl conf --system")
    );
    assert_eq!(
        unknown_word("gantry --devices null=on chek").as_deref(),
        Some("chek of: gantry --devices null=on chek")
    );
}

#[test]
fn the_readme_names_commands_that_work() {
    let readme = include_str!("../../README.md");
    let lines = readme
        .lines()
        .filter_map(|line| line.split_once('#').map_or(line, |(command, _)| command).strip_prefix("gantry "));
    let commands: Vec<&str> =
        lines.filter(|arguments| !arguments.contains("FILE") && !arguments.contains("COMMAND")).collect();
    assert!(commands.len() > 3, "{commands:?}");
    for arguments in commands {
        gantry::stdout(&arguments.split_whitespace().collect::<Vec<_>>());
    }
}

#[test]
fn configurations_of_the_book_can_be_read() {
    let folder = gantry::Folder::new("book");
    for page in pages() {
        for block in blocks(&page).iter().filter(|block| block.language == "toml") {
            let text = block.lines.join("\n");
            // Skip manifests of cargo, and configurations of models, which a default build lacks.
            if text.contains("[dependencies]") || text.contains("[models]") {
                continue;
            }
            let file = folder.write("gantry.toml", &text);
            let output = gantry::command(&["config", "show"]).env("GANTRY_CONFIG", file).output().unwrap();
            assert!(output.status.success(), "{page}:{}: {}", block.line, gantry::text(&output.stderr));
        }
    }
}

#[test]
fn every_algorithm_has_its_row() {
    let page = fs::read_to_string(book().join("algorithms.md")).unwrap();
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let documented: Vec<&str> = cells.flat_map(|(names, _)| names.trim_matches('`').split("`, `")).collect();
    let listed = gantry::json(&["algorithms", "--json"]);
    let (documented, listed): (BTreeSet<&str>, BTreeSet<&str>) =
        (documented.into_iter().collect(), gantry::names(&listed).into_iter().collect());
    assert_eq!(documented, listed);
}

#[test]
fn a_wrong_command_or_output_is_found() {
    let example = |command: &str, output: &[&str], status| Example {
        line: 1,
        command: command.into(),
        output: output.iter().map(|&line| line.into()).collect(),
        status,
        numbers_vary: false,
    };
    let machine = PageSandbox::new("wrong.md");
    machine.run(&[
        example("gantry devices >/dev/null", &[], 0),
        example("gantry device", &[], 0),
        example("echo no", &[], 0),
    ]);
    assert_eq!(machine.result_of(0), Some((0, String::new())));
    assert_eq!(machine.result_of(1).unwrap().0, 2);
    assert_eq!(machine.result_of(2), None);

    let agree = |expected: &[&str], lines: &[&str], vary| {
        output_matches(&expected.iter().map(|&line| line.to_owned()).collect::<Vec<_>>(), lines, vary)
    };
    assert!(agree(&["a", "...", "z"], &["a", "b", "c", "z"], false));
    assert!(!agree(&["a", "..."], &["b", "c"], false));
    assert!(agree(&["lanes 16 level ..."], &["lanes  8  level avx2, AES"], true));
    assert!(!agree(&["lanes 16 level ..."], &["lanes  8  level avx2, AES"], false));
    assert!(agree(&["sha256 359 ns 1.02x -"], &["sha256 2.1 us 7x 38"], true));
    assert!(!agree(&["sha256 359 ns"], &["sha512 359 ns"], true));
    assert!(!agree(&["two"], &["two", "more"], false));
}
