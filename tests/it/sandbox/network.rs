//! The network of the box `strict`: nothing leads out of it but the proxy, and the proxy only to
//! the hosts of the list. All of it stays on this machine: what is to be reached listens at its
//! loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::thread;

use serde_json::{Value, json};

use super::{REFUSED, can_hold, doctor, results};
use crate::harness::{
    Attempt, Board, Provost, eventually, is_root, left_out, needs, processes, wait_until,
};

/// What the commands are written in. Without the proxy they go straight to where they want to, so
/// the same command shows that there is a way.
const NET: &str = r#"import os, socket, sys, urllib.request
socket.setdefaulttimeout(5)
proxied = os.environ.get("HTTP_PROXY") == "http://127.0.0.1:3128"
def show(data):
    print(data.decode("latin-1"))
    sys.exit(0 if b"secret" in data else 1)
def read(s):
    data = b""
    try:
        while part := s.recv(65536):
            data += part
    except OSError:
        pass
    return data
def raw(host, port):
    s = socket.create_connection((host, port))
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    show(read(s))
def udp(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect((host, port))
    s.send(b"\x12\x34\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1")
    show(s.recv(100))
def ask(text, port):
    if not proxied:
        raw("127.0.0.1", port)
    s = socket.create_connection(("127.0.0.1", 3128))
    if text.endswith("\n\n"):
        text = text[:-1] + "Connection: close\n\n"
    s.sendall(text.encode("latin-1").replace(b"\n", b"\r\n"))
    show(read(s))
def connect(target, port, host="127.0.0.1"):
    if not proxied:
        raw(host, port)
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n".encode())
    head = s.recv(65536)
    if b" 200 " not in head:
        show(head + read(s))
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    show(read(s))
def get(url):
    opener = urllib.request.build_opener(*([] if proxied else [urllib.request.ProxyHandler({})]))
    try:
        show(opener.open(url).read())
    except urllib.error.HTTPError as error:
        show(str(error.code).encode() + error.read())
"#;

/// Ways to what is not allowed, and the word by which the proxy's log has them, if the proxy sees
/// them. `P` is the port of an allowed server, and the others of servers that are not allowed.
const WAYS: &[(&str, &str, &str)] = &[
    ("a connection to this machine", "raw('127.0.0.1', {Q})", ""),
    ("another address of it", "raw('127.0.0.2', {Q2})", ""),
    ("IPv4 in IPv6", "raw('::ffff:127.0.0.1', {Q})", ""),
    ("IPv6", "raw('::1', {Q6})", ""),
    ("a datagram that asks for a name", "udp('127.0.0.1', {U})", ""),
    ("an address", "connect('127.0.0.1:{Q}', {Q})", "\"127.0.0.1:{Q}\""),
    ("an IPv6 address", "connect('[::1]:{Q6}', {Q6}, '::1')", "\"[::1]:{Q6}\""),
    ("IPv4 in IPv6", "connect('[::ffff:127.0.0.1]:{Q}', {Q})", "\"[::ffff:127.0.0.1]:{Q}\""),
    ("the same in hexadecimal", "connect('[::ffff:7f00:1]:{Q}', {Q})", "\"[::ffff:7f00:1]:{Q}\""),
    ("a decimal address", "connect('2130706433:{Q}', {Q})", "\"2130706433:{Q}\""),
    ("an octal address", "connect('0177.0.0.1:{Q}', {Q})", "\"0177.0.0.1:{Q}\""),
    ("a hexadecimal address", "connect('0x7f000001:{Q}', {Q})", "\"0x7f000001:{Q}\""),
    ("a short address", "connect('127.1:{Q}', {Q})", "\"127.1:{Q}\""),
    ("an address with a point", "connect('127.0.0.1.:{Q}', {Q})", "\"127.0.0.1.:{Q}\""),
    ("the address of all interfaces", "connect('0.0.0.0:{Q}', {Q})", "\"0.0.0.0:{Q}\""),
    ("a name", "connect('localhost:{Q}', {Q})", "\"localhost:{Q}\""),
    ("a name with a point", "connect('localhost.:{Q}', {Q})", "\"localhost.:{Q}\""),
    ("a name in upper case", "connect('LOCALHOST:{Q}', {Q})", "\"LOCALHOST:{Q}\""),
    ("an allowed name that leads here", "connect('{name}:{Q}', {Q})", "\"{name}:{Q}\""),
    ("the end of an allowed name", "connect('xlocalhost:{P}', {Q})", "\"xlocalhost:{P}\""),
    ("the same port of the proxy outside", "connect('127.0.0.1:3128', {Q})", "\"127.0.0.1:3128\""),
    ("another port of an allowed name", "connect('localhost:22', {Q})", "\"localhost:22\""),
    (
        "a user that looks like the host",
        "ask('CONNECT localhost:{P}@127.0.0.1:{Q} HTTP/1.1\\n\\n', {Q})",
        "localhost:{P}@127.0.0.1:{Q}",
    ),
    (
        "a header beside the tunnel",
        "ask('CONNECT localhost:{P} HTTP/1.1\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})",
        "localhost:{P}",
    ),
    (
        "a header beside the URL",
        "ask('GET http://127.0.0.1:{P}/a HTTP/1.1\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})",
        "127.0.0.1:{P}/a",
    ),
    (
        "two headers",
        "ask('GET http://127.0.0.1:{P}/b HTTP/1.1\\nHost: 127.0.0.1:{P}\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})",
        "127.0.0.1:{P}/b",
    ),
    (
        "a whole URL",
        "ask('GET http://127.0.0.1:{Q}/ HTTP/1.1\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})",
        "127.0.0.1:{Q}",
    ),
    (
        "a URL of HTTPS",
        "ask('GET https://127.0.0.1:{P}/c HTTP/1.1\\nHost: 127.0.0.1:{P}\\n\\n', {Q})",
        "https://127.0.0.1:{P}/c",
    ),
    ("a path alone", "ask('GET /d HTTP/1.1\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})", "\"/d\""),
    (
        "a second request behind an allowed one",
        "ask('GET http://127.0.0.1:{P}/ HTTP/1.1\\nHost: 127.0.0.1:{P}\\n\\nGET http://127.0.0.1:{Q}/ HTTP/1.1\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})",
        "127.0.0.1:{Q}",
    ),
    (
        "a tunnel in a tunnel",
        "ask('CONNECT 127.0.0.1:{P} HTTP/1.1\\nHost: 127.0.0.1:{P}\\n\\nCONNECT 127.0.0.1:{Q} HTTP/1.1\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})",
        "",
    ),
    (
        "a request in another one's body",
        "ask('POST http://127.0.0.1:{P}/e HTTP/1.1\\nHost: 127.0.0.1:{P}\\nContent-Length: 5\\nTransfer-Encoding: chunked\\n\\n0\\n\\nGET http://127.0.0.1:{Q}/ HTTP/1.1\\nHost: 127.0.0.1:{Q}\\n\\n', {Q})",
        "",
    ),
    (
        "an upgrade",
        "ask('GET http://127.0.0.1:{Q}/ HTTP/1.1\\nHost: 127.0.0.1:{Q}\\nConnection: Upgrade\\nUpgrade: websocket\\n\\n', {Q})",
        "127.0.0.1:{Q}",
    ),
    ("a redirect", "get('http://127.0.0.1:{P}/redirect')", "127.0.0.1:{Q}"),
    ("SOCKS", "ask('\\x05\\x01\\x00\\x05\\x01\\x00\\x01\\x7f\\x00\\x00\\x01', {Q})", ""),
];

/// Ways that take root, or what not every machine has.
const PRIVILEGED: &[&str] = &[
    "nsenter --net=/proc/{daemon}/ns/net true",
    "unshare -Urn true",
    "unshare -n true",
    "python3 -c 'import socket; socket.socket(17, 3)'",
    "python3 -c 'import socket; socket.socket(40, 1)'",
    "python3 -c 'import socket; socket.socket(38, 5)'",
    "ip link add name x{who} type dummy && ip link del x{who}",
];

/// A server at the loopback that answers every request with a text, and sends some on.
fn serve(address: &str, text: &'static str, on: u16) -> Option<u16> {
    let listener = TcpListener::bind(address).ok()?;
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            let answer = if bytes[..count].starts_with(b"GET /redirect") {
                format!(
                    "302 Found\r\nLocation: http://127.0.0.1:{on}/\r\nContent-Length: 0\r\n\r\n"
                )
            } else {
                format!("200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
            };
            let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
        }
    });
    Some(port)
}

