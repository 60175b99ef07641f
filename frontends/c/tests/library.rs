//! The library in C and C++ programs: linked by `scripts/c-library`, found by pkg-config, and run.

mod lab;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::mem::offset_of;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use gantry_c::Code;
use gantry_c::Piece;
use gantry_c::abi::{Column, Completion, Message, Params, Request, direction, flags, operation, result};
use lab::{Lab, book_page, crate_path, output, text};

/// An engine that completes by interrupts, for tests of queues.
const ENGINE: &str = "policy = \"pin:model:engine\"\n[models]\nengine = \"like=bcm5822,md5=2000+100,aes-128-gcm=2000+100\"\n\
                      [devices]\n\"model:engine\" = \"on\"\n";

#[test]
fn the_header_compiles_without_warnings_as_c99_c17_and_cpp17() {
    let Some(lab) = Lab::new("header") else { return };
    for (name, compiler, standard) in [("a.c", "cc", "c99"), ("a.c", "cc", "c17"), ("a.cc", "c++", "c++17")] {
        let program = lab.write(
            name,
            "#include <gantry.h>\n#include <gantry.h>\nint main(void) { return gantry_version() == 0; }\n",
        );
        lab.compile(compiler, standard, &program, &[]);
        lab.run(&program, &[]);
    }
}

