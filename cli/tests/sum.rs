//! `gantry sum` where it could differ from a sequential tool: order, pipes, changing files, memory, signals.

mod sum_lab;

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sum_lab::{Input, Lab, Random, TOOLS, args, run, theirs};

const LEVELS: [&str; 4] = ["avx512", "vaes", "avx2", "base"];

#[test]
fn sizes_around_every_boundary_give_the_digests_of_coreutils() {
    let lab = Lab::new();
    let mut random = Random::new();
    let borders = [1 << 10, 32 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
    let sizes: Vec<usize> = (0..260).chain(borders.iter().flat_map(|border| border - 1..=border + 1)).collect();
    let mut names = Vec::new();
    for size in sizes {
        let name = format!("f{size}");
        lab.write(&name, random.bytes(size));
        names.push(name);
    }
    for tool in TOOLS {
        let mut real = lab.command(&theirs(tool), tool);
        let expected = run_ok(real.args(&names));
        for level in LEVELS {
            let ours = run_ok(lab.tool(tool).env("GANTRY_CPU", level).args(&names));
            assert!(ours == expected, "{tool} at {level}");
        }
        for (name, line) in names.iter().zip(expected.lines()).skip(250) {
            assert_eq!(run_ok(lab.tool(tool).arg(name)).trim_end(), line, "{tool} of a single file");
        }
    }
}

#[test]
fn lines_keep_the_order_of_the_arguments() {
    let lab = Lab::new();
    let mut names = Vec::new();
    for number in 0..3000_usize {
        let name = format!("f{number}");
        // The first files take longest.
        let size = if number < 5 { 8 << 20 } else { number.wrapping_mul(2_654_435_761) % 5000 };
        lab.write(&name, vec![number as u8; size]);
        names.push(if number % 97 == 3 { format!("gone{number}") } else { name });
    }
    for lines in [&names[..], &names[..3], &names[3..40]] {
        let ours = lab.tool("sha1sum").args(lines).output().unwrap();
        let theirs = lab.command(&theirs("sha1sum"), "sha1sum").args(lines).output().unwrap();
        assert!(ours.stdout == theirs.stdout && ours.stderr == theirs.stderr && ours.status == theirs.status);
    }
}

#[test]
fn a_copy_made_by_tee_is_complete_when_it_is_read() {
    let lab = Lab::new();
    let content = "line\n".repeat(1_000_000);
    lab.write("content", &content);
    lab.write("other", "o");
    for _ in 0..5 {
        let mut shell = lab.command("/bin/bash".as_ref(), "bash");
        let ours = sum_lab::ours();
        shell.arg("-c").arg(format!("tee copy <content | (exec -a md5sum {} - copy other)", ours.to_str().unwrap()));
        let digest = md5_of(&lab, "content");
        let other = md5_of(&lab, "other");
        assert_eq!(run_ok(&mut shell), format!("{digest}  -\n{digest}  copy\n{other}  other\n"));
        fs::remove_file(lab.path("copy")).unwrap();
    }
}

#[test]
fn files_that_change_while_an_earlier_pipe_is_read_are_read_again() {
    let lab = Lab::new();
    make_fifo(&lab, "fifo");
    for name in ["kept", "removed", "changed", "replaced"] {
        lab.write(name, name);
    }
    // Wait until the files are old enough for reliable time stamps, so that only a comparison of the stamps detects the change.
    std::thread::sleep(Duration::from_millis(200));
    let mut child = spawn(lab.tool("md5sum").args(args("kept fifo removed changed replaced created kept")));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), format!("{}  kept", md5_of(&lab, "kept")));
    // Let the workers read the other files too early.
    std::thread::sleep(Duration::from_millis(100));
    fs::remove_file(lab.path("removed")).unwrap();
    lab.write("changed", "CHANGED");
    lab.write("new", "REPLACE");
    fs::rename(lab.path("new"), lab.path("replaced")).unwrap();
    lab.write("created", "c");
    lab.write("content", "through the pipe");
    fs::copy(lab.path("content"), lab.path("fifo")).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let expect = |name: &str, shown: &str| format!("{}  {shown}", md5_of(&lab, name));
    assert_eq!(
        rest,
        [
            expect("content", "fifo"),
            expect("changed", "changed"),
            expect("replaced", "replaced"),
            expect("created", "created"),
            expect("kept", "kept"),
        ]
    );
    assert_eq!(rest_of(&mut child), "md5sum: removed: No such file or directory\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_pipe_named_twice_is_opened_twice_in_turn() {
    let lab = Lab::new();
    make_fifo(&lab, "fifo");
    lab.write("one", "one");
    lab.write("two", "two");
    let mut child = spawn(lab.tool("sha256sum").args(args("fifo one fifo two")));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for name in ["one", "two"] {
        fs::copy(lab.path(name), lab.path("fifo")).unwrap();
        let digest = |line: Option<std::io::Result<String>>| line.unwrap().unwrap()[..64].to_owned();
        let of_pipe = digest(lines.next());
        assert_eq!(of_pipe, digest(lines.next()), "{name}");
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_pipe_without_a_writer_does_not_delay_earlier_files() {
    let lab = Lab::new();
    make_fifo(&lab, "fifo");
    let names: Vec<String> = (0..100).map(|number| format!("f{number}")).collect();
    for name in &names {
        lab.write(name, name);
    }
    let mut child = spawn(lab.tool("sha512sum").args(&names).arg("fifo").args(&names));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for name in &names {
        assert!(lines.next().unwrap().unwrap().ends_with(name));
    }
    // SIGINT ends the waiting process, which has printed only whole lines.
    interrupt(&child);
    assert_eq!(lines.count(), 0);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
}

#[test]
fn an_interrupt_leaves_whole_lines() {
    let lab = Lab::new();
    lab.write("small", "small");
    File::create(lab.path("huge")).unwrap().set_len(1 << 40).unwrap();
    for operands in ["small huge small", "huge", "small small huge huge huge"] {
        let mut child = spawn(lab.tool("sha256sum").args(args(operands)));
        std::thread::sleep(Duration::from_millis(150));
        interrupt(&child);
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.is_empty() || text.ends_with("  small\n"), "{text:?}");
        assert!(text.lines().all(|line| line.len() == 64 + 2 + 5), "{text:?}");
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    }
}

#[test]
fn verdicts_are_printed_while_the_list_is_being_written() {
    let lab = Lab::new();
    lab.write("a", "a");
    let mut child = spawn(lab.tool("md5sum").arg("-c").stdin(Stdio::piped()));
    let mut list = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let digest = md5_of(&lab, "a");
    for _ in 0..3 {
        writeln!(list, "{digest}  a").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "a: OK");
    }
    drop(list);
    assert!(child.wait().unwrap().success());
}

