//! Configurations and their mistakes, compared with OpenSSL's reading.

use gantry_lab::memory::{concat_parts, measure};

use super::*;

fn conf_of(text: &str) -> Conf {
    Conf::parse(text, Path::new("x.cnf"))
}

/// Makes a correct configuration, with these lines in gantry's section.
fn with_gantry_lines(lines: &str) -> String {
    format!(
        "openssl_conf = init\n[init]\nproviders = list\nalg_section = asked\n[list]\ndefault = host\ngantry = ours\n\
         [host]\nactivate = 1\n[asked]\ndefault_properties = ?provider=gantry\n[ours]\nactivate = 1\n{lines}"
    )
}

#[test]
fn a_misspelt_key_gets_a_suggestion() {
    assert_eq!(
        conf_of(&with_gantry_lines("CIPHERS = ALL\n1.module = gantry.so\nidentity = gantry\n")).problems(),
        [""; 0]
    );
    for (line, message) in [
        ("CIPHER = ALL", "there is no key CIPHER; did you mean CIPHERS?"),
        ("ciphers = ALL", "there is no key ciphers; did you mean CIPHERS?"),
        ("1.CIPHERS = ALL", "there is no key 1.CIPHERS; did you mean CIPHERS?"),
        ("STAT = on", "there is no key STAT; did you mean STATS?"),
    ] {
        assert_eq!(conf_of(&with_gantry_lines(line)).problems(), [format!("x.cnf:14: {message}")]);
    }
    // Keys of an earlier release.
    assert_eq!(conf_of(&with_gantry_lines("DIGESTS = ALL\nMACS = HMAC")).problems(), [""; 0]);
    let [message] = &conf_of(&with_gantry_lines("LANES = 5")).problems()[..] else { panic!() };
    assert!(gantry_openssl::CONFIG_KEYS.iter().all(|(key, _)| message.contains(key)), "{message}");
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let right = with_gantry_lines("");
    for (old, new, message) in [
        ("= init", "= nobody", "x.cnf:1: there is no section [nobody]"),
        ("= list", "= nobody", "x.cnf:3: there is no section [nobody]"),
        ("= ours", "= nobody", "x.cnf:7: there is no section [nobody]"),
        ("[ours]\nactivate = 1", "[ours]\nSTATS = off", "x.cnf: [ours] has no 'activate = 1'"),
        ("default = host\n", "", "x.cnf:3: the default provider is not activated by name"),
        ("[host]\nactivate = 1", "[host]\nsoft_load = 1", "x.cnf:3: the default provider is not activated by name"),
        ("?provider=gantry", "?provider=tpm2", "x.cnf: nothing asks for gantry's algorithms"),
        ("alg_section = asked\n", "", "x.cnf: nothing asks for gantry's algorithms"),
        ("[list]", "[list", "x.cnf:5: no ']' in this line"),
        ("default = host", "default host", "x.cnf:6: no '=' in this line"),
        ("[ours]", "[ours]\nmodule = /nowhere/gantry.so", "x.cnf:13: there is no /nowhere/gantry.so"),
    ] {
        assert!(right.contains(old));
        let found = conf_of(&right.replacen(old, new, 1)).problems();
        assert!(found.first().is_some_and(|found| found.starts_with(message)), "{old:?} as {new:?}: {found:?}");
    }
    // Without gantry there is nothing to report. Debian's configuration has an empty section.
    for text in ["a = b", "openssl_conf = init\n[init]\n"] {
        assert_eq!(conf_of(text).problems(), [""; 0]);
    }
}

#[test]
fn lines_are_read_as_openssl_reads_them() {
    let conf = conf_of(
        "# no = comment\nhome = /h # a comment\n[ a ]\nq = \"x # y\"\nescaped = \\#1\nlong = one \\\n  two\n\
                   v = $home/$q-${default::home}$(q)\nunknown = a$nobody\nq = 2\nb::other = 3\n[b]\n[a]\nlast = 4\n",
    );
    let values: Vec<_> = conf.section("a").map(|line| (&*line.key, &*line.value, line.last_line)).collect();
    let expected = [
        ("escaped", "#1", 5),
        ("long", "one   two", 7),
        ("v", "/h/x # y-/hx # y", 8),
        ("unknown", "a", 9),
        ("q", "2", 10),
        ("last", "4", 14),
    ];
    assert_eq!(values, expected);
    assert_eq!(conf.line("b", "other").unwrap().value, "3");
    assert_eq!(conf.line(DEFAULT_SECTION, "home").unwrap().text, "home = /h");
    assert_eq!(conf.errors, ["x.cnf:9: $nobody has no value; OpenSSL ignores the file"]);
    let long = conf.line("a", "long").unwrap();
    assert_eq!((long.first_line, long.last_line), (6, 7));
    let conf = conf_of("\u{feff}a = 1\nb = 2 \\");
    assert!(
        conf.line(DEFAULT_SECTION, "a").is_some()
            && conf.line(DEFAULT_SECTION, "b").is_some_and(|line| line.value == "2")
    );
}

