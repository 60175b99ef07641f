//! Post-quantum TLS groups in programs of Debian, with other TLS libraries at the other end: `make test-clients`.

mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::groups::{End, ONLY_GROUPS, command, has_old_openssl, negotiated, new_lab, rustls, stunnel, with_groups};
use lab::{Lab, Server, counters, is_installed, is_root, port, text, wait_for};

/// The list that `gantry openssl config --post-quantum` writes to an `openssl.cnf` without one.
const GROUPS: &str = "X25519MLKEM768:X25519:P-256:X448:P-521:P-384";

/// The number of X25519MLKEM768, by which programs that do not know the name report the group.
const NUMBER: &str = "0x11ec";

/// Programs of gantry-rustls, and the package of those over other libraries.
const CLIENT: [&str; 2] = ["--example", "client"];
const SERVER: [&str; 2] = ["--example", "server"];
const LIBRARIES: &str = "examples/libraries";

/// Returns the arguments with which curl fetches a page.
fn page(port: u16, path: &str) -> String {
    format!(
        "-sS --http0.9 --max-time 60 --cacert cert.pem --resolve localhost:{port}:127.0.0.1 https://localhost:{port}/{path}"
    )
}

/// Starts nginx, which answers with the negotiated group, or with its `answer`.
fn nginx(lab: &Lab, configuration: &Path) -> (Server, u16) {
    start_nginx(lab, lab.command("nginx", configuration))
}

fn start_nginx(lab: &Lab, mut nginx: Command) -> (Server, u16) {
    let (port, folder) = (port(), lab.folder.display());
    // As root, workers would switch to a user that cannot read the folder.
    let user = if is_root() { "user root;" } else { "" };
    let conf = lab.write(
        "nginx.conf",
        format!(
            "{user} daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/errors;\nevents {{ }}\n\
             http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n\
             uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; ssl_session_cache shared:tls:1m; ssl_early_data on;\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;\n\
             ssl_protocols TLSv1.3; location / {{ default_type text/plain; return 200 $ssl_curve; }}\n\
             location /answer {{ return 200 'the answer'; }} }} }}\n"
        ),
    );
    nginx.arg("-e").arg(lab.path("errors")).arg("-c").arg(&conf).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server(nginx.spawn().unwrap());
    wait_for(port);
    (server, port)
}

/// Connects a client to a server with the list: its default, classical shares, a HelloRetryRequest, and a resumed session. `fetch` takes
/// the arguments of `s_client`, and returns everything that it says.
fn check_groups(fetch: impl Fn(&str) -> String) {
    for (arguments, group) in [
        ("", "X25519MLKEM768"),
        ("-groups X25519MLKEM768", "X25519MLKEM768"),
        ("-groups X25519", "X25519"),
        ("-groups P-256", "ECDH, prime256v1"),
    ] {
        let output = fetch(arguments);
        assert!(negotiated(&output, group), "{arguments}: {output}");
    }
    let output = fetch("-groups ffdhe2048:X25519MLKEM768 -msg");
    assert_eq!(output.matches("ClientHello").count(), 2, "{output}");
    fetch("-sess_out session");
    let output = fetch("-sess_in session");
    assert!(output.contains("Reused, TLSv1.3") && negotiated(&output, "X25519MLKEM768"), "{output}");
}

