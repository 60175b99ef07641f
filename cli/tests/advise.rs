//! `gantry advise`: the real module in real programs, and the reports about them.

mod gantry;
mod installed;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gantry::text;
use gantry_lab::wait_until;
use installed::{Installed, row};
use serde_json::Value;

const CBC: [&str; 9] = ["openssl", "enc", "-aes-256-cbc", "-K", "00", "-iv", "00", "-in", "plain"];

#[test]
fn reports_requests_of_devices_and_of_the_host() {
    let installed = Installed::new("devices");
    installed.write("plain", &"some text ".repeat(10_000));
    let enc = [&CBC[..], &["-out", "sealed"]].concat();
    for (policy, on_device) in [("pin:software", true), ("pin:host", false)] {
        let section = format!("CIPHERS = AES-256-CBC\nPOLICY = {policy}");
        let configuration = installed.configuration(&installed.module(), &section);
        let message = installed.advice(&configuration, &enc);
        assert!(message.contains("OpenSSL requests of openssl:\n"), "{message}");
        let numbers = row(&message, &["AES-256-CBC", "encrypt"]);
        let numbers: Vec<u64> = numbers[..4].iter().map(|number| number.parse().unwrap()).collect();
        let [host, hosts_bytes, devices, devices_bytes] = numbers[..] else { panic!("{message}") };
        assert!(
            if on_device { devices > 0 && devices_bytes >= 100_000 } else { host > 0 && hosts_bytes >= 100_000 },
            "{message}"
        );
        assert!(on_device || devices == 0, "{message}");
        assert!(!message.contains("decrypt"), "{message}");
    }
    // All processes of a script count, and the script's exit status is reported.
    let script = "openssl enc -d -aes-256-cbc -K 00 -iv 00 -in sealed -out opened; exit 3";
    let configuration = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let message = installed.advice(&configuration, &["sh", "-c", script]);
    assert!(message.contains("sh ended with exit status: 3.\n"), "{message}");
    row(&message, &["AES-256-CBC", "decrypt"]);
    // This program makes no OpenSSL requests.
    let message = installed.advice(&configuration, &["openssl", "list", "-providers"]);
    assert!(message.contains("openssl loaded gantry, but made no OpenSSL requests.\n"), "{message}");
    assert_eq!(fs::read(installed.0.join("opened")).unwrap(), fs::read(installed.0.join("plain")).unwrap());
}

#[test]
fn counts_a_program_that_links_libcrypto_statically() {
    let installed = Installed::new("static");
    let source = "#include <openssl/evp.h>\nint main(void) { static unsigned char data[4096]; int length;\n\
                  EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();\n\
                  return !EVP_EncryptInit_ex(ctx, EVP_aes_128_ctr(), NULL, data, data)\n\
                      || !EVP_EncryptUpdate(ctx, data, &length, data, sizeof data); }\n";
    let program = installed.compile(source, &["-l:libcrypto.a", "-ldl", "-pthread"]);
    let configuration = installed.configuration(&installed.module(), "CIPHERS = ALL\nPOLICY = pin:software");
    let message = installed.advice(&configuration, &[&program]);
    let [host, _, devices, bytes, .., served_by] = row(&message, &["AES-128-CTR", "encrypt"])[..] else {
        panic!("{message}")
    };
    assert_eq!((host, devices != "0", bytes, served_by), ("0", true, "4096", "software"), "{message}");
}