#[test]
fn missing_files_get_a_message_and_the_others_a_digest() {
    let lab = Lab::new();
    let names: Vec<String> = (0..4000).map(|number| format!("f{number}")).collect();
    for name in &names {
        lab.write(name, name);
    }
    let child = spawn(lab.tool("md5sum").args(&names));
    for name in names.iter().rev() {
        fs::remove_file(lab.path(name)).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let mut printed = stdout.lines().map(|line| &line[34..]).peekable();
    let mut warnings = stderr.lines().peekable();
    for name in &names {
        if printed.next_if_eq(&name.as_str()).is_none() {
            assert_eq!(warnings.next(), Some(&*format!("md5sum: {name}: No such file or directory")));
        }
    }
    assert_eq!((printed.next(), warnings.next()), (None, None));
    assert_eq!(output.status.code(), Some(i32::from(!stderr.is_empty())));
}

#[test]
fn few_descriptors_are_enough_for_many_files() {
    let lab = Lab::new();
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        lab.write(name, vec![number as u8; 100_000]);
    }
    let expected = run_ok(lab.command(&theirs("sha1sum"), "sha1sum").args(&names));
    for limit in [8, 12, 20, 40] {
        let mut shell = lab.command("/bin/bash".as_ref(), "bash");
        let ours = sum_lab::ours();
        shell.arg("-c").arg(format!("ulimit -n {limit}; exec -a sha1sum {} f{{0..199}}", ours.to_str().unwrap()));
        assert!(run_ok(&mut shell) == expected, "{limit} descriptors");
    }
}