/// Connects clients of OpenSSL 3.5 and 4.0 to a web server, also with early data.
fn check_server(lab: &Lab, port: u16) {
    lab.write("early", "GET /answer HTTP/1.0\r\n\r\n");
    for series in ["3.5", "4.0"] {
        let theirs = command(series);
        let fetch = |arguments: &str| {
            let fetched = End::new(&theirs, Path::new("/dev/null"), arguments).fetch(lab, port);
            fetched.unwrap_or_else(|output| panic!("{series}, {arguments}: {output}"))
        };
        check_groups(fetch);
        fetch("-sess_out session");
        let output = fetch("-sess_in session -early_data early");
        assert!(
            output.contains("Early data was accepted") && negotiated(&output, "X25519MLKEM768"),
            "{series}: {output}"
        );
    }
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn nginx_agrees_with_clients_of_newer_releases() {
    if !has_old_openssl() || !is_installed("nginx") || !is_installed("curl") {
        return;
    }
    let lab = new_lab("groups-nginx");
    let (_server, port) = nginx(&lab, &with_groups(&lab, ONLY_GROUPS, GROUPS));
    check_server(&lab, port);
    check_reload(&lab, port);
}

/// From 3.5 on, OpenSSL has the group, and our ML-KEM answers the shares of clients.
#[test]
#[cfg_attr(feature = "software", ignore = "fetches OpenSSL: make test-clients")]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn nginx_of_a_newer_release_agrees_with_clients() {
    if !is_installed("nginx") || !is_installed("curl") {
        return;
    }
    let lab = new_lab("groups-nginx-newer");
    lab.collect_statistics();
    let run = command("3.5").with_file_name("run");
    let mut newer = lab.command(run.to_str().unwrap(), &lab.configuration(ONLY_GROUPS));
    newer.arg("/usr/sbin/nginx");
    let (server, port) = start_nginx(&lab, newer);
    check_server(&lab, port);
    check_reload(&lab, port);
    drop(server);
    let pages = lab.take_statistics().pages;
    let rows = pages.iter().flat_map(|page| page.read().unwrap().rows);
    let agreements = rows.filter(|row| &*row.algorithm == "X25519MLKEM768" && &*row.operation == "encapsulate");
    assert!(agreements.map(|row| row.requests).sum::<u64>() >= 200);
}

