//! Pages of the book, and an environment to run their commands.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::gantry::text;

/// Timeout of a page in seconds.
const PAGE_TIMEOUT_SECONDS: &str = "300";

/// A fenced block of a page.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    /// The number of the block's first line, from 1.
    pub(crate) line: usize,
    pub(crate) lines: Vec<String>,
    pub(crate) directive: Directive,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Directive {
    #[default]
    Nothing,
    NotRun(String),
    ExitStatus(i32),
    NumbersVary,
}

/// A command of a page and the output that the page shows.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
    pub(crate) status: i32,
    pub(crate) numbers_vary: bool,
}

pub(crate) fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src")
}

pub(crate) fn pages() -> Vec<String> {
    let paths = fs::read_dir(book()).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut pages: Vec<String> = texts.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    pages.sort();
    pages
}

pub(crate) fn parse_directive(comment: &str) -> Directive {
    let words = comment.trim_start_matches("<!--").trim_end_matches("-->").trim();
    if let Some(reason) = words.strip_prefix("not run: ") {
        return Directive::NotRun(reason.to_owned());
    }
    match words.strip_prefix("exit status ") {
        Some(status) => Directive::ExitStatus(status.parse().unwrap()),
        None if words == "numbers vary" => Directive::NumbersVary,
        None => panic!("no such comment: {comment}"),
    }
}

pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(book().join(page)).unwrap();
    let (mut blocks, mut inside, mut above) = (Vec::new(), None::<Block>, "");
    for (number, line) in (1..).zip(text.lines()) {
        match (&mut inside, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(inside.take()),
            (Some(block), None) => block.lines.push(line.to_owned()),
            (None, Some(language)) => {
                let directive = if above.starts_with("<!-- ") { parse_directive(above) } else { Directive::Nothing };
                let language = language.to_owned();
                inside = Some(Block { language, line: number + 1, lines: Vec::new(), directive });
            }
            (None, None) => {}
        }
        above = line;
    }
    assert!(inside.is_none(), "{page}: a block does not end");
    blocks
}

/// Returns the commands of a block.
pub(crate) fn commands(block: &Block) -> Vec<Example> {
    let mut found = Vec::<Example>::new();
    for (number, line) in (block.line..).zip(&block.lines) {
        if let Some(command) = line.strip_prefix("$ ") {
            let numbers_vary = block.directive == Directive::NumbersVary;
            let (command, output) = (command.to_owned(), Vec::new());
            found.push(Example { line: number, command, output, status: 0, numbers_vary });
            continue;
        }
        let last = found.last_mut().expect("a block begins with a command");
        match line.strip_prefix("> ") {
            Some(more) if last.output.is_empty() => write!(last.command, "\n{more}").unwrap(),
            _ => last.output.push(line.clone()),
        }
    }
    if let (Directive::ExitStatus(status), Some(last)) = (&block.directive, found.last_mut()) {
        last.status = *status;
    }
    found
}

/// Reduces a token for pages where numbers vary: drops digits, and the unit after them.
pub(crate) fn mask_numbers(token: &str) -> String {
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

/// True if a line matches the line of the page.
pub(crate) fn line_matches(expected: &str, line: &str, numbers_vary: bool) -> bool {
    let tokens = |line: &str| -> Vec<String> {
        let tokens = line.split_whitespace();
        tokens.map(|token| if numbers_vary { mask_numbers(token) } else { token.to_owned() }).collect()
    };
    match expected.strip_suffix(" ...") {
        Some(begin) => tokens(line).starts_with(&tokens(begin)),
        None if numbers_vary => tokens(expected) == tokens(line),
        None => expected == line,
    }
}

pub(crate) fn output_matches(expected: &[String], lines: &[&str], numbers_vary: bool) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=lines.len()).any(|n| output_matches(rest, &lines[n..], numbers_vary))
        }
        Some((first, rest)) => lines.split_first().is_some_and(|(line, after)| {
            line_matches(first, line, numbers_vary) && output_matches(rest, after, numbers_vary)
        }),
    }
}

/// A folder for a page, with the program installed in it; removed on drop.
pub(crate) struct PageSandbox(PathBuf);