/// The same for datagrams.
fn serve_datagrams() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((_, from)) = socket.recv_from(&mut [0; 512]) {
            let _ = socket.send_to(b"secret", from);
        }
    });
    port
}

/// A name beside `localhost` that leads to this machine, by the machine's own table.
fn name_of_this_machine() -> Option<String> {
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let is_here = words.next().is_some_and(|address| address.starts_with("127."));
        is_here.then(|| words.collect::<Vec<_>>())
    };
    let mut names = hosts.lines().filter_map(of_line).flatten();
    names.find(|name| name != "localhost" && name.bytes().all(|it| it.is_ascii_lowercase()))
}

/// Whether this machine can hold the box with its network.
fn can_hold_network(provost: &Provost) -> bool {
    can_hold()
        && (doctor(provost).contains("and strict")
            || left_out("it takes network namespaces for everyone"))
}

fn python(line: &str) -> String {
    format!("python3 -c \"from net import *; {line}\"")
}

/// How commands of an attempt ended, its status, and what its proxy has decided.
fn ran(
    board: &Board<'_>,
    executor: &str,
    commands: &[String],
) -> (Vec<(i64, String)>, Value, String) {
    let lines: Vec<String> = commands.iter().map(|command| format!("run {command}")).collect();
    let attempt = board.start(executor, &lines.join("\n"));
    let status = attempt.settled();
    let results = results(&attempt);
    assert_eq!(results.len(), commands.len(), "{:?}", attempt.normalized());
    (results, status, log(&attempt))
}

