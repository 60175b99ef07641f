//! Comparison with OpenSSL 4.0: keys and signatures in both directions, and all ACVP vectors in its tests. `scripts/evp-test` builds the
//! library, and `openssl.c` calls it.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gantry_slh_dsa::{ParameterSet, PrivateKey, PublicKey};

/// Returns the source folder of OpenSSL 4.0, in which the library was built.
fn source() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/evp-test");
    let output = Command::new(script).arg("4.0").stderr(Stdio::inherit()).output().expect("a script");
    assert!(output.status.success(), "scripts/evp-test 4.0");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

/// The program `openssl.c`, linked with the library in the folder that `source` returns.
struct Peer(PathBuf);

impl Peer {
    fn new() -> Self {
        let (source, program) = (source(), Path::new(env!("CARGO_TARGET_TMPDIR")).join("openssl"));
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openssl.c"));
        compiler.arg("-I").arg(source.join("include")).arg(source.join("libcrypto.so"));
        compiler.arg(format!("-Wl,-rpath,{}", source.display()));
        assert!(compiler.status().expect("a C compiler").success());
        Peer(program)
    }

    /// Runs the program with a line as its input, and returns its output.
    fn run(&self, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new(&self.0);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program was built");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A program that reads no input may have ended by now.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        "-".into()
    } else {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hexadecimal digits")).collect()
}

fn set_by_name(name: &str) -> ParameterSet {
    ParameterSet::ALL.into_iter().find(|set| set.name() == name).expect("a parameter set")
}

#[test]
#[ignore = "builds OpenSSL 4.0: scripts/test-clients"]
fn keys_and_signatures_interoperate_with_openssl() {
    let peer = Peer::new();
    for set in ParameterSet::ALL {
        let (name, n) = (set.name(), set.n());
        let seeds: Vec<u8> = (0..3 * n).map(|i| (i * 41 + set as usize) as u8).collect();
        let key = PrivateKey::generate(set, &seeds).unwrap();
        let private = hex(&key.to_bytes());
        assert_eq!(peer.run(&["key", name, &hex(&seeds)], ""), private, "{name}");
        let (public, random) = (hex(key.public_key().as_bytes()), vec![0x5a; n]);
        for (message, context, random) in
            [(&b"message"[..], &b"context"[..], Some(&random[..])), (&[0xff; 300], &[], None), (&[], &[1; 255], None)]
        {
            let (message_text, context_text) = (hex(message), hex(context));
            let ours = key.sign(message, context, random).unwrap();
            let random_text = random.map(hex);
            let mut arguments = vec!["sign", name, &private, &message_text, &context_text];
            arguments.extend(random_text.as_deref());
            let theirs = unhex(&peer.run(&arguments, ""));
            assert!(ours == theirs, "{name}");
            assert_eq!(key.public_key().verify(message, context, &theirs), Ok(()), "{name}");
            let verify = |signature: &[u8]| {
                peer.run(&["verify", name, &public, &message_text, &context_text], &format!("{}\n", hex(signature)))
            };
            assert_eq!(verify(&ours), "valid", "{name}");
            let mut flipped = ours;
            flipped[n] ^= 1;
            assert_eq!(verify(&flipped), "invalid", "{name}");
        }
    }
}

/// Parses the paragraphs of a file of test data. The key "#" holds the comment.
fn records(file: &str) -> Vec<HashMap<String, String>> {
    let path = source().join("test/recipes/30-test_evp_data").join(file);
    let text = fs::read_to_string(path).expect("test data");
    let line = |line: &str| {
        let (name, value) = line.strip_prefix('#').map_or_else(|| line.split_once(" ="), |text| Some(("#", text)))?;
        let (name, value) = match (name, value.trim().split_once(':')) {
            ("Ctrl" | "CtrlOut", Some((control, value))) => (control, value),
            _ => (name, value.trim()),
        };
        Some((name.to_owned(), value.to_owned()))
    };
    text.split("\n\n").map(|paragraph| paragraph.lines().filter_map(line).collect()).collect()
}

#[test]
#[ignore = "builds OpenSSL 4.0: scripts/test-clients"]
fn verdicts_and_signatures_match_the_acvp_vectors_of_openssl() {
    let mut keys = HashMap::new();
    let mut count = HashMap::new();
    for file in ["evppkey_slh_dsa_sigver.txt", "evppkey_slh_dsa_siggen.txt"] {
        keys.clear();
        for record in records(file) {
            let get = |name: &str| record.get(name).map(|value| unhex(value));
            if let Some(key) = record.get("PublicKeyRaw").or(record.get("PrivateKeyRaw")) {
                let [label, _, key] = key.split(':').collect::<Vec<_>>()[..] else { panic!("{key}") };
                keys.insert(label.to_owned(), unhex(key));
                continue;
            }
            let Some(key_name) = record.get("Verify-Message-Public").or(record.get("Sign-Message")) else { continue };
            let (name, label) = key_name.split_once(':').expect("a key");
            let (set, key) = (set_by_name(name), &keys[label]);
            let (message, signature) = (get("Input").expect("a message"), get("Output").expect("a signature"));
            let context = get("hexcontext-string").unwrap_or_default();
            let framed = record["message-encoding"] == "0";
            if record.contains_key("Verify-Message-Public") {
                let key = PublicKey::from_bytes(set, key).unwrap();
                let verdict = if framed {
                    key.verify_framed(&[&message], &signature)
                } else {
                    key.verify(&message, &context, &signature)
                };
                assert_eq!(verdict.is_ok(), !record.contains_key("Result"), "{key_name}: {}", record["#"]);
                *count.entry((set, "verdicts")).or_insert(0) += 1;
            } else {
                let key = PrivateKey::from_bytes(set, key).unwrap();
                let random = get("hextest-entropy");
                let random = random.as_deref();
                let ours =
                    if framed { key.sign_framed(&[&message], random) } else { key.sign(&message, &context, random) };
                assert!(ours.unwrap() == signature, "{key_name}");
                *count.entry((set, "signatures")).or_insert(0) += 1;
            }
        }
    }
    for set in ParameterSet::ALL {
        assert!(count[&(set, "verdicts")] >= 28 && count[&(set, "signatures")] >= 28, "{count:?}");
    }
}