impl PageSandbox {
    pub(crate) fn new(page: &str) -> Self {
        // Hard links need a folder on the file system of cargo's builds.
        let name = format!("guide-{}-{}", page.trim_end_matches(".md"), std::process::id());
        let machine = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let _ = fs::remove_dir_all(&machine.0);
        for folder in ["home", "said", "local/bin", "local/lib/gantry/bin", "local/lib/ossl-modules"] {
            fs::create_dir_all(machine.0.join(folder)).unwrap();
        }
        fs::hard_link(env!("CARGO_BIN_EXE_gantry"), machine.0.join("local/bin/gantry")).unwrap();
        let libraries =
            [("libgantry_openssl.so", "ossl-modules/gantry.so"), ("libgantry_xfrm.so", "gantry/libgantry_xfrm.so")];
        for (built, installed) in libraries {
            let library = std::env::current_exe().unwrap().with_file_name(built);
            fs::hard_link(library, machine.0.join("local/lib").join(installed)).unwrap();
        }
        for tool in ["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"] {
            symlink("../../../bin/gantry", machine.0.join("local/lib/gantry/bin").join(tool)).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Runs commands in one shell, until one ends with an unexpected status.
    pub(crate) fn run(&self, commands: &[Example]) {
        let mut script = String::from("trap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
        for (number, example) in commands.iter().enumerate() {
            let command = example.command.replace("/usr/local", &self.path("local"));
            fs::write(self.0.join(format!("said/{number}.sh")), command).unwrap();
            let printed = self.path(&format!("said/{number}"));
            let status = example.status;
            writeln!(
                script,
                ". {printed}.sh >{printed} 2>&1 </dev/null; s=$?; echo $s >{printed}.status; [ $s = {status} ] || exit"
            )
            .unwrap();
        }
        let mut shell = Command::new("timeout");
        shell.args([PAGE_TIMEOUT_SECONDS, "bash", "-c", &script]).current_dir(self.0.join("home"));
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

    /// Returns a command's exit status and output, with the paths of the book.
    pub(crate) fn result_of(&self, number: usize) -> Option<(i32, String)> {
        let status = fs::read_to_string(self.0.join(format!("said/{number}.status"))).ok()?;
        let output = text(&fs::read(self.0.join(format!("said/{number}"))).unwrap());
        let output = output.replace(&self.path("local"), "/usr/local").replace(&self.path("home"), "/home/alice");
        // Also replaces the name of the script in the shell's errors.
        Some((status.trim().parse().unwrap(), output.replace(&self.path("said/"), "command ")))
    }
}

impl Drop for PageSandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A difference between a page and the program.
pub(crate) struct Difference {
    pub(crate) message: String,
    /// The output's place in the page (first line from 0, and number of lines), and the correct lines.
    pub(crate) should_be: Option<(usize, usize, Vec<String>)>,
}

impl Difference {
    /// Creates the difference for wrong output. Lines with `...` need a person to correct them, except a final `...`.
    pub(crate) fn output(message: String, example: &Example, lines: &[&str]) -> Self {
        let first = example.line + example.command.matches('\n').count();
        let (exact, rest) = match example.output.split_last() {
            Some((last, exact)) if last == "..." => (exact, vec![last.clone()]),
            _ => (&example.output[..], Vec::new()),
        };
        let most = if rest.is_empty() { lines.len() } else { exact.len() };
        let new = lines.iter().take(most).map(|&line| line.to_owned()).chain(rest).collect();
        let can = !exact.iter().any(|line| line.ends_with("..."));
        Self { message, should_be: can.then_some((first, example.output.len(), new)) }
    }
}

/// Runs commands of a page in order, and returns the differences.
pub(crate) fn compare(page: &str, examples: &[Example]) -> Vec<Difference> {
    let machine = PageSandbox::new(page);
    machine.run(examples);
    let mut found = Vec::new();
    for (number, example) in examples.iter().enumerate() {
        let place = format!("docs/src/{page}:{}: $ {}", example.line, example.command);
        let Some((status, output)) = machine.result_of(number) else {
            found.push(Difference { message: format!("{place}\nwas not reached, or did not end"), should_be: None });
            break;
        };
        let lines: Vec<&str> = output.lines().collect();
        if status != example.status {
            let message = format!("{place}\nended with {status} in place of {}:\n{output}", example.status);
            found.push(Difference { message, should_be: None });
        } else if !example.output.is_empty() && !output_matches(&example.output, &lines, example.numbers_vary) {
            let message = format!("{place}\ndiffers from the page (GANTRY_DECLARE=1 changes the page):\n{output}");
            found.push(Difference::output(message, example, &lines));
        }
    }
    found
}