/// All decisions of the proxy of its last process.
fn log(attempt: &Attempt) -> String {
    fs::read_to_string(attempt.dir().join("network.log")).unwrap_or_default()
}

/// The proxies that work below a folder.
fn proxies(provost: &Provost) -> Vec<i32> {
    let is_proxy = |pid: &i32| processes::name(*pid) == "provost-proxy";
    processes::working_below(provost.home()).into_iter().filter(is_proxy).collect()
}

#[test]
fn no_way_leads_to_a_host_that_is_not_allowed() {
    let provost = Provost::new();
    if !can_hold_network(&provost) {
        return;
    }
    let other = serve("127.0.0.1:0", "secret", 0).unwrap();
    let open = serve("127.0.0.1:0", "allowed", other).unwrap();
    let second = serve("127.0.0.2:0", "secret", 0).unwrap();
    let (six, udp) = (serve("[::1]:0", "secret", 0), serve_datagrams());
    let name = name_of_this_machine();
    let known = name.clone().unwrap_or_else(|| "localhost".to_owned());
    let config = format!(
        "[executors.free]\nprotocol = 'fake'\n\
         [executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'\n\
         allow_hosts = ['127.0.0.1:{open}', 'localhost:{open}', 'x.{known}', '{known}x:{other}']\n",
    );
    let config = match &name {
        Some(name) => config.replace("'x.", &format!("'{name}:{other}', 'x.")),
        None => config,
    };
    let provost = provost.config(&config).started();
    let board = provost.board();
    board.repo().commit("net.py", NET);
    let socket = format!("provost-net-{}", provost.pid());
    let address = SocketAddr::from_abstract_name(&socket).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();

    let fill = |text: &str, who: &str| {
        let ports = [
            ("{Q}", other),
            ("{Q2}", second),
            ("{Q6}", six.unwrap_or(other)),
            ("{P}", open),
            ("{U}", udp),
        ];
        let text = ports
            .iter()
            .fold(text.to_owned(), |it, (key, port)| it.replace(key, &port.to_string()));
        let text = text.replace("{name}", &known).replace("{who}", who);
        text.replace("{daemon}", &provost.pid().to_string())
    };
    let commands = |who: &str| {
        let ways = WAYS.iter().map(|(_, line, _)| python(line));
        let privileged = PRIVILEGED.iter().map(|&it| it.to_owned());
        let connect = format!("import socket; socket.socket(1).connect('\\0{socket}')");
        let more = std::iter::once(format!("python3 -c \"{connect}\"")).chain(privileged);
        ways.chain(more).map(|command| fill(&command, who)).collect::<Vec<_>>()
    };
    let (free, ..) = ran(&board, "free", &commands("free"));
    let (strict, status, log) = ran(&board, "strict", &commands("strict"));
    let mut wrong = Vec::new();
    for (number, ((name, line, seen), (free, strict))) in
        WAYS.iter().zip(free.iter().zip(&strict)).enumerate()
    {
        let is_there = !(line.contains("{Q6}") && six.is_none());
        if free.0 != 0 && is_there {
            wrong.push(format!("{number} {name} does not work without a box: {free:?}"));
        }
        if strict.0 == 0 || strict.1.contains("secret") {
            wrong.push(format!("{number} {name} gets out: {}", strict.1));
        }
        let is_refused = |line: &str| line.contains(&fill(seen, "")) && !line.contains("null");
        if !log.lines().any(is_refused) {
            wrong.push(format!("{number} {name} is not in the log: {}", strict.1));
        }
    }
    for (command, (free, strict)) in
        commands("x").iter().zip(free.iter().zip(&strict)).skip(WAYS.len())
    {
        if free.0 != 0 {
            eprintln!("not possible here: {command}: {}", free.1);
        } else if strict.0 == 0
            || !REFUSED.iter().chain(&["refused"]).any(|it| strict.1.contains(it))
        {
            wrong.push(format!("{command}: {strict:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{log}", wrong.join("\n"));
    let receipt = &status["sandbox"];
    assert_eq!(
        (&receipt["level"], &receipt["mechanism"]),
        (&json!("strict"), &json!("landlock+seccomp+netns"))
    );
    assert!(receipt["enforced"].as_array().unwrap().contains(&json!("network")), "{receipt}");
    let refusals = receipt["hosts"]["newest_refusals"].as_array().unwrap();
    assert_eq!(refusals.len(), 20, "{receipt}");
    assert!(receipt["hosts"]["refused"].as_u64().unwrap() >= 25, "{receipt}");
    let redirected = refusals.iter().find(|it| it["host"] == format!("127.0.0.1:{other}"));
    assert!(redirected.unwrap()["reason"].as_str().unwrap().contains("other ports"), "{receipt}");
    if name.is_none() {
        left_out("it takes a name of this machine in /etc/hosts");
    }
}

#[test]
fn what_is_allowed_is_reached_and_work_can_be_done() {
    let provost = Provost::new();
    if !can_hold_network(&provost) {
        return;
    }
    works(provost, false);
}

#[test]
fn a_user_without_privileges_has_a_network_of_their_own_too() {
    let provost = Provost::new();
    if !can_hold_network(&provost) || !is_root() {
        return;
    }
    works(provost, true);
}

/// Does the work of an attempt in the box, and reaches the hosts that are allowed.
fn works(provost: Provost, is_unprivileged: bool) {
    let open = serve("127.0.0.1:0", "secret", 0).unwrap();
    let config = format!(
        "[sandbox]\nallow_hosts = ['127.0.0.1:{open}']\n\
         [executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'\n\
         [executors.strict.variants.more]\nallow_hosts = ['localhost:{open}']\n"
    );
    let provost = provost.config(&config);
    let repo = provost.repo("app");
    repo.commit("net.py", NET);
    let provost = if is_unprivileged { provost.unprivileged() } else { provost }.started();
    let board = Board::new(&provost, vec![repo]);
    let program = provost.program().display().to_string();
    let hello = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "get_context", "arguments": {}},
    });
    let commands = [
        python(&format!("get('http://127.0.0.1:{open}/')")),
        python(&format!("raw('127.0.0.1', {open})")),
        python(&format!("connect('127.0.0.1:{open}', 0)")),
        python(&format!("connect('LocalHost.:{open}', 0)")),
        python(&format!("connect('[::ffff:127.0.0.1]:{open}', 0)")),
        // Two requests, one connection.
        python(&format!("ask('GET http://localhost:{open}/ HTTP/1.1\\nHost: localhost:{open}\\n\\nGET http://127.0.0.1:{open}/ HTTP/1.1\\n\\n', 0)")),
        "echo a > a && git add a && git commit --quiet -m one && git status --short".to_owned(),
        "[ $(stat -c %u a) = $(id -u) ] && [ $(id -u) != 65534 -o $(stat -c %u a) = 65534 ] && id".to_owned(),
        // Its own loopback.
        "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(s.getsockname())'".to_owned(),
        "python3 -c 'import socket; s = socket.create_server((\"::1\", 0), family=10); socket.create_connection(s.getsockname()[:2])'".to_owned(),
        format!("printf '%s\\n%s\\n' '{hello}' '{call}' | '{program}' mcp --role worker"),
    ];
    let lines: Vec<String> = commands.iter().map(|it| format!("run {it}")).collect();
    let prompt = json!({"prompt": lines.join("\n"), "variant": "more"});
    let attempt = board.start_with("strict", &prompt);
    let status = attempt.settled();
    let results = results(&attempt);
    for (command, (code, text)) in commands.iter().zip(&results) {
        assert_eq!(*code, 0, "{command}: {text}");
    }
    assert!(results[10].1.contains(&attempt.id), "{:?}", results[10]);
    assert_eq!(results[5].1.matches("secret").count(), 2, "{:?}", results[5]);
    let hosts = &status["sandbox"]["hosts"];
    assert_eq!((&hosts["allowed"], &hosts["refused"]), (&json!(7), &json!(0)), "{hosts}");
    let notices = attempt.said("system_message");
    assert!(notices.iter().any(|text| text.contains("syscalls, network")), "{notices:?}");
    // The variant's host is not the executor's.
    let less = board
        .start("strict", &format!("run {}", python(&format!("connect('localhost:{open}', 0)"))));
    let status = less.settled();
    assert_eq!(status["sandbox"]["hosts"]["refused"], 1, "{status}");
    let refused = &super::results(&less)[0].1;
    assert!(refused.contains("403") && refused.contains("allow_hosts"), "{refused}");
    wait_until("no proxy is left", || proxies(&provost).is_empty());
}

