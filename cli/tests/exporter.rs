//! `gantry exporter` as seen by Prometheus.

mod gantry;
mod installed;
mod scrapes;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gantry::{Folder, command, run, text};
use gantry_lab::wait_until;
use installed::{Installed, is_installed};
use scrapes::{Running, answer, data_path, esp_counters, esp_report, exporter, port, promtool_is_silent, scrape, sum};

/// An algorithm that other tests on this machine are unlikely to use at the same time.
const ALGORITHM: &str = "algorithm=\"sha3-224\"";

#[test]
fn metrics_of_processes_are_exported_and_stay_after_their_end() {
    let (_exporter, address) = exporter(&[]);
    let before = sum(&scrape(address), "gantry_request_bytes_total", ALGORITHM);
    let data = vec![7; 3 << 20];
    let mut command = command(&["sum", "-a", "sha3-224", "-"]);
    let mut child = Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    child.0.stdin.as_mut().unwrap().write_all(&data).unwrap();
    wait_until("the running process is seen", || {
        let metrics = scrape(address);
        let processes = sum(&metrics, "gantry_processes", "");
        processes > 0 && sum(&metrics, "gantry_request_bytes_total", ALGORITHM) >= before + (2 << 20)
    });
    child.0.stdin.as_mut().unwrap().write_all(&data).unwrap();
    drop(child.0.stdin.take());
    assert!(child.0.wait().unwrap().success());
    let all = before + 2 * data.len() as u64;
    // The process hashed its last bytes after the last sample, but they are counted.
    wait_until("the last bytes are known", || sum(&scrape(address), "gantry_request_bytes_total", ALGORITHM) == all);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1100)); // longer than the time between two samples
        let metrics = scrape(address);
        assert_eq!(sum(&metrics, "gantry_request_bytes_total", ALGORITHM), all, "{metrics}");
        let (requests, timed) = ("gantry_requests_total", "gantry_device_duration_seconds_count");
        assert!(sum(&metrics, requests, ALGORITHM) > 0 && sum(&metrics, timed, ALGORITHM) > 0, "{metrics}");
    }
}

#[test]
fn all_counters_of_a_data_path_are_exported_and_never_decrease() {
    let folder = Folder::new("exporter-esp");
    let (_exporter, address) = exporter(&["--esp", folder.path().to_str().unwrap()]);
    assert!(!scrape(address).contains("gantry_esp"), "no data path runs yet");
    let report = Arc::new(Mutex::new(Some(esp_report(|at| 1000 + at))));
    data_path(folder.path(), &report);
    wait_until("the data path is seen", || scrape(address).contains("gantry_esp_up 1\n"));
    let metrics = scrape(address);
    assert!(metrics.contains("gantry_esp_associations{direction=\"out\"} 2\n"), "{metrics}");
    for (at, name) in esp_counters().iter().enumerate() {
        let of_it = |line: &str| line.starts_with("gantry_esp") && line.ends_with(&format!(" {}", 1000 + at));
        assert!(metrics.lines().any(of_it), "{name} is in no metric: {metrics}");
    }
    // Another data path takes over, and starts counting at 0.
    *report.lock().unwrap() = Some(esp_report(|_| 1));
    let sent = |metrics: &str| sum(metrics, "gantry_esp_packets_total", "\"out\"");
    let first = sent(&metrics);
    wait_until("both data paths are in the sum", || sent(&scrape(address)) == first + 1);
}

#[test]
fn a_data_path_that_hangs_or_lies_does_not_delay_scrapes() {
    let folder = Folder::new("exporter-esp-hangs");
    let report = Arc::new(Mutex::new(Some(esp_report(|_| 1))));
    data_path(folder.path(), &report);
    let (_exporter, address) = exporter(&["--esp", folder.path().to_str().unwrap()]);
    wait_until("the data path is up", || scrape(address).contains("gantry_esp_up 1\n"));
    for answer in [None, Some("no JSON".to_owned()), Some("[".repeat(70 << 20)), Some("{\"counters\":1}".to_owned())] {
        *report.lock().unwrap() = answer;
        let begun = Instant::now();
        wait_until("the data path is down", || scrape(address).contains("gantry_esp_up 0\n"));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(sum(&scrape(address), "gantry_esp_packets_total", "\"out\""), 1);
        *report.lock().unwrap() = Some(esp_report(|_| 1));
        wait_until("the data path is up again", || scrape(address).contains("gantry_esp_up 1\n"));
    }
}