#[test]
fn a_provider_is_active_by_the_last_value() {
    let with_provider =
        |lines: &str| conf_of(&format!("openssl_conf = i\n[i]\nproviders = l\n[l]\n1.x = p\n[p]\n{lines}"));
    for (lines, name, active) in [
        ("", "x", Activation::No),
        ("activat = 1", "x", Activation::No),
        ("activate = 1", "x", Activation::Yes),
        ("activate = ON\nidentity = y", "y", Activation::Yes),
        ("activate = off", "x", Activation::Before3_3),
        ("2.activate = 1\nactivate = 0", "x", Activation::Before3_3),
        ("activate = 0\n2.activate = 1", "x", Activation::Yes),
        ("activate = Yes", "x", Activation::Misspelt),
        ("activate =", "x", Activation::Misspelt),
    ] {
        let conf = with_provider(lines);
        let [provider] = &conf.providers()[..] else { panic!("{lines}") };
        assert_eq!((provider.name, provider.activation), (name, active), "{lines}");
    }
}

#[test]
fn reads_included_files() {
    let folder = std::env::temp_dir().join(format!("gantry-conf-{}", std::process::id()));
    fs::create_dir_all(folder.join("parts")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("main.cnf", &format!(".pragma = dollarid:on\n.include = {}/parts\nlast = $1\n", folder.display()));
    write("parts/1.cnf", "top = 1\n[ours]\nCIPHERS = ALL\n");
    write("parts/2.conf", "DIGESTS = ALL\n");
    write("parts/3.txt", "nothing\n");
    let conf = Conf::read(&folder.join("main.cnf")).unwrap();
    let keys: Vec<_> = conf.section("ours").map(Line::location).collect();
    let place = |name: &str| folder.join(name).display().to_string();
    assert_eq!(keys, [place("parts/1.cnf:3"), place("parts/2.conf:1"), place("main.cnf:3")]);
    assert!(conf.line(DEFAULT_SECTION, "top").is_some() && conf.errors.is_empty());

    write("main.cnf", &format!(".pragma includedir:{}\n.include loop.cnf\n.include none.cnf", folder.display()));
    write("loop.cnf", ".include loop.cnf");
    let [error, missing] = &Conf::read(&folder.join("main.cnf")).unwrap().problems()[..] else { panic!() };
    assert!(error.ends_with("files include each other") && missing.contains("none.cnf: No such file"));
    let [error, missing] = &conf_of(".include none.cnf").problems()[..] else { panic!() };
    assert_eq!(error, "x.cnf:1: each program looks for none.cnf in its working directory");
    assert!(missing.contains("none.cnf: No such file"));
    fs::remove_dir_all(folder).unwrap();
}

/// Most bytes that the allocator may count for a configuration. The parser limits its estimate to 4 MiB.
const MAX_MEMORY: usize = 16 << 20;

#[test]
fn memory_for_a_configuration_is_bounded() {
    let doubled = concat_parts(30, |line| format!("a{} = $a{line}$a{line}\n", line + 1));
    let named = format!("[{}]\n", "s".repeat(100_000)) + &"a=b\n".repeat(2000);
    let keys = concat_parts(10_000, |key| format!("{key}=$v\n"));
    for (bomb, text) in [
        ("values of twice the value before", format!("a0 = {}\n{doubled}", "x".repeat(100))),
        ("a section's name that lines share", named),
        ("a value that lines share", format!("v = {}\n{keys}", "v".repeat(10_000))),
        ("short lines", concat_parts(300_000, |key| format!("{key:x}=\n"))),
        ("short sections", concat_parts(300_000, |name| format!("[{name:x}]\n"))),
        ("short mistakes", "x\n".repeat(500_000)),
    ] {
        let (_, memory) = measure(|| conf_of(&text).problems().len());
        assert!(memory.peak_bytes <= MAX_MEMORY, "{bomb}: {} bytes for {}", memory.peak_bytes, text.len());
    }
}

#[test]
fn a_value_that_is_too_long_for_openssl_is_reported() {
    let text = format!("a = {}\nb = $a$a\nc = $a\n", "x".repeat(40_000));
    assert_eq!(conf_of(&text).errors, ["x.cnf:2: a value has more than 65536 bytes; OpenSSL ignores the file"]);
    assert_eq!(conf_of("a = ${b").errors, ["x.cnf:1: a variable's name has no end; OpenSSL ignores the file"]);
}

#[test]
fn files_that_include_each_other_often_are_bounded() {
    let folder = std::env::temp_dir().join(format!("gantry-conf-often-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("often.cnf");
    fs::write(&path, format!(".include = {}\n", path.display()).repeat(100)).unwrap();
    let error = Conf::read(&path).unwrap().errors;
    assert!(error.last().unwrap().ends_with("the rest was not read: the configuration has more than 4 MiB"));
    fs::remove_dir_all(folder).unwrap();
}