#[test]
fn the_network_stays_as_it_is_when_daemon_and_shim_are_killed() {
    let provost = Provost::new();
    if !can_hold_network(&provost) {
        return;
    }
    let (open, other) =
        (serve("127.0.0.1:0", "secret", 0).unwrap(), serve("127.0.0.1:0", "secret", 0).unwrap());
    let config = format!(
        "[executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'\nallow_hosts = ['127.0.0.1:{open}']\n"
    );
    let provost = provost.config(&config).started();
    let board = provost.board();
    board.repo().commit("net.py", NET);
    let late = |line: String| {
        format!(
            "run setsid -w sh -c 'until [ -e go ]; do sleep 0.02; done; exec {}'",
            python(&line)
        )
    };
    let script = [
        late(format!("get(\\\"http://127.0.0.1:{open}/\\\")")),
        late(format!("connect(\\\"127.0.0.1:{other}\\\", 0)")),
        late(format!("raw(\\\"127.0.0.1\\\", {other})")),
    ];
    let attempt = board.start("strict", &script.join("\n"));
    attempt.in_phase("running");
    let proxy = proxies(&provost);
    assert_eq!(proxy.len(), 1, "{proxy:?}");
    provost.kill_and_start();
    attempt.in_phase("running");
    let shim = attempt.shim();
    processes::kill_hard(shim);
    wait_until("another shim has it", || attempt.shim() != shim);
    attempt.in_phase("running");
    assert_eq!(proxies(&provost), proxy);
    let folder = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    fs::write(folder.join("go"), "").unwrap();
    let status = attempt.settled();
    let results = results(&attempt);
    let codes: Vec<bool> = results.iter().map(|(code, _)| *code == 0).collect();
    assert_eq!(codes, [true, false, false], "{results:?}");
    let hosts = &status["sandbox"]["hosts"];
    assert_eq!((&hosts["allowed"], &hosts["refused"]), (&json!(1), &json!(1)), "{hosts}");
    wait_until("its proxy has ended", || proxies(&provost).is_empty());
}