#[test]
fn invalid_requests_are_refused_and_do_not_delay_others() {
    let (_exporter, address) = exporter(&["--by-program"]);
    // These clients never finish their requests.
    let _slow: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "200 OK"),
        ("GET /other HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("\0\u{1}\r\n\r\n", "405 Method Not Allowed"),
        (&format!("GET /{} HTTP/1.1", "x".repeat(9000)), "400 Bad Request"),
    ] {
        assert_eq!(answer(address, request).0, format!("HTTP/1.1 {status}"));
    }
    let accept = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n";
    let (_, head, body) = answer(address, accept);
    assert!(head.contains("application/openmetrics-text") && body.ends_with("# EOF\n"), "{head}");
}

#[test]
fn the_textfile_is_complete_or_absent() {
    let folder = Folder::new("exporter-textfile");
    let path = folder.path().display().to_string();
    assert!(run(&["exporter", "--textfile", &path, "--once"]).status.success());
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["gantry.prom"]);
    // The collector may read the textfile, and other users may not write to it, for any umask.
    let open = "umask 0; exec \"$0\" exporter --textfile \"$1\" --once";
    let status = Command::new("sh").args(["-c", open, env!("CARGO_BIN_EXE_gantry"), &path]).status();
    assert!(status.unwrap().success());
    assert_eq!(fs::metadata(folder.path().join("gantry.prom")).unwrap().permissions().mode() & 0o777, 0o644);
    let metrics = fs::read_to_string(folder.path().join("gantry.prom")).unwrap();
    assert!(metrics.contains("# TYPE gantry_requests_total counter"), "{metrics}");
    let output = run(&["exporter", "--textfile", "/nonexistent", "--once"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nonexistent/gantry.prom: No such file or directory"), "{output:?}");
    for wrong in
        [&["exporter"][..], &["exporter", "--listen", "x"], &["exporter", "--textfile", "/tmp", "--policy", "latency"]]
    {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// A user with only the capabilities of the systemd unit sees a process of root.
#[test]
fn the_capabilities_of_the_unit_are_sufficient() {
    if !nix::unistd::geteuid().is_root() {
        return gantry_lab::skip("root");
    }
    let unit = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/prometheus/gantry-exporter.service");
    let unit = fs::read_to_string(unit).unwrap();
    let rights = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).unwrap();
    let rights: Vec<String> = rights.split(' ').map(|right| right.replace("CAP_", "+").to_lowercase()).collect();
    let rights = &rights.join(",");
    // A folder that every user can access.
    let folder = Folder::new("exporter-rights");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("gantry");
    gantry_lab::copy_program(env!("CARGO_BIN_EXE_gantry"), &program);
    let mut sum = command(&["sum", "-a", "sha3-512", "-"]);
    let mut child = Running(sum.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    child.0.stdin.as_mut().unwrap().write_all(&vec![7; 1 << 20]).unwrap();
    let lists = |rights: &str| {
        let mut list = Command::new("setpriv");
        list.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--bounding-set",
            &format!("-all,{rights}"),
        ]);
        list.args(["--inh-caps", rights, "--ambient-caps", rights]).arg(&program).args(["stat", "--list"]);
        let output = list.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).lines().any(|line| line.split_whitespace().next() == Some(&child.0.id().to_string()))
    };
    wait_until("the process is seen", || lists(rights));
    assert!(!lists("+chown"), "processes of others are visible without the capabilities");
}

