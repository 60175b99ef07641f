//! `gantry crypt` compared with `openssl enc`, and its errors.

mod gantry;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use gantry::{Folder, command, run_with_input, signal, text};

/// `gantry crypt` with key files, which are open on the descriptors from 3 on.
struct Crypt<'a> {
    folder: &'a Folder,
    keys: &'a [&'a [u8]],
}

impl Crypt<'_> {
    /// The command, started by a shell that opens the keys.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut script = "exec \"$0\" \"$@\"".to_owned();
        for (index, key) in self.keys.iter().enumerate() {
            let path = self.folder.path().join(format!("key{index}"));
            fs::write(&path, key).unwrap();
            write!(script, " {}<'{}'", 3 + index, path.display()).unwrap();
        }
        let gantry = command(&[]);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg(gantry.get_program()).arg("crypt").args(arguments);
        for (name, value) in gantry.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        run_with_input(self.command(arguments), input)
    }

    fn run_ok(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let output = self.run(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output.stdout
    }

    /// Returns exit code and message; nothing may be on stdout.
    fn run_refused(&self, arguments: &[&str], input: &[u8]) -> (i32, String) {
        gantry::status_and_stderr(&self.run(arguments, input))
    }
}

fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.arg("enc").args(arguments);
    let output = run_with_input(command, input);
    assert!(output.status.success(), "openssl enc {arguments:?}: {}", text(&output.stderr));
    output.stdout
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// Pseudorandom bytes.
fn pseudorandom_bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Lists the files of the folder except keys.
fn leftovers(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with("key")).collect()
}

const IV: &str = "000102030405060708090a0b0c0d0e0f";
const PIECE: usize = 256 << 10;

#[test]
fn ciphers_of_openssl_enc_give_the_same_output() {
    let folder = Folder::new("crypt-openssl");
    let all = pseudorandom_bytes(3 * PIECE);
    let ciphers: Vec<(String, usize)> = ["cbc", "ecb", "ctr", "cfb", "ofb"]
        .iter()
        .flat_map(|mode| [128, 192, 256].map(|bits| (format!("aes-{bits}-{mode}"), bits / 8)))
        .chain([("des-ede3-cbc".to_owned(), 24), ("chacha20".to_owned(), 32)])
        .collect();
    for (cipher, key_length) in &ciphers {
        let key = pseudorandom_bytes(*key_length);
        let crypt = Crypt { folder: &folder, keys: &[&key] };
        let (key, iv) = (hex(&key), if cipher.starts_with("des") { &IV[..16] } else { IV });
        let mut theirs = vec![format!("-{cipher}"), "-K".to_owned(), key];
        let mut ours = vec![cipher.as_str(), "--key-fd", "3"];
        if !cipher.ends_with("ecb") {
            theirs.extend(["-iv".to_owned(), iv.to_owned()]);
            ours.extend(["--iv", iv]);
        }
        let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
        for length in [0, 1, 15, 16, 17, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 16] {
            let plain = &all[..length];
            let sealed = crypt.run_ok(&[&["-e"], &ours[..]].concat(), plain);
            assert!(sealed == openssl(&[&["-e"], &theirs[..]].concat(), plain), "{cipher}, {length} bytes");
            assert!(crypt.run_ok(&[&["-d"], &ours[..]].concat(), &sealed) == plain, "{cipher}, {length} bytes, back");
            if length % 16 == 0 {
                let sealed = crypt.run_ok(&[&["-e", "--no-padding"], &ours[..]].concat(), plain);
                let same = openssl(&[&["-e", "-nopad"], &theirs[..]].concat(), plain);
                assert!(sealed == same && sealed.len() == length, "{cipher}, {length} bytes, no padding");
            }
        }
    }
}