#[test]
fn a_name_that_leads_to_a_public_address_of_this_machine_is_refused() {
    let provost = Provost::new();
    if !can_hold_network(&provost) || !is_root() || !needs(&[("ip", "ip"), ("mount", "mount")]) {
        return;
    }
    let config = "[executors.free]\nprotocol = 'fake'\n\
        [executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'\nallow_hosts = ['here.example:80']\n\
        [executors.strict.variants.listed]\nallow_hosts = ['8.8.4.4:80']\n";
    let provost = provost.config(config);
    let hosts = provost.path("hosts");
    fs::write(&hosts, "8.8.4.4 here.example\n").unwrap();
    let inside = format!(
        "ip link set lo up && ip addr add 8.8.4.4/32 dev lo && mount --bind {} /etc/hosts && exec \"$@\"",
        hosts.display()
    );
    // A network of the daemon's own, in which the address is this machine's.
    provost.start_by(&["unshare", "--net", "--mount", "sh", "-c", &inside, "sh"]);
    let board = provost.board();
    board.repo().commit("net.py", NET);
    board.repo().commit("page", "secret");
    let server = board.start("free", "run python3 -m http.server 80 --bind 0.0.0.0");
    server.in_phase("running");
    let get = python("get('http://here.example/page')");
    let way = format!("until {get} > /dev/null 2>&1; do sleep 0.05; done; {get}");
    let (free, ..) = ran(&board, "free", &[way]);
    assert_eq!(free[0].0, 0, "{free:?}");
    let (strict, _, log) = ran(&board, "strict", std::slice::from_ref(&get));
    assert!(strict[0].0 != 0 && strict[0].1.contains("an address of this machine"), "{strict:?}");
    assert!(log.contains("here.example"), "{log}");
    let more = json!({"prompt": format!("run {get}"), "variant": "listed"});
    let listed = board.start_with("strict", &more);
    listed.settled();
    assert_eq!(results(&listed)[0].0, 0, "{:?}", results(&listed));
    server.stop();
}

