//! Shared code of the tests of `gantry sum`: a directory per test, and programs that run in it under a given name.

#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The names under which `gantry` acts as coreutils.
pub(crate) const TOOLS: [&str; 6] = ["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"];

/// Returns the path of the program under test.
pub(crate) fn ours() -> PathBuf {
    env!("CARGO_BIN_EXE_gantry").into()
}

/// Returns the path of the program of coreutils.
pub(crate) fn theirs(tool: &str) -> PathBuf {
    Path::new("/usr/bin").join(tool)
}

/// A directory that is removed on drop.
pub(crate) struct Lab {
    pub(crate) dir: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sum-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Prepares `program` to run in this directory, under the name `name` and in the C locale.
    pub(crate) fn command(&self, program: &Path, name: &str) -> Command {
        let mut command = Command::new(program);
        command.arg0(name).current_dir(&self.dir).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT");
        // A shell runs background jobs with SIGINT ignored, and children inherit that. Tests that interrupt them would wait forever.
        // SAFETY: `signal` may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        command
    }

    /// Prepares `gantry` under a name of coreutils.
    pub(crate) fn tool(&self, name: &str) -> Command {
        self.command(&ours(), name)
    }

    pub(crate) fn gantry_sum(&self) -> Command {
        let mut command = self.command(&ours(), "gantry");
        command.arg("sum");
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    Null,
    Pipe(Vec<u8>),
    File(PathBuf),
}

/// The result of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RunResult {
    pub(crate) stdout: Text,
    pub(crate) stderr: Text,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

/// Bytes that are shown as text.
#[derive(PartialEq, Eq)]
pub(crate) struct Text(pub Vec<u8>);

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Runs a command to the end.
pub(crate) fn run(mut command: Command, input: &Input) -> RunResult {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(match input {
        Input::Null => Stdio::null(),
        Input::Pipe(_) => Stdio::piped(),
        Input::File(path) => fs::File::open(path).unwrap().into(),
    });
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take();
    let writer = match (input, stdin.take()) {
        (Input::Pipe(bytes), Some(mut stdin)) => {
            let bytes = bytes.clone();
            // Fails if the program does not read the whole input.
            Some(std::thread::spawn(move || drop(stdin.write_all(&bytes))))
        }
        _ => None,
    };
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    if let Some(writer) = writer {
        writer.join().unwrap();
    }
    RunResult { stdout: Text(stdout), stderr: Text(stderr), code: status.code(), signal: status.signal() }
}

/// True if coreutils 9.1 is installed; other versions print something else.
pub(crate) fn coreutils_is_here() -> bool {
    let version = Command::new(theirs("sha256sum")).arg("--version").output();
    let here = version.is_ok_and(|output| output.stdout.starts_with(b"sha256sum (GNU coreutils) 9.1\n"));
    if !here {
        gantry_lab::skip("coreutils 9.1");
    }
    here
}

/// Runs both programs with the same arguments, and fails if they differ.
pub(crate) fn same(lab: &Lab, tool: &str, args: &[OsString], input: &Input) -> RunResult {
    same_with(lab, tool, args, input, |_| {})
}

/// Runs both programs like [`same`], after `prepare` has changed both commands.
pub(crate) fn same_with(
    lab: &Lab,
    tool: &str,
    args: &[OsString],
    input: &Input,
    prepare: impl Fn(&mut Command),
) -> RunResult {
    let both = [theirs(tool), ours()].map(|program| {
        let mut command = lab.command(&program, tool);
        command.args(args);
        prepare(&mut command);
        run(command, input)
    });
    let [theirs, ours] = both;
    assert_eq!(ours, theirs, "left: ours, right: coreutils\n{tool} {args:?}\nstdin: {input:?}");
    ours
}

/// Runs both programs in bash, for redirections that `Command` cannot express; mixes stdout and stderr.
pub(crate) fn same_in_shell(lab: &Lab, tool: &str, arguments_and_redirections: &str) -> RunResult {
    let both = [theirs(tool), ours()].map(|program| {
        let mut command = lab.command("/bin/bash".as_ref(), "bash");
        command.arg("-c").arg(format!(
            "exec 2>&1; (exec -a {tool} {} {arguments_and_redirections}); echo $?",
            program.to_str().unwrap()
        ));
        run(command, &Input::Null)
    });
    let [theirs, ours] = both;
    assert_eq!(ours, theirs, "left: ours, right: coreutils\n{tool} {arguments_and_redirections}");
    ours
}

/// Random numbers that are the same in every run (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    /// Seeds from `SUM_TEST_SEED`, or a constant.
    pub(crate) fn new() -> Self {
        let seed = std::env::var("SUM_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_120);
        eprintln!("SUM_TEST_SEED={seed}");
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 33) as usize) % end
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 40) as u8).collect()
    }
}

pub(crate) fn args(words: &str) -> Vec<OsString> {
    words.split_whitespace().map(OsString::from).collect()
}