/// Users end a server at the terminal, and expect the report afterwards.
#[test]
fn reports_an_interrupted_program() {
    let installed = Installed::new("interrupted");
    let conf = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let script = "trap 'exit 4' INT; openssl version; while :; do sleep 0.1; done";
    let mut advise = installed.command(&conf, &["advise", "--", "sh", "-c", script]);
    // A shell runs background jobs with SIGINT ignored, and sh cannot trap an ignored signal.
    // SAFETY: the closure makes one system call, which is allowed between fork and exec.
    unsafe {
        advise.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut advise = advise.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut message = BufReader::new(advise.stdout.take().unwrap());
    let mut text = String::new();
    message.read_line(&mut text).unwrap();
    assert!(text.starts_with("OpenSSL "), "{text}");
    let interrupt = Command::new("kill").args(["-INT", "--", &format!("-{}", advise.id())]).status().unwrap();
    assert!(interrupt.success());
    advise.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(advise.wait().unwrap().code(), Some(4));
    assert!(text.contains("sh ended with exit status: 4.\n"), "{text}");
}

#[test]
fn statistics_of_a_running_program_are_visible() {
    let installed = Installed::new("live");
    let configuration = installed.configuration(&installed.module(), "CIPHERS = AES-256-CBC\nPOLICY = pin:software");
    let stats = installed.0.join("stats");
    fs::create_dir(&stats).unwrap();
    let with = |command: &mut Command| {
        command.env("OPENSSL_CONF", &configuration).env("GANTRY_STATS", &stats).env("XDG_CONFIG_HOME", "/nonexistent");
    };
    let mut encrypts = Command::new(CBC[0]);
    with(encrypts.args(&CBC[1..7]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()));
    let mut program = encrypts.spawn().unwrap();
    // The program waits for more input.
    let mut input = program.stdin.take().unwrap();
    input.write_all(&vec![7; 100_000]).unwrap();
    let mut message = String::new();
    wait_until("the requests are counted", || {
        let mut stat = Command::new(installed.0.join("bin/gantry"));
        with(stat.arg("stat").arg(program.id().to_string()));
        message = text(&stat.output().unwrap().stdout);
        message.contains("aes-256-cbc")
    });
    drop(input);
    assert!(program.wait().unwrap().success());
    assert_eq!(row(&message, &["software", "aes-256-cbc"])[0], "encrypt", "{message}");
}

/// Counts by algorithm and operation: the requests and bytes of the host (OpenSSL itself), then the requests and bytes of devices.
type Counts = BTreeMap<(String, String), [u64; 4]>;

fn of_advice(advice: &Value) -> Counts {
    let asked = advice["program"]["asked"].as_array().unwrap().iter();
    asked
        .map(|asked| {
            (
                row_key(asked),
                [("host", "requests"), ("host", "bytes"), ("devices", "requests"), ("devices", "bytes")]
                    .map(|(side, field)| asked[side][field].as_u64().unwrap()),
            )
        })
        .collect()
}

fn of_statistics(report: &Value) -> Counts {
    let mut counts = Counts::new();
    for row in report["rows"].as_array().unwrap() {
        let side = if row["device"] == "host" { 0 } else { 2 };
        let sums = counts.entry(row_key(row)).or_default();
        sums[side] += row["requests"].as_u64().unwrap();
        sums[side + 1] += row["bytes"].as_u64().unwrap();
    }
    counts.retain(|_, sums| sums[0] + sums[2] > 0);
    counts
}

fn row_key(row: &Value) -> (String, String) {
    let text = |field: &str| row[field].as_str().unwrap().to_owned();
    (text("algorithm"), text("operation"))
}

/// `advise` and `stat` report the same counts, and counting does not change the device of a request.
#[test]
fn advice_and_statistics_agree_and_change_nothing() {
    let installed = Installed::new("truth");
    installed.write("plain", &"some text ".repeat(1000));
    let server = installed.serve();
    let key = ["openssl", "genpkey", "-algorithm", "ED25519", "-out", "ed25519.pem"];
    assert!(Command::new(key[0]).args(&key[1..]).current_dir(&installed.0).status().unwrap().success());
    let sign = ["openssl", "pkeyutl", "-sign", "-inkey", "ed25519.pem", "-rawin", "-in", "plain", "-out", "signature"];
    let ask = format!(
        "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | openssl s_client -connect 127.0.0.1:{} -tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384 -quiet -ign_eof >got 2>/dev/null",
        server.port
    );
    let fetch = ["sh", "-c", &ask];
    let nothing = "CIPHERS = NONE\nSIGNATURES = NONE\nKEY_EXCHANGE = NONE";
    let pinned = "CIPHERS = ALL\nSIGNATURES = ALL\nPOLICY = pin:software";
    for (section, program, expected_key, on_device) in [
        ("", &sign[..], ("ed25519", "sign"), false),
        (nothing, &sign, ("ed25519", "sign"), false),
        (pinned, &sign, ("ed25519", "sign"), true),
        (nothing, &fetch, ("aes-256-gcm", "open"), false),
        (pinned, &fetch, ("aes-256-gcm", "open"), true),
    ] {
        let configuration = installed.configuration(&installed.module(), section);
        let advice = of_advice(&installed.json(&configuration, &["advise"], program));
        let statistics = of_statistics(&installed.json(&configuration, &["stat"], program));
        assert_eq!(advice.keys().collect::<Vec<_>>(), statistics.keys().collect::<Vec<_>>(), "{section}: {program:?}");
        let [host, _, devices, _] = advice[&(expected_key.0.to_owned(), expected_key.1.to_owned())];
        assert_eq!((host > 0, devices > 0), (!on_device, on_device), "{section}: {program:?}: {advice:?}");
        if program == sign {
            assert_eq!(advice, statistics, "{section}");
            assert_eq!(host + devices, 1, "{section}: no measurement is counted");
        } else {
            // The lengths of other messages vary between connections.
            let sum = |counts: &Counts| counts.values().map(|sums| [sums[0] > 0, sums[2] > 0]).collect::<Vec<_>>();
            assert_eq!(sum(&advice), sum(&statistics), "{section}");
        }
    }
}

/// `gantry top` shows the same as the final report.
#[test]
fn top_shows_a_running_program_as_the_final_report_does() {
    let installed = Installed::new("top");
    let configuration = installed.configuration(&installed.module(), "CIPHERS = NONE");
    let speed = ["openssl", "speed", "-elapsed", "-seconds", "3", "-bytes", "16384", "-evp", "aes-192-ctr"];
    let file = installed.0.join("said.json");
    let options = ["advise", "--json", "--output", file.to_str().unwrap(), "--"];
    let mut advise = installed.command(&configuration, &[&options[..], &speed].concat());
    let mut advise = advise.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let seen = loop {
        let top: Value =
            serde_json::from_str(&installed.says(&configuration, &["top", "--once", "--json", "--interval", "0.3"]))
                .unwrap();
        let ours =
            |process: &&Value| process["program"] == "openssl" && process["work"].to_string().contains("aes-192-ctr");
        if let Some(process) = top["processes"].as_array().unwrap().iter().find(ours) {
            break process.clone();
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{top}");
    };
    assert!(advise.wait().unwrap().success());
    assert!(seen["work"].as_array().unwrap().iter().all(|work| work["device"] == "host"), "{seen}");
    let counts = of_advice(&serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap());
    let [requests, bytes, devices, _] = counts[&("aes-192-ctr".to_owned(), "encrypt".to_owned())];
    assert!(requests > 0 && bytes == 16384 * requests && devices == 0, "{counts:?}");
}

#[test]
fn a_running_process_is_observed_for_a_while() {
    let installed = Installed::new("pid");
    let configuration = installed.configuration(&installed.module(), "CIPHERS = AES-256-CBC\nPOLICY = pin:software");
    let mut speed = Command::new("openssl");
    speed
        .args(["speed", "-seconds", "60", "-bytes", "16384", "-evp", "aes-256-cbc"])
        .env("OPENSSL_CONF", &configuration);
    let mut speed = speed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = speed.id().to_string();
    let begun = Instant::now();
    let look = || {
        installed.command(&configuration, &["advise", "--pid", &pid, "--seconds", "0.5", "--json"]).output().unwrap()
    };
    let advice: Value = loop {
        let output = look();
        let advice: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if advice["program"]["asked"].as_array().is_some_and(|asked| !asked.is_empty()) {
            break advice;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{}", text(&output.stderr));
    };
    speed.kill().unwrap();
    speed.wait().unwrap();
    assert_eq!(advice["program"]["subject"]["process"]["seconds"], 0.5);
    assert!(of_advice(&advice)[&("aes-256-cbc".to_owned(), "encrypt".to_owned())][2] > 0, "{advice}");
    let output = look();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(1), format!("gantry: process {pid}: there is no such process\n"))
    );
}

#[test]
fn a_machine_is_measured_and_the_json_has_every_number() {
    let installed = Installed::new("machine");
    let conf = installed.configuration(&installed.module(), "CIPHERS = aes-128-cbc\nPOLICY = pin:software");
    let advice: Value = serde_json::from_str(&installed.says(&conf, &["advise", "--json"])).unwrap();
    assert_eq!(advice["configuration"], conf.to_str().unwrap());
    let algorithms = advice["algorithms"].as_array().unwrap();
    let named = |name: &str| algorithms.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}"));
    for (name, nid, served) in [("AES-128-CBC", 419, true), ("AES-256-GCM", 901, false)] {
        let row = named(name);
        assert_eq!((row["nid"].as_u64(), row["served"].as_bool()), (Some(nid), Some(served)), "{row}");
        // The row has two operations with three sizes each.
        let cells = row["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 6, "{row}");
        for cell in cells {
            assert_eq!((&cell["device"], &cell["why"]), (&"software".into(), &"pinned".into()), "{row}");
            let number = |name: &str| cell["best"][name].as_f64().unwrap();
            assert!(number("host_ns") > 0.0 && number("device_ns") > 0.0 && number("gain") > 0.0, "{row}");
        }
    }
    assert_eq!(named("AES-256-GCM")["use"], "TLS records");
    assert!(advice["noise"]["spread"].is_number() && advice["cpu"].is_string());
    // Without a configuration, the command measures the configuration that `gantry openssl config` would write.
    let message = installed.says(Path::new("/dev/null"), &["advise", "--verbose"]);
    assert!(message.contains("this is the result after gantry openssl config --system.\n"), "{message}");
    let [_, sign, .., device, error] = row(&message, &["ED25519", "1087"])[..] else { panic!("{message}") };
    assert_eq!((sign, error), ("sign", "measured"));
    // In a debug build only some algorithms gain, and only these are proposed.
    assert_eq!(device != "host", message.contains("  SIGNATURES = ED25519\n"), "{message}");
    row(&message, &["AES-128-CTR", "904"]);
    // Nothing is proposed for a configuration that gantry refuses.
    let fips = installed.write("fips.cnf", "openssl_conf = i\n[i]\nproviders = l\n[l]\nfips = f\n[f]\nactivate = 1\n");
    let (code, message) = gantry::status_and_stderr(&installed.command(&fips, &["advise"]).output().unwrap());
    assert!(
        code == 1 && message.contains("fips.cnf:5: fips is activated, and could be replaced by gantry"),
        "{code} {message}"
    );
}