/// Key, nonce, AAD and tag are from RFC 8439, 2.8.2.
#[test]
fn aeads_append_the_tag_to_the_ciphertext() {
    let folder = Folder::new("crypt-aead");
    let key: Vec<u8> = (0x80..0xa0).collect();
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    let arguments =
        ["chacha20-poly1305", "--key-fd=3", "--iv=070000004041424344454647", "--aad=50515253c0c1c2c3c4c5c6c7"];
    let sealed = crypt.run_ok(&[&["-e"], &arguments[..]].concat(), plain);
    assert_eq!(hex(&sealed[..8]), "d31a8d34648e60db");
    assert_eq!(hex(&sealed[plain.len()..]), "1ae10b594f09e26a7e902ecbd0600691");
    assert_eq!(crypt.run_ok(&[&["-d"], &arguments[..]].concat(), &sealed), plain);
    assert_eq!(leftovers(folder.path()), [""; 0]);
}

#[test]
fn messages_of_any_size_are_sealed_and_opened_from_files_and_pipes() {
    let folder = Folder::new("crypt-sizes");
    let (key, mac_key) = (pseudorandom_bytes(32), pseudorandom_bytes(20));
    let xts = pseudorandom_bytes(64);
    let cases: [(&[&str], &[&[u8]]); 6] = [
        (&["gcm(aes)", "--iv=000102030405060708090a0b", "--aad=ff"], &[&key]),
        (&["aes-256-gcm", "--iv=000102030405060708090a0b", "--tag-bytes=12"], &[&key]),
        (&["AES_256_GCM", "--iv", IV, "--any-nonce"], &[&key]),
        (&["aes-256-ccm", "--iv=00010203040506"], &[&key]),
        (&["aes-256-ctr-hmac-sha256", "--mac-key-fd=4", "--iv", IV], &[&key, &mac_key]),
        (&["xts(aes)", "--iv", IV], &[&xts]),
    ];
    for (arguments, keys) in cases {
        let crypt = Crypt { folder: &folder, keys };
        for length in [16, 17, 4096, 100_000, 3 << 20] {
            let plain = pseudorandom_bytes(length);
            fs::write(folder.path().join("plain"), &plain).unwrap();
            let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
            let (from, to) = (path("plain"), path("sealed"));
            crypt.run_ok(&[&["-e", "--key-fd=3", "-i", &from, "-o", &to], arguments].concat(), b"");
            let sealed = fs::read(&to).unwrap();
            assert_ne!(sealed[..16], plain[..16]);
            assert!(
                crypt.run_ok(&[&["-e", "--key-fd=3"], arguments].concat(), &plain) == sealed,
                "{arguments:?} {length}"
            );
            assert!(
                crypt.run_ok(&[&["-d", "--key-fd=3"], arguments].concat(), &sealed) == plain,
                "{arguments:?} {length}"
            );
        }
    }
    let mut left = leftovers(folder.path());
    left.sort();
    assert_eq!(left, ["plain", "sealed"]);
}

#[test]
fn a_forged_message_is_not_written() {
    let folder = Folder::new("crypt-forged");
    let key = pseudorandom_bytes(32);
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    let nonce = "--iv=000102030405060708090a0b";
    let seal = ["aes-256-gcm", "--key-fd=3", nonce];
    let sealed = crypt.run_ok(&[&["-e"], &seal[..]].concat(), &pseudorandom_bytes(1 << 20));
    let out = folder.path().join("plain");
    let out_name = out.to_str().unwrap();
    let mut changed = sealed.clone();
    changed[77] ^= 1;
    let mut tag = sealed.clone();
    *tag.last_mut().unwrap() ^= 1;
    for forged in [&changed[..], &tag, &sealed[..sealed.len() - 1], &sealed[1..]] {
        let (code, message) = crypt.run_refused(&[&["-d"], &seal[..]].concat(), forged);
        assert!(code == 1 && message.starts_with("gantry: standard input: not authentic"), "{code} {message}");
        fs::write(&out, "the old content").unwrap();
        let (code, _) = crypt.run_refused(&[&["-d", "-o", out_name], &seal[..]].concat(), forged);
        assert_eq!((code, fs::read(&out).unwrap().as_slice()), (1, &b"the old content"[..]));
    }
    fs::remove_file(&out).unwrap();
    let (code, message) = crypt.run_refused(&[&["-d", "-o", out_name], &seal[..]].concat(), &sealed[..15]);
    assert!(code == 1 && message.contains("shorter than its tag of 16 bytes"), "{message}");
    let other = ["aes-256-gcm", "--key-fd=3", nonce, "--aad=00"];
    assert_eq!(crypt.run_refused(&[&["-d"], &other[..]].concat(), &sealed).0, 1);
    assert_eq!(leftovers(folder.path()), [""; 0]);
}