/// Makes handshakes on all workers of nginx, which replaces them meanwhile. `run` gives curl the libraries of the release.
fn check_reload(lab: &Lab, port: u16) {
    let many = format!(
        "kill -HUP $(cat pid); seq 200 | xargs -P 8 -I{{}} {} $(command -v curl) --curves X25519MLKEM768 {} \
         | sed 's/{NUMBER}/&\\n/g' | sort | uniq -c",
        command("3.5").with_file_name("run").display(),
        page(port, "")
    );
    let output = lab.sh(&many, Path::new("/dev/null"));
    assert_eq!(text(&output).split_whitespace().collect::<Vec<_>>(), ["200", NUMBER]);
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn haproxy_agrees_with_clients_of_newer_releases() {
    if !has_old_openssl() || !is_installed("haproxy") {
        return;
    }
    let lab = new_lab("groups-haproxy");
    assert!(lab.sh("cat cert.pem key.pem >both.pem", Path::new("/dev/null")).status.success());
    let port = port();
    let conf = lab.write(
        "haproxy.conf",
        format!(
            "global\n nbthread 4\ndefaults\n mode http\n timeout client 60s\nfrontend tls\n bind 127.0.0.1:{port} ssl crt {} allow-0rtt\n \
             http-request return status 200 content-type text/plain string 'the answer'\n",
            lab.path("both.pem").display()
        ),
    );
    let ours = with_groups(&lab, ONLY_GROUPS, GROUPS);
    let _server = lab.serve(lab.command("haproxy", &ours).arg("-db").arg("-f").arg(conf), port);
    check_server(&lab, port);
}

/// Starts Postfix in the lab's folder, with TLS at the first port and without it at the second.
fn postfix(lab: &Lab, configuration: &Path, more: &str) -> (Server, u16, u16) {
    let (secure, plain, folder) = (port(), port(), lab.folder.display());
    for new in ["mail", "queue", "data"] {
        fs::create_dir(lab.path(new)).unwrap();
    }
    lab.write(
        "mail/main.cf",
        format!(
            "compatibility_level = 3.6\nqueue_directory = {folder}/queue\ndata_directory = {folder}/data\nmaillog_file = /dev/stdout\n\
             inet_interfaces = 127.0.0.1\nlocal_recipient_maps =\nalias_maps =\nsmtpd_tls_security_level = encrypt\n\
             smtpd_tls_cert_file = {folder}/cert.pem\nsmtpd_tls_key_file = {folder}/key.pem\ntls_config_file = {}\n{more}\n",
            configuration.display()
        ),
    );
    // The servers run in a root folder of their own, as in Debian.
    lab.write(
        "mail/master.cf",
        format!(
            "127.0.0.1:{secure} inet n - y - - smtpd\n127.0.0.1:{plain} inet n - y - - smtpd\n  -o smtpd_tls_security_level=none\n\
             tlsmgr unix - - n 1000? 1 tlsmgr\nanvil unix - - y - 1 anvil\npostlog unix-dgram n - n - 1 postlogd\n"
        ),
    );
    let prepared = lab.sh("chown postfix data; postfix -c $PWD/mail check", Path::new("/dev/null"));
    assert!(prepared.status.success(), "{}", text(&prepared));
    let mut master = lab.command("/usr/lib/postfix/sbin/master", Path::new("/dev/null"));
    (lab.serve(master.arg("-s").arg("-c").arg(lab.path("mail")), secure), secure, plain)
}

/// The line of main.cf that keeps Postfix from setting classical curves itself.
const NO_CURVES: &str = "tls_eecdh_auto_curves = ,";

/// Postfix sets classical curves itself, unless `tls_eecdh_auto_curves` is empty.
#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn postfix_agrees_with_both_ends_of_newer_releases() {
    if !has_old_openssl() || !is_installed("posttls-finger") || !is_installed("stunnel") {
        return;
    }
    if !is_root() {
        return gantry_lab::skip("root");
    }
    let none = Path::new("/dev/null");
    for more in ["", NO_CURVES] {
        let lab = new_lab("groups-postfix");
        let (_server, secure, plain) = postfix(&lab, &with_groups(&lab, ONLY_GROUPS, GROUPS), more);
        let ask = |openssl: &Path, arguments: &str| {
            let arguments = format!("-starttls smtp {arguments}");
            let answer = End::new(openssl, none, &arguments).ask(&lab, secure, "QUIT", "^221 ");
            answer.unwrap_or_else(|output| panic!("{}, {arguments}: {output}{}", openssl.display(), lab.log()))
        };
        for series in ["3.5", "4.0"] {
            let theirs = command(series);
            if more == NO_CURVES {
                check_groups(|arguments| ask(&theirs, arguments));
            } else {
                assert!(negotiated(&ask(&theirs, ""), "X25519"));
            }
        }
        assert!(negotiated(&ask(Path::new("openssl"), ""), "X25519"));
        // Postfix's client.
        let (_stunnel, outside) = stunnel(&lab, "smtp", plain);
        let connect = format!("MAIL_CONFIG=$PWD/mail posttls-finger -c -l encrypt '[127.0.0.1]:{outside}'");
        let output = text(&lab.sh(&connect, none));
        assert_eq!(output.contains("TLS connection established"), more == NO_CURVES, "{output}{}", lab.log());
    }
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn curl_agrees_with_servers_of_newer_releases() {
    if !has_old_openssl() || !is_installed("curl") {
        return;
    }
    let lab = new_lab("groups-curl");
    let ours = with_groups(&lab, ONLY_GROUPS, GROUPS);
    for series in ["3.5", "4.0"] {
        let theirs = command(series);
        // The last two do not take the share of the client: HelloRetryRequest.
        for groups in ["X25519MLKEM768", "X25519MLKEM768:X25519", "X25519", "P-256"] {
            let arguments = format!("-groups {groups}");
            let (_server, port) = End::new(&theirs, Path::new("/dev/null"), &arguments).serve(&lab);
            let output = lab.sh(&format!("curl {} | cmp - answer", page(port, "answer")), &ours);
            assert!(output.status.success(), "{series}, {groups}: {}", text(&output));
        }
    }
}

/// Builds the test program that uses Go's own TLS; `None` if Go is missing or has no such group.
fn go(lab: &Lab) -> Option<PathBuf> {
    let version = Command::new("go").arg("version").output().map_or(String::new(), |output| text(&output));
    // go version go1.26.8 linux/amd64
    let minor = version.split_once("go1.").and_then(|(_, rest)| rest.split(['.', ' ']).next()?.parse::<u32>().ok());
    if minor.is_none_or(|minor| minor < 25) {
        gantry_lab::skip("Go 1.25");
        return None;
    }
    let program = lab.path("peer");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer.go");
    let built = Command::new("go").env("GOTOOLCHAIN", "local").args(["build", "-o"]).arg(&program).arg(source).output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", text(&built));
    Some(program)
}

#[test]
#[ignore = "needs Go: make test-clients"]
fn nginx_and_curl_agree_with_go() {
    if !has_old_openssl() || !is_installed("nginx") || !is_installed("curl") {
        return;
    }
    let lab = new_lab("groups-go");
    let Some(go) = go(&lab) else { return };
    let ours = with_groups(&lab, ONLY_GROUPS, GROUPS);
    let (_server, nginx) = nginx(&lab, &ours);
    for (groups, group) in [("", "X25519MLKEM768"), ("4588", "X25519MLKEM768"), ("29", "X25519"), ("23", "CurveP256")] {
        let mut fetch = Command::new(&go);
        fetch.current_dir(&lab.folder).arg("fetch").arg(nginx.to_string()).args(groups.split_whitespace());
        assert_eq!(text(&fetch.output().unwrap()), format!("{group}\nthe answer"), "{groups}");
    }
    for groups in ["", "4588", "29", "23"] {
        let port = port();
        let mut serve = Command::new(&go);
        serve.current_dir(&lab.folder).arg("serve").arg(port.to_string()).args(groups.split_whitespace());
        let _server = lab.serve(&mut serve, port);
        let group = match groups {
            "29" => "X25519",
            "23" => "CurveP256",
            _ => "X25519MLKEM768",
        };
        assert_eq!(text(&lab.sh(&format!("curl {}", page(port, "")), &ours)), group, "{groups}: {}", lab.log());
    }
}

#[test]
#[ignore = "builds gantry-rustls: make test-clients"]
fn nginx_and_curl_agree_with_rustls() {
    if !has_old_openssl() || !is_installed("nginx") || !is_installed("curl") {
        return;
    }
    let lab = new_lab("groups-rustls");
    let ours = with_groups(&lab, ONLY_GROUPS, GROUPS);
    {
        let (_server, port) = nginx(&lab, &ours);
        let fetched = rustls(&lab, ".", CLIENT).args(["cert.pem", "localhost", &port.to_string()]).output().unwrap();
        let printed = text(&fetched);
        assert!(printed.contains(&format!("\r\n\r\n{NUMBER}")) && printed.contains("X25519MLKEM768"), "{printed}");
        let url = format!("https://localhost:{port}/");
        let fetched = rustls(&lab, LIBRARIES, ["--bin", "reqwest"]).args(["cert.pem", &url]).output().unwrap();
        assert_eq!(text(&fetched), NUMBER);
    }
    let port = port();
    let _server = lab.serve(rustls(&lab, ".", SERVER).args(["cert.pem", "key.pem", "answer", &port.to_string()]), port);
    lab.collect_statistics();
    let output = lab.sh(&format!("curl {} | cmp - answer", page(port, "")), &ours);
    assert!(output.status.success(), "{}{}", text(&output), lab.log());
    assert_eq!(counters(&lab)["X25519MLKEM768"][2], 1);
}

/// Opens a page with Chromium, which finds no other host. Returns the page. Requires that the browser logs the group.
fn browse(lab: &Lab, port: u16) -> String {
    let script = format!(
        "timeout 120 chromium --headless --no-sandbox --disable-gpu --no-proxy-server --ignore-certificate-errors \
         --disable-background-networking --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE localhost' \
         --user-data-dir=$PWD/profile --log-net-log=$PWD/net.json --dump-dom https://localhost:{port}/"
    );
    let output = lab.sh(&script, Path::new("/dev/null"));
    let log = fs::read_to_string(lab.path("net.json")).unwrap_or_default();
    assert!(log.contains("\"key_exchange_group\":4588,"), "{}{log}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs Chromium: make test-clients"]
fn chromium_opens_a_page() {
    if !has_old_openssl() || !is_installed("nginx") || !is_installed("chromium") {
        return;
    }
    let lab = new_lab("groups-chromium");
    let (_server, port) = nginx(&lab, &with_groups(&lab, ONLY_GROUPS, GROUPS));
    let page = browse(&lab, port);
    assert!(page.contains(NUMBER), "{page}");
}

#[test]
#[ignore = "needs Chromium: make test-clients"]
fn chromium_opens_a_page_of_rustls() {
    if !is_installed("chromium") {
        return;
    }
    let lab = new_lab("groups-chromium-rustls");
    lab.write("page", "<!DOCTYPE html><title>A page</title>the answer");
    let port = port();
    let _server = lab.serve(rustls(&lab, ".", SERVER).args(["cert.pem", "key.pem", "page", &port.to_string()]), port);
    let page = browse(&lab, port);
    assert!(page.contains("the answer"), "{page}{}", lab.log());
}

/// Python connects, so the groups of both ends are ours.
#[test]
#[ignore = "long: make test-clients"]
fn memory_stays_flat_over_twenty_thousand_handshakes() {
    if !has_old_openssl() || !is_installed("nginx") || !is_installed("python3") {
        return;
    }
    let lab = new_lab("groups-memory");
    let ours = with_groups(&lab, ONLY_GROUPS, GROUPS);
    let (server, port) = nginx(&lab, &ours);
    // The script prints the memory of nginx's workers and of itself, after the first handshakes and at the end.
    let script = format!(
        "import pathlib, re, socket, ssl\n\
         context = ssl.create_default_context(cafile='cert.pem')\n\
         def memory(process):\n\
         \x20   return int(re.search(r'RssAnon:\\s+(\\d+) kB', pathlib.Path(f'/proc/{{process}}/status').read_text())[1])\n\
         def connect():\n\
         \x20   with context.wrap_socket(socket.create_connection(('127.0.0.1', {port}), 60), server_hostname='localhost') as tls:\n\
         \x20       tls.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n\
         \x20       return b''.join(iter(lambda: tls.recv(4096), b'')).split(b'\\r\\n\\r\\n')[1].decode()\n\
         workers = pathlib.Path('/proc/{0}/task/{0}/children').read_text().split()\n\
         for count in 4000, 20000:\n\
         \x20   groups = {{connect() for _ in range(count)}}\n\
         \x20   print(*groups, count, sum(map(memory, workers)), memory('self'))\n",
        server.0.id()
    );
    let printed = text(&lab.command("python3", &ours).args(["-c", &script]).output().unwrap());
    let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.split(' ').collect()).collect();
    let [before, after] = &rows[..] else { panic!("{printed}") };
    assert_eq!((&before[..2], &after[..2]), (&[NUMBER, "4000"][..], &[NUMBER, "20000"][..]), "{printed}");
    for (before, after) in before[2..].iter().zip(&after[2..]) {
        let grown = after.parse::<i64>().unwrap() - before.parse::<i64>().unwrap();
        // A key of a client, which has 2 KiB, would take 40 MiB.
        assert!(grown < 1024, "{grown} KiB: {printed}");
    }
}