/// Pieces of files, results that wait for their turn, and names in a list take bounded memory.
#[test]
fn memory_stays_within_64_mib_of_a_run_that_reads_nothing() {
    let lab = Lab::new();
    lab.write("empty", "");
    let mut idle = lab.tool("sha256sum").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let base = peak_so_far_kib(&idle).unwrap();
    drop(idle.stdin.take());
    assert!(idle.wait().unwrap().success());
    let bound = base + (64 << 10);
    let assert_bounded = |name: &str, peak: u64| {
        eprintln!("{name}: {peak} KiB (bound {bound})");
        assert!(peak < bound, "{name}: {peak} KiB, and {base} KiB for no input");
    };

    for (name, size) in [("huge", 2 << 30), ("long", 256 << 20), ("long2", 256 << 20)] {
        File::create(lab.path(name)).unwrap().set_len(size).unwrap();
    }
    assert_bounded("a sparse file of 2 GiB", peak_kib(lab.tool("sha256sum").arg("huge")));
    assert_bounded("two long ones and a small one", peak_kib(lab.tool("sha1sum").args(args("long empty long2"))));

    // A long file comes first, so that the results of the others have to wait. The names are long, too.
    let long = |number: usize| format!("{number:0>200}");
    let digest = "d41d8cd98f00b204e9800998ecf8427e";
    let mut list = format!("{digest}  long\n");
    for number in 0..300_000 {
        if number < 100 {
            lab.write(long(number), "");
        }
        writeln!(list, "{digest}  {}", long(number % 100)).unwrap();
    }
    lab.write("list", list);
    assert_bounded("a list of 300,000 files", peak_kib(lab.tool("md5sum").args(args("-c --quiet list"))));

    let names: Vec<String> = (0..50).map(|number| format!("fifo{number}")).collect();
    for name in &names {
        make_fifo(&lab, name);
    }
    let writers: Vec<_> = names
        .iter()
        .map(|name| {
            let path = lab.path(name);
            std::thread::spawn(move || {
                let mut fifo = File::options().write(true).open(path).unwrap();
                fifo.write_all(&vec![b'x'; 2 << 20]).unwrap();
            })
        })
        .collect();
    assert_bounded("50 pipes of 2 MiB", peak_kib(lab.tool("md5sum").args(&names)));
    for writer in writers {
        writer.join().unwrap();
    }

    File::create(lab.path("endless")).unwrap().set_len(1 << 30).unwrap();
    let mut command = lab.tool("md5sum");
    command.args(args("-c endless")).stderr(Stdio::null());
    assert_bounded("a checksum file without a line end", peak_kib(&mut command));
}

#[test]
fn a_line_that_is_too_long_is_improper_and_the_next_one_is_read() {
    let lab = Lab::new();
    lab.write("a", "a");
    let mut list = vec![b'x'; 5 << 20];
    list.extend(format!("\n{}  a\n", md5_of(&lab, "a")).bytes());
    lab.write("list", list);
    let result = run(with(lab.tool("md5sum"), "-cw list"), &Input::Null);
    assert_eq!(result.stdout.0, b"a: OK\n");
    let warnings =
        "md5sum: list: 1: improperly formatted MD5 checksum line\nmd5sum: WARNING: 1 line is improperly formatted\n";
    assert_eq!(result.stderr.0, warnings.as_bytes());
}