#[test]
fn plaintext_is_not_on_disk_before_its_tag_is_verified() {
    let folder = Folder::new("crypt-disk");
    let key = pseudorandom_bytes(32);
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    let message = pseudorandom_bytes(1 << 20);
    let out = folder.path().join("plain");
    // Run the command with a limit of 0 bytes for files (ulimit(1p)).
    let without_files = |arguments: &[&str], input: &[u8]| {
        let command =
            crypt.command(&[arguments, &["aes-256-gcm", "--key-fd=3", "--iv=000102030405060708090a0b"]].concat());
        let inner: Vec<_> = command.get_args().map(std::ffi::OsStr::to_os_string).collect();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f 0; {}", inner[1].to_str().unwrap())).args(&inner[2..]);
        run_with_input(shell, input)
    };
    let output = without_files(&["-e"], &message);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut forged = output.stdout;
    assert!(without_files(&["-d"], &forged).stdout == message);
    forged[77] ^= 1;
    for to in [&[][..], &["-o", out.to_str().unwrap()]] {
        let output = without_files(&[&["-d"], to].concat(), &forged);
        assert!(text(&output.stderr).contains("not authentic"), "{to:?}: {}", text(&output.stderr));
    }
    assert_eq!(leftovers(folder.path()), [""; 0]);
}

#[test]
fn the_result_gets_its_name_when_it_is_complete() {
    let folder = Folder::new("crypt-name");
    let key = pseudorandom_bytes(16);
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    let (new, old, link) = (folder.path().join("new"), folder.path().join("old"), folder.path().join("link"));
    for algorithm in [&["aes-128-ctr", "--iv", IV][..], &["aes-128-gcm", "--iv=000102030405060708090a0b"]] {
        let _ = fs::remove_file(&new);
        crypt.run_ok(&[&["-e", "--key-fd=3", "-o", new.to_str().unwrap()], algorithm].concat(), b"data");
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o600);
        // A replaced file keeps its mode; a link stays a link; input and output may be the same file.
        fs::write(&old, b"data").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&old, &link).unwrap();
        let name = link.to_str().unwrap();
        crypt.run_ok(&[&["-e", "--key-fd=3", "-i", name, "-o", name], algorithm].concat(), b"");
        assert_eq!(fs::read(&old).unwrap(), fs::read(&new).unwrap());
        assert_eq!(fs::metadata(&old).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
    let mut left = leftovers(folder.path());
    left.sort();
    assert_eq!(left, ["link", "new", "old"]);
}

