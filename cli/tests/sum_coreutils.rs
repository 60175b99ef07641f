//! `gantry` under the names of coreutils, compared with the real tools: stdout, stderr and exit status, byte for byte.

mod sum_lab;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};

use sum_lab::{Input, Lab, Random, TOOLS, args, coreutils_is_here, ours, run, same, same_in_shell, same_with, theirs};

/// Makes a directory with files of all kinds.
fn lab() -> Lab {
    let lab = Lab::new();
    for name in ["a", "b b", "-dash", "new\nline", "back\\slash", "cr\rname", "\u{e9}", "c:d", "it's", "#hash"] {
        lab.write(name, name);
    }
    lab.write("empty", "");
    lab.write("large", "0123456789abcde\n".repeat(10_000));
    lab.write("exact", vec![7; 32 << 10]);
    fs::create_dir(lab.path("dir")).unwrap();
    lab.write("dir/inside", "x");
    symlink("nowhere", lab.path("dangling")).unwrap();
    symlink("loop", lab.path("loop")).unwrap();
    symlink("a", lab.path("link")).unwrap();
    for tool in TOOLS {
        let digest = |name: &str| {
            let output = lab.command(&theirs(tool), tool).arg("--").arg(name).output().unwrap().stdout;
            let line = String::from_utf8(output).unwrap();
            line.trim_start_matches('\\').split(' ').next().unwrap().to_owned()
        };
        let (a, large, empty) = (digest("a"), digest("large"), digest("empty"));
        let name = tool.trim_end_matches("sum").to_uppercase();
        let lists = [
            ("good", format!("{a}  a\n{large} *large\n{empty}  empty\n")),
            ("bad", format!("{large}  a\n{a}  a\n")),
            ("worse", format!("{large}  a\n{a}  empty\n{a}  a\n{a}  gone\n{a}  lost\nx\ny\n")),
            ("mixed", format!("{a}  a\nnonsense\n{a}  gone\n{a}  dir\n")),
            ("gone", format!("{a}  gone\n")),
            ("nothing", "nonsense\n".to_owned()),
            ("void", String::new()),
            ("comments", format!("# a\n\n\r\n#{a}  a\n")),
            ("crlf", format!("{a}  a\r\n{empty}  empty\r\n")),
            ("reversed", format!("{a} a\n{a}  a\n")),
            ("ordered", format!("{a}  a\n{a} a\n")),
            (
                "bsd",
                format!("{name} (a) = {a}\n{name}(a)= {a}\n{name} (gone) = {a}\nMD4 (a) = {a}\n{name} (a) = {a} \n"),
            ),
            ("upper", format!("{}  a\n", a.to_uppercase())),
            (
                "escaped",
                format!(
                    "\\{}  new\\nline\n\\{}  back\\\\slash\n\\{a}  bad\\escape\n{a}  gone\\n\n",
                    digest("new\nline"),
                    digest("back\\slash")
                ),
            ),
            ("indented", format!("  {a}  a\n\t{a}  a\n")),
            ("stdin", format!("{a}  -\n")),
            ("unended", format!("{a}  a")),
            ("truncated", good_prefix(&a)),
            ("short", format!("{}  a\n", &a[1..])),
            ("long", format!("{a}0  a\n")),
            (
                "parentheses",
                format!("{name} (a) (b) = {a}\n{name} (a\n{name} a) = {a}\n{name} () = {a}\n{name}=\n{name}\n"),
            ),
        ];
        for (list, content) in lists {
            lab.write(format!("{tool}.{list}"), content);
        }
    }
    lab
}

fn good_prefix(digest: &str) -> String {
    format!("{digest}  a\n{}", &digest[..digest.len() / 2])
}

const LISTS: [&str; 21] = [
    "good",
    "bad",
    "worse",
    "mixed",
    "gone",
    "nothing",
    "void",
    "comments",
    "crlf",
    "reversed",
    "ordered",
    "bsd",
    "upper",
    "escaped",
    "indented",
    "stdin",
    "unended",
    "truncated",
    "short",
    "long",
    "parentheses",
];