#[test]
fn without_its_proxy_the_network_is_closed() {
    let provost = Provost::new();
    if !can_hold_network(&provost) {
        return;
    }
    let open = serve("127.0.0.1:0", "secret", 0).unwrap();
    let config = format!(
        "[executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'\nallow_hosts = ['127.0.0.1:{open}']\n"
    );
    let provost = provost.config(&config).started();
    let board = provost.board();
    board.repo().commit("net.py", NET);
    let get = python(&format!("get('http://127.0.0.1:{open}/')"));
    let attempt =
        board.start("strict", &format!("run until [ -e go ]; do sleep 0.02; done\nrun {get}"));
    attempt.in_phase("running");
    let proxy = proxies(&provost);
    processes::kill_hard(proxy[0]);
    wait_until("it is dead", || !processes::is_alive(proxy[0]));
    let folder = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    fs::write(folder.join("go"), "").unwrap();
    attempt.settled();
    let results = results(&attempt);
    assert!(results[1].0 != 0 && results[1].1.contains("refused"), "{results:?}");
}

#[test]
fn a_host_is_allowed_for_an_attempt_by_a_person_and_by_no_agent() {
    let provost = Provost::new();
    if !can_hold_network(&provost) {
        return;
    }
    let (open, other) =
        (serve("127.0.0.1:0", "secret", 0).unwrap(), serve("127.0.0.1:0", "secret", 0).unwrap());
    let provost =
        provost.config("[executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'\n").started();
    let board = provost.board();
    board.repo().commit("net.py", NET);
    let again = |port: u16| {
        let get = python(&format!("connect('LOCALHOST:{port}', 0)"));
        format!("run until {get} || [ -e stop ]; do sleep 0.1; done; {get}")
    };
    let attempt = board.start("strict", &format!("{}\n{}", again(open), again(other)));
    let asked = |host: String| {
        let pending = provost.call("list_inbox", &json!({"attempt_id": attempt.id}));
        let pending = pending["approvals"].as_array().unwrap().clone();
        let is_it = |it: &&Value| it["text"].as_str().unwrap().contains(&host);
        pending.iter().find(is_it).map(|it| it["approval_id"].clone())
    };
    let first = eventually("it asks", || asked(format!("localhost:{open}")));
    let approve = json!({"approval_id": first, "decision": "approve"});
    let mut agent = provost.bridge();
    agent.initialize();
    let refusal = agent.call("answer", &approve).refusal();
    assert_eq!(refusal["code"], "not_permitted", "{refusal}");
    // It is asked for once, also over a restart.
    provost.kill_and_start();
    // The agent goes on, and so the attempt does not wait.
    attempt.in_phase("running");
    assert_eq!(asked(format!("localhost:{open}")), Some(first.clone()));
    let done = provost.verb(["approve", first.as_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    let second = eventually("it asks for the other one", || asked(format!("localhost:{other}")));
    let done = provost.verb(["deny", second.as_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    let folder = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    fs::write(folder.join("stop"), "").unwrap();
    let status = attempt.settled();
    let codes: Vec<bool> = results(&attempt).iter().map(|(code, _)| *code == 0).collect();
    assert_eq!(codes, [true, false], "{:?}", results(&attempt));
    // The next turn has it too.
    let prompt = format!("run {}", python(&format!("connect('localhost:{open}', 0)")));
    let next =
        json!({"session_id": status["latest_session_id"], "action": "send", "prompt": prompt});
    provost.call("follow_up", &next);
    attempt.until("the second turn is over", |it| {
        it["phase"] == "settled" && it["latest_snapshot_turn"] == 2
    });
    assert_eq!(results(&attempt)[2].0, 0, "{:?}", results(&attempt));
}

#[test]
fn a_question_for_a_host_outlives_its_turn_and_is_asked_once() {
    let provost = Provost::new();
    if !can_hold_network(&provost) {
        return;
    }
    let [open, denied, late] = [(); 3].map(|()| serve("127.0.0.1:0", "secret", 0).unwrap());
    let provost =
        provost.config("[executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'\n").started();
    let board = provost.board();
    board.repo().commit("net.py", NET);
    let connect = |port: u16| format!("run {}", python(&format!("connect('localhost:{port}', 0)")));
    let gate = |name: &str| format!("run until [ -e {name} ]; do sleep 0.02; done");
    let attempt = board.start("strict", &[connect(open), connect(denied), gate("one")].join("\n"));
    let all = || {
        provost.rows(
            "SELECT json_extract(request, '$.context.host') || ' ' || status FROM approvals
             ORDER BY approval_id",
        )
    };
    let are = |expected: &[(u16, &str)]| {
        let line = |(port, status): &(u16, &str)| format!("localhost:{port} {status}");
        let expected: Vec<String> = expected.iter().map(line).collect();
        wait_until("the questions are so", || all() == expected);
    };
    are(&[(open, "pending"), (denied, "pending")]);
    assert_eq!(attempt.status()["phase"], "running");
    let folder = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    fs::write(folder.join("one"), "").unwrap();
    let status = attempt.settled();
    are(&[(open, "pending"), (denied, "pending")]);
    // Answered after the turn, by the next daemon.
    provost.kill_and_start();
    let pending = provost.call("list_inbox", &json!({"attempt_id": attempt.id}));
    let of = |port: u16| {
        let host = format!("localhost:{port}");
        let all = pending["approvals"].as_array().unwrap();
        let found = all.iter().find(|it| it["text"].as_str().unwrap().contains(&host)).unwrap();
        found["approval_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(provost.verb(["approve", &of(open)]).code, 0);
    assert_eq!(provost.verb(["deny", &of(denied)]).code, 0);
    let prompt = [connect(open), connect(denied), connect(late), gate("two")].join("\n");
    let next =
        json!({"session_id": status["latest_session_id"], "action": "send", "prompt": prompt});
    provost.call("follow_up", &next);
    are(&[(open, "approved"), (denied, "denied"), (late, "pending")]);
    fs::write(folder.join("two"), "").unwrap();
    attempt.saved(2);
    let codes: Vec<bool> = results(&attempt).iter().map(|(code, _)| *code == 0).collect();
    assert_eq!(codes[3..], [true, false, false, true], "{:?}", results(&attempt));
    // With its worktrees the last question goes.
    assert_eq!(provost.verb(["rm", &attempt.id]).code, 0);
    are(&[(open, "approved"), (denied, "denied"), (late, "withdrawn")]);
}

#[test]
fn a_host_is_asked_for_once_in_a_project_and_what_is_refused_is_not_asked_for() {
    let provost = Provost::new();
    if !can_hold_network(&provost) {
        return;
    }
    let [open, refused] = [(); 2].map(|()| serve("127.0.0.1:0", "secret", 0).unwrap());
    let provost = provost
        .config("[executors.strict]\nprotocol = 'fake'\nsandbox = 'strict'")
        .config(&format!("refuse_hosts = ['localhost:{refused}']"))
        .started();
    let board = provost.board();
    board.repo().commit("net.py", NET);
    let connect = |port: u16| python(&format!("connect('localhost:{port}', 0)"));
    let until = format!("run until {}; do sleep 0.1; done", connect(open));
    let prompt = format!("run {}\n{until}", connect(refused));
    let asking = [0, 1, 2, 3].map(|_| board.start("strict", &prompt));
    let all = || provost.call("list_inbox", &json!({}))["approvals"].as_array().unwrap().clone();
    let asked = eventually("one asks", || all().first().cloned());
    for attempt in &asking {
        // All of them were refused at least once.
        eventually("it was refused", || {
            let hosts = attempt.status()["sandbox"]["hosts"].clone();
            (hosts["refused"].as_u64()? > 2).then_some(())
        });
    }
    assert_eq!(all().len(), 1, "{:?}", all());
    assert!(asked["text"].as_str().unwrap().contains(&open.to_string()), "{asked}");
    let id = asked["approval_id"].as_str().unwrap();
    assert_eq!(provost.verb(["approve", id]).code, 0);
    for attempt in &asking {
        attempt.settled();
        let refusal = &results(attempt)[0].1;
        assert!(refusal.contains("403") && !refusal.contains("provost approvals"), "{refusal}");
        assert_eq!(results(attempt)[1].0, 0);
    }
    // A later attempt has it from the beginning, and another project has not.
    let later = board.start("strict", &format!("run {}", connect(open)));
    later.settled();
    assert_eq!(results(&later)[0].0, 0, "{:?}", results(&later));
    let repo = provost.repo("other");
    repo.commit("net.py", NET);
    let other = Board::new(&provost, vec![repo]);
    let elsewhere = other.start("strict", &format!("run {}", connect(open)));
    elsewhere.settled();
    assert_ne!(results(&elsewhere)[0].0, 0);
    eventually("it asks", || (all().len() == 1).then_some(()));
}