#[test]
fn the_last_large_files_are_read_completely_on_every_device() {
    let lab = Lab::new();
    // The files are larger than the pieces and have different lengths, so that batches shrink towards the end.
    let names: Vec<String> = (0_usize..5).map(|n| format!("file{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        lab.write(name, vec![n as u8; 700_000 + 150_000 * n]);
    }
    for (algorithm, coreutils) in [("sha1", "sha1sum"), ("sha256", "sha256sum"), ("sha512", "sha512sum")] {
        let expected = run_ok(lab.command(Path::new(coreutils), coreutils).args(&names));
        let lines: Vec<&str> = expected.lines().collect();
        for policy in ["pin:lanes", "pin:software", "round-robin"] {
            for count in 1..=names.len() {
                let mut command = lab.gantry_sum();
                command.args(["-a", algorithm]).args(&names[..count]).env("GANTRY_POLICY", policy);
                assert_eq!(run_ok(&mut command), lines[..count].join("\n") + "\n", "{algorithm}, {policy}");
            }
        }
    }
}

#[test]
fn gantry_sum_serves_every_digest_of_the_table() {
    let lab = Lab::new();
    lab.write("abc", "abc");
    // FIPS 180-4 and 202 examples, RFC 7693 for BLAKE2b with 32 bytes, ISO/IEC 10118-3.
    for (name, tag, digest) in [
        ("sha256", "SHA256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("SHA-1", "SHA1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha512-256", "SHA512-256", "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
        ("sha3-256", "SHA3-256", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
        ("blake2b-256", "BLAKE2b-256", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"),
        ("rmd160", "RIPEMD160", "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"),
    ] {
        assert_eq!(run_ok(lab.gantry_sum().args(["-a", name, "abc"])), format!("{digest}  abc\n"));
        let line = run_ok(lab.gantry_sum().args([&format!("--algorithm={name}"), "--tag", "abc"]));
        assert_eq!(line, format!("{tag} (abc) = {digest}\n"));
        lab.write("list", &line);
        assert_eq!(run_ok(lab.gantry_sum().args(["-c", "-a", name, "list"])), "abc: OK\n");
    }
    assert!(run_ok(lab.gantry_sum().arg("abc")).starts_with("ba7816bf"), "sha256 is the default");
}

#[test]
fn gantry_sum_refuses_other_algorithms_and_suggests_a_digest() {
    let lab = Lab::new();
    let refusal = |words: &str| {
        let result = run(with(lab.gantry_sum(), words), &Input::Null);
        assert_eq!((result.code, result.stdout.0.len()), (Some(1), 0), "{words}");
        String::from_utf8(result.stderr.0).unwrap()
    };
    assert!(refusal("-a sha265").starts_with("gantry sum: unknown algorithm 'sha265'; did you mean sha256"));
    assert_eq!(refusal("-a hmac-sha256"), "gantry sum: hmac-sha256 is a mac, not a digest\n");
    let hint = "Try 'gantry sum --help' for more information.\n";
    assert_eq!(refusal("-a"), format!("gantry sum: option requires an argument -- 'a'\n{hint}"));
    assert_eq!(refusal("--algorithm"), format!("gantry sum: option '--algorithm' requires an argument\n{hint}"));
    assert_eq!(refusal("--foo"), format!("gantry sum: unrecognized option '--foo'\n{hint}"));
}

#[test]
fn help_lists_every_option() {
    let lab = Lab::new();
    let (tool, gantry) = (run_ok(lab.tool("sha256sum").arg("--help")), run_ok(lab.gantry_sum().arg("--help")));
    for option in
        ["-b", "-c", "-t", "-w", "-z", "--tag", "--ignore-missing", "--quiet", "--status", "--strict", "--version"]
    {
        assert!(tool.contains(option) && gantry.contains(option), "{option}");
    }
    assert!(!tool.contains("--progress") && gantry.contains("--progress") && gantry.contains("-a, --algorithm=NAME"));
    assert!(run_ok(lab.tool("md5sum").arg("--version")).starts_with("md5sum (Gantry) "));
}

#[test]
fn progress_is_drawn_on_a_terminal_only() {
    let lab = Lab::new();
    File::create(lab.path("large")).unwrap().set_len(1 << 30).unwrap();
    let result = run(with(lab.gantry_sum(), "--progress -a md5 large"), &Input::Null);
    assert_eq!((result.code, result.stderr.0.len()), (Some(0), 0));
    let plain = result.stdout.0;
    let mut terminal = lab.command("/usr/bin/script".as_ref(), "script");
    let ours = sum_lab::ours();
    terminal.env("TERM", "xterm").args([
        "-qec",
        &format!("{} sum --progress -a md5 large", ours.to_str().unwrap()),
        "/dev/null",
    ]);
    let shown = run(terminal, &Input::Null).stdout.0;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("of 1.00 GiB") && shown.contains("/s") && shown.contains("left"), "{shown:?}");
    let digest = String::from_utf8(plain).unwrap();
    assert!(shown.contains(digest.trim_end()), "{shown:?}");
}

fn with(mut command: Command, words: &str) -> Command {
    command.args(args(words));
    command
}

fn run_ok(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{command:?}: {}: {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn rest_of(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn md5_of(lab: &Lab, name: &str) -> String {
    run_ok(lab.command(&theirs("md5sum"), "md5sum").arg(name))[..32].to_owned()
}

fn make_fifo(lab: &Lab, name: &str) {
    let path = CString::new(lab.path(Path::new(name)).as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

fn interrupt(child: &Child) {
    // SAFETY: the call signals a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) }, 0);
}

/// Runs a command to the end, and returns its peak memory in KiB.
///
/// Polls the peak, because the total that the system reports at the end includes the memory of the test program, which the child shares
/// briefly when it starts.
fn peak_kib(command: &mut Command) -> u64 {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak_so_far_kib(&child).unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(1));
    }
    peak
}

/// Returns the peak memory of a running child in KiB; `None` if the child has just ended.
fn peak_so_far_kib(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse().unwrap())
}