#[test]
fn every_tool_prints_the_same_lines() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    for tool in TOOLS {
        for options in ["", "-b", "-t", "--tag", "-z", "-bz", "--tag -z", "-t --tag", "-b -t", "--tag -b"] {
            let mut all = args(options);
            all.extend(
                ["a", "b b", "new\nline", "back\\slash", "cr\rname", "\u{e9}", "empty", "large", "exact", "link", "-"]
                    .map(OsString::from),
            );
            let result = same(&lab, tool, &all, &Input::Pipe(b"piped".to_vec()));
            assert_eq!(result.code, Some(0));
        }
        same(&lab, tool, &[], &Input::Pipe(vec![b'x'; 300_000]));
        same(&lab, tool, &args("- - a -"), &Input::Pipe(b"once".to_vec()));
        same(&lab, tool, &args("- -"), &Input::File(lab.path("large")));
        same(&lab, tool, &args("/dev/stdin"), &Input::File(lab.path("large")));
    }
}

#[test]
fn unreadable_files_are_reported_in_order() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    lab.write("secret", "s");
    fs::set_permissions(lab.path("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    let long = "n".repeat(300);
    for operands in [
        "gone",
        "dir",
        "a gone a",
        "gone a dir a gone",
        "dangling",
        "loop",
        "a/b",
        "dir/",
        "dir/gone",
        "secret",
        "a a a",
        "dir/inside dir gone/ a/",
        &long,
        "-- -dash",
        "-- -dash gone -x",
        "/dev/null",
        "/proc/self/mem",
        "/proc/version",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        same(&lab, "sha256sum", &args(operands), &Input::Null);
        same_in_shell(&lab, "sha256sum", operands);
    }
    same(&lab, "sha256sum", &["".into(), "a".into()], &Input::Null);
    same(&lab, "md5sum", &args("- dir -"), &Input::File(lab.path("dir")));
}

#[test]
fn command_lines_are_parsed_the_same_way() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    for line in [
        "--foo",
        "--foo=bar",
        "--st",
        "--st=x",
        "--s",
        "--t",
        "--c a",
        "--ch md5sum.good",
        "--check=x md5sum.good",
        "--statu a",
        "-x",
        "-bx",
        "-x -y",
        "-bt a",
        "-cb",
        "-cz a",
        "-c --tag a",
        "--ignore-missing a",
        "--status a",
        "-w a",
        "--warn a",
        "--quiet a",
        "--strict a",
        "--tag -t a",
        "-t --tag a",
        "--tag -tb a",
        "-z a",
        "--zero a",
        "--binary a",
        "--text a",
        "--b a",
        "--te a",
        "--ta a",
        "--z a",
        "--i a",
        "--q a",
        "--w a",
        "--",
        "-- a",
        "a --",
        "a -- -b",
        "a -b",
        "-",
        "- -",
        "-b - a",
        "a - -b",
        "--=",
        "--=x",
        "---",
        "----",
        "-b-",
        "-:",
        "-;",
        "-W",
        "-h",
        "-V",
        "-?",
        "--hel=3",
        "--versio=3",
        "--help=",
        "--foo --help",
        "a b --foo c",
        "-c -w --status --strict md5sum.worse",
        "-wc md5sum.worse",
        "-cw -- md5sum.worse",
        "--quiet --status -c md5sum.worse",
        "--status --quiet -c md5sum.worse",
        "--status -w -c md5sum.worse",
        "-l 8 a",
        "--length=8 a",
        "-a md5 a",
        "--algorithm=md5 a",
        "--progress a",
        "--CHECK a",
    ] {
        for tool in ["md5sum", "sha256sum"] {
            same(&lab, tool, &args(line), &Input::Pipe(b"in".to_vec()));
            same_with(&lab, tool, &args(line), &Input::Null, |command| {
                command.env("POSIXLY_CORRECT", "1");
            });
        }
    }
    same(&lab, "md5sum", &[OsString::from_vec(b"-\xff".to_vec())], &Input::Null);
    same(&lab, "md5sum", &[OsString::from_vec(b"--\xff=\xfe".to_vec())], &Input::Null);
    same(&lab, "md5sum", &["--s\n".into()], &Input::Null);
}

#[test]
fn every_pair_of_options_is_accepted_or_refused_the_same_way() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    let options = [
        "-b",
        "-t",
        "-c",
        "--tag",
        "-z",
        "--ignore-missing",
        "--quiet",
        "--status",
        "--strict",
        "-w",
        "a",
        "sha1sum.worse",
    ];
    for one in options {
        for two in options {
            same(&lab, "sha1sum", &args(&format!("{one} {two}")), &Input::Null);
            same(&lab, "sha1sum", &args(&format!("{one} {two} -c sha1sum.mixed")), &Input::Null);
        }
    }
}

