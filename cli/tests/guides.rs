//! The book beside the program: every command that a page shows is run, and what the page says it prints is compared.
//!
//! A page has its commands in blocks of the language `console`: lines with `$ ` are commands, those with `> ` go on with one, the others
//! are output. The commands of a page run in one shell, in a folder of its own, which is `/home/alice` in the book; `/usr/local` is where
//! a test has installed the program. In output, a line `...` stands for any lines, and ` ...` at the end of a line for any rest.
//! A comment right above a block says what is special about it:
//!
//! ```text
//! <!-- not run: REASON -->     needs root, a network, hardware, minutes
//! <!-- exit status 1 -->       of its last command
//! <!-- numbers vary -->        times, rates and counts may be others, words may not
//! ```

mod gantry;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gantry::text;

/// Seconds after which a page has hung.
const PATIENCE: &str = "300";

/// A fenced block of a page.
#[derive(Debug)]
struct Block {
    language: String,
    /// The line of its first line, from 1 on.
    line: usize,
    lines: Vec<String>,
    special: Special,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Special {
    #[default]
    Nothing,
    NotRun(String),
    ExitStatus(i32),
    NumbersVary,
}

/// A command of a page, and what it prints according to that.
#[derive(Debug)]
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
    status: i32,
    numbers_vary: bool,
}

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src")
}

fn pages() -> Vec<String> {
    let paths = fs::read_dir(book()).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut pages: Vec<String> = texts.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    pages.sort();
    pages
}

fn special(comment: &str) -> Special {
    let words = comment.trim_start_matches("<!--").trim_end_matches("-->").trim();
    if let Some(reason) = words.strip_prefix("not run: ") {
        return Special::NotRun(reason.to_owned());
    }
    match words.strip_prefix("exit status ") {
        Some(status) => Special::ExitStatus(status.parse().unwrap()),
        None if words == "numbers vary" => Special::NumbersVary,
        None => panic!("no such comment: {comment}"),
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(book().join(page)).unwrap();
    let (mut blocks, mut inside, mut above) = (Vec::new(), None::<Block>, "");
    for (number, line) in (1..).zip(text.lines()) {
        match (&mut inside, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(inside.take()),
            (Some(block), None) => block.lines.push(line.to_owned()),
            (None, Some(language)) => {
                let special = if above.starts_with("<!-- ") { special(above) } else { Special::Nothing };
                let language = language.to_owned();
                inside = Some(Block { language, line: number + 1, lines: Vec::new(), special });
            }
            (None, None) => {}
        }
        above = line;
    }
    assert!(inside.is_none(), "{page}: a block does not end");
    blocks
}

/// The commands of a block that is to be run.
fn commands(block: &Block) -> Vec<Shown> {
    let mut found = Vec::<Shown>::new();
    for (number, line) in (block.line..).zip(&block.lines) {
        if let Some(command) = line.strip_prefix("$ ") {
            let numbers_vary = block.special == Special::NumbersVary;
            let (command, output) = (command.to_owned(), Vec::new());
            found.push(Shown { line: number, command, output, status: 0, numbers_vary });
            continue;
        }
        let last = found.last_mut().expect("a block begins with a command");
        match line.strip_prefix("> ") {
            Some(more) if last.output.is_empty() => write!(last.command, "\n{more}").unwrap(),
            _ => last.output.push(line.clone()),
        }
    }
    if let (Special::ExitStatus(status), Some(last)) = (&block.special, found.last_mut()) {
        last.status = *status;
    }
    found
}

/// A token as far as it matters where numbers vary: its digits, and the unit that follows, are left out.
fn shape(token: &str) -> String {
    const UNITS: &[&str] = &["ns", "us", "ms", "s", "B", "kB", "MB", "GB"];
    if UNITS.contains(&token) {
        return "unit".into();
    }
    if token == "-" || token.starts_with(|first: char| first.is_ascii_digit()) {
        let rest = token.trim_start_matches(|c: char| c.is_ascii_digit() || ".,-".contains(c));
        return format!("#{rest}");
    }
    token.to_owned()
}

/// Whether a line is what the page shows.
fn line_agrees(shown: &str, line: &str, numbers_vary: bool) -> bool {
    let tokens = |line: &str| -> Vec<String> {
        let tokens = line.split_whitespace();
        tokens.map(|token| if numbers_vary { shape(token) } else { token.to_owned() }).collect()
    };
    match shown.strip_suffix(" ...") {
        Some(begin) => tokens(line).starts_with(&tokens(begin)),
        None if numbers_vary => tokens(shown) == tokens(line),
        None => shown == line,
    }
}

fn agrees(shown: &[String], lines: &[&str], numbers_vary: bool) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => (0..=lines.len()).any(|n| agrees(rest, &lines[n..], numbers_vary)),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, after)| line_agrees(first, line, numbers_vary) && agrees(rest, after, numbers_vary)),
    }
}