#[test]
fn the_library_exports_exactly_the_functions_of_the_header() {
    let Some(lab) = Lab::new("exports") else { return };
    let symbols = output(Command::new("nm").args(["-D", "--defined-only"]).arg(lab.library()));
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let header = fs::read_to_string(crate_path("include/gantry.h")).unwrap();
    let declared: BTreeSet<String> = (header.lines().filter(|line| line.ends_with(");") || line.ends_with(',')))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("gantry_"))
        .map(|name| format!("{name}@@GANTRY_0"))
        .chain(["GANTRY_0".to_owned()])
        .collect();
    assert_eq!(exported, declared.iter().map(String::as_str).collect());
    let dynamic = output(Command::new("readelf").arg("-dV").arg(lab.library()));
    assert!(dynamic.contains("Library soname: [libgantry.so.0]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// Runs a C program that prints each of these expressions as a number.
fn print_numbers(lab: &Lab, expressions: &[String]) -> Vec<String> {
    let mut program = "#include <gantry.h>\n#include <stdio.h>\nint main(void)\n{\n".to_owned();
    for expression in expressions {
        writeln!(program, "    printf(\"%lld\\n\", (long long)({expression}));").unwrap();
    }
    program += "    return 0;\n}\n";
    let program = lab.write("numbers.c", &program);
    lab.compile("cc", "c99", &program, &[]);
    lab.run(&program, &[]).lines().map(str::to_owned).collect()
}

#[test]
fn structs_and_numbers_of_header_and_library_match() {
    let Some(lab) = Lab::new("layout") else { return };
    let mut expected: Vec<(String, i128)> = Vec::new();
    macro_rules! layouts {
        ($($name:literal $type:ty: $($field:ident)+;)+) => {
            $(
                expected.push((format!("sizeof({})", $name), size_of::<$type>() as i128));
                $(
                    let field = stringify!($field).trim_start_matches("r#");
                    expected.push((format!("offsetof({}, {field})", $name), offset_of!($type, $field) as i128));
                    expected.push((format!("sizeof((({} *)0)->{field})", $name), field_size(|all: &$type| &all.$field)));
                )+
            )+
        };
    }
    layouts! {
        "gantry_params" Params: size algorithm key key_len mac_key mac_key_len tag_len direction flags;
        "gantry_request" Request: size operation result iv iv_len aad aad_len r#in in_len out out_len tag tag_len;
        "gantry_message" Message: data len out;
        "gantry_piece" Piece: stream data len;
        "gantry_column" Column: size count values values_len offsets validity validity_offset offset_bits reserved;
        "gantry_completion" Completion: user result reserved;
    }
    let numbers: [(&str, i128); 14] = [
        ("DONE", result::DONE.into()),
        ("BAD_TAG", result::BAD_TAG.into()),
        ("BAD_LENGTH", result::BAD_LENGTH.into()),
        ("NOT_RUN", result::NOT_RUN.into()),
        ("DIGEST", operation::DIGEST.into()),
        ("MAC", operation::MAC.into()),
        ("ENCRYPT", operation::ENCRYPT.into()),
        ("DECRYPT", operation::DECRYPT.into()),
        ("SEAL", operation::SEAL.into()),
        ("OPEN", operation::OPEN.into()),
        ("BOTH", direction::BOTH.into()),
        ("ONLY_ENCRYPT", direction::ONLY_ENCRYPT.into()),
        ("ONLY_DECRYPT", direction::ONLY_DECRYPT.into()),
        ("ANY_NONCE", flags::ANY_NONCE.into()),
    ];
    let errors = Code::ALL.iter().map(|(code, name)| (format!("GANTRY_E_{}", name.to_uppercase()), *code as i128));
    expected.extend(numbers.map(|(name, number)| (format!("GANTRY_{name}"), number)));
    expected.extend(errors.chain([("GANTRY_OK".to_owned(), 0)]));

    let expressions: Vec<String> = expected.iter().map(|(expression, _)| expression.clone()).collect();
    for ((expression, expected), printed) in expected.iter().zip(print_numbers(&lab, &expressions)) {
        assert_eq!(printed, expected.to_string(), "{expression}");
    }
    let header = fs::read_to_string(crate_path("include/gantry.h")).unwrap();
    let defined = header.lines().filter_map(|line| line.strip_prefix("#define GANTRY_")).filter(|line| *line != "H");
    assert_eq!(defined.count(), expected.iter().filter(|(name, _)| name.starts_with("GANTRY_")).count());
}

/// Returns the size of a field in bytes.
fn field_size<T, F>(_: fn(&T) -> &F) -> i128 {
    size_of::<F>() as i128
}

#[test]
fn all_calls_have_known_answers_on_all_devices() {
    let Some(lab) = Lab::new("answers") else { return };
    let program = lab.test_program("answers.c");
    lab.run(&program, &[]);
    for policy in ["pin:software", "pin:lanes", "round-robin"] {
        lab.run(&program, &[&format!("policy = \"{policy}\"")]);
    }
}

#[test]
fn wrong_calls_return_errors_and_change_nothing() {
    let Some(lab) = Lab::new("wrong") else { return };
    lab.run(&lab.test_program("wrong.c"), &[]);
}

#[test]
fn queues_use_the_buffers_of_the_program() {
    let Some(lab) = Lab::new("queues") else { return };
    let program = lab.test_program("queues.c");
    for configuration in ["", "policy = \"pin:software\""] {
        lab.run(&program, &[configuration]);
    }
    assert_ne!(lab.run(&program, &[ENGINE]), "0\n", "with the engine, the program waits for the descriptor");
}

#[test]
fn parent_and_child_continue_after_fork() {
    let Some(lab) = Lab::new("fork") else { return };
    lab.run(&lab.test_program("fork.c"), &[]);
}

#[test]
fn the_library_starts_no_thread_and_handles_no_signal() {
    let Some(lab) = Lab::new("guest") else { return };
    let printed_text = lab.run(&lab.test_program("guest.c"), &[]);
    assert_eq!(printed_text, "");
}

#[test]
fn closing_a_session_wipes_its_key() {
    let Some(lab) = Lab::new("wiped") else { return };
    let program = lab.test_program("wiped.c");
    for policy in ["pin:software", "pin:lanes"] {
        lab.run(&program, &[&format!("policy = \"{policy}\"")]);
    }
}

#[test]
fn wrong_calls_and_queues_pass_valgrind() {
    let Some(lab) = Lab::new("memory") else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        return gantry_lab::skip("valgrind");
    }
    for (name, arguments) in [("wrong.c", &[][..]), ("queues.c", &["policy = \"pin:software\""])] {
        let program = lab.test_program(name);
        let mut command = lab.command("valgrind");
        command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        output(command.arg(program.with_extension("")).args(arguments));
    }
}

#[test]
fn the_examples_print_the_expected_results() {
    let Some(lab) = Lab::new("examples") else { return };
    let run_example = |name: &str, arguments: &[&str]| {
        let program = lab.path(name);
        fs::copy(crate_path("examples").join(name), &program).unwrap();
        for standard in ["c99", "c17"] {
            lab.compile("cc", standard, &program, &[]);
        }
        lab.run(&program, arguments)
    };
    let alice = "7a64adf2";
    let digests = run_example("digests.c", &[]);
    let lines: Vec<&str> = digests.lines().collect();
    assert!(
        lines.len() == 5 && lines[0].starts_with(alice) && lines[0] == lines[2] && lines[1] == lines[4],
        "{digests}"
    );
    assert_eq!(lines[3], "0".repeat(64));
    let opened: Vec<String> = (0..8).map(|i| format!("{i}: {}\n", if i == 3 { "forged" } else { "opened" })).collect();
    assert_eq!(run_example("seal.c", &[]), opened.concat());

    let files: Vec<String> = (0..40_usize)
        .map(|i| lab.write(&format!("file-{i}"), vec![i as u8; i * i * 300]).display().to_string())
        .collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(run_example("files.c", &files), output(Command::new("sha256sum").args(&files)));

    let digests = run_example("queue.c", &[ENGINE]);
    let data: Vec<String> =
        (0..100).map(|i| lab.write(&format!("data-{i}"), vec![i; 1000]).display().to_string()).collect();
    let expected = output(Command::new("md5sum").args(&data));
    assert!(digests.lines().eq(expected.lines().map(|line| &line[..32])), "{digests}");

    // The last two are tested in `programs.rs`.
    let tested: BTreeSet<_> = ["digests.c", "seal.c", "files.c", "queue.c", "mktorrent.patch", "wolfssl.c"].into();
    let all = fs::read_dir(crate_path("examples")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(
        all.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>(),
        tested.iter().map(|name| (*name).to_owned()).collect()
    );
}

#[test]
fn the_guides_programs_print_the_guides_output() {
    let Some(lab) = Lab::new("guide") else { return };
    let page = fs::read_to_string(book_page("guide-c.md")).unwrap();
    let programs = blocks(&page, "c");
    let outputs = blocks(&page, "text");
    assert!(!programs.is_empty() && programs.len() == outputs.len(), "each program is followed by its output");
    for (index, (program, output)) in programs.iter().zip(outputs).enumerate() {
        let file = lab.write(&format!("guide-{index}.c"), program);
        lab.compile("cc", "c99", &file, &[]);
        assert_eq!(lab.run(&file, &[]), output);
    }
}

/// Returns the code blocks of a language in a page.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let fence = format!("\n```{language}\n");
    page.split(&fence).skip(1).map(|rest| &rest[..rest.find("```").expect("an end")]).collect()
}

#[test]
fn make_install_installs_the_library() {
    let Some(lab) = Lab::new("install") else { return };
    // Stand-ins for the other installed files.
    let release = lab.path("target/release");
    fs::create_dir_all(&release).unwrap();
    for name in ["gantry", "libgantry_openssl.so", "libgantry_xfrm.so", "gantry-vectors.zlib"] {
        fs::write(release.join(name), "#!/bin/sh\n").unwrap();
    }
    fs::set_permissions(release.join("gantry"), fs::Permissions::from_mode(0o755)).unwrap();
    lab::build(&[], &lab.path("target/c"));
    let root = lab.path("root");
    let mut install = Command::new(crate_path("../../scripts/install"));
    output(install.arg(&root).arg("/opt/gantry").env("CARGO_TARGET_DIR", lab.path("target")));
    let prefix = root.join("opt/gantry");
    let pkgconfig = fs::read_to_string(prefix.join("lib/pkgconfig/gantry.pc")).unwrap();
    assert!(pkgconfig.starts_with("prefix=/opt/gantry\n"), "{pkgconfig}");
    assert_eq!(fs::read(prefix.join("include/gantry.h")).unwrap(), fs::read(crate_path("include/gantry.h")).unwrap());
    assert_eq!(fs::read(prefix.join("lib/libgantry.so")).unwrap(), fs::read(lab.library()).unwrap());
}

#[test]
fn pkg_config_names_the_prefix_of_the_target_machine() {
    let Some(lab) = Lab::new("prefix") else { return };
    let staged = lab.path("staged");
    lab::build(&["--prefix", "/usr", "--libdir", "lib/x86_64-linux-gnu"], &staged);
    let libdir = staged.join("lib/x86_64-linux-gnu");
    let pkg_config = |option: &str| {
        let mut command = Command::new("pkg-config");
        text(
            &command.env("PKG_CONFIG_PATH", libdir.join("pkgconfig")).args([option, "gantry"]).output().unwrap().stdout,
        )
    };
    assert_eq!(pkg_config("--variable=libdir").trim(), "/usr/lib/x86_64-linux-gnu");
    assert_eq!(pkg_config("--modversion").trim(), env!("CARGO_PKG_VERSION"));
    assert_eq!(fs::read_link(libdir.join("libgantry.so")).unwrap(), Path::new("libgantry.so.0"));
}