#[test]
fn every_checksum_file_gets_the_same_verdicts() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    for tool in TOOLS {
        for list in LISTS {
            let list = format!("{tool}.{list}");
            for options in ["-c", "-cw", "-c --strict", "-c --quiet", "-c --status", "-c --ignore-missing"] {
                same(&lab, tool, &args(&format!("{options} {list}")), &Input::Null);
            }
        }
    }
    let tool = "sha256sum";
    for list in LISTS {
        let list = format!("{tool}.{list}");
        for options in
            ["-cw --status", "-c --status -w", "-cw --strict --ignore-missing", "-c --ignore-missing --quiet"]
        {
            same(&lab, tool, &args(&format!("{options} {list}")), &Input::Null);
        }
        let content = fs::read(lab.path(&list)).unwrap();
        same(&lab, tool, &args("-cw"), &Input::Pipe(content.clone()));
        same(&lab, tool, &args("-cw - -"), &Input::Pipe(content));
        same(&lab, tool, &args("-cw -"), &Input::File(lab.path(&list)));
        same_in_shell(&lab, tool, &format!("-cw {list}"));
        // The first line decides the format for the whole run.
        same(&lab, tool, &args(&format!("-cw {list} {tool}.ordered {tool}.reversed gone {tool}.good")), &Input::Null);
    }
    for lists in
        ["gone", "dir", "gone sha256sum.good dir", "sha256sum.good sha256sum.bad sha256sum.void", "a", "/dev/null"]
    {
        same(&lab, tool, &args(&format!("-c {lists}")), &Input::Null);
        same(&lab, tool, &args(&format!("-c --status {lists}")), &Input::Null);
        same_in_shell(&lab, tool, &format!("-c {lists}"));
    }
    same(&lab, tool, &args("-c sha256sum.stdin"), &Input::Pipe(b"a".to_vec()));
    same(&lab, tool, &args("-c"), &Input::File(lab.path("dir")));
    lab.write("list with: 'quotes'\n", "nonsense\n");
    same(&lab, tool, &["-cw".into(), "list with: 'quotes'\n".into()], &Input::Null);
}

#[test]
fn closed_and_full_descriptors_are_reported_the_same_way() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    for case in [
        "a >/dev/full",
        "a a a >/dev/full",
        "-z a >/dev/full",
        "-z a a >/dev/full",
        "gone >/dev/full",
        "a gone >/dev/full",
        "-c sha256sum.good >/dev/full",
        "-c sha256sum.bad >/dev/full",
        "-c --status sha256sum.good >/dev/full",
        "-c --quiet sha256sum.good >/dev/full",
        "--help >/dev/full",
        "--version >/dev/full",
        "--foo >/dev/full",
        "a >&-",
        "a gone >&-",
        "gone >&-",
        "-z a >&-",
        "--help >&-",
        "-c sha256sum.good >&-",
        "-c --status sha256sum.good >&-",
        "<&-",
        "- <&-",
        "a <&-",
        "- a <&-",
        "a - gone <&-",
        "- - <&-",
        "-c <&-",
        "-c - <&-",
        "-c sha256sum.good <&-",
        "-c sha256sum.stdin <&-",
        "a - <&- >&-",
        "a <&- >/dev/full",
        "a 2>&-",
        "gone 2>&-",
        "a <&- 2>&-",
        "- </",
        "a > out; cat out",
        "- <>/dev/null",
        "a >dir/out; cat dir/out",
    ] {
        same_in_shell(&lab, "sha256sum", case);
    }
}

#[test]
fn a_reader_that_closes_the_pipe_ends_gantry_like_coreutils() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    let many = "a ".repeat(3000);
    let both = [theirs("md5sum"), ours()].map(|program| {
        ["", "trap '' PIPE; "].map(|trap| {
            let mut command = lab.command("/bin/bash".as_ref(), "bash");
            let program = program.to_str().unwrap();
            command.arg("-c").arg(format!("{trap}(exec -a md5sum {program} {many}) | true; echo ${{PIPESTATUS[0]}}"));
            run(command, &Input::Null)
        })
    });
    let [theirs, ours] = both;
    assert_eq!(ours, theirs);
    assert_eq!(ours[0].stdout.0, b"141\n");
}

