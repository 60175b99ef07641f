//! `gantry sum --parts` and `--etag` on objects that S3 clients uploaded to a moto server on the loopback
//! (`pip install 'moto[server]' awscli`). awscli includes boto3's way to cut parts.

mod gantry;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use gantry::{Folder, run, stdout, text};
use gantry_lab::wait_until;
use serde_json::Value;

const MISSING: &str = "moto (pip install 'moto[server]' awscli)";
const MIB: usize = 1 << 20;

/// A moto server, killed on drop.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Starts the server; `None`, counted as skipped, without moto or the client.
    fn start() -> Option<Self> {
        let is_installed = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        if !is_installed(Command::new("aws").arg("--version"))
            || !is_installed(Command::new("moto_server").arg("--help"))
        {
            gantry_lab::skip(MISSING);
            return None;
        }
        // This port is free now.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("moto_server");
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { process: command.spawn().unwrap(), url: format!("http://127.0.0.1:{port}") };
        wait_until("moto listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(server)
    }

    fn aws(&self, config: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new("aws");
        command.args(["--endpoint-url", &self.url, "--region", "us-east-1", "--output", "json"]).args(arguments);
        for (name, value) in [("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_PAGER", "")] {
            command.env(name, value);
        }
        command.env("AWS_CONFIG_FILE", config).env("AWS_EC2_METADATA_DISABLED", "true");
        let output = command.output().unwrap();
        assert!(output.status.success(), "aws {arguments:?}: {}", text(&output.stderr));
        output
    }

    fn asked(&self, config: &Path, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.aws(config, arguments).stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn values_match_objects_that_clients_uploaded_in_parts() {
    let Some(server) = Server::start() else { return };
    let folder = Folder::new("s3");
    let data: Vec<u8> = (0..21 * MIB as u64 + 5).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let path = folder.path().join("object");
    fs::write(&path, data).unwrap();
    let path = path.to_str().unwrap();
    let small = folder.write("small", "abc").to_str().unwrap().to_owned();
    let config = |part: &str| {
        folder.write(
            "config",
            &format!("[default]\ns3 =\n  multipart_chunksize = {part}\n  multipart_threshold = {part}\n"),
        )
    };
    server.aws(&config("8MB"), &["s3api", "create-bucket", "--bucket", "bucket"]);

    let head = |key: &str, more: &[&str]| {
        let arguments = [&["s3api", "head-object", "--bucket", "bucket", "--key", key], more].concat();
        server.asked(&config("8MB"), &arguments)
    };
    for (part, option) in [("8MB", "8MiB"), ("5MB", "5M"), ("15MB", "15M")] {
        server.aws(&config(part), &["s3", "cp", "--quiet", path, "s3://bucket/object"]);
        let etag = head("object", &[])["ETag"].as_str().unwrap().to_owned();
        assert!(etag.contains('-'), "{etag}: not in parts");
        let value = stdout(&["sum", "--parts", option, path]);
        assert_eq!(format!("\"{}\"", value.split_whitespace().next().unwrap()), etag, "{part}");
        let size: usize = part.trim_end_matches("MB").parse().unwrap();
        let found = stdout(&["sum", "--etag", &etag, path]);
        assert_eq!(found, format!("{path}: OK, parts of {} bytes\n", size * MIB));
        let other = run(&["sum", "--etag", &etag, &small]);
        assert_eq!((other.status.code(), text(&other.stdout)), (Some(1), format!("{small}: FAILED\n")));
    }

    server.aws(&config("8MB"), &["s3", "cp", "--quiet", &small, "s3://bucket/small"]);
    let etag = head("small", &[])["ETag"].as_str().unwrap().to_owned();
    assert_eq!(stdout(&["sum", "--etag", &etag, &small]), format!("{small}: OK, in one piece\n"));

    // Upload part by part, as a client does, to get the composite checksum.
    let upload = server.asked(
        &config("8MB"),
        &["s3api", "create-multipart-upload", "--bucket", "bucket", "--key", "sha", "--checksum-algorithm", "SHA256"],
    );
    let upload = upload["UploadId"].as_str().unwrap();
    let mut parts = Vec::new();
    for (number, part) in fs::read(path).unwrap().chunks(8 * MIB).enumerate() {
        let (file, number) = (folder.path().join("part"), (number + 1).to_string());
        fs::write(&file, part).unwrap();
        let of_part = ["--bucket", "bucket", "--key", "sha", "--upload-id", upload, "--part-number", &number];
        let body = ["--checksum-algorithm", "SHA256", "--body", file.to_str().unwrap()];
        let done = server.asked(&config("8MB"), &[&["s3api", "upload-part"][..], &of_part, &body].concat());
        let checksum = done["ChecksumSHA256"].as_str().expect("the client sends a checksum");
        // The checksum of one part is the digest of the part.
        let whole = stdout(&["sum", "--etag", checksum, "-a", "sha256", file.to_str().unwrap()]);
        assert!(whole.ends_with(": OK, in one piece\n"), "{whole}");
        parts.push(serde_json::json!({"PartNumber": number.parse::<u32>().unwrap(), "ETag": done["ETag"], "ChecksumSHA256": checksum}));
    }
    let list = folder.write("parts.json", &serde_json::json!({ "Parts": parts }).to_string());
    let list = format!("file://{}", list.to_str().unwrap());
    let of_upload = ["--bucket", "bucket", "--key", "sha", "--upload-id", upload, "--multipart-upload", &list];
    let done = server.asked(&config("8MB"), &[&["s3api", "complete-multipart-upload"][..], &of_upload].concat());
    let stored = head("sha", &["--checksum-mode", "ENABLED"]);
    let checksum = done["ChecksumSHA256"].as_str().or(stored["ChecksumSHA256"].as_str()).expect("moto has a checksum");
    let value = stdout(&["sum", "--parts", "8MiB", "-a", "sha256", path]);
    let value = value.split_whitespace().next().unwrap();
    // Some versions of moto omit the number of parts.
    assert_eq!(value.split('-').next(), checksum.split('-').next());
    assert_eq!(
        stdout(&["sum", "--etag", value, "-a", "sha256", path]),
        format!("{path}: OK, parts of 8388608 bytes\n")
    );
}