/// A folder for a page, with the program installed in it; gone when the test ends.
struct Machine(PathBuf);

impl Machine {
    fn new(page: &str) -> Self {
        // Where links to what cargo has built can be made.
        let name = format!("guide-{}-{}", page.trim_end_matches(".md"), std::process::id());
        let machine = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let _ = fs::remove_dir_all(&machine.0);
        for folder in ["home", "said", "local/bin", "local/lib/gantry/bin", "local/lib/ossl-modules"] {
            fs::create_dir_all(machine.0.join(folder)).unwrap();
        }
        fs::hard_link(env!("CARGO_BIN_EXE_gantry"), machine.0.join("local/bin/gantry")).unwrap();
        let module = std::env::current_exe().unwrap().with_file_name("libgantry_openssl.so");
        fs::hard_link(module, machine.0.join("local/lib/ossl-modules/gantry.so")).unwrap();
        for tool in ["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"] {
            symlink("../../../bin/gantry", machine.0.join("local/lib/gantry/bin").join(tool)).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Runs commands in one shell, up to the first that ends otherwise than it should.
    fn run(&self, commands: &[Shown]) {
        let mut script = String::from("trap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
        for (number, shown) in commands.iter().enumerate() {
            let command = shown.command.replace("/usr/local", &self.path("local"));
            fs::write(self.0.join(format!("said/{number}.sh")), command).unwrap();
            let said = self.path(&format!("said/{number}"));
            let status = shown.status;
            writeln!(
                script,
                ". {said}.sh >{said} 2>&1 </dev/null; s=$?; echo $s >{said}.status; [ $s = {status} ] || exit"
            )
            .unwrap();
        }
        let mut shell = Command::new("timeout");
        shell.args([PATIENCE, "bash", "-c", &script]).current_dir(self.0.join("home"));
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            if ["GANTRY_", "XDG_", "OPENSSL_"].iter().any(|ours| name.starts_with(ours)) {
                shell.env_remove(&variable);
            }
        }
        let search = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{search}", self.path("local/bin"))).env("HOME", self.0.join("home"));
        shell.env("LC_ALL", "C").env_remove("COLUMNS").stdin(Stdio::null());
        let output = shell.output().unwrap();
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }

    /// What a command of the page did: its exit status, and its output in the words of the book.
    fn said(&self, number: usize) -> Option<(i32, String)> {
        let status = fs::read_to_string(self.0.join(format!("said/{number}.status"))).ok()?;
        let output = text(&fs::read(self.0.join(format!("said/{number}"))).unwrap());
        let output = output.replace(&self.path("local"), "/usr/local").replace(&self.path("home"), "/home/alice");
        // An error in the command itself, as the shell calls it.
        Some((status.trim().parse().unwrap(), output.replace(&self.path("said/"), "command ")))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where a page and the program differ.
struct Difference {
    message: String,
    /// The place of the output in the page: its first line from 0 on, how many there are, and what they should be.
    should_be: Option<(usize, usize, Vec<String>)>,
}

impl Difference {
    /// What a page that shows something else should show. Lines that stand for others are for people, but for a last one.
    fn output(message: String, shown: &Shown, lines: &[&str]) -> Self {
        let first = shown.line + shown.command.matches('\n').count();
        let (exact, rest) = match shown.output.split_last() {
            Some((last, exact)) if last == "..." => (exact, vec![last.clone()]),
            _ => (&shown.output[..], Vec::new()),
        };
        let most = if rest.is_empty() { lines.len() } else { exact.len() };
        let new = lines.iter().take(most).map(|&line| line.to_owned()).chain(rest).collect();
        let can = !exact.iter().any(|line| line.ends_with("..."));
        Self { message, should_be: can.then_some((first, shown.output.len(), new)) }
    }
}

/// Has a page show what the program prints, with `GANTRY_DECLARE=1`.
fn declare(page: &str, found: &[Difference]) {
    let path = book().join(page);
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    for (first, count, new) in found.iter().rev().filter_map(|difference| difference.should_be.clone()) {
        lines.splice(first..first + count, new);
    }
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Every difference between a page and the program, in order.
fn differences(page: &str) -> Vec<Difference> {
    let (mut shown, mut left_out) = (Vec::new(), Vec::new());
    for block in blocks(page).iter().filter(|block| block.language == "console") {
        match &block.special {
            Special::NotRun(reason) => left_out.push((block.line, commands(block).len(), reason.clone())),
            _ => shown.extend(commands(block)),
        }
    }
    let (count, commands): (usize, usize) = (left_out.iter().map(|(_, count, _)| count).sum(), shown.len());
    let mut said = format!("docs/src/{page}: {commands} commands run, {count} not\n");
    for (line, count, reason) in left_out {
        writeln!(said, "    {count} of line {line}: {reason}").unwrap();
    }
    // `eprint!` would be kept to itself by a test that passes.
    let _ = std::io::stderr().write_all(said.as_bytes());
    let machine = Machine::new(page);
    machine.run(&shown);
    let mut found = Vec::new();
    for (number, shown) in shown.iter().enumerate() {
        let place = format!("docs/src/{page}:{}: $ {}", shown.line, shown.command);
        let Some((status, output)) = machine.said(number) else {
            found.push(Difference { message: format!("{place}\nwas not reached, or did not end"), should_be: None });
            break;
        };
        let lines: Vec<&str> = output.lines().collect();
        if status != shown.status {
            let message = format!("{place}\nended with {status} in place of {}:\n{output}", shown.status);
            found.push(Difference { message, should_be: None });
        } else if !shown.output.is_empty() && !agrees(&shown.output, &lines, shown.numbers_vary) {
            let message = format!("{place}\nprints other than the page shows (GANTRY_DECLARE=1 changes it):\n{output}");
            found.push(Difference::output(message, shown, &lines));
        }
    }
    found
}

/// Programs that pages use and machines may lack.
const NEEDED: &[(&str, &str)] = &[
    ("command.md", "zstd"),
    ("guide-files.md", "zstd"),
    ("guide-tls.md", "openssl"),
    ("guide-vpn.md", "openssl"),
    ("monitoring.md", "curl"),
];

fn follows(page: &str) {
    let needed = NEEDED.iter().filter(|(of, _)| *of == page).map(|&(_, program)| program);
    if let Some(missing) = needed.into_iter().find(|program| Command::new(program).arg("--version").output().is_err()) {
        return gantry_lab::skip(missing);
    }
    let found = differences(page);
    if std::env::var_os("GANTRY_DECLARE").is_some() {
        declare(page, &found);
    }
    let messages: Vec<&str> = found.iter().map(|difference| &*difference.message).collect();
    assert!(messages.is_empty(), "{}", messages.join("\n"));
}

macro_rules! pages {
    ($($test:ident: $page:literal;)+) => {
        const RUN: &[&str] = &[$($page),+];
        $(#[test]
        fn $test() {
            follows($page);
        })+
    };
}

pages! {
    first_steps: "getting-started.md";
    files: "guide-files.md";
    tls_servers: "guide-tls.md";
    vpn: "guide-vpn.md";
    boards: "guide-boards.md";
    commands_of_the_reference: "command.md";
    digests_of_files: "sum.md";
    ciphers_over_files: "crypt.md";
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
        let runs = |block: &&Block| block.language == "console" && !matches!(block.special, Special::NotRun(_));
        assert!(
            RUN.contains(&&*page) || blocks.iter().find(runs).is_none(),
            "{page} has commands, and no test follows it"
        );
        for block in &blocks {
            let known = ["console", "rust", "rust,ignore", "toml", "ini", "text", "nginx"];
            assert!(
                known.contains(&&*block.language),
                "{page}:{}: commands are in blocks of the language console, others are {known:?}",
                block.line
            );
            let commands = if runs(&block) { commands(block) } else { Vec::new() };
            for shown in commands {
                assert!(!shown.command.contains("sudo "), "{page}:{}: not to be run by a test", shown.line);
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

/// Commands that are not in every build, or not in this one yet.
const ELSEWHERE: &[&str] = &["advise", "reproduce"];

/// What the program's help does not know of a command that is not run: its name, or an option.
fn unknown(command: &str) -> Option<String> {
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
        // Of a command with commands of its own the second name is one of these.
        let has_commands = names.is_empty() || text(&help(&names).stdout).contains("\nCommands:\n");
        if has_commands {
            names.push(name);
        }
    }
    if names.is_empty() || ELSEWHERE.contains(&names[0]) {
        return None;
    }
    let output = help(&names);
    let known = text(&output.stdout);
    let mut options = words.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap());
    let missing = if output.status.success() { options.find(|option| !known.contains(option)) } else { Some(names[0]) };
    missing.map(|word| format!("{word} of: {command}"))
}

#[test]
fn what_is_not_run_can_be_typed() {
    for page in pages() {
        for block in blocks(&page).iter().filter(|block| matches!(block.special, Special::NotRun(_))) {
            for shown in commands(block) {
                assert_eq!(unknown(&shown.command), None, "docs/src/{page}:{}", shown.line);
            }
        }
    }
    assert_eq!(
        unknown("sudo gantry openssl config --sistem").as_deref(),
        Some("--sistem of: sudo gantry openssl config --sistem")
    );
    assert_eq!(unknown("gantry openssl conf --system").as_deref(), Some("openssl of: gantry openssl conf --system"));
    assert_eq!(unknown("gantry --devices null=on chek").as_deref(), Some("chek of: gantry --devices null=on chek"));
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
            // Cargo's, and those of models, which a usual build leaves out.
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
    let shown: Vec<&str> = cells.flat_map(|(names, _)| names.trim_matches('`').split("`, `")).collect();
    let listed = gantry::json(&["algorithms", "--json"]);
    let (shown, listed): (BTreeSet<&str>, BTreeSet<&str>) =
        (shown.into_iter().collect(), gantry::names(&listed).into_iter().collect());
    assert_eq!(shown, listed);
}

#[test]
fn a_wrong_command_or_output_is_found() {
    let shown = |command: &str, output: &[&str], status| Shown {
        line: 1,
        command: command.into(),
        output: output.iter().map(|&line| line.into()).collect(),
        status,
        numbers_vary: false,
    };
    let machine = Machine::new("wrong.md");
    machine.run(&[
        shown("gantry devices >/dev/null", &[], 0),
        shown("gantry device", &[], 0),
        shown("echo no", &[], 0),
    ]);
    assert_eq!(machine.said(0), Some((0, String::new())));
    assert_eq!(machine.said(1).unwrap().0, 2);
    assert_eq!(machine.said(2), None);

    let agree = |shown: &[&str], lines: &[&str], vary| {
        agrees(&shown.iter().map(|&line| line.to_owned()).collect::<Vec<_>>(), lines, vary)
    };
    assert!(agree(&["a", "...", "z"], &["a", "b", "c", "z"], false));
    assert!(!agree(&["a", "..."], &["b", "c"], false));
    assert!(agree(&["lanes 16 level ..."], &["lanes  8  level avx2, AES"], true));
    assert!(!agree(&["lanes 16 level ..."], &["lanes  8  level avx2, AES"], false));
    assert!(agree(&["sha256 359 ns 1.02x -"], &["sha256 2.1 us 7x 38"], true));
    assert!(!agree(&["sha256 359 ns"], &["sha512 359 ns"], true));
    assert!(!agree(&["two"], &["two", "more"], false));
}