#[test]
fn diagnostics_quote_names_the_same_way() {
    if !coreutils_is_here() {
        return;
    }
    let lab = Lab::new();
    let mut random = Random::new();
    let interesting = b" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ab0\t\n\r\x07\x1b\x7f\x80\xc3\xa9\xff";
    let mut names: Vec<Vec<u8>> = (1..=255).filter(|byte| *byte != b'/').map(|byte| vec![byte]).collect();
    names.extend(interesting.iter().map(|byte| vec![b'x', *byte, b'y']));
    names.extend(interesting.iter().map(|byte| vec![*byte, b'\'', b'y']));
    names.extend(interesting.iter().map(|byte| vec![b'y', b'\'', *byte]));
    for _ in 0..600 {
        let length = 1 + random.below(8);
        names.push((0..length).map(|_| *random.one(interesting)).collect());
    }
    names.extend(
        ["\u{e9}\u{20ac}", "\u{200b}z", "\u{1f600}", "\u{85}", "\u{e9}'", "a\u{e9}\n", "\u{feff}"].map(Into::into),
    );
    let names: Vec<_> = names.into_iter().map(|name| [b"gone/", &name[..]].concat()).map(OsString::from_vec).collect();
    for locale in ["C", "C.UTF-8", "xx_XX.UTF-8"] {
        let mut operands = vec![OsString::from("--")];
        // The first character matters, too, so not all names follow a slash.
        operands.extend(names.iter().map(|name| OsStr::from_bytes(&name.as_bytes()[5..]).to_owned()));
        operands.extend(names.iter().cloned());
        same_with(&lab, "md5sum", &operands, &Input::Null, |command| {
            command.env("LC_ALL", locale);
        });
    }
}

#[test]
fn random_checksum_files_get_the_same_verdicts() {
    if !coreutils_is_here() {
        return;
    }
    let lab = lab();
    let mut random = Random::new();
    for round in 0..400 {
        let tool = *random.one(&TOOLS);
        let mut lists = Vec::new();
        for number in 0..=random.below(2) {
            let name = format!("random.{number}");
            let lines = random.below(8);
            let content: Vec<u8> = (0..lines).flat_map(|_| random_line(&lab, tool, &mut random)).collect();
            lab.write(&name, content);
            lists.push(OsString::from(name));
        }
        let mut arguments = args("-c");
        for option in ["-w", "--quiet", "--status", "--strict", "--ignore-missing", "--warn"] {
            if random.below(3) == 0 {
                arguments.push(option.into());
            }
        }
        arguments.extend(lists);
        eprintln!("round {round}");
        same(&lab, tool, &arguments, &Input::Pipe(b"a".to_vec()));
    }
}

/// Returns a line that is often nearly valid.
fn random_line(lab: &Lab, tool: &str, random: &mut Random) -> Vec<u8> {
    let lists = ["good", "worse", "bsd", "escaped", "reversed", "crlf", "indented", "upper", "parentheses", "stdin"];
    let list = fs::read(lab.path(format!("{tool}.{}", random.one(&lists)))).unwrap();
    let lines: Vec<_> = list.split_inclusive(|byte| *byte == b'\n').collect();
    let mut line = random.one(&lines).to_vec();
    for _ in 0..[0, 0, 1, 1, 2, 4][random.below(6)] {
        let at = random.below(line.len() + 1);
        match random.below(6) {
            0 => line.truncate(at),
            1 if at < line.len() => line[at] = random.next() as u8,
            2 => line.insert(at, *random.one(b" \t*\\()=\r\n\0aA0#-")),
            3 if at < line.len() => drop(line.remove(at)),
            4 => line
                .splice(0..0, random.one(&[&b" "[..], b"\\", b"#", b"\t ", b"MD5 ("]).iter().copied())
                .for_each(drop),
            _ => {
                let end = line.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
                let ends = [&b" "[..], b"\r", b"\\", b"\\n", b"\0", b")", b"\\\\"];
                let more = random.one(&ends);
                line.splice(end..end, more.iter().copied()).for_each(drop);
            }
        }
    }
    line
}