/// Prometheus accepts the metrics, and the queries of the dashboard and of the alerts.
#[test]
#[ignore = "needs Prometheus: scripts/test-clients"]
fn prometheus_accepts_metrics_dashboard_and_alerts() {
    let contrib = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/prometheus");
    let folder = Folder::new("exporter-prometheus");
    let report = Arc::new(Mutex::new(Some(esp_report(|at| at))));
    data_path(folder.path(), &report);
    let (_exporter, address) = exporter(&["--esp", folder.path().to_str().unwrap()]);
    let mut command = command(&["sum", "-a", "sha3-384", "-"]);
    let mut child = Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    child.0.stdin.as_mut().unwrap().write_all(&vec![7; 1 << 20]).unwrap();
    wait_until("the requests are seen", || {
        sum(&scrape(address), "gantry_requests_total", "algorithm=\"sha3-384\"") > 0
    });
    promtool_is_silent(&scrape(address));
    let output = Command::new("promtool").args(["check", "rules"]).arg(contrib.join("alerts.yml")).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let configuration = format!(
        "global: {{scrape_interval: 100ms}}\nscrape_configs: [{{job_name: gantry, static_configs: [{{targets: ['{address}']}}]}}]\n\
         rule_files: ['{}']\n",
        contrib.join("alerts.yml").display()
    );
    let file = folder.write("prometheus.yml", &configuration);
    let port = port();
    let arguments = [
        format!("--config.file={}", file.display()),
        format!("--storage.tsdb.path={}", folder.path().join("data").display()),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ];
    let _server = Running(Command::new("prometheus").args(arguments).stderr(Stdio::null()).spawn().unwrap());
    let server = SocketAddr::from(([127, 0, 0, 1], port));
    let query = |expression: &str| {
        let encoded = expression.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02x}"));
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
        serde_json::from_str::<serde_json::Value>(&answer(server, &request).2).unwrap()
    };
    // Prometheus listens before it can answer.
    let is_ready = || answer(server, "GET /-/ready HTTP/1.0\r\n\r\n").0.ends_with(" 200 OK");
    wait_until("Prometheus runs", || TcpStream::connect(server).is_ok() && is_ready());
    wait_until("Prometheus has scraped", || {
        !query("rate(gantry_requests_total[5m])")["data"]["result"].as_array().unwrap().is_empty()
    });
    // More work, for rates.
    *report.lock().unwrap() = Some(esp_report(|at| 1000 + at));
    child.0.stdin.as_mut().unwrap().write_all(&vec![7; 1 << 20]).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let dashboard: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(contrib.join("dashboard.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 6);
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
        let result = query(&expression);
        assert_eq!(result["status"], "success", "{expression}: {result}");
        // Event panels may be empty.
        let empty = result["data"]["result"].as_array().unwrap().is_empty();
        assert!(!empty || expression.contains("gantry_events_total"), "{expression}: {result}");
    }
}

/// Returns the values of all counters and histograms by name and labels.
fn counters(metrics: &str) -> BTreeMap<&str, f64> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let gauges =
        ["gantry_processes", "gantry_build_info", "gantry_esp_associations", "gantry_esp_policies", "gantry_esp_up"];
    let counters = samples.filter(|line| !gauges.iter().any(|name| line.starts_with(name)));
    counters.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name, value.parse().unwrap())).collect()
}