#[test]
fn an_interrupted_command_leaves_nothing() {
    let folder = Folder::new("crypt-interrupt");
    let key = pseudorandom_bytes(16);
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    let out = folder.path().join("out");
    for algorithm in [&["aes-128-cbc", "--iv", IV][..], &["aes-128-gcm", "--iv=000102030405060708090a0b"]] {
        let mut command = crypt.command(&[&["-e", "--key-fd=3", "-o", out.to_str().unwrap()], algorithm].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // This is more than a pipe holds, so the command is running afterwards.
        stdin.write_all(&pseudorandom_bytes(1 << 20)).unwrap();
        // SIGINT would be ignored if a script runs the tests in the background.
        signal("TERM", child.id());
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert_eq!(leftovers(folder.path()), [""; 0]);
    }
}

#[test]
fn a_pipe_gets_its_bytes_before_the_input_ends() {
    let folder = Folder::new("crypt-pipe");
    let key = pseudorandom_bytes(16);
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    let mut command = crypt.command(&["-e", "aes-128-ctr", "--key-fd=3", "--iv", IV]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // Send two pieces, so that the first is not the last.
    let feeder = thread::spawn(move || {
        stdin.write_all(&pseudorandom_bytes(2 * PIECE)).unwrap();
        stdin
    });
    let mut first = vec![0; PIECE];
    stdout.read_exact(&mut first).unwrap();
    drop(feeder.join().unwrap());
    stdout.read_exact(&mut first).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_stream_needs_constant_memory_and_a_message_that_is_too_long_is_refused() {
    let folder = Folder::new("crypt-memory");
    let key = pseudorandom_bytes(16);
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    let big = folder.path().join("big");
    File::create(&big).unwrap().set_len(256 << 20).unwrap();
    let limited = |algorithm: &str| {
        let gantry = command(&[]);
        let out = folder.path().join("out");
        let script = format!(
            "ulimit -d 65536; exec '{}' crypt -e --key-fd 3 {algorithm} -i '{}' -o '{}' 3<'{}'",
            gantry.get_program().to_str().unwrap(),
            big.display(),
            out.display(),
            folder.path().join("key0").display(),
        );
        drop(crypt.command(&[]));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        (output.status.code(), text(&output.stderr), fs::metadata(&out).map_or(0, |about| about.len()))
    };
    let (code, printed, length) = limited("aes-128-ctr --iv 000102030405060708090a0b0c0d0e0f");
    assert_eq!((code, length), (Some(0), 256 << 20), "{printed}");
    fs::remove_file(folder.path().join("out")).unwrap();
    let (code, printed, length) = limited("aes-128-gcm --iv 000102030405060708090a0b");
    assert_eq!((code, length), (Some(1), 0), "{printed}");
    assert!(printed.ends_with("big: too long for this memory; aes-128-gcm takes a message as a whole\n"), "{printed}");
}

#[test]
fn full_disks_are_reported() {
    let folder = Folder::new("crypt-full");
    let key = pseudorandom_bytes(16);
    let crypt = Crypt { folder: &folder, keys: &[&key] };
    for algorithm in [&["aes-128-ctr", "--iv", IV][..], &["aes-128-gcm", "--iv=000102030405060708090a0b"]] {
        let mut command = crypt.command(&[&["-e", "--key-fd=3"], algorithm].concat());
        command.stdin(Stdio::null()).stdout(File::options().write(true).open("/dev/full").unwrap());
        let plain = folder.path().join("plain");
        fs::write(&plain, pseudorandom_bytes(100)).unwrap();
        let output = command.stdin(File::open(&plain).unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(&output.stderr), "gantry: standard output: No space left on device\n");

        let to = ["-o", "/dev/full"];
        let (code, message) =
            crypt.run_refused(&[&["-e", "--key-fd=3"], algorithm, &to].concat(), &pseudorandom_bytes(100));
        assert_eq!((code, message.as_str()), (1, "gantry: /dev/full: No space left on device\n"));
        // A limit on file sizes acts like a full disk.
        let limited = folder.path().join("limited");
        let command = crypt.command(&[&["-e", "--key-fd=3", "-o", limited.to_str().unwrap()], algorithm].concat());
        let inner: Vec<_> = command.get_args().map(std::ffi::OsStr::to_os_string).collect();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f 8; {}", inner[1].to_str().unwrap())).args(&inner[2..]);
        let output = run_with_input(shell, &pseudorandom_bytes(1 << 20));
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("File too large"), "{}", text(&output.stderr));
        assert!(!limited.exists());
    }
    let left = leftovers(folder.path());
    assert_eq!(left, ["plain"]);
}

#[test]
fn a_key_on_the_command_line_is_not_repeated() {
    let folder = Folder::new("crypt-key");
    let crypt = Crypt { folder: &folder, keys: &[] };
    let key = "00112233445566778899aabbccddeeff";
    for given in
        [&["--key", key][..], &[&format!("--key={key}")], &["--key-fd", key], &["--key-fd=3", "--mac-key", key]]
    {
        let (code, printed) = crypt.run_refused(&[&["-e", "aes-128-cbc", "--iv", IV], given].concat(), b"");
        assert!(
            code == 2 && printed.contains("-fd takes the number of a descriptor, not a key"),
            "{given:?}: {printed}"
        );
        assert!(!printed.contains("0011"), "{printed}");
    }
}

#[test]
fn mistakes_are_reported_before_anything_is_written() {
    let folder = Folder::new("crypt-mistakes");
    let key = pseudorandom_bytes(16);
    let crypt = Crypt { folder: &folder, keys: &[&key, b""] };
    let cbc = ["aes-128-cbc", "--key-fd=3"];
    for (arguments, code, message) in [
        (&["-e", "aes-128-cbc", "--key-fd=3"][..], 2, "--iv is missing; aes-128-cbc takes 16 bytes"),
        (&["-e", "aes-128-cbc", "--key-fd=3", "--iv=00"], 2, "--iv has 1 bytes; aes-128-cbc takes 16 bytes"),
        (&["-e", "aes-128-cbc", "--key-fd=3", "--iv=0g"], 2, "--iv takes an even number of hexadecimal digits"),
        (&["-e", "aes-256-cbc", "--key-fd=3", "--iv", IV], 2, "the key has 16 bytes; aes-256-cbc takes 32"),
        (&["-e", "aes-128-cbd", "--key-fd=3"], 2, "unknown algorithm 'aes-128-cbd'; did you mean"),
        (&["-e", "sha256", "--key-fd=3"], 2, "sha256 is a digest, neither a cipher nor an AEAD"),
        (&["-e", "aes-128-cbc", "--key-fd=19", "--iv", IV], 1, "--key-fd 19: Bad file descriptor"),
        (&["-e", "aes-128-cbc", "--key-fd=-1", "--iv", IV], 2, "--key-fd takes the number of a descriptor"),
        (
            &["-e", "aes-128-cbc", "--key-fd=3", "--mac-key-fd=4", "--iv", IV],
            2,
            "aes-128-cbc has no MAC key, so --mac-key-fd has no effect",
        ),
        (
            &["-e", "aes-128-cbc", "--key-fd=0", "--iv", IV],
            2,
            "--key-fd 0 is standard input, where the data comes from",
        ),
        (
            &["-e", "aes-128-cbc", "--key-fd=3", "--aad=00", "--iv", IV],
            2,
            "--aad is for AEADs, and aes-128-cbc is a cipher",
        ),
        (&["-e", "aes-128-gcm", "--key-fd=3", "--iv", IV], 2, "--iv has 16 bytes; aes-128-gcm takes 12 bytes"),
        (
            &["-e", "aes-128-gcm", "--key-fd=3", "--iv=000102030405060708090a0b", "--tag-bytes=17"],
            2,
            "a tag of 17 bytes; it takes",
        ),
        (
            &["-e", "aes-128-ctr-hmac-sha1", "--key-fd=3", "--iv", IV],
            2,
            "needs a MAC key, too; pass it with --mac-key-fd",
        ),
        (&["-e", "aes-128-cbc", "--key-fd=3", "--iv", IV, "-i", "/nonexistent"], 1, "/nonexistent: No such file"),
        (&["-e", "aes-128-cbc", "--key-fd=3", "--iv", IV, "-i", "/"], 1, "/: Is a directory"),
        (&["-e", "aes-128-cbc", "--key-fd=3", "--iv", IV, "-o", "/nonexistent/x"], 1, "/nonexistent/x: No such file"),
        (&["-d", "aes-128-cbc", "--key-fd=3", "--iv", IV], 1, "15 bytes, and aes-128-cbc takes whole blocks of 16"),
        (
            &["-e", "aes-128-cbc", "--key-fd=3", "--no-padding", "--iv", IV],
            1,
            "15 bytes, and aes-128-cbc takes whole blocks",
        ),
    ] {
        let (real, printed) = crypt.run_refused(arguments, &pseudorandom_bytes(15));
        assert!(real == code && printed.contains(message), "{arguments:?}: {real} {printed}");
    }
    let (code, printed) = crypt.run_refused(&[&["-d", "--iv", IV], &cbc[..]].concat(), &pseudorandom_bytes(16));
    assert!(code == 1 && printed.contains("the padding is wrong"), "{printed}");
    let (code, printed) = crypt.run_refused(&[&["-d", "--iv", IV], &cbc[..]].concat(), b"");
    assert!(
        code == 1 && printed.contains("0 bytes, and aes-128-cbc takes whole blocks of 16, at least one"),
        "{printed}"
    );
    assert_eq!(leftovers(folder.path()), [""; 0]);
}