/// Scrapes ten times per second for a minute, while processes start, work and end.
#[test]
#[ignore = "a minute: scripts/test-clients"]
fn counters_never_decrease_while_processes_come_and_go() {
    let (_exporter, address) = exporter(&[]);
    let end = Instant::now() + Duration::from_mins(1);
    let work = |algorithm: &str, pause: Duration| {
        let mut rounds = 0;
        while Instant::now() < end {
            let mut sum = command(&["sum", "-a", algorithm, "-"]);
            let mut child = Running(sum.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
            for _ in 0..3 {
                child.0.stdin.as_mut().unwrap().write_all(&vec![7; 1 << 20]).unwrap();
                std::thread::sleep(pause);
            }
            // Every second process ends, the others are killed.
            if rounds % 2 == 0 {
                drop(child.0.stdin.take());
                assert!(child.0.wait().unwrap().success());
            }
            rounds += 1;
        }
        rounds
    };
    std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = [("sha3-224", 0), ("sha3-224", 60), ("sha512", 250), ("sha512", 700)]
            .map(|(algorithm, pause)| scope.spawn(move || work(algorithm, Duration::from_millis(pause))))
            .into();
        let mut before = scrape(address);
        let mut changes = 0;
        for tick in 1.. {
            let current = scrape(address);
            let (was, is) = (counters(&before), counters(&current));
            for (name, value) in &was {
                let new = is.get(name);
                assert!(new.is_some_and(|new| new >= value), "scrape {tick}: {name} was {value} and is {new:?}");
            }
            changes += usize::from(was != is);
            before = current;
            if Instant::now() >= end {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(workers.into_iter().all(|worker| worker.join().unwrap() > 5));
        assert!(changes > 50, "{changes}");
    });
}

/// The metrics of node_exporter show the work of servers of two unprivileged users.
#[test]
#[ignore = "needs node_exporter and servers: scripts/test-clients"]
fn node_exporter_shows_servers_of_other_users() {
    let programs = ["prometheus-node-exporter", "promtool", "nginx", "curl", "psql", "setpriv"];
    if !programs.iter().all(|program| is_installed(program)) {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return gantry_lab::skip("root");
    }
    // Debian installs each version of PostgreSQL in its own folder.
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let Some(bin) = folders.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max()
    else {
        return gantry_lab::skip("initdb");
    };
    let (installed, folder) = (Installed::new("node-exporter"), Folder::new("node-exporter"));
    // Every user must be able to read these files.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let module = folder.path().join("gantry.so");
    fs::copy(installed.module(), &module).unwrap();
    let configuration = installed.configuration(&module, "CIPHERS = ALL\nPOLICY = pin:software");
    let configuration = folder.write("openssl.cnf", &fs::read_to_string(configuration).unwrap());
    let sh = |script: &str| {
        let mut shell = Command::new("sh");
        shell.current_dir(folder.path()).args(["-ec", script]).env("OPENSSL_CONF", &configuration);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(folder.path().join("log")).unwrap());
        shell
    };
    let log = || fs::read_to_string(folder.path().join("log")).unwrap();
    let (bin, path, postgres) =
        (bin.display(), folder.path().display(), "setpriv --reuid=postgres --regid=postgres --clear-groups");
    let setup = sh(&format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost\n\
         mkdir data textfiles; chmod 700 data; chown postgres data key.pem\n\
         {postgres} {bin}/initdb -D data -U tester -A trust --no-locale --no-sync"
    ));
    assert!({ setup }.status().unwrap().success(), "{}", log());

    let [of_nginx, of_postgres, of_node] = [port(), port(), port()];
    let conf = format!(
        "user nobody nogroup; daemon off; pid {path}/pid; error_log stderr;\n\
         events {{ }}\nhttp {{ access_log off; client_body_temp_path {path}/a; proxy_temp_path {path}/b;\n\
         fastcgi_temp_path {path}/c; uwsgi_temp_path {path}/d; scgi_temp_path {path}/e;\n\
         server {{ listen 127.0.0.1:{of_nginx} ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem;\n\
         location / {{ return 200 {}; }} }} }}\n",
        "x".repeat(3000)
    );
    folder.write("nginx.conf", &conf);
    let [nginx, server, node] = [
        format!("exec nginx -e stderr -c {path}/nginx.conf"),
        format!(
            "exec {postgres} {bin}/postgres -D data -c listen_addresses=127.0.0.1 -c port={of_postgres} -c unix_socket_directories= \
             -c fsync=off -c ssl=on -c ssl_cert_file={path}/cert.pem -c ssl_key_file={path}/key.pem"
        ),
        format!(
            "exec prometheus-node-exporter --web.listen-address=127.0.0.1:{of_node} --web.disable-exporter-metrics \
             --collector.disable-defaults --collector.textfile --collector.textfile.directory={path}/textfiles"
        ),
    ]
    .map(|script| Running(sh(&script).spawn().unwrap()));
    for port in [of_nginx, of_postgres, of_node] {
        wait_until(&format!("a server listens: {}", log()), || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
    let textfiles = folder.path().join("textfiles").display().to_string();
    let arguments = ["exporter", "--by-program", "--every", "1", "--textfile", &textfiles];
    let _exporter = Running(command(&arguments).spawn().unwrap());
    let clients = sh(&format!(
        "export OPENSSL_CONF=/dev/null\n\
         for i in $(seq 10); do\n\
         curl -sSfk -o /dev/null https://localhost:{of_nginx}/\n\
         psql -Atqc \"select repeat('x', 3000)\" 'host=localhost hostaddr=127.0.0.1 port={of_postgres} dbname=postgres user=tester sslmode=require'\n\
         done"
    ));
    assert!({ clients }.status().unwrap().success(), "{}", log());
    let scrape = || answer(SocketAddr::from(([127, 0, 0, 1], of_node)), "GET /metrics HTTP/1.0\r\n\r\n").2;
    for program in ["nginx", "postgres"] {
        let labels =
            format!("{{algorithm=\"aes-256-gcm\",device=\"software\",operation=\"seal\",program=\"{program}\"}}");
        // The host may have served the first requests.
        wait_until(&format!("node_exporter tells of {program}: {}", scrape()), || {
            sum(&scrape(), "gantry_request_bytes_total", &labels) >= 5 * 3000
        });
    }
    let metrics = scrape();
    assert_eq!(sum(&metrics, "node_textfile_scrape_error", ""), 0);
    promtool_is_silent(&metrics);
    drop((nginx, server, node));
}
